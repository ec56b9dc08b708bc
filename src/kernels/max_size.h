/* max_size: how large numbers are that become bytes.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_MAX_SIZE_H
#define HEED_KERNELS_MAX_SIZE_H

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
