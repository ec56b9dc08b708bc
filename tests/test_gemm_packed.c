/* What heed_gemm_pack_b makes of weights in blocks, by the formula in heed.h. */
#include "internal.h"
#include "reference/reference.h"
#include "suites.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

/* The first 4 bytes of the first column's block, and then those of the second's. */
START_TEST(test_packed_known) {
    static const unsigned char blocks[2 * 18] = {0x00, 0x3c, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x01, 0x23,
                                                 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x00, 0xb0, 0xf8, 0xf8, 0xf8, 0xf8,
                                                 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0x08};
    unsigned char panel[64 * 18];
    const struct heed_gemm g = {.n = 2, .k = 32, .transpose_b = true, .b_type = HEED_Q4_0, .b = blocks, .ldb = 32};
    ck_assert_int_eq(heed_gemm_packed_bytes(&g), sizeof panel);
    ck_assert_int_eq(heed_gemm_pack_b(&g, panel, NULL), HEED_OK);
    ck_assert(memcmp(panel, "\0\x3c\0\xb0\0\0", 6) == 0); /* scales */
    ck_assert(memcmp(panel + 128, blocks + 2, 4) == 0 && memcmp(panel + 132, blocks + 18 + 2, 4) == 0);
    ck_assert(memcmp(panel + 128 + 64 * 4, blocks + 2 + 4, 4) == 0);
}
END_TEST

/* The fifth bits of a block of a column of q5_0. */
static void must_be_fifths(const char *to, const char *bits) {
    for (int h = 0; h < 2; h++)
        for (int w = 0; w < 4; w++)
            for (int b = 0; b < 4; b++) {
                const int element = 16 * h + 4 * w + b;
                ck_assert_int_eq(to[b] >> (4 * (w % 2) + 2 * h + w / 2) & 1, bits[element / 8] >> element % 8 & 1);
            }
}

/* Scales, then words of 4 bytes; of columns that are none, 0. */
static void must_be_packed(enum heed_type type, const char *b, int64_t n, int64_t k, const char *panels) {
    const int64_t bytes = type_span(type, TYPE_BLOCK), packed = type_packed_span(type, TYPE_BLOCK);
    const char none[Q8_0_BYTES] = {0};
    const int64_t fifths = type == HEED_Q5_0 ? 4 : 0, words = (packed - 2 - fifths) / 4;
    for (int64_t j = 0; j < round_up(n, HEED_PANEL); j++)
        for (int64_t block = 0; block < k / TYPE_BLOCK; block++) {
            const char *from = j < n ? b + type_span(type, j * k) + block * bytes : none;
            const char *to = panels + (j / HEED_PANEL * (k / TYPE_BLOCK) + block) * HEED_PANEL * packed;
            const int64_t column = j % HEED_PANEL;
            if (type != HEED_MXFP4)
                ck_assert_msg(memcmp(to + 2 * column, from, 2) == 0, "scale of column %lld", (long long)j);
            if (type == HEED_Q5_0)
                must_be_fifths(to + 2 * HEED_PANEL + column * 4, from + 2);
            for (int64_t word = 0; word < words; word++)
                ck_assert_msg(
                    memcmp(to + (2 + fifths + 4 * word) * HEED_PANEL + column * 4, from + bytes - 4 * (words - word), 4) == 0,
                    "word %lld of block %lld of column %lld", (long long)word, (long long)block, (long long)j);
        }
}

