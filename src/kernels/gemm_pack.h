/* gemm_tile where the first tile of a column packs b for those under it.  Contract in src/contracts/gemm.h. */
#ifndef HEED_KERNELS_GEMM_PACK_H
#define HEED_KERNELS_GEMM_PACK_H

/* The first row of tiles, with a panel; tile becomes the others.  Apart from those, for whose inner loops gcc 12 else has too
 * few registers. */
INLINE void gemm_pack_first(const int rows, const int vectors, const bool strip, struct heed_gemm_tile *tile) {
    if (vectors < TILE_VECTORS)
        return;
    struct gemm_at at = gemm_begin(tile);
    struct gemm_fetch fetch = {.b = tile->next_b, .b_rows = tile->next_rows};
    do {
        gemm_one_tile(rows, vectors, strip, B_IS_PACKED, tile, &at, &fetch);
        gemm_advance(rows, vectors, strip, tile, &at);
    } while (at.column > 0);
    tile->tiles--;
    tile->a += gemm_a_step(rows, strip, tile);
    tile->b = tile->panel;
    tile->ldb = HEED_PANEL;
    tile->acc = tile->acc ? tile->acc + rows * tile->ldacc : NULL;
    tile->c += rows * tile->ldc;
    tile->next_b = fetch.b;
    tile->next_rows = fetch.b_rows;
}

INLINE void gemm_pack_body(const int rows, const int vectors, struct heed_gemm_tile *tile) {
    gemm_pack_first(rows, vectors, false, tile);
}
INLINE void gemm_pack_strip_body(const int rows, const int vectors, struct heed_gemm_tile *tile) {
    if (!GEMM_IS_WIDE)
        gemm_pack_first(rows, vectors, true, tile);
}

TILE_SHAPES(gemm_pack, (struct heed_gemm_tile * tile), tile)
TILE_SHAPES(gemm_pack_strip, (struct heed_gemm_tile * tile), tile)

static void gemm_tile(const struct heed_gemm_tile *tile) {
    static void (*const packing[2][6][4])(struct heed_gemm_tile *) = {TILE_TABLE(gemm_pack), TILE_TABLE(gemm_pack_strip)};
    struct heed_gemm_tile others;
    if (tile->panel) {
        others = *tile;
        packing[tile->strips][tile->rows - 1][gemm_vectors_of(tile) - 1](&others);
        tile = &others;
    }
    gemm_tile_ready(tile);
}

#endif
