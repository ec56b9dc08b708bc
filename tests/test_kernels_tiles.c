/* score_tile and value_tile of every usable table against the scalar table's: ranges of keys, panels of any width, values in pages.
 *
 * Between kernels a NaN may have any payload, and maxima may keep or lose NaNs and signs of zero (src/arithmetic.md), so those are
 * compared as numbers; everything else bit for bit. */
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct score_case {
    int rows, columns;
    const int *begins, *ends; /* NULL: no limits */
    int64_t head_dim, ldk;
    float *query, *keys, *max_before; /* max_before NULL: first */
};

static const int *shifted(const int *limits, int from, int rows, int by, int *room) {
    for (int i = 0; limits && i < rows; i++)
        room[i] = limits[from + i] - by;
    return limits ? room : NULL;
}

static void run_score_tiles(const struct heed_kernels *table, const struct score_case *c, const struct heed_score_tile *whole) {
    int begins[MAX_ROWS], ends[MAX_ROWS];
    for (int i = 0; i < c->rows; i += table->tile_rows) {
        for (int j = 0; j < c->columns; j += table->tile_columns) {
            struct heed_score_tile tile = *whole;
            tile.rows = smaller(table->tile_rows, c->rows - i);
            tile.columns = smaller(table->tile_columns, c->columns - j);
            tile.first = whole->first && j == 0;
            tile.query += i * tile.ldq;
            tile.keys += j;
            tile.begins = shifted(c->begins, i, tile.rows, j, begins);
            tile.ends = shifted(c->ends, i, tile.rows, j, ends);
            tile.s += i * HEED_CHUNK + j;
            tile.row_max += i * HEED_SUM_LANES;
            table->score_tile(&tile);
        }
    }
}

