/* Conversions between floats and 16-bit types, of every usable table: all 65536 numbers of a type widened, and all places where
 * rounding changes its mind, against the definition in double; rows of any strides in guarded memory. */
#include "kernels_common.h"
#include "reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct type_test {
    const char *name;
    enum heed_type type;
    double (*widen)(uint16_t x);
    uint16_t (*round)(double x);
    uint16_t infinity, nan;
} type_tests[] = {{"bf16", HEED_BF16, ref_widen_bf16, ref_round_bf16, 0x7f80, 0x7fc0},
                  {"f16", HEED_F16, ref_widen_f16, ref_round_f16, 0x7c00, 0x7e00}};
enum { TYPE_TESTS = sizeof type_tests / sizeof *type_tests, NUMBERS = 1 << 16 };

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The float of a number of the type, of a NaN the one with its sign and payload; f16 NaNs become quiet. */
static float widened(const struct type_test *test, uint16_t x) {
    if ((x & 0x7fff) <= test->infinity)
        return (float)test->widen(x);
    if (test->type == HEED_BF16)
        return float_of((uint32_t)x << 16);
    return float_of((uint32_t)(x & 0x8000) << 16 | 0x7fc00000u | (uint32_t)(x & 1023) << 13);
}

START_TEST(test_widen_all) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    uint16_t *numbers = malloc(NUMBERS * sizeof *numbers);
    float *got = new_floats(NUMBERS), *want = new_floats(NUMBERS);
    for (int t = 0; t < TYPE_TESTS; t++) {
        describe("widen_rows", table->name, "all %s", type_tests[t].name);
        for (int i = 0; i < NUMBERS; i++) {
            const float x = widened(&type_tests[t], numbers[i] = (uint16_t)i);
            memcpy(want + i, &x, sizeof x);
        }
        table->widen_rows(numbers, type_tests[t].type, 0, 1, NUMBERS, got, 0);
        must(compare(SAME_BITS, got, want, 1, NUMBERS));
    }
    free(numbers);
    free(got);
    free(want);
}
END_TEST

static void check_rounding(const struct heed_kernels *table, const struct type_test *test, const float *x, int64_t n) {
    uint16_t *got = malloc((size_t)n * sizeof *got);
    describe("round_rows", table->name, "%s", test->name);
    table->round_rows(x, 0, 1, n, got, test->type, 0);
    for (int64_t i = 0; i < n; i++) {
        const uint16_t want = test->round((double)x[i]);
        if (got[i] != want) /* asking Check each time would take longer than the rest */
            ck_abort_msg("%s: %a becomes %s 0x%04x, not 0x%04x", table->name, (double)x[i], test->name, got[i], want);
    }
    free(got);
}

/* Each number, the middle between it and the next one (beyond the largest: where that would be), and the floats beside the middle.
 */
START_TEST(test_round_edges) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    float *x = new_floats(4 * NUMBERS);
    for (int t = 0; t < TYPE_TESTS; t++) {
        const struct type_test *test = &type_tests[t];
        int64_t n = 0;
        for (int i = 0; i < NUMBERS; i += test_quick() ? 7 : 1) {
            if ((i & 0x7fff) >= test->infinity)
                continue;
            const double at = test->widen((uint16_t)i), before = i & 0x7fff ? test->widen((uint16_t)(i - 1)) : -at;
            const bool last = (i & 0x7fff) == test->infinity - 1;
            const float middle = (float)(last ? at + (at - before) / 2 : (at + test->widen((uint16_t)(i + 1))) / 2);
            x[n++] = (float)at;
            x[n++] = float_of(bits_of(middle) - 1);
            x[n++] = middle;
            x[n++] = float_of(bits_of(middle) + 1);
        }
        check_rounding(table, test, x, n);
    }
    free(x);
}
END_TEST

