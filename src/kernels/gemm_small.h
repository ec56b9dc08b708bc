/* gemm_small: all tiles of a small product in one call.  Contract in src/contracts/gemm.h.
 *
 * Between two tiles of gemm_tile 76 cycles pass, in a loop of its own fewer than 20; and tiles one or two vectors wide are taller
 * here, for six rows are six chains, fewer than latency times units. */
#ifndef HEED_KERNELS_GEMM_SMALL_H
#define HEED_KERNELS_GEMM_SMALL_H

enum {
    SMALL_SUMS = TILE_ROWS * TILE_VECTORS, /* accumulators, as many as a whole tile has */
    SMALL_ROWS = MOST_ROWS
};

/* One step: a advances.  cut: of the last vector of b the first n elements alone are there. */
INLINE void small_step(const int rows, const int vectors, const bool cut, vf acc[SMALL_ROWS][TILE_VECTORS], struct tile_rows *a,
                       int64_t a_step, const float *b, int64_t n) {
    vf column[TILE_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) column[v] =
        v_pin(cut && v == vectors - 1 ? v_load_n(b + v * VF_LANES, n) : v_load(b + v * VF_LANES));
    if (vectors == 1) {
        UNROLL for (int i = 0; i < rows; i++) acc[i][0] = v_chain_at(acc[i][0], tile_row(a, i), column[0]);
    } else {
        tile_column(rows, vectors, acc, a, 0, column);
    }
    tile_rows_advance(rows, a, a_step);
}

INLINE void small_multiply(const int rows, const int vectors, const bool cut, vf acc[SMALL_ROWS][TILE_VECTORS],
                           const struct heed_gemm_small *product, const float *a, const float *b, int64_t n) {
    struct tile_rows at;
    const int64_t a_step = product->a_step, ldb = product->ldb;
    int64_t k = product->k;
    tile_rows_begin(rows, &at, a, product->lda);
    tile_zero(rows, vectors, acc);
    if (!cut) {
        NO_UNROLL for (; k >= TILE_STEPS; k -= TILE_STEPS) UNROLL for (int u = 0; u < TILE_STEPS; u++) {
            small_step(rows, vectors, cut, acc, &at, a_step, b, n);
            b += ldb;
            PIN(b);
        }
    }
    NO_UNROLL for (; k > 0; k--) {
        small_step(rows, vectors, cut, acc, &at, a_step, b, n);
        b += ldb;
        PIN(k);
    }
}

/* y = alpha * y + beta * c. */
INLINE void small_scale(const int rows, const int vectors, const bool cut, vf *y, const struct heed_gemm_small *product,
                        const float *c, int64_t n) {
    if (product->alpha != 1.0f) {
        const vf alpha = v_set1(product->alpha);
        UNROLL for (int s = 0; s < rows * vectors; s++) y[s] = v_mul(alpha, y[s]);
    }
    if (product->beta != 0.0f) {
        const vf beta = v_set1(product->beta);
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int v = 0; v < vectors; v++) {
                const vf old = cut && v == vectors - 1 ? v_load_n(c + v * VF_LANES, n) : v_load(c + v * VF_LANES);
                y[i * vectors + v] = v_fma(beta, old, y[i * vectors + v]);
            }
            c += product->ldc;
            PIN(c);
        }
    }
}

/* NaNs are rare: looking for any takes half an operation for each vector, replacing all of them takes two. */
INLINE void small_store(const int rows, const int vectors, const bool cut, vf *y, const struct heed_gemm_small *product, float *c,
                        int64_t n) {
    const int64_t ldc = product->ldc;
    if (__builtin_expect(v_any_nan(y, rows * vectors), false)) {
        UNROLL for (int s = 0; s < rows * vectors; s++) y[s] = v_one_nan(y[s]);
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            if (cut && v == vectors - 1)
                v_store_few(c + v * VF_LANES, y[i * vectors + v], n);
            else
                v_store(c + v * VF_LANES, y[i * vectors + v]);
        }
        c += ldc;
        PIN(c);
    }
}

/* Tiles one under the other, the first of them at a, b and c. */
INLINE void small_tiles(const int rows, const int vectors, const bool cut, const struct heed_gemm_small *product, const float *a,
                        const float *b, float *c, int tiles) {
    const int64_t n = (product->columns - 1) % VF_LANES + 1;
    if (cut && n >= VF_LANES)
        __builtin_unreachable(); /* one loop, and not one for each way that a vector can be cut */
    NO_UNROLL for (; tiles > 0; tiles--) {
        vf acc[SMALL_ROWS][TILE_VECTORS], y[SMALL_SUMS];
        small_multiply(rows, vectors, cut, acc, product, a, b, n);
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) y[i * vectors + v] = acc[i][v];
        small_scale(rows, vectors, cut, y, product, c, n);
        small_store(rows, vectors, cut, y, product, c, n);
        a += rows * product->lda;
        c += rows * product->ldc;
    }
}

