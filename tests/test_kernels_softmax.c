/* The kernels of attention's running softmax, of every usable table: against the scalar table's, and against plain loops where
 * those say it all.  What may differ between tables is in test_kernels_tiles.c. */
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE = MAX_ROWS * HEED_CHUNK };

struct exp_case {
    int rows, begins[MAX_ROWS], ends[MAX_ROWS];
    float s[WHOLE]; /* [rows][HEED_CHUNK] */
};

struct exp_result {
    float s[WHOLE], max[MAX_ROWS], sum[MAX_ROWS];
};

static int pad_begin(const struct exp_case *c, int row) { return c->begins[row] / HEED_SUM_LANES * HEED_SUM_LANES; }
static int pad_end(const struct exp_case *c, int row) {
    return c->begins[row] < c->ends[row] ? (int)round_up(c->ends[row], HEED_SUM_LANES) : pad_begin(c, row);
}

/* The maxima of lanes in a tile of this table: over all keys whose number has the same remainder. */
static void lane_maxima(const struct heed_kernels *table, const struct exp_case *c, float *lanes) {
    for (int i = 0; i < c->rows * table->lanes; i++) {
        const int row = i / table->lanes, lane = i % table->lanes;
        const bool empty = c->begins[row] >= c->ends[row];
        const float *s = c->s + row * HEED_CHUNK + pad_begin(c, row);
        lanes[i] = empty ? NAN : max_of(s + lane, pad_end(c, row) - pad_begin(c, row) - lane, table->lanes);
    }
}

