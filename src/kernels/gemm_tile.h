/* gemm_tile: tiles of c = alpha * a b + beta * c, one under the other.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_GEMM_TILE_H
#define HEED_KERNELS_GEMM_TILE_H

/* What is fetched while a tile computes: the rows of a and of b that come next, into L2, and into L1 the rest of its own a, the
 * sums that the next tile starts from and what its own then meet.  The processor's prefetchers lose their way at the ends of rows
 * and pages; without these, products beyond L2 take 2 to 5 % longer.  In bursts, for the inner loop has no registers left. */
struct gemm_fetch {
    const float *next_a; /* of the next tile */
    const char *b, *c, *sums;
    int64_t ldc, ldsums; /* in bytes */
    int64_t b_rows;      /* still to be fetched */
    int rows;            /* the same, of c and sums */
};

/* Where a tile is; the first one is where heed_gemm_tile says. */
struct gemm_at {
    int64_t left; /* tiles, with this one */
    const float *a, *acc;
    int64_t ldacc;
    float *c;
};

/* Tiles as wide as a panel take 21 bytes of b a cycle, which the processor does not fetch from L2 by itself in time; blocks of k
 * are short for them, so that the first tile alone takes it from there, and sums are many.  Narrow tiles, which take half of that,
 * gain nothing from either; rows of b in place are used up before those behind them come. */
enum { GEMM_IS_WIDE = TILE_COLUMNS >= HEED_PANEL, GEMM_AHEAD = 12 * HEED_PANEL };

INLINE struct gemm_fetch gemm_fetch_of(const int rows, const struct heed_gemm_tile *tile, const struct gemm_at *at,
                                       struct gemm_fetch before) {
    const int64_t ldc = tile->ldc * (int64_t)sizeof(float);
    return (struct gemm_fetch){.next_a = at->left > 1 ? at->a + rows * tile->lda : tile->next_a,
                               .b = before.b,
                               .b_rows = before.b_rows,
                               .c = tile->next_c ? tile->next_c : (const char *)at->c,
                               .ldc = tile->next_c ? tile->ldnext_c : ldc,
                               .sums = (const char *)(at->acc + rows * at->ldacc),
                               .ldsums = at->ldacc * (int64_t)sizeof(float),
                               .rows = rows};
}

INLINE void gemm_fetch_b(const struct heed_gemm_tile *tile, struct gemm_fetch *fetch) {
    for (int i = 0; i < tile->next_burst && fetch->b_rows > 0; i++) {
        NO_UNROLL for (int line = 0; line < tile->next_lines; line++)
            __builtin_prefetch(fetch->b + line * HEED_LINE * (int)sizeof(float), 0, 2);
        fetch->b += tile->next_step;
        fetch->b_rows--;
    }
}

/* a: of this tile, HEED_LINE steps on, or of the next. */
INLINE void gemm_fetch(const int rows, const int vectors, const struct heed_gemm_tile *tile, const float *a,
                       struct gemm_fetch *fetch) {
    UNROLL for (int i = 0; i < rows; i++) __builtin_prefetch(fetch->next_a + i * tile->lda, 0, 2);
    UNROLL for (int i = 0; i < rows; i++) __builtin_prefetch(a + i * tile->lda, 0, 3);
    UNROLL for (int j = 0; j < vectors * VF_LANES; j += HEED_LINE) __builtin_prefetch(fetch->c + j * (int)sizeof(float), 1, 3);
    if (GEMM_IS_WIDE && fetch->ldsums > 0) {
        UNROLL for (int j = 0; j < vectors * VF_LANES; j += HEED_LINE)
            __builtin_prefetch(fetch->sums + j * (int)sizeof(float), 1, 3);
    }
    gemm_fetch_b(tile, fetch);
    fetch->next_a += HEED_LINE;
    const bool more = --fetch->rows > 0;
    fetch->c += more ? fetch->ldc : 0;
    fetch->sums += more ? fetch->ldsums : 0;
}

