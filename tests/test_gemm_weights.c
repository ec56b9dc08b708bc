/* heed_gemm with weights of bytes and of blocks: bytes written out here, whose products were worked out by hand; and errors against
 * the oracle.  That the bits are those of the same weights as floats, test_gemm_types.c has; the packed layout, test_gemm_packed.c.
 */
#include "internal.h"
#include "reference/reference.h"
#include "roundings.h"
#include "suites.h"
#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The product on all tables, plain and packed; c holds what it did before in each. */
static void must_give(const struct heed_gemm *request, const float *want, const char *what) {
    const int64_t n = request->m * request->n;
    for (int i = 0; heed_kernels_usable(i); i++)
        for (int packed = 0; packed < 2; packed++) {
            const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name};
            struct heed_gemm g = *request;
            float *c = new_floats(n);
            char *panels = malloc((size_t)heed_gemm_packed_bytes(&g));
            memcpy(c, request->c, (size_t)n * sizeof *c);
            g.c = c;
            describe(what, exec.isa, "%s", packed ? "packed" : "plain");
            ck_assert_int_eq(heed_gemm_pack_b(&g, panels, &exec), HEED_OK);
            g.packed_b = packed ? panels : NULL;
            ck_assert_msg(heed_gemm(&g, &exec) == HEED_OK, "%s", heed_error_message());
            must(compare(SAME_BITS, c, want, request->m, request->n));
            free(c);
            free(panels);
        }
}

/* 1 * 1 + 2 * -128 + 3 * 127 = 126, times 0.5 is 63, twice that and 1 is 127; 2 * -1 + 3 * 5 = 13, times -2 is -26: -51. */
START_TEST(test_weights_known_bytes) {
    static const int8_t rows[] = {1, 0, -128, -1, 127, 5}, columns[] = {1, -128, 127, 0, -1, 5};
    static const float a[] = {1, 2, 3}, scales[] = {0.5f, -2}, want[] = {127, -51};
    float c[] = {1, 1};
    struct heed_gemm g = {.m = 1, .n = 2, .k = 3, .alpha = 2, .beta = 1, .a = a, .lda = 3, .b_type = HEED_I8, .c = c, .ldc = 2};
    g.b_scales = scales;
    g.b = rows, g.ldb = 2;
    must_give(&g, want, "bytes in rows");
    g.b = columns, g.ldb = 3, g.transpose_b = true;
    must_give(&g, want, "bytes in columns");
}
END_TEST

/* Rows of the unit matrix give each weight as it is. */
static void must_be_weights(enum heed_type type, const unsigned char *blocks, const float want[2][32], const char *what) {
    float units[32 * 32] = {0}, c[32 * 2] = {0}, columns[32 * 2];
    for (int i = 0; i < 32; i++) {
        units[i * 32 + i] = 1;
        columns[2 * i] = want[0][i], columns[2 * i + 1] = want[1][i];
    }
    struct heed_gemm g = {.m = 32, .n = 2, .k = 32, .alpha = 1, .transpose_b = true, .a = units, .lda = 32, .c = c, .ldc = 2};
    g.b_type = type, g.b = blocks, g.ldb = 32;
    must_give(&g, columns, what);
    g.m = 1; /* a few rows go other ways */
    for (int i = 0; i < 32; i++) {
        g.a = units + i * 32;
        must_give(&g, columns + 2 * i, what);
    }
}

