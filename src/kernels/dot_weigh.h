/* The softmax of a chunk's scores where products are dots, or pairs of one instruction: weights become rows of a where the scores
 * were.  Contract in src/contracts/dots.h.
 *
 * dot_store(s, j, x): x[HEED_DOT / VF_LANES] become elements j ... j + HEED_DOT - 1 of a row of a, in the memory of s up to
 * s[j + HEED_DOT - 1]. */
#ifndef HEED_KERNELS_DOT_WEIGH_H
#define HEED_KERNELS_DOT_WEIGH_H

enum { DOT_VECTORS = HEED_DOT / VF_LANES };

/* The largest of s[begin ... end - 1], times scales if there are any; around these -inf, out to multiples of HEED_DOT.  Masks cost
 * more than all the rest. */
INLINE float dot_hide(const bool scaled, float *s, int begin, int end, const float *scales) {
    const vf hidden = v_set1(-INFINITY);
    vf max[SUM_VECTORS];
    UNROLL for (int v = 0; v < SUM_VECTORS; v++) max[v] = hidden;
    NO_UNROLL for (int j = begin / HEED_DOT * HEED_DOT; j < end; j += HEED_DOT) UNROLL for (int v = 0; v < DOT_VECTORS; v++) {
        const int at = j + v * VF_LANES;
        const bool part = j < begin || j + HEED_DOT > end;
        vf z = scaled ? v_mul(v_load(s + at), v_load(scales + at)) : v_load(s + at);
        if (part)
            z = v_keep_first(hidden, begin - at, v_keep_first(z, end - at, hidden));
        if (scaled || part)
            v_store(s + at, z);
        max[v % SUM_VECTORS] = v_max(z, max[v % SUM_VECTORS]);
    }
    UNROLL for (int v = 1; v < SUM_VECTORS; v++) max[0] = v_max(max[v], max[0]);
    return v_hmax(max[0]);
}

/* Weights of the keys begin ... end - 1, and of those that share a dot with them, which are 0; their sum. */
INLINE float dot_weigh_row(const bool scaled, float *s, int begin, int end, float max, const float *scales) {
    const vf base = v_set1(exp_base(max));
    vf sum[SUM_VECTORS];
    sum16_zero(sum);
    NO_UNROLL for (int j = begin / HEED_DOT * HEED_DOT; j < end; j += HEED_DOT) {
        vf p[DOT_VECTORS];
        UNROLL for (int v = 0; v < DOT_VECTORS; v++) {
            p[v] = exp2_flush(v_sub(v_load(s + j + v * VF_LANES), base));
            sum[v % SUM_VECTORS] = v_add(sum[v % SUM_VECTORS], p[v]);
            if (scaled)
                p[v] = v_mul(p[v], v_load(scales + j + v * VF_LANES));
        }
        dot_store(s, j, p);
    }
    return sum16_fold(sum);
}

/* Elements from ... to - 1 of a row of a. */
INLINE void dot_clear(float *s, int from, int to) {
    if (from < to)
        memset((char *)s + from * DOT_BYTES, 0, (size_t)((to - from) * DOT_BYTES));
}

/* The maximum of row i, around whose keys scores are hidden. */
INLINE float dot_max(const struct heed_dot_weights *weights, int i) {
    const struct heed_exp_rows *block = &weights->rows;
    const int begin = block->begins[i], end = block->ends[i];
    float *s = block->s + i * HEED_CHUNK;
    if (begin >= end)
        return -INFINITY;
    if (block->row_max)
        return v_hmax(v_load(block->row_max + i * HEED_SUM_LANES));
    return weights->key_scales ? dot_hide(true, s, begin, end, weights->key_scales) : dot_hide(false, s, begin, end, NULL);
}

/* A row's maximum is found beside the exponentials of the row before, which would else wait for the latency of it. */
static void dot_weigh(const struct heed_dot_weights *weights) {
    const struct heed_exp_rows *block = &weights->rows;
    const int *begins = block->begins, *ends = block->ends;
    const int first = weights->first, last = (weights->last + HEED_DOT - 1) / HEED_DOT * HEED_DOT;
    const unsigned mode = v_flush_begin();
    float next = dot_max(weights, 0);
    for (int i = 0; i < block->rows; i++) {
        const bool any = begins[i] < ends[i];
        const float max = block->chunk_max[i] = next;
        float *s = block->s + i * HEED_CHUNK;
        if (i + 1 < block->rows)
            next = dot_max(weights, i + 1);
        exp_fetch(block, i);
        block->chunk_sum[i] = !any              ? 0.0f
                              : weights->scales ? dot_weigh_row(true, s, begins[i], ends[i], max, weights->scales)
                                                : dot_weigh_row(false, s, begins[i], ends[i], max, NULL);
        dot_clear(s, first, any ? begins[i] : last);
        dot_clear(s, any ? ends[i] : last, last);
    }
    v_flush_end(mode);
}

#endif
