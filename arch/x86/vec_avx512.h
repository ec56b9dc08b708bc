/* The vector vocabulary for AVX-512 (F, BW, DQ, VL): 16 lanes, tails by mask registers.  See arch/README.md. */
#ifndef HEED_VEC_AVX512_H
#define HEED_VEC_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <sleef.h>
#include <stdbool.h>
#include <string.h>

#include "internal.h"

typedef __m512 vf;
typedef __m256i vh;
typedef __m512i vi;
#define VF_LANES 16
#define VF_PIECE 4

/* A bit for each lane before n. */
INLINE __mmask16 avx512_first(int64_t n) {
    const int lanes = n > VF_LANES ? VF_LANES : n < 0 ? 0 : (int)n;
    return (__mmask16)((1u << lanes) - 1u);
}

INLINE vf v_zero(void) { return _mm512_setzero_ps(); }
/* Compilers copy one zero to all accumulators; the copies of a tile take 8 cycles of Intel's multipliers, clearing takes none. */
INLINE vf v_clear(void) {
    vf x;
    __asm__("vpxord %0, %0, %0" : "=v"(x));
    return x;
}
INLINE vf v_set1(float x) { return _mm512_set1_ps(x); }
INLINE vf v_load1(const float *p) { return v_set1(*p); }
INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
INLINE void v_stream(float *p, vf x) { _mm512_stream_ps(p, x); } /* aligned, past the caches, until the end */
INLINE void v_stream_end(void) { _mm_sfence(); }
INLINE vf v_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(avx512_first(n), p); }
INLINE void v_store_n(float *p, vf x, int64_t n) { _mm512_mask_storeu_ps(p, avx512_first(n), x); }
INLINE void v_store_few(float *p, vf x, int64_t n) { v_store_n(p, x, n); }
/* Keeps x in a register: gcc 12 else folds the load into every fma that uses it (66 to 70 % of the peak). */
INLINE vf v_pin(vf x) {
    __asm__("" : "+v"(x));
    return x;
}
INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
/* As an instruction: given intrinsics, gcc 12 lets accumulators change registers and spills one of them in the loop. */
INLINE vf v_chain(vf acc, vf a, vf b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
}
INLINE vf v_chain_at(vf acc, const float *a, vf b) {
    __asm__("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(acc) : "m"(*a), "v"(b));
    return acc;
}
INLINE vf v_negate(vf x) { return -x; }
INLINE vf v_minus_size(vf x) { return _mm512_or_ps(x, _mm512_set1_ps(-0.0f)); }
INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
/* Of a NaN, or two zeros, the instruction takes the second. */
INLINE vf v_positive(vf x) { return _mm512_add_ps(_mm512_max_ps(v_zero(), x), v_zero()); }
INLINE vf v_power(vf x) { return _mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32(0x7f800000))); }
INLINE vf v_swap(vf x) { return _mm512_permute_ps(x, _MM_SHUFFLE(2, 3, 0, 1)); }
INLINE vf v_keep_first(vf x, int64_t n, vf other) { return _mm512_mask_mov_ps(other, avx512_first(n), x); }
INLINE vf v_zero_at_minus_inf(vf y, vf x) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-INFINITY), _CMP_NEQ_UQ), y);
}
INLINE vf v_one_nan(vf x) {
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
}
INLINE bool v_any_nan(const vf *x, const int count) {
    __mmask16 nan = 0;
    UNROLL for (int i = 0; i < count; i += 2) nan |= _mm512_cmp_ps_mask(x[i], x[i + 1 < count ? i + 1 : i], _CMP_UNORD_Q);
    return nan != 0;
}
/* vreduceps, x - rint(x), is one operation on Intel, vrndscaleps two. */
#define VF_EXP2_UNIT 1.0f
INLINE vf v_exp2_split(vf x, vf *power) {
    const vf f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT);
    *power = v_sub(x, f);
    return f;
}
INLINE vf v_exp2_scale(vf r, vf power, vf x) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ), r, power);
}
/* Flushing saves the comparison, a twelfth of exp2: r * 2^n is exact, and below 2^-126 where x is. */
INLINE unsigned v_flush_begin(void) {
    const unsigned callers = _mm_getcsr();
    _mm_setcsr(callers | _MM_FLUSH_ZERO_ON);
    __asm__ volatile("" ::: "memory");
    return callers;
}
INLINE void v_flush_end(unsigned callers) {
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(callers);
}
INLINE vf v_exp2_scale_flush(vf r, vf power, vf x) {
    (void)x;
    return _mm512_scalef_ps(r, power);
}
INLINE float v_sum(vf x) {
    const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}
