/* 16 partial sums, lane = position mod 16, whatever the width of a vector: the order in which softmax denominators are summed. */
#ifndef HEED_KERNELS_SUM16_H
#define HEED_KERNELS_SUM16_H

#define SUM_VECTORS (HEED_SUM_LANES / VF_LANES)

INLINE void sum16_zero(vf sum[SUM_VECTORS]) { UNROLL for (int v = 0; v < SUM_VECTORS; v++) sum[v] = v_zero(); }

/* Folded 8, 4, 2, 1: whole vectors first, then within one. */
INLINE float sum16_fold(vf sum[SUM_VECTORS]) {
    UNROLL for (int half = SUM_VECTORS / 2; half > 0; half /= 2) UNROLL for (int v = 0; v < half; v++) sum[v] =
        v_add(sum[v], sum[v + half]);
    return v_sum(sum[0]);
}

#endif
