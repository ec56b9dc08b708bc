/* Layer and RMS normalisation of one row.  Contract in src/contracts/rows.h.
 *
 * `floats`: all of the row is of floats, which is known to the compiler then. */
#ifndef HEED_KERNELS_NORM_ROW_H
#define HEED_KERNELS_NORM_ROW_H

/* A vector of x: all of it, or if `cut` as many elements as there are from i to n. */
INLINE vf norm_load(const bool floats, const bool cut, const struct heed_norm_row *row, int64_t i) {
    const int64_t n = cut ? row->n - i : VF_LANES;
    const vf x = load_source(floats, &row->input, i, n);
    return row->residual.data ? v_add(x, load_source(floats, &row->residual, i, n)) : x;
}

/* The sums of x - mean, or of its squares, over HEED_SUM_LANES elements from i on, or up to n if `cut`. */
INLINE void norm_add(const bool floats, const bool cut, const bool squares, const struct heed_norm_row *row, vf mean, int64_t i,
                     vf sum[SUM_VECTORS]) {
    UNROLL for (int v = 0; v < SUM_VECTORS; v++) {
        const int64_t at = i + v * VF_LANES;
        const vf x = v_sub(norm_load(floats, cut, row, at), mean), d = cut ? v_keep_first(x, row->n - at, v_zero()) : x;
        sum[v] = squares ? v_fma(d, d, sum[v]) : v_add(sum[v], d);
    }
}

INLINE float norm_sum(const bool floats, const bool squares, const struct heed_norm_row *row, float mean) {
    const vf center = v_set1(mean);
    vf total[SUM_VECTORS];
    sum16_zero(total);
    for (int64_t i = 0, end; i < row->n; i = end) {
        vf sum[SUM_VECTORS];
        sum16_zero(sum);
        end = min_i64(row->n, i + HEED_CHUNK);
        NO_UNROLL for (; i + HEED_SUM_LANES <= end; i += HEED_SUM_LANES) norm_add(floats, false, squares, row, center, i, sum);
        if (i < end)
            norm_add(floats, true, squares, row, center, i, sum);
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) total[v] = v_add(total[v], sum[v]);
    }
    return sum16_fold(total);
}

INLINE void norm_store(const bool floats, const bool cut, const struct heed_norm_row *row, vf mean, vf r, int64_t i) {
    const int64_t n = cut ? row->n - i : VF_LANES;
    const vf gain = row->gain ? v_load_n(row->gain + i, n) : v_set1(1.0f);
    const vf bias = row->bias ? v_load_n(row->bias + i, n) : v_zero();
    const vf x = norm_load(floats, cut, row, i), d = v_mul(v_sub(x, mean), r);
    if (row->sum.data)
        store_target(floats, &row->sum, i, v_one_nan(x), n);
    store_target(floats, &row->y, i, v_one_nan(v_fma(d, gain, bias)), n);
}

/* From a copy, which the outputs' elements cannot be: twice as fast. */
INLINE void norm_row_of(const bool floats, const struct heed_norm_row *given) {
    const struct heed_norm_row copy = *given, *row = &copy;
    const float n = (float)row->n;
    const int64_t whole = row->n / VF_LANES * VF_LANES;
    const float mean = row->centers ? norm_sum(floats, false, row, 0.0f) / n : 0.0f;
    const vf r = v_set1(1.0f / sqrtf(norm_sum(floats, true, row, mean) / n + row->epsilon));
    for (int64_t i = 0; i < whole; i += VF_LANES)
        norm_store(floats, false, row, v_set1(mean), r, i);
    if (whole < row->n)
        norm_store(floats, true, row, v_set1(mean), r, whole);
}

static void norm_row(const struct heed_norm_row *row) {
    if (row->input.type == HEED_F32 && row->residual.type == HEED_F32 && row->y.type == HEED_F32 && row->sum.type == HEED_F32)
        norm_row_of(true, row);
    else
        norm_row_of(false, row);
}

#endif
