/* heed_softmax: the same bits on every table, in place or not; what lengths, scale, -inf and NaN do. */
#include "cache_sizes.h"
#include "harness_bounds.h"
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void run(struct heed_softmax s, const float *values, struct heed_exec exec, bool in_place, struct rng *rng, float *result) {
    struct tensor input = matrix(s.rows, s.columns, s.columns + rng_range(rng, 0, 5), any_placement(rng), values);
    struct tensor output = matrix(s.rows, s.columns, s.columns + rng_range(rng, 0, 5), any_placement(rng), NULL);
    if (in_place)
        tensor_put(&output, values);
    s.input = in_place ? output.data : input.data;
    s.input_stride = in_place ? output.stride[2] : input.stride[2];
    s.output = output.data;
    s.output_stride = output.stride[2];
    ck_assert_msg(heed_softmax(&s, &exec) == HEED_OK, "%s", heed_error_message());
    must(tensor_take(&output, result));
    must(tensor_unchanged(&input));
    tensor_free(&input);
    tensor_free(&output);
}

static int64_t *new_lengths(struct rng *rng, int64_t rows, int64_t columns) {
    int64_t *lengths = malloc((size_t)(rows + 1) * sizeof *lengths);
    ck_assert_ptr_nonnull(lengths);
    for (int64_t i = 0; i < rows; i++)
        lengths[i] = rng_range(rng, 0, columns);
    return lengths;
}

static void check_case(struct rng *rng) {
    static const float scales[] = {0, 1, 0.125f, -1, 37.5f, -1e-3f, 1e30f};
    static const int64_t columns[] = {255, 257, 513, 1000, 1024, 1025, 2100, 5000, 9000};
    enum fill mode = any_fill(rng);
    struct heed_softmax s = {.rows = rng_range(rng, 0, 9), .columns = rng_range(rng, 0, 80), .scale = scales[rng_range(rng, 0, 6)]};
    if (rng_range(rng, 0, 3) == 0)
        s.columns = columns[rng_range(rng, 0, 8)];
    if (rng_range(rng, 0, 9) == 0 && !test_quick())
        s.rows = 70000 / (s.columns + 1); /* enough for threads */
    int64_t *lengths = new_lengths(rng, s.rows, s.columns);
    s.lengths = rng_range(rng, 0, 1) ? lengths : NULL;
    float *values = new_filled(rng, mode, s.rows * s.columns);
    float *want = new_floats(s.rows * s.columns), *got = new_floats(s.rows * s.columns);
    describe("softmax", "scalar", "%lld x %lld", (long long)s.rows, (long long)s.columns);
    run(s, values, (struct heed_exec){.threads = 1, .isa = "scalar"}, false, rng, want);
    for (int i = 0; heed_kernels_usable(i); i++) {
        struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(rng)};
        bool in_place = rng_range(rng, 0, 1);
        describe("softmax", exec.isa, "%lld x %lld, scale %g, %d threads, %s, %s%s", (long long)s.rows, (long long)s.columns,
                 (double)s.scale, exec.threads, s.lengths ? "lengths" : "full", fill_name(mode), in_place ? ", in place" : "");
        /* With a small L3, outputs of more than 2 KiB are stored past it. */
        heed_cache_sizes_set((struct heed_cache_sizes){0, 0}, rng_range(rng, 0, 1) ? 2 << 10 : 0);
        run(s, values, exec, in_place, rng, got);
        heed_cache_sizes_set((struct heed_cache_sizes){0, 0}, 0);
        must(compare(SAME_BITS, got, want, s.rows, s.columns));
    }
    free(lengths);
    free(values);
    free(want);
    free(got);
}

START_TEST(test_softmax_same_bits) {
    struct rng rng = rng_for("softmax", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++)
        check_case(&rng);
}
END_TEST

/* A row's bits depend on its first lengths[i] columns alone. */
START_TEST(test_softmax_rows_are_independent) {
    struct rng rng = rng_for("softmax rows", 0);
    for (int64_t repeat = 0; repeat < test_count(100); repeat++) {
        int64_t rows = rng_range(&rng, 1, 9), columns = rng_range(&rng, 1, 600), *lengths = new_lengths(&rng, rows, columns);
        float *values = new_filled(&rng, FILL_EXP_LIMIT, rows * columns), *whole = new_floats(rows * columns),
              *row = new_floats(columns);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = lengths[i]; j < columns; j++)
                values[i * columns + j] = NAN;
        describe("softmax", "default", "%lld x %lld by rows", (long long)rows, (long long)columns);
        struct heed_softmax s = {.rows = rows, .columns = columns, .lengths = lengths};
        run(s, values, (struct heed_exec){0}, false, &rng, whole);
        for (int64_t i = 0; i < rows; i++) {
            run((struct heed_softmax){.rows = 1, .columns = lengths[i]}, values + i * columns, (struct heed_exec){0}, false, &rng,
                row);
            must(compare(SAME_BITS, row, whole + i * columns, 1, lengths[i]));
            for (int64_t j = lengths[i]; j < columns; j++)
                ck_assert(whole[i * columns + j] == 0 && !signbit(whole[i * columns + j]));
        }
        free(lengths);
        free(values);
        free(whole);
        free(row);
    }
}
END_TEST

