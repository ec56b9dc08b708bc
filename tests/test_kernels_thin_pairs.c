/* thin_product and thin_product_transposed in pairs, of bf16 and bytes as they lie in memory, of every usable table and of its
 * dots: the same as the scalar table's make of these as floats, which test_kernels_thin.c compares with the chain itself. */
#include "dispatch.h"
#include "kernels_common.h"
#include "stored.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 70 /* more than are multiplied at a time */, MOST_COLUMNS = 270, MOST_K = 300, LONG_K = 700 };

struct pairs_case {
    enum heed_type type; /* of b */
    bool transposed, by_dots, a_words, continues;
    int rows, columns;
    int64_t k, ldb, width; /* width: columns rounded up to whole vectors */
    float *a, *b, *c;      /* b: [k][width] */
};

/* Dots take whole squares of a few rows. */
static void choose(struct pairs_case *t, const struct heed_kernels *table, struct rng *rng) {
    const enum fill mode = any_fill(rng);
    *t = (struct pairs_case){.type = rng_range(rng, 0, 1) ? HEED_BF16 : HEED_I8,
                             .transposed = rng_range(rng, 0, 1),
                             .continues = rng_range(rng, 0, 1),
                             .rows = (int)rng_range(rng, 1, MOST_ROWS),
                             .columns = (int)rng_range(rng, 1, rng_range(rng, 0, 1) ? MOST_COLUMNS : HEED_PANEL),
                             .k = rng_range(rng, 1,
                                            rng_range(rng, 0, 9) == 0 ? LONG_K
                                            : rng_range(rng, 0, 2)    ? MOST_K
                                                                      : 20)};
    t->by_dots = t->transposed && t->type == HEED_BF16 && table->pairs && rng_range(rng, 0, 1);
    if (t->by_dots) {
        t->rows = (int)rng_range(rng, 1, 2 * HEED_MAX_TILE_ROWS);
        t->columns = (int)rng_range(rng, 1, 5) * HEED_SUM_LANES;
        t->k = rng_range(rng, 1, 9) * HEED_DOT;
    }
    t->a_words = !t->transposed && table->pairs && table->pairs->thin_pairs && rng_range(rng, 0, 1);
    if (t->a_words)
        t->columns = (int)rng_range(rng, 1, 9) * HEED_SUM_LANES;
    t->ldb = (t->transposed ? t->k : t->columns) + rng_range(rng, 0, 1) * rng_range(rng, 0, 20);
    if (t->k == 1 && !t->transposed && rng_range(rng, 0, 1))
        t->ldb = INT64_MAX / 3; /* there is no other row */
    t->width = round_up(t->columns, HEED_SUM_LANES);
    t->a = new_filled(rng, mode, t->rows * t->k);
    t->b = new_filled(rng, mode, t->k * t->width);
    t->c = new_filled(rng, mode, t->rows * t->width);
    for (int64_t i = 0; t->type == HEED_I8 && i < t->k * t->width; i++)
        t->b[i] = (float)rng_range(rng, -128, 127);
    round_floats(HEED_BF16, t->b, t->k * t->width);
    describe(t->transposed ? "thin_product_transposed" : "thin_product", table->name,
             "pairs, %s, %d x %d, k %lld, ldb %lld, %s%s%s, %s", t->type == HEED_I8 ? "i8" : "bf16", t->rows, t->columns,
             (long long)t->k, (long long)t->ldb, t->continues ? "continued" : "from 0", t->by_dots ? ", by dots" : "",
             t->a_words ? ", a in words" : "", fill_name(mode));
}

static int64_t elements_of_b(const struct pairs_case *t) {
    return t->transposed ? (t->columns - 1) * t->ldb + t->k : (t->k - 1) * t->ldb + t->columns;
}

