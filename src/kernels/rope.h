/* Keys and values on their way into a cache: rotary embedding, and scales of channels.  Contracts in src/kernels.h. */
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

#endif
