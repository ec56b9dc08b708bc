#include "i8_products.h"

#include <math.h>
#include <string.h>

#include "reference/reference.h"

float i8_round_block(const float *x, int64_t step, int q[TYPE_BLOCK]) {
    float largest = 0;
    memset(q, 0, TYPE_BLOCK * sizeof *q);
    for (int p = 0; p < TYPE_BLOCK; p++) {
        if (!isfinite(x[p * step]))
            return __builtin_nanf("");
        largest = fmaxf(largest, fabsf(x[p * step]));
    }
    const float scale = fmaxf(largest / 127, 0x1p-126f);
    for (int p = 0; p < TYPE_BLOCK; p++)
        q[p] = (int)rintf(x[p * step] * (1 / scale));
    return scale;
}

/* The integers of a block whose 4 bits stand for others are its elements, divided by the scale. */
static float table_block(enum heed_type type, const char *block, int w[TYPE_BLOCK]) {
    uint16_t half;
    memcpy(&half, block, sizeof half);
    char one[Q4_0_BYTES] = {0, 0x3c}; /* the same block, of scale 1 */
    memcpy(one + (type == HEED_MXFP4 ? 1 : 2), block + (type == HEED_MXFP4 ? 1 : 2), TYPE_BLOCK / 2);
    if (type == HEED_MXFP4)
        one[0] = (char)128;
    for (int p = 0; p < TYPE_BLOCK; p++)
        w[p] = (int)ref_element(one, type, p);
    const int e = (unsigned char)*block;
    return type == HEED_IQ4_NL ? (float)ref_widen_f16(half) : e < 26 ? 0 : ldexpf(1, e - 128);
}

/* The integers of a block of weights, and its scale. */
static float weight_block(enum heed_type type, const char *block, int w[TYPE_BLOCK]) {
    if (type_has_table(type))
        return table_block(type, block, w);
    uint16_t half;
    memcpy(&half, block, sizeof half);
    const int64_t numbers = type_span(type, TYPE_BLOCK) - (type == HEED_Q8_0 ? TYPE_BLOCK : TYPE_BLOCK / 2);
    for (int p = 0; p < TYPE_BLOCK; p++) {
        const int byte = (unsigned char)block[numbers + (type == HEED_Q8_0 ? p : p % (TYPE_BLOCK / 2))];
        const int low = p < TYPE_BLOCK / 2 ? byte & 15 : byte >> 4;
        w[p] = type == HEED_Q8_0   ? (byte ^ 0x80) - 0x80
               : type == HEED_Q4_0 ? low - 8
                                   : low + (block[2 + p / 8] >> p % 8 & 1) * 16 - 16;
    }
    return (float)ref_widen_f16(half);
}

/* Products from p to `end`, of integers with integers. */
static float sum_of(const int *q, const int *w, int p, int end) {
    int sum = 0;
    for (; p < end; p++)
        sum += q[p] * w[p];
    return (float)sum;
}

static float take_k_group(float chain, const int *q, float scale, enum heed_type type, const char *column, int64_t index) {
    static const int ones[TYPE_BLOCK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                         1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct ref_k_group group;
    ref_load_k_group(column, type, index, &group);
    if (type == HEED_Q6_K) {
        for (int half = 0; half < 2; half++)
            chain = fmaf(sum_of(q, group.q, half * 16, half * 16 + 16), scale * (float)group.scale[half], chain);
        return chain;
    }
    chain = fmaf(sum_of(q, group.q, 0, TYPE_BLOCK), scale * (float)group.scale[0], chain);
    return fmaf(scale * (0.0f - sum_of(q, ones, 0, TYPE_BLOCK)), (float)group.less, chain);
}

float i8_chain(const float *row, int64_t step, enum heed_type type, const char *column, int64_t blocks) {
    float chain = 0;
    for (int64_t block = 0; block < blocks; block++) {
        int q[TYPE_BLOCK], w[TYPE_BLOCK];
        const float scale = i8_round_block(row + block * TYPE_BLOCK * step, step, q);
        if (type_is_k(type)) {
            chain = take_k_group(chain, q, scale, type, column, block);
            continue;
        }
        const float d = weight_block(type, column + type_span(type, block * TYPE_BLOCK), w);
        chain = fmaf(sum_of(q, w, 0, TYPE_BLOCK), scale * d, chain);
    }
    return chain;
}
