/* What tiles of dots make of their sums, of every usable table: the same as finish_products of the scalar table makes of sums that
 * are left alone.  Some tables finish a tile's sums beside the next tile's products, in one place for all of them; those of pairs
 * round while sums are in registers.  And what weights of dots are where scores have scales. */
#include "dispatch.h"
#include "harness_attention.h"
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TILES = 6, MOST_K = 20 * HEED_DOT, MOST_TILE_ROWS = 32, GAP = 5 };

/* Tiles one under the other, sometimes of nothing along k; c's rows are `GAP` elements apart, and hold numbers that beta is
 * multiplied with. */
struct tiles_case {
    const struct heed_dots *dots;
    int tiles, rows[MOST_TILES], columns[MOST_TILES];
    int64_t k;
    float *a, *b, *scales;
    struct heed_finish_products finish; /* without rows, columns, sums and c */
};

static void choose_tiles(struct tiles_case *c, const struct heed_kernels *table, struct rng *rng) {
    const struct heed_dots *dots = heed_kernels_dots(table, HEED_COMPUTE_BF16_AMX);
    const enum heed_type last = f16_ignores_flushing() ? HEED_F16 : HEED_BF16;
    const enum fill mode = any_fill(rng);
    const int64_t most_k = rng_range(rng, 0, 9) == 0 ? 0 : rng_range(rng, 0, 3) ? 3 * HEED_DOT : MOST_K;
    *c = (struct tiles_case){
        .dots = dots, .tiles = (int)rng_range(rng, 1, MOST_TILES), .k = rng_range(rng, min_i64(1, most_k), most_k)};
    ck_assert(dots->tile_rows <= MOST_TILE_ROWS);
    for (int t = 0; t < c->tiles; t++) {
        c->rows[t] = rng_range(rng, 0, 3) ? dots->tile_rows : (int)rng_range(rng, 1, dots->tile_rows);
        c->columns[t] = rng_range(rng, 0, 3) ? HEED_PANEL / (int)rng_range(rng, 1, 2) : (int)rng_range(rng, 1, HEED_PANEL);
    }
    c->a = new_filled(rng, mode, MOST_TILES * MOST_TILE_ROWS * c->k);
    c->b = new_filled(rng, any_fill(rng), c->k * HEED_PANEL);
    c->scales = rng_range(rng, 0, 3) ? NULL : new_filled(rng, FILL_NORMAL, HEED_PANEL);
    c->finish = (struct heed_finish_products){.ldsums = HEED_PANEL,
                                              .scales = c->scales,
                                              .alpha = rng_range(rng, 0, 2) ? 1.0f : -1.7f,
                                              .beta = rng_range(rng, 0, 2) ? 0.0f : 0.3f,
                                              .type = (enum heed_type)rng_range(rng, HEED_F32, last),
                                              .ldc = HEED_PANEL + GAP};
    describe("dots that finish", table->name, "%d tiles, first %d x %d x %lld, type %d, alpha %g, beta %g, scales %d, %s", c->tiles,
             c->rows[0], c->columns[0], (long long)c->k, (int)c->finish.type, (double)c->finish.alpha, (double)c->finish.beta,
             c->scales != NULL, fill_name(mode));
}

static int64_t c_bytes(const struct tiles_case *c) {
    return type_span(c->finish.type, MOST_TILES * MOST_TILE_ROWS * c->finish.ldc);
}

/* The t-th tile, and what becomes of it in out. */
static struct heed_dot_tile tile_of(const struct tiles_case *c, int t, const float *a, const float *b, float *sums, char *out,
                                    struct heed_finish_products *finish) {
    const int64_t lda = round_up(c->k, HEED_DOT) / c->dots->elements;
    *finish = c->finish;
    finish->rows = c->rows[t];
    finish->columns = c->columns[t];
    finish->sums = sums;
    finish->c = type_at_output(c->finish.type, out, t * MOST_TILE_ROWS * c->finish.ldc);
    return (struct heed_dot_tile){.rows = c->rows[t],
                                  .columns = c->columns[t],
                                  .k = round_up(c->k, c->dots->depth),
                                  .a = a + t * MOST_TILE_ROWS * lda,
                                  .lda = lda,
                                  .b = b,
                                  .sums = sums,
                                  .ldsums = HEED_PANEL};
}

