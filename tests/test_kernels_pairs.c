/* Products of bf16 pairs, of every usable table, against plain loops: how a table stores its pairs is its own business, so what is
 * compared is what comes out of its kernels together. */
#include "cpu.h"
#include "harness_attention.h"
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float rounded(float x) { return float_of_half(HEED_BF16, half_of(HEED_BF16, x)); }

/* Elements of `type` in memory of their own, and the numbers that they are. */
struct elements {
    enum heed_type type;
    float *values;
    void *data;
};

static struct elements new_scaled(struct rng *rng, enum fill mode, int64_t n, float scale) {
    const enum heed_type last = f16_ignores_flushing() ? HEED_F16 : HEED_BF16;
    struct elements e = {.type = (enum heed_type)rng_range(rng, HEED_F32, last), .values = new_filled(rng, mode, n)};
    for (int64_t i = 0; i < n; i++)
        e.values[i] *= scale;
    round_floats(e.type, e.values, n);
    e.data = malloc((size_t)(n * type_bytes(e.type)) + 1);
    ck_assert(e.data);
    for (int64_t i = 0; i < n; i++) {
        const uint16_t half = e.type == HEED_F32 ? 0 : half_of(e.type, e.values[i]);
        memcpy(type_at_output(e.type, e.data, i), e.type == HEED_F32 ? (const void *)(e.values + i) : &half,
               (size_t)type_bytes(e.type));
    }
    return e;
}

static struct elements new_elements(struct rng *rng, enum fill mode, int64_t n) { return new_scaled(rng, mode, n, 1); }

static void free_elements(struct elements *e) {
    free(e->values);
    free(e->data);
}

/* fma(x[even] y[even], fma(x[odd] y[odd], chain)), missing ones being 0; in an environment that flushes. */
static float pair_chain(float chain, const float x[2], const float y[2]) { return fmaf(x[0], y[0], fmaf(x[1], y[1], chain)); }

/* --- Scores --- */

/* What compilers know to be 1 they would not multiply by, and leave denormals as they are. */
static void scale_and_round(const struct elements *query, int64_t n, float factor, float *scaled) {
    const volatile float by = factor;
    const struct flushing before = flush_begin();
    for (int64_t i = 0; i < n; i++)
        scaled[i] = query->values[i] * by;
    flush_end(before);
    for (int64_t i = 0; i < n; i++)
        scaled[i] = rounded(scaled[i]);
}

static void must_be_scores(const float *s, const float *query, const float *keys, int rows, int64_t head_dim) {
    float *want = new_floats(rows * HEED_PANEL);
    const struct flushing before = flush_begin();
    for (int i = 0; i < rows * HEED_PANEL; i++) {
        const float *q = query + i / HEED_PANEL * head_dim, *k = keys + i % HEED_PANEL;
        float chain = 0;
        for (int64_t d = 0; d < head_dim; d += 2) {
            const bool whole = d + 1 < head_dim;
            chain = pair_chain(chain, (float[]){q[d], whole ? q[d + 1] : 0},
                               (float[]){k[d * HEED_PANEL], whole ? k[(d + 1) * HEED_PANEL] : 0});
        }
        want[i] = chain;
    }
    flush_end(before);
    for (int i = 0; i < rows; i++)
        must(compare(ANY_NAN, s + i * HEED_CHUNK, want + i * HEED_PANEL, 1, HEED_PANEL));
    free(want);
}