START_TEST(test_round_any) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("round_any", 0);
    const int64_t n = test_count(1 << 20);
    float *x = new_floats(n);
    for (int64_t i = 0; i < n; i++) {
        /* Of any exponent, or of one near to those of f16, and with few bits set in what is cut off. */
        const uint64_t any = rng_next(&rng);
        const uint32_t exponent = any >> 40 & 1 ? (uint32_t)(any >> 41 & 255) : 95 + (uint32_t)(any >> 41) % 56;
        const uint32_t fraction = (any >> 32 & 3 ? 0x7fffffu : 0x7ff000u | 1u << (any >> 34 & 15)) & (uint32_t)any;
        x[i] = float_of((uint32_t)(any >> 63) << 31 | exponent << 23 | fraction);
    }
    const uint32_t edges[] = {0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc00000, 0x7f7fffff,
                              0xff7fffff, 0x00000001, 0x80000001, 0x007fffff, 0x00000000, 0x80000000, 0x00008000, 0x80018000};
    memcpy(x, edges, sizeof edges);
    for (int t = 0; t < TYPE_TESTS; t++)
        check_rounding(table, &type_tests[t], x, n);
    free(x);
}
END_TEST

/* The first of n 16-bit elements in guarded memory: before the inaccessible page, or after one. */
static uint16_t *place_halves(const struct buffer *buffer, int64_t n, enum placement placement) {
    return placement == AT_END ? (uint16_t *)(buffer->data + buffer->count) - n : (uint16_t *)buffer->data;
}

static void check_rows(const struct heed_kernels *table, const struct type_test *test, struct rng *rng) {
    const int64_t rows = rng_range(rng, 1, 5), n = rng_range(rng, 1, 70), ld = n + rng_range(rng, 0, 3);
    const int64_t span = (rows - 1) * ld + n;
    const enum placement placement = any_placement(rng);
    struct buffer memory = buffer_new((span + 1) / 2, placement);
    uint16_t *halves = place_halves(&memory, span, placement);
    float *values = new_filled(rng, any_fill(rng), rows * n), *got = new_floats(rows * n), *want = new_floats(rows * n);
    struct tensor x = matrix(rows, n, ld, any_placement(rng), values), y = matrix(rows, n, n, any_placement(rng), NULL);
    describe("round_rows, widen_rows", table->name, "%s, %lld x %lld, ld %lld", test->name, (long long)rows, (long long)n,
             (long long)ld);
    memset(halves, 0xaa, (size_t)span * sizeof *halves);
    table->round_rows(x.data, ld, rows, n, halves, test->type, ld);
    table->widen_rows(halves, test->type, ld, rows, n, y.data, n);
    for (int64_t i = 0; i < rows * n; i++)
        want[i] = (float)test->widen(test->round((double)values[i]));
    for (int64_t i = 0; i < rows - 1; i++)
        for (int64_t j = n; j < ld; j++)
            ck_assert_msg(halves[i * ld + j] == 0xaaaa, "written between rows");
    must(tensor_take(&y, got));
    must(tensor_unchanged(&x));
    must(compare(SAME_BITS, got, want, rows, n));
    buffer_free(&memory);
    tensor_free(&x);
    tensor_free(&y);
    free(values);
    free(got);
    free(want);
}

START_TEST(test_type_rows) {
    struct rng rng = rng_for("type_rows", 0);
    for (int64_t repeat = 0; repeat < test_count(400); repeat++)
        check_rows(heed_kernels_usable(_i), &type_tests[repeat % TYPE_TESTS], &rng);
}
END_TEST

/* --- Kernels that take a type --- */

/* A matrix of 16-bit elements in guarded memory, and what they are as floats. */
struct halves {
    enum heed_type type;
    int64_t ld;
    const uint16_t *data;
    float *floats;
    struct buffer memory;
};

