/* The vector vocabulary for NEON (AArch64 Advanced SIMD): 4 lanes.  See arch/README.md. */
#ifndef HEED_VEC_NEON_H
#define HEED_VEC_NEON_H

#include <arm_neon.h>
#include <math.h>
#include <sleef.h>
#include <stdbool.h>
#include <string.h>

#include "internal.h"

typedef float32x4_t vf;
typedef uint16x4_t vh;
typedef uint32x4_t vi;
#define VF_LANES 4
#define VF_PIECE 4

/* All ones in the lanes before n. */
INLINE uint32x4_t neon_first(int64_t n) {
    static const int32_t lane[VF_LANES] = {0, 1, 2, 3};
    const int32_t lanes = n > VF_LANES ? VF_LANES : n < 0 ? 0 : (int32_t)n;
    return vcgtq_s32(vdupq_n_s32(lanes), vld1q_s32(lane));
}

INLINE vf v_zero(void) { return vdupq_n_f32(0.0f); }
INLINE vf v_clear(void) { return v_zero(); }
INLINE vf v_set1(float x) { return vdupq_n_f32(x); }
INLINE vf v_load1(const float *p) { return v_set1(*p); }
INLINE vf v_load(const float *p) { return vld1q_f32(p); }
INLINE void v_store(float *p, vf x) { vst1q_f32(p, x); }
INLINE void v_stream(float *p, vf x) { vst1q_f32(p, x); } /* there is a hint for pairs, and no intrinsic for it */
INLINE void v_stream_end(void) {}
INLINE vf v_load_n(const float *p, int64_t n) {
    float lanes[VF_LANES] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (n >= VF_LANES)
        return v_load(p);
    for (int64_t i = 0; i < n; i++)
        lanes[i] = p[i];
    return v_load(lanes);
}
INLINE void v_store_n(float *p, vf x, int64_t n) {
    float lanes[VF_LANES];
    if (n >= VF_LANES) {
        v_store(p, x);
        return;
    }
    v_store(lanes, x);
    for (int64_t i = 0; i < n; i++)
        p[i] = lanes[i];
}
INLINE void v_store_few(float *p, vf x, int64_t n) { v_store_n(p, x, n); }
INLINE vf v_pin(vf x) {
    __asm__("" : "+w"(x));
    return x;
}
INLINE vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
INLINE vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
INLINE vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
INLINE vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
INLINE vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
/* As an instruction: gcc 12 and clang 14 schedule intrinsics with all loads first, run out of the 32 registers, and gcc spills 24
 * to 38 times in the loop (0.59 to 0.83 of the peak, `make bench-static`); volatile, for then they keep the order of the source
 * (1.00).  By element, because a load to all lanes takes a slot of the units that multiply. */
INLINE vf v_chain(vf acc, vf a, vf b) {
    __asm__ volatile("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(acc) : "w"(b), "w"(vgetq_lane_f32(a, 0)));
    return acc;
}
INLINE vf v_chain_at(vf acc, const float *a, vf b) { return v_chain(acc, v_set1(*a), b); }
INLINE vf v_negate(vf x) { return vnegq_f32(x); }
INLINE vf v_minus_size(vf x) { return vnegq_f32(vabsq_f32(x)); }
INLINE vf v_max(vf a, vf b) { return vmaxq_f32(a, b); }
INLINE vf v_positive(vf x) { return vmaxq_f32(x, v_zero()); }
INLINE vf v_power(vf x) { return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x7f800000))); }
INLINE vf v_swap(vf x) { return vrev64q_f32(x); }
INLINE vf v_keep_first(vf x, int64_t n, vf other) { return vbslq_f32(neon_first(n), x, other); }
INLINE vf v_zero_at_minus_inf(vf y, vf x) { return vbslq_f32(vceqq_f32(x, vdupq_n_f32(-INFINITY)), v_zero(), y); }
INLINE vf v_one_nan(vf x) { return vbslq_f32(vceqq_f32(x, x), x, vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000))); }
INLINE bool v_any_nan(const vf *x, const int count) {
    uint32x4_t number = vdupq_n_u32(UINT32_MAX);
    UNROLL for (int i = 0; i < count; i++) number = vandq_u32(number, vceqq_f32(x[i], x[i]));
    return vminvq_u32(number) == 0;
}
/* Adding 1.5 * 2^23 + 128 leaves no fraction bits, so the sum is rounded to an integer, to nearest even as 128 is even; its low
 * bits are the exponent of 2^(rint(x) + 1). */