START_TEST(test_softmax_special_rows) {
    enum { ROWS = 6, COLUMNS = 4 };
    const float inf = INFINITY, nan = NAN;
    const float values[ROWS * COLUMNS] = {-inf, -inf, -inf, -inf, 5, -inf, -inf, -inf, nan, 0, 0,    0,
                                          0,    0,    0,    nan,  7, 7,    7,    7,    inf, 0, -inf, 0};
    const float want[ROWS * COLUMNS] = {0,    0,    0, 0, 1,     0,     0,     0,     nan, nan, nan, nan,
                                        0.5f, 0.5f, 0, 0, 0.25f, 0.25f, 0.25f, 0.25f, nan, nan, nan, nan};
    const int64_t lengths[ROWS] = {4, 4, 4, 2, 4, 4};
    struct rng rng = rng_for("softmax special", 0);
    for (int i = 0; heed_kernels_usable(i); i++) {
        float got[ROWS * COLUMNS];
        describe("softmax", heed_kernels_usable(i)->name, "special rows");
        run((struct heed_softmax){.rows = ROWS, .columns = COLUMNS, .lengths = lengths}, values,
            (struct heed_exec){.isa = heed_kernels_usable(i)->name}, false, &rng, got);
        must(compare(SAME_BITS, got, want, ROWS, COLUMNS));
    }
}
END_TEST

/* Chunks of a row differ as much as they can: one is all -inf, one has the maximum and the others are far below it. */
static void fill_chunks(float *x, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        x[j] = j / HEED_SOFTMAX_CHUNK == 1 ? -INFINITY : j / HEED_SOFTMAX_CHUNK == 2 ? 80.0f : -20.0f;
}

/* The largest factors are those of any large scale. */
START_TEST(test_softmax_largest_scales) {
    const float x[] = {1, 2, 3, 4}, up[] = {0, 0, 0, 1}, down[] = {1, 0, 0, 0};
    for (int i = 0; heed_kernels_usable(i); i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            float y[4];
            const struct heed_softmax s = {.rows = 1,
                                           .columns = 4,
                                           .scale = (float)sign * 3e38f,
                                           .input = x,
                                           .output = y,
                                           .input_stride = 4,
                                           .output_stride = 4};
            ck_assert_int_eq(heed_softmax(&s, &(struct heed_exec){.isa = heed_kernels_usable(i)->name}), HEED_OK);
            must(compare(SAME_BITS, y, sign > 0 ? up : down, 1, 4));
        }
}
END_TEST

START_TEST(test_softmax_chunks) {
    enum { N = 3 * HEED_SOFTMAX_CHUNK + 7 };
    float x[N], got[N];
    struct rng rng = rng_for("softmax chunks", 0);
    fill_chunks(x, N);
    for (int i = 0; heed_kernels_usable(i); i++) {
        describe("softmax", heed_kernels_usable(i)->name, "chunks far apart");
        run((struct heed_softmax){.rows = 1, .columns = N}, x, (struct heed_exec){.isa = heed_kernels_usable(i)->name}, false, &rng,
            got);
        for (int64_t j = 0; j < N; j++)
            ck_assert(j / HEED_SOFTMAX_CHUNK == 2 ? got[j] == 1.0f / HEED_SOFTMAX_CHUNK : got[j] < 0x1p-126f);
    }
}
END_TEST

/* To 1, but for the roundings of the sum, which is a chain of 16 in a lane, of up to 16 over these in chunks of 4096, of 4 in the
 * fold and of 256 over chunks, and of 1 / sum and two products: all of them of numbers that are not negative. */
static void must_add_up(const float *y, int64_t n) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)y[j];
    ck_assert_double_le(fabs(sum - 1), gamma_of(16 + 16 + 4 + HEED_SOFTMAX_CHUNKS + 3));
}

/* With more elements than chunks have room for, these are longer. */
START_TEST(test_softmax_longest_rows) {
    enum { MOST = HEED_SOFTMAX_CHUNK * HEED_SOFTMAX_CHUNKS };
    struct rng rng = rng_for("softmax longest rows", 0);
    const int64_t lengths[] = {MOST, MOST + 1, 2 * MOST + 300};
    for (int n = 0; n < (test_quick() ? 1 : 3); n++) {
        float *values = new_filled(&rng, FILL_NORMAL, lengths[n]), *want = new_floats(lengths[n]), *got = new_floats(lengths[n]);
        const struct heed_softmax s = {.rows = 1, .columns = lengths[n], .scale = -0.5f};
        run(s, values, (struct heed_exec){.isa = "scalar"}, false, &rng, want);
        for (int i = 0; heed_kernels_usable(i); i++) {
            describe("softmax", heed_kernels_usable(i)->name, "%lld columns", (long long)lengths[n]);
            run(s, values, (struct heed_exec){.isa = heed_kernels_usable(i)->name}, rng_range(&rng, 0, 1), &rng, got);
            must(compare(SAME_BITS, got, want, 1, lengths[n]));
        }
        must_add_up(got, lengths[n]);
        free(values);
        free(want);
        free(got);
    }
}
END_TEST

Suite *softmax_suite(void) {
    Suite *suite = suite_create("softmax");
    TCase *tests = tcase_create("softmax");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_softmax_same_bits);
    tcase_add_test(tests, test_softmax_rows_are_independent);
    tcase_add_test(tests, test_softmax_special_rows);
    tcase_add_test(tests, test_softmax_largest_scales);
    tcase_add_test(tests, test_softmax_chunks);
    tcase_add_test(tests, test_softmax_longest_rows);
    suite_add_tcase(suite, tests);
    return suite;
}