static void check_scores(const struct heed_kernels *table, struct rng *rng) {
    const int rows = (int)rng_range(rng, 1, MAX_ROWS);
    const int64_t head_dim = rng_range(rng, 1, rng_range(rng, 0, 3) ? 20 : 130), depth = round_up(head_dim, 2);
    const enum fill mode = any_fill(rng);
    const float factor = 0.37f;
    struct elements query = new_elements(rng, mode, rows * head_dim), keys = new_elements(rng, mode, head_dim * HEED_PANEL);
    float *q = new_filled(rng, FILL_NAN, rows * depth), *panel = new_filled(rng, FILL_NAN, depth * HEED_PANEL),
          *s = new_floats(rows * HEED_CHUNK), *row_max = new_floats(rows * HEED_SUM_LANES);
    float *scaled = new_floats(rows * head_dim);
    const int begins[MAX_ROWS] = {0};
    int ends[MAX_ROWS];
    for (int i = 0; i < rows; i++)
        ends[i] = HEED_CHUNK;
    describe("pairs of scores", table->name, "%d rows, head_dim %lld, types %d and %d, %s", rows, (long long)head_dim,
             (int)query.type, (int)keys.type, fill_name(mode));
    const struct flushing before = flush_begin();
    table->pair_queries(query.data, query.type, head_dim, rows, head_dim, factor, q, depth);
    if (keys.type == HEED_F32 && rng_range(rng, 0, 1)) {
        memcpy(panel, keys.data, (size_t)(head_dim * HEED_PANEL) * sizeof *panel);
        table->pair_rows(panel, HEED_F32, HEED_PANEL, head_dim, HEED_PANEL, false, panel, HEED_PANEL);
    } else {
        table->pair_rows(keys.data, keys.type, HEED_PANEL, head_dim, HEED_PANEL, false, panel, HEED_PANEL);
    }
    table->score_panel(&(struct heed_score_panel){.rows = rows,
                                                  .columns = HEED_PANEL,
                                                  .head_dim = depth,
                                                  .query = q,
                                                  .ldq = depth,
                                                  .keys = panel,
                                                  .ldk = HEED_PANEL,
                                                  .begins = begins,
                                                  .ends = ends,
                                                  .s = s,
                                                  .row_max = row_max});
    flush_end(before);
    scale_and_round(&query, rows * head_dim, factor, scaled);
    round_floats(HEED_BF16, keys.values, head_dim * HEED_PANEL);
    must_be_scores(s, scaled, keys.values, rows, head_dim);
    free_elements(&query);
    free_elements(&keys);
    float *const all[] = {q, panel, s, row_max, scaled};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_pairs_of_scores) {
    struct rng rng = rng_for("pairs_of_scores", 0);
    for (int64_t repeat = 0; repeat < test_count(400); repeat++)
        check_scores(heed_kernels_usable(_i), &rng);
}
END_TEST

/* --- Weights and values --- */

struct pair_case {
    int rows, columns, begins[MAX_ROWS], ends[MAX_ROWS];
    int from, to; /* the keys that any row sees */
    struct elements values;
    float s[MAX_ROWS * HEED_CHUNK], row_max[MAX_ROWS * HEED_SUM_LANES];
    float sum[2][MAX_ROWS], max[MAX_ROWS]; /* sum: of pairs, of floats */
    bool keeps;
    float keep_old[MAX_ROWS], take_new[MAX_ROWS];
};

static void choose_weights(struct pair_case *c, struct rng *rng) {
    fill(rng, FILL_NORMAL, c->s, c->rows * HEED_CHUNK);
    random_ranges(rng, c->rows, rng_range(rng, 0, 1) ? 40 : HEED_CHUNK, c->begins, c->ends);
    c->from = HEED_CHUNK;
    c->to = 0;
    for (int i = 0; i < c->rows; i++) {
        for (int j = 0; j < HEED_CHUNK; j++)
            if (j < c->begins[i] || j >= c->ends[i])
                c->s[i * HEED_CHUNK + j] = -INFINITY;
        for (int lane = 0; lane < HEED_SUM_LANES; lane++)
            c->row_max[i * HEED_SUM_LANES + lane] = max_of(c->s + i * HEED_CHUNK + lane, HEED_CHUNK - lane, HEED_SUM_LANES);
        if (c->begins[i] >= c->ends[i])
            continue;
        c->from = smaller(c->from, c->begins[i]);
        c->to = larger(c->to, c->ends[i]);
    }
    fill(rng, FILL_NORMAL, c->keep_old, MAX_ROWS);
    fill(rng, FILL_NORMAL, c->take_new, MAX_ROWS);
    for (int i = 0; i < c->rows; i++)
        if (c->begins[i] >= c->ends[i])
            c->keep_old[i] = 1;
}