/* Scales 0x3800, which is 0.5, and 0xbc00, which is -1. */
START_TEST(test_weights_known_q8_0) {
    static const unsigned char blocks[2 * 34] = {
        0x00, 0x38, 0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  100, 126, 127, 64,
        50,   1,    255, 254, 253, 252, 251, 250, 249, 248, 240, 224, 200, 192, 130, 129, 128, /* the second: */
        0x00, 0xbc, 128, 129, 255, 0,   1,   127, 7,   7,   7,   7,   7,   7,   7,   7,   7,
        7,    7,    7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   7,   246};
    static const float want[2][32] = {{0,    0.5f,  1,  1.5f,  2,  2.5f,  3,  3.5f,  4,  4.5f, 5,   50,  63,  63.5f, 32,     25,
                                       0.5f, -0.5f, -1, -1.5f, -2, -2.5f, -3, -3.5f, -4, -8,   -16, -28, -32, -63,   -63.5f, -64},
                                      {128, 127, 1,  0,  -1, -127, -7, -7, -7, -7, -7, -7, -7, -7, -7, -7,
                                       -7,  -7,  -7, -7, -7, -7,   -7, -7, -7, -7, -7, -7, -7, -7, -7, 10}};
    must_be_weights(HEED_Q8_0, blocks, want, "known q8_0");
}
END_TEST

/* Scales 0x3c00, which is 1, and 0xb000, which is -1/8.  The lower halves of bytes come first; 8 stands for 0. */
static const unsigned char known_q4_0[2 * 18] = {0x00, 0x3c, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x01, 0x23,
                                                 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x00, 0xb0, 0xf8, 0xf8, 0xf8, 0xf8,
                                                 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0xf8, 0x08};

START_TEST(test_weights_known_q4_0) {
    static const float want[2][32] = {
        {-8, -6, -4, -2, 0, 2, 4, 6, -7, -5, -3, -1, 1, 3, 5, 7, -7, -5, -3, -1, 1, 3, 5, 7, -8, -6, -4, -2, 0, 2, 4, 6},
        {0,       0,       0,       0,       0,       0,       0,       0,       0,       0,       0,
         0,       0,       0,       0,       0,       -0.875f, -0.875f, -0.875f, -0.875f, -0.875f, -0.875f,
         -0.875f, -0.875f, -0.875f, -0.875f, -0.875f, -0.875f, -0.875f, -0.875f, -0.875f, 1}};
    must_be_weights(HEED_Q4_0, known_q4_0, want, "known q4_0");
}
END_TEST

/* Scales 1 and -1/8.  Numbers 0 to 31 in order, whose fifth bits are those of the second half; and 31, but 3 for the last. */
static const unsigned char known_q5_0[2 * 22] = {0x00, 0x3c, 0x00, 0x00, 0xff, 0xff, 0x00, 0x11, 0x22, 0x33, 0x44,
                                                 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
                                                 0x00, 0xb0, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff,
                                                 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f};

START_TEST(test_weights_known_q5_0) {
    float want[2][32];
    for (int i = 0; i < 32; i++) {
        want[0][i] = (float)(i - 16);
        want[1][i] = i < 31 ? -1.875f : 1.625f;
    }
    must_be_weights(HEED_Q5_0, known_q5_0, want, "known q5_0");
}
END_TEST

/* Two columns of scales 1 and -1/8, which is 1/8 of mxfp4: all codes in order, and again; and the last one, but the second for the
 * last element. */
static void must_be_codes(enum heed_type type, const unsigned char *blocks, const float numbers[16]) {
    float want[2][32];
    for (int i = 0; i < 32; i++) {
        want[0][i] = numbers[i % 16];
        want[1][i] = numbers[i < 31 ? 15 : 1] * (type == HEED_IQ4_NL ? -0.125f : 0.125f);
    }
    must_be_weights(type, blocks, want, type_name(type));
}

START_TEST(test_weights_known_iq4_nl) {
    static const unsigned char blocks[2 * 18] = {0x00, 0x3c, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99,
                                                 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00, 0xb0, 0xff, 0xff, 0xff, 0xff,
                                                 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f};
    static const float numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    must_be_codes(HEED_IQ4_NL, blocks, numbers);
}
END_TEST

