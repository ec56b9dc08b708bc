/* score_tile: scores of a few queries with a panel of keys, and their lane-wise maxima while they are still in registers.  Contract
 * in src/kernels.h. */
#ifndef HEED_KERNELS_SCORE_TILE_H
#define HEED_KERNELS_SCORE_TILE_H

INLINE void score_tile_body(const int rows, const struct heed_score_tile *tile) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    tile_zero(rows, TILE_VECTORS, acc);
    tile_multiply(rows, TILE_VECTORS, acc, tile->query, tile->ldq, tile->keys, HEED_PANEL, tile->head_dim);

    if (tile->limits) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < TILE_VECTORS; v++) acc[i][v] =
            v_keep_first(acc[i][v], tile->limits[i] - v * VF_LANES, v_set1(-INFINITY));
    }
    UNROLL for (int i = 0; i < rows; i++) {
        float *row_max = tile->row_max + i * HEED_SUM_LANES;
        vf max = acc[i][0];
        UNROLL for (int v = 0; v < TILE_VECTORS; v++) v_store(tile->s + i * HEED_CHUNK + v * VF_LANES, acc[i][v]);
        UNROLL for (int v = 1; v < TILE_VECTORS; v++) max = v_max(max, acc[i][v]);
        v_store(row_max, tile->first ? max : v_max(max, v_load(row_max)));
    }
}

#define SCORE_TILE(rows)                                                                                                           \
    NOINLINE void score_tile_##rows(const struct heed_score_tile *tile) {                                                          \
        if (rows <= TILE_ROWS)                                                                                                     \
            score_tile_body(rows <= TILE_ROWS ? rows : 1, tile);                                                                   \
    }
SCORE_TILE(1)
SCORE_TILE(2)
SCORE_TILE(3)
SCORE_TILE(4)
SCORE_TILE(5)
SCORE_TILE(6)

static void score_tile(const struct heed_score_tile *tile) {
    static void (*const shapes[6])(const struct heed_score_tile *) = {score_tile_1, score_tile_2, score_tile_3,
                                                                      score_tile_4, score_tile_5, score_tile_6};
    shapes[tile->rows - 1](tile);
}

#endif