static void weights(const struct heed_kernels *table, struct pair_case *c, bool pairs, float *s) {
    float row_max[MAX_ROWS * HEED_SUM_LANES];
    memcpy(s, c->s, sizeof c->s);
    for (int i = 0; i < c->rows; i++) /* of as many lanes as the table has */
        for (int lane = 0; lane < table->lanes; lane++)
            row_max[i * HEED_SUM_LANES + lane] =
                max_of(c->row_max + i * HEED_SUM_LANES + lane, HEED_SUM_LANES - lane, table->lanes);
    table->exp_rows(&(struct heed_exp_rows){.rows = c->rows,
                                            .pairs = pairs,
                                            .begins = c->begins,
                                            .ends = c->ends,
                                            .s = s,
                                            .row_max = row_max,
                                            .chunk_max = c->max,
                                            .chunk_sum = c->sum[pairs ? 0 : 1]});
}

/* What the row has of the pair that begins with key j. */
static void load_pair(const struct pair_case *c, int i, int j, const float *x, int64_t step, float pair[2]) {
    for (int n = 0; n < 2; n++)
        pair[n] = j + n >= c->begins[i] && j + n < c->ends[i] ? x[(j + n) * step] : 0;
}

static void must_be_outputs(const struct pair_case *c, const float *p, const float *values, const float *o, const float *got) {
    for (int i = 0; i < c->rows * c->columns; i++) {
        const int row = i / c->columns;
        float chain = 0, w[2], v[2];
        for (int j = c->begins[row] / 2 * 2; j < c->ends[row]; j += 2) {
            load_pair(c, row, j, p + row * HEED_CHUNK, 1, w);
            load_pair(c, row, j, values + i % c->columns, c->columns, v);
            chain = pair_chain(chain, w, v);
        }
        const float want = c->keeps ? fmaf(o[i], c->keep_old[row], chain * c->take_new[row]) : chain + 0.0f;
        must(compare(SAME_NUMBER, got + i, &want, 1, isnan(want) ? 0 : 1));
        ck_assert(isnan(want) == isnan(got[i]));
    }
}

static void check_weights(const struct heed_kernels *table, struct rng *rng) {
    static struct pair_case c;
    static float s[MAX_ROWS * HEED_CHUNK], p[MAX_ROWS * HEED_CHUNK];
    const enum fill mode = any_fill(rng);
    c = (struct pair_case){
        .rows = (int)rng_range(rng, 1, MAX_ROWS), .columns = (int)rng_range(rng, 1, 100), .keeps = rng_range(rng, 0, 1)};
    const int64_t ld = round_up(c.columns, HEED_SUM_LANES);
    choose_weights(&c, rng);
    c.values = new_elements(rng, mode, HEED_CHUNK * c.columns);
    float *packed = new_filled(rng, FILL_NAN, HEED_CHUNK * ld), *o = new_filled(rng, FILL_NORMAL, c.rows * c.columns),
          *padded = new_floats(c.rows * ld), *got = new_floats(c.rows * c.columns);
    for (int i = 0; i < c.rows * c.columns; i++)
        padded[i / c.columns * ld + i % c.columns] = o[i];
    describe("pairs of weights", table->name, "%d x %d, keys %d-%d to %d-%d, keeps %d, type %d, %s", c.rows, c.columns, c.begins[0],
             c.ends[0], c.begins[c.rows - 1], c.ends[c.rows - 1], c.keeps, (int)c.values.type, fill_name(mode));
    const struct flushing before = flush_begin();
    weights(table, &c, true, s);
    weights(table, &c, false, p);
    if (c.from < c.to)
        table->pair_rows(type_at(c.values.type, c.values.data, c.from * c.columns), c.values.type, c.columns, c.to - c.from,
                         c.columns, c.from % 2, packed + c.from / 2 * 2 * ld, ld);
    const void *values = packed;
    table->value_rows(&(struct heed_value_rows){.rows = c.rows,
                                                .pairs = true,
                                                .columns = c.columns,
                                                .begins = c.begins,
                                                .ends = c.ends,
                                                .p = s,
                                                .values = &values,
                                                .piece_keys = HEED_CHUNK,
                                                .ldv = ld,
                                                .o = padded,
                                                .ldo = ld,
                                                .keep_old = c.keeps ? c.keep_old : NULL,
                                                .take_new = c.take_new});
    flush_end(before);
    must(compare(SAME_BITS, c.sum[0], c.sum[1], 1, c.rows));
    round_floats(HEED_BF16, c.values.values, HEED_CHUNK * c.columns);
    round_floats(HEED_BF16, p, c.rows * HEED_CHUNK);
    for (int i = 0; i < c.rows; i++)
        memcpy(got + i * c.columns, padded + i * ld, (size_t)c.columns * sizeof *got);
    const struct flushing again = flush_begin();
    must_be_outputs(&c, p, c.values.values, o, got);
    flush_end(again);
    free_elements(&c.values);
    float *const all[] = {packed, o, padded, got};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_pairs_of_weights) {
    struct rng rng = rng_for("pairs_of_weights", 0);
    for (int64_t repeat = 0; repeat < test_count(400); repeat++)
        check_weights(heed_kernels_usable(_i), &rng);
}
END_TEST

