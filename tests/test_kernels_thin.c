/* thin_product and thin_product_transposed of every usable table against the scalar table's, and against the chain itself. */
#include "cpu.h"
#include "harness_attention.h"
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 17 }; /* of tiles: more than those of any table */

struct thin_case {
    bool transposed, continues, has_next;
    bool pairs;    /* a and b are bf16 */
    bool exact;    /* no room behind the columns of b */
    bool of_cache; /* b lies in order, as a cache has it, and goes into L2 alone */
    int rows, columns, skipped;
    int64_t k, ldb;
    float *a, *b, *c; /* b: [k][width_b] or [columns][k] */
};

static int whole_columns(const struct thin_case *t) { return (t->columns + HEED_SUM_LANES - 1) / HEED_SUM_LANES * HEED_SUM_LANES; }
static int width_b(const struct thin_case *t) { return t->exact ? t->columns : whole_columns(t); }

/* With denormals as pairs have them. */
static void flush(const struct thin_case *t, bool on) {
    if (t->pairs)
        heed_fp_flush(on);
}

/* a as the table takes it, of t->k rounded up to `depth`. */
static float *new_factors(const struct heed_kernels *table, const struct thin_case *t, int64_t depth) {
    float *a = new_floats(t->rows * depth);
    if (t->pairs)
        table->pair_queries(t->a, HEED_F32, t->k, t->rows, t->k, 1.0f, a, depth);
    else
        memcpy(a, t->a, (size_t)(t->rows * depth) * sizeof *a);
    return a;
}

static void take_product(struct tensor *a, struct tensor *b, struct tensor *c, float *got) {
    must(tensor_take(c, got));
    must(tensor_unchanged(a));
    must(tensor_unchanged(b));
    tensor_free(a);
    tensor_free(b);
    tensor_free(c);
}

/* Rows of b that are skipped must not be touched: none before them are mapped where that is possible. */
static void compute_product(const struct heed_kernels *table, const struct thin_case *t, struct rng *rng, float *got) {
    const int whole = whole_columns(t), width = width_b(t);
    const int64_t depth = t->pairs ? round_up(t->k, 2) : t->k;
    flush(t, true);
    float *factors = new_factors(table, t, depth);
    struct tensor a = matrix(t->rows, depth, depth + rng_range(rng, 0, 3), any_placement(rng), factors);
    struct tensor b = t->transposed ? matrix(t->columns - t->skipped, t->k, t->ldb, any_placement(rng), t->b + t->skipped * t->k)
                                    : matrix(t->k, width, width + t->ldb - t->columns, any_placement(rng), t->b);
    struct tensor c = matrix(t->rows, whole, whole + rng_range(rng, 0, 3), any_placement(rng), t->c);
    const struct heed_thin_product product = {.rows = t->rows,
                                              .columns = t->columns,
                                              .k = t->k,
                                              .a = a.data,
                                              .lda = a.stride[2],
                                              .b = t->transposed ? b.data - t->skipped * t->ldb : b.data,
                                              .ldb = b.stride[2],
                                              .c = c.data,
                                              .ldc = c.stride[2],
                                              .skipped = t->skipped,
                                              .pairs = t->pairs,
                                              .continues = t->continues,
                                              .far = rng_range(rng, 0, 1),
                                              .near = rng_range(rng, 0, 1),
                                              .crowded = rng_range(rng, 0, 1),
                                              .exact = t->exact,
                                              .in_order = t->of_cache || rng_range(rng, 0, 1),
                                              .paced = rng_range(rng, 0, 1),
                                              .fetch_into = t->of_cache ? HEED_INTO_L2 : (enum heed_fetch_into)rng_range(rng, 0, 2),
                                              .next = t->has_next ? t->a : NULL,
                                              .next_step = rng_range(rng, 0, 1) * t->ldb * (int64_t)sizeof(float)};
    (t->transposed ? table->thin_product_transposed : table->thin_product)(&product);
    flush(t, false);
    take_product(&a, &b, &c, got);
    free(factors);
}

static float factor_a(const struct thin_case *t, int row, int64_t p) { return p < t->k ? t->a[row * t->k + p] : 0; }

static float factor_b(const struct thin_case *t, int64_t p, int column) {
    return p >= t->k ? 0 : t->transposed ? t->b[column * t->k + p] : t->b[p * width_b(t) + column];
}