static void compute_exp(const struct heed_kernels *table, const struct exp_case *c, struct rng *rng, struct exp_result *result) {
    float lanes[MAX_ROWS * HEED_SUM_LANES];
    struct tensor scores = matrix(c->rows, HEED_CHUNK, HEED_CHUNK, any_placement(rng), NULL);
    struct tensor max = matrix(1, c->rows, c->rows, any_placement(rng), NULL);
    struct tensor sum = matrix(1, c->rows, c->rows, any_placement(rng), NULL);
    lane_maxima(table, c, lanes);
    struct tensor row_max = matrix(c->rows, table->lanes, HEED_SUM_LANES, any_placement(rng), lanes);
    tensor_put(&scores, c->s);
    table->exp_rows(&(struct heed_exp_rows){.rows = c->rows,
                                            .begins = c->begins,
                                            .ends = c->ends,
                                            .s = scores.data,
                                            .row_max = row_max.data,
                                            .chunk_max = max.data,
                                            .chunk_sum = sum.data});
    must(tensor_take(&scores, result->s));
    must(tensor_take(&max, result->max));
    must(tensor_take(&sum, result->sum));
    must(tensor_unchanged(&row_max));
    struct tensor *const all[] = {&scores, &row_max, &max, &sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

/* The 16 sums of a row's weights by position, folded. */
static float folded_sum(const float *weights, int begin, int end) {
    float lanes[HEED_SUM_LANES] = {0};
    for (int j = begin; j < end; j++)
        lanes[j % HEED_SUM_LANES] += weights[j];
    for (int half = HEED_SUM_LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return lanes[0];
}

/* What says nothing about exponentials: maxima, sums in their order, nothing else written. */
static void must_be_softmax(const struct exp_case *c, int row, const struct exp_result *result) {
    const float *s = c->s + row * HEED_CHUNK, *weights = result->s + row * HEED_CHUNK;
    const int begin = c->begins[row], end = c->ends[row];
    const float max = begin < end ? max_of(s + begin, end - begin, 1) : -INFINITY, sum = folded_sum(weights, begin, end);
    must(compare(ANY_NAN, result->sum + row, &sum, 1, 1));
    if (!isnan(sum))
        must(compare(SAME_NUMBER, result->max + row, &max, 1, 1));
    for (int j = 0; j < HEED_CHUNK; j++) {
        if (j < pad_begin(c, row) || j >= pad_end(c, row))
            must(compare(SAME_BITS, weights + j, s + j, 1, 1));
        else if (j < begin || j >= end)
            ck_assert_msg(weights[j] == 0 || weights[j] == -INFINITY, "row %d: key %d is hidden, but weighs %g", row, j,
                          (double)weights[j]);
    }
}

static void check_exp_rows(const struct heed_kernels *table, struct rng *rng, int rows) {
    static struct exp_case c;
    static struct exp_result got, want;
    const enum fill mode = any_fill(rng);
    c.rows = rows;
    fill(rng, mode, c.s, WHOLE);
    random_ranges(rng, rows, rng_range(rng, 0, 1) ? 40 : HEED_CHUNK, c.begins, c.ends);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < HEED_CHUNK; j++)
            if (j < c.begins[i] || j >= c.ends[i])
                c.s[i * HEED_CHUNK + j] = j >= pad_begin(&c, i) && j < pad_end(&c, i) ? -INFINITY : 7.0f;
    describe("exp_rows", table->name, "%d rows, keys %d-%d to %d-%d, %s", rows, c.begins[0], c.ends[0], c.begins[rows - 1],
             c.ends[rows - 1], fill_name(mode));
    compute_exp(table, &c, rng, &got);
    compute_exp(scalar_kernels(), &c, rng, &want);
    for (int i = 0; i < rows; i++) {
        const int n = c.ends[i] > c.begins[i] ? c.ends[i] - c.begins[i] : 0;
        must_be_softmax(&c, i, &got);
        if (!isnan(want.sum[i])) /* else whether the maximum was the NaN decides which weights are */
            must(compare(SAME_BITS, got.s + i * HEED_CHUNK + c.begins[i], want.s + i * HEED_CHUNK + c.begins[i], 1, n));
    }
}

START_TEST(test_exp_rows) {
    struct rng rng = rng_for("exp_rows", 0);
    for (int64_t repeat = 0; repeat < test_count(40); repeat++)
        for (int rows = 1; rows <= MAX_ROWS; rows++)
            check_exp_rows(heed_kernels_usable(_i), &rng, rows);
}
END_TEST

enum { MERGE_MAX, MERGE_SUM, MERGE_CHUNK_MAX, MERGE_CHUNK_SUM, MERGE_INPUTS, MERGE_KEEP = MERGE_INPUTS, MERGE_TAKE, MERGE_ARRAYS };

static void compute_merge(const struct heed_kernels *table, int64_t rows, float *const in[MERGE_INPUTS], struct rng *rng,
                          float *out[MERGE_ARRAYS]) {
    int64_t room = round_up(rows, 16);
    struct tensor arrays[MERGE_ARRAYS];
    for (int i = 0; i < MERGE_ARRAYS; i++) {
        arrays[i] = matrix(1, room, room, any_placement(rng), NULL);
        tensor_put(&arrays[i], in[i % MERGE_INPUTS]);
    }
    table->merge_rows(&(struct heed_merge_rows){.rows = (int)rows,
                                                .max = arrays[MERGE_MAX].data,
                                                .sum = arrays[MERGE_SUM].data,
                                                .chunk_max = arrays[MERGE_CHUNK_MAX].data,
                                                .chunk_sum = arrays[MERGE_CHUNK_SUM].data,
                                                .keep_old = arrays[MERGE_KEEP].data,
                                                .take_new = arrays[MERGE_TAKE].data});
    must(tensor_unchanged(&arrays[MERGE_CHUNK_MAX]));
    must(tensor_unchanged(&arrays[MERGE_CHUNK_SUM]));
    for (int i = 0; i < MERGE_ARRAYS; i++) {
        must(tensor_take(&arrays[i], out[i]));
        tensor_free(&arrays[i]);
    }
}

static void check_merge_rows(const struct heed_kernels *table, struct rng *rng, int64_t rows) {
    enum fill mode = any_fill(rng);
    float *in[MERGE_INPUTS], *got[MERGE_ARRAYS], *want[MERGE_ARRAYS];
    for (int i = 0; i < MERGE_ARRAYS; i++) {
        got[i] = new_floats(round_up(rows, 16));
        want[i] = new_floats(round_up(rows, 16));
        if (i < MERGE_INPUTS)
            in[i] = new_filled(rng, i % 2 ? FILL_NORMAL : mode, round_up(rows, 16));
    }
    describe("merge_rows", table->name, "rows %lld, maxima %s", (long long)rows, fill_name(mode));
    compute_merge(table, rows, in, rng, got);
    compute_merge(scalar_kernels(), rows, in, rng, want);
    for (int i = 0; i < MERGE_ARRAYS; i++) {
        must(compare(mode == FILL_NAN || i == MERGE_MAX ? SAME_NUMBER : ANY_NAN, got[i], want[i], 1, mode == FILL_NAN ? 0 : rows));
        free(got[i]);
        free(want[i]);
        if (i < MERGE_INPUTS)
            free(in[i]);
    }
}

START_TEST(test_merge_rows) {
    struct rng rng = rng_for("merge_rows", 0);
    for (int64_t repeat = 0; repeat < test_count(20); repeat++)
        for (int64_t rows = 1; rows <= 40; rows++)
            check_merge_rows(heed_kernels_usable(_i), &rng, rows);
}
END_TEST

/* o has room for whole vectors; what is after its n elements may become anything. */
static void compute_merge_row(const struct heed_kernels *table, const float *o, const float *x, int64_t n, const float factors[2],
                              struct rng *rng, float *result) {
    const int64_t room = round_up(n, table->lanes);
    float *padded = new_floats(room);
    for (int64_t i = 0; i < room; i++)
        padded[i] = i < n ? o[i] : NAN;
    struct tensor output = matrix(1, room, room, any_placement(rng), NULL), input = matrix(1, n, n, any_placement(rng), x);
    tensor_put(&output, padded);
    table->merge_row(output.data, input.data, n, factors[0], factors[1]);
    must(tensor_take(&output, padded));
    must(tensor_unchanged(&input));
    memcpy(result, padded, (size_t)n * sizeof *result);
    tensor_free(&output);
    tensor_free(&input);
    free(padded);
}

START_TEST(test_merge_row) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("merge_row", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        const enum fill mode = any_fill(&rng);
        const int64_t n = rng_range(&rng, 0, 70);
        float factors[2], *o = new_filled(&rng, mode, n), *x = new_filled(&rng, mode, n), *got = new_floats(n),
                          *want = new_floats(n);
        fill(&rng, rng_range(&rng, 0, 1) ? FILL_NORMAL : FILL_ZEROS, factors, 2);
        describe("merge_row", table->name, "n %lld, keep %g, take %g, %s", (long long)n, (double)factors[0], (double)factors[1],
                 fill_name(mode));
        for (int64_t i = 0; i < n; i++)
            want[i] = fmaf(o[i], factors[0], x[i] * factors[1]);
        compute_merge_row(table, o, x, n, factors, &rng, got);
        must(compare(ANY_NAN, got, want, 1, n));
        float *const all[] = {o, x, got, want};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]);
    }
}
END_TEST

