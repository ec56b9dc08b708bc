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
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(got[i] == test->round((double)x[i]), "%s: %a becomes %s 0x%04x, not 0x%04x", table->name, (double)x[i],
                      test->name, got[i], test->round((double)x[i]));
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
        for (int i = 0; i < NUMBERS; i++) {
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
    tcase_add_loop_test(tests, test_f32_rows, 0, tables);
}
