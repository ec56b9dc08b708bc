/* Kernels that are several at once, exponentials of some rows beside the products of others, and tiles that finish their sums: the
 * same bits as one after another by the kernels that other files test. */
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 50, WHOLE = MOST_ROWS * HEED_CHUNK, MOST_COLUMNS = 3 * HEED_PANEL };

struct beside_case {
    int rows, begins[MOST_ROWS], ends[MOST_ROWS];
    int64_t columns;
    bool pairs;               /* as floats */
    float scales[HEED_CHUNK]; /* of dots' weights, if any */
    bool has_scales;
    float scores[WHOLE], row_max[MOST_ROWS * HEED_SUM_LANES]; /* [rows][HEED_CHUNK] */
    float *values, *o;                                        /* [HEED_CHUNK][columns], [rows][columns] */
    float max[MOST_ROWS], sum[MOST_ROWS];
};

/* Weights are not results: in words they stand elsewhere. */
struct beside_result {
    float *o, max[MOST_ROWS], sum[MOST_ROWS], chunk_max[MOST_ROWS], chunk_sum[MOST_ROWS];
};

/* Of dots, those of the keys that come in tiles which the first of a tile's rows sees whole. */
static void maxima_of_lanes(struct beside_case *c, const struct heed_dots *dots) {
    for (int i = 0; i < c->rows * HEED_SUM_LANES; i++) {
        const int row = i / HEED_SUM_LANES, lane = i % HEED_SUM_LANES, begin = c->begins[row] & -HEED_SUM_LANES;
        const int end = dots ? c->ends[row / dots->tile_rows * dots->tile_rows] / dots->tile_columns * dots->tile_columns
                             : (int)round_up(c->ends[row], HEED_SUM_LANES);
        c->row_max[i] = begin < end ? max_of(c->scores + row * HEED_CHUNK + begin + lane, end - begin - lane, HEED_SUM_LANES) : NAN;
    }
}

/* All rows from the same key on. */
static void choose_ends(struct beside_case *c, struct rng *rng, int begin, int step) {
    const int steps = HEED_CHUNK / step;
    int end = (int)rng_range(rng, begin / step + 1, steps);
    for (int i = 0; i < c->rows; i++) {
        c->begins[i] = begin;
        c->ends[i] = end * step;
    }
}

/* As on a diagonal, one after another or some together. */
static void let_ends_rise(struct beside_case *c, struct rng *rng) {
    const int together = (int)rng_range(rng, 1, 4);
    for (int i = 1; i < c->rows; i++)
        c->ends[i] = smaller(HEED_CHUNK, c->ends[i - 1] + (i % together == 0));
}

/* dots: keys begin with a tile; if ends rise, anything may stand behind a row's, but values are numbers. */
static void choose_beside(struct beside_case *c, struct rng *rng, const struct heed_dots *dots) {
    const enum fill mode = any_fill(rng);
    c->rows = (int)rng_range(rng, 1, MOST_ROWS);
    c->pairs = !dots && rng_range(rng, 0, 2) == 0;
    c->has_scales = dots && rng_range(rng, 0, 3) == 0;
    fill(rng, FILL_NORMAL, c->scales, HEED_CHUNK);
    c->columns = rng_range(rng, 1, rng_range(rng, 0, 2) ? MOST_COLUMNS : HEED_PANEL);
    const int begin = dots ? (int)rng_range(rng, 0, HEED_CHUNK / HEED_PANEL - 1) * HEED_PANEL : 0;
    const bool rise = rng_range(rng, 0, 1);
    choose_ends(c, rng, begin, dots && !rise ? dots->tile_columns : rng_range(rng, 0, 3) ? HEED_DOT : 1);
    if (rise)
        let_ends_rise(c, rng);
    if (!dots && !c->pairs && rng_range(rng, 0, 3) == 0)
        random_ranges(rng, c->rows, HEED_CHUNK, c->begins, c->ends);
    fill(rng, mode, c->scores, WHOLE);
    for (int i = 0; i < WHOLE && !dots; i++)
        if (i / HEED_CHUNK < c->rows && (i % HEED_CHUNK < c->begins[i / HEED_CHUNK] || i % HEED_CHUNK >= c->ends[i / HEED_CHUNK]))
            c->scores[i] = -INFINITY;
    if (rng_range(rng, 0, 7) == 0)
        for (int j = 0; j < HEED_CHUNK; j++)
            c->scores[rng_range(rng, 0, c->rows - 1) * HEED_CHUNK + j] = -INFINITY;
    maxima_of_lanes(c, dots);
    c->values = new_filled(rng, dots && rise ? FILL_NORMAL : any_fill(rng), HEED_CHUNK * c->columns);
    c->o = new_filled(rng, FILL_NORMAL, c->rows * c->columns);
    fill(rng, FILL_NORMAL, c->max, MOST_ROWS);
    fill(rng, FILL_EQUAL, c->sum, MOST_ROWS);
}

