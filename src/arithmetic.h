/* What src/arithmetic.md has numbers for: of these, all parts of the library must have the same bits. */
#ifndef HEED_ARITHMETIC_H
#define HEED_ARITHMETIC_H

#include <float.h>
#include <math.h>

#include "heed.h"
#include "internal.h"

#define HEED_LOG2E 0x1.715476p+0f
#define HEED_LN2   0x1.62e430p-1f

INLINE float attention_scale(const struct heed_attention *request) {
    return request->scale != 0.0f ? request->scale : 1.0f / sqrtf((float)request->head_dim);
}

/* A factor that has become infinite would make NaN of 0. */
INLINE float finite_factor(float x) { return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x; }

/* Whether numbers below 2^-126 are 0. */
INLINE bool compute_flushes(enum heed_compute compute) { return compute == HEED_COMPUTE_BF16 || compute == HEED_COMPUTE_BF16_AMX; }

#endif