static struct halves new_halves(const struct type_test *test, int64_t rows, int64_t columns, struct rng *rng) {
    struct halves h = {.type = test->type, .ld = columns + rng_range(rng, 0, 3)};
    const int64_t n = rows * columns, span = rows > 0 && columns > 0 ? (rows - 1) * h.ld + columns : 0;
    const enum placement placement = any_placement(rng);
    h.memory = buffer_new((span + 1) / 2, placement);
    uint16_t *data = place_halves(&h.memory, span, placement);
    h.data = data;
    h.floats = new_filled(rng, any_fill(rng), n);
    for (int64_t i = 0; i < n; i++) {
        const uint16_t half = test->round((double)h.floats[i]);
        data[i / columns * h.ld + i % columns] = half;
        h.floats[i] = widened(test, half);
    }
    return h;
}

static void free_halves(struct halves *h) {
    free(h->floats);
    buffer_free(&h->memory);
}

/* The same by the same table's kernels for floats. */
static void check_loads(const struct heed_kernels *table, const struct type_test *test, struct rng *rng) {
    const int64_t rows = rng_range(rng, 1, HEED_PANEL), n = rng_range(rng, 1, 80), width = rows + rng_range(rng, 0, 3);
    struct halves x = new_halves(test, rows, n, rng);
    float *got = new_filled(rng, FILL_EQUAL, 80 * (HEED_PANEL + 3)), *want = new_floats(80 * (HEED_PANEL + 3));
    memcpy(want, got, (size_t)(80 * (HEED_PANEL + 3)) * sizeof *want);
    describe("scale_rows", table->name, "%s, %lld x %lld", test->name, (long long)rows, (long long)n);
    table->scale_rows(x.data, x.type, x.ld, rows, n, -0.375f, got, n);
    table->scale_rows(x.floats, HEED_F32, n, rows, n, -0.375f, want, n);
    must(compare(ANY_NAN, got, want, rows, n));
    describe("pack_transposed", table->name, "%s, %lld x %lld", test->name, (long long)rows, (long long)n);
    table->pack_transposed(x.data, x.type, x.ld, n, (int)rows, got);
    table->pack_transposed(x.floats, HEED_F32, n, n, (int)rows, want);
    must(compare(SAME_BITS, got, want, n, HEED_PANEL));
    describe("store_keys", table->name, "%s, %lld x %lld", test->name, (long long)rows, (long long)n);
    memcpy(want, got, (size_t)(n * width) * sizeof *want);
    table->store_keys(x.data, x.type, x.ld, n, (int)rows, got, width);
    table->store_keys(x.floats, HEED_F32, n, n, (int)rows, want, width);
    must(compare(SAME_BITS, got, want, n, width));
    free_halves(&x);
    free(got);
    free(want);
}

/* b is k x columns, or columns x k if transposed. */
static void check_thin(const struct heed_kernels *table, const struct type_test *test, struct rng *rng) {
    static const int64_t wide[] = {1023, 1024, 1025, 2100};
    const bool transposed = rng_range(rng, 0, 1), is_wide = rng_range(rng, 0, 19) == 0;
    const bool whole = rng_range(rng, 0, 2) == 0; /* tiles may be as wide as a row */
    const int rows = (int)rng_range(rng, 1, 13);
    const int columns =
        whole ? HEED_SUM_LANES * (int)rng_range(rng, 1, 8) : (int)(is_wide ? wide[rng_range(rng, 0, 3)] : rng_range(rng, 1, 140));
    const int64_t k = rng_range(rng, 1, is_wide ? 12 : 300), ldc = (columns + 15) / 16 * 16;
    struct halves b = new_halves(test, transposed ? columns : k, transposed ? k : columns, rng);
    float *a = new_filled(rng, FILL_NORMAL, rows * k), *got = new_filled(rng, FILL_NORMAL, rows * ldc),
          *want = new_floats(rows * ldc);
    const int64_t ldf = transposed ? k : ldc; /* rows of floats have room for whole vectors */
    float *floats = new_filled(rng, FILL_ZEROS, (transposed ? columns : k) * ldf);
    for (int64_t i = 0; i < (transposed ? columns : k); i++)
        memcpy(floats + i * ldf, b.floats + i * (transposed ? k : columns), (size_t)(transposed ? k : columns) * sizeof *floats);
    memcpy(want, got, (size_t)(rows * ldc) * sizeof *want);
    struct heed_thin_product product = {.rows = rows,
                                        .columns = columns,
                                        .k = k,
                                        .a = a,
                                        .lda = k,
                                        .b = b.data,
                                        .type = b.type,
                                        .ldb = b.ld,
                                        .c = got,
                                        .ldc = ldc,
                                        .continues = rng_range(rng, 0, 1),
                                        .paced = rng_range(rng, 0, 1),
                                        .far = rng_range(rng, 0, 1),
                                        .near = rng_range(rng, 0, 1),
                                        .crowded = rng_range(rng, 0, 1),
                                        .in_order = rng_range(rng, 0, 1),
                                        .fetch_into = (enum heed_fetch_into)rng_range(rng, 0, 2),
                                        .next = rng_range(rng, 0, 1) ? a : NULL,
                                        .next_step = rng_range(rng, 0, 1) * 64};
    describe(transposed ? "thin_product_transposed" : "thin_product", table->name, "%s, %d x %d, k %lld", test->name, rows, columns,
             (long long)k);
    (transposed ? table->thin_product_transposed : table->thin_product)(&product);
    product.b = floats;
    product.type = HEED_F32;
    product.ldb = ldf;
    product.c = want;
    (transposed ? table->thin_product_transposed : table->thin_product)(&product);
    for (int i = 0; i < rows; i++)
        must(compare(ANY_NAN, got + i * ldc, want + i * ldc, 1, columns));
    float *const all[] = {a, got, want, floats};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free_halves(&b);
}