/* The arrays of one computation; o and values with room up to whole vectors, or panels. */
struct beside_memory {
    struct tensor s, values, o, max, sum, chunk_max, chunk_sum;
    float keep_old[MOST_ROWS + HEED_SUM_LANES], take_new[MOST_ROWS + HEED_SUM_LANES];
};

static void put_columns(struct tensor *to, const float *from, int64_t rows, int64_t columns, int64_t room) {
    float *padded = new_floats(rows * room);
    for (int64_t i = 0; i < rows * room; i++)
        padded[i] = i % room < columns ? from[i / room * columns + i % room] : 1.0f;
    tensor_put(to, padded);
    free(padded);
}

static struct beside_memory new_memory(const struct beside_case *c, struct rng *rng, int64_t unit) {
    const int64_t room = round_up(c->columns, unit);
    struct beside_memory m = {.s = matrix(c->rows, HEED_CHUNK, HEED_CHUNK, any_placement(rng), NULL),
                              .values = matrix(HEED_CHUNK, room, room, any_placement(rng), NULL),
                              .o = matrix(c->rows, room, room, any_placement(rng), NULL),
                              .max = matrix(1, c->rows, c->rows, any_placement(rng), NULL),
                              .sum = matrix(1, c->rows, c->rows, any_placement(rng), NULL),
                              .chunk_max = matrix(1, c->rows, c->rows, any_placement(rng), NULL),
                              .chunk_sum = matrix(1, c->rows, c->rows, any_placement(rng), NULL)};
    tensor_put(&m.s, c->scores);
    put_columns(&m.values, c->values, HEED_CHUNK, c->columns, room);
    put_columns(&m.o, c->o, c->rows, c->columns, room);
    tensor_put(&m.max, c->max);
    tensor_put(&m.sum, c->sum);
    return m;
}