/* Between pages that nobody may read. */
static void *store_b(const struct pairs_case *t, const struct buffer *memory, enum placement placement) {
    const int64_t bytes = type_span(t->type, elements_of_b(t));
    char *b = (char *)memory->data + (placement == AT_END ? memory->count * (int64_t)sizeof(float) - bytes : 0);
    for (int64_t p = 0; p < t->k; p++)
        for (int j = 0; j < t->columns; j++) {
            const int64_t at = t->transposed ? j * t->ldb + p : p * t->ldb + j;
            const float x = t->b[p * t->width + j];
            const uint16_t half = half_of(HEED_BF16, x);
            if (t->type == HEED_I8)
                b[at] = (char)(int)x;
            else
                memcpy(b + at * (int64_t)sizeof half, &half, sizeof half);
        }
    return b;
}

/* c, in place. */
static void multiply(const struct heed_kernels *table, const struct pairs_case *t, struct heed_thin_product product, float *c) {
    const struct heed_dots *dots = product.type != HEED_F32 && (t->by_dots || t->a_words) ? table->pairs : NULL;
    const int64_t lda = dots ? round_up(t->k, HEED_DOT) / dots->elements : round_up(t->k, 2);
    float *a = new_floats(t->rows * lda);
    const struct flushing before = flush_begin();
    if (dots)
        dots->load_a(t->a, HEED_F32, t->k, t->rows, t->k, a, lda);
    else
        table->pair_queries(t->a, HEED_F32, t->k, t->rows, t->k, 1.0f, a, lda);
    for (int i = 0; !dots && t->k % 2 && i < t->rows; i++)
        a[i * lda + t->k - 1] = __builtin_nanf(""); /* in the place of what is missing */
    product.a = a;
    product.lda = lda;
    product.c = c;
    product.a_words = dots && t->a_words;
    if (dots && t->by_dots)
        dots->thin_product_transposed(&product);
    else
        (t->transposed && product.type != HEED_F32 ? table->thin_product_transposed : table->thin_product)(&product);
    flush_end(before);
    free(a);
}

static void check_thin_pairs(const struct heed_kernels *table, struct rng *rng) {
    struct pairs_case t;
    choose(&t, table, rng);
    const enum placement placement = any_placement(rng);
    struct buffer memory = buffer_new((type_span(t.type, elements_of_b(&t)) + 3) / 4, placement);
    const int64_t all = t.rows * t.width;
    float *got = new_floats(all), *want = new_floats(all);
    memcpy(got, t.c, (size_t)all * sizeof *got);
    memcpy(want, t.c, (size_t)all * sizeof *want);
    struct heed_thin_product product = {.rows = t.rows,
                                        .columns = t.columns,
                                        .k = t.k,
                                        .b = store_b(&t, &memory, placement),
                                        .type = t.type,
                                        .ldb = t.ldb,
                                        .ldc = t.width,
                                        .pairs = true,
                                        .continues = t.continues,
                                        .exact = true,
                                        .far = rng_range(rng, 0, 1),
                                        .near = rng_range(rng, 0, 1),
                                        .crowded = rng_range(rng, 0, 1),
                                        .in_order = rng_range(rng, 0, 1),
                                        .paced = rng_range(rng, 0, 1),
                                        .fetch_into = (enum heed_fetch_into)rng_range(rng, 0, 2),
                                        .next = rng_range(rng, 0, 1) ? t.b : NULL,
                                        .next_step = rng_range(rng, 0, 1) * 64};
    multiply(table, &t, product, got);
    product.b = t.b;
    product.type = HEED_F32;
    product.ldb = t.width;
    multiply(scalar_kernels(), &t, product, want);
    for (int i = 0; i < t.rows; i++)
        must(compare(ANY_NAN, got + i * t.width, want + i * t.width, 1, t.columns));
    float *const floats[] = {t.a, t.b, t.c, got, want};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        free(floats[i]);
    buffer_free(&memory);
}

START_TEST(test_thin_pairs) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("thin_pairs", 0);
    for (int64_t repeat = 0; repeat < test_count(600); repeat++)
        check_thin_pairs(table, &rng);
}
END_TEST

void add_thin_pair_tests(TCase *tests, int tables) { tcase_add_loop_test(tests, test_thin_pairs, 0, tables); }
