/* The four kernels of attention, of every usable table, against the scalar table's.
 *
 * Between these kernels a NaN may have any payload, and maxima may keep or lose NaNs and signs of zero (src/arithmetic.md), so
 * those are compared as numbers; everything else bit for bit. */
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = HEED_MAX_TILE_ROWS, WHOLE = MAX_ROWS * HEED_CHUNK };

static float max_of(const float *x, int64_t n, int64_t step) {
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i += step)
        max = x[i] > max ? x[i] : max;
    return max;
}

/* Data must be aligned to 64: the end of the pages is, for whole rows of 16. */
static enum placement aligned_placement(struct rng *rng, int64_t floats) {
    return floats % HEED_SUM_LANES == 0 ? any_placement(rng) : AT_START;
}

struct score_case {
    int rows, columns, *limits;
    int64_t head_dim;
    float *query, *keys, *max_before; /* max_before NULL: first */
};

static void run_score_tiles(const struct heed_kernels *table, const struct score_case *whole, struct heed_score_tile tile) {
    const struct heed_score_tile first = tile;
    static const int begins[MAX_ROWS];
    int limits[MAX_ROWS];
    for (int i = 0; i < whole->rows; i += table->tile_rows) {
        for (int j = 0; j < whole->columns; j += table->tile_columns) {
            tile = first;
            tile.rows = whole->rows - i < table->tile_rows ? whole->rows - i : table->tile_rows;
            tile.columns = whole->columns - j < table->tile_columns ? whole->columns - j : table->tile_columns;
            tile.first = first.first && j == 0;
            tile.query += i * tile.ldq;
            tile.keys += j;
            tile.s += i * HEED_CHUNK + j;
            tile.row_max += i * HEED_SUM_LANES;
            for (int r = 0; whole->limits && r < tile.rows; r++)
                limits[r] = whole->limits[i + r] - j;
            tile.begins = whole->limits ? begins : NULL;
            tile.ends = whole->limits ? limits : NULL;
            table->score_tile(&tile);
        }
    }
}

static void compute_scores(const struct heed_kernels *table, const struct score_case *c, struct rng *rng, float *s, float *max) {
    float *lanes = new_floats(MAX_ROWS * HEED_SUM_LANES);
    struct tensor query = matrix(c->rows, c->head_dim, c->head_dim + rng_range(rng, 0, 3), any_placement(rng), c->query);
    struct tensor keys = matrix(c->head_dim, HEED_PANEL, HEED_PANEL, any_placement(rng), c->keys);
    struct tensor scores = matrix(c->rows, c->columns, HEED_CHUNK, aligned_placement(rng, c->columns), NULL);
    struct tensor row_max = matrix(c->rows, table->lanes, HEED_SUM_LANES, aligned_placement(rng, table->lanes), NULL);
    for (int i = 0; i < c->rows * table->lanes; i++)
        lanes[i] = c->max_before ? c->max_before[i / table->lanes] : 0;
    if (c->max_before)
        tensor_put(&row_max, lanes);
    run_score_tiles(table, c,
                    (struct heed_score_tile){.first = !c->max_before,
                                             .head_dim = c->head_dim,
                                             .query = query.data,
                                             .ldq = query.stride[2],
                                             .keys = keys.data,
                                             .ldk = HEED_PANEL,
                                             .s = scores.data,
                                             .row_max = row_max.data});
    must(tensor_take(&scores, s));
    must(tensor_take(&row_max, lanes));
    must(tensor_unchanged(&query));
    must(tensor_unchanged(&keys));
    for (int i = 0; i < c->rows; i++)
        max[i] = max_of(lanes + i * table->lanes, table->lanes, 1);
    tensor_free(&query);
    tensor_free(&keys);
    tensor_free(&scores);
    tensor_free(&row_max);
    free(lanes);
}

