/* The vector vocabulary for AVX2 with FMA and F16C: 8 lanes.  See arch/README.md. */
#ifndef HEED_VEC_AVX2_H
#define HEED_VEC_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <sleef.h>
#include <stdbool.h>
#include <string.h>

#include "internal.h"

typedef __m256 vf;
typedef __m128i vh;
typedef __m256i vi;
#define VF_LANES 8
#define VF_PIECE 4

/* All ones in the lanes before n. */
INLINE __m256i avx2_first(int64_t n) {
    const int lanes = n > VF_LANES ? VF_LANES : n < 0 ? 0 : (int)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE vf v_zero(void) { return _mm256_setzero_ps(); }
INLINE vf v_clear(void) { return v_zero(); }
INLINE vf v_set1(float x) { return _mm256_set1_ps(x); }
INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void v_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
INLINE void v_stream(float *p, vf x) { _mm256_stream_ps(p, x); } /* aligned, past the caches, until the end */
INLINE void v_stream_end(void) { _mm_sfence(); }
INLINE vf v_load_n(const float *p, int64_t n) { return n >= VF_LANES ? v_load(p) : _mm256_maskload_ps(p, avx2_first(n)); }
INLINE void v_store_n(float *p, vf x, int64_t n) {
    if (n >= VF_LANES)
        v_store(p, x);
    else
        _mm256_maskstore_ps(p, avx2_first(n), x);
}
/* Zen 3's masked stores are slow: products of 7 x 7 take 0.67 to 0.72 of the time so.  In gemm_tile 512 x 500 x 512 takes 1.02. */
INLINE void v_store_few(float *p, vf x, int64_t n) {
    __m128 part = _mm256_castps256_ps128(x);
    if (n & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(x, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, part);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, part);
}
/* Keeps x in a register: gcc 12 else folds the load into every fma that uses it (66 to 70 % of the peak). */
INLINE vf v_pin(vf x) {
    __asm__("" : "+x"(x));
    return x;
}
/* gcc 12 else loads two in advance, and has a register too few beside 12 sums. */
INLINE vf v_load1(const float *p) { return v_pin(v_set1(*p)); }
INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
/* As an instruction: given intrinsics, gcc 12 lets accumulators change registers, runs out of the 16, and spills in the loop. */
INLINE vf v_chain(vf acc, vf a, vf b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
    return acc;
}
INLINE vf v_chain_at(vf acc, const float *a, vf b) { return v_chain(acc, v_set1(*a), b); }
INLINE vf v_negate(vf x) { return -x; }
INLINE vf v_minus_size(vf x) { return _mm256_or_ps(x, _mm256_set1_ps(-0.0f)); }
INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
/* Of a NaN, or two zeros, the instruction takes the second. */
INLINE vf v_positive(vf x) { return _mm256_add_ps(_mm256_max_ps(v_zero(), x), v_zero()); }
INLINE vf v_power(vf x) { return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000))); }
INLINE vf v_swap(vf x) { return _mm256_permute_ps(x, _MM_SHUFFLE(2, 3, 0, 1)); }
INLINE vf v_keep_first(vf x, int64_t n, vf other) { return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(avx2_first(n))); }
INLINE vf v_zero_at_minus_inf(vf y, vf x) { return _mm256_and_ps(y, _mm256_cmp_ps(x, _mm256_set1_ps(-INFINITY), _CMP_NEQ_UQ)); }
INLINE vf v_one_nan(vf x) {
    return _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
INLINE bool v_any_nan(const vf *x, const int count) {
    vf nan = _mm256_setzero_ps();
    UNROLL for (int i = 0; i < count; i += 2) nan =
        _mm256_or_ps(nan, _mm256_cmp_ps(x[i], x[i + 1 < count ? i + 1 : i], _CMP_UNORD_Q));
    return _mm256_movemask_ps(nan) != 0;
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
    const vf factor = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(power), 23));
    return _mm256_and_ps(v_mul(r, factor), _mm256_cmp_ps(x, v_set1(-126.0f), _CMP_NLT_UQ));
}
INLINE unsigned v_flush_begin(void) { return 0; }
INLINE void v_flush_end(unsigned callers) { (void)callers; }
INLINE vf v_exp2_scale_flush(vf r, vf power, vf x) { return v_exp2_scale(r, power, x); }
INLINE float v_sum(vf x) {
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
INLINE float v_hmax(vf x) {
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}
/* Pairs of rows, then pairs of pairs. */
INLINE void v_transpose_pieces(vf r[VF_PIECE]) {
    const vf low01 = _mm256_unpacklo_ps(r[0], r[1]), high01 = _mm256_unpackhi_ps(r[0], r[1]);
    const vf low23 = _mm256_unpacklo_ps(r[2], r[3]), high23 = _mm256_unpackhi_ps(r[2], r[3]);
    r[0] = _mm256_shuffle_ps(low01, low23, _MM_SHUFFLE(1, 0, 1, 0));
    r[1] = _mm256_shuffle_ps(low01, low23, _MM_SHUFFLE(3, 2, 3, 2));
    r[2] = _mm256_shuffle_ps(high01, high23, _MM_SHUFFLE(1, 0, 1, 0));
    r[3] = _mm256_shuffle_ps(high01, high23, _MM_SHUFFLE(3, 2, 3, 2));
}
INLINE void v_transpose(vf r[VF_LANES]) {
    v_transpose_pieces(r);
    v_transpose_pieces(r + VF_PIECE);
    UNROLL for (int i = 0; i < 4; i++) {
        const vf low = r[i], high = r[i + 4];
        r[i] = _mm256_permute2f128_ps(low, high, 0x20);
        r[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

INLINE vh v_load_half(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)p); }
INLINE void v_store_half(uint16_t *p, vh x) { _mm_storeu_si128((__m128i *)p, x); }
INLINE vf v_widen_bf16(vh x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); }
/* Half of the last place that stays, less one, plus one if that place is odd. */
INLINE vh v_round_bf16(vf x) {
    const __m256i bits = _mm256_castps_si256(v_one_nan(x)),
                  odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), top = _mm256_srli_epi32(up, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
}
INLINE vf v_widen_f16(vh x) { return _mm256_cvtph_ps(x); }
INLINE vh v_round_f16(vf x) { return _mm256_cvtps_ph(v_one_nan(x), _MM_FROUND_TO_NEAREST_INT); }

INLINE vf v_load_i8(const int8_t *p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p))); }
INLINE vi v_load_bytes(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
INLINE vf avx2_less_8(__m256i x) { return _mm256_cvtepi32_ps(_mm256_sub_epi32(x, _mm256_set1_epi32(8))); }
INLINE vf v_load_low4(const uint8_t *p) { return avx2_less_8(_mm256_and_si256(v_load_bytes(p), _mm256_set1_epi32(15))); }
INLINE vf v_load_high4(const uint8_t *p) { return avx2_less_8(_mm256_srli_epi32(v_load_bytes(p), 4)); }
INLINE vi v_load_int(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE vi v_bits(vf x) { return _mm256_castps_si256(x); }
INLINE vf v_of_bits(vi x) { return _mm256_castsi256_ps(x); }
INLINE vf v_bf16(vi x, const int i) {
    return v_of_bits(i ? _mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000)) : _mm256_slli_epi32(x, 16));
}
/* One operation, where two shifts would be two. */
INLINE vf v_byte(vi x, const int i) {
    const int first = i << 24 | 0x808080, next = 4 << 24;
    const __m256i to_the_top = _mm256_setr_epi32(first, first + next, first + 2 * next, first + 3 * next, first, first + next,
                                                 first + 2 * next, first + 3 * next);
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(x, to_the_top));
}
/* Less 8 four at a time, which compilers do once for all four. */
INLINE vf v_int4(vi x, const int i) {
    const vi four = _mm256_and_si256(_mm256_srli_epi32(x, i % 2 * 4), _mm256_set1_epi8(15));
    return v_byte(_mm256_sub_epi8(four, _mm256_set1_epi8(8)), i / 2);
}
INLINE short avx2_half(const char *p) {
    short x;
    memcpy(&x, p, sizeof x);
    return x;
}
INLINE vh v_load_half_at(const char *const p[VF_LANES]) {
    return _mm_setr_epi16(avx2_half(p[0]), avx2_half(p[1]), avx2_half(p[2]), avx2_half(p[3]), avx2_half(p[4]), avx2_half(p[5]),
                          avx2_half(p[6]), avx2_half(p[7]));
}
INLINE vh v_load_half_of_blocks(const char *const p[VF_PIECE], int64_t step) {
    (void)step;
    return _mm_setr_epi16(avx2_half(p[0]), avx2_half(p[1]), avx2_half(p[2]), avx2_half(p[3]), 0, 0, 0, 0);
}
INLINE vi v_load_blocks(const char *p, int64_t step) {
    (void)step;
    return v_load_int((const uint8_t *)p);
}
INLINE vi v_zero_int(void) { return _mm256_setzero_si256(); }
INLINE vi v_set1_word(const int8_t *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm256_set1_epi32(word);
}
INLINE vi v_add_int(vi a, vi b) { return _mm256_add_epi32(a, b); }
INLINE void v_transpose_bytes(vi r[4]) {
    const vi low01 = _mm256_unpacklo_epi8(r[0], r[1]), high01 = _mm256_unpackhi_epi8(r[0], r[1]);
    const vi low23 = _mm256_unpacklo_epi8(r[2], r[3]), high23 = _mm256_unpackhi_epi8(r[2], r[3]);
    r[0] = _mm256_unpacklo_epi16(low01, low23);
    r[1] = _mm256_unpackhi_epi16(low01, low23);
    r[2] = _mm256_unpacklo_epi16(high01, high23);
    r[3] = _mm256_unpackhi_epi16(high01, high23);
}
INLINE void v_in_order(vf x[4]) {
    const vf first = _mm256_permute2f128_ps(x[0], x[1], 0x20), third = _mm256_permute2f128_ps(x[0], x[1], 0x31);
    x[1] = _mm256_permute2f128_ps(x[2], x[3], 0x20);
    x[3] = _mm256_permute2f128_ps(x[2], x[3], 0x31);
    x[0] = first;
    x[2] = third;
}
INLINE vf v_next_piece(vf x) { return _mm256_permute2f128_ps(x, x, 1); }
INLINE vf v_float_of_int(vi x) { return _mm256_cvtepi32_ps(x); }
INLINE vi avx2_sum_pairs(vi x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }
/* The instruction takes one factor without sign: one that has it gives it to x.  Two products of 128 * 127 are less than 2^15.
 * Sums as instructions: gcc 12 else adds up products in an order of its own, and keeps them on the stack. */