static void take_results(struct beside_memory *m, const struct beside_case *c, struct beside_result *result) {
    const int64_t room = m->o.size[3];
    float *padded = new_floats(c->rows * room), *weights = new_floats(c->rows * HEED_CHUNK);
    must(tensor_take(&m->o, padded));
    for (int64_t i = 0; i < c->rows * c->columns; i++)
        result->o[i] = padded[i / c->columns * room + i % c->columns];
    must(tensor_take(&m->max, result->max));
    must(tensor_take(&m->sum, result->sum));
    must(tensor_take(&m->chunk_max, result->chunk_max));
    must(tensor_take(&m->chunk_sum, result->chunk_sum));
    must(tensor_take(&m->s, weights));
    struct tensor *const all[] = {&m->s, &m->values, &m->o, &m->max, &m->sum, &m->chunk_max, &m->chunk_sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    free(padded);
    free(weights);
}

static struct heed_exp_rows exp_request(const struct beside_case *c, struct beside_memory *m) {
    return (struct heed_exp_rows){.rows = c->rows,
                                  .pairs = c->pairs,
                                  .begins = c->begins,
                                  .ends = c->ends,
                                  .s = m->s.data,
                                  .row_max = c->row_max,
                                  .chunk_max = m->chunk_max.data,
                                  .chunk_sum = m->chunk_sum.data};
}

static struct heed_merge_rows merge_request(const struct beside_case *c, struct beside_memory *m) {
    return (struct heed_merge_rows){.rows = c->rows,
                                    .max = m->max.data,
                                    .sum = m->sum.data,
                                    .chunk_max = m->chunk_max.data,
                                    .chunk_sum = m->chunk_sum.data,
                                    .keep_old = m->keep_old,
                                    .take_new = m->take_new};
}

static void compute_floats(const struct heed_kernels *table, const struct beside_case *c, bool at_once, struct rng *rng,
                           struct beside_result *result) {
    struct beside_memory m = new_memory(c, rng, table->lanes);
    const void *pieces[] = {m.values.data};
    const struct heed_softmax_values all = {exp_request(c, &m),
                                            merge_request(c, &m),
                                            {.rows = c->rows,
                                             .pairs = c->pairs,
                                             .columns = c->columns,
                                             .begins = c->begins,
                                             .ends = c->ends,
                                             .p = m.s.data,
                                             .values = pieces,
                                             .piece_keys = HEED_CHUNK,
                                             .ldv = m.values.size[3],
                                             .o = m.o.data,
                                             .ldo = m.o.size[3],
                                             .keep_old = m.keep_old,
                                             .take_new = m.take_new}};
    const struct flushing before = c->pairs ? flush_begin() : (struct flushing){0};
    if (at_once) {
        table->softmax_values(&all);
    } else {
        table->exp_rows(&all.exp);
        table->merge_rows(&all.merge);
        table->value_rows(&all.values);
    }
    if (c->pairs)
        flush_end(before);
    take_results(&m, c, result);
}

/* The values that rows see, as panels of words. */
static float *arrange_values(const struct beside_case *c, const struct heed_dots *dots, int64_t panel_floats) {
    const int begin = c->begins[0], end = c->ends[c->rows - 1];
    float *b = new_floats(ceil_div(c->columns, HEED_PANEL) * panel_floats);
    memset(b, 0, (size_t)(ceil_div(c->columns, HEED_PANEL) * panel_floats) * sizeof *b);
    for (int64_t j = 0; j < c->columns; j += HEED_PANEL)
        dots->load_b(c->values + begin * c->columns + j, HEED_F32, c->columns, end - begin,
                     (int)min_i64(HEED_PANEL, c->columns - j), b + j / HEED_PANEL * panel_floats);
    return b;
}

/* The chunk's outputs apart, then merged; weights of 0 hide what a row does not see. */
static void merge_apart(const struct heed_kernels *table, const struct heed_dot_values *all) {
    const struct heed_dots *dots = table->pairs;
    const int rows = all->weights.rows.rows;
    const int64_t k = round_up(all->weights.last, HEED_DOT) - all->weights.first;
    float *apart = new_floats(rows * all->ldo);
    for (int i = 0; i < rows; i += dots->tile_rows)
        for (int64_t j = 0; j < all->columns; j += dots->tile_columns)
            dots->tile(&(struct heed_dot_tile){.rows = smaller(dots->tile_rows, rows - i),
                                               .columns = (int)min_i64(dots->tile_columns, all->columns - j),
                                               .k = k,
                                               .a = all->weights.rows.s + i * HEED_CHUNK + all->weights.first / dots->elements,
                                               .lda = HEED_CHUNK,
                                               .b = all->b + j / HEED_PANEL * all->panel_floats,
                                               .sums = apart + i * all->ldo + j,
                                               .ldsums = all->ldo});
    for (int i = 0; i < rows; i++)
        table->merge_row(all->o + i * all->ldo, apart + i * all->ldo, all->columns, all->merge.keep_old[i], all->merge.take_new[i]);
    free(apart);
}

static void compute_words(const struct heed_kernels *table, const struct beside_case *c, bool at_once, struct rng *rng,
                          struct beside_result *result) {
    const int begin = c->begins[0], end = c->ends[c->rows - 1];
    const int64_t panel_floats = round_up(end - begin, HEED_DOT) * HEED_PANEL / table->pairs->elements;
    float row_max[MOST_ROWS * HEED_SUM_LANES];
    memcpy(row_max, c->row_max, sizeof row_max);
    struct beside_memory m = new_memory(c, rng, HEED_PANEL);
    float *b = arrange_values(c, table->pairs, panel_floats);
    struct heed_dot_values all = {.weights = {.rows = exp_request(c, &m), .first = begin, .last = end},
                                  .merge = merge_request(c, &m),
                                  .row_max = row_max,
                                  .columns = c->columns,
                                  .panel_floats = panel_floats,
                                  .b = b,
                                  .o = m.o.data,
                                  .ldo = m.o.size[3]};
    const struct flushing before = flush_begin();
    all.weights.rows.row_max = NULL;
    all.weights.scales = c->has_scales ? c->scales : NULL;
    if (at_once) {
        table->pairs->weigh_values(&all);
    } else {
        table->pairs->weigh(&all.weights);
        table->merge_rows(&all.merge);
        merge_apart(table, &all);
    }
    flush_end(before);
    free(b);
    take_results(&m, c, result);
}

static void check_beside(const struct heed_kernels *table, struct rng *rng, const struct heed_dots *dots, const char *name) {
    static struct beside_case c;
    static struct beside_result got, want;
    choose_beside(&c, rng, dots);
    got.o = new_floats(c.rows * c.columns);
    want.o = new_floats(c.rows * c.columns);
    describe(name, table->name, "%d x %lld, pairs %d, keys %d-%d to %d-%d", c.rows, (long long)c.columns, c.pairs, c.begins[0],
             c.ends[0], c.begins[c.rows - 1], c.ends[c.rows - 1]);
    for (int at_once = 0; at_once < 2; at_once++)
        (dots ? compute_words : compute_floats)(table, &c, at_once, rng, at_once ? &got : &want);
    for (int i = 0; i < c.rows; i++) { /* a maximum's zero may have either sign, and a NaN be none: the sum tells */
        must(compare(ANY_NAN, got.chunk_sum + i, want.chunk_sum + i, 1, 1));
        must(compare(ANY_NAN, got.sum + i, want.sum + i, 1, 1));
        must(compare(SAME_NUMBER, got.chunk_max + i, want.chunk_max + i, 1, !isnan(want.chunk_sum[i])));
        must(compare(SAME_NUMBER, got.max + i, want.max + i, 1, !isnan(want.chunk_sum[i])));
    }
    must(compare(ANY_NAN, got.o, want.o, c.rows, c.columns));
    float *const all[] = {c.values, c.o, got.o, want.o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_softmax_values) {
    struct rng rng = rng_for("softmax_values", 0);
    for (int64_t repeat = 0; repeat < test_count(600); repeat++)
        check_beside(heed_kernels_usable(_i), &rng, NULL, "softmax_values");
}
END_TEST

START_TEST(test_weigh_values) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("weigh_values", 0);
    for (int64_t repeat = 0; table->pairs && repeat < test_count(600); repeat++)
        check_beside(table, &rng, table->pairs, "weigh_values of pairs");
}
END_TEST

/* --- Tiles that finish --- */

enum { FINISH_ROWS = 30, FINISH_K = 64, FINISH_SUMS = FINISH_ROWS * HEED_CHUNK, FINISH_MAXIMA = FINISH_ROWS * HEED_SUM_LANES };

/* chain: what the sums are without; old, maxima: what was there. */
static void must_be_finished(const struct heed_dot_tile *tile, const float *chain, const float *old, const float *maxima) {
    for (int i = 0; i < tile->rows; i++) {
        const float *sums = tile->sums + i * HEED_CHUNK;
        for (int j = 0; j < tile->columns; j++) {
            const float sum = chain[i * HEED_CHUNK + j];
            const float want = tile->keep_old ? fmaf(old[i * HEED_CHUNK + j], tile->keep_old[i], sum * tile->take_new[i]) : sum;
            must(compare(SAME_BITS, sums + j, &want, 1, 1));
        }
        for (int lane = 0; tile->row_max && lane < HEED_SUM_LANES; lane++) {
            const int at = i * HEED_SUM_LANES + lane;
            const float new_max = max_of(sums + lane, tile->columns - lane, HEED_SUM_LANES);
            const float want = tile->first ? new_max : fmaxf(new_max, maxima[at]);
            must(compare(SAME_NUMBER, tile->row_max + at, &want, 1, 1));
        }
    }
}

struct finish_case {
    float a[FINISH_ROWS * FINISH_K], b[FINISH_K * HEED_PANEL], keep_old[FINISH_ROWS], take_new[FINISH_ROWS];
    float old[FINISH_SUMS], maxima[FINISH_MAXIMA], chain[FINISH_SUMS], sums[FINISH_SUMS], row_max[FINISH_MAXIMA];
};

/* Factors as the dots have them, and what is there before. */
static void choose_finish(struct finish_case *c, const struct heed_dots *dots, struct rng *rng) {
    float *x = new_filled(rng, FILL_NORMAL, FINISH_ROWS * FINISH_K), *y = new_filled(rng, FILL_NORMAL, FINISH_K * HEED_PANEL);
    dots->load_a(x, HEED_F32, FINISH_K, FINISH_ROWS, FINISH_K, c->a, FINISH_K / dots->elements);
    dots->load_b(y, HEED_F32, HEED_PANEL, FINISH_K, HEED_PANEL, c->b);
    free(x);
    free(y);
    fill(rng, FILL_NORMAL, c->keep_old, FINISH_ROWS);
    fill(rng, FILL_NORMAL, c->take_new, FINISH_ROWS);
    fill(rng, FILL_NORMAL, c->old, FINISH_SUMS);
    fill(rng, FILL_NORMAL, c->maxima, FINISH_MAXIMA);
    memcpy(c->sums, c->old, sizeof c->sums);
    memcpy(c->row_max, c->maxima, sizeof c->row_max);
}

static void check_finish(const struct heed_dots *dots, const char *name, struct rng *rng) {
    static struct finish_case c;
    const bool merges = rng_range(rng, 0, 1);
    const int rows = (int)rng_range(rng, 1, FINISH_ROWS);
    const struct flushing before = flush_begin();
    choose_finish(&c, dots, rng);
    struct heed_dot_tile tile = {.columns = dots->tile_columns, .k = FINISH_K, .b = c.b, .ldsums = HEED_CHUNK};
    tile.lda = FINISH_K / dots->elements;
    for (int i = 0; i < rows; i += dots->tile_rows) {
        tile.rows = smaller(dots->tile_rows, rows - i);
        tile.a = c.a + i * tile.lda;
        tile.sums = c.chain + i * HEED_CHUNK;
        dots->tile(&tile);
    }
    tile.rows = rows;
    tile.a = c.a;
    tile.sums = c.sums;
    tile.keep_old = merges ? c.keep_old : NULL;
    tile.take_new = merges ? c.take_new : NULL;
    tile.row_max = merges ? NULL : c.row_max;
    tile.first = rng_range(rng, 0, 1);
    describe("tiles that finish", name, "%d rows, merges %d, first %d", rows, merges, tile.first);
    dots->tile(&tile);
    must_be_finished(&tile, c.chain, c.old, c.maxima);
    flush_end(before);
}

START_TEST(test_tiles_finish) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("tiles_finish", 0);
    for (int64_t repeat = 0; table->pairs && table->pairs->finishes && repeat < test_count(200); repeat++)
        check_finish(table->pairs, table->name, &rng);
}
END_TEST

void add_beside_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_softmax_values, 0, tables);
    tcase_add_loop_test(tests, test_weigh_values, 0, tables);
    tcase_add_loop_test(tests, test_tiles_finish, 0, tables);
}
