/* What is added to a row of scores, and passes over rows that need their scores again.  Contracts in src/kernels.h.
 *
 * A row of a chunk is 1 KiB, so each pass costs about a cycle for 16 scores, where their products cost 32 to 128. */
#ifndef HEED_KERNELS_SCORE_ROWS_H
#define HEED_KERNELS_SCORE_ROWS_H

static void softcap_row(float *x, int64_t n, float cap) {
    const vf reciprocal = v_set1(finite_factor(1.0f / cap)); /* else 0 would become NaN if cap is next to 0 */
    EACH_VECTOR(i, n, v_store_n(x + i, v_mul(v_set1(cap), v_tanh(v_mul(v_load_n(x + i, LEFT), reciprocal))), LEFT));
}

INLINE vf score_add(vf x, vf term) { return v_add(v_zero_at_minus_inf(x, term), term); }

static void add_row(float *x, int64_t n, const float *y) {
    EACH_VECTOR(i, n, v_store_n(x + i, score_add(v_load_n(x + i, LEFT), v_load_n(y + i, LEFT)), LEFT));
}

static void scale_row(float *x, int64_t n, const float *y) {
    EACH_VECTOR(i, n, v_store_n(x + i, v_mul(v_load_n(x + i, LEFT), v_load_n(y + i, LEFT)), LEFT));
}

static void alibi_row(float *x, int64_t n, float slope, float distance, int first) {
    static const float lane[HEED_SUM_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vf minus_slope = v_set1(-slope), from = v_set1(distance), step = v_set1(VF_LANES);
    vf at = v_add(v_set1((float)first), v_load(lane)); /* small whole numbers: exact */
    EACH_VECTOR(i, n, {
        const vf far = v_max(v_sub(from, at), v_sub(at, from));
        v_store_n(x + i, v_fma(minus_slope, far, v_load_n(x + i, LEFT)), LEFT);
        at = v_add(at, step);
    });
}

static void hide_row(float *x, int64_t n, const uint8_t *mask) {
    EACH_VECTOR(i, n, v_store_n(x + i, v_hide(v_load_n(x + i, LEFT), mask + i, LEFT), LEFT));
}

INLINE void seal_row_of(const bool scaled, float *s, int begin, int end, float factor, const float *scales, float *row_max) {
    const vf hidden = v_set1(-INFINITY);
    vf max[SUM_VECTORS];
    UNROLL for (int v = 0; v < SUM_VECTORS; v++) max[v] = hidden;
    NO_UNROLL for (int j = begin / HEED_SUM_LANES * HEED_SUM_LANES; j < end; j += HEED_SUM_LANES)
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) {
        const int at = j + v * VF_LANES;
        const vf x = scaled ? v_mul(v_load(s + at), v_load(scales + at)) : v_load(s + at);
        vf z = v_mul(x, v_set1(factor));
        if (at < begin || at + VF_LANES > end) /* masks cost more than all the rest */
            z = v_keep_first(hidden, begin - at, v_keep_first(z, end - at, hidden));
        v_store(s + at, z);
        max[v] = v_max(z, max[v]);
    }
    UNROLL for (int v = 1; v < SUM_VECTORS; v++) max[0] = v_max(max[v], max[0]);
    v_store(row_max, max[0]); /* as score_panel: one vector */
}

static void seal_row(float *s, int begin, int end, float factor, const float *scales, float *row_max) {
    if (scales)
        seal_row_of(true, s, begin, end, factor, scales, row_max);
    else
        seal_row_of(false, s, begin, end, factor, NULL, row_max);
}

static void merge_row(float *o, const float *x, int64_t n, float keep_old, float take_new) {
    EACH_VECTOR(i, n, v_store(o + i, v_fma(v_load(o + i), v_set1(keep_old), v_mul(v_load_n(x + i, LEFT), v_set1(take_new)))));
}

static void mass_row(float *y, const float *z, int64_t n, float max, float sum) {
    const vf base = v_set1(max), reciprocal = v_set1(1.0f / sum);
    if (sum == 0.0f)
        return;
    EACH_VECTOR(i, n, {
        const vf weight = v_mul(exp2_of(v_sub(v_load_n(z + i, LEFT), base)), reciprocal);
        v_store_n(y + i, v_add(v_load_n(y + i, LEFT), weight), LEFT);
    });
}

#endif
