/* thin_product of panels one right behind the other, or side by side in rows, of every usable table: the same as the scalar table's
 * product of each. */
#include "cpu.h"
#include "dispatch.h"
#include "kernels_common.h"
#include "stored.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 13, MOST_PANELS = 5, MOST_K = 140 };

struct panels_case {
    enum heed_type type; /* of b */
    bool pairs, a_words, continues;
    bool beside, rows_each;    /* panels are side by side; each has rows of a of its own */
    int rows, columns, panels; /* columns: of a panel */
    int64_t k;
    float *a, *c;
};

static int width_c(const struct panels_case *t) { return t->panels * t->columns; }
static int rows_of_a(const struct panels_case *t) { return t->rows_each ? t->panels * t->rows : t->rows; }
static int64_t elements_of_b(const struct panels_case *t) { return t->panels * t->k * t->columns; }

/* Before pages that nobody may read, or behind them. */
static char *store_b(const struct panels_case *t, const struct buffer *memory, enum placement placement, struct rng *rng) {
    const int64_t bytes = type_span(t->type, elements_of_b(t));
    char *b = (char *)memory->data + (placement == AT_END ? memory->count * (int64_t)sizeof(float) - bytes : 0);
    float *floats = new_filled(rng, t->type == HEED_I8 ? FILL_NORMAL : any_fill(rng), elements_of_b(t));
    if (t->pairs)
        round_floats(HEED_BF16, floats, elements_of_b(t));
    for (int64_t i = 0; i < elements_of_b(t); i++) {
        const uint16_t half = t->type == HEED_I8 || t->type == HEED_F32 ? 0 : half_of(t->type, floats[i]);
        if (t->type == HEED_I8)
            b[i] = (char)rng_range(rng, -128, 127);
        else if (t->type == HEED_F32)
            memcpy(b + i * (int64_t)sizeof *floats, &floats[i], sizeof *floats);
        else
            memcpy(b + i * (int64_t)sizeof half, &half, sizeof half);
    }
    free(floats);
    return b;
}

static void choose(struct panels_case *t, const struct heed_kernels *table, struct rng *rng) {
    const enum heed_type types[] = {HEED_F32, HEED_BF16, HEED_F16, HEED_I8};
    *t = (struct panels_case){.type = types[rng_range(rng, 0, 3)],
                              .continues = rng_range(rng, 0, 1),
                              .beside = rng_range(rng, 0, 1),
                              .rows_each = rng_range(rng, 0, 1),
                              .rows = (int)rng_range(rng, 1, rng_range(rng, 0, 1) ? 4 : MOST_ROWS),
                              .columns = HEED_SUM_LANES * (int)rng_range(rng, 1, 9),
                              .panels = (int)rng_range(rng, 1, MOST_PANELS),
                              .k = rng_range(rng, 1, MOST_K)};
    t->pairs = t->type != HEED_F16 && rng_range(rng, 0, 1);
    t->a_words = t->pairs && t->type != HEED_F32 && table->pairs && table->pairs->thin_pairs && rng_range(rng, 0, 1);
    t->a = new_filled(rng, any_fill(rng), rows_of_a(t) * t->k);
    t->c = new_filled(rng, FILL_NORMAL, t->rows * width_c(t));
    describe("thin_product of panels", table->name, "type %d%s%s, %d x %d, %d of them%s%s, k %lld, %s", (int)t->type,
             t->pairs ? " in pairs" : "", t->a_words ? ", a in words" : "", t->rows, t->columns, t->panels,
             t->beside ? " side by side" : "", t->rows_each ? " with rows of their own" : "", (long long)t->k,
             t->continues ? "continued" : "from 0");
}

/* Rows of a as the table takes them, of `*lda` floats. */
static float *new_rows(const struct heed_kernels *table, const struct panels_case *t, bool words, int64_t *lda) {
    *lda = words ? round_up(t->k, HEED_DOT) / table->pairs->elements : t->pairs ? round_up(t->k, 2) : t->k;
    const int rows = rows_of_a(t);
    float *a = new_floats(rows * *lda);
    if (words)
        table->pairs->load_a(t->a, HEED_F32, t->k, rows, t->k, a, *lda);
    else if (t->pairs)
        table->pair_queries(t->a, HEED_F32, t->k, rows, t->k, 1.0f, a, *lda);
    else
        memcpy(a, t->a, (size_t)(rows * t->k) * sizeof *a);
    return a;
}

static void check_panels(const struct heed_kernels *table, struct rng *rng) {
    struct panels_case t;
    choose(&t, table, rng);
    const enum placement placement = any_placement(rng);
    struct buffer memory = buffer_new((type_span(t.type, elements_of_b(&t)) + 3) / 4, placement);
    const int64_t all = t.rows * width_c(&t);
    float *got = new_floats(all), *want = new_floats(all);
    memcpy(got, t.c, (size_t)all * sizeof *got);
    memcpy(want, t.c, (size_t)all * sizeof *want);
    struct heed_thin_product product = {.rows = t.rows,
                                        .columns = t.columns,
                                        .k = t.k,
                                        .b = store_b(&t, &memory, placement, rng),
                                        .type = t.type,
                                        .ldb = t.beside ? width_c(&t) : t.columns,
                                        .more_panels = t.panels - 1,
                                        .b_step = t.beside ? t.columns : t.k * t.columns,
                                        .c_step = t.columns,
                                        .c = got,
                                        .ldc = width_c(&t),
                                        .pairs = t.pairs,
                                        .a_words = t.a_words,
                                        .continues = t.continues,
                                        .far = rng_range(rng, 0, 1),
                                        .in_order = rng_range(rng, 0, 1),
                                        .exact = true,
                                        .paced = rng_range(rng, 0, 1),
                                        .fetch_into = (enum heed_fetch_into)rng_range(rng, 0, 2),
                                        .next = rng_range(rng, 0, 1) ? t.a : NULL};
    if (t.pairs)
        heed_fp_flush(true);
    float *a = new_rows(table, &t, t.a_words, &product.lda);
    product.a = a;
    product.a_step = t.rows_each ? t.rows * product.lda : 0;
    table->thin_product(&product);
    free(a);
    a = new_rows(scalar_kernels(), &t, false, &product.lda);
    product.a_words = false;
    product.more_panels = 0;
    for (int i = 0; i < t.panels; i++) {
        product.a = a + (t.rows_each ? i * t.rows * product.lda : 0);
        product.c = want + i * t.columns;
        scalar_kernels()->thin_product(&product);
        product.b = type_at(t.type, product.b, product.b_step);
    }
    if (t.pairs)
        heed_fp_flush(false);
    must(compare(ANY_NAN, got, want, t.rows, width_c(&t)));
    float *const floats[] = {t.a, t.c, got, want, a};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        free(floats[i]);
    buffer_free(&memory);
}

START_TEST(test_thin_panels) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("thin_panels", 0);
    for (int64_t repeat = 0; repeat < test_count(600); repeat++)
        check_panels(table, &rng);
}
END_TEST

void add_thin_panel_tests(TCase *tests, int tables) { tcase_add_loop_test(tests, test_thin_panels, 0, tables); }
