/* gemm_tile: one tile of c = alpha * a b + beta * c.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_GEMM_TILE_H
#define HEED_KERNELS_GEMM_TILE_H

INLINE void gemm_tile_body(const int rows, const int vectors, const struct heed_gemm_tile *tile) {
    static const float zeros[TILE_COLUMNS];
    const float *sums = tile->acc ? tile->acc : zeros;
    const int64_t ldsums = tile->acc ? tile->ldacc : 0;
    vf acc[TILE_ROWS][TILE_VECTORS];
    const int64_t tail = tile->columns - (vectors - 1) * VF_LANES; /* columns of the last vector */
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) {
        const float *from = sums + i * ldsums + v * VF_LANES;
        acc[i][v] = v == vectors - 1 ? v_load_n(from, tail) : v_load(from);
    }
    tile_multiply(rows, vectors, acc, tile->a, tile->lda, tile->b, tile->ldb, tile->k);

    const vf alpha = v_set1(tile->alpha), beta = v_set1(tile->beta);
    const bool read_c = tile->beta != 0.0f;
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) {
        float *to = tile->c + i * tile->ldc + v * VF_LANES;
        const int64_t n = v == vectors - 1 ? tail : VF_LANES;
        vf y = v_mul(alpha, acc[i][v]);
        if (read_c)
            y = v_fma(beta, v_load_n(to, n), y);
        v_store_n(to, v_one_nan(y), n);
    }
}

TILE_SHAPES(gemm_tile, (const struct heed_gemm_tile *tile), tile)

static void gemm_tile(const struct heed_gemm_tile *tile) {
    static void (*const shapes[6][4])(const struct heed_gemm_tile *) = TILE_TABLE(gemm_tile);
    shapes[tile->rows - 1][(tile->columns - 1) / VF_LANES](tile);
}

#endif
