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

float i8_weight_block(enum heed_type type, const char *block, int w[TYPE_BLOCK]) {
    uint16_t half;
    memcpy(&half, block, sizeof half);
    for (int p = 0; p < TYPE_BLOCK; p++) {
        const int byte = (unsigned char)block[2 + (type == HEED_Q8_0 ? p : p % (TYPE_BLOCK / 2))];
        w[p] = type == HEED_Q8_0 ? (byte ^ 0x80) - 0x80 : (p < TYPE_BLOCK / 2 ? byte & 15 : byte >> 4) - 8;
    }
    return (float)ref_widen_f16(half);
}

float i8_chain(const float *row, int64_t step, enum heed_type type, const char *column, int64_t blocks) {
    float chain = 0;
    for (int64_t block = 0; block < blocks; block++) {
        int q[TYPE_BLOCK], w[TYPE_BLOCK], sum = 0;
        const float scale = i8_round_block(row + block * TYPE_BLOCK * step, step, q);
        const float d = i8_weight_block(type, column + type_span(type, block * TYPE_BLOCK), w);
        for (int p = 0; p < TYPE_BLOCK; p++)
            sum += q[p] * w[p];
        chain = fmaf((float)sum, scale * d, chain);
    }
    return chain;
}
