/* The vector vocabulary with one lane: plain C, the definition of what every other one computes.  See arch/README.md. */
#ifndef HEED_VEC_SCALAR_H
#define HEED_VEC_SCALAR_H

#include <math.h>
#include <sleef.h>

#include "internal.h"

typedef float vf;
#define VF_LANES 1

INLINE vf v_zero(void) { return 0.0f; }
INLINE vf v_set1(float x) { return x; }
INLINE vf v_load(const float *p) { return *p; }
INLINE void v_store(float *p, vf x) { *p = x; }
INLINE vf v_load_n(const float *p, int64_t n) { return n > 0 ? *p : 0.0f; }
INLINE void v_store_n(float *p, vf x, int64_t n) {
    if (n > 0)
        *p = x;
}
INLINE vf v_pin(vf x) { return x; }
INLINE vf v_add(vf a, vf b) { return a + b; }
INLINE vf v_sub(vf a, vf b) { return a - b; }
INLINE vf v_mul(vf a, vf b) { return a * b; }
INLINE vf v_fma(vf a, vf b, vf c) { return __builtin_fmaf(a, b, c); }
INLINE vf v_chain(vf acc, vf a, vf b) { return v_fma(a, b, acc); }
INLINE vf v_max(vf a, vf b) { return a > b ? a : b; }
INLINE vf v_keep_first(vf x, int64_t n, vf other) { return n > 0 ? x : other; }
INLINE vf v_zero_at_minus_inf(vf y, vf x) { return x == -INFINITY ? 0.0f : y; }
INLINE vf v_one_nan(vf x) { return x != x ? __builtin_nanf("") : x; }
/* Adding 1.5 * 2^23 leaves no fraction bits, so the sum is rounded to an integer, to nearest even. */
INLINE vf v_round(vf x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
INLINE vf v_exp2_scale(vf r, vf n, vf x) {
    union {
        uint32_t bits;
        float value;
    } power;
    if (x < -126.0f)
        return 0.0f;
    if (x != x)
        return x;
    power.bits = (uint32_t)((int32_t)n + 127) << 23;
    return r * power.value;
}
INLINE vf v_hide(vf x, const uint8_t *p, int64_t n) { return n > 0 && !*p ? -INFINITY : x; }
INLINE float v_sum(vf x) { return x; }
INLINE float v_hmax(vf x) { return x; }
INLINE void v_transpose(vf r[VF_LANES]) { (void)r; }

/* SLEEF's functions for FMA hardware raise SIGILL without it. */
#ifdef FP_FAST_FMAF
INLINE vf v_tanh(vf x) { return Sleef_finz_tanhf1_u10purecfma(x); }
INLINE float v_log1(float x) { return Sleef_finz_logf1_u10purecfma(x); }
#else
INLINE vf v_tanh(vf x) { return Sleef_cinz_tanhf1_u10purec(x); }
INLINE float v_log1(float x) { return Sleef_cinz_logf1_u10purec(x); }
#endif

#endif