INLINE float v_hmax(vf x) {
    const __m256 y = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}
/* Pairs of rows, then pairs of pairs. */
INLINE void v_transpose_pieces(vf r[VF_PIECE]) {
    const vf low01 = _mm512_unpacklo_ps(r[0], r[1]), high01 = _mm512_unpackhi_ps(r[0], r[1]);
    const vf low23 = _mm512_unpacklo_ps(r[2], r[3]), high23 = _mm512_unpackhi_ps(r[2], r[3]);
    r[0] = _mm512_shuffle_ps(low01, low23, _MM_SHUFFLE(1, 0, 1, 0));
    r[1] = _mm512_shuffle_ps(low01, low23, _MM_SHUFFLE(3, 2, 3, 2));
    r[2] = _mm512_shuffle_ps(high01, high23, _MM_SHUFFLE(1, 0, 1, 0));
    r[3] = _mm512_shuffle_ps(high01, high23, _MM_SHUFFLE(3, 2, 3, 2));
}
INLINE void avx512_transpose_quarters(vf *a, vf *b, vf *c, vf *d) {
    const vf even_ab = _mm512_shuffle_f32x4(*a, *b, _MM_SHUFFLE(2, 0, 2, 0));
    const vf odd_ab = _mm512_shuffle_f32x4(*a, *b, _MM_SHUFFLE(3, 1, 3, 1));
    const vf even_cd = _mm512_shuffle_f32x4(*c, *d, _MM_SHUFFLE(2, 0, 2, 0));
    const vf odd_cd = _mm512_shuffle_f32x4(*c, *d, _MM_SHUFFLE(3, 1, 3, 1));
    *a = _mm512_shuffle_f32x4(even_ab, even_cd, _MM_SHUFFLE(2, 0, 2, 0));
    *b = _mm512_shuffle_f32x4(odd_ab, odd_cd, _MM_SHUFFLE(2, 0, 2, 0));
    *c = _mm512_shuffle_f32x4(even_ab, even_cd, _MM_SHUFFLE(3, 1, 3, 1));
    *d = _mm512_shuffle_f32x4(odd_ab, odd_cd, _MM_SHUFFLE(3, 1, 3, 1));
}
/* 4 x 4 blocks within the 128-bit quarters first, then the quarters as a 4 x 4 matrix of their own. */
INLINE void v_transpose(vf r[VF_LANES]) {
    UNROLL for (int i = 0; i < VF_LANES; i += VF_PIECE) v_transpose_pieces(r + i);
    UNROLL for (int i = 0; i < 4; i++) avx512_transpose_quarters(&r[i], &r[i + 4], &r[i + 8], &r[i + 12]);
}

INLINE vh v_load_half(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE void v_store_half(uint16_t *p, vh x) { _mm256_storeu_si256((__m256i *)p, x); }
INLINE vh v_load_half_n(const uint16_t *p, int64_t n) { return _mm256_maskz_loadu_epi16(avx512_first(n), p); }
INLINE void v_store_half_n(uint16_t *p, vh x, int64_t n) { _mm256_mask_storeu_epi16(p, avx512_first(n), x); }
INLINE vf v_widen_bf16(vh x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
/* Half of the last place that stays, less one, plus one if that place is odd.  Upper halves by one permutation: to shift and narrow
 * would be three operations. */
INLINE vh v_round_bf16(vf x) {
    const __m512i bits = _mm512_castps_si512(v_one_nan(x)),
                  odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i upper = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 31, 29, 27, 25, 23, 21, 19,
                                           17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, up));
}
INLINE vf v_widen_f16(vh x) { return _mm512_cvtph_ps(x); }
/* With a mask of all, for without one gcc 12 makes it of -1, which it then warns of. */
INLINE vh v_round_f16(vf x) { return _mm512_maskz_cvtps_ph((__mmask16)0xffff, v_one_nan(x), _MM_FROUND_TO_NEAREST_INT); }

