/* heed_convert: the same bits on every table as plain loops over the definitions; blocks worked out by hand; how far what is stored
 * may be from what was given. */
#include "harness_attention.h"
#include "internal.h"
#include "reference/reference.h"
#include "stored.h"
#include "stored_matrix.h"
#include "suites.h"
#include "types.h"
#include "weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool all_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static void want_bytes(const float *x, int64_t n, float *scale, char *to) {
    const bool finite = all_finite(x, n);
    *scale = finite ? scale_of_bytes(x, n) : __builtin_nanf("");
    for (int64_t i = 0; i < n; i++)
        to[i] = (char)(finite ? lrintf(x[i] * (1 / *scale)) : 0);
}

static void want_q8_0(const float *x, char *block) {
    float most = 0;
    for (int i = 0; i < TYPE_BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    const bool finite = all_finite(x, TYPE_BLOCK);
    const float d = finite ? most / 127 : __builtin_nanf("");
    memcpy(block, &(uint16_t){half_of(HEED_F16, d)}, 2);
    for (int i = 0; i < TYPE_BLOCK; i++)
        block[2 + i] = (char)(d >= 0x1p-126f ? roundf(x[i] * (1 / d)) : 0);
}

static void want_q4_0(const float *x, char *block) {
    float most = 0;
    for (int i = 0; i < TYPE_BLOCK; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    const bool finite = all_finite(x, TYPE_BLOCK);
    const float d = finite ? most / -8 : __builtin_nanf("");
    memcpy(block, &(uint16_t){half_of(HEED_F16, d)}, 2);
    for (int i = 0; i < TYPE_BLOCK; i++) {
        const int q = fabsf(d) >= 0x1p-126f ? (int)(x[i] * (1 / d) + 8.5f) : 8, low = i < TYPE_BLOCK / 2;
        char *byte = &block[2 + i % (TYPE_BLOCK / 2)];
        *byte = (char)(low ? smaller(q, 15) : (*byte & 15) | smaller(q, 15) << 4);
    }
}

static void want_q5_0(const float *x, char *block) {
    float most = 0;
    for (int i = 0; i < TYPE_BLOCK; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    const float d = all_finite(x, TYPE_BLOCK) ? most / -16 : __builtin_nanf("");
    memset(block, 0, Q5_0_BYTES);
    memcpy(block, &(uint16_t){half_of(HEED_F16, d)}, 2);
    for (int i = 0; i < TYPE_BLOCK; i++) {
        const int q = fabsf(d) >= 0x1p-126f ? smaller((int)(x[i] * (1 / d) + 16.5f), 31) : 16;
        block[2 + i / 8] |= (char)(q / 16 << i % 8);
        block[6 + i % 16] |= (char)(q % 16 << i / 16 * 4);
    }
}

/* Contiguous rows. */
static void want_rows(enum heed_type type, const float *x, int64_t rows, int64_t columns, char *to, float *scales) {
    for (int64_t i = 0; i < rows; i++, x += columns, to += type_span(type, columns)) {
        if (type == HEED_I8)
            want_bytes(x, columns, &scales[i], to);
        for (int64_t j = 0; type_has_blocks(type) && j < columns; j += TYPE_BLOCK)
            (type == HEED_Q8_0 ? want_q8_0 : type == HEED_Q4_0 ? want_q4_0 : want_q5_0)(x + j, to + type_span(type, j));
        for (int64_t j = 0; type <= HEED_F16 && j < columns; j++) {
            const float y = isnan(x[j]) ? __builtin_nanf("") : x[j];
            const uint16_t half = type == HEED_F32 ? 0 : half_of(type, y);
            memcpy(to + type_span(type, j), type == HEED_F32 ? (const void *)&y : &half, (size_t)type_bytes(type));
        }
    }
}

struct conversion {
    int64_t rows, columns;
    enum heed_type from, to;
    float *input, *scales;
    char *blocks, *want;
};

/* Blocks as the input of c, and what they hold. */
static void store_blocks(struct rng *rng, struct conversion *c) {
    const int64_t n = c->rows * c->columns;
    c->blocks = new_weights(rng, c->from, n, rng_range(rng, 0, 3) == 0);
    for (int64_t i = 0; i < n; i++)
        c->input[i] = (float)ref_element(c->blocks, c->from, i);
}

static struct conversion new_conversion(struct rng *rng) {
    struct conversion c = {.from = any_type(rng), .to = (enum heed_type)rng_range(rng, HEED_F32, HEED_Q4_0)};
    if (rng_range(rng, 0, 5) == 0)
        c.to = HEED_Q5_0;
    if (rng_range(rng, 0, 3) == 0)
        c.from = (enum heed_type)rng_range(rng, HEED_Q8_0, HEED_MXFP4);
    c.rows = rng_range(rng, 0, 6);
    c.columns = rng_range(rng, 0, 3) ? rng_range(rng, 0, 70) : rng_range(rng, 0, 700);
    c.columns = round_up(c.columns, max_i64(type_block(c.from), type_block(c.to)));
    c.input = new_filled(rng, rng_range(rng, 0, 1) ? FILL_NORMAL : any_fill(rng), c.rows * c.columns);
    if (type_has_blocks(c.from))
        store_blocks(rng, &c);
    else
        round_floats(c.from, c.input, c.rows * c.columns);
    c.scales = new_floats(c.rows);
    c.want = malloc((size_t)type_span(c.to, c.rows * c.columns) + 1);
    want_rows(c.to, c.input, c.rows, c.columns, c.want, c.scales);
    return c;
}

static void run(const struct conversion *c, const struct heed_exec *exec, struct rng *rng) {
    struct stored_matrix input = stored_matrix_new(rng, c->from, c->rows, c->columns),
                         output = stored_matrix_new(rng, c->to, c->rows, c->columns);
    struct buffer scales = buffer_new(c->to == HEED_I8 ? c->rows : 0, any_placement(rng));
    if (c->blocks)
        stored_matrix_put_bytes(&input, c->blocks);
    else
        stored_matrix_put(&input, c->input);
    const struct heed_convert r = {.rows = c->rows,
                                   .columns = c->columns,
                                   .input = {.data = input.data, .token_stride = input.ld, .type = c->from},
                                   .output = {.data = output.data, .token_stride = output.ld, .type = c->to},
                                   .scales = c->to == HEED_I8 ? scales.data : NULL};
    describe("convert", exec->isa, "%lld x %lld, %s to %s, %d threads", (long long)c->rows, (long long)c->columns,
             type_name(c->from), type_name(c->to), exec->threads);
    ck_assert_msg(heed_convert(&r, exec) == HEED_OK, "%s", heed_error_message());
    must_hold_bytes(&output, c->want);
    if (c->to == HEED_I8 && c->columns > 0)
        must(compare(SAME_BITS, scales.data, c->scales, 1, c->rows));
    if (c->blocks)
        must_hold_bytes(&input, c->blocks);
    else
        must_hold(&input, c->input);
    buffer_free(&input.memory);
    buffer_free(&output.memory);
    buffer_free(&scales);
}

START_TEST(test_convert_same_bits) {
    struct rng rng = rng_for("convert", 0);
    for (int64_t repeat = 0; repeat < test_count(500); repeat++) {
        struct conversion c = new_conversion(&rng);
        for (int i = 0; heed_kernels_usable(i); i++)
            run(&c, &(struct heed_exec){.isa = heed_kernels_usable(i)->name, .threads = any_threads(&rng)}, &rng);
        free(c.input);
        free(c.scales);
        free(c.blocks);
        free(c.want);
    }
}
END_TEST

/* 127 has the scale 1, 0x3c00; 2.5 becomes 3 in a block, and 2 in a row of bytes. */
START_TEST(test_convert_known) {
    float x[TYPE_BLOCK] = {127, -127, 2.5f, -2.5f, 0.4f}, scale = 0;
    unsigned char q8_0[Q8_0_BYTES] = {0x00, 0x3c, 127, 129, 3, 253, 0}, q4_0[Q4_0_BYTES], q5_0[Q5_0_BYTES] = {0}, got[Q8_0_BYTES];
    int8_t bytes[TYPE_BLOCK];
    struct heed_convert r = {.rows = 1, .columns = TYPE_BLOCK, .input = {.data = x}, .output = {.data = got, .type = HEED_Q8_0}};
    ck_assert_int_eq(heed_convert(&r, NULL), HEED_OK);
    ck_assert(memcmp(got, q8_0, sizeof q8_0) == 0);
    r.output = (struct heed_output){.data = bytes, .type = HEED_I8}, r.scales = &scale;
    ck_assert_int_eq(heed_convert(&r, NULL), HEED_OK);
    ck_assert(scale == 1 && bytes[0] == 127 && bytes[1] == -127 && bytes[2] == 2 && bytes[3] == -2 && bytes[4] == 0);
    /* 16 becomes -8, which is 0; the scale is -2, 0xc000; -16 becomes 15, for there is no 8. */
    memcpy(x, (const float[]){16, -16, 4, -4, 1}, 5 * sizeof *x);
    memset(q4_0, 0x88, sizeof q4_0);
    memcpy(q4_0, (const unsigned char[]){0x00, 0xc0, 0x80, 0x8f, 0x86, 0x8a, 0x88}, 7);
    r.output = (struct heed_output){.data = got, .type = HEED_Q4_0}, r.scales = NULL;
    ck_assert_int_eq(heed_convert(&r, NULL), HEED_OK);
    ck_assert(memcmp(got, q4_0, sizeof q4_0) == 0);
    /* 16 becomes -16; the scale is -1, 0xbc00; numbers 0, 31, 12, 20, 15, and 16 for 0. */
    memcpy(q5_0, (const unsigned char[]){0x00, 0xbc, 0xea, 0xff, 0xff, 0xff, 0x00, 0x0f, 0x0c, 0x04, 0x0f}, 11);
    r.output.type = HEED_Q5_0;
    ck_assert_int_eq(heed_convert(&r, NULL), HEED_OK);
    ck_assert(memcmp(got, q5_0, sizeof q5_0) == 0);
}
END_TEST

/* q is off by half at most, and by what the rounding of x / d adds, less than 2^-15; d by half a unit of f16, 2^-11 of it, so q d
 * by |q| of these; the largest of q4_0 and q5_0 lacks one step. */
START_TEST(test_convert_blocks_error) {
    struct rng rng = rng_for("convert error", 0);
    for (int64_t repeat = 0; repeat < test_count(300); repeat++) {
        static const enum heed_type types[] = {HEED_Q8_0, HEED_Q4_0, HEED_Q5_0};
        const enum heed_type type = types[repeat % 3];
        const double most_q = type == HEED_Q8_0   ? 127
                              : type == HEED_Q4_0 ? 8
                                                  : 16,
                     off = type == HEED_Q8_0 ? 0.5 + 0x1p-15 : 1 + 0x1p-15;
        float x[TYPE_BLOCK], most = 0;
        char block[Q8_0_BYTES];
        fill(&rng, FILL_NORMAL, x, TYPE_BLOCK);
        for (int i = 0; i < TYPE_BLOCK; i++)
            most = fmaxf(most, fabsf(x[i]));
        const struct heed_convert r = {
            .rows = 1, .columns = TYPE_BLOCK, .input = {.data = x}, .output = {.data = block, .type = type}};
        ck_assert_int_eq(heed_convert(&r, &(struct heed_exec){.isa = any_isa(&rng)}), HEED_OK);
        const double d = (double)most / most_q, bound = d * off + most_q * d * 0x1p-11 + 0x1p-25 * most_q;
        for (int i = 0; i < TYPE_BLOCK; i++)
            ck_assert(fabs(ref_element(block, type, i) - (double)x[i]) <= bound);
    }
}
END_TEST

Suite *convert_suite(void) {
    Suite *suite = suite_create("convert");
    TCase *tests = tcase_create("convert");
    tcase_add_test(tests, test_convert_same_bits);
    tcase_add_test(tests, test_convert_known);
    tcase_add_test(tests, test_convert_blocks_error);
    suite_add_tcase(suite, tests);
    return suite;
}