static void check_finish(const struct heed_kernels *table, const struct type_test *test, struct rng *rng) {
    const float sums[] = {2.5f, 0, 1e-38f, INFINITY, NAN, 3, 7};
    const int64_t rows = rng_range(rng, 1, 7), n = rng_range(rng, 1, 70);
    struct halves y = new_halves(test, rows, n, rng);
    float *x = new_filled(rng, any_fill(rng), rows * n), *want = new_floats(rows * n);
    describe("finish_rows", table->name, "%s, %lld x %lld", test->name, (long long)rows, (long long)n);
    uint16_t *data = (uint16_t *)(uintptr_t)y.data;
    for (int64_t i = 0; i + 1 < rows; i++)
        memset(data + i * y.ld + n, 0xaa, (size_t)(y.ld - n) * sizeof *data);
    table->finish_rows(x, n, sums, rows, n, data, test->type, y.ld);
    table->finish_rows(x, n, sums, rows, n, want, HEED_F32, n);
    for (int64_t i = 0; i < rows * n; i++) {
        const uint16_t got = data[i / n * y.ld + i % n];
        ck_assert_msg(got == test->round((double)want[i]), "%s: %a became 0x%04x", table->name, (double)want[i], got);
    }
    for (int64_t i = 0; i + 1 < rows; i++)
        for (int64_t j = n; j < y.ld; j++)
            ck_assert_msg(data[i * y.ld + j] == 0xaaaa, "written between rows");
    free_halves(&y);
    free(x);
    free(want);
}

static void check_pack(const struct heed_kernels *table, const struct type_test *test, struct rng *rng) {
    const int64_t k = rng_range(rng, 1, 9), columns = rng_range(rng, 1, HEED_PANEL);
    struct halves x = new_halves(test, k, columns, rng);
    float *got = new_floats(k * HEED_PANEL), *want = new_filled(rng, FILL_EQUAL, k * HEED_PANEL);
    describe("pack", table->name, "%s, %lld x %lld", test->name, (long long)k, (long long)columns);
    memset(want, 0, (size_t)(k * HEED_PANEL) * sizeof *want);
    for (int64_t i = 0; i < k; i++)
        memcpy(want + i * HEED_PANEL, x.floats + i * columns, (size_t)columns * sizeof *want);
    table->pack(x.data, x.type, x.ld, k, (int)columns, got);
    must(compare(SAME_BITS, got, want, k, HEED_PANEL));
    free_halves(&x);
    free(got);
    free(want);
}

