/* The softmax of one chunk of keys.  Contract in src/contracts/attention.h. */
#ifndef HEED_KERNELS_EXP_ROWS_H
#define HEED_KERNELS_EXP_ROWS_H

/* exp2(s[j] - base) for one vector of scores; added to sum. */
INLINE vf exp_vector(const float *s, vf base, vf *sum) {
    const vf p = exp2_flush(v_sub(v_load(s), base));
    *sum = v_add(*sum, p);
    return p;
}

/* s[j] = exp2(s[j] - base), or pairs of these, times scales if there are any, for as many vectors as hold whole pairs, and for j <
 * n at least. */
INLINE void exp_vectors(const bool pairs, const float *scales, float *s, int n, vf base, vf *sum) {
    vf p[PAIR_VECTORS];
    UNROLL for (int v = 0; v < PAIR_VECTORS; v++) p[v] = v * VF_LANES < n ? exp_vector(s + v * VF_LANES, base, &sum[v]) : v_zero();
    if (pairs) {
        UNROLL for (int v = 0; v < PAIR_VECTORS; v++) p[v] =
            scales ? v_widen_bf16(v_round_bf16(v_mul(p[v], v_load(scales + v * VF_LANES)))) : pair_weight(p[v]);
        pair_store(s, p);
        return;
    }
    UNROLL for (int v = 0; v < PAIR_VECTORS; v++) if (v * VF_LANES < n) v_store(s + v * VF_LANES, p[v]);
}

/* For a few times 16 scores. */
INLINE void exp_lanes(const bool pairs, const int times, const float *scales, float *s, vf base, vf sum[SUM_VECTORS]) {
    UNROLL for (int at = 0; at < times * HEED_SUM_LANES; at += PAIR_LANES)
        exp_vectors(pairs, scales ? scales + at : NULL, s + at, PAIR_LANES, base, &sum[at % HEED_SUM_LANES / VF_LANES]);
}

/* s[j] = exp2(s[j] - max) for j < n; their sum.  s is read and written, and scales read, up to whole vectors, and pairs. */
INLINE float exp_row(const bool pairs, const float *scales, float *s, int n, float max) {
    const vf base = v_set1(max);
    vf sum[SUM_VECTORS];
    int at = 0;
    sum16_zero(sum);
    NO_UNROLL for (; n - at >= EXP_TIMES * HEED_SUM_LANES; at += EXP_TIMES * HEED_SUM_LANES)
        exp_lanes(pairs, EXP_TIMES, scales ? scales + at : NULL, s + at, base, sum);
    NO_UNROLL for (; n - at >= HEED_SUM_LANES; at += HEED_SUM_LANES)
        exp_lanes(pairs, 1, scales ? scales + at : NULL, s + at, base, sum);
    UNROLL for (int v = 0; v < SUM_VECTORS; v += PAIR_VECTORS, at += PAIR_LANES) if (at < n)
        exp_vectors(pairs, scales ? scales + at : NULL, s + at, n - at, base, &sum[v]);
    return sum16_fold(sum);
}

NOINLINE float exp_row_floats(float *s, int n, float max) { return exp_row(false, NULL, s, n, max); }
NOINLINE float exp_row_pairs(float *s, int n, float max) { return exp_row(true, NULL, s, n, max); }
NOINLINE float exp_row_scaled_pairs(const float *scales, float *s, int n, float max) { return exp_row(true, scales, s, n, max); }

static void exp2_array(const float *x, int64_t n, float *y) {
    EACH_VECTOR(i, n, v_store_n(y + i, exp2_of(v_load_n(x + i, LEFT)), LEFT));
}

/* Of rows before `end`, given the maxima. */
INLINE void exp_rows_before(const struct heed_exp_rows *block, int end) {
    const unsigned mode = v_flush_begin();
    for (int i = 0; i < end; i++) {
        exp_fetch(block, i);
        const float max = block->chunk_max[i];
        const int begin = block->begins[i] & -HEED_SUM_LANES; /* the lanes of the sum start where those of the chunk do */
        /* An empty range may end within 16 scores that nobody has written. */
        const int n = block->begins[i] < block->ends[i] ? block->ends[i] - begin : 0;
        const float base = exp_base(max);
        float *s = block->s + i * HEED_CHUNK + begin;
        block->chunk_sum[i] = block->scales  ? exp_row_scaled_pairs(block->scales + begin, s, n, base)
                              : block->pairs ? exp_row_pairs(s, n, base)
                                             : exp_row_floats(s, n, base);
    }
    v_flush_end(mode);
}

static void exp_rows(const struct heed_exp_rows *block) {
    exp_maxima(block);
    exp_rows_before(block, block->rows);
}

#endif