#define VF_EXP2_UNIT 0.5f
INLINE vf v_exp2_split(vf x, vf *power) {
    const vf shift = v_set1(0x1.8p23f + 128);
    *power = v_add(x, shift);
    return v_sub(x, v_sub(*power, shift));
}
INLINE vf v_exp2_scale(vf r, vf power, vf x) {
    const vf factor = vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(power), 23));
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(-126.0f)), v_zero(), v_mul(r, factor));
}
INLINE unsigned v_flush_begin(void) { return 0; }
INLINE void v_flush_end(unsigned callers) { (void)callers; }
INLINE vf v_exp2_scale_flush(vf r, vf power, vf x) { return v_exp2_scale(r, power, x); }
INLINE float v_sum(vf x) {
    const float32x2_t halves = vadd_f32(vget_low_f32(x), vget_high_f32(x));
    return vget_lane_f32(halves, 0) + vget_lane_f32(halves, 1);
}
INLINE float v_hmax(vf x) { return vmaxvq_f32(x); }
INLINE void v_transpose_pieces(vf r[VF_PIECE]) {
    const float32x4x2_t top = vtrnq_f32(r[0], r[1]), bottom = vtrnq_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(top.val[0]), vget_low_f32(bottom.val[0]));
    r[1] = vcombine_f32(vget_low_f32(top.val[1]), vget_low_f32(bottom.val[1]));
    r[2] = vcombine_f32(vget_high_f32(top.val[0]), vget_high_f32(bottom.val[0]));
    r[3] = vcombine_f32(vget_high_f32(top.val[1]), vget_high_f32(bottom.val[1]));
}
INLINE void v_transpose(vf r[VF_LANES]) { v_transpose_pieces(r); }

INLINE vh v_load_half(const uint16_t *p) { return vld1_u16(p); }
INLINE void v_store_half(uint16_t *p, vh x) { vst1_u16(p, x); }
INLINE vf v_widen_bf16(vh x) { return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(x), 16)); }
/* Half of the last place that stays, less one, plus one if that place is odd. */
INLINE vh v_round_bf16(vf x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v_one_nan(x)), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vshrn_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
}
INLINE vf v_widen_f16(vh x) { return vcvt_f32_f16(vreinterpret_f16_u16(x)); }
INLINE vh v_round_f16(vf x) { return vreinterpret_u16_f16(vcvt_f16_f32(v_one_nan(x))); }

