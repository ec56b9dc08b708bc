/* score_tile: scores of a few queries with a panel of keys, and their lane-wise maxima while they are still in registers.  Contract
 * in src/kernels.h. */
#ifndef HEED_KERNELS_SCORE_TILE_H
#define HEED_KERNELS_SCORE_TILE_H

INLINE void score_tile_body(const int rows, const int vectors, const struct heed_score_tile *tile) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    tile_zero(rows, vectors, acc);
    tile_multiply(rows, vectors, acc, tile->query, tile->ldq, tile->keys, tile->ldk, tile->head_dim);

    const vf hidden = v_set1(-INFINITY);
    if (tile->ends) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
            v_keep_first(acc[i][v], tile->ends[i] - v * VF_LANES, hidden);
    }
    if (tile->begins) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
            v_keep_first(hidden, tile->begins[i] - v * VF_LANES, acc[i][v]);
    }
    UNROLL for (int i = 0; i < rows; i++) {
        float *row_max = tile->row_max + i * HEED_SUM_LANES;
        vf max = acc[i][0];
        UNROLL for (int v = 0; v < vectors; v++) v_store(tile->s + i * HEED_CHUNK + v * VF_LANES, acc[i][v]);
        UNROLL for (int v = 1; v < vectors; v++) max = v_max(max, acc[i][v]);
        v_store(row_max, tile->first ? max : v_max(max, v_load(row_max)));
    }
}

TILE_SHAPES(score_tile, score_tile)

static void score_tile(const struct heed_score_tile *tile) {
    static void (*const shapes[6][4])(const struct heed_score_tile *) = TILE_TABLE(score_tile);
    shapes[tile->rows - 1][tile->columns / VF_LANES - 1](tile);
}

#endif
