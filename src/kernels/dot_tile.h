/* Dots, for HEED_COMPUTE_BF16_AMX, on processors without AMX.  Contracts in src/contracts/dots.h.
 *
 * Factors stay floats and keep their order: of a row of a every other float is even, and of b every other row. */
#ifndef HEED_KERNELS_DOT_TILE_H
#define HEED_KERNELS_DOT_TILE_H

/* x as bf16 in floats: denormals become 0 when it is multiplied with 1, which compilers must not know. */
INLINE vf dot_round(vf x) {
    float one = 1;
    __asm__("" : "+m"(one));
    return v_widen_bf16(v_round_bf16(v_mul(x, v_set1(one))));
}

/* What dot_weigh.h asks for. */
enum { DOT_BYTES = sizeof(float) };
INLINE void dot_store(float *s, int j, const vf x[HEED_DOT / VF_LANES]) {
    UNROLL for (int v = 0; v < HEED_DOT / VF_LANES; v++) v_store(s + j + v * VF_LANES, dot_round(x[v]));
}

INLINE void dot_load_row(const enum heed_type type, const void *x, int64_t n, int64_t width, float *y) {
    NO_UNROLL for (int64_t i = 0; i < width; i += VF_LANES) {
        const int64_t at = min_i64(i, n);
        v_store_n(y + i, dot_round(load_type_n(type, type_at(type, x, at), n - at)), width - i);
    }
}

INLINE void dot_load_a_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    for (int64_t i = 0; i < rows; i++)
        dot_load_row(type, type_at(type, x, i * ldx), k, round_up(k, HEED_DOT), y + i * ldy);
}

static void dot_load_a(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    WITH_TYPE(type, dot_load_a_of(TYPE, x, ldx, rows, k, y, ldy));
}

INLINE void dot_load_b_of(const enum heed_type type, const void *x, int64_t ldx, int64_t k, int columns, float *y) {
    for (int64_t p = 0; p < k; p++)
        dot_load_row(type, type_at(type, x, p * ldx), columns, columns, y + p * HEED_PANEL);
    memset(y + k * HEED_PANEL, 0, (size_t)(HEED_PANEL * (round_up(k, HEED_DOT) - k)) * sizeof *y);
}

static void dot_load_b(const void *x, enum heed_type type, int64_t ldx, int64_t k, int columns, float *y) {
    WITH_STORED_TYPE(type, dot_load_b_of(TYPE, x, ldx, k, columns, y));
}

static void dot_load_b_transposed(const void *x, enum heed_type type, int64_t ldx, int64_t k, int columns, float *y) {
    pack_transposed(x, type, ldx, k, columns, y);
    dot_load_b(y, HEED_F32, HEED_PANEL, k, HEED_PANEL, y);
}

/* sums += even + odd, for HEED_DOT of p.  The sums of a tile do not fit into the registers beside the two chains. */
INLINE void dot_step(const int rows, const int vectors, const struct heed_dot_tile *tile, const float *a, const float *b,
                     float sums[TILE_ROWS][TILE_COLUMNS]) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    float even[TILE_ROWS][TILE_COLUMNS] __attribute__((aligned(64)));
    tile_zero(rows, vectors, acc);
    tile_multiply_apart(2, rows, vectors, acc, a, tile->lda, b, 2 * HEED_PANEL, HEED_DOT / 2);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) v_store(even[i] + v * VF_LANES, acc[i][v]);
    tile_zero(rows, vectors, acc);
    tile_multiply_apart(2, rows, vectors, acc, a + 1, tile->lda, b + HEED_PANEL, 2 * HEED_PANEL, HEED_DOT / 2);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) {
        float *sum = sums[i] + v * VF_LANES;
        v_store(sum, v_add(v_load(sum), v_add(v_load(even[i] + v * VF_LANES), acc[i][v])));
    }
}

INLINE void dot_tile_body(const int rows, const int vectors, const struct heed_dot_tile *tile) {
    float sums[TILE_ROWS][TILE_COLUMNS] __attribute__((aligned(64)));
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(sums[i] + v * VF_LANES, tile->continues ? v_load(tile->sums + i * tile->ldsums + v * VF_LANES) : v_zero());
    NO_UNROLL for (int64_t p = 0; p < tile->k; p += HEED_DOT)
        dot_step(rows, vectors, tile, tile->a + p, tile->b + p * HEED_PANEL, sums);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(tile->sums + i * tile->ldsums + v * VF_LANES, v_load(sums[i] + v * VF_LANES));
}

TILE_SHAPES(dot_tile, (const struct heed_dot_tile *tile), tile)

static void dot_tile(const struct heed_dot_tile *tiles) {
    static void (*const shapes[6][4])(const struct heed_dot_tile *) = TILE_TABLE(dot_tile);
    struct heed_dot_tile tile = *tiles;
    for (int j = 0; j < tiles->columns; j += TILE_COLUMNS) {
        tile.b = tiles->b + j;
        tile.sums = tiles->sums + j;
        shapes[tile.rows - 1][(smaller(TILE_COLUMNS, tiles->columns - j) - 1) / VF_LANES](&tile);
    }
    if (tiles->becomes)
        finish_products(tiles->becomes);
}

#endif
