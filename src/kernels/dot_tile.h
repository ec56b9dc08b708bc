/* dot_tile: one tile of c = alpha * a b + beta * c in HEED_COMPUTE_BF16_AMX, for processors without AMX.  Contract in
 * src/kernels.h.
 *
 * Of pairs, whose odd element comes first: every other float of a row of a is even, every other row of b. */
#ifndef HEED_KERNELS_DOT_TILE_H
#define HEED_KERNELS_DOT_TILE_H

/* Rows of op(a), as pairs. */
INLINE void dot_load_a_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    for (int64_t row = 0; row < rows; row++, y += ldy) {
        const void *from = type_at(type, x, row * ldx);
        for (int64_t p = 0; p < round_up(k, HEED_DOT); p += PAIR_LANES) {
            vf pair[PAIR_VECTORS];
            UNROLL for (int v = 0; v < PAIR_VECTORS; v++) {
                const int64_t at = min_i64(k, p + v * VF_LANES);
                pair[v] = pair_load_n(type, type_at(type, from, at), k - at);
            }
            pair_store(y + p, pair);
        }
    }
}

static void dot_load_a(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    WITH_TYPE(type, dot_load_a_of(TYPE, x, ldx, rows, k, y, ldy));
}

static void dot_load_b(const void *x, enum heed_type type, int64_t ldx, int64_t k, int64_t columns, float *y) {
    const int64_t written = round_up(k, 2);
    pair_rows(x, type, ldx, k, columns, false, y, HEED_PANEL);
    memset(y + written * HEED_PANEL, 0, (size_t)(HEED_PANEL * (round_up(k, HEED_DOT) - written)) * sizeof *y);
}

/* sums += even + odd, both of HEED_DOT elements.  The sums of a tile do not fit into the registers beside the two chains. */
INLINE void dot_step(const int rows, const int vectors, const struct heed_gemm_tile *tile, const float *a, const float *b,
                     float sums[TILE_ROWS][TILE_COLUMNS]) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    float even[TILE_ROWS][TILE_COLUMNS] __attribute__((aligned(64)));
    tile_zero(rows, vectors, acc);
    tile_multiply_ahead(2, rows, vectors, false, 0, acc, a + 1, tile->lda, b + tile->ldb, 2 * tile->ldb, HEED_DOT / 2);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) v_store(even[i] + v * VF_LANES, acc[i][v]);
    tile_zero(rows, vectors, acc);
    tile_multiply_ahead(2, rows, vectors, false, 0, acc, a, tile->lda, b, 2 * tile->ldb, HEED_DOT / 2);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) {
        float *sum = sums[i] + v * VF_LANES;
        v_store(sum, v_add(v_load(sum), v_add(v_load(even[i] + v * VF_LANES), acc[i][v])));
    }
}

INLINE void dot_tile_body(const int rows, const int vectors, const struct heed_gemm_tile *tile) {
    float sums[TILE_ROWS][TILE_COLUMNS] __attribute__((aligned(64)));
    vf acc[TILE_ROWS][TILE_VECTORS];
    const int64_t tail = tile->columns - (vectors - 1) * VF_LANES; /* columns of the last vector */
    gemm_load_sums(rows, vectors, acc, tile, tail);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) v_store(sums[i] + v * VF_LANES, acc[i][v]);
    NO_UNROLL for (int64_t p = 0; p < tile->k; p += HEED_DOT)
        dot_step(rows, vectors, tile, tile->a + p, tile->b + p * tile->ldb, sums);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_load(sums[i] + v * VF_LANES);
    gemm_store_sums(rows, vectors, acc, tile, tail);
}

TILE_SHAPES(dot_tile, (const struct heed_gemm_tile *tile), tile)

static void dot_tile(const struct heed_gemm_tile *tile) {
    static void (*const shapes[6][4])(const struct heed_gemm_tile *) = TILE_TABLE(dot_tile);
    shapes[tile->rows - 1][(tile->columns - 1) / VF_LANES](tile);
}

#endif
