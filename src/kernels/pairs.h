/* What products of bf16 pairs are made of: queries, keys, weights and values, rounded and arranged.  Contracts in src/kernels.h.
 *
 * Pairs are two floats, the odd one first: then the chain over floats, as it is, is the pairs' chain (src/arithmetic.md), and the
 * tiles need not know of pairs. */
#ifndef HEED_KERNELS_PAIRS_H
#define HEED_KERNELS_PAIRS_H

/* Vectors that hold whole pairs. */
enum { PAIR_VECTORS = VF_LANES == 1 ? 2 : 1, PAIR_LANES = PAIR_VECTORS * VF_LANES };

/* A vector of these elements, or its first n, as bf16 in floats. */
INLINE vf pair_load_n(const enum heed_type type, const void *p, int64_t n) {
    const vf x = load_type_n(type, p, n);
    return type == HEED_BF16 ? x : v_widen_bf16(v_round_bf16(x));
}

INLINE void pair_store(float *y, const vf x[PAIR_VECTORS]) {
    UNROLL for (int v = 0; v < PAIR_VECTORS; v++) v_store(y + v * VF_LANES, v_swap(x[PAIR_VECTORS - 1 - v]));
}

/* The first n, a whole number of pairs. */
INLINE void pair_store_n(float *y, const vf x[PAIR_VECTORS], int64_t n) {
    UNROLL for (int v = 0; v < PAIR_VECTORS; v++) v_store_n(y + v * VF_LANES, v_swap(x[PAIR_VECTORS - 1 - v]), n - v * VF_LANES);
}

INLINE void pair_queries_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t n, float factor, float *y,
                            int64_t ldy) {
    const vf by = v_set1(factor);
    for (int64_t row = 0; row < rows; row++, y += ldy) {
        const void *from = type_at(type, x, row * ldx);
        for (int64_t i = 0; i < n; i += PAIR_LANES) {
            vf q[PAIR_VECTORS];
            UNROLL for (int v = 0; v < PAIR_VECTORS; v++) {
                const int64_t at = min_i64(n, i + v * VF_LANES);
                q[v] = v_widen_bf16(v_round_bf16(v_mul(load_type_n(type, type_at(type, from, at), n - at), by)));
            }
            pair_store_n(y + i, q, n + n % 2 - i);
        }
    }
}

static void pair_queries(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, float factor, float *y,
                         int64_t ldy) {
    WITH_TYPE(type, pair_queries_of(TYPE, x, ldx, rows, n, factor, y, ldy));
}

INLINE void pair_rows_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t n, bool odd, float *y,
                         int64_t ldy) {
    for (int64_t row = odd ? -1 : 0; row < rows; row += 2, y += 2 * ldy) {
        const void *first = type_at(type, x, max_i64(0, row) * ldx), *second = type_at(type, x, min_i64(row + 1, rows - 1) * ldx);
        for (int64_t j = 0; j < n; j += VF_LANES) {
            const vf of_first = row >= 0 ? pair_load_n(type, type_at(type, first, j), n - j) : v_zero();
            const vf of_second = row + 1 < rows ? pair_load_n(type, type_at(type, second, j), n - j) : v_zero();
            v_store(y + j, of_second);
            v_store(y + ldy + j, of_first);
        }
    }
}

static void pair_rows(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, bool odd, float *y, int64_t ldy) {
    WITH_STORED_TYPE(type, pair_rows_of(TYPE, x, ldx, rows, n, odd, y, ldy));
}

#endif