static void must_be_chain(const struct thin_case *t, int row, int column, float got) {
    const int whole = whole_columns(t);
    float chain = t->continues ? t->c[row * whole + column] : 0;
    flush(t, true);
    for (int64_t p = 0; p < t->k; p += t->pairs ? 2 : 1) {
        if (t->pairs)
            chain = fmaf(factor_a(t, row, p + 1), factor_b(t, p + 1, column), chain);
        chain = fmaf(factor_a(t, row, p), factor_b(t, p, column), chain);
    }
    flush(t, false);
    must(compare(ANY_NAN, &got, &chain, 1, 1));
}

/* Few, a panel, more than that, and rows of more than 4 KB; or whole vectors, of which tiles may be as wide as a row. */
static int any_columns(struct rng *rng) {
    if (rng_range(rng, 0, 3) == 0)
        return HEED_SUM_LANES * (int)rng_range(rng, 1, 2 * HEED_PANEL / HEED_SUM_LANES);
    const int ranges[][2] = {{1, 70}, {1, 70}, {HEED_PANEL, HEED_PANEL}, {1, 270}, {1000, 1100}};
    const int *range = ranges[rng_range(rng, 0, (int)(sizeof ranges / sizeof *ranges) - 1)];
    return (int)rng_range(rng, range[0], range[1]);
}