/* --- Words, of the tables that have an instruction for pairs --- */

struct words_case {
    int rows, columns;
    int64_t k, split; /* split: a multiple of HEED_DOT, from where on a second tile of a product continues */
    bool transposed;
    struct elements a, b;
};

static void choose_words(struct words_case *c, struct rng *rng) {
    const enum fill mode = any_fill(rng);
    *c = (struct words_case){.rows = (int)rng_range(rng, 1, MAX_ROWS),
                             .columns = (int)rng_range(rng, 1, HEED_PANEL),
                             .k = rng_range(rng, 1, rng_range(rng, 0, 3) ? 40 : 200),
                             .transposed = rng_range(rng, 0, 1)};
    c->split = rng_range(rng, 0, c->k / HEED_DOT) * HEED_DOT;
    const bool tiny = rng_range(rng, 0, 3) == 0; /* products of either sign that become 0 */
    c->a = new_scaled(rng, mode, c->rows * c->k, tiny ? 0x1p-100f : 1);
    c->b = new_scaled(rng, mode, c->columns * c->k, tiny ? 0x1p-100f : 1);
    for (int64_t i = 0; c->b.type == HEED_F32 && i < c->columns * c->k; i += rng_range(rng, 1, 20)) {
        c->b.values[i] = 0x1.fffffcp-127f; /* which becomes 2^-126 */
        ((float *)c->b.data)[i] = c->b.values[i];
    }
}

static void words_tiles(const struct words_case *c, const struct heed_dots *dots, const float *a, const float *b, float *sums) {
    const int64_t lda = round_up(c->k, HEED_DOT) / dots->elements;
    for (int i = 0; i < c->rows; i += dots->tile_rows)
        for (int j = 0; j < c->columns; j += dots->tile_columns)
            dots->tile(&(struct heed_dot_tile){.rows = smaller(dots->tile_rows, c->rows - i),
                                               .columns = smaller(dots->tile_columns, c->columns - j),
                                               .k = round_up(c->k, dots->depth),
                                               .a = a + i * lda,
                                               .lda = lda,
                                               .b = b + j,
                                               .sums = sums + i * HEED_PANEL + j,
                                               .ldsums = HEED_PANEL});
}

