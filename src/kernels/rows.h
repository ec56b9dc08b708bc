/* Passes over rows: scaling queries, finishing outputs and attention weights, and adding rows of any type times a factor
 * (heed_embedding, heed_convert).  Contracts in src/kernels.h. */
#ifndef HEED_KERNELS_ROWS_H
#define HEED_KERNELS_ROWS_H

INLINE void scale_rows_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t n, float factor, float *y,
                          int64_t ldy) {
    const vf by = v_set1(factor);
    for (; rows > 0; rows--, x = type_at(type, x, ldx), y += ldy)
        EACH_VECTOR(i, n, v_store_n(y + i, v_mul(load_type_n(type, type_at(type, x, i), LEFT), by), LEFT));
}

static void scale_rows(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, float factor, float *y,
                       int64_t ldy) {
    WITH_TYPE(type, scale_rows_of(TYPE, x, ldx, rows, n, factor, y, ldy));
}

static void store_row(const float *x, int64_t n, float factor, float *y) {
    EACH_VECTOR(i, n, v_store_n(y + i, v_one_nan(v_add(v_mul(v_load_n(x + i, LEFT), v_set1(factor)), v_zero())), LEFT));
}

/* A block at a time, so that the place of a vector in it is known. */
INLINE void add_scaled_of(const enum heed_type type, const void *x, int64_t n, float factor, float *y) {
    const vf by = v_set1(factor);
    int64_t i = 0;
    NO_UNROLL for (; i + TYPE_BLOCK <= n; i += TYPE_BLOCK) UNROLL for (int j = 0; j < TYPE_BLOCK; j += VF_LANES)
        v_store(y + i + j, v_fma(load_at(type, type_at(type, x, i), j, VF_LANES), by, v_load(y + i + j)));
    for (; i < n; i += VF_LANES)
        v_store_n(y + i, v_fma(load_at(type, x, i, n - i), by, v_load_n(y + i, n - i)), n - i);
}

INLINE void add_scaled_k(const enum heed_type type, const char *x, int64_t n, float factor, float *y) {
    const vf by = v_set1(factor);
    for (; n > 0; n -= K_BLOCK, x += type_span(type, K_BLOCK), y += K_BLOCK)
        NO_UNROLL for (int i = 0; i < K_BLOCK; i += VF_LANES) v_store(y + i, v_fma(k_load_elements(type, x, i), by, v_load(y + i)));
}

static void add_scaled(const void *x, enum heed_type type, int64_t n, float factor, float *y) {
    if (type_is_k(type))
        WITH_K_TYPE(type, add_scaled_k(TYPE, x, n, factor, y));
    else if (type_has_blocks(type))
        WITH_BLOCK_TYPE(type, add_scaled_of(TYPE, x, n, factor, y));
    else
        WITH_STORED_TYPE(type, add_scaled_of(TYPE, x, n, factor, y));
}

static void fill(float *y, int64_t n, float value) { EACH_VECTOR(i, n, v_store_n(y + i, v_set1(value), LEFT)); }

/* The sum of a zero and +0 is +0: tiles that start from +0 and rows that were merged once more often end with the same sign. */
INLINE vf finished(vf x, vf reciprocal) { return v_one_nan(v_add(v_mul(x, reciprocal), v_zero())); }

INLINE void finish_rows_of(const enum heed_type type, const float *x, int64_t ldx, const float *sum, int64_t rows, int64_t n,
                           void *y, int64_t ldy) {
    for (; rows > 0; rows--, x += ldx, y = type_at_output(type, y, ldy), sum++) {
        const vf reciprocal = v_set1(1.0f / *sum);
        if (*sum == 0.0f) {
            memset(y, 0, (size_t)(n * type_bytes(type)));
            continue;
        }
        EACH_VECTOR(i, n, store_type_n(type, type_at_output(type, y, i), finished(v_load_n(x + i, LEFT), reciprocal), LEFT));
    }
}

static void finish_rows(const float *x, int64_t ldx, const float *sum, int64_t rows, int64_t n, void *y, enum heed_type type,
                        int64_t ldy) {
    WITH_TYPE(type, finish_rows_of(TYPE, x, ldx, sum, rows, n, y, ldy));
}

/* A NaN weight makes the sum NaN, so the sum alone tells whether a row needs the one NaN. */
INLINE bool fill_without_sum(float *y, int64_t n, float sum) {
    if (sum > 0.0f)
        return false;
    fill(y, n, sum == 0.0f ? 0.0f : __builtin_nanf(""));
    return true;
}

static void weights_row(float *w, int64_t n, float max, float sum) {
    if (fill_without_sum(w, n, sum))
        return;
    const vf base = v_set1(max), reciprocal = v_set1(1.0f / sum);
    EACH_VECTOR(i, n, v_store_n(w + i, v_mul(exp2_of(v_sub(v_load_n(w + i, LEFT), base)), reciprocal), LEFT));
}

#endif
