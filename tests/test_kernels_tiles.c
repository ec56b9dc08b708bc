/* score_panel and value_rows of every usable table against the scalar table's: ranges of keys, panels of any width, values in
 * pages.
 *
 * Between kernels a NaN may have any payload, and maxima may keep or lose NaNs and signs of zero (src/arithmetic.md), so those are
 * compared as numbers; everything else bit for bit. */
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct score_case {
    int rows, columns, key;
    bool hides;
    int begins[MAX_ROWS], ends[MAX_ROWS];
    int64_t head_dim, ldk;
    float *query, *keys, *max_before; /* max_before counts for rows that began before the panel */
};

static void compute_scores(const struct heed_kernels *table, const struct score_case *c, struct rng *rng, float *s, float *max) {
    float *lanes = new_floats(MAX_ROWS * HEED_SUM_LANES);
    struct tensor query = matrix(c->rows, c->head_dim, c->head_dim + rng_range(rng, 0, 3), any_placement(rng), c->query);
    struct tensor keys = matrix(c->head_dim, c->columns, c->ldk, any_placement(rng), c->keys);
    struct tensor scores = matrix(c->rows, c->columns, HEED_CHUNK, any_placement(rng), NULL);
    struct tensor row_max = matrix(c->rows, table->lanes, HEED_SUM_LANES, any_placement(rng), NULL);
    for (int i = 0; i < c->rows * table->lanes; i++)
        lanes[i] = c->begins[i / table->lanes] < c->key ? c->max_before[i / table->lanes] : -INFINITY;
    tensor_put(&row_max, lanes);
    fill(rng, FILL_NORMAL, s, c->rows * c->columns);
    tensor_put(&scores, s); /* tiles that no row sees are left as they are */
    table->score_panel(&(struct heed_score_panel){.rows = c->rows,
                                                  .columns = c->columns,
                                                  .key = c->key,
                                                  .hides = c->hides,
                                                  .head_dim = c->head_dim,
                                                  .query = query.data,
                                                  .ldq = query.stride[2],
                                                  .keys = keys.data,
                                                  .ldk = c->ldk,
                                                  .begins = c->begins,
                                                  .ends = c->ends,
                                                  .s = scores.data - c->key,
                                                  .row_max = row_max.data});
    must(tensor_take(&scores, s));
    must(tensor_take(&row_max, lanes));
    must(tensor_unchanged(&query));
    must(tensor_unchanged(&keys));
    for (int i = 0; i < c->rows; i++)
        max[i] = max_of(lanes + i * table->lanes, table->lanes, 1);
    struct tensor *const all[] = {&query, &keys, &scores, &row_max};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    free(lanes);
}

/* Columns of the panel that a row sees; lanes: those around them, too, that the softmax reads. */
static bool is_seen(const struct score_case *c, int row, int column, int lanes) {
    const int key = c->key + column, begin = c->begins[row], end = c->ends[row];
    if (begin >= end)
        return false;
    return key >= (lanes ? begin / 16 * 16 : begin) && key < (lanes ? (int)round_up(end, lanes) : end);
}

/* -inf around the row's range; the maximum is that of the scores and of what was there, unless one is NaN. */
static void must_be_limited(const struct score_case *c, int lanes, int row, const float *s, float max) {
    float expected = c->begins[row] < c->key ? c->max_before[row] : -INFINITY;
    bool has_nan = false, has_seen = false;
    for (int j = 0; j < c->columns; j++) {
        const bool seen = is_seen(c, row, j, 0);
        ck_assert_msg(seen || !is_seen(c, row, j, lanes) || s[j] == -INFINITY, "row %d: key %d is not hidden", row, j);
        has_nan |= seen && isnan(s[j]);
        has_seen |= seen;
        expected = seen ? fmaxf(expected, s[j]) : expected;
    }
    if (has_seen && !has_nan)
        must(compare(SAME_NUMBER, &max, &expected, 1, 1));
}