static void check_thin_product(const struct heed_kernels *table, struct rng *rng, bool transposed, int rows, int64_t k) {
    const enum fill mode = any_fill(rng);
    const bool of_cache = !transposed && rng_range(rng, 0, 3) == 0;
    const int columns = of_cache ? HEED_SUM_LANES * (int)rng_range(rng, 1, 2 * HEED_PANEL / HEED_SUM_LANES) : any_columns(rng);
    const int whole = (columns + HEED_SUM_LANES - 1) / HEED_SUM_LANES * HEED_SUM_LANES,
              skipped = (int)rng_range(rng, 0, columns - 1);
    const int64_t gap = of_cache ? 0 : rng_range(rng, 0, 1) * rng_range(rng, 0, 20);
    struct thin_case t = {.transposed = transposed,
                          .continues = rng_range(rng, 0, 1),
                          .pairs = rng_range(rng, 0, 3) == 0,
                          .has_next = rng_range(rng, 0, 1),
                          .exact = rng_range(rng, 0, 1),
                          .of_cache = of_cache,
                          .rows = rows,
                          .columns = columns,
                          .skipped = transposed && rng_range(rng, 0, 1) ? skipped % HEED_SUM_LANES : 0,
                          .k = k,
                          .ldb = (transposed ? k : columns) + gap,
                          .a = new_filled(rng, mode, rows * k),
                          .b = new_filled(rng, mode, k * whole),
                          .c = new_filled(rng, mode, rows * whole)};
    if (t.pairs) {
        round_floats(HEED_BF16, t.a, rows * k);
        round_floats(HEED_BF16, t.b, k * whole);
    }
    float *got = new_floats(rows * whole), *want = new_floats(rows * whole);
    describe(transposed ? "thin_product_transposed" : "thin_product", table->name,
             "%d x %d, k %lld, ldb %lld, skipped %d, %s%s, %s", rows, columns, (long long)k, (long long)t.ldb, t.skipped,
             t.continues ? "continued" : "from 0",
             t.pairs   ? ", pairs"
             : t.exact ? ", exact"
                       : "",
             fill_name(mode));
    compute_product(table, &t, rng, got);
    compute_product(scalar_kernels(), &t, rng, want);
    for (int i = 0; i < rows; i++) {
        const int first = i * whole + t.skipped;
        must(compare(ANY_NAN, got + first, want + first, 1, columns - t.skipped));
        must_be_chain(&t, i, t.skipped, got[first]);
        must_be_chain(&t, i, columns - 1, got[i * whole + columns - 1]);
    }
    float *const all[] = {t.a, t.b, t.c, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* b, of bf16, as heed_gemm_pack_b has it. */
static struct tensor words_of_b(const struct thin_case *t, struct rng *rng) {
    const int64_t rows = round_up(t->k, 2) / 2;
    float *words = calloc((size_t)(rows * HEED_PANEL), sizeof *words);
    for (int64_t p = 0; p < t->k; p++)
        for (int j = 0; j < HEED_PANEL; j++) {
            const uint16_t half = half_of(HEED_BF16, t->b[p * HEED_PANEL + j]);
            memcpy((uint16_t *)(words + p / 2 * HEED_PANEL + j) + p % 2, &half, sizeof half);
        }
    struct tensor b = matrix(rows, HEED_PANEL, HEED_PANEL, any_placement(rng), words);
    free(words);
    return b;
}

/* By dots, unless they are NULL, which take a as they arrange it. */
static void compute_words(const struct heed_kernels *table, const struct heed_dots *dots, const struct thin_case *t,
                          struct rng *rng, float *got) {
    const int64_t depth = dots ? round_up(t->k, HEED_DOT) / dots->elements : t->pairs ? round_up(t->k, 2) : t->k;
    flush(t, true);
    float *factors = dots ? new_floats(t->rows * depth) : new_factors(table, t, depth);
    if (dots)
        dots->load_a(t->a, HEED_F32, t->k, t->rows, t->k, factors, depth);
    struct tensor a = matrix(t->rows, depth, depth + rng_range(rng, 0, 3), any_placement(rng), factors);
    struct tensor b = words_of_b(t, rng);
    struct tensor c = matrix(t->rows, HEED_PANEL, HEED_PANEL + rng_range(rng, 0, 3), any_placement(rng), t->c);
    (dots ? dots->thin_product
          : table->thin_product)(&(struct heed_thin_product){.rows = t->rows,
                                                             .columns = HEED_PANEL,
                                                             .k = t->k,
                                                             .a = a.data,
                                                             .lda = a.stride[2],
                                                             .b = b.data,
                                                             .type = HEED_BF16,
                                                             .ldb = HEED_PANEL,
                                                             .c = c.data,
                                                             .ldc = c.stride[2],
                                                             .pairs = t->pairs,
                                                             .words = true,
                                                             .in_order = rng_range(rng, 0, 1),
                                                             .exact = true,
                                                             .next = t->has_next ? t->a : NULL,
                                                             .fetch_into = (enum heed_fetch_into)rng_range(rng, 0, 2)});
    flush(t, false);
    take_product(&a, &b, &c, got);
    free(factors);
}

/* What becomes of words where products do not take them: rows of floats, or pairs, and what dots arrange from rows. */
static void check_unpacked(const struct heed_kernels *table, const struct thin_case *t, struct rng *rng) {
    const int64_t depth = t->pairs ? round_up(t->k, 2) : t->k, dots_depth = round_up(t->k, HEED_DOT);
    float *got = new_floats(dots_depth * HEED_PANEL), *want = new_floats(dots_depth * HEED_PANEL);
    uint16_t *rows = malloc((size_t)(t->k * HEED_PANEL) * sizeof *rows);
    for (int64_t i = 0; i < t->k * HEED_PANEL; i++)
        rows[i] = half_of(HEED_BF16, t->b[i]);
    struct tensor b = words_of_b(t, rng);
    table->unpack_words(b.data, t->k, t->pairs, got);
    memcpy(want, t->b, (size_t)(t->k * HEED_PANEL) * sizeof *want);
    if (t->pairs)
        table->pair_rows(t->b, HEED_F32, HEED_PANEL, t->k, HEED_PANEL, false, want, HEED_PANEL);
    must(compare(ANY_NAN, got, want, depth, HEED_PANEL));
    const struct heed_dots *const all[] = {table->dots, table->pairs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && all[i]->elements == 2) { /* packed words are b as they are */
            all[i]->load_b(rows, HEED_BF16, HEED_PANEL, t->k, HEED_PANEL, got);
            must(compare(SAME_BITS, got, b.data, round_up(t->k, 2) / 2, HEED_PANEL));
        }
    must(tensor_unchanged(&b));
    tensor_free(&b);
    free(rows);
    free(got);
    free(want);
}

static void check_thin_words(const struct heed_kernels *table, struct rng *rng) {
    const enum fill mode = any_fill(rng);
    const struct heed_dots *dots = rng_range(rng, 0, 1) ? table->pairs : NULL;
    const int rows = (int)rng_range(rng, 1, rng_range(rng, 0, 3) == 0 ? 1 : dots ? 70 : MOST_ROWS);
    const int64_t k = rng_range(rng, 1, rng_range(rng, 0, 2) ? 270 : 20);
    struct thin_case t = {.pairs = dots || rng_range(rng, 0, 1),
                          .has_next = rng_range(rng, 0, 1),
                          .rows = rows,
                          .columns = HEED_PANEL,
                          .k = k,
                          .ldb = HEED_PANEL};
    t.a = new_filled(rng, mode, rows * k);
    t.b = new_filled(rng, mode, k * HEED_PANEL);
    t.c = new_filled(rng, mode, rows * HEED_PANEL);
    round_floats(HEED_BF16, t.a, rows * k);
    round_floats(HEED_BF16, t.b, k * HEED_PANEL);
    float *got = new_floats(rows * HEED_PANEL), *want = new_floats(rows * HEED_PANEL);
    describe("thin_product of words", table->name, "%d rows, k %lld, %s, %s%s", rows, (long long)k, fill_name(mode),
             t.pairs ? "pairs" : "floats", dots ? " by dots" : "");
    compute_words(table, dots, &t, rng, got);
    compute_product(scalar_kernels(), &t, rng, want);
    must(compare(ANY_NAN, got, want, rows, HEED_PANEL));
    for (int i = 0; i < rows; i++)
        must_be_chain(&t, i, i % HEED_PANEL, got[i * HEED_PANEL + i % HEED_PANEL]);
    check_unpacked(table, &t, rng);
    float *const all[] = {t.a, t.b, t.c, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Of an odd number of pairs, with a product that vanishes: its sum is -0 before the last element, whose product is -0, too, and +0
 * only because the missing one's is added first. */
static void check_vanished(const struct heed_kernels *table, struct rng *rng, int rows, bool words) {
    enum { DEPTH = 3 };
    static const float factors[DEPTH] = {-0x1p-100f, 0.0f, -0.0f};
    float a[MOST_ROWS * DEPTH], b[DEPTH * HEED_PANEL], c[MOST_ROWS * HEED_PANEL], got[MOST_ROWS * HEED_PANEL];
    const struct thin_case t = {
        .pairs = true, .exact = true, .rows = rows, .columns = HEED_PANEL, .k = DEPTH, .ldb = HEED_PANEL, .a = a, .b = b, .c = c};
    for (int i = 0; i < rows; i++)
        memcpy(a + i * DEPTH, factors, sizeof factors);
    for (int i = 0; i < DEPTH * HEED_PANEL; i++)
        b[i] = 0x1p-60f;
    for (int i = 0; i < rows * HEED_PANEL; i++)
        c[i] = 1.0f;
    describe("thin_product of what vanishes", table->name, "%d rows%s", rows, words ? ", words" : "");
    if (words)
        compute_words(table, NULL, &t, rng, got);
    else
        compute_product(table, &t, rng, got);
    for (int i = 0; i < rows * HEED_PANEL; i++)
        must_be_chain(&t, i / HEED_PANEL, i % HEED_PANEL, got[i]);
}

START_TEST(test_thin_product) {
    static const int64_t depths[] = {1, 3, 16, 64, 80, 127, 128, 257};
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("thin_product", 0);
    for (int64_t repeat = 0; repeat < test_count(8); repeat++)
        for (int rows = 1; rows <= MOST_ROWS; rows++)
            for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
                for (int transposed = 0; transposed < 2; transposed++)
                    check_thin_product(table, &rng, transposed, rows, depths[i]);
}
END_TEST

START_TEST(test_thin_words) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("thin_words", 0);
    for (int64_t repeat = 0; repeat < test_count(300); repeat++)
        check_thin_words(table, &rng);
}
END_TEST

START_TEST(test_thin_vanished) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("thin_vanished", 0);
    for (int rows = 1; rows <= MOST_ROWS; rows++)
        for (int words = 0; words < 2; words++)
            check_vanished(table, &rng, rows, words);
}
END_TEST

void add_thin_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_thin_product, 0, tables);
    tcase_add_loop_test(tests, test_thin_words, 0, tables);
    tcase_add_loop_test(tests, test_thin_vanished, 0, tables);
}