INLINE vf v_load_i8(const int8_t *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(bytes)))));
}
/* Bytes of 4 lanes as integers. */
INLINE uint32x4_t neon_bytes(const uint8_t *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
}
INLINE vf neon_less_8(uint32x4_t x) { return vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(x), vdupq_n_s32(8))); }
INLINE vf v_load_low4(const uint8_t *p) { return neon_less_8(vandq_u32(neon_bytes(p), vdupq_n_u32(15))); }
INLINE vf v_load_high4(const uint8_t *p) { return neon_less_8(vshrq_n_u32(neon_bytes(p), 4)); }
INLINE vi v_load_bytes(const uint8_t *p) { return neon_bytes(p); }
INLINE vi v_load_int(const uint8_t *p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }
INLINE vi v_bits(vf x) { return vreinterpretq_u32_f32(x); }
INLINE vf v_of_bits(vi x) { return vreinterpretq_f32_u32(x); }
INLINE vf v_bf16(vi x, const int i) { return v_of_bits(i ? vandq_u32(x, vdupq_n_u32(0xffff0000)) : vshlq_n_u32(x, 16)); }
INLINE vf v_byte(vi x, const int i) {
    return vcvtq_f32_s32(vreinterpretq_s32_u32(vandq_u32(x << (24 - 8 * i), vdupq_n_u32(0xff000000))));
}
/* Less 8 four at a time, which compilers do once for all four. */
INLINE vf v_int4(vi x, const int i) {
    const uint8x16_t four = vandq_u8(vreinterpretq_u8_u32(x >> i % 2 * 4), vdupq_n_u8(15));
    return v_byte(vreinterpretq_u32_u8(vsubq_u8(four, vdupq_n_u8(8))), i / 2);
}
INLINE vh v_load_half_at(const char *const p[VF_LANES]) {
    uint16_t lanes[VF_LANES];
    for (int i = 0; i < VF_LANES; i++)
        memcpy(lanes + i, p[i], sizeof *lanes);
    return v_load_half(lanes);
}
#include "../one_piece.h"
INLINE vi v_zero_int(void) { return vdupq_n_u32(0); }
INLINE vi v_set1_word(const int8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return vdupq_n_u32(word);
}
INLINE vi v_add_int(vi a, vi b) { return vaddq_u32(a, b); }
INLINE vi neon_zip_halves(uint8x16_t a, uint8x16_t b, const int upper) {
    const uint16x8_t x = vreinterpretq_u16_u8(a), y = vreinterpretq_u16_u8(b);
    return vreinterpretq_u32_u16(upper ? vzip2q_u16(x, y) : vzip1q_u16(x, y));
}
INLINE void v_transpose_bytes(vi r[4]) {
    const uint8x16_t r0 = vreinterpretq_u8_u32(r[0]), r1 = vreinterpretq_u8_u32(r[1]), r2 = vreinterpretq_u8_u32(r[2]),
                     r3 = vreinterpretq_u8_u32(r[3]);
    const uint8x16_t low01 = vzip1q_u8(r0, r1), high01 = vzip2q_u8(r0, r1), low23 = vzip1q_u8(r2, r3), high23 = vzip2q_u8(r2, r3);
    r[0] = neon_zip_halves(low01, low23, 0);
    r[1] = neon_zip_halves(low01, low23, 1);
    r[2] = neon_zip_halves(high01, high23, 0);
    r[3] = neon_zip_halves(high01, high23, 1);
}
INLINE void v_in_order(vf x[4]) { (void)x; }
INLINE vf v_float_of_int(vi x) { return vcvtq_f32_s32(vreinterpretq_s32_u32(x)); }
/* Two products of 128 * 127 are less than 2^15.  The last step as an instruction, for the reason of v_chain. */
INLINE vi v_dot_i8(vi acc, vi w, vi x) {
    const int8x16_t a = vreinterpretq_s8_u32(w), b = vreinterpretq_s8_u32(x);
    const int16x8_t pairs = vpaddq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));
    __asm__ volatile("sadalp %0.4s, %1.8h" : "+w"(acc) : "w"(pairs));
    return acc;
}
INLINE vi v_dot_u7(vi acc, vi w, vi x) { return v_dot_i8(acc, w, x); }
INLINE vi v_dot_u4(vi acc, vi w, vi x) { return v_dot_i8(acc, w, x); }
INLINE vi v_dot_u4_end(vi acc) { return acc; }
INLINE vi v_low4(vi x) { return vandq_u32(x, vdupq_n_u32(0x0f0f0f0f)); }
INLINE vi v_high4(vi x) { return v_low4(vshrq_n_u32(x, 4)); }
INLINE vi v_bits_of_bytes(vi x, int from, int mask) { return (x >> from) & (0x01010101u * (unsigned)mask); }
INLINE vi v_above(vi low, vi high, int from) { return low | high << from; }
INLINE vh v_half_of(vi x, const int i) { return vmovn_u32(x >> 16 * i); }
INLINE vi v_shift(vi x, int by) { return by < 0 ? x >> -by : x << by; }
INLINE vi v_choose_bits(int mask, vi x, vi other) { return vbslq_u32(vdupq_n_u32(0x01010101u * (unsigned)mask), x, other); }
INLINE vi v_swap_bits(vi x, const int by, const unsigned mask) {
    const vi differ = (x >> by ^ x) & mask;
    return x ^ differ ^ differ << by;
}
INLINE vi v_join_bits(vi x, vi other, const int mask) { return x | (other & 0x01010101u * (unsigned)mask); }
INLINE vi v_less_16(vi x) { return vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(x), vdupq_n_u8(16))); }
INLINE vi v_look_up(const int8_t table[16], vi x) {
    return vreinterpretq_u32_s8(vqtbl1q_s8(vld1q_s8(table), vreinterpretq_u8_u32(x)));
}
INLINE vh v_bf16_of_exponents(vh x, const int least) {
    const vh e = vand_u16(x, vdup_n_u16(255));
    return vand_u16(vcge_u16(e, vdup_n_u16((uint16_t)least)), vshl_n_u16(vsub_u16(e, vdup_n_u16(1)), 7));
}
#include "../not_raised.h"
INLINE void v_zip(vf *a, vf *b) {
    const vf first = vzip1q_f32(*a, *b);
    *b = vzip2q_f32(*a, *b);
    *a = first;
}
INLINE void v_unzip(vf *a, vf *b) {
    const vf first = vuzp1q_f32(*a, *b);
    *b = vuzp2q_f32(*a, *b);
    *a = first;
}
INLINE void v_store_bits(char *p, vf x) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_f32(x)); }
INLINE vf v_load_pieces(const char *const p[VF_LANES / VF_PIECE], const int n) {
    return n > 0 ? vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p[0])) : v_zero();
}
INLINE float v_f16_1(uint16_t x) { return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(x))), 0); }
INLINE void v_store_i8(int8_t *p, vf x) {
    const int16x4_t halves = vmovn_s32(vcvtnq_s32_f32(x));
    const uint32_t bytes = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(halves, halves))), 0);
    memcpy(p, &bytes, sizeof bytes);
}

#include "../part_lanes.h"

INLINE vf v_hide(vf x, const uint8_t *p, int64_t n) {
    uint32_t lanes[VF_LANES] = {1, 1, 1, 1};
    for (int64_t i = 0; i < n && i < VF_LANES; i++)
        lanes[i] = p[i];
    return vbslq_f32(vceqzq_u32(vld1q_u32(lanes)), vdupq_n_f32(-INFINITY), x);
}

INLINE vf v_tanh(vf x) { return Sleef_finz_tanhf4_u10advsimd(x); }
INLINE float v_log1(float x) { return Sleef_finz_logf1_u10purecfma(x); }

#endif