static void must_be_products(const struct score_case *c, const float *got) {
    for (int i = 0; i < c->rows * c->columns; i++) {
        const int row = i / c->columns, key = i % c->columns;
        float chain = 0;
        for (int64_t d = 0; d < c->head_dim; d++)
            chain = fmaf(c->query[row * c->head_dim + d], c->keys[d * c->columns + key], chain);
        if (is_seen(c, row, key, 0))
            must(compare(ANY_NAN, got + i, &chain, 1, 1));
    }
}

/* The range of every row around the panel, or all keys. */
static struct score_case new_score_case(struct rng *rng, int rows, int64_t head_dim, enum fill mode, float *max_before) {
    const int columns = 16 * (int)rng_range(rng, 1, 4), key = 16 * (int)rng_range(rng, 0, 4);
    const bool begins_limit = rng_range(rng, 0, 1), ends_limit = rng_range(rng, 0, 1);
    struct score_case c = {.rows = rows,
                           .columns = columns,
                           .key = key,
                           .hides = rng_range(rng, 0, 3) > 0,
                           .head_dim = head_dim,
                           .ldk = columns + rng_range(rng, 0, 3),
                           .query = new_filled(rng, mode, rows * head_dim),
                           .keys = new_filled(rng, mode, head_dim * columns),
                           .max_before = max_before};
    random_ranges(rng, rows, columns + 4, c.begins, c.ends);
    for (int i = 0; i < rows; i++) {
        c.begins[i] = begins_limit ? larger(0, c.begins[i] + key - 2) : 0;
        c.ends[i] = ends_limit ? larger(0, c.ends[i] + key - 2) : HEED_CHUNK;
    }
    fill(rng, FILL_NORMAL, max_before, rows);
    return c;
}

