/* Layer and RMS normalisation of one row.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_NORM_ROW_H
#define HEED_KERNELS_NORM_ROW_H

/* Some vectors of a row at a time, so that the additions of one need not wait for those of the last. */
enum { NORM_TURN = HEED_CHUNK };

INLINE vf norm_load(const struct heed_norm_row *row, int64_t i) {
    const vf x = v_load_n(row->input + i, row->n - i);
    return row->residual ? v_add(x, v_load_n(row->residual + i, row->n - i)) : x;
}

/* Of (x - mean)^2, or of x; lanes after the last element count 0. */
INLINE vf norm_add(const bool squares, vf sum, vf x, vf mean, int64_t n) {
    const vf d = v_keep_first(v_sub(x, mean), n, v_zero());
    return squares ? v_fma(d, d, sum) : v_add(sum, d);
}

INLINE float norm_sum(const bool squares, const struct heed_norm_row *row, float mean) {
    const vf center = v_set1(mean);
    vf total[SUM_VECTORS];
    sum16_zero(total);
    for (int64_t turn = 0; turn < row->n; turn += NORM_TURN) {
        const int64_t end = min_i64(row->n, turn + NORM_TURN);
        vf sum[SUM_VECTORS];
        sum16_zero(sum);
        for (int64_t i = turn; i < end; i += HEED_SUM_LANES)
            UNROLL for (int v = 0; v < SUM_VECTORS; v++) {
                const int64_t at = i + v * VF_LANES;
                sum[v] = norm_add(squares, sum[v], norm_load(row, at), center, end - at);
            }
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) total[v] = v_add(total[v], sum[v]);
    }
    return sum16_fold(total);
}

static void norm_row(const struct heed_norm_row *given) {
    struct heed_norm_row row = *given;
    const float n = (float)row.n;
    if (row.sum) {
        for (int64_t i = 0; i < row.n; i += VF_LANES)
            v_store_n(row.sum + i, v_one_nan(norm_load(&row, i)), row.n - i);
        row.input = row.sum;
        row.residual = NULL;
    }
    const float mean = row.centers ? norm_sum(false, &row, 0.0f) / n : 0.0f;
    const float r = 1.0f / sqrtf(norm_sum(true, &row, mean) / n + row.epsilon);
    for (int64_t i = 0; i < row.n; i += VF_LANES) {
        const vf gain = row.gain ? v_load_n(row.gain + i, row.n - i) : v_set1(1.0f);
        const vf bias = row.bias ? v_load_n(row.bias + i, row.n - i) : v_zero();
        const vf d = v_mul(v_sub(norm_load(&row, i), v_set1(mean)), v_set1(r));
        v_store_n(row.y + i, v_one_nan(v_fma(d, gain, bias)), row.n - i);
    }
}

#endif
