/* The vector vocabulary with one lane: plain C, the definition of what every other one computes.  See arch/README.md. */
#ifndef HEED_VEC_SCALAR_H
#define HEED_VEC_SCALAR_H

#include <math.h>
#include <sleef.h>
#include <stdbool.h>
#include <string.h>

#include "internal.h"

typedef float vf;
typedef uint16_t vh;
typedef uint32_t vi;
#define VF_LANES 1
#define VF_PIECE 1

INLINE uint32_t scalar_bits(float x) {
    union {
        float value;
        uint32_t bits;
    } as = {x};
    return as.bits;
}
INLINE float scalar_float(uint32_t bits) {
    union {
        uint32_t bits;
        float value;
    } as = {bits};
    return as.value;
}

INLINE vf v_zero(void) { return 0.0f; }
INLINE vf v_clear(void) { return v_zero(); }
INLINE vf v_set1(float x) { return x; }
INLINE vf v_load1(const float *p) { return *p; }
INLINE vf v_load(const float *p) { return *p; }
INLINE void v_store(float *p, vf x) { *p = x; }
INLINE void v_stream(float *p, vf x) { *p = x; }
INLINE void v_stream_end(void) {}
INLINE vf v_load_n(const float *p, int64_t n) { return n > 0 ? *p : 0.0f; }
INLINE void v_store_n(float *p, vf x, int64_t n) {
    if (n > 0)
        *p = x;
}
INLINE void v_store_few(float *p, vf x, int64_t n) { v_store_n(p, x, n); }
INLINE vf v_pin(vf x) { return x; }
INLINE vf v_add(vf a, vf b) { return a + b; }
INLINE vf v_sub(vf a, vf b) { return a - b; }
INLINE vf v_mul(vf a, vf b) { return a * b; }
INLINE vf v_div(vf a, vf b) { return a / b; }
INLINE vf v_fma(vf a, vf b, vf c) { return __builtin_fmaf(a, b, c); }
INLINE vf v_chain(vf acc, vf a, vf b) { return v_fma(a, b, acc); }
INLINE vf v_chain_at(vf acc, const float *a, vf b) { return v_chain(acc, v_set1(*a), b); }
INLINE vf v_negate(vf x) { return -x; }
INLINE vf v_minus_size(vf x) { return -fabsf(x); }
INLINE vf v_max(vf a, vf b) { return a > b ? a : b; }
INLINE vf v_positive(vf x) { return x <= 0 ? 0 : x; }
INLINE vf v_power(vf x) { return scalar_float(scalar_bits(x) & 0x7f800000); }
INLINE vf v_swap(vf x) { return x; }
INLINE vf v_keep_first(vf x, int64_t n, vf other) { return n > 0 ? x : other; }
INLINE vf v_zero_at_minus_inf(vf y, vf x) { return x == -INFINITY ? 0.0f : y; }
INLINE vf v_one_nan(vf x) { return x != x ? __builtin_nanf("") : x; }
INLINE bool v_any_nan(const vf *x, const int count) {
    bool nan = false;
    UNROLL for (int i = 0; i < count; i++) nan |= x[i] != x[i];
    return nan;
}
/* Adding 1.5 * 2^23 leaves no fraction bits, so the sum is rounded to an integer, to nearest even. */
#define VF_EXP2_UNIT 1.0f
INLINE vf v_exp2_split(vf x, vf *power) {
    *power = (x + 0x1.8p23f) - 0x1.8p23f;
    return x - *power;
}
INLINE vf v_exp2_scale(vf r, vf power, vf x) {
    if (x < -126.0f)
        return 0.0f;
    return x != x ? x : r * scalar_float((uint32_t)((int32_t)power + 127) << 23);
}
/* x / 2^shift, to nearest even. */
INLINE uint32_t scalar_shift(uint32_t x, int shift) { return (x + (1u << (shift - 1)) - 1 + (x >> shift & 1)) >> shift; }
INLINE vh v_load_half(const uint16_t *p) { return *p; }
INLINE vh v_load_half_n(const uint16_t *p, int64_t n) { return n > 0 ? *p : 0; }
INLINE void v_store_half(uint16_t *p, vh x) { *p = x; }
INLINE void v_store_half_n(uint16_t *p, vh x, int64_t n) {
    if (n > 0)
        *p = x;
}
INLINE vf v_widen_bf16(vh x) { return scalar_float((uint32_t)x << 16); }
INLINE vh v_round_bf16(vf x) { return x != x ? 0x7fc0 : (vh)scalar_shift(scalar_bits(x), 16); }
/* A f16 has 5 bits of exponent, counted from 2^-15, and 10 of fraction. */
INLINE vf v_widen_f16(vh x) {
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 1023;
    if (exponent == 31)
        return scalar_float(sign | 0x7f800000 | (fraction ? 0x400000 | fraction << 13 : 0));
    if (exponent == 0)
        return scalar_float(sign | scalar_bits((float)fraction * 0x1p-24f));
    return scalar_float(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}
INLINE vh v_round_f16(vf x) {
    const uint32_t bits = scalar_bits(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    const uint32_t largest = 0x477fefff, least_normal = 0x38800000, half_of_least = 0x33000000;
    if (x != x)
        return 0x7e00;
    if (size > largest)
        return (vh)(sign | 0x7c00);
    if (size >= least_normal)
        return (vh)(sign | (scalar_shift(size, 13) - ((127 - 15) << 10)));
    if (size <= half_of_least)
        return (vh)sign;
    return (vh)(sign | scalar_shift((size & 0x7fffff) | 0x800000, 126 - (int)(size >> 23)));
}
INLINE vf v_load_i8(const int8_t *p) { return *p; }
INLINE vf v_load_i8_n(const int8_t *p, int64_t n) { return n > 0 ? *p : 0; }
INLINE vf v_load_low4(const uint8_t *p) { return (float)((*p & 15) - 8); }
INLINE vf v_load_high4(const uint8_t *p) { return (float)((*p >> 4) - 8); }
INLINE vi v_load_bytes(const uint8_t *p) { return *p; }
INLINE vi v_load_int(const uint8_t *p) {
    vi x;
    memcpy(&x, p, sizeof x);
    return x;
}
INLINE vi v_bits(vf x) { return scalar_bits(x); }
INLINE vf v_of_bits(vi x) { return scalar_float(x); }
INLINE vf v_bf16(vi x, const int i) { return scalar_float(i ? x & 0xffff0000 : x << 16); }
INLINE vf v_int4(vi x, const int i) { return (float)((int)(x >> 4 * i & 15) - 8) * 0x1p24f; }
INLINE vf v_byte(vi x, const int i) { return (float)(int32_t)(x << (24 - 8 * i) & 0xff000000); }
#include "../not_raised.h"
INLINE vh v_load_half_at(const char *const p[VF_LANES]) {
    vh x;
    memcpy(&x, p[0], sizeof x);
    return x;
}
#include "../one_piece.h"
INLINE vi v_zero_int(void) { return 0; }
INLINE vi v_set1_word(const int8_t *p) { return v_load_int((const uint8_t *)p); }
INLINE vi v_add_int(vi a, vi b) { return a + b; }
INLINE void v_transpose_bytes(vi r[4]) {
    const vi rows[4] = {r[0], r[1], r[2], r[3]};
    UNROLL for (int i = 0; i < 4; i++) {
        r[i] = 0;
        UNROLL for (int j = 0; j < 4; j++) r[i] |= (rows[j] >> 8 * i & 255) << 8 * j;
    }
}
INLINE void v_in_order(vf x[4]) { (void)x; }
INLINE vf v_float_of_int(vi x) { return (float)(int32_t)x; }
INLINE int scalar_byte(vi x, int i) { return (int8_t)(x >> 8 * i & 255); }
INLINE vi v_dot_i8(vi acc, vi w, vi x) {
    int32_t sum = (int32_t)acc;
    UNROLL for (int i = 0; i < 4; i++) sum += scalar_byte(w, i) * scalar_byte(x, i);
    return (vi)sum;
}
INLINE vi v_dot_u7(vi acc, vi w, vi x) { return v_dot_i8(acc, w, x); }
INLINE vi v_dot_u4(vi acc, vi w, vi x) { return v_dot_i8(acc, w, x); }
INLINE vi v_dot_u4_end(vi acc) { return acc; }
INLINE vi v_low4(vi x) { return x & 0x0f0f0f0f; }
INLINE vi v_high4(vi x) { return v_low4(x >> 4); }
INLINE vi v_bits_of_bytes(vi x, int from, int mask) { return x >> from & 0x01010101u * (unsigned)mask; }
INLINE vi v_above(vi low, vi high, int from) { return low | high << from; }
INLINE vh v_half_of(vi x, const int i) { return (vh)(x >> 16 * i); }
INLINE vi v_shift(vi x, int by) { return by < 0 ? x >> -by : x << by; }
INLINE vi v_choose_bits(int mask, vi x, vi other) {
    const vi bits = 0x01010101u * (unsigned)mask;
    return (x & bits) | (other & ~bits);
}
INLINE vi v_swap_bits(vi x, const int by, const unsigned mask) {
    const vi differ = (x >> by ^ x) & mask;
    return x ^ differ ^ differ << by;
}
INLINE vi v_join_bits(vi x, vi other, const int mask) { return x | (other & 0x01010101u * (unsigned)mask); }
INLINE vi v_less_16(vi x) { return (x + 0x70707070) ^ 0x80808080; }
INLINE vi v_look_up(const int8_t table[16], vi x) {
    vi y = 0;
    UNROLL for (int i = 0; i < 4; i++) y |= (vi)(uint8_t)table[x >> 8 * i & 15] << 8 * i;
    return y;
}
INLINE vh v_bf16_of_exponents(vh x, const int least) {
    const int e = x & 255;
    return (vh)(e < least ? 0 : (e - 1) << 7);
}
INLINE void v_zip(vf *a, vf *b) { (void)a, (void)b; }
INLINE void v_unzip(vf *a, vf *b) { (void)a, (void)b; }
INLINE void v_store_bits(char *p, vf x) { memcpy(p, &x, sizeof x); }
INLINE vf v_load_pieces(const char *const p[VF_LANES / VF_PIECE], const int n) {
    return n > 0 ? scalar_float(v_load_int((const uint8_t *)p[0])) : 0.0f;
}
INLINE float v_f16_1(uint16_t x) { return v_widen_f16(x); }
INLINE void v_store_i8(int8_t *p, vf x) { *p = (int8_t)((x + 0x1.8p23f) - 0x1.8p23f); }
INLINE void v_store_i8_n(int8_t *p, vf x, int64_t n) {
    if (n > 0)
        v_store_i8(p, x);
}
INLINE vf v_hide(vf x, const uint8_t *p, int64_t n) { return n > 0 && !*p ? -INFINITY : x; }
INLINE unsigned v_flush_begin(void) { return 0; }
INLINE void v_flush_end(unsigned callers) { (void)callers; }
INLINE vf v_exp2_scale_flush(vf r, vf power, vf x) { return v_exp2_scale(r, power, x); }
INLINE float v_sum(vf x) { return x; }
INLINE float v_hmax(vf x) { return x; }
INLINE void v_transpose_pieces(vf r[VF_PIECE]) { (void)r; }
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
