/* See weights.h. */
#include "weights.h"

#include "harness_attention.h"
#include "reference/reference.h"
#include "stored.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void put_block_scales(char *block, enum heed_type type, float scale) {
    const uint16_t d = half_of(HEED_F16, type_is_k(type) ? scale / 32 : scale), m = half_of(HEED_F16, scale / 4);
    if (type == HEED_MXFP4) {
        *block = (char)(128 + (scale == 0 ? -128 : ilogbf(scale)));
        return;
    }
    memcpy(block + (type == HEED_Q6_K ? Q6_K_BYTES - 2 : 0), &d, sizeof d);
    if (type == HEED_Q4_K || type == HEED_Q5_K)
        memcpy(block + 2, &m, sizeof m);
}

enum heed_type any_blocks(struct rng *rng, int64_t n) {
    enum heed_type type;
    do
        type = (enum heed_type)rng_range(rng, HEED_Q8_0, HEED_MXFP4);
    while (n % type_block(type));
    return type;
}

char *new_weights(struct rng *rng, enum heed_type type, int64_t n, bool any_scales) {
    const int64_t bytes = type_span(type, n);
    char *weights = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++)
        weights[i] = (char)rng_next(rng);
    for (int64_t i = 0; type_has_blocks(type) && !any_scales && i < n; i += type_block(type))
        put_block_scales(weights + type_span(type, i), type, (float)rng_range(rng, -1000, 1000) / 8192);
    return weights;
}

static void keep_normal(char *scale) {
    uint16_t bits;
    memcpy(&bits, scale, sizeof bits);
    if ((bits & 0x7c00) == 0 && (bits & 0x03ff) != 0)
        bits = (uint16_t)((bits & 0x8000) | 0x0400);
    memcpy(scale, &bits, sizeof bits);
}

void keep_scales_normal(char *weights, enum heed_type type, int64_t n) {
    if (!type_is_k(type) || f16_ignores_flushing())
        return;
    for (int64_t i = 0; i < n; i += K_BLOCK) {
        char *block = weights + type_span(type, i);
        keep_normal(block + (type == HEED_Q6_K ? Q6_K_BYTES - 2 : 0));
        if (type != HEED_Q6_K)
            keep_normal(block + 2);
    }
}

float *weights_as_floats(const char *weights, enum heed_type type, int64_t n) {
    float *floats = new_floats(n);
    for (int64_t i = 0; i < n; i++)
        floats[i] = (float)ref_element(weights, type, i);
    return floats;
}
