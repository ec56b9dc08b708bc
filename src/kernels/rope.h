/* Rotary embedding (heed_rope, heed_kv_append), and division by scales of channels, of keys and values on their way into a cache.
 * Contracts in src/kernels.h. */
#ifndef HEED_KERNELS_ROPE_H
#define HEED_KERNELS_ROPE_H

static void rope(const float *a, const float *b, const float *cos, const float *sin, int64_t n, float *ya, float *yb) {
    EACH_VECTOR(i, n, {
        const vf x = v_load_n(a + i, LEFT), y = v_load_n(b + i, LEFT), c = v_load_n(cos + i, LEFT), s = v_load_n(sin + i, LEFT);
        const vf minus_ys = v_mul(v_mul(y, s), v_set1(-1.0f)); /* exact, -0 too */
        v_store_n(ya + i, v_one_nan(v_fma(x, c, minus_ys)), LEFT);
        v_store_n(yb + i, v_one_nan(v_fma(y, c, v_mul(x, s))), LEFT);
    });
}

static void divide_row(float *x, int64_t n, const float *y) {
    EACH_VECTOR(i, n, v_store_n(x + i, v_div(v_load_n(x + i, LEFT), v_load_n(y + i, LEFT)), LEFT));
}

#endif