INLINE vf v_load_i8(const int8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p))); }
INLINE vf v_load_i8_n(const int8_t *p, int64_t n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(avx512_first(n), p)));
}
/* A permutation looks at the lower 4 bits of its index: a table of all 16 numbers. */
INLINE vf avx512_less_8(__m512i x) {
    return _mm512_permutexvar_ps(x, _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vi v_load_bytes(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
INLINE vf v_load_low4(const uint8_t *p) { return avx512_less_8(v_load_bytes(p)); }
INLINE vf v_load_high4(const uint8_t *p) { return avx512_less_8(_mm512_srli_epi32(v_load_bytes(p), 4)); }
INLINE vi v_load_int(const uint8_t *p) { return _mm512_loadu_si512(p); }
INLINE vi v_bits(vf x) { return _mm512_castps_si512(x); }
INLINE vf v_of_bits(vi x) { return _mm512_castsi512_ps(x); }
INLINE vf v_bf16(vi x, const int i) {
    return v_of_bits(i ? _mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)) : _mm512_slli_epi32(x, 16));
}
/* As an operator the shift may be by a variable, which compilers without optimisation take a constant argument for. */
typedef uint32_t avx512_lanes __attribute__((vector_size(64)));
INLINE vf v_int4(vi x, const int i) {
    const vf numbers = _mm512_setr_ps(-0x8p24f, -0x7p24f, -0x6p24f, -0x5p24f, -0x4p24f, -0x3p24f, -0x2p24f, -0x1p24f, 0, 0x1p24f,
                                      0x2p24f, 0x3p24f, 0x4p24f, 0x5p24f, 0x6p24f, 0x7p24f);
    return _mm512_permutexvar_ps((vi)((avx512_lanes)x >> 4 * i), numbers);
}
/* One operation, where two shifts would be two. */
INLINE vf v_byte(vi x, const int i) {
    const int first = i << 24 | 0x808080, next = 4 << 24;
    const __m512i to_the_top = _mm512_set4_epi32(first + 3 * next, first + 2 * next, first + next, first);
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(x, to_the_top));
}
INLINE short avx512_half(const char *p) {
    short x;
    memcpy(&x, p, sizeof x);
    return x;
}
/* The first one by a load of twice as much, which is one operation, where to widen a half and to move it would be two more: one and
 * two rows of bytes times weights of 4 bits in L2 take 0.94 to 0.97 of the time (Zen 4). */
INLINE __m128i avx512_two_halves(const char *const p[2]) {
    int first;
    memcpy(&first, p[0], sizeof first);
    return _mm_insert_epi16(_mm_cvtsi32_si128(first), avx512_half(p[1]), 1);
}
INLINE __m128i avx512_halves(const char *const p[8]) {
    return _mm_unpacklo_epi64(_mm_unpacklo_epi32(avx512_two_halves(p), avx512_two_halves(p + 2)),
                              _mm_unpacklo_epi32(avx512_two_halves(p + 4), avx512_two_halves(p + 6)));
}
INLINE vh v_load_half_at(const char *const p[VF_LANES]) { return _mm256_set_m128i(avx512_halves(p + 8), avx512_halves(p)); }
/* Of two blocks, by the 64 bytes in which both are, in one operation for a column, where two halves would be four. */
INLINE vh v_load_half_of_blocks(const char *const p[VF_PIECE], int64_t step) {
    if (step == 0)
        return _mm256_castsi128_si256(
            _mm_setr_epi16(avx512_half(p[0]), avx512_half(p[1]), avx512_half(p[2]), avx512_half(p[3]), 0, 0, 0, 0));
    const __m512i which = _mm512_unpacklo_epi64(_mm512_setzero_si512(), _mm512_set1_epi16((short)(step / 2)));
    __m512i halves = _mm512_setzero_si512();
    UNROLL for (int j = 0; j < VF_PIECE; j++) halves =
        _mm512_mask_permutexvar_epi16(halves, 0x11u << j, which, _mm512_loadu_si512(p[j]));
    return _mm512_castsi512_si256(halves);
}
INLINE vi v_load_blocks(const char *p, int64_t step) {
    const __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)p),
                  second = _mm256_loadu_si256((const __m256i *)(const void *)(p + step));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}