/* The same as a product's tiles have it, whole ones of all columns. */
static void words_product(const struct words_case *c, const struct heed_dots *dots, const float *a, const float *b, float *sums) {
    const int64_t lda = round_up(c->k, HEED_DOT) / dots->elements, words = round_up(c->k, 2) / 2;
    for (int64_t from = 0, next; from < words; from = next) {
        next = from < c->split / 2 ? c->split / 2 : words;
        for (int i = 0; i < c->rows; i += dots->tile_rows)
            dots->gemm_tile(&(struct heed_gemm_tile){.rows = smaller(dots->tile_rows, c->rows - i),
                                                     .columns = c->columns,
                                                     .tiles = 1,
                                                     .k = next - from,
                                                     .a = a + i * lda + from,
                                                     .lda = lda,
                                                     .b = b + from * HEED_PANEL,
                                                     .ldb = HEED_PANEL,
                                                     .acc = from > 0 ? sums + i * HEED_PANEL : NULL,
                                                     .ldacc = HEED_PANEL,
                                                     .partial = next < words,
                                                     .alpha = 1,
                                                     .c = sums + i * HEED_PANEL,
                                                     .ldc = HEED_PANEL,
                                                     .next_a = a});
    }
}

static void must_be_words(const struct words_case *c, const float *sums) {
    const int64_t p_step = c->transposed ? 1 : c->columns, j_step = c->transposed ? c->k : 1;
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->columns; j++) {
            const float *x = c->a.values + i * c->k, *y = c->b.values + j * j_step;
            float chain = 0;
            for (int64_t p = 0; p < c->k; p += 2) {
                const bool whole = p + 1 < c->k;
                chain = pair_chain(chain, (float[]){x[p], whole ? x[p + 1] : 0},
                                   (float[]){y[p * p_step], whole ? y[(p + 1) * p_step] : 0});
            }
            must(compare(ANY_NAN, sums + i * HEED_PANEL + j, &chain, 1, 1));
        }
}

static void check_words(const struct heed_kernels *table, struct rng *rng) {
    const struct heed_dots *dots = table->pairs;
    struct words_case c;
    choose_words(&c, rng);
    const int64_t ldb = c.transposed ? c.k : c.columns, lda = round_up(c.k, HEED_DOT) / dots->elements;
    float *a = new_filled(rng, FILL_NAN, round_up(c.rows, dots->tile_rows) * lda),
          *b = new_filled(rng, FILL_NAN, round_up(c.k, HEED_DOT) * HEED_PANEL / dots->elements),
          *sums = new_filled(rng, FILL_NAN, round_up(c.rows, dots->tile_rows) * HEED_PANEL),
          *products = new_filled(rng, FILL_NAN, c.rows * HEED_PANEL);
    describe("pairs as words", table->name, "%d x %d x %lld, %lld first, types %d and %d, transposed %d", c.rows, c.columns,
             (long long)c.k, (long long)c.split, (int)c.a.type, (int)c.b.type, c.transposed);
    const struct flushing before = flush_begin();
    dots->load_a(c.a.data, c.a.type, c.k, c.rows, c.k, a, lda);
    (c.transposed ? dots->load_b_transposed : dots->load_b)(c.b.data, c.b.type, ldb, c.k, c.columns, b);
    words_tiles(&c, dots, a, b, sums);
    words_product(&c, dots, a, b, products);
    flush_end(before);
    scale_and_round(&c.a, c.rows * c.k, 1, c.a.values);
    round_floats(HEED_BF16, c.b.values, c.columns * c.k);
    const struct flushing again = flush_begin();
    must_be_words(&c, sums);
    must_be_words(&c, products);
    flush_end(again);
    free_elements(&c.a);
    free_elements(&c.b);
    float *const all[] = {a, b, sums, products};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_pairs_as_words) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("pairs_as_words", 0);
    for (int64_t repeat = 0; table->pairs && repeat < test_count(1000); repeat++)
        check_words(table, &rng);
}
END_TEST

void add_pair_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_pairs_of_scores, 0, tables);
    tcase_add_loop_test(tests, test_pairs_of_weights, 0, tables);
    tcase_add_loop_test(tests, test_pairs_as_words, 0, tables);
}