INLINE vi v_dot_u7(vi acc, vi w, vi x) {
    const vi products = avx2_sum_pairs(_mm256_maddubs_epi16(w, x));
    __asm__("vpaddd %1, %0, %0" : "+x"(acc) : "x"(products));
    return acc;
}
INLINE vi v_dot_i8(vi acc, vi w, vi x) { return v_dot_u7(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); }
/* Sums of 16 bits: 16 products of 15 * 127 are less than 2^15. */
INLINE vi v_dot_u4(vi acc, vi w, vi x) {
    __asm__("vpaddw %1, %0, %0" : "+x"(acc) : "x"(_mm256_maddubs_epi16(w, x)));
    return acc;
}
INLINE vi v_dot_u4_end(vi acc) { return avx2_sum_pairs(acc); }
INLINE vi v_low4(vi x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
INLINE vi v_high4(vi x) { return v_low4(_mm256_srli_epi16(x, 4)); }
typedef uint32_t avx2_lanes __attribute__((vector_size(32)));
INLINE vi v_bits_of_bytes(vi x, int from, int mask) {
    return _mm256_and_si256((vi)((avx2_lanes)x >> from), _mm256_set1_epi8((char)mask));
}
INLINE vi v_above(vi low, vi high, int from) { return _mm256_or_si256(low, (vi)((avx2_lanes)high << from)); }
INLINE vh v_half_of(vi x, const int i) {
    const __m256i half = i ? _mm256_srli_epi32(x, 16) : _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    return _mm_packus_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}
INLINE vi v_shift(vi x, int by) { return (vi)(by < 0 ? (avx2_lanes)x >> -by : (avx2_lanes)x << by); }
INLINE vi v_swap_bits(vi x, const int by, const unsigned mask) {
    const avx2_lanes lanes = (avx2_lanes)x, differ = (lanes >> by ^ lanes) & mask;
    return (vi)(lanes ^ differ ^ differ << by);
}
INLINE vi v_join_bits(vi x, vi other, const int mask) {
    return _mm256_or_si256(x, _mm256_and_si256(other, _mm256_set1_epi8((char)mask)));
}
INLINE vi v_less_16(vi x) { return _mm256_sub_epi8(x, _mm256_set1_epi8(16)); }
INLINE vi v_look_up(const int8_t table[16], vi x) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table)), x);
}
INLINE vh v_bf16_of_exponents(vh x, const int least) {
    const vh e = _mm_and_si128(x, _mm_set1_epi16(255)), counts = _mm_cmpgt_epi16(e, _mm_set1_epi16((short)(least - 1)));
    return _mm_and_si128(counts, _mm_slli_epi16(_mm_sub_epi16(e, _mm_set1_epi16(1)), 7));
}
INLINE vi v_choose_bits(int mask, vi x, vi other) {
    const vi bits = _mm256_set1_epi8((char)mask);
    return _mm256_or_si256(_mm256_and_si256(bits, x), _mm256_andnot_si256(bits, other));
}
#include "../not_raised.h"
INLINE void v_zip(vf *a, vf *b) {
    const vf low = _mm256_unpacklo_ps(*a, *b), high = _mm256_unpackhi_ps(*a, *b);
    *a = _mm256_permute2f128_ps(low, high, 0x20);
    *b = _mm256_permute2f128_ps(low, high, 0x31);
}
INLINE void v_unzip(vf *a, vf *b) {
    const vf low = _mm256_permute2f128_ps(*a, *b, 0x20), high = _mm256_permute2f128_ps(*a, *b, 0x31);
    *a = _mm256_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0));
    *b = _mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1));
}
INLINE void v_store_bits(char *p, vf x) { _mm256_storeu_ps((float *)(void *)p, x); }
INLINE vf v_load_pieces(const char *const p[VF_LANES / VF_PIECE], const int n) {
    const __m128 first = n > 0 ? _mm_loadu_ps((const float *)(const void *)p[0]) : _mm_setzero_ps();
    return _mm256_insertf128_ps(_mm256_castps128_ps256(first),
                                n > 1 ? _mm_loadu_ps((const float *)(const void *)p[1]) : _mm_setzero_ps(), 1);
}
INLINE float v_f16_1(uint16_t x) { return _cvtsh_ss(x); }
INLINE void v_store_i8(int8_t *p, vf x) {
    const __m256i wide = _mm256_cvtps_epi32(x);
    const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(halves, halves));
}

#include "../part_lanes.h"

INLINE vf v_hide(vf x, const uint8_t *p, int64_t n) {
    uint8_t bytes[VF_LANES] = {1, 1, 1, 1, 1, 1, 1, 1};
    memcpy(bytes, p, n > VF_LANES ? VF_LANES : n > 0 ? (size_t)n : 0);
    const __m256i lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes));
    return _mm256_blendv_ps(x, v_set1(-INFINITY), _mm256_castsi256_ps(_mm256_cmpeq_epi32(lanes, _mm256_setzero_si256())));
}

INLINE vf v_tanh(vf x) { return Sleef_finz_tanhf8_u10avx2(x); }
INLINE float v_log1(float x) { return Sleef_finz_logf1_u10purecfma(x); }

#endif