INLINE vi v_zero_int(void) { return _mm512_setzero_si512(); }
INLINE vi v_set1_word(const int8_t *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}
INLINE vi v_add_int(vi a, vi b) { return _mm512_add_epi32(a, b); }
INLINE void v_transpose_bytes(vi r[4]) {
    const vi low01 = _mm512_unpacklo_epi8(r[0], r[1]), high01 = _mm512_unpackhi_epi8(r[0], r[1]);
    const vi low23 = _mm512_unpacklo_epi8(r[2], r[3]), high23 = _mm512_unpackhi_epi8(r[2], r[3]);
    r[0] = _mm512_unpacklo_epi16(low01, low23);
    r[1] = _mm512_unpackhi_epi16(low01, low23);
    r[2] = _mm512_unpacklo_epi16(high01, high23);
    r[3] = _mm512_unpackhi_epi16(high01, high23);
}
INLINE void v_in_order(vf x[4]) { avx512_transpose_quarters(&x[0], &x[1], &x[2], &x[3]); }
INLINE vf v_next_piece(vf x) { return _mm512_shuffle_f32x4(x, x, _MM_SHUFFLE(0, 3, 2, 1)); }
INLINE vf v_float_of_int(vi x) { return _mm512_cvtepi32_ps(x); }
INLINE vi avx512_sum_pairs(vi x) { return _mm512_madd_epi16(x, _mm512_set1_epi16(1)); }
/* The instructions take one factor without sign: one that has it gives it to x. */
INLINE vi avx512_signed(vi x, vi w) { return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x); }
/* Two products of 128 * 127 are less than 2^15, and so are 16 of 15 * 127, in sums of 16 bits. */
INLINE vi v_dot_u7(vi acc, vi w, vi x) {
    const vi products = avx512_sum_pairs(_mm512_maddubs_epi16(w, x));
    __asm__("vpaddd %1, %0, %0" : "+v"(acc) : "v"(products));
    return acc;
}
INLINE vi v_dot_i8(vi acc, vi w, vi x) { return v_dot_u7(acc, _mm512_abs_epi8(w), avx512_signed(x, w)); }
INLINE vi v_dot_u4(vi acc, vi w, vi x) {
    __asm__("vpaddw %1, %0, %0" : "+v"(acc) : "v"(_mm512_maddubs_epi16(w, x)));
    return acc;
}
INLINE vi v_dot_u4_end(vi acc) { return avx512_sum_pairs(acc); }
INLINE vi v_low4(vi x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
INLINE vi v_high4(vi x) { return v_low4(_mm512_srli_epi16(x, 4)); }
INLINE vi v_bits_of_bytes(vi x, int from, int mask) {
    return _mm512_and_si512((vi)((avx512_lanes)x >> from), _mm512_set1_epi8((char)mask));
}
INLINE vi v_above(vi low, vi high, int from) { return _mm512_or_si512(low, (vi)((avx512_lanes)high << from)); }
INLINE vh v_half_of(vi x, const int i) { return _mm512_cvtepi32_epi16((vi)((avx512_lanes)x >> 16 * i)); }
INLINE vi v_shift(vi x, int by) { return (vi)(by < 0 ? (avx512_lanes)x >> -by : (avx512_lanes)x << by); }
INLINE vi v_swap_bits(vi x, const int by, const unsigned mask) {
    const avx512_lanes lanes = (avx512_lanes)x, differ = (lanes >> by ^ lanes) & mask;
    return (vi)(lanes ^ differ ^ differ << by);
}
INLINE vi v_join_bits(vi x, vi other, const int mask) {
    return _mm512_ternarylogic_epi32(x, other, _mm512_set1_epi8((char)mask), 0xf8);
}
INLINE vi v_less_16(vi x) { return _mm512_sub_epi8(x, _mm512_set1_epi8(16)); }
INLINE vi v_look_up(const int8_t table[16], vi x) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table)), x);
}
INLINE vh v_bf16_of_exponents(vh x, const int least) {
    const vh e = _mm256_and_si256(x, _mm256_set1_epi16(255));
    return _mm256_maskz_slli_epi16(_mm256_cmpge_epi16_mask(e, _mm256_set1_epi16((short)least)),
                                   _mm256_sub_epi16(e, _mm256_set1_epi16(1)), 7);
}
INLINE vi v_choose_bits(int mask, vi x, vi other) {
    return _mm512_ternarylogic_epi32(_mm512_set1_epi8((char)mask), x, other, 0xca);
}
/* A power of two, with a byte in the place of its second, which is 0: one operation, where two make a float of the byte alone. */
INLINE vf avx512_raised(float power, __m512i x, const int i) {
    const int first = i << 8, next = 4 << 8;
    const __m512i to_the_second = _mm512_set4_epi32(first + 3 * next, first + 2 * next, first + next, first);
    const __m512i sum = _mm512_castps_si512(_mm512_set1_ps(power));
    return _mm512_castsi512_ps(_mm512_mask_shuffle_epi8(sum, 0x2222222222222222, x, to_the_second));
}
#define VF_RAISES         1
#define VF_RAISED_BYTE    (0x1p15f + 128)
#define VF_RAISED_INT4(i) ((i) % 2 ? 0x1p11f + 8 : 0x1p15f + 8)
INLINE vf v_raised_byte(vi x, const int i) { return avx512_raised(0x1p39f, _mm512_xor_si512(x, _mm512_set1_epi8(-128)), i); }
INLINE vf v_raised_int4(vi x, const int i) {
    const __m512i four = _mm512_and_si512(x, _mm512_set1_epi8((char)(i % 2 ? 0xf0 : 0x0f)));
    return avx512_raised(i % 2 ? 0x1p35f : 0x1p39f, four, i / 2);
}
INLINE void v_zip(vf *a, vf *b) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const vf first = _mm512_permutex2var_ps(*a, low, *b);
    *b = _mm512_permutex2var_ps(*a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), *b);
    *a = first;
}
INLINE void v_unzip(vf *a, vf *b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const vf first = _mm512_permutex2var_ps(*a, even, *b);
    *b = _mm512_permutex2var_ps(*a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), *b);
    *a = first;
}
INLINE void v_store_bits(char *p, vf x) { _mm512_storeu_ps(p, x); }
INLINE vf v_load_pieces(const char *const p[VF_LANES / VF_PIECE], const int n) {
    const __m128i none = _mm_setzero_si128();
    __m128i piece[4];
    UNROLL for (int i = 0; i < 4; i++) piece[i] = i < n ? _mm_loadu_si128((const __m128i *)(const void *)p[i]) : none;
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(piece[0]), piece[1], 1),
                  high = _mm256_inserti128_si256(_mm256_castsi128_si256(piece[2]), piece[3], 1);
    return _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}
INLINE float v_f16_1(uint16_t x) { return _mm512_cvtss_f32(_mm512_cvtph_ps(_mm256_set1_epi16((short)x))); }
INLINE void v_store_i8(int8_t *p, vf x) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x))); }
INLINE void v_store_i8_n(int8_t *p, vf x, int64_t n) {
    _mm_mask_storeu_epi8(p, avx512_first(n), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

INLINE vf v_hide(vf x, const uint8_t *p, int64_t n) {
    const __m128i bytes = _mm_maskz_loadu_epi8(avx512_first(n), p);
    return _mm512_mask_mov_ps(x, avx512_first(n) & _mm_testn_epi8_mask(bytes, bytes), _mm512_set1_ps(-INFINITY));
}

INLINE vf v_tanh(vf x) { return Sleef_finz_tanhf16_u10avx512f(x); }
INLINE float v_log1(float x) { return Sleef_finz_logf1_u10purecfma(x); }

#endif