static void finish_by_tiles(const struct tiles_case *c, const struct heed_kernels *table, const float *a, const float *b,
                            float *sums, char *out) {
    struct heed_finish_products left = {.rows = 0}, finish;
    for (int t = 0; t < c->tiles; t++) {
        struct heed_dot_tile tile = tile_of(c, t, a, b, sums, out, &finish);
        tile.becomes = &finish;
        tile.left = &left;
        c->dots->tile(&tile);
    }
    if (left.rows > 0)
        table->finish_products(&left);
}

static void finish_apart(const struct tiles_case *c, const float *a, const float *b, float *sums, char *out) {
    struct heed_finish_products finish;
    for (int t = 0; t < c->tiles; t++) {
        const struct heed_dot_tile tile = tile_of(c, t, a, b, sums, out, &finish);
        c->dots->tile(&tile);
        scalar_kernels()->finish_products(&finish);
    }
}

static void check_tiles(const struct heed_kernels *table, struct rng *rng) {
    struct tiles_case c;
    struct heed_dots_callers callers;
    choose_tiles(&c, table, rng);
    const int64_t lda = round_up(c.k, HEED_DOT) / c.dots->elements, bytes = c_bytes(&c);
    float *a = new_filled(rng, FILL_NAN, MOST_TILES * MOST_TILE_ROWS * lda),
          *b = new_filled(rng, FILL_NAN, round_up(c.k, HEED_DOT) * HEED_PANEL), *sums = new_floats(MOST_TILE_ROWS * HEED_PANEL);
    char *out = malloc((size_t)bytes), *want = malloc((size_t)bytes);
    ck_assert(out && want);
    memset(out, 0x3c, (size_t)bytes);
    memset(want, 0x3c, (size_t)bytes);
    const struct flushing before = flush_begin();
    heed_dots_begin(c.dots, &callers);
    c.dots->load_a(c.a, HEED_F32, c.k, MOST_TILES * MOST_TILE_ROWS, c.k, a, lda);
    c.dots->load_b(c.b, HEED_F32, HEED_PANEL, c.k, HEED_PANEL, b);
    finish_by_tiles(&c, table, a, b, sums, out);
    finish_apart(&c, a, b, sums, want);
    heed_dots_end(c.dots, &callers);
    flush_end(before);
    ck_assert_msg(memcmp(out, want, (size_t)bytes) == 0, "%s: other bits beside products", table->name);
    void *const all[] = {a, b, sums, out, want, c.a, c.b, c.scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_dots_that_finish) {
    struct rng rng = rng_for("dots_that_finish", 0);
    for (int64_t repeat = 0; repeat < test_count(400); repeat++)
        check_tiles(heed_kernels_usable(_i), &rng);
}
END_TEST

/* A product's tiles of words, one under the other: sums, or these rounded. */
static void words_product(const struct heed_dots *dots, const struct heed_gemm_tile *tile, float *sums, uint16_t *rounded) {
    struct heed_gemm_tile product = *tile;
    product.c = sums;
    product.rounded = rounded;
    product.ldc = rounded ? HEED_PANEL + GAP : HEED_PANEL;
    dots->gemm_tile(&product);
}

static void check_rounded(const struct heed_kernels *table, struct rng *rng) {
    const struct heed_dots *dots = table->pairs;
    const int rows = (int)rng_range(rng, 1, dots->tile_rows), tiles = (int)rng_range(rng, 1, MOST_TILES), all_rows = tiles * rows;
    const int columns = rng_range(rng, 0, 2) ? HEED_PANEL : (int)rng_range(rng, 1, HEED_PANEL);
    const int64_t k = rng_range(rng, 0, MOST_K), lda = round_up(k, HEED_DOT) / dots->elements;
    const enum fill mode = any_fill(rng);
    float *x = new_filled(rng, mode, all_rows * k), *y = new_filled(rng, any_fill(rng), k * HEED_PANEL);
    float *a = new_floats(all_rows * lda), *b = new_floats(lda * HEED_PANEL), *sums = new_floats(all_rows * HEED_PANEL);
    uint16_t out[MOST_TILES * HEED_MAX_TILE_ROWS * (HEED_PANEL + GAP)], want[sizeof out / sizeof *out];
    describe("tiles that round", table->name, "%d tiles of %d x %d x %lld, %s", tiles, rows, columns, (long long)k,
             fill_name(mode));
    memset(out, 0x3c, sizeof out);
    memset(want, 0x3c, sizeof want);
    const struct flushing before = flush_begin();
    dots->load_a(x, HEED_F32, k, all_rows, k, a, lda);
    dots->load_b(y, HEED_F32, HEED_PANEL, k, HEED_PANEL, b);
    const struct heed_gemm_tile tile = {.rows = rows,
                                        .columns = columns,
                                        .tiles = tiles,
                                        .k = round_up(k, 2) / 2,
                                        .a = a,
                                        .lda = lda,
                                        .b = b,
                                        .ldb = HEED_PANEL,
                                        .alpha = 1,
                                        .next_a = a};
    words_product(dots, &tile, NULL, out);
    words_product(dots, &tile, sums, NULL);
    scalar_kernels()->finish_products(&(struct heed_finish_products){.rows = all_rows,
                                                                     .columns = columns,
                                                                     .sums = sums,
                                                                     .ldsums = HEED_PANEL,
                                                                     .alpha = 1,
                                                                     .c = want,
                                                                     .type = HEED_BF16,
                                                                     .ldc = HEED_PANEL + GAP});
    flush_end(before);
    ck_assert_msg(memcmp(out, want, sizeof out) == 0, "%s: other bits where tiles round", table->name);
    float *const all[] = {x, y, a, b, sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_tiles_that_round) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("tiles_that_round", 0);
    for (int64_t repeat = 0; table->pairs && repeat < test_count(1000); repeat++)
        check_rounded(table, &rng);
}
END_TEST

/* --- Scales of keys --- */

enum { WEIGHED_ROWS = 9 };

static void weigh_scores(const struct heed_dots *dots, const struct heed_dot_weights *given, float *scores, const float *key_scales,
                         float *max, float *sum) {
    struct heed_dot_weights weights = *given;
    weights.rows.s = scores;
    weights.rows.chunk_max = max;
    weights.rows.chunk_sum = sum;
    weights.key_scales = key_scales;
    dots->weigh(&weights);
}

/* The same as scores that were scaled before; anything may stand around the keys that rows see. */
static void check_key_scales(const struct heed_kernels *table, const struct heed_dots *dots, struct rng *rng) {
    const enum fill mode = any_fill(rng);
    const int rows = (int)rng_range(rng, 1, WEIGHED_ROWS), begin = (int)rng_range(rng, 0, HEED_CHUNK - 1);
    const int end = (int)rng_range(rng, begin + 1, HEED_CHUNK), n = rows * HEED_CHUNK;
    int begins[WEIGHED_ROWS], ends[WEIGHED_ROWS];
    float got_max[WEIGHED_ROWS], want_max[WEIGHED_ROWS], got_sum[WEIGHED_ROWS], want_sum[WEIGHED_ROWS];
    float *got = new_filled(rng, mode, n), *want = new_floats(n), *scales = new_filled(rng, any_fill(rng), HEED_CHUNK);
    memcpy(want, got, (size_t)n * sizeof *want);
    const struct flushing before = flush_begin();
    for (int i = 0; i < rows; i++) {
        begins[i] = begin;
        ends[i] = end;
        scalar_kernels()->scale_row(want + i * HEED_CHUNK + begin, end - begin, scales + begin);
    }
    const struct heed_dot_weights given = {
        .rows = {.rows = rows, .begins = begins, .ends = ends}, .first = begin / HEED_DOT * HEED_DOT, .last = end};
    describe("weigh", table->name, "%d rows, keys %d-%d with scales, %s", rows, begin, end, fill_name(mode));
    weigh_scores(dots, &given, got, scales, got_max, got_sum);
    weigh_scores(dots, &given, want, NULL, want_max, want_sum);
    flush_end(before);
    for (int i = 0; i < rows; i++) {
        const int64_t floats = ((int)round_up(end, HEED_DOT) - given.first) / dots->elements;
        const float *of_got = got + i * HEED_CHUNK + given.first / dots->elements, *of_want = want + (of_got - got);
        must(compare(ANY_NAN, got_sum + i, want_sum + i, 1, 1));
        if (isnan(want_sum[i]))
            continue;
        must(compare(SAME_NUMBER, got_max + i, want_max + i, 1, 1));
        ck_assert_msg(memcmp(of_got, of_want, (size_t)floats * sizeof *got) == 0, "%s: other weights", table->name);
    }
    free(got);
    free(want);
    free(scales);
}

START_TEST(test_key_scales) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("key_scales", 0);
    for (int64_t repeat = 0; repeat < test_count(300); repeat++) {
        check_key_scales(table, heed_kernels_dots(table, HEED_COMPUTE_BF16_AMX), &rng);
        if (table->pairs)
            check_key_scales(table, table->pairs, &rng);
    }
}
END_TEST

void add_dot_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_dots_that_finish, 0, tables);
    tcase_add_loop_test(tests, test_tiles_that_round, 0, tables);
    tcase_add_loop_test(tests, test_key_scales, 0, tables);
}
