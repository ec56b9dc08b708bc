/* Factors of bf16 products as AMX and vdpbf16ps take them: words of two elements of k that follow one another, rounded to bf16; and
 * the softmax whose weights become such rows.  Contracts in src/contracts/dots.h, struct heed_dots.
 *
 * What includes this says, after vec_avx512.h, how b is rounded: round_b(low, high), 32 elements.  Elements of a below 2^-126 are 0
 * before they are rounded, in either kind of products. */
#ifndef HEED_BF16_WORDS_H
#define HEED_BF16_WORDS_H

#include "kernels/types.h"
#include "kernels/exp2.h"
#include "kernels/sum16.h"
#include "kernels/exp_fetch.h"

enum { WORDS = VF_LANES /* of a vector */ };
_Static_assert(HEED_DOT == 2 * WORDS, "a vector has a whole dot");

INLINE __m512i round_a(vf low, vf high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

/* 32 elements, or the first n, as bf16 in their order. */
INLINE __m512i load_dot(const bool of_a, const enum heed_type type, const void *x, int64_t n) {
    const void *upper = type_at(type, x, n > VF_LANES ? VF_LANES : 0);
    if (type == HEED_BF16 && n >= HEED_DOT)
        return _mm512_loadu_si512(x);
    if (type == HEED_BF16) {
        const __m256i low = v_load_half_n(x, n), high = v_load_half_n(upper, n - VF_LANES);
        return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    const vf low = load_type_n(type, x, n), high = load_type_n(type, upper, n - VF_LANES);
    return of_a ? round_a(low, high) : round_b(low, high);
}

INLINE void load_a_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    for (int64_t i = 0; i < rows; i++) {
        const void *row = type_at(type, x, i * ldx);
        float *to = y + i * ldy;
        for (int64_t p = 0; p < k; p += HEED_DOT, to += WORDS)
            _mm512_storeu_si512(to, load_dot(true, type, type_at(type, row, p), k - p));
    }
}

static void load_a(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    WITH_TYPE(type, load_a_of(TYPE, x, ldx, rows, k, y, ldy));
}

/* Rows of b that are fetched ahead: 8 rows times 4096 x 4096 weights take 0.89 of the time with AMX. */
enum { LOAD_AHEAD = 16 };

/* Two rows, element by element. */
INLINE void load_b_of(const enum heed_type type, const void *x, int64_t ldx, int64_t k, int columns, float *y) {
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4,
                                         35, 3, 34, 2, 33, 1, 32, 0),
                  high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const int64_t ahead = LOAD_AHEAD * type_span(type, ldx);
    for (int64_t p = 0; p < round_up(k, HEED_DOT); p += 2) {
        const void *even = type_at(type, x, min_i64(p, k - 1) * ldx), *odd = type_at(type, x, min_i64(p + 1, k - 1) * ldx);
        float *to = y + p / 2 * HEED_PANEL;
        for (int j = 0; j < columns; j += HEED_DOT, to += HEED_DOT) {
            __builtin_prefetch((const char *)type_at(type, even, j) + ahead, 0, 3);
            __builtin_prefetch((const char *)type_at(type, odd, j) + ahead, 0, 3);
            const __m512i a = p < k ? load_dot(false, type, type_at(type, even, j), columns - j) : _mm512_setzero_si512();
            const __m512i b = p + 1 < k ? load_dot(false, type, type_at(type, odd, j), columns - j) : _mm512_setzero_si512();
            _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
            _mm512_storeu_si512(to + WORDS, _mm512_permutex2var_epi16(a, high, b));
        }
    }
}

static void load_b(const void *x, enum heed_type type, int64_t ldx, int64_t k, int columns, float *y) {
    WITH_STORED_TYPE(type, load_b_of(TYPE, x, ldx, k, columns, y));
}

/* 16 columns at a time, transposed as words. */
INLINE void load_b_transposed_of(const enum heed_type type, const void *x, int64_t ldx, int64_t k, int columns, float *y) {
    for (int64_t p = 0; p < k; p += HEED_DOT)
        for (int j = 0; j < columns; j += WORDS) {
            float *to = y + p / 2 * HEED_PANEL + j;
            vf words[WORDS];
            UNROLL for (int i = 0; i < WORDS; i++) words[i] =
                j + i < columns ? _mm512_castsi512_ps(load_dot(false, type, type_at(type, x, (j + i) * ldx + p), k - p)) : v_zero();
            v_transpose(words);
            UNROLL for (int i = 0; i < WORDS; i++) v_store(to + i * HEED_PANEL, words[i]);
        }
}

static void load_b_transposed(const void *x, enum heed_type type, int64_t ldx, int64_t k, int columns, float *y) {
    WITH_STORED_TYPE(type, load_b_transposed_of(TYPE, x, ldx, k, columns, y));
}

enum { DOT_BYTES = 2 };
INLINE void dot_store(float *s, int j, const vf x[HEED_DOT / VF_LANES]) {
    _mm512_storeu_si512((char *)s + j * DOT_BYTES, round_a(x[0], x[1]));
}

#include "kernels/dot_weigh.h"

#endif