static void compute_scores(const struct heed_kernels *table, const struct score_case *c, struct rng *rng, float *s, float *max) {
    float *lanes = new_floats(MAX_ROWS * HEED_SUM_LANES);
    struct tensor query = matrix(c->rows, c->head_dim, c->head_dim + rng_range(rng, 0, 3), any_placement(rng), c->query);
    struct tensor keys = matrix(c->head_dim, c->columns, c->ldk, any_placement(rng), c->keys);
    struct tensor scores = matrix(c->rows, c->columns, HEED_CHUNK, any_placement(rng), NULL);
    struct tensor row_max = matrix(c->rows, table->lanes, HEED_SUM_LANES, any_placement(rng), NULL);
    for (int i = 0; i < c->rows * table->lanes; i++)
        lanes[i] = c->max_before ? c->max_before[i / table->lanes] : 0;
    if (c->max_before)
        tensor_put(&row_max, lanes);
    run_score_tiles(table, c,
                    &(struct heed_score_tile){.first = !c->max_before,
                                              .head_dim = c->head_dim,
                                              .query = query.data,
                                              .ldq = query.stride[2],
                                              .keys = keys.data,
                                              .ldk = c->ldk,
                                              .s = scores.data,
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

/* -inf outside of the row's range; the maximum is that of the scores and of what was there, unless one is NaN. */
static void must_be_limited(const struct score_case *c, int row, const float *s, float max) {
    float expected = c->max_before ? c->max_before[row] : -INFINITY;
    bool has_nan = false;
    for (int j = 0; j < c->columns; j++) {
        const bool seen = (!c->begins || j >= c->begins[row]) && (!c->ends || j < c->ends[row]);
        ck_assert_msg(seen || s[j] == -INFINITY, "row %d: key %d is not hidden", row, j);
        has_nan |= isnan(s[j]);
    }
    expected = fmaxf(expected, max_of(s, c->columns, 1));
    if (!has_nan)
        must(compare(SAME_NUMBER, &max, &expected, 1, 1));
}

static void must_be_products(const struct score_case *c, const float *got) {
    for (int i = 0; i < c->rows * c->columns; i++) {
        const int row = i / c->columns, key = i % c->columns;
        float chain = 0;
        for (int64_t d = 0; d < c->head_dim; d++)
            chain = fmaf(c->query[row * c->head_dim + d], c->keys[d * c->columns + key], chain);
        if ((!c->begins || key >= c->begins[row]) && (!c->ends || key < c->ends[row]))
            must(compare(ANY_NAN, got + i, &chain, 1, 1));
    }
}

/* Panels are 16, 32 or 64 keys wide; a tile takes whole vectors of one. */
static void check_score_tile(const struct heed_kernels *table, struct rng *rng, int rows, int64_t head_dim) {
    static const int64_t widths[] = {16, 32, 64};
    const enum fill mode = any_fill(rng);
    const int columns = table->lanes * (int)rng_range(rng, 1, table->tile_columns / table->lanes);
    const bool first = rng_range(rng, 0, 1), begins_limit = rng_range(rng, 0, 1), ends_limit = rng_range(rng, 0, 1);
    const int64_t width = widths[rng_range(rng, 0, 2)];
    int begins[MAX_ROWS], ends[MAX_ROWS];
    float max_before[MAX_ROWS], got_max[MAX_ROWS], want_max[MAX_ROWS];
    random_ranges(rng, rows, columns + 4, begins, ends);
    for (int i = 0; i < rows; i++) { /* a tile is a part of the chunk that ranges are about */
        begins[i] -= 2;
        ends[i] -= 2;
    }
    fill(rng, FILL_NORMAL, max_before, MAX_ROWS);
    struct score_case c = {.rows = rows,
                           .columns = columns,
                           .begins = begins_limit ? begins : NULL,
                           .ends = ends_limit ? ends : NULL,
                           .head_dim = head_dim,
                           .ldk = width >= columns ? width : columns + rng_range(rng, 0, 3),
                           .query = new_filled(rng, mode, rows * head_dim),
                           .keys = new_filled(rng, mode, head_dim * columns),
                           .max_before = first ? NULL : max_before};
    float *got = new_floats(rows * columns), *want = new_floats(rows * columns);
    describe("score_tile", table->name, "%d x %d, head_dim %lld, ldk %lld, begins %d, ends %d, first %d, %s", rows, columns,
             (long long)head_dim, (long long)c.ldk, begins_limit, ends_limit, first, fill_name(mode));
    compute_scores(table, &c, rng, got, got_max);
    compute_scores(scalar_kernels(), &c, rng, want, want_max);
    must(compare(ANY_NAN, got, want, rows, columns));
    if (head_dim <= 5)
        must_be_products(&c, got);
    for (int i = 0; i < rows; i++) {
        must_be_limited(&c, i, got + i * columns, got_max[i]);
        must_be_limited(&c, i, want + i * columns, want_max[i]);
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

/* Values of a chunk lie in pages of piece_keys; NaN, and inaccessible where possible, is what no row sees. */
enum { MAX_PIECES = HEED_CHUNK / HEED_SUM_LANES };

struct value_case {
    int rows, columns, piece_keys;
    int begins[MAX_ROWS], ends[MAX_ROWS];
    int64_t offset;
    float *p, *values, *o; /* [rows][HEED_CHUNK], [HEED_CHUNK][columns], [rows][columns] */
    bool keeps;
    float keep_old[MAX_ROWS], take_new[MAX_ROWS];
};

static void run_value_tiles(const struct heed_kernels *table, const struct value_case *c, const struct heed_value_tile *whole) {
    for (int i = 0; i < c->rows; i += table->tile_rows) {
        for (int j = 0; j < c->columns; j += table->tile_columns) {
            struct heed_value_tile tile = *whole;
            tile.rows = smaller(table->tile_rows, c->rows - i);
            tile.columns = smaller(table->tile_columns, c->columns - j);
            tile.begins += i;
            tile.ends += i;
            tile.p += i * HEED_CHUNK;
            tile.offset += j;
            tile.o += i * tile.ldo + j;
            tile.keep_old = c->keeps ? tile.keep_old + i : NULL;
            tile.take_new += i;
            table->value_tile(&tile);
        }
    }
}

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
    const float *values[MAX_PIECES] = {NULL};
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
        values[k] = pieces[k].data;
        if (pieces[k].size[2] > 0)
            values[k] -= (from - k * c->piece_keys) * ldv + c->offset;
    }
    run_value_tiles(table, c,
                    &(struct heed_value_tile){.begins = c->begins,
                                              .ends = c->ends,
                                              .p = p.data,
                                              .values = values,
                                              .piece_keys = c->piece_keys,
                                              .offset = c->offset,
                                              .ldv = ldv,
                                              .o = o.data,
                                              .ldo = o.stride[2],
                                              .keep_old = c->keep_old,
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
                           .offset = rng_range(rng, 0, 1) * rng_range(rng, 0, 200),
                           .p = new_filled(rng, FILL_NORMAL, MAX_ROWS * HEED_CHUNK),
                           .values = new_filled(rng, mode, HEED_CHUNK * columns),
                           .o = new_filled(rng, FILL_NORMAL, rows * columns),
                           .keeps = rng_range(rng, 0, 3) > 0};
    random_ranges(rng, rows, HEED_CHUNK, c.begins, c.ends);
    fill(rng, FILL_NORMAL, c.keep_old, MAX_ROWS);
    fill(rng, FILL_NORMAL, c.take_new, MAX_ROWS);
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
static void check_value_tile(const struct heed_kernels *table, struct rng *rng, int rows, int columns) {
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
    describe("value_tile", table->name, "%d x %d, keys %d-%d to %d-%d, pieces of %d, offset %lld, keeps %d, %s", rows, columns,
             c.begins[0], c.ends[0], c.begins[rows - 1], c.ends[rows - 1], c.piece_keys, (long long)c.offset, c.keeps,
             fill_name(mode));
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
    tcase_add_loop_test(tests, test_value_tile, 0, tables);
}
