/* thin_product: few rows times a long matrix that is read once, from memory.  Contract in src/kernels.h.
 *
 * Here memory is the limit, and the prefetchers of CPUs do not follow tiles: they start anew in every page and panel.  So the
 * matrix is taken in the order in which it lies, some rows at a time over all columns, while the next ones are fetched by software.
 */
#ifndef HEED_KERNELS_THIN_PRODUCT_H
#define HEED_KERNELS_THIN_PRODUCT_H

enum {
    WINDOW_FLOATS = 4096, /* computed while as many are fetched: 16 KiB */
    /* Four rows or fewer have as many accumulators as a whole tile: AVX2's 4 x 2 would be no more chains than latency times units,
     * with which decoding from L2 takes 10 % longer than with 4 x 3. */
    LOW_ROWS = 4,
    LOW_VECTORS = TILE_ROWS * TILE_VECTORS / LOW_ROWS,
    THIN_VECTORS = TILE_VECTORS > LOW_VECTORS ? TILE_VECTORS
                   : LOW_VECTORS > 4          ? 4
                                              : LOW_VECTORS
};

/* Some rows of b, all columns. */
struct thin_window {
    int64_t k;
    const float *a;
    int64_t lda;
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    bool continues;
    const float *ahead; /* the next window; NULL: none */
    int64_t ldahead;    /* of its rows; 0: it is one piece */
};

/* Into L2: fetched into L1, lines are held up by those of the window, and memory idles (85 % of a plain read instead of 91 %). */
INLINE void thin_fetch(const int floats, const float *row) {
    UNROLL for (int at = 0; at < floats; at += HEED_LINE) __builtin_prefetch(row + at, 0, 2);
}

/* acc[i] = fma(a[i][p], b[p], acc[i]) for one p. */
INLINE void thin_step(const int rows, const int vectors, vf acc[TILE_ROWS][THIN_VECTORS], const float *const a[ROW_GROUPS],
                      int64_t lda, const float *b) {
    vf column[THIN_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) column[v] = v_pin(v_load(b + v * VF_LANES));
    UNROLL for (int i = 0; i < rows; i++) {
        const vf row = v_set1(a[i / ROW_GROUP][i % ROW_GROUP * lda]);
        UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_chain(acc[i][v], row, column[v]);
    }
}

/* Rows from `from` on, columns from j on. */
INLINE void thin_body(const int rows, const int vectors, const struct thin_window *window, int from, int j) {
    vf acc[TILE_ROWS][THIN_VECTORS];
    const float *a[ROW_GROUPS], *b = window->b + j;
    float *c = window->c + from * window->ldc + j;
    int64_t k = window->k;
    /* The first rows fetch: as many lines as they read, beside their own, or one after another if there are no gaps. */
    const float *ahead = from > 0 || !window->ahead ? NULL : window->ahead + (window->ldahead ? j : j * k);
    const int64_t ldahead = window->ldahead ? window->ldahead : vectors * VF_LANES;
    UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) {
        a[g] = window->a + (from + g * ROW_GROUP) * window->lda;
        PIN(a[g]);
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
        window->continues ? v_load(c + i * window->ldc + v * VF_LANES) : v_zero();
    NO_UNROLL for (; k > 0; k--) {
        if (ahead) {
            thin_fetch(vectors * VF_LANES, ahead);
            ahead += ldahead;
        }
        thin_step(rows, vectors, acc, a, window->lda, b);
        UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) a[g]++;
        b += window->ldb;
        PIN(k); /* gcc 12 else counts on the stack */
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(c + i * window->ldc + v * VF_LANES, acc[i][v]);
}

#define THIN_SHAPE(rows, vectors)                                                                                                  \
    NOINLINE void thin_##rows##x##vectors(const struct thin_window *window, int from, int j) {                                     \
        if (rows <= TILE_ROWS && vectors <= (rows > LOW_ROWS ? TILE_VECTORS : THIN_VECTORS))                                       \
            thin_body(rows <= TILE_ROWS ? rows : 1, vectors <= THIN_VECTORS ? vectors : 1, window, from, j);                       \
    }
#define THIN_SHAPES_OF_ROWS(rows) THIN_SHAPE(rows, 1) THIN_SHAPE(rows, 2) THIN_SHAPE(rows, 3) THIN_SHAPE(rows, 4)
THIN_SHAPES_OF_ROWS(1)
THIN_SHAPES_OF_ROWS(2)
THIN_SHAPES_OF_ROWS(3)
THIN_SHAPES_OF_ROWS(4)
THIN_SHAPES_OF_ROWS(5)
THIN_SHAPES_OF_ROWS(6)

