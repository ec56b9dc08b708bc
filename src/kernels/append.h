/* What happens to keys on their way into a cache: rotary embedding, and storing in panels.  Contracts in src/kernels.h. */
#ifndef HEED_KERNELS_APPEND_H
#define HEED_KERNELS_APPEND_H

static void rope(const float *a, const float *b, const float *cos, const float *sin, int64_t n, float *ya, float *yb) {
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const vf x = v_load_n(a + i, n - i), y = v_load_n(b + i, n - i);
        const vf c = v_load_n(cos + i, n - i), s = v_load_n(sin + i, n - i);
        const vf minus_ys = v_mul(v_mul(y, s), v_set1(-1.0f)); /* exact, -0 too */
        v_store_n(ya + i, v_one_nan(v_fma(x, c, minus_ys)), n - i);
        v_store_n(yb + i, v_one_nan(v_fma(y, c, v_mul(x, s))), n - i);
    }
}

/* VF_LANES keys, of which `depth` elements exist. */
INLINE void store_square(const float *keys, int64_t ldk, int64_t depth, float *panel, int64_t ldp) {
    vf r[VF_LANES];
    UNROLL for (int i = 0; i < VF_LANES; i++) r[i] = v_load_n(keys + i * ldk, depth);
    v_transpose(r);
    UNROLL for (int i = 0; i < VF_LANES; i++) if (i < depth) v_store(panel + i * ldp, r[i]);
}

static void store_keys(const float *keys, int64_t ldk, int64_t depth, int count, float *panel, int64_t ldp) {
    int j = 0;
    for (; j + VF_LANES <= count; j += VF_LANES) {
        int64_t d = 0;
        for (; d + VF_LANES <= depth; d += VF_LANES)
            store_square(keys + j * ldk + d, ldk, VF_LANES, panel + d * ldp + j, ldp);
        if (d < depth)
            store_square(keys + j * ldk + d, ldk, depth - d, panel + d * ldp + j, ldp);
    }
    for (; j < count; j++)
        for (int64_t d = 0; d < depth; d++)
            panel[d * ldp + j] = keys[j * ldk + d];
}

#endif