static void check_score_panel(const struct heed_kernels *table, struct rng *rng, int rows, int64_t head_dim) {
    const enum fill mode = any_fill(rng);
    float max_before[MAX_ROWS], got_max[MAX_ROWS], want_max[MAX_ROWS];
    const struct score_case c = new_score_case(rng, rows, head_dim, mode, max_before);
    const int columns = c.columns;
    float *got = new_floats(rows * columns), *want = new_floats(rows * columns);
    describe("score_panel", table->name, "%d x %d from key %d, head_dim %lld, rows see %d-%d to %d-%d, hides %d, %s", rows, columns,
             c.key, (long long)head_dim, c.begins[0], c.ends[0], c.begins[rows - 1], c.ends[rows - 1], c.hides, fill_name(mode));
    compute_scores(table, &c, rng, got, got_max);
    compute_scores(scalar_kernels(), &c, rng, want, want_max);
    for (int i = 0; i < rows * columns; i++)
        if (is_seen(&c, i / columns, i % columns, 0))
            must(compare(ANY_NAN, got + i, want + i, 1, 1));
    if (head_dim <= 5)
        must_be_products(&c, got);
    for (int i = 0; c.hides && i < rows; i++) {
        must_be_limited(&c, table->lanes, i, got + i * columns, got_max[i]);
        must_be_limited(&c, scalar_kernels()->lanes, i, want + i * columns, want_max[i]);
    }
    float *const all[] = {c.query, c.keys, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_score_panel) {
    static const int64_t head_dims[] = {1, 2, 3, 4, 5, 64, 80, 255, 257};
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("score_panel", 0);
    for (int64_t repeat = 0; repeat < test_count(16); repeat++)
        for (int rows = 1; rows <= MAX_ROWS; rows++)
            for (size_t i = 0; i < sizeof head_dims / sizeof *head_dims; i++)
                if (rows <= table->tile_rows || rng_range(&rng, 0, 3) == 0)
                    check_score_panel(table, &rng, rows, head_dims[i]);
}
END_TEST

/* Values of a chunk lie in pages of piece_keys; NaN, and inaccessible where possible, is what no row sees. */
enum { MAX_PIECES = HEED_CHUNK / HEED_SUM_LANES };

struct value_case {
    int rows, columns, piece_keys;
    int begins[MAX_ROWS], ends[MAX_ROWS];
    float *p, *values, *o; /* [rows][HEED_CHUNK], [HEED_CHUNK][columns], [rows][columns] */
    bool keeps;
    float keep_old[MAX_ROWS], take_new[MAX_ROWS];
};

/* The rows of values from the first to the last that any row sees in a piece, as memory of their own; none if there are none. */
static struct tensor piece_memory(const struct value_case *c, int start, int64_t room, int64_t ldv, struct rng *rng, int *from) {
    int to = 0;
    *from = HEED_CHUNK;
    for (int i = 0; i < c->rows; i++) {
        const int first = larger(c->begins[i], start), last = smaller(c->ends[i], start + c->piece_keys);
        *from = first < last ? smaller(*from, first) : *from;
        to = first < last ? larger(to, last) : to;
    }
    const int64_t rows = *from < to ? to - *from : 0;
    float *padded = new_floats(rows * room);
    for (int64_t i = 0; i < rows * room; i++)
        padded[i] = i % room < c->columns ? c->values[(*from + i / room) * c->columns + i % room] : 1e30f;
    struct tensor memory = matrix(rows, room, ldv, any_placement(rng), padded);
    free(padded);
    return memory;
}

static void compute_values(const struct heed_kernels *table, const struct value_case *c, struct rng *rng, float *result) {
    const int64_t room = round_up(c->columns, table->lanes), ldv = room + rng_range(rng, 0, 3);
    const void *values[MAX_PIECES] = {NULL};
    struct tensor pieces[MAX_PIECES], p = matrix(c->rows, HEED_CHUNK, HEED_CHUNK, any_placement(rng), c->p);
    struct tensor o = matrix(c->rows, room, room + rng_range(rng, 0, 3), any_placement(rng), NULL);
    const int count = (int)ceil_div(HEED_CHUNK, c->piece_keys);
    float *padded = new_floats(c->rows * room);
    for (int64_t i = 0; i < c->rows * room; i++)
        padded[i] = i % room < c->columns ? c->o[i / room * c->columns + i % room] : 1.0f;
    if (c->keeps)
        tensor_put(&o, padded);
    for (int k = 0; k < count; k++) {
        int from;
        pieces[k] = piece_memory(c, k * c->piece_keys, room, ldv, rng, &from);
        values[k] = pieces[k].data - (pieces[k].size[2] > 0 ? (from - k * c->piece_keys) * ldv : 0);
    }
    table->value_rows(&(struct heed_value_rows){.rows = c->rows,
                                                .columns = c->columns,
                                                .begins = c->begins,
                                                .ends = c->ends,
                                                .p = p.data,
                                                .values = values,
                                                .piece_keys = c->piece_keys,
                                                .ldv = ldv,
                                                .o = o.data,
                                                .ldo = o.stride[2],
                                                .keep_old = c->keeps ? c->keep_old : NULL,
                                                .take_new = c->take_new});
    must(tensor_take(&o, padded));
    must(tensor_unchanged(&p));
    for (int k = 0; k < count; k++) {
        must(tensor_unchanged(&pieces[k]));
        tensor_free(&pieces[k]);
    }
    for (int i = 0; i < c->rows; i++)
        memcpy(result + i * c->columns, padded + i * room, (size_t)c->columns * sizeof *result);
    tensor_free(&p);
    tensor_free(&o);
    free(padded);
}

static struct value_case new_value_case(struct rng *rng, int rows, int columns, enum fill mode) {
    static const int piece_keys[] = {16, 32, 48, 64, 128, HEED_CHUNK};
    struct value_case c = {.rows = rows,
                           .columns = columns,
                           .piece_keys = piece_keys[rng_range(rng, 0, 5)],
                           .p = new_filled(rng, FILL_NORMAL, MAX_ROWS * HEED_CHUNK),
                           .values = new_filled(rng, mode, HEED_CHUNK * columns),
                           .o = new_filled(rng, FILL_NORMAL, rows * columns),
                           .keeps = rng_range(rng, 0, 3) > 0};
    random_ranges(rng, rows, HEED_CHUNK, c.begins, c.ends);
    fill(rng, FILL_NORMAL, c.keep_old, MAX_ROWS);
    fill(rng, FILL_NORMAL, c.take_new, MAX_ROWS);
    for (int i = 0; i < rows; i++)
        if (c.begins[i] >= c.ends[i])
            c.keep_old[i] = 1;
    return c;
}

/* The same by plain loops. */
static void must_be_chains(const struct value_case *c, const float *got) {
    for (int i = 0; i < c->rows * c->columns; i++) {
        const int row = i / c->columns;
        float chain = 0;
        for (int j = c->begins[row]; j < c->ends[row]; j++)
            chain = fmaf(c->p[row * HEED_CHUNK + j], c->values[j * c->columns + i % c->columns], chain);
        const float want = c->keeps ? fmaf(c->o[i], c->keep_old[row], chain * c->take_new[row]) : chain + 0.0f;
        must(compare(ANY_NAN, got + i, &want, 1, 1));
    }
}

/* Weights that a row does not have are NaN, and so are all values but those that one row sees: that row must stay finite. */
static void check_value_rows(const struct heed_kernels *table, struct rng *rng, int rows, int columns) {
    const enum fill mode = any_fill(rng);
    const int clean = (int)rng_range(rng, 0, 2 * rows - 1); /* from `rows` on: values are NaN for no row */
    struct value_case c = new_value_case(rng, rows, columns, mode);
    const float weight = mode == FILL_DENORMAL && rng_range(rng, 0, 1) ? 0x1p-30f : 1.0f; /* whose products are 0 of any sign */
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < HEED_CHUNK; j++)
            c.p[i * HEED_CHUNK + j] = j >= c.begins[i] && j < c.ends[i] ? weight * c.p[i * HEED_CHUNK + j] : NAN;
    for (int j = 0; clean < rows && j < HEED_CHUNK * columns; j++)
        if (j / columns < c.begins[clean] || j / columns >= c.ends[clean])
            c.values[j] = NAN;
    float *got = new_floats(rows * columns), *want = new_floats(rows * columns);
    describe("value_rows", table->name, "%d x %d, keys %d-%d to %d-%d, pieces of %d, keeps %d, %s", rows, columns, c.begins[0],
             c.ends[0], c.begins[rows - 1], c.ends[rows - 1], c.piece_keys, c.keeps, fill_name(mode));
    compute_values(table, &c, rng, got);
    compute_values(scalar_kernels(), &c, rng, want);
    must(compare(ANY_NAN, got, want, rows, columns));
    if (columns <= 4)
        must_be_chains(&c, got);
    for (int j = 0; clean < rows && mode < FILL_FINITE_COUNT && j < columns; j++)
        ck_assert_msg(isfinite(got[clean * columns + j]), "row %d took what it may not see", clean);
    for (int i = 0; !c.keeps && i < rows * columns; i++)
        ck_assert_msg(got[i] != 0 || !signbit(got[i]), "element %d is -0", i);
    float *const all[] = {c.p, c.values, c.o, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_value_rows) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("value_rows", 0);
    for (int64_t repeat = 0; repeat < test_count(8); repeat++)
        for (int rows = 1; rows <= MAX_ROWS; rows++)
            for (int columns = 1; columns <= HEED_PANEL; columns++)
                if (rng_range(&rng, 0, test_quick() ? 31 : 7) == 0)
                    check_value_rows(table, &rng, rows, columns + HEED_PANEL * larger(0, (int)rng_range(&rng, -3, 2)));
}
END_TEST

void add_tile_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_score_panel, 0, tables);
    tcase_add_loop_test(tests, test_value_rows, 0, tables);
}
