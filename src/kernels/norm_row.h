/* Layer and RMS normalisation of one row.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_NORM_ROW_H
#define HEED_KERNELS_NORM_ROW_H

/* A vector of x: all of it, or if `cut` as many elements as there are from i to n. */
INLINE vf norm_load(const bool cut, const struct heed_norm_row *row, int64_t i) {
    const vf x = cut ? v_load_n(row->input + i, row->n - i) : v_load(row->input + i);
    if (!row->residual)
        return x;
    return v_add(x, cut ? v_load_n(row->residual + i, row->n - i) : v_load(row->residual + i));
}

/* The sums of x - mean, or of its squares, over HEED_SUM_LANES elements from i on, or up to n if `cut`. */
INLINE void norm_add(const bool cut, const bool squares, const struct heed_norm_row *row, vf mean, int64_t i, vf sum[SUM_VECTORS]) {
    UNROLL for (int v = 0; v < SUM_VECTORS; v++) {
        const int64_t at = i + v * VF_LANES;
        const vf x = v_sub(norm_load(cut, row, at), mean), d = cut ? v_keep_first(x, row->n - at, v_zero()) : x;
        sum[v] = squares ? v_fma(d, d, sum[v]) : v_add(sum[v], d);
    }
}

INLINE float norm_sum(const bool squares, const struct heed_norm_row *row, float mean) {
    const vf center = v_set1(mean);
    vf total[SUM_VECTORS];
    sum16_zero(total);
    for (int64_t i = 0, end; i < row->n; i = end) {
        vf sum[SUM_VECTORS];
        sum16_zero(sum);
        end = min_i64(row->n, i + HEED_CHUNK);
        NO_UNROLL for (; i + HEED_SUM_LANES <= end; i += HEED_SUM_LANES) norm_add(false, squares, row, center, i, sum);
        if (i < end)
            norm_add(true, squares, row, center, i, sum);
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) total[v] = v_add(total[v], sum[v]);
    }
    return sum16_fold(total);
}

INLINE void norm_store_sum(const bool cut, const struct heed_norm_row *row, int64_t i) {
    v_store_n(row->sum + i, v_one_nan(norm_load(cut, row, i)), cut ? row->n - i : VF_LANES);
}

INLINE void norm_store(const bool cut, const struct heed_norm_row *row, vf mean, vf r, int64_t i) {
    const int64_t n = cut ? row->n - i : VF_LANES;
    const vf gain = row->gain ? v_load_n(row->gain + i, n) : v_set1(1.0f);
    const vf bias = row->bias ? v_load_n(row->bias + i, n) : v_zero();
    const vf d = v_mul(v_sub(norm_load(cut, row, i), mean), r);
    v_store_n(row->y + i, v_one_nan(v_fma(d, gain, bias)), n);
}

static void norm_row(const struct heed_norm_row *given) {
    struct heed_norm_row row = *given;
    const float n = (float)row.n;
    const int64_t whole = row.n / VF_LANES * VF_LANES;
    if (row.sum) {
        for (int64_t i = 0; i < whole; i += VF_LANES)
            norm_store_sum(false, &row, i);
        norm_store_sum(true, &row, whole);
        row.input = row.sum;
        row.residual = NULL;
    }
    const float mean = row.centers ? norm_sum(false, &row, 0.0f) / n : 0.0f;
    const vf r = v_set1(1.0f / sqrtf(norm_sum(true, &row, mean) / n + row.epsilon));
    for (int64_t i = 0; i < whole; i += VF_LANES)
        norm_store(false, &row, v_set1(mean), r, i);
    norm_store(true, &row, v_set1(mean), r, whole);
}

#endif