static void compute_mass(const struct heed_kernels *table, const float *y, const float *z, int64_t n, float max, float sum,
                         struct rng *rng, float *result) {
    struct tensor output = matrix(1, n, n, any_placement(rng), NULL), input = matrix(1, n, n, any_placement(rng), z);
    tensor_put(&output, y);
    table->mass_row(output.data, input.data, n, max, sum);
    must(tensor_take(&output, result));
    must(tensor_unchanged(&input));
    tensor_free(&output);
    tensor_free(&input);
}

/* As plain C over the table's own exponential; a sum of 0 adds nothing, whatever the scores are, and one of NaN makes all NaN. */
static void check_mass_row(const struct heed_kernels *table, struct rng *rng) {
    static const float sums[] = {0, NAN, 1, 3.7f, INFINITY};
    const enum fill mode = any_fill(rng);
    const int64_t n = rng_range(rng, 0, 70);
    const float sum = sums[rng_range(rng, 0, 4)];
    float *z = new_filled(rng, mode, n), *y = new_filled(rng, FILL_NORMAL, n), *got = new_floats(n), *want = new_floats(n);
    const float max = max_of(z, n, 1);
    describe("mass_row", table->name, "n %lld, sum %g, %s", (long long)n, (double)sum, fill_name(mode));
    for (int64_t i = 0; i < n; i++) {
        const float x = z[i] - max;
        table->exp2(&x, 1, &want[i]);
        want[i] = sum == 0 ? y[i] : y[i] + want[i] * (1.0f / sum);
        ck_assert(!isnan(sum) || isnan(want[i]));
    }
    compute_mass(table, y, z, n, max, sum, rng, got);
    must(compare(ANY_NAN, got, want, 1, n));
    compute_mass(scalar_kernels(), y, z, n, max, sum, rng, want);
    must(compare(ANY_NAN, got, want, 1, n));
    float *const all[] = {z, y, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_mass_row) {
    struct rng rng = rng_for("mass_row", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++)
        check_mass_row(heed_kernels_usable(_i), &rng);
}
END_TEST

void add_softmax_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_exp_rows, 0, tables);
    tcase_add_loop_test(tests, test_merge_rows, 0, tables);
    tcase_add_loop_test(tests, test_merge_row, 0, tables);
    tcase_add_loop_test(tests, test_mass_row, 0, tables);
}