/* Of a block of a K format of a column: d and m, bytes of scales, and numbers of 8 groups, as heed.h has them. */
static void must_be_k_block(enum heed_type type, const unsigned char *panel, int64_t column, const char *block) {
    const int high = type == HEED_Q6_K ? 2 : type == HEED_Q5_K, all = (high + 4) * 256 + 2 * 64;
    const unsigned char *groups = panel + 128 * (type == HEED_Q6_K ? 1 : 2);
    ck_assert(memcmp(panel + 2 * column, block + (type == HEED_Q6_K ? 208 : 0), 2) == 0);
    ck_assert(type == HEED_Q6_K || memcmp(panel + 128 + 2 * column, block + 2, 2) == 0);
    for (int g = 0; g < 8; g++) {
        const unsigned char *above = groups + g * all + 4 * column, *low = above + (high > 0) * 256;
        const unsigned char *scales = groups + g * all + ((high > 0) + 4) * 256 + column;
        const int other = 64 + (high == 2) * 256; /* bytes to the other half's */
        struct ref_k_group group;
        ref_load_k_group(block, type, g, &group);
        for (int i = 0; i < 32; i++) {
            const int byte = low[i % 16 / 4 * 256 + i % 4], b = i % 4, w = i / 4;
            const int bits = type == HEED_Q4_K   ? 0
                             : type == HEED_Q5_K ? above[b] >> w & 1
                                                 : above[i / 16 * (5 * 256 + 64) + b] >> 2 * (w % 4) & 3;
            ck_assert_int_eq((i < 16 ? byte & 15 : byte >> 4) | bits << 4, group.q[i] + (type == HEED_Q6_K ? 32 : 0));
        }
        const double d = ref_element(block + (type == HEED_Q6_K ? 208 : 0), HEED_F16, 0);
        for (int half = 0; half < 2; half++)
            ck_assert(d * (type == HEED_Q6_K ? ((const signed char *)scales)[other * half] : scales[0]) == group.scale[half]);
        ck_assert(type == HEED_Q6_K || ref_element(block + 2, HEED_F16, 0) * scales[other] == group.less);
    }
}

START_TEST(test_packed_k_layout) {
    struct rng rng = rng_for("weights k layout", _i);
    const enum heed_type type = (enum heed_type)(HEED_Q4_K + _i);
    for (int64_t repeat = 0; repeat < test_count(20); repeat++) {
        const int64_t n = rng_range(&rng, 1, 200), k = 256 * rng_range(&rng, 1, 3);
        char *b = new_weights(&rng, type, n * k, false);
        const struct heed_gemm g = {.n = n, .k = k, .transpose_b = true, .b_type = type, .b = b, .ldb = k};
        const int64_t bytes = heed_gemm_packed_bytes(&g), block = bytes / ceil_div(n, 64) / (k / 256);
        unsigned char *panels = malloc((size_t)bytes);
        ck_assert_int_eq(heed_gemm_pack_b(&g, panels, &(struct heed_exec){.isa = any_isa(&rng)}), HEED_OK);
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < k; p += 256)
                must_be_k_block(type, panels + (j / 64 * (k / 256) + p / 256) * block, j % 64, b + type_span(type, j * k + p));
        free(b);
        free(panels);
    }
}
END_TEST

START_TEST(test_packed_layout) {
    struct rng rng = rng_for("weights layout", 0);
    for (int64_t repeat = 0; repeat < test_count(40); repeat++) {
        static const enum heed_type types[] = {HEED_Q8_0, HEED_Q4_0, HEED_Q5_0, HEED_IQ4_NL, HEED_MXFP4};
        const enum heed_type type = types[repeat % 5];
        const int64_t n = rng_range(&rng, 1, 200), k = 32 * rng_range(&rng, 1, 4);
        char *b = new_weights(&rng, type, n * k, true);
        const struct heed_gemm g = {.n = n, .k = k, .transpose_b = true, .b_type = type, .b = b, .ldb = k};
        const int64_t bytes = heed_gemm_packed_bytes(&g);
        ck_assert_int_eq(bytes, ceil_div(n, 64) * 64 * k / 32 * (type == HEED_Q8_0 ? 34 : type == HEED_Q5_0 ? 22 : 18));
        char *panels = malloc((size_t)bytes);
        ck_assert_int_eq(heed_gemm_pack_b(&g, panels, &(struct heed_exec){.isa = any_isa(&rng)}), HEED_OK);
        must_be_packed(type, b, n, k, panels);
        free(b);
        free(panels);
    }
}
END_TEST

Suite *gemm_packed_suite(void) {
    Suite *suite = suite_create("gemm_packed");
    TCase *tests = tcase_create("gemm packed");
    tcase_add_test(tests, test_packed_known);
    tcase_add_test(tests, test_packed_layout);
    tcase_add_loop_test(tests, test_packed_k_layout, 0, 3);
    suite_add_tcase(suite, tests);
    return suite;
}
