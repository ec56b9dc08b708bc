/* The kernels that change a row of scores between product and softmax, of every usable table: each is a short formula, so they are
 * compared with that formula in plain C, bit for bit but for NaNs; the capped scores and ALiBi's also with double. */
#include "kernels_common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row in guarded memory that a kernel changes in place, beside an input of the same length. */
struct score_row {
    int64_t n;
    float *x, *y, *got, *want;
    struct tensor row, input;
    enum fill mode;
};

static struct score_row new_row(struct rng *rng) {
    struct score_row r = {.n = rng_range(rng, 0, 3) ? rng_range(rng, 0, 70) : HEED_CHUNK, .mode = any_fill(rng)};
    r.x = new_filled(rng, r.mode, r.n);
    r.y = new_filled(rng, any_fill(rng), r.n);
    r.got = new_floats(r.n);
    r.want = new_floats(r.n);
    r.row = matrix(1, r.n, r.n, any_placement(rng), NULL);
    r.input = matrix(1, r.n, r.n, any_placement(rng), r.y);
    tensor_put(&r.row, r.x);
    return r;
}

static void must_be_wanted(struct score_row *r) {
    must(tensor_take(&r->row, r->got));
    must(tensor_unchanged(&r->input));
    must(compare(ANY_NAN, r->got, r->want, 1, r->n));
}

static void free_row(struct score_row *r) {
    float *const all[] = {r->x, r->y, r->got, r->want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    tensor_free(&r->row);
    tensor_free(&r->input);
}

/* A term of -inf hides the key whatever its score is. */
START_TEST(test_add_row) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("add_row", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        struct score_row r = new_row(&rng);
        describe("add_row", table->name, "n %lld, %s", (long long)r.n, fill_name(r.mode));
        for (int64_t i = 0; i < r.n; i++)
            r.want[i] = r.y[i] == -INFINITY ? -INFINITY : r.x[i] + r.y[i];
        table->add_row(r.row.data, r.n, r.input.data);
        must_be_wanted(&r);
        free_row(&r);
    }
}
END_TEST

START_TEST(test_hidden_scores_may_be_anything) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    const float hide = -INFINITY, scores[] = {NAN, INFINITY, -INFINITY, 0, 1e38f};
    const uint8_t mask = 0;
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        float added = scores[i], masked = scores[i];
        describe("add_row", table->name, "-inf to %g", (double)scores[i]);
        table->add_row(&added, 1, &hide);
        table->hide_row(&masked, 1, &mask);
        must(compare(SAME_BITS, &added, &hide, 1, 1));
        must(compare(SAME_BITS, &masked, &hide, 1, 1));
    }
}
END_TEST

/* The bytes of a mask end, or begin, exactly where their page does; the others of its floats are set. */
static const uint8_t *place_mask(struct tensor *memory, const uint8_t *mask, int64_t n, struct rng *rng) {
    const enum placement placement = any_placement(rng);
    const int64_t floats = ceil_div(n, (int64_t)sizeof(float)),
                  skipped = placement == AT_END ? floats * (int64_t)sizeof(float) - n : 0;
    float *values = new_floats(floats);
    memset(values, 0xff, (size_t)floats * sizeof *values);
    memcpy((uint8_t *)values + skipped, mask, (size_t)n);
    *memory = matrix(1, floats, floats, placement, values);
    free(values);
    return (const uint8_t *)memory->data + skipped;
}

START_TEST(test_hide_row) {
    static const uint8_t kinds[] = {0, 1, 2, 0x80, 0xff};
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("hide_row", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        struct score_row r = new_row(&rng);
        struct tensor memory;
        uint8_t mask[HEED_CHUNK];
        const float hidden = -INFINITY;
        describe("hide_row", table->name, "n %lld, %s", (long long)r.n, fill_name(r.mode));
        for (int64_t i = 0; i < r.n; i++) {
            mask[i] = kinds[rng_range(&rng, 0, 4)];
            memcpy(r.want + i, mask[i] ? r.x + i : &hidden, sizeof hidden);
        }
        table->hide_row(r.row.data, r.n, place_mask(&memory, mask, r.n, &rng));
        must_be_wanted(&r);
        must(tensor_unchanged(&memory));
        tensor_free(&memory);
        free_row(&r);
    }
}
END_TEST