/* Shapes of more accumulators than there are, or vectors than a tile has, are empty. */
#define SMALL_SHAPE(rows, vectors) SMALL_SHAPE_OF(whole, false, rows, vectors) SMALL_SHAPE_OF(cut, true, rows, vectors)
#define SMALL_SHAPE_OF(name, cut, rows, vectors)                                                                                   \
    NOINLINE void small_##name##_##rows##x##vectors(const struct heed_gemm_small *product, const float *a, const float *b,         \
                                                    float *c, int tiles) {                                                         \
        if (rows * vectors <= SMALL_SUMS && vectors <= TILE_VECTORS)                                                               \
            small_tiles(rows *vectors <= SMALL_SUMS ? rows : 1, vectors <= TILE_VECTORS ? vectors : 1, cut, product, a, b, c,      \
                        tiles);                                                                                                    \
    }
#define SMALL_SIX(shape, vectors)                                                                                                  \
    shape(1, vectors) shape(2, vectors) shape(3, vectors) shape(4, vectors) shape(5, vectors) shape(6, vectors)
#define SMALL_EIGHT(shape, vectors) SMALL_SIX(shape, vectors) shape(7, vectors) shape(8, vectors)
#define SMALL_TWELVE(shape, vectors)                                                                                               \
    SMALL_EIGHT(shape, vectors) shape(9, vectors) shape(10, vectors) shape(11, vectors) shape(12, vectors)
#define SMALL_SIXTEEN(shape, vectors)                                                                                              \
    SMALL_TWELVE(shape, vectors) shape(13, vectors) shape(14, vectors) shape(15, vectors) shape(16, vectors)
SMALL_SIXTEEN(SMALL_SHAPE, 1)
SMALL_TWELVE(SMALL_SHAPE, 2)
SMALL_EIGHT(SMALL_SHAPE, 3)
SMALL_SIX(SMALL_SHAPE, 4)

typedef void small_shape(const struct heed_gemm_small *product, const float *a, const float *b, float *c, int tiles);

/* By vectors of columns: the most rows of a tile, and the shapes that write whole vectors or cut the last one. */
static const int small_rows[4] = {SMALL_SUMS < SMALL_ROWS ? SMALL_SUMS : SMALL_ROWS, SMALL_SUMS / 2, SMALL_SUMS / 3,
                                  SMALL_SUMS / 4};
#define SMALL_WHOLE(rows, vectors) small_whole_##rows##x##vectors,
#define SMALL_CUT(rows, vectors)   small_cut_##rows##x##vectors,
static small_shape *const small_shapes[2][4][SMALL_ROWS] = {
    {{SMALL_SIXTEEN(SMALL_WHOLE, 1)}, {SMALL_TWELVE(SMALL_WHOLE, 2)}, {SMALL_EIGHT(SMALL_WHOLE, 3)}, {SMALL_SIX(SMALL_WHOLE, 4)}},
    {{SMALL_SIXTEEN(SMALL_CUT, 1)}, {SMALL_TWELVE(SMALL_CUT, 2)}, {SMALL_EIGHT(SMALL_CUT, 3)}, {SMALL_SIX(SMALL_CUT, 4)}}};

INLINE small_shape *const *small_shapes_of(const struct heed_gemm_small *product, int vectors, int64_t j) {
    return small_shapes[product->columns - j < vectors * VF_LANES][vectors - 1];
}

/* `vectors` columns from j on: tiles alike in height, the first of them one row taller where rows do not divide.  Not inlined, for
 * a single tile has no use for the registers that it saves. */
NOINLINE void small_columns(const struct heed_gemm_small *product, int vectors, int64_t j) {
    const int rows = (int)product->rows, most = small_rows[vectors - 1];
    const int tiles = (rows + most - 1) / most, each = rows / tiles, taller = rows % tiles, from = taller * (each + 1);
    small_shape *const *shapes = small_shapes_of(product, vectors, j);
    const float *b = product->b + j;
    float *c = product->c + j;
    if (taller)
        shapes[each](product, product->a, b, c, taller);
    shapes[each - 1](product, product->a + from * product->lda, b, c + from * product->ldc, tiles - taller);
}

NOINLINE void small_many(const struct heed_gemm_small *product, int all) {
    const int across = (all + TILE_VECTORS - 1) / TILE_VECTORS;
    for (int i = 0, v = 0; i < across; i++) {
        const int next = (i + 1) * all / across;
        small_columns(product, next - v, v * VF_LANES);
        v = next;
    }
}

/* A single tile is found without divisions, and tiles one under the other without those of columns: 4 % of 16 x 16 x 16 by AVX2. */
static void gemm_small(const struct heed_gemm_small *product) {
    const int all = (int)((product->columns + VF_LANES - 1) / VF_LANES);
    if (all <= TILE_VECTORS && product->rows <= small_rows[all - 1])
        small_shapes_of(product, all, 0)[product->rows - 1](product, product->a, product->b, product->c, 1);
    else if (all <= TILE_VECTORS)
        small_columns(product, all, 0);
    else
        small_many(product, all);
}

#endif