static void thin_tiles(int rows, int columns, const struct thin_window *window) {
    static void (*const shapes[6][4])(const struct thin_window *, int, int) = TILE_TABLE(thin);
    const int tiles = (rows + TILE_ROWS - 1) / TILE_ROWS, all_vectors = (columns + VF_LANES - 1) / VF_LANES;
    const int most = (rows + tiles - 1) / tiles > LOW_ROWS ? TILE_VECTORS : THIN_VECTORS;
    const int tiles_across = (all_vectors + most - 1) / most;
    for (int across = 0, v = 0; across < tiles_across; across++) {
        const int next_v = (across + 1) * all_vectors / tiles_across;
        for (int tile = 0, from = 0; tile < tiles; tile++) {
            const int to = (tile + 1) * rows / tiles;
            shapes[to - from - 1][next_v - v - 1](window, from, v * VF_LANES);
            from = to;
        }
        v = next_v;
    }
}

static void thin_product(const struct heed_thin_product *product) {
    const int64_t rows = larger(4, WINDOW_FLOATS / product->columns), gap = product->ldb - product->columns;
    struct thin_window window = {.a = product->a,
                                 .lda = product->lda,
                                 .b = product->b,
                                 .ldb = product->ldb,
                                 .c = product->c,
                                 .ldc = product->ldc,
                                 .continues = product->continues,
                                 .ldahead = gap ? product->ldb : 0};
    for (int64_t left = product->k; left > 0; left -= window.k) {
        window.k = min_i64(rows, left);
        window.ahead = window.b + window.k * window.ldb;
        if (window.k == left) {
            window.ahead = product->next;
            window.ldahead = product->ldnext;
        }
        thin_tiles(product->rows, product->columns, &window);
        window.a += window.k;
        window.b += window.k * window.ldb;
        window.continues = true;
    }
}

/* Rows of b that are transposed at a time, and elements of each: 16 KiB. */
enum { TURNED_ROWS = 32, TURNED_DEPTH = 128 };

/* turned[p][j] = b[j][p], [depth][TURNED_ROWS], of rows `first` up to `rows`.  Beside each square, as much of the rows ahead is
 * fetched. */
INLINE void thin_turn(const float *b, int64_t ldb, const int first, const int rows, const int depth, const float *ahead,
                      int64_t ldahead, float *turned) {
    for (int j = 0; j < rows; j += VF_LANES)
        for (int p = 0, row = j; p < depth; p += VF_LANES) {
            vf r[VF_LANES];
            UNROLL for (int i = 0; i < VF_LANES; i++) r[i] =
                j + i >= first && j + i < rows ? v_load_n(b + (j + i) * ldb + p, depth - p) : v_zero();
            for (; ahead && (row - j) * depth < (p + VF_LANES) * VF_LANES; row++)
                for (int at = 0; at < depth; at += HEED_LINE)
                    __builtin_prefetch(ahead + row * ldahead + at, 0, 2);
            v_transpose(r);
            UNROLL for (int i = 0; i < VF_LANES; i++) v_store(turned + (p + i) * TURNED_ROWS + j, r[i]);
        }
}

static void thin_product_transposed(const struct heed_thin_product *product) {
    float turned[TURNED_DEPTH * TURNED_ROWS] __attribute__((aligned(64)));
    for (int j = 0; j < product->columns; j += TURNED_ROWS) {
        const int columns = smaller(TURNED_ROWS, product->columns - j), skipped = larger(0, product->skipped - j);
        const bool inside = j + TURNED_ROWS < product->columns;
        const float *b = product->b + j * product->ldb, *ahead = inside ? b + TURNED_ROWS * product->ldb : product->next;
        const int64_t ldahead = inside ? product->ldb : product->ldnext;
        for (int64_t p = 0; p < product->k; p += TURNED_DEPTH) {
            const int depth = (int)min_i64(TURNED_DEPTH, product->k - p);
            if (skipped == 0 && columns == TURNED_ROWS && depth == TURNED_DEPTH && ahead)
                thin_turn(b + p, product->ldb, 0, TURNED_ROWS, TURNED_DEPTH, ahead + p, ldahead, turned);
            else
                thin_turn(b + p, product->ldb, skipped, columns, depth, ahead ? ahead + p : NULL, ldahead, turned);
            thin_tiles(product->rows, columns,
                       &(struct thin_window){.k = depth,
                                             .a = product->a + p,
                                             .lda = product->lda,
                                             .b = turned,
                                             .ldb = TURNED_ROWS,
                                             .c = product->c + j,
                                             .ldc = product->ldc,
                                             .continues = product->continues || p > 0});
        }
    }
}

#endif