/* By the definition, element by element. */
static void check_finish_products(const struct heed_kernels *table, const struct type_test *test, struct rng *rng) {
    const int64_t rows = rng_range(rng, 1, 7), n = rng_range(rng, 1, 70);
    const float alpha = rng_range(rng, 0, 1) ? 1.0f : -1.7f, beta = rng_range(rng, 0, 1) ? 0.0f : 0.3f;
    float *scales = rng_range(rng, 0, 1) ? new_filled(rng, any_fill(rng), n) : NULL;
    struct halves c = new_halves(test, rows, n, rng);
    float *sums = new_filled(rng, any_fill(rng), rows * n), *floats = new_floats(rows * n), *want = new_floats(rows * n);
    uint16_t *data = (uint16_t *)(uintptr_t)c.data;
    describe("finish_products", table->name, "%s, %lld x %lld, alpha %g, beta %g", test->name, (long long)rows, (long long)n,
             (double)alpha, (double)beta);
    for (int64_t i = 0; i + 1 < rows; i++)
        memset(data + i * c.ld + n, 0xaa, (size_t)(c.ld - n) * sizeof *data);
    memcpy(floats, c.floats, (size_t)(rows * n) * sizeof *floats);
    for (int64_t i = 0; i < rows * n; i++) {
        const float y = alpha * (scales ? sums[i] * scales[i % n] : sums[i]), x = beta != 0 ? fmaf(beta, c.floats[i], y) : y;
        want[i] = isnan(x) ? float_of(0x7fc00000) : x;
    }
    struct heed_finish_products products = {rows, n, sums, n, scales, alpha, beta, data, test->type, c.ld};
    table->finish_products(&products);
    products.c = floats, products.type = HEED_F32, products.ldc = n;
    table->finish_products(&products);
    must(compare(SAME_BITS, floats, want, rows, n));
    for (int64_t i = 0; i < rows * n; i++)
        ck_assert_msg(data[i / n * c.ld + i % n] == test->round((double)want[i]), "%s: %a became 0x%04x", table->name,
                      (double)want[i], data[i / n * c.ld + i % n]);
    for (int64_t i = 0; i + 1 < rows; i++)
        for (int64_t j = n; j < c.ld; j++)
            ck_assert_msg(data[i * c.ld + j] == 0xaaaa, "written between rows");
    free_halves(&c);
    float *const all[] = {sums, floats, want, scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_typed_kernels) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("typed_kernels", 0);
    for (int64_t repeat = 0; repeat < test_count(400); repeat++) {
        check_loads(table, &type_tests[repeat % TYPE_TESTS], &rng);
        check_thin(table, &type_tests[repeat % TYPE_TESTS], &rng);
        check_finish(table, &type_tests[repeat % TYPE_TESTS], &rng);
        check_pack(table, &type_tests[repeat % TYPE_TESTS], &rng);
        check_finish_products(table, &type_tests[repeat % TYPE_TESTS], &rng);
    }
}
END_TEST

/* Floats go through as they are, but for NaNs when rounded. */
START_TEST(test_f32_rows) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    const float nan = float_of(0xff812345), x[3] = {1.0f, float_of(1), nan}, want[3] = {1.0f, float_of(1), float_of(0x7fc00000)};
    float got[3];
    describe("widen_rows, round_rows", table->name, "f32");
    table->widen_rows(x, HEED_F32, 0, 1, 3, got, 0);
    must(compare(SAME_BITS, got, x, 1, 3));
    table->round_rows(x, 0, 1, 3, got, HEED_F32, 0);
    must(compare(SAME_BITS, got, want, 1, 3));
}
END_TEST

void add_type_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_widen_all, 0, tables);
    tcase_add_loop_test(tests, test_round_edges, 0, tables);
    tcase_add_loop_test(tests, test_round_any, 0, tables);
    tcase_add_loop_test(tests, test_type_rows, 0, tables);
    tcase_add_loop_test(tests, test_typed_kernels, 0, tables);
    tcase_add_loop_test(tests, test_f32_rows, 0, tables);
}
