/* Passes over rows: scaling queries, finishing outputs and attention weights, row softmax.  Contracts in src/kernels.h. */
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
    else
        WITH_ANY_TYPE(type, add_scaled_of(TYPE, x, n, factor, y));
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
    EACH_VECTOR(i, n, v_store_n(w + i, v_mul(v_exp2(v_sub(v_load_n(w + i, LEFT), base)), reciprocal), LEFT));
}

/* The larger the input the larger the weight, or the smaller if the factor is negative: of such a row, the opposite is taken. */
INLINE vf softmax_load(const float *x, int64_t n, const bool negative) {
    return negative ? v_mul(v_load_n(x, n), v_set1(-1.0f)) : v_load_n(x, n);
}

INLINE float softmax_max(const float *x, int64_t n, const bool negative) {
    vf max[4];
    int64_t i = 0;
    UNROLL for (int v = 0; v < 4; v++) max[v] = v_set1(-INFINITY);
    for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES)
        UNROLL for (int v = 0; v < 4; v++) max[v] = v_max(softmax_load(x + i + v * VF_LANES, VF_LANES, negative), max[v]);
    for (; i < n; i += VF_LANES)
        max[0] = v_max(v_keep_first(softmax_load(x + i, n - i, negative), n - i, v_set1(-INFINITY)), max[0]);
    return v_hmax(v_max(v_max(max[0], max[1]), v_max(max[2], max[3])));
}

struct softmax_scale {
    vf max, factor;
};

/* y[i] = exp2((x[i] - max) * factor) for n elements, one vector's worth or fewer; added to sum. */
INLINE void softmax_vector(const float *x, int64_t n, const bool negative, struct softmax_scale scale, float *y, vf *sum) {
    vf p = v_exp2(v_mul(v_sub(softmax_load(x, n, negative), scale.max), scale.factor));
    if (n < VF_LANES)
        p = v_keep_first(p, n, v_zero());
    v_store_n(y, p, n);
    *sum = v_add(*sum, p);
}

/* The sum of all exp2((x[i] - max) * factor), which y receives: 16 lane sums per HEED_CHUNK elements, added to 16 totals, so that
 * the error of a sum grows with n / 256 and not with n / 16. */
INLINE float softmax_exp_sum(const float *x, const float *next, int64_t n, const bool negative, struct softmax_scale scale,
                             float *y) {
    enum { TURN = EXP_TIMES * HEED_SUM_LANES };
    vf total[SUM_VECTORS];
    sum16_zero(total);
    for (int64_t chunk = 0; chunk < n; chunk += HEED_CHUNK) {
        const int64_t end = n - chunk < HEED_CHUNK ? n : chunk + HEED_CHUNK;
        vf sum[SUM_VECTORS];
        sum16_zero(sum);
        int64_t i = chunk;
        NO_UNROLL for (; i + TURN <= end; i += TURN) {
            UNROLL for (int v = 0; v < TURN; v += HEED_LINE) __builtin_prefetch(next + i + v, 0, 3);
            UNROLL for (int v = 0; v < TURN / VF_LANES; v++)
                softmax_vector(x + i + v * VF_LANES, VF_LANES, negative, scale, y + i + v * VF_LANES, &sum[v % SUM_VECTORS]);
        }
        NO_UNROLL for (; i < end; i += HEED_SUM_LANES) UNROLL for (int v = 0; v < SUM_VECTORS; v++) if (i + v * VF_LANES < end)
            softmax_vector(x + i + v * VF_LANES, end - i - v * VF_LANES, negative, scale, y + i + v * VF_LANES, &sum[v]);
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) total[v] = v_add(total[v], sum[v]);
    }
    return sum16_fold(total);
}

/* The sum of what y receives.  A row of -inf, with a maximum of 0 in its place, becomes weights and a sum of 0. */
INLINE float softmax_exps(const float *x, const float *next, int64_t n, const bool negative, float factor, float *y) {
    const float max = softmax_max(x, n, negative);
    const struct softmax_scale scale = {v_set1(max == -INFINITY ? 0.0f : max), v_set1(factor)};
    return softmax_exp_sum(x, next, n, negative, scale, y);
}

INLINE void softmax_multiply(const float *p, int64_t n, vf factor, float *y) {
    EACH_VECTOR(i, n, v_store_n(y + i, v_mul(v_load_n(p + i, LEFT), factor), LEFT));
}

/* Past the caches, from where y is aligned on. */
INLINE void softmax_stream(const float *p, int64_t n, vf factor, float *y) {
    const int64_t before = (int64_t)(-(uintptr_t)y / sizeof *y % VF_LANES), head = n < before ? n : before;
    softmax_multiply(p, head, factor, y);
    int64_t i = head;
    NO_UNROLL for (; i + VF_LANES <= n; i += VF_LANES) v_stream(y + i, v_mul(v_load(p + i), factor));
    softmax_multiply(p + i, n - i, factor, y + i);
    v_stream_end();
}

static void softmax_row(const float *x, const float *next, int64_t n, float factor, float *y, bool stream) {
    float exps[HEED_STREAMED_ROW];
    float *p = stream ? exps : y;
    const float sum = factor < 0.0f ? softmax_exps(x, next, n, true, -factor, p) : softmax_exps(x, next, n, false, factor, p);
    if (fill_without_sum(y, n, sum))
        return;
    const vf reciprocal = v_set1(1.0f / sum);
    if (stream)
        softmax_stream(p, n, reciprocal, y);
    else
        softmax_multiply(p, n, reciprocal, y);
}

#endif
