/* Keys and values on their way into a cache: rotary embedding, scales of channels, and how large they are.  Contracts in
 * src/kernels.h. */
#ifndef HEED_KERNELS_ROPE_H
#define HEED_KERNELS_ROPE_H

static void rope(const float *a, const float *b, const float *cos, const float *sin, int64_t n, float *ya, float *yb) {
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const vf x = v_load_n(a + i, n - i), y = v_load_n(b + i, n - i);
        const vf c = v_load_n(cos + i, n - i), s = v_load_n(sin + i, n - i);
        const vf minus_ys = v_mul(v_mul(y, s), v_set1(-1.0f)); /* exact, -0 too */
        v_store_n(ya + i, v_one_nan(v_fma(x, c, minus_ys)), n - i);
        v_store_n(yb + i, v_one_nan(v_fma(y, c, v_mul(x, s))), n - i);
    }
}

static void divide_row(float *x, int64_t n, const float *y) {
    for (int64_t i = 0; i < n; i += VF_LANES)
        v_store_n(x + i, v_div(v_load_n(x + i, n - i), v_load_n(y + i, n - i)), n - i);
}

/* 0 * x is NaN where x is not finite, and no maximum need keep it. */
INLINE void take_size(vf y, vf *max, vf *nan) {
    *max = v_max(v_max(y, v_mul(y, v_set1(-1.0f))), *max);
    *nan = v_fma(y, v_zero(), *nan);
}

/* Four chains at a time, which else wait for their latency. */
static float max_size(const float *x, int64_t n) {
    enum { CHAINS = 4 };
    vf max[CHAINS], nan[CHAINS];
    UNROLL for (int v = 0; v < CHAINS; v++) max[v] = nan[v] = v_zero();
    for (; n >= CHAINS * VF_LANES; x += CHAINS * VF_LANES, n -= CHAINS * VF_LANES)
        UNROLL for (int v = 0; v < CHAINS; v++) take_size(v_load(x + v * VF_LANES), &max[v], &nan[v]);
    for (; n > 0; x += VF_LANES, n -= VF_LANES)
        take_size(v_load_n(x, n), &max[0], &nan[0]);
    UNROLL for (int v = 1; v < CHAINS; v++) max[0] = v_max(max[v], max[0]);
    return v_any_nan(nan, CHAINS) ? __builtin_nanf("") : v_hmax(max[0]);
}

#endif
