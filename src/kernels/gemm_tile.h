/* gemm_tile: one tile of c = alpha * a b + beta * c.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_GEMM_TILE_H
#define HEED_KERNELS_GEMM_TILE_H

/* What is fetched while a tile computes: the rows of a and lines of b that come next, into L2, and into L1 the rest of its own a
 * and what its sums then meet.  The processor's prefetchers lose their way at the ends of rows and pages; without these, products
 * beyond L2 take 2 to 5 % longer. In bursts, for the inner loop has no registers left. */
struct gemm_fetch {
    const float *a;
    const char *b, *c;
    int64_t ldc; /* in bytes */
    int rows;    /* of c, still to be fetched */
};

/* Tiles as wide as a panel take 21 bytes of b a cycle, which the processor does not fetch from L2 by itself in time: with these,
 * and the rest of their own a, packed 510 x 768 x 384 goes from 0.91 of the peak to 0.94 (AVX-512).  Narrow tiles, which take half
 * of that, gain nothing; rows of b in place are used up before those behind them come. */
enum { GEMM_FETCHES_B = TILE_COLUMNS >= HEED_PANEL, GEMM_AHEAD = 12 * HEED_PANEL };

INLINE void gemm_fetch(const int rows, const int vectors, const struct heed_gemm_tile *tile, const float *a,
                       struct gemm_fetch *fetch) {
    UNROLL for (int i = 0; i < rows; i++) __builtin_prefetch(fetch->a + i * tile->lda, 0, 2);
    UNROLL for (int i = 0; i < rows; i++) __builtin_prefetch(a + i * tile->lda, 0, 3);
    UNROLL for (int j = 0; j < vectors * VF_LANES; j += HEED_LINE) __builtin_prefetch(fetch->c + j * (int)sizeof(float), 1, 3);
    NO_UNROLL for (int i = 0; i < tile->next_lines; i++) {
        __builtin_prefetch(fetch->b, 0, 2);
        fetch->b += tile->next_step;
    }
    fetch->a += HEED_LINE;
    fetch->c += --fetch->rows > 0 ? fetch->ldc : 0;
}

/* tile_multiply, with these every HEED_LINE steps. */
INLINE void gemm_multiply(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct heed_gemm_tile *tile) {
    struct gemm_fetch fetch = {.a = tile->next_a ? tile->next_a : tile->a,
                               .b = tile->next_b,
                               .c = tile->next_c ? tile->next_c : (const char *)tile->c,
                               .ldc = tile->next_c ? tile->ldnext_c : tile->ldc * (int64_t)sizeof(float),
                               .rows = rows};
    const float *a = tile->a, *b = tile->b;
    const int64_t ahead = tile->ldb == HEED_PANEL ? GEMM_AHEAD : 0;
    NO_UNROLL for (int64_t k = tile->k; k > 0; k -= HEED_LINE) {
        int64_t steps = min_i64(k, HEED_LINE);
        PIN(steps); /* gcc 12 else unrolls the strip, and has no registers left for its addresses */
        gemm_fetch(rows, vectors, tile, a + HEED_LINE, &fetch);
        tile_multiply_ahead(1, rows, vectors, GEMM_FETCHES_B, ahead, acc, a, tile->lda, b, tile->ldb, steps);
        a += HEED_LINE;
        b += HEED_LINE * tile->ldb;
    }
}

/* Rows of acc are addressed from one pointer that moves: gcc 12 else computes the addresses of all vectors beforehand. */
INLINE void gemm_load_sums(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct heed_gemm_tile *tile,
                           int64_t tail) {
    static const float zeros[TILE_COLUMNS];
    const float *from = tile->acc ? tile->acc : zeros;
    const int64_t ld = tile->acc ? tile->ldacc : 0;
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            acc[i][v] = v == vectors - 1 ? v_load_n(from + v * VF_LANES, tail) : v_load(from + v * VF_LANES);
        }
        from += ld;
        PIN(from);
    }
}

/* c = alpha * sums + beta * c. */
INLINE void gemm_store_sums(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct heed_gemm_tile *tile,
                            int64_t tail) {
    const vf alpha = v_set1(tile->alpha), beta = v_set1(tile->beta);
    const bool read_c = tile->beta != 0.0f;
    float *to = tile->c;
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            const int64_t n = v == vectors - 1 ? tail : VF_LANES;
            vf y = v_mul(alpha, acc[i][v]);
            if (read_c)
                y = v_fma(beta, v_load_n(to + v * VF_LANES, n), y);
            v_store_n(to + v * VF_LANES, v_one_nan(y), n);
        }
        to += tile->ldc;
        PIN(to);
    }
}

INLINE void gemm_tile_body(const int rows, const int vectors, const struct heed_gemm_tile *tile) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const int64_t tail = tile->columns - (vectors - 1) * VF_LANES; /* columns of the last vector */
    gemm_load_sums(rows, vectors, acc, tile, tail);
    gemm_multiply(rows, vectors, acc, tile);
    gemm_store_sums(rows, vectors, acc, tile, tail);
}

INLINE vf finish_product(const struct heed_finish_products *products, vf sum, vf old) {
    const vf y = v_mul(v_set1(products->alpha), sum); /* sum: times its scale, if it has one */
    return v_one_nan(products->beta != 0.0f ? v_fma(v_set1(products->beta), old, y) : y);
}

/* n columns from j on; a vector, if `whole`. */
INLINE void finish_columns(const enum heed_type type, const bool whole, const struct heed_finish_products *products,
                           const float *sums, void *row, int64_t j, int64_t n) {
    void *c = type_at_output(type, row, j);
    vf old = v_zero(), sum = whole ? v_load(sums + j) : v_load_n(sums + j, n);
    if (products->beta != 0.0f)
        old = whole ? load_type(type, c) : load_type_n(type, c, n);
    if (products->scales)
        sum = v_mul(sum, whole ? v_load(products->scales + j) : v_load_n(products->scales + j, n));
    const vf y = finish_product(products, sum, old);
    if (whole)
        store_type(type, c, y);
    else
        store_type_n(type, c, y, n);
}

INLINE void finish_products_of(const enum heed_type type, const struct heed_finish_products *products) {
    for (int64_t i = 0; i < products->rows; i++) {
        const float *sums = products->sums + i * products->ldsums;
        void *row = type_at_output(type, products->c, i * products->ldc);
        int64_t j = 0;
        NO_UNROLL for (; j + VF_LANES <= products->columns; j += VF_LANES)
            finish_columns(type, true, products, sums, row, j, VF_LANES);
        if (j < products->columns)
            finish_columns(type, false, products, sums, row, j, products->columns - j);
    }
}

static void finish_products(const struct heed_finish_products *products) {
    WITH_TYPE(products->type, finish_products_of(TYPE, products));
}

TILE_SHAPES(gemm_tile, (const struct heed_gemm_tile *tile), tile)

static void gemm_tile(const struct heed_gemm_tile *tile) {
    static void (*const shapes[6][4])(const struct heed_gemm_tile *) = TILE_TABLE(gemm_tile);
    shapes[tile->rows - 1][(tile->columns - 1) / VF_LANES](tile);
}

#endif