static void check_score_tile(const struct heed_kernels *table, struct rng *rng, int rows, int64_t head_dim) {
    enum fill mode = any_fill(rng);
    int columns = table->tile_columns, limits[MAX_ROWS];
    float max_before[MAX_ROWS], got_max[MAX_ROWS], want_max[MAX_ROWS];
    bool limited = rng_range(rng, 0, 1), first = rng_range(rng, 0, 1);
    for (int i = 0; i < rows; i++)
        limits[i] = (int)rng_range(rng, -2, columns + 2);
    fill(rng, FILL_NORMAL, max_before, MAX_ROWS);
    struct score_case c = {.rows = rows,
                           .columns = columns,
                           .limits = limited ? limits : NULL,
                           .head_dim = head_dim,
                           .query = new_filled(rng, mode, rows * head_dim),
                           .keys = new_filled(rng, mode, head_dim * HEED_PANEL),
                           .max_before = first ? NULL : max_before};
    float *got = new_floats(rows * columns), *want = new_floats(rows * columns);
    describe("score_tile", table->name, "rows %d, head_dim %lld, limits %d, first %d, %s", rows, (long long)head_dim, limited,
             first, fill_name(mode));
    compute_scores(table, &c, rng, got, got_max);
    compute_scores(scalar_kernels(), &c, rng, want, want_max);
    must(compare(ANY_NAN, got, want, rows, columns));
    for (int i = 0; i < rows; i++) {
        bool has_nan = false;
        for (int j = 0; j < columns; j++)
            has_nan |= isnan(want[i * columns + j]);
        if (!has_nan)
            must(compare(SAME_NUMBER, got_max + i, want_max + i, 1, 1));
    }
    float *const all[] = {c.query, c.keys, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_score_tile) {
    static const int64_t head_dims[] = {1, 2, 3, 4, 5, 64, 80, 255, 257};
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("score_tile", 0);
    for (int64_t repeat = 0; repeat < test_count(32); repeat++)
        for (int rows = 1; rows <= table->tile_rows; rows++)
            for (size_t i = 0; i < sizeof head_dims / sizeof *head_dims; i++)
                check_score_tile(table, &rng, rows, head_dims[i]);
}
END_TEST

struct exp_result {
    float s[WHOLE], max[MAX_ROWS], sum[MAX_ROWS];
};

/* s is [rows][HEED_CHUNK], what comes after counts[i] in row i is filled in here. */
static void compute_exp(const struct heed_kernels *table, int rows, const int *counts, float *s, struct rng *rng,
                        struct exp_result *result) {
    float lanes[MAX_ROWS * HEED_SUM_LANES];
    for (int i = 0; i < rows; i++) {
        for (int64_t j = counts[i]; j < HEED_CHUNK; j++)
            s[i * HEED_CHUNK + j] = j < round_up(counts[i], HEED_SUM_LANES) ? -INFINITY : 7.0f;
        for (int lane = 0; lane < HEED_SUM_LANES; lane++)
            lanes[i * HEED_SUM_LANES + lane] =
                lane < table->lanes ? max_of(s + i * HEED_CHUNK + lane, counts[i] - lane, table->lanes) : NAN;
    }
    static const int none[MAX_ROWS];
    struct tensor scores = matrix(rows, HEED_CHUNK, HEED_CHUNK, any_placement(rng), NULL);
    struct tensor row_max = matrix(rows, HEED_SUM_LANES, HEED_SUM_LANES, any_placement(rng), lanes);
    struct tensor max = matrix(1, rows, rows, any_placement(rng), NULL), sum = matrix(1, rows, rows, any_placement(rng), NULL);
    tensor_put(&scores, s);
    table->exp_rows(&(struct heed_exp_rows){.rows = rows,
                                            .begins = none,
                                            .ends = counts,
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
    for (int i = 0; i < rows; i++)
        for (int64_t j = counts[i]; j < HEED_CHUNK; j++)
            ck_assert(j < round_up(counts[i], table->lanes) ? result->s[i * HEED_CHUNK + j] == 0.0f
                                                            : result->s[i * HEED_CHUNK + j] == s[i * HEED_CHUNK + j]);
}

static void check_exp_rows(const struct heed_kernels *table, struct rng *rng, int rows) {
    static struct exp_result got, want;
    enum fill mode = any_fill(rng);
    int counts[MAX_ROWS];
    float *s = new_filled(rng, mode, WHOLE);
    for (int i = 0; i < rows; i++)
        counts[i] = (int)rng_range(rng, 0, rng_range(rng, 0, 1) ? 40 : HEED_CHUNK);
    describe("exp_rows", table->name, "rows %d, %s", rows, fill_name(mode));
    compute_exp(table, rows, counts, s, rng, &got);
    compute_exp(scalar_kernels(), rows, counts, s, rng, &want);
    for (int i = 0; i < rows; i++) {
        must(compare(ANY_NAN, got.sum + i, want.sum + i, 1, 1));
        if (isnan(want.sum[i]))
            continue; /* whether the maximum was the NaN decides which weights are */
        must(compare(SAME_NUMBER, got.max + i, want.max + i, 1, 1));
        must(compare(SAME_BITS, got.s + i * HEED_CHUNK, want.s + i * HEED_CHUNK, 1, counts[i]));
    }
    free(s);
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

struct value_case {
    int rows, columns, counts[MAX_ROWS], most;
    float *p, *values, *o, keep_old[MAX_ROWS], take_new[MAX_ROWS];
};

static void run_value_tiles(const struct heed_kernels *table, const struct value_case *c, const struct heed_value_tile *whole) {
    for (int i = 0; i < c->rows; i += table->tile_rows) {
        for (int j = 0; j < c->columns; j += table->tile_columns) {
            struct heed_value_tile tile = *whole;
            tile.rows = c->rows - i < table->tile_rows ? c->rows - i : table->tile_rows;
            tile.columns = c->columns - j < table->tile_columns ? c->columns - j : table->tile_columns;
            tile.begins += i;
            tile.ends += i;
            tile.p += i * HEED_CHUNK;
            tile.offset = j;
            tile.o += i * tile.ldo + j;
            tile.keep_old += i;
            tile.take_new += i;
            table->value_tile(&tile);
        }
    }
}

static void compute_values(const struct heed_kernels *table, const struct value_case *c, struct rng *rng, float *result) {
    int64_t room = round_up(c->columns, table->lanes);
    float *padded = new_floats((c->most + MAX_ROWS) * room);
    struct tensor p = matrix(c->rows, HEED_CHUNK, HEED_CHUNK, any_placement(rng), c->p);
    for (int64_t j = 0; j < c->most * room; j++)
        padded[j] = j % room < c->columns ? c->values[j / room * c->columns + j % room] : 1e30f;
    struct tensor values = matrix(c->most, room, room + rng_range(rng, 0, 3), any_placement(rng), padded);
    for (int64_t j = 0; j < c->rows * room; j++)
        padded[j] = j % room < c->columns ? c->o[j / room * c->columns + j % room] : 1.0f;
    struct tensor o = matrix(c->rows, room, room + rng_range(rng, 0, 3), any_placement(rng), NULL);
    tensor_put(&o, padded);
    static const int none[MAX_ROWS];
    const float *piece = values.data;
    run_value_tiles(table, c,
                    &(struct heed_value_tile){.begins = none,
                                              .ends = c->counts,
                                              .piece_keys = HEED_CHUNK,
                                              .p = p.data,
                                              .values = &piece,
                                              .ldv = values.stride[2],
                                              .o = o.data,
                                              .ldo = o.stride[2],
                                              .keep_old = c->keep_old,
                                              .take_new = c->take_new});
    must(tensor_take(&o, padded));
    must(tensor_unchanged(&p));
    must(tensor_unchanged(&values));
    for (int i = 0; i < c->rows; i++)
        memcpy(result + i * c->columns, padded + i * room, (size_t)c->columns * sizeof *result);
    tensor_free(&p);
    tensor_free(&values);
    tensor_free(&o);
    free(padded);
}

/* Weights and values that a row may not see are NaN wherever no other row needs them. */
static void check_value_tile(const struct heed_kernels *table, struct rng *rng, int rows, int columns) {
    enum fill mode = any_fill(rng);
    struct value_case c = {.rows = rows, .columns = columns};
    int base = (int)rng_range(rng, 0, HEED_CHUNK - MAX_ROWS), least = HEED_CHUNK;
    for (int i = 0; i < rows; i++) {
        c.counts[i] = rng_range(rng, 0, 3) ? base + i : (int)rng_range(rng, 0, HEED_CHUNK);
        c.most = c.counts[i] > c.most ? c.counts[i] : c.most;
        least = c.counts[i] < least ? c.counts[i] : least;
    }
    c.p = new_filled(rng, FILL_NORMAL, WHOLE);
    c.values = new_filled(rng, mode, c.most * columns);
    c.o = new_filled(rng, FILL_NORMAL, rows * columns);
    fill(rng, FILL_NORMAL, c.keep_old, MAX_ROWS);
    fill(rng, FILL_NORMAL, c.take_new, MAX_ROWS);
    for (int i = 0; i < rows; i++)
        for (int j = c.counts[i]; j < HEED_CHUNK; j++)
            c.p[i * HEED_CHUNK + j] = NAN;
    if (rng_range(rng, 0, 1))
        for (int64_t j = least * columns; j < c.most * columns; j++)
            c.values[j] = NAN;
    float *got = new_floats(rows * columns), *want = new_floats(rows * columns);
    describe("value_tile", table->name, "%d x %d, counts %d to %d, %s", rows, columns, least, c.most, fill_name(mode));
    compute_values(table, &c, rng, got);
    compute_values(scalar_kernels(), &c, rng, want);
    must(compare(ANY_NAN, got, want, rows, columns));
    for (int i = 0; i < rows * columns && mode < FILL_FINITE_COUNT; i++)
        ck_assert_msg(c.counts[i / columns] > least || isfinite(got[i]), "row %d took what it may not see", i / columns);
    float *const all[] = {c.p, c.values, c.o, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_value_tile) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("value_tile", 0);
    for (int64_t repeat = 0; repeat < test_count(8); repeat++)
        for (int rows = 1; rows <= table->tile_rows; rows++)
            for (int columns = 1; columns <= table->tile_columns; columns++)
                if (!test_quick() || rng_range(&rng, 0, 3) == 0)
                    check_value_tile(table, &rng, rows, columns);
}
END_TEST

void add_tile_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_score_tile, 0, tables);
    tcase_add_loop_test(tests, test_exp_rows, 0, tables);
    tcase_add_loop_test(tests, test_merge_rows, 0, tables);
    tcase_add_loop_test(tests, test_value_tile, 0, tables);
}
