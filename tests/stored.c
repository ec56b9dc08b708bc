/* See stored.h. */
#include "stored.h"

#include "reference/reference.h"

#include <math.h>
#include <string.h>

uint16_t half_of(enum heed_type type, float x) { return type == HEED_BF16 ? ref_round_bf16((double)x) : ref_round_f16((double)x); }

/* The only NaN that half_of makes is the one of heed. */
float float_of_half(enum heed_type type, uint16_t x) {
    const double wide = type == HEED_BF16 ? ref_widen_bf16(x) : ref_widen_f16(x);
    return isnan(wide) ? __builtin_nanf("") : (float)wide;
}

void round_floats(enum heed_type type, float *x, int64_t n) {
    for (int64_t i = 0; type != HEED_F32 && i < n; i++)
        x[i] = float_of_half(type, half_of(type, x[i]));
}

float scale_of_bytes(const float *x, int64_t n) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return __builtin_nanf("");
        largest = fmaxf(largest, fabsf(x[i]));
    }
    return fmaxf(largest / 127, 0x1p-126f);
}

/* A scale of 17 bits times an integer of 7 is exact. */
void round_to_bytes(float *x, int64_t rows, int64_t width) {
    for (; rows > 0; rows--, x += width) {
        float scale = scale_of_bytes(x, width);
        uint32_t bits;
        memcpy(&bits, &scale, sizeof bits);
        bits &= ~0x7fu;
        memcpy(&scale, &bits, sizeof bits);
        for (int64_t d = 0; d < width; d++)
            x[d] = isnan(scale) ? scale : nearbyintf(x[d] / scale) * scale;
    }
}
