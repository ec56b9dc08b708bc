/* The kernels that pass over single rows, of every usable table, against the scalar table's; exp2 and log against double as well.
 */
#include "kernels_common.h"
#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_WITNESS 0x1.2a28dcp+0f

static float any_of(struct rng *rng, const float *values, int64_t n) { return values[rng_range(rng, 0, n - 1)]; }

static int64_t any_length(struct rng *rng) {
    static const int64_t lengths[] = {255, 256, 257, 300, 511, 512, 513, 1000};
    return rng_range(rng, 0, 3) ? rng_range(rng, 0, 70) : lengths[rng_range(rng, 0, 7)];
}

/* The arguments of the row kernels; each takes those that it has. */
struct row {
    const float *x;
    int64_t n;
    float factor, max, sum;
    float *y;
};
typedef void row_kernel(const struct heed_kernels *table, const struct row *row);

static void call_scale_rows(const struct heed_kernels *table, const struct row *r) {
    table->scale_rows(r->x, HEED_F32, 0, 1, r->n, r->factor, r->y, 0);
}
static void call_store_row(const struct heed_kernels *table, const struct row *r) { table->store_row(r->x, r->n, r->factor, r->y); }
static void call_finish_rows(const struct heed_kernels *table, const struct row *r) {
    table->finish_rows(r->x, 0, &r->sum, 1, r->n, r->y, HEED_F32, 0);
}
static void call_softmax_rows(const struct heed_kernels *table, const struct row *r) {
    table->softmax_rows(&(struct heed_softmax_rows){
        .x = r->x, .ldx = r->n, .rows = 1, .columns = r->n, .factor = r->factor, .y = r->y, .ldy = r->n});
}
static void call_softmax_rows_streamed(const struct heed_kernels *table, const struct row *r) {
    table->softmax_rows(&(struct heed_softmax_rows){
        .x = r->x, .ldx = r->n, .rows = 1, .columns = r->n, .factor = r->factor, .y = r->y, .ldy = r->n, .stream = true});
}
static void call_weights_row(const struct heed_kernels *table, const struct row *r) {
    table->weights_row(r->y, r->n, r->max, r->sum);
}
static void call_exp2(const struct heed_kernels *table, const struct row *r) { table->exp2(r->x, r->n, r->y); }

static const struct row_test {
    const char *name;
    row_kernel *call;
    enum likeness likeness;
    bool in_place;    /* y may be x */
    bool nonpositive; /* x <= 0 */
} row_tests[] = {
    {"scale_rows", call_scale_rows, ANY_NAN, false, false},
    {"store_row", call_store_row, SAME_BITS, false, false},
    {"finish_rows", call_finish_rows, SAME_BITS, false, false},
    {"softmax_rows", call_softmax_rows, SAME_BITS, true, false},
    {"softmax_rows, streamed", call_softmax_rows_streamed, SAME_BITS, true, false},
    {"weights_row", call_weights_row, SAME_BITS, true, false},
    {"exp2", call_exp2, ANY_NAN, false, true},
};
enum { ROW_TESTS = sizeof row_tests / sizeof *row_tests };

static void compute_row(const struct heed_kernels *table, const struct row_test *test, struct row row, bool in_place,
                        struct rng *rng, float *result) {
    struct tensor x = matrix(1, row.n, row.n, any_placement(rng), row.x);
    struct tensor y = matrix(1, row.n, row.n, any_placement(rng), NULL);
    if (in_place)
        tensor_put(&y, row.x);
    row.x = in_place ? y.data : x.data;
    row.y = y.data;
    test->call(table, &row);
    must(tensor_take(&y, result));
    must(tensor_unchanged(&x));
    tensor_free(&x);
    tensor_free(&y);
}

static void check_row(const struct heed_kernels *table, const struct row_test *test, struct rng *rng) {
    static const float factors[] = {1, -1, 0.125f, -0.18033688f, 3e38f, 1e-40f}, sums[] = {0, 1, 3.7f, 1e-38f, INFINITY, NAN};
    enum fill mode = any_fill(rng);
    struct row row = {.n = any_length(rng), .factor = any_of(rng, factors, 6), .sum = any_of(rng, sums, 6)};
    bool in_place = test->call == call_weights_row || (test->in_place && rng_range(rng, 0, 1));
    float *x = new_filled(rng, mode, row.n), *got = new_floats(row.n), *want = new_floats(row.n);
    for (int64_t i = 0; i < row.n; i++) {
        x[i] = test->nonpositive ? -fabsf(x[i]) : x[i];
        row.max = i == 0 || x[i] > row.max ? x[i] : row.max;
        row.sum = isnan(x[i]) && test->call == call_weights_row ? NAN : row.sum; /* as it is in attention */
    }
    row.x = x;
    describe(test->name, table->name, "n %lld, factor %g, max %g, sum %g, %s%s", (long long)row.n, (double)row.factor,
             (double)row.max, (double)row.sum, fill_name(mode), in_place ? ", in place" : "");
    compute_row(table, test, row, in_place, rng, got);
    compute_row(scalar_kernels(), test, row, false || test->call == call_weights_row, rng, want);
    must(compare(test->likeness, got, want, 1, row.n));
    free(x);
    free(got);
    free(want);
}