/* Distances are whole numbers, exact below 2^24; above, the difference of two floats is rounded once. */
START_TEST(test_alibi_row) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct accuracy accuracy = {.typical = true};
    struct rng rng = rng_for("alibi_row", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        struct score_row r = new_row(&rng);
        const int first = (int)rng_range(&rng, 0, HEED_CHUNK - 1);
        const int64_t far = rng_range(&rng, 0, 2) ? 600 : INT64_C(1) << rng_range(&rng, 10, 48);
        const float distance = (float)rng_range(&rng, -far, far);
        float slope;
        fill(&rng, FILL_NORMAL, &slope, 1);
        describe("alibi_row", table->name, "n %lld, slope %g, distance %g, first %d, %s", (long long)r.n, (double)slope,
                 (double)distance, first, fill_name(r.mode));
        for (int64_t i = 0; i < r.n; i++)
            r.want[i] = fmaf(-slope, fabsf(distance - (float)(first + i)), r.x[i]);
        table->alibi_row(r.row.data, r.n, slope, distance, first);
        must_be_wanted(&r);
        for (int64_t i = 0; i < r.n && r.mode == FILL_NORMAL; i++) {
            const double term = fabs((double)slope * ((double)distance - (double)(first + i)));
            const double exact = (double)r.x[i] - copysign(term, (double)slope), magnitude = fabs((double)r.x[i]) + term;
            const double rounded = fabs((double)distance) < 0x1p23 ? 0x1p-20 * magnitude : 2 * term;
            must(accuracy_add(&accuracy, r.got[i], exact, 0x1p-24 * (fabs(exact) + rounded) + 0x1p-150, magnitude));
        }
        free_row(&r);
    }
    accuracy_print(&accuracy, "alibi_row", table->name);
}
END_TEST

/* Of cap * tanh(x / cap) in double.  1 / cap, its product with x and the product with cap are rounded once each, u = 2^-24; tanh is
 * within 1 ULP, 2 u; an error of tanh's argument grows no more in tanh, relatively: 2 u + 2 u + u, and one more for their products.
 * Where a step is subnormal, half of 2^-149 more. */
static double softcap_bound(double want, double cap) { return 6 * 0x1p-24 * fabs(want) + (1 + cap) * 0x1p-149; }

static void check_softcap(const struct heed_kernels *table, struct rng *rng, struct accuracy *accuracy) {
    struct score_row r = new_row(rng);
    float cap;
    fill(rng, FILL_NORMAL, &cap, 1);
    cap = ldexpf(fabsf(cap) + 0x1p-10f, (int)rng_range(rng, -20, 20));
    for (int64_t i = 0; i < r.n && rng_range(rng, 0, 1); i++)
        r.x[i] *= cap;
    tensor_put(&r.row, r.x);
    describe("softcap_row", table->name, "n %lld, cap %a, %s", (long long)r.n, (double)cap, fill_name(r.mode));
    table->softcap_row(r.row.data, r.n, cap);
    must(tensor_take(&r.row, r.got));
    memcpy(r.want, r.x, (size_t)r.n * sizeof *r.x);
    heed_kernels_usable(0)->softcap_row(r.want, r.n, cap);
    if (table->requires)
        must(compare(ANY_NAN, r.got, r.want, 1, r.n));
    for (int64_t i = 0; i < r.n; i++) {
        const double want = (double)cap * tanh((double)r.x[i] / (double)cap);
        accuracy->typical = r.mode == FILL_NORMAL;
        if (isnan(r.x[i]) || isinf(r.x[i]))
            ck_assert_msg(isnan(r.x[i]) ? isnan(r.got[i]) : r.got[i] == copysignf(cap, r.x[i]), "score %g became %g",
                          (double)r.x[i], (double)r.got[i]);
        else
            must(accuracy_add(accuracy, r.got[i], want, softcap_bound(want, (double)cap), fabs(want)));
    }
    free_row(&r);
}

