/* thin_product_lanes: rows of a in the lanes of vectors, times a transposed matrix.  Contract in src/contracts/thin.h.
 *
 * An element of b is multiplied by all rows at once, from where it is: nothing of b is transposed or packed, which for few rows
 * takes as long as their products.  16 bits would become floats first, in L1: by AVX2 8 and 16 rows times bf16 take 1.02 to 1.4
 * times as long so as by copies that are transposed, by AVX-512 16 and 32 rows 0.97 to 1.12, times f16 0.88 to 0.96 (Zen 4). */
#ifndef HEED_KERNELS_THIN_LANES_H
#define HEED_KERNELS_THIN_LANES_H

enum {
    LANES_SUMS = FEW_REGISTERS ? 12 : 24,
    LANES_VECTORS = FEW_REGISTERS ? 3 : 4,
    /* Rows of b at a time, at most: those that are a multiple of 4 KB apart share one set of L1, which has 8 places.  16 rows times
     * 4096 x 4096 take 1.4 and 2.2 times as long by 12 and 16 (AVX-512, Zen 4). */
    LANES_COLUMNS = 8,
    LANES_STEPS = 8 /* of k in a turn of the loop */
};

INLINE int lanes_columns(const int vectors) { return LANES_COLUMNS * vectors <= LANES_SUMS ? LANES_COLUMNS : LANES_COLUMNS / 2; }

/* acc[c] = fma(a[p], b[c][p], acc[c]) for all lanes of a[p], which is at `a`. */
INLINE void lanes_step(const int vectors, const int columns, vf acc[][LANES_VECTORS], const float *const b[LANES_COLUMNS],
                       const int64_t p, const float *a) {
    vf lanes[LANES_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) lanes[v] = v_pin(v_load(a + v * VF_LANES));
    UNROLL for (int c = 0; c < columns; c++) {
        const vf element = vectors > 1 ? v_load1(b[c] + p) : v_zero();
        UNROLL for (int v = 0; v < vectors; v++) acc[c][v] =
            vectors > 1 ? v_chain(acc[c][v], element, lanes[v]) : v_chain_at(acc[c][v], b[c] + p, lanes[v]);
    }
}

/* So many steps; beside every LANES_STEPS of them as many lines are fetched as these read. */
INLINE const float *lanes_steps(const int vectors, const int columns, const int lines, vf acc[][LANES_VECTORS],
                                const float *b[LANES_COLUMNS], const float *a, int64_t lda, int64_t steps,
                                struct thin_pieces *ahead) {
    NO_UNROLL for (; steps >= LANES_STEPS; steps -= LANES_STEPS) {
        UNROLL for (int p = 0; p < LANES_STEPS; p++, a += lda) lanes_step(vectors, columns, acc, b, p, a);
        UNROLL for (int c = 0; c < columns; c++) {
            b[c] += LANES_STEPS;
            PIN(b[c]);
        }
        thin_fetch_part(ahead, lines);
    }
    NO_UNROLL for (int64_t p = 0; p < steps; p++, a += lda) lanes_step(vectors, columns, acc, b, p, a);
    return a;
}

/* Columns from j on, behind the last of which the last is multiplied again: sums[c][lanes]. */
INLINE void lanes_of(const int vectors, const struct heed_thin_product *product, int j, float *sums) {
    const int columns = lanes_columns(vectors), lines = columns * LANES_STEPS / HEED_LINE;
    const int64_t k = product->k, piece = thin_piece(HEED_F32, product, product->rows, 1, LANES_STEPS);
    const float *a = product->a, *b[LANES_COLUMNS];
    vf acc[LANES_COLUMNS][LANES_VECTORS];
    UNROLL for (int c = 0; c < columns; c++) {
        b[c] = (const float *)product->b + smaller(j + c, product->columns - 1) * product->ldb;
        UNROLL for (int v = 0; v < vectors; v++) acc[c][v] = v_zero();
    }
    for (int64_t p = 0; p < k; p += piece) {
        struct thin_pieces ahead = thin_pieces_beside(HEED_F32, product, product->rows, columns, lines, j, p, piece);
        a = lanes_steps(vectors, columns, lines, acc, b, a, product->lda, min_i64(piece, k - p), &ahead);
    }
    UNROLL for (int c = 0; c < columns; c++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(sums + (c * vectors + v) * VF_LANES, acc[c][v]);
}

/* All columns, and their sums, lanes side by side, into rows of c. */
INLINE void lanes_product(const int vectors, const struct heed_thin_product *product) {
    float sums[HEED_PANEL * LANES_VECTORS * VF_LANES] __attribute__((aligned(64)));
    const int width = vectors * VF_LANES, columns = lanes_columns(vectors);
    NO_UNROLL for (int j = 0; j < product->columns; j += columns) lanes_of(vectors, product, j, sums + j * width);
    for (int j = 0; j < product->columns; j += VF_LANES)
        for (int i = 0; i < product->rows; i += VF_LANES)
            transpose(HEED_F32, sums + j * width + i, width, 0, smaller(VF_LANES, product->columns - j), VF_LANES,
                      product->c + i * product->ldc + j, product->ldc);
}

#define LANES_PRODUCT(vectors)                                                                                                     \
    NOINLINE void lanes_##vectors(const struct heed_thin_product *product) {                                                       \
        if (vectors <= LANES_VECTORS)                                                                                              \
            lanes_product(smaller(vectors, LANES_VECTORS), product);                                                               \
    }
LANES_PRODUCT(1)
LANES_PRODUCT(2)
LANES_PRODUCT(3)
LANES_PRODUCT(4)

static void thin_product_lanes(const struct heed_thin_product *product) {
    static void (*const by_vectors[])(const struct heed_thin_product *) = {lanes_1, lanes_2, lanes_3, lanes_4};
    by_vectors[(product->rows - 1) / VF_LANES](product);
}

#endif