/* Exponents 128, which is 1, and 125, which is 1/8. */
START_TEST(test_weights_known_mxfp4) {
    static const unsigned char blocks[2 * 17] = {128,  0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa,
                                                 0xbb, 0xcc, 0xdd, 0xee, 0xff, 125,  0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                                 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f};
    static const float numbers[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    must_be_codes(HEED_MXFP4, blocks, numbers);
}
END_TEST

/* Each exponent, as the scale of 0, and of 12 in the second half. */
START_TEST(test_weights_exponents) {
    float floats[32], want[32];
    for (int e = 0; e < 256; e++) {
        unsigned char block[17] = {(unsigned char)e};
        memset(block + 1, 0x70, 16);
        for (int i = 0; i < 32; i++)
            want[i] = i < 16 || e < 26 ? 0 : ldexpf(12, e - 128);
        const struct heed_convert convert = {.rows = 1,
                                             .columns = 32,
                                             .input = {.data = block, .token_stride = 32, .type = HEED_MXFP4},
                                             .output = {.data = floats, .token_stride = 32}};
        ck_assert_int_eq(heed_convert(&convert, NULL), HEED_OK);
        ck_assert_msg(memcmp(floats, want, sizeof want) == 0, "exponent %d", e);
        _Alignas(uint16_t) char panel[64 * 18];
        const struct heed_gemm g = {.n = 1, .k = 32, .transpose_b = true, .b_type = HEED_MXFP4, .b = block, .ldb = 32};
        ck_assert_int_eq(heed_gemm_pack_b(&g, panel, NULL), HEED_OK);
        uint16_t scale;
        memcpy(&scale, panel, sizeof scale);
        ck_assert_msg((float)(ref_widen_bf16(scale) * 12) == want[31], "packed exponent %d", e);
    }
}
END_TEST

/* A block of a K format, put together by ggml's description of it: d is 1, m 1/2, which scales and numbers of all sizes meet. */
static void put_known_element(enum heed_type type, unsigned char *block, int g, int i, int q) {
    unsigned char *low = block + (type == HEED_Q4_K ? 16 : type == HEED_Q5_K ? 48 : 0);
    if (type == HEED_Q6_K) {
        low[g / 4 * 64 + g % 2 * 32 + i] |= (unsigned char)(q % 16 << (g % 4 < 2 ? 0 : 4));
        block[128 + g / 4 * 32 + i] |= (unsigned char)(q / 16 << g % 4 * 2);
        return;
    }
    low[g / 2 * 32 + i] |= (unsigned char)(q % 16 << (g % 2 ? 4 : 0));
    if (type == HEED_Q5_K)
        block[16 + i] |= (unsigned char)(q / 16 << g);
}

static void put_known_scales(enum heed_type type, unsigned char *block, const int scale[8], const int less[8]) {
    const uint16_t one = 0x3c00, half = 0x3800;
    memcpy(block + (type == HEED_Q6_K ? 208 : 0), &one, sizeof one);
    if (type != HEED_Q6_K)
        memcpy(block + 2, &half, sizeof half);
    for (int g = 0; g < 8; g++)
        if (type == HEED_Q6_K) {
            block[192 + 2 * g] = (unsigned char)scale[g], block[193 + 2 * g] = (unsigned char)-scale[g];
        } else if (g < 4) {
            block[4 + g] |= (unsigned char)scale[g], block[8 + g] |= (unsigned char)less[g];
        } else {
            block[8 + g] = (unsigned char)(scale[g] % 16 | less[g] % 16 << 4);
            block[g] |= (unsigned char)(scale[g] / 16 << 6), block[4 + g] |= (unsigned char)(less[g] / 16 << 6);
        }
}

START_TEST(test_weights_known_k) {
    const enum heed_type type = (enum heed_type)(HEED_Q4_K + _i);
    static const int scale[8] = {1, 2, 3, 4, 5, 60, 7, 63}, less[8] = {0, 1, 2, 3, 36, 5, 63, 7};
    const int numbers = type == HEED_Q4_K ? 16 : type == HEED_Q5_K ? 32 : 64;
    unsigned char block[210] = {0};
    float want[256];
    put_known_scales(type, block, scale, less);
    for (int at = 0; at < 256; at++) {
        const int g = at / 32, i = at % 32, q = (i * 5 + g * 3) % numbers;
        put_known_element(type, block, g, i, q);
        want[at] =
            type == HEED_Q6_K ? (float)((i < 16 ? scale[g] : -scale[g]) * (q - 32)) : (float)(scale[g] * q) - 0.5f * (float)less[g];
        want[at] += 0.0f; /* of q6_K 0 is +0 */
    }
    for (int at = 0; at < 256; at++) {
        float unit[256] = {0}, c = 0;
        unit[at] = 1;
        const struct heed_gemm g = {.m = 1,
                                    .n = 1,
                                    .k = 256,
                                    .alpha = 1,
                                    .transpose_b = true,
                                    .a = unit,
                                    .lda = 256,
                                    .c = &c,
                                    .ldc = 1,
                                    .b_type = type,
                                    .b = block,
                                    .ldb = 256};
        must_give(&g, want + at, type_name(type));
    }
}
END_TEST

/* With HEED_COMPUTE_I8 an element x of a becomes q s.  1 / s and x * (1 / s), which is at most 127, are rounded, so q is off by
 * half of 1 and some U of 127; s is a share of the block's largest element. */
static double lost_as_bytes(const struct heed_gemm *g, int64_t row, int64_t block) {
    double largest = 0;
    for (int64_t p = block * TYPE_BLOCK; p < (block + 1) * TYPE_BLOCK; p++)
        largest = fmax(largest, fabs(ref_gemm_a(g, row, p)));
    return fmax(largest / 127 * (1 + 2 * U), 0x1p-126) * (0.5 + 127 * 3 * U);
}

/* What the chain of a weight is made of: d * s * q and m * t of q4_K and q5_K as bytes meet it one after the other. */
static double size_of_weight(const struct heed_gemm *g, int64_t p, int64_t j) {
    struct ref_k_group group;
    if (g->compute != HEED_COMPUTE_I8 || !type_is_k(g->b_type))
        return fabs(ref_gemm_b(g, p, j));
    ref_load_k_group(type_at(g->b_type, g->b, j * g->ldb), g->b_type, p / TYPE_BLOCK, &group);
    return fabs(group.scale[p % TYPE_BLOCK / 16] * group.q[p % TYPE_BLOCK]) + fabs(group.less);
}

/* d * q, of 11 and 8 bits, is exact in a float, so that blocks have the bound of floats: gamma(k + 3), as in test_accuracy.c.
 * Integers take a product with their scale more, gamma(k + 4), which TINY of the chain is multiplied by.  Activations of 16 bits
 * are exact too.  As bytes, a block is one step of the chain, of a product of scales that is rounded, and what is lost of a meets
 * the weights, as does half of TINY of that product; a group of a K format is one or two such steps.  A weight of q4_K and q5_K is
 * rounded as a float, but as bytes is not: one rounding more. */
static void check_error(struct rng *rng, enum heed_type type, enum heed_compute compute, const struct heed_exec *exec,
                        struct accuracy *accuracy) {
    const int64_t m = rng_range(rng, 1, 20), n = rng_range(rng, 1, 70), k = round_up(32 * rng_range(rng, 1, 20), type_block(type));
    accuracy->typical = rng_range(rng, 0, 1);
    const enum fill mode = accuracy->typical ? FILL_NORMAL : (enum fill)rng_range(rng, 0, FILL_FINITE_COUNT - 1);
    float *a = new_filled(rng, mode, m * k), *c = new_filled(rng, FILL_NORMAL, m * n), *before = new_floats(m * n);
    float *scales = type == HEED_I8 ? new_filled(rng, mode, n) : NULL;
    char *b = new_weights(rng, type, n * k, false);
    double *want = new_doubles(m * n);
    struct heed_gemm g = {.m = m, .n = n, .k = k, .alpha = 1.7f, .beta = -0.3f, .transpose_b = true, .a = a, .lda = k};
    g.b_type = type, g.b = b, g.ldb = k, g.b_scales = scales, g.compute = compute;
    g.c = c, g.ldc = n;
    memcpy(before, c, (size_t)(m * n) * sizeof *c);
    ref_gemm(&g, want);
    describe("gemm", exec->isa, "%lld x %lld x %lld, %s times %s%s", (long long)m, (long long)n, (long long)k, fill_name(mode),
             type_name(type), compute_name(compute));
    ck_assert_int_eq(heed_gemm(&g, exec), HEED_OK);
    for (int64_t i = 0; i < m * n; i++) {
        const double scale = scales ? fabs((double)scales[i % n]) : 0;
        double terms = fabs((double)g.beta * (double)before[i]), lost = 0;
        for (int64_t p = 0; p < k; p++) {
            const double weight = fabs((double)g.alpha * ref_gemm_b(&g, p, i % n));
            const double each = compute == HEED_COMPUTE_I8 ? lost_as_bytes(&g, i / n, p / TYPE_BLOCK) : 0;
            terms += fabs((double)g.alpha) * size_of_weight(&g, p, i % n) * (fabs(ref_gemm_a(&g, i / n, p)) + each);
            lost += weight * each;
        }
        const double tiny = (double)(2 * k + 2) * (1 + scale) * TINY * (compute == HEED_COMPUTE_I8 ? 128 * 128 : 1);
        must(accuracy_add(accuracy, c[i], want[i], lost + gamma_of(k + 3 + (scales != NULL)) * terms + tiny, terms));
    }
    float *const all[] = {a, c, before, scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(b);
    free(want);
}

static const struct {
    enum heed_type type;
    enum heed_compute compute;
} error_kinds[] = {{HEED_I8, HEED_COMPUTE_F32},    {HEED_Q8_0, HEED_COMPUTE_F32},   {HEED_Q4_0, HEED_COMPUTE_F32},
                   {HEED_Q4_K, HEED_COMPUTE_F32},  {HEED_Q5_K, HEED_COMPUTE_F32},   {HEED_Q6_K, HEED_COMPUTE_F32},
                   {HEED_Q8_0, HEED_COMPUTE_I8},   {HEED_Q4_0, HEED_COMPUTE_I8},    {HEED_Q4_K, HEED_COMPUTE_I8},
                   {HEED_Q5_K, HEED_COMPUTE_I8},   {HEED_Q6_K, HEED_COMPUTE_I8},    {HEED_Q5_0, HEED_COMPUTE_F32},
                   {HEED_Q5_0, HEED_COMPUTE_I8},   {HEED_IQ4_NL, HEED_COMPUTE_F32}, {HEED_IQ4_NL, HEED_COMPUTE_I8},
                   {HEED_MXFP4, HEED_COMPUTE_F32}, {HEED_MXFP4, HEED_COMPUTE_I8}};
enum { ERROR_KINDS = sizeof error_kinds / sizeof *error_kinds };

START_TEST(test_weights_error) {
    const struct heed_exec exec = {.isa = "scalar", .threads = 1};
    struct rng rng = rng_for("weights error", _i);
    struct accuracy accuracy = {0};
    char name[32];
    for (int64_t repeat = 0; repeat < test_count(60); repeat++)
        check_error(&rng, error_kinds[_i].type, error_kinds[_i].compute, &exec, &accuracy);
    snprintf(name, sizeof name, "gemm %s%s", type_name(error_kinds[_i].type), compute_name(error_kinds[_i].compute));
    accuracy_print(&accuracy, name, exec.isa);
}
END_TEST

Suite *gemm_weights_suite(void) {
    Suite *suite = suite_create("gemm_weights");
    TCase *tests = tcase_create("gemm weights");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_weights_known_bytes);
    tcase_add_test(tests, test_weights_known_q8_0);
    tcase_add_test(tests, test_weights_known_q4_0);
    tcase_add_test(tests, test_weights_known_q5_0);
    tcase_add_test(tests, test_weights_known_iq4_nl);
    tcase_add_test(tests, test_weights_known_mxfp4);
    tcase_add_test(tests, test_weights_exponents);
    tcase_add_loop_test(tests, test_weights_known_k, 0, 3);
    tcase_add_loop_test(tests, test_weights_error, 0, ERROR_KINDS);
    suite_add_tcase(suite, tests);
    return suite;
}