/* SLEEF's hyperbolic tangent is the same one everywhere but in the scalar table on x86, as its logarithm is: attention takes both
 * from the machine's best table. */
START_TEST(test_softcap_row) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct accuracy accuracy = {0};
    struct rng rng = rng_for("softcap_row", 0);
    for (int64_t repeat = 0; repeat < test_count(2000); repeat++)
        check_softcap(table, &rng, &accuracy);
    accuracy_print(&accuracy, "softcap_row", table->name);
}
END_TEST

/* s and scales are accessible from the first to the last of their whole 16 only; they hold anything around begin ... end, where s
 * ends as -inf. */
static void check_seal_row(const struct heed_kernels *table, struct rng *rng) {
    static const float factors[] = {1, 0x1.715476p+0f, 0, -1};
    const enum fill mode = any_fill(rng), around = any_fill(rng);
    const int begin = (int)rng_range(rng, 0, HEED_CHUNK - 1), end = (int)rng_range(rng, begin + 1, HEED_CHUNK);
    const int from = begin / HEED_SUM_LANES * HEED_SUM_LANES, n = (int)round_up(end, HEED_SUM_LANES) - from;
    const float factor = factors[rng_range(rng, 0, 3)];
    const bool scaled = rng_range(rng, 0, 1);
    float *s = new_filled(rng, around, n), *scales = new_filled(rng, around, n), *got = new_floats(n), *want = new_floats(n),
          lanes[HEED_SUM_LANES];
    bool has_nan = false;
    fill(rng, mode, s + (begin - from), end - begin);
    fill(rng, mode, scales + (begin - from), end - begin);
    for (int j = 0; j < n; j++) {
        const float x = scaled ? s[j] * scales[j] : s[j];
        want[j] = from + j >= begin && from + j < end ? x * factor : -INFINITY;
        has_nan |= isnan(want[j]);
    }
    struct tensor row = matrix(1, n, n, any_placement(rng), NULL);
    struct tensor row_max = matrix(1, table->lanes, table->lanes, any_placement(rng), NULL);
    struct tensor factors_of_keys = matrix(1, n, n, any_placement(rng), NULL);
    tensor_put(&row, s);
    tensor_put(&factors_of_keys, scales);
    describe("seal_row", table->name, "keys %d-%d, factor %g%s, %s among %s", begin, end, (double)factor,
             scaled ? " and scales" : "", fill_name(mode), fill_name(around));
    table->seal_row(row.data - from, begin, end, factor, scaled ? factors_of_keys.data - from : NULL, row_max.data);
    must(tensor_take(&row, got));
    must(tensor_take(&row_max, lanes));
    must(compare(ANY_NAN, got, want, 1, n));
    const float got_max = max_of(lanes, table->lanes, 1), want_max = max_of(want, n, 1);
    if (!has_nan)
        must(compare(SAME_NUMBER, &got_max, &want_max, 1, 1));
    float *const all[] = {s, scales, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    tensor_free(&row);
    tensor_free(&factors_of_keys);
    tensor_free(&row_max);
}

START_TEST(test_seal_row) {
    struct rng rng = rng_for("seal_row", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++)
        check_seal_row(heed_kernels_usable(_i), &rng);
}
END_TEST

void add_score_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_softcap_row, 0, tables);
    tcase_add_loop_test(tests, test_add_row, 0, tables);
    tcase_add_loop_test(tests, test_alibi_row, 0, tables);
    tcase_add_loop_test(tests, test_hide_row, 0, tables);
    tcase_add_loop_test(tests, test_hidden_scores_may_be_anything, 0, tables);
    tcase_add_loop_test(tests, test_seal_row, 0, tables);
}
