/* Packing into panels of 64 columns, [k][64], the layout that all tiles read.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_PACK_H
#define HEED_KERNELS_PACK_H

static void pack(const float *src, int64_t ld, int64_t k, int columns, float *panel) {
    for (int64_t p = 0; p < k; p++)
        UNROLL for (int j = 0; j < HEED_PANEL; j += VF_LANES)
            v_store(panel + p * HEED_PANEL + j, v_load_n(src + p * ld + j, columns - j));
}

/* VF_LANES columns of `depth` elements each, of which the first `columns` exist. */
INLINE void pack_square(const float *src, int64_t ld, const int depth, const int columns, float *panel) {
    vf r[VF_LANES];
    UNROLL for (int i = 0; i < VF_LANES; i++) r[i] = i < columns ? v_load_n(src + i * ld, depth) : v_zero();
    v_transpose(r);
    UNROLL for (int i = 0; i < VF_LANES; i++) if (i < depth) v_store(panel + i * HEED_PANEL, r[i]);
}

static void pack_transposed(const float *src, int64_t ld, int64_t k, int columns, float *panel) {
    for (int64_t p = 0; p < k; p += VF_LANES) {
        const int depth = k - p < VF_LANES ? (int)(k - p) : VF_LANES;
        for (int j = 0; j < HEED_PANEL; j += VF_LANES) {
            if (depth == VF_LANES && columns - j >= VF_LANES)
                pack_square(src + j * ld + p, ld, VF_LANES, VF_LANES, panel + p * HEED_PANEL + j);
            else
                pack_square(src + j * ld + p, ld, depth, columns - j, panel + p * HEED_PANEL + j);
        }
    }
}

/* Columns of VF_LANES keys are written whole; the others one by one, for their neighbours may be another worker's. */
static void store_keys(const float *src, int64_t ld, int64_t k, int columns, float *panel, int64_t width) {
    int j = 0;
    for (; j + VF_LANES <= columns; j += VF_LANES)
        for (int64_t p = 0; p < k; p += VF_LANES) {
            vf r[VF_LANES];
            UNROLL for (int i = 0; i < VF_LANES; i++) r[i] = v_load_n(src + (j + i) * ld + p, k - p);
            v_transpose(r);
            UNROLL for (int i = 0; i < VF_LANES; i++) if (i < k - p) v_store(panel + (p + i) * width + j, r[i]);
        }
    for (; j < columns; j++)
        for (int64_t p = 0; p < k; p++)
            panel[p * width + j] = src[j * ld + p];
}

#endif