START_TEST(test_rows) {
    for (int i = 0; i < ROW_TESTS; i++) {
        struct rng rng = rng_for(row_tests[i].name, 0);
        for (int64_t repeat = 0; repeat < test_count(1000); repeat++)
            check_row(heed_kernels_usable(_i), &row_tests[i], &rng);
    }
}
END_TEST

/* Many rows, any strides apart, are what one after another would be; what lies between them is not touched. */
static void check_many_rows(const struct heed_kernels *table, struct rng *rng) {
    const int64_t rows = rng_range(rng, 0, 7), n = rng_range(rng, 1, 70);
    const int64_t ldx = n + rng_range(rng, 0, 3), ldy = n + rng_range(rng, 0, 3);
    const float sums[] = {2.5f, 0, 1e-38f, INFINITY, NAN, 3, 7};
    float *data = new_filled(rng, FILL_NORMAL, rows * n), *got = new_floats(rows * n), *want = new_floats(rows * n);
    struct tensor x = matrix(rows, n, ldx, any_placement(rng), data);
    for (int finishes = 0; finishes < 2; finishes++) {
        struct tensor y = matrix(rows, n, ldy, any_placement(rng), NULL);
        describe(finishes ? "finish_rows" : "scale_rows", table->name, "%lld x %lld", (long long)rows, (long long)n);
        if (finishes)
            table->finish_rows(x.data, ldx, sums, rows, n, y.data, HEED_F32, ldy);
        else
            table->scale_rows(x.data, HEED_F32, ldx, rows, n, -0.375f, y.data, ldy);
        for (int64_t i = 0; i < rows; i++)
            if (finishes)
                scalar_kernels()->finish_rows(data + i * n, 0, &sums[i], 1, n, want + i * n, HEED_F32, 0);
            else
                scalar_kernels()->scale_rows(data + i * n, HEED_F32, 0, 1, n, -0.375f, want + i * n, 0);
        must(tensor_take(&y, got));
        must(compare(SAME_BITS, got, want, rows, n));
        tensor_free(&y);
    }
    must(tensor_unchanged(&x));
    tensor_free(&x);
    free(data);
    free(got);
    free(want);
}

START_TEST(test_many_rows) {
    struct rng rng = rng_for("many_rows", 0);
    for (int64_t repeat = 0; repeat < test_count(200); repeat++)
        check_many_rows(heed_kernels_usable(_i), &rng);
}
END_TEST

/* Rows of any lengths, past the caches or not, are what each would be alone. */
static void check_softmax_rows(const struct heed_kernels *table, int64_t n, struct rng *rng) {
    const int64_t rows = rng_range(rng, 0, 5);
    int64_t lengths[5];
    float *values = new_filled(rng, any_fill(rng), rows * n), *got = new_floats(rows * n), *want = new_floats(rows * n);
    struct tensor x = matrix(rows, n, n + rng_range(rng, 0, 20), any_placement(rng), values);
    struct tensor y = matrix(rows, n, n + rng_range(rng, 0, 20), any_placement(rng), NULL);
    const bool in_place = rng_range(rng, 0, 2) == 0;
    if (in_place)
        tensor_put(&y, values);
    for (int64_t i = 0; i < rows; i++)
        lengths[i] = rng_range(rng, 0, 2) ? n : rng_range(rng, 0, n);
    struct heed_softmax_rows request = {.x = in_place ? y.data : x.data,
                                        .ldx = in_place ? y.stride[2] : x.stride[2],
                                        .rows = rows,
                                        .columns = n,
                                        .lengths = rng_range(rng, 0, 1) ? lengths : NULL,
                                        .factor = rng_range(rng, 0, 1) ? 0.25f : -1.5f,
                                        .y = y.data,
                                        .ldy = y.stride[2],
                                        .stream = rng_range(rng, 0, 2) > 0};
    describe("softmax_rows", table->name, "%lld x %lld%s%s%s", (long long)rows, (long long)n, request.lengths ? ", lengths" : "",
             in_place ? ", in place" : "", request.stream ? ", streamed" : "");
    table->softmax_rows(&request);
    for (int64_t i = 0; i < rows; i++)
        scalar_kernels()->softmax_rows(&(struct heed_softmax_rows){.x = values + i * n,
                                                                   .rows = 1,
                                                                   .columns = n,
                                                                   .lengths = request.lengths ? lengths + i : NULL,
                                                                   .factor = request.factor,
                                                                   .y = want + i * n});
    must(tensor_take(&y, got));
    must(tensor_unchanged(&x));
    must(compare(SAME_BITS, got, want, rows, n));
    tensor_free(&x);
    tensor_free(&y);
    free(values);
    free(got);
    free(want);
}