/* tile_multiply, with these every HEED_LINE steps. */
INLINE void gemm_multiply(const int rows, const int vectors, const bool fetches_b, vf acc[TILE_ROWS][TILE_VECTORS],
                          const struct heed_gemm_tile *tile, const struct gemm_at *at, struct gemm_fetch *fetch) {
    const float *a = at->a, *b = tile->b, *after = tile->k > HEED_LINE ? fetch->next_a : a + HEED_LINE;
    NO_UNROLL for (int64_t k = tile->k; k > 0; k -= HEED_LINE) {
        int64_t steps = min_i64(k, HEED_LINE);
        PIN(steps); /* gcc 12 else unrolls the strip, and has no registers left for its addresses */
        int64_t left = k;
        PIN(left); /* gcc 12 else makes a loop of its own for the last strip */
        gemm_fetch(rows, vectors, tile, left > HEED_LINE ? a + HEED_LINE : after, fetch);
        tile_multiply_ahead(1, rows, vectors, fetches_b ? GEMM_AHEAD : 0, acc, a, tile->lda, b, tile->ldb, steps);
        a += HEED_LINE;
        b += HEED_LINE * tile->ldb;
    }
}

/* Rows of acc are addressed from one pointer that moves: gcc 12 else computes the addresses of all vectors beforehand. */
INLINE void gemm_load_sums(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const float *from, int64_t ld,
                           int64_t tail) {
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            acc[i][v] = v == vectors - 1 ? v_load_n(from + v * VF_LANES, tail) : v_load(from + v * VF_LANES);
        }
        from += ld;
        PIN(from);
    }
}

INLINE void gemm_store_partial(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], float *to, int64_t ld,
                               int64_t tail) {
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < vectors; v++) v_store_n(to + v * VF_LANES, acc[i][v], v == vectors - 1 ? tail : VF_LANES);
        to += ld;
        PIN(to);
    }
}

/* c = alpha * sums + beta * c. */
INLINE void gemm_store_sums(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct heed_gemm_tile *tile,
                            float *to, int64_t tail) {
    const vf alpha = v_set1(tile->alpha), beta = v_set1(tile->beta);
    const bool read_c = tile->beta != 0.0f;
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

INLINE void gemm_one_tile(const int rows, const int vectors, const bool fetches_b, const struct heed_gemm_tile *tile,
                          const struct gemm_at *at, struct gemm_fetch *fetch) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const int64_t tail = tile->columns - (vectors - 1) * VF_LANES; /* columns of the last vector */
    *fetch = gemm_fetch_of(rows, tile, at, *fetch);
    gemm_load_sums(rows, vectors, acc, at->acc, at->ldacc, tail);
    gemm_multiply(rows, vectors, fetches_b, acc, tile, at, fetch);
    if (tile->partial)
        gemm_store_partial(rows, vectors, acc, at->c, tile->ldc, tail);
    else
        gemm_store_sums(rows, vectors, acc, tile, at->c, tail);
}

INLINE void gemm_tile_body(const int rows, const int vectors, const struct heed_gemm_tile *tile) {
    static const float zeros[TILE_COLUMNS];
    struct gemm_at at = {tile->tiles, tile->a, tile->acc ? tile->acc : zeros, tile->acc ? tile->ldacc : 0, tile->c};
    struct gemm_fetch fetch = {.b = tile->next_b, .b_rows = tile->next_rows};
    const bool whole = rows == TILE_ROWS && vectors == TILE_VECTORS;
    bool fetches_b = GEMM_IS_WIDE && whole && tile->fetches_b;
    NO_UNROLL for (; at.left > 0; at.left--) {
        if (GEMM_IS_WIDE && whole && fetches_b)
            gemm_one_tile(rows, vectors, true, tile, &at, &fetch);
        else
            gemm_one_tile(rows, vectors, false, tile, &at, &fetch);
        at.a += rows * tile->lda;
        at.acc += rows * at.ldacc;
        at.c += rows * tile->ldc;
        fetches_b = false;
    }
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