START_TEST(test_softmax_rows) {
    static const int64_t most[] = {20, 300, 1200, 2300};
    struct rng rng = rng_for("softmax_rows", 0);
    for (int64_t repeat = 0; repeat < test_count(500); repeat++)
        check_softmax_rows(heed_kernels_usable(_i), rng_range(&rng, 1, most[rng_range(&rng, 0, 3)]), &rng);
}
END_TEST

/* So long that exponentials wait in the output, and that chunks may differ from those of the row before. */
START_TEST(test_softmax_long_rows) {
    static const int64_t chunks = (int64_t)HEED_SOFTMAX_CHUNKS * HEED_SOFTMAX_CHUNK;
    struct rng rng = rng_for("softmax_long_rows", 0);
    for (int64_t repeat = 0; repeat < test_count(20); repeat++)
        check_softmax_rows(heed_kernels_usable(_i), HEED_ROW_OF_STACK + rng_range(&rng, 0, 5000), &rng);
    for (int64_t repeat = 0; repeat < test_count(8); repeat++)
        check_softmax_rows(heed_kernels_usable(_i), chunks + rng_range(&rng, -100, 3000), &rng);
}
END_TEST

/* What is stored is a result: no zero has a sign, and every NaN is the one NaN. */
START_TEST(test_stored_rows_are_clean) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    const uint32_t one_nan = 0x7fc00000, nasty[] = {0x7f800001, 0xffc12345};
    float x[] = {-0.0f, 0.0f, -0x1p-149f, -INFINITY, INFINITY, 3.0f, 0, 0}, got[8], want[8] = {0, 0, 0, -INFINITY, INFINITY, 0.75f};
    for (int i = 0; i < 2; i++) {
        memcpy(&x[6 + i], &nasty[i], sizeof *x);
        memcpy(&want[6 + i], &one_nan, sizeof *x);
    }
    describe("store_row", table->name, "zeros, infinities and NaNs");
    table->store_row(x, 8, 0.25f, got);
    must(compare(SAME_BITS, got, want, 1, 8));
}
END_TEST

/* One in 65537 of the floats from -0 to -126.5, which `make check-exp` sweeps completely. */
START_TEST(test_exp2_accuracy) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    double worst = 0;
    for (uint32_t bits = 0x80000000u; bits <= 0xc2fd0000u; bits += test_quick() ? 65537 * 4 : 65537 / 16) {
        float x, y;
        memcpy(&x, &bits, sizeof x);
        table->exp2(&x, 1, &y);
        int exponent;
        double true_value = ref_exp2(x);
        frexp(true_value, &exponent);
        if (x < -126) {
            ck_assert_msg(y == 0, "exp2(%a) is %a", (double)x, (double)y);
            continue;
        }
        worst = fmax(worst, fabs((double)y - true_value) / ldexp(1, exponent - 24));
    }
    printf("  accuracy of %-9s %-10s sampled: at most %.3f ULP\n", "exp2", table->name, worst);
    ck_assert_double_le(worst, 1.0);
    const float special[] = {-0.0f, 0.0f, -1.0f, -126.0f, -INFINITY, NAN}, want[] = {1, 1, 0.5f, 0x1p-126f, 0, NAN};
    float got[6];
    table->exp2(special, 6, got);
    must(compare(ANY_NAN, got, want, 1, 6));
}
END_TEST

static double ulps_of_log(const struct heed_kernels *table, float x) {
    int exponent;
    frexp(log((double)x), &exponent);
    return fabs((double)table->log(x) - log((double)x)) / ldexp(1, exponent - 24);
}

/* SLEEF's logarithm is within 1 ULP, and the same one everywhere but in the scalar table on an x86 CPU without FMA.  SLEEF's
 * variants with and without FMA differ once in a million floats: LOG_WITNESS is one of those. */
START_TEST(test_log) {
    const struct heed_kernels *table = heed_kernels_usable(_i), *best = heed_kernels_usable(0);
    struct rng rng = rng_for("log", 0);
    double worst = 0;
    for (int64_t i = 0; i < test_count(400000); i++) {
        float x = LOG_WITNESS;
        uint32_t bits = (uint32_t)rng_range(&rng, 0x00800000, 0x7f7fffff);
        if (i > 0)
            memcpy(&x, &bits, sizeof x);
        float got = table->log(x), want = best->log(x);
        worst = fmax(worst, ulps_of_log(table, x));
        describe("log", table->name, "of %a", (double)x);
        if (table->requires)
            must(compare(SAME_BITS, &got, &want, 1, 1));
    }
    printf("  accuracy of %-9s %-10s sampled: at most %.3f ULP\n", "log", table->name, worst);
    ck_assert_double_le(worst, 1.0);
}
END_TEST

void add_row_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_rows, 0, tables);
    tcase_add_loop_test(tests, test_many_rows, 0, tables);
    tcase_add_loop_test(tests, test_softmax_rows, 0, tables);
    tcase_add_loop_test(tests, test_softmax_long_rows, 0, tables);
    tcase_add_loop_test(tests, test_stored_rows_are_clean, 0, tables);
    tcase_add_loop_test(tests, test_exp2_accuracy, 0, tables);
    tcase_add_loop_test(tests, test_log, 0, tables);
}
