/* thin_product: few rows times a long matrix that is read once, from memory.  Contract in src/kernels.h.
 *
 * Here memory is the limit, and the prefetchers of CPUs do not follow tiles: they start anew in every page and panel.  So the
 * matrix is taken in the order in which it lies, some rows at a time over all columns, while the next ones are fetched by software;
 * only one row, or two where vectors are narrow, leave it to prefetchers, which do follow these (thin_panel.h, thin_is_followed).
 * Elements of 16 or 8 bits become floats in registers, each vector once for all rows of a tile: widened into L1 first, decoding
 * from bf16 took 1.5 times as long, and from bytes twice.
 *
 * b is rows of a type, or a panel of words: two elements of k side by side, which become floats by an operation each, in order. */
#ifndef HEED_KERNELS_THIN_PRODUCT_H
#define HEED_KERNELS_THIN_PRODUCT_H

enum {
    WINDOW_BYTES = 8192,   /* computed while as many are fetched */
    FOLLOWED_ROWS = 8,     /* of b, read side by side without fetches, */
    FOLLOWED_BYTES = 4096, /* if they are as long or longer */
    /* Four rows or fewer have as many accumulators as a whole tile: AVX2's 4 x 2 would be no more chains than latency times units,
     * with which decoding from L2 takes 10 % longer than with 4 x 3. */
    LOW_ROWS = 4,
    LOW_VECTORS = TILE_ROWS * TILE_VECTORS / LOW_ROWS,
    THIN_VECTORS = TILE_VECTORS > LOW_VECTORS ? TILE_VECTORS
                   : LOW_VECTORS > 4          ? 4
                                              : LOW_VECTORS,
    /* More rows than a tile has are one tall tile where that is two vectors wide: each line of b is loaded once, while another is
     * fetched (8 rows from L2 0.91 of the AVX-512 peak, two tiles of 4 rows 0.83; AVX2, one vector wide, 0.77 and 0.88). */
    TALL_VECTORS = TILE_VECTORS / 2,
    THIN_ROWS = TALL_VECTORS > 1 ? TALL_ROWS : TILE_ROWS
};

/* A window of what lies ahead, by its address, for nothing is read of it; 0: none.  step: bytes from row to row; 0: it is one
 * piece. */
struct thin_ahead {
    uintptr_t data;
    int64_t step;
};

/* Some rows of b, all columns. */
struct thin_window {
    int64_t k;
    const float *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    bool pairs;
    struct thin_ahead ahead; /* the next window */
    uintptr_t further;       /* bytes from there to the one after it, which has gaps if that has; 0: it is not fetched */
    int turn, turns;         /* of tiles one below the other, in each of which fetches are spread evenly: 16 rows from memory take
                                0.82 of the time that they take if the first tile fetches all, and those under it nothing */
};

/* A tile's part of it: as many lines as the tile reads, beside its own, or one after another if there are no gaps. */
INLINE struct thin_ahead thin_ahead_of_tile(struct thin_ahead ahead, const int bytes, int64_t k, int64_t j_bytes) {
    return ahead.step ? (struct thin_ahead){ahead.data + (uintptr_t)j_bytes, ahead.step}
                      : (struct thin_ahead){ahead.data + (uintptr_t)(j_bytes * k), bytes};
}

INLINE void thin_fetch_lines(const bool twice, const int bytes, uintptr_t at, uintptr_t further) {
    UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) __builtin_prefetch((const void *)(at + (uintptr_t)line), 0, 3);
    if (twice || (VF_LANES == HEED_LINE && further > 0))
        UNROLL for (int line = 0; line < bytes; line += LINE_BYTES)
            __builtin_prefetch((const void *)(at + further + (uintptr_t)line), 0, 2);
}

/* Steps of a turn of the loop; where vectors are narrow, as many as make three of them whole lines to fetch, of any type.  What a
 * turn does beside products counts where these are quick, or another hardware thread takes its part: with turns of 2 for all types,
 * and sums and pointers that gcc 12 kept on the stack, decoding from bf16 and f16 took 1.03 to 1.2 times as long, from bytes, which
 * also were fetched twice, 1.14 to 1.19, 1 to 4 rows times plain bf16 1.01 to 1.34.  But floats from memory take 1.1 with turns of
 * 4 (AVX2, Zen 3). */
INLINE int thin_steps(const enum heed_type type) { return VF_LANES == HEED_LINE ? 2 : 8 / (int)type_bytes(type); }

/* The next window into L1, and into L2 the one after it, `further` bytes away: on Intel decoding from memory reaches 0.96 of a
 * plain read so, 0.89 if all goes into L2, and 0.82 if all goes into L1, whose few buffers for lines on their way then wait for
 * memory.  With product->fetch_once it is the other way round where one tile has all rows and vectors are whole lines: with more
 * rows products take their time (16 rows times 4096 x 4096 1.09 times as long), and AVX2 decodes at 0.71 of a plain read, not 0.84.
 */
INLINE void thin_fetch(const enum heed_type type, const int vectors, struct thin_ahead ahead, uintptr_t further) {
    const int steps = thin_steps(type), bytes = vectors * VF_LANES * (int)type_bytes(type);
    const bool twice = VF_LANES < HEED_LINE && type != HEED_I8; /* narrower vectors never fetch floats once */
    if (bytes % LINE_BYTES && ahead.step == bytes)
        thin_fetch_lines(twice, steps * bytes, ahead.data, further);
    else
        UNROLL for (int u = 0; u < steps; u++) thin_fetch_lines(twice, bytes, ahead.data + (uintptr_t)(u * ahead.step), further);
}

/* Columns of rows of bf16 become floats two vectors at a time, all even ones and all odd ones, in one operation each; sums are so,
 * too. */
INLINE bool thin_is_apart(const enum heed_type type, const int vectors, const int v) {
    return type == HEED_BF16 && (v | 1) < vectors;
}
/* `step`: of the two that a word has. */
INLINE void thin_load_columns(const enum heed_type type, const enum thin_b kind, const int step, const int vectors, const void *b,
                              vf column[THIN_VECTORS]) {
    UNROLL for (int v = 0; v < vectors; v++) {
        if (kind != THIN_ROWS_OF_B)
            column[v] = v_pin(v_bf16(v_load_int((const uint8_t *)b + v * VF_LANES * WORD_BYTES), (kind == THIN_WORDS) == step));
        else if (thin_is_apart(type, vectors, v))
            column[v] = v_pin(v_bf16(v_load_int(type_at(type, b, v / 2 * 2 * VF_LANES)), v % 2));
        else
            column[v] = v_pin(load_type(type, type_at(type, b, v * VF_LANES)));
    }
}
INLINE void thin_load_sums(const enum heed_type type, const int vectors, const float *c, vf acc[THIN_VECTORS]) {
    UNROLL for (int v = 0; v < vectors; v++) acc[v] = v_load(c + v * VF_LANES);
    UNROLL for (int v = 0; v < vectors; v += 2) if (thin_is_apart(type, vectors, v)) v_unzip(&acc[v], &acc[v + 1]);
}
INLINE void thin_store_sums(const enum heed_type type, const int vectors, vf acc[THIN_VECTORS], float *c) {
    UNROLL for (int v = 0; v < vectors; v += 2) if (thin_is_apart(type, vectors, v)) v_zip(&acc[v], &acc[v + 1]);
    UNROLL for (int v = 0; v < vectors; v++) v_store(c + v * VF_LANES, acc[v]);
}

/* acc[i] = fma(a[i][p], b[p], acc[i]) for one p, `offset` floats behind where rows of a are. */
INLINE void thin_step(const enum heed_type type, const enum thin_b kind, const int step, const int offset, const int rows,
                      const int vectors, vf acc[][THIN_VECTORS], const struct tile_rows *a, const void *b) {
    vf column[THIN_VECTORS];
    thin_load_columns(type, kind, step, vectors, b, column);
    UNROLL for (int i = 0; i < rows; i++) {
        const vf row = v_load1(tile_row(a, i) + offset);
        UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_chain(acc[i][v], row, column[v]);
    }
}

/* Rows of b two by two, of which the first two come in this order; or words of two, the first. */
struct thin_rows_of_b {
    const char *at[2];
    int64_t two; /* bytes from there to the next two */
};

INLINE void thin_b_advance(struct thin_rows_of_b *b, const int steps) {
    UNROLL for (int i = 0; i < 2; i++) {
        b->at[i] += steps / 2 * b->two;
        PIN(b->at[i]);
    }
    PIN(b->two);
}

/* An even number of steps; a and b advance. */
INLINE void thin_turn(const enum heed_type type, const enum thin_b kind, const int steps, const int rows, const int vectors,
                      vf acc[][THIN_VECTORS], struct tile_rows *a, struct thin_rows_of_b *b) {
    UNROLL for (int u = 0; u < steps; u++)
        thin_step(type, kind, u % 2, u, rows, vectors, acc, a, b->at[kind == THIN_ROWS_OF_B ? u % 2 : 0] + u / 2 * b->two);
    tile_rows_advance(rows, a, steps);
    tile_rows_pin(rows, a);
    thin_b_advance(b, steps);
}

/* The last step where there is no other: of a pair the even one alone, after a product of zeros, which is no -0. */
INLINE void thin_last_step(const enum heed_type type, const enum thin_b kind, const int rows, const int vectors,
                           vf acc[][THIN_VECTORS], struct tile_rows *a, const struct thin_rows_of_b *b, bool pairs) {
    const vf zero = v_pin(v_set1(pairs ? 0.0f : -0.0f)); /* no sum changes by -0 */
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_add(acc[i][v], zero);
    tile_rows_advance(rows, a, pairs);
    thin_step(type, kind, kind == THIN_PAIR_WORDS, 0, rows, vectors, acc, a, pairs && kind == THIN_ROWS_OF_B ? b->at[1] : b->at[0]);
}

/* One tile. */
INLINE void thin_body(const enum heed_type type, const enum thin_b kind, const int rows, const int vectors,
                      const struct thin_window *window, struct tile_rows a, struct thin_rows_of_b b, struct thin_ahead ahead,
                      float *c) {
    enum { LEAST_STEPS = 2 };
    vf acc[THIN_ROWS][THIN_VECTORS];
    const enum heed_type order = kind == THIN_ROWS_OF_B ? type : HEED_F32; /* of sums */
    const int steps = thin_steps(type);
    const uintptr_t further = window->further;
    int64_t k = window->k;
    int wait = window->turn;
    UNROLL for (int i = 0; i < rows; i++) thin_load_sums(order, vectors, c + i * window->ldc, acc[i]);
    NO_UNROLL for (; k >= steps; k -= steps) {
        if (wait-- == 0) {
            thin_fetch(type, vectors, ahead, further);
            wait = window->turns - 1;
        }
        ahead.data += (uintptr_t)(steps * ahead.step);
        thin_turn(type, kind, steps, rows, vectors, acc, &a, &b);
        PIN(k); /* gcc 12 else counts on the stack */
    }
    NO_UNROLL for (; steps > LEAST_STEPS && k >= LEAST_STEPS; k -= LEAST_STEPS)
        thin_turn(type, kind, LEAST_STEPS, rows, vectors, acc, &a, &b);
    if (k > 0)
        thin_last_step(type, kind, rows, vectors, acc, &a, &b, window->pairs);
    UNROLL for (int i = 0; i < rows; i++) thin_store_sums(order, vectors, acc[i], c + i * window->ldc);
}

INLINE struct thin_rows_of_b thin_b_at(const enum heed_type type, const enum thin_b kind, const struct thin_window *window, int j) {
    const bool words = kind != THIN_ROWS_OF_B;
    const int64_t ldb = window->k > 1 ? type_span(type, window->ldb) : 0;
    const char *b = (const char *)window->b + (words ? 2 : 1) * j * type_bytes(type);
    return (struct thin_rows_of_b){{b + (window->pairs && !words ? ldb : 0), b + (window->pairs ? 0 : ldb)}, 2 * ldb};
}

/* Tiles side by side: rows from `from` on, columns from j on. */
INLINE void thin_bodies(const enum heed_type type, const enum thin_b kind, const int rows, const int vectors,
                        const struct thin_window *window, int from, int j, int tiles) {
    const int bytes = vectors * VF_LANES * (int)type_bytes(type);
    const int64_t ahead_bytes = window->ahead.step ? bytes : bytes * window->k;
    struct tile_rows a;
    struct thin_rows_of_b b = thin_b_at(type, kind, window, j);
    struct thin_ahead ahead = thin_ahead_of_tile(window->ahead, bytes, window->k, j * type_bytes(type));
    float *c = window->c + from * window->ldc + j;
    tile_rows_begin(rows, &a, window->a + from * window->lda, window->lda);
    NO_UNROLL for (; tiles > 0; tiles--) {
        thin_body(type, kind, rows, vectors, window, a, b, ahead, c);
        UNROLL for (int i = 0; i < 2; i++) b.at[i] += kind == THIN_ROWS_OF_B ? bytes : 2 * bytes;
        ahead.data += (uintptr_t)ahead_bytes;
        c += vectors * VF_LANES;
    }
}

#define THIN_FITS(rows, vectors)                                                                                                   \
    (rows <= TILE_ROWS ? vectors <= (rows > LOW_ROWS ? TILE_VECTORS : THIN_VECTORS) : rows <= THIN_ROWS && vectors <= TALL_VECTORS)
#define THIN_SHAPE(kernel, type, kind, rows, vectors)                                                                              \
    NOINLINE void kernel##_##rows##x##vectors(const struct thin_window *window, int from, int j, int tiles) {                      \
        if (THIN_FITS(rows, vectors))                                                                                              \
            thin_bodies(type, kind, THIN_FITS(rows, vectors) ? rows : 1, THIN_FITS(rows, vectors) ? vectors : 1, window, from, j,  \
                        tiles);                                                                                                    \
    }
#define THIN_SHAPES_OF_ROWS(kernel, type, kind, rows)                                                                              \
    THIN_SHAPE(kernel, type, kind, rows, 1)                                                                                        \
    THIN_SHAPE(kernel, type, kind, rows, 2)                                                                                        \
    THIN_SHAPE(kernel, type, kind, rows, 3)                                                                                        \
    THIN_SHAPE(kernel, type, kind, rows, 4)
#define THIN_TALL_SHAPES_OF_ROWS(kernel, type, kind, rows)                                                                         \
    THIN_SHAPE(kernel, type, kind, rows, 1) THIN_SHAPE(kernel, type, kind, rows, 2)
#define THIN_SHAPES(kernel, type, kind)                                                                                            \
    THIN_SHAPES_OF_ROWS(kernel, type, kind, 1)                                                                                     \
    THIN_SHAPES_OF_ROWS(kernel, type, kind, 2)                                                                                     \
    THIN_SHAPES_OF_ROWS(kernel, type, kind, 3)                                                                                     \
    THIN_SHAPES_OF_ROWS(kernel, type, kind, 4)                                                                                     \
    THIN_SHAPES_OF_ROWS(kernel, type, kind, 5)                                                                                     \
    THIN_SHAPES_OF_ROWS(kernel, type, kind, 6)                                                                                     \
    THIN_TALL_SHAPES_OF_ROWS(kernel, type, kind, 7)                                                                                \
    THIN_TALL_SHAPES_OF_ROWS(kernel, type, kind, 8)                                                                                \
    THIN_TALL_SHAPES_OF_ROWS(kernel, type, kind, 9)                                                                                \
    THIN_TALL_SHAPES_OF_ROWS(kernel, type, kind, 10)                                                                               \
    THIN_TALL_SHAPES_OF_ROWS(kernel, type, kind, 11)                                                                               \
    THIN_TALL_SHAPES_OF_ROWS(kernel, type, kind, 12)
#define THIN_TALL_NAMES(kernel, rows)                                                                                              \
    { kernel##_##rows##x1, kernel##_##rows##x2 }
#define THIN_TABLE(kernel)                                                                                                         \
    {                                                                                                                              \
        TILE_NAMES(kernel, 1), TILE_NAMES(kernel, 2), TILE_NAMES(kernel, 3), TILE_NAMES(kernel, 4), TILE_NAMES(kernel, 5),         \
            TILE_NAMES(kernel, 6), THIN_TALL_NAMES(kernel, 7), THIN_TALL_NAMES(kernel, 8), THIN_TALL_NAMES(kernel, 9),             \
            THIN_TALL_NAMES(kernel, 10), THIN_TALL_NAMES(kernel, 11), THIN_TALL_NAMES(kernel, 12)                                  \
    }
THIN_SHAPES(thin, HEED_F32, THIN_ROWS_OF_B)
THIN_SHAPES(thin_bf16, HEED_BF16, THIN_ROWS_OF_B)
THIN_SHAPES(thin_f16, HEED_F16, THIN_ROWS_OF_B)
THIN_SHAPES(thin_i8, HEED_I8, THIN_ROWS_OF_B)
THIN_SHAPES(thin_words, HEED_BF16, THIN_WORDS)
THIN_SHAPES(thin_pair_words, HEED_BF16, THIN_PAIR_WORDS)

/* n in as few parts of at most `most` as there can be, as even as can be: `longer` of them have each + 1. */
struct thin_parts {
    int count, each, longer;
};
INLINE struct thin_parts thin_parts_of(int n, int most) {
    const int count = (n + most - 1) / most;
    return (struct thin_parts){count, n / count, n % count};
}
INLINE int thin_part(const struct thin_parts *parts, int i) { return parts->each + (i < parts->longer); }

/* Tiles of a product. */
struct thin_split {
    struct thin_parts rows, vectors;
};
INLINE struct thin_split thin_split_of(int rows, int columns) {
    const struct thin_parts parts = thin_parts_of(rows, rows <= THIN_ROWS ? THIN_ROWS : TILE_ROWS);
    const int tile_rows = thin_part(&parts, 0);
    const int vectors = tile_rows > TILE_ROWS ? TALL_VECTORS : tile_rows > LOW_ROWS ? TILE_VECTORS : THIN_VECTORS;
    return (struct thin_split){parts, thin_parts_of((columns + VF_LANES - 1) / VF_LANES, vectors)};
}

/* Rows from `from` on, columns from j on, so many tiles side by side: a call for each takes longer than four rows of a window. */
typedef void (*thin_shape)(const struct thin_window *window, int from, int j, int tiles);

/* Adds to c. */
static void thin_tiles(enum heed_type type, bool words, const struct thin_split *split, struct thin_window *window) {
    static const thin_shape of_types[4][12][4] = {[HEED_F32] = THIN_TABLE(thin),
                                                  [HEED_BF16] = THIN_TABLE(thin_bf16),
                                                  [HEED_F16] = THIN_TABLE(thin_f16),
                                                  [HEED_I8] = THIN_TABLE(thin_i8)};
    static const thin_shape of_words[2][12][4] = {THIN_TABLE(thin_words), THIN_TABLE(thin_pair_words)};
    const thin_shape(*shapes)[4] = words ? of_words[window->pairs] : of_types[type];
    const struct thin_parts *across = &split->vectors;
    window->turns = split->rows.count;
    for (int down = 0, from = 0; down < split->rows.count; down++) {
        const int rows = thin_part(&split->rows, down);
        window->turn = window->ahead.data > 0 ? down : -1;
        if (across->longer > 0)
            shapes[rows - 1][across->each](window, from, 0, across->longer);
        if (across->longer < across->count)
            shapes[rows - 1][across->each - 1](window, from, across->longer * (across->each + 1) * VF_LANES,
                                               across->count - across->longer);
        from += rows;
    }
}

/* What is read from row `row` of b on: another row or, behind the last, what follows. */
INLINE struct thin_ahead thin_ahead_at(const struct heed_thin_product *product, int64_t row) {
    const int64_t bytes = type_bytes(product->type), row_bytes = product->columns * bytes;
    if (row < product->k)
        return (struct thin_ahead){(uintptr_t)type_at(product->type, product->b, row * product->ldb),
                                   product->ldb != product->columns ? product->ldb * bytes : 0};
    if (!product->next)
        return (struct thin_ahead){0, 0};
    const int64_t step = product->next_step;
    return (struct thin_ahead){(uintptr_t)product->next + (uintptr_t)((row - product->k) * (step ? step : row_bytes)), step};
}

/* Rows of a window.  Long ones come by four, so that sums are not loaded and stored too often; but of floats from far away that are
 * fetched into L1 alone two fill enough of it: 1 to 4 rows times 4096 x 4096 take 0.7 to 0.85 of the time, from L3 1.2 of it. */
INLINE int64_t thin_window_rows(const struct heed_thin_product *product, bool once) {
    const int64_t row_bytes = product->columns * type_bytes(product->type);
    const bool long_floats = product->type == HEED_F32 && row_bytes >= WINDOW_BYTES / 2;
    const int steps = thin_steps(product->type), least = once && product->far && long_floats ? 2 : 4;
    return max_i64(larger(least, steps), WINDOW_BYTES / row_bytes / steps * steps);
}

/* Sums begin at 0, in as many columns as vectors have. */
static void thin_clear(const struct heed_thin_product *product, int j, int columns) {
    if (product->continues)
        return;
    for (int i = 0; i < product->rows; i++)
        memset(product->c + i * product->ldc + j, 0, (size_t)round_up(columns, VF_LANES) * sizeof(float));
}

/* One row times long rows of floats, or two where vectors are narrow: prefetchers follow several rows at once.  1 x 4096 x 4096
 * takes 0.74 of the time with fetches, 2 rows 0.9, with two threads 0.87, from L3 0.6 to 0.9; of rows of 4 KB 0.6 from L3 and 1.1
 * from memory, of 2 KB 1.15, and 4 rows are as quick with fetches (Zen 3).  By AVX-512, from L3 0.8 and from memory 0.99, of rows
 * of 4 KB 0.95 and 1.01, and two rows 1.06 (a Xeon).  Where lines are fetched once, from L3 0.5 to 0.65 too, but from memory, where
 * weights come from, 1.06 to 1.45, by AVX2 1.4 to 2.2 (Zen 5). */
INLINE bool thin_is_followed(const struct heed_thin_product *product) {
    const int most = VF_LANES < HEED_LINE ? 2 : 1;
    return !product->fetch_once && product->rows <= most && product->type == HEED_F32 &&
           product->columns * (int)sizeof(float) >= FOLLOWED_BYTES;
}

static void thin_product_of_vectors(const struct heed_thin_product *product) {
    const struct thin_split split = thin_split_of(product->rows, product->columns);
    const bool once = product->fetch_once && VF_LANES == HEED_LINE && split.rows.count == 1;
    const bool followed = thin_is_followed(product);
    const int64_t rows = followed ? FOLLOWED_ROWS : thin_window_rows(product, once);
    struct thin_window window = {
        .lda = product->lda, .ldb = product->ldb, .c = product->c, .ldc = product->ldc, .pairs = product->pairs};
    thin_clear(product, 0, product->columns);
    for (int64_t row = 0; row < product->k; row += window.k) {
        window.k = min_i64(rows, product->k - row);
        window.a = product->a + row;
        window.b = type_at(product->type, product->b, row * product->ldb);
        window.ahead = followed ? (struct thin_ahead){0, 0} : thin_ahead_at(product, row + window.k);
        const struct thin_ahead further = once ? (struct thin_ahead){0, 0} : thin_ahead_at(product, row + window.k + rows);
        window.further = further.data ? further.data - window.ahead.data : 0;
        thin_tiles(product->type, product->words, &split, &window);
    }
}

/* Columns that are no whole vector, which floats mostly have room for: others are widened some rows at a time, beside zeros. */
static void thin_product_of_rest(const struct heed_thin_product *product) {
    enum { REST_ROWS = 64 };
    float rest[REST_ROWS * VF_LANES] = {0};
    for (int64_t row = 0; row < product->k; row += REST_ROWS) {
        const int64_t rows = min_i64(REST_ROWS, product->k - row);
        widen_rows(type_at(product->type, product->b, row * product->ldb), product->type, product->ldb, rows, product->columns,
                   rest, VF_LANES);
        thin_product_of_vectors(&(struct heed_thin_product){.rows = product->rows,
                                                            .columns = product->columns,
                                                            .k = rows,
                                                            .a = product->a + row,
                                                            .lda = product->lda,
                                                            .b = rest,
                                                            .ldb = VF_LANES,
                                                            .c = product->c,
                                                            .ldc = product->ldc,
                                                            .pairs = product->pairs,
                                                            .continues = product->continues || row > 0});
    }
}

static void thin_product(const struct heed_thin_product *product) {
    if (is_thin_panel(product)) {
        thin_panel(product);
        return;
    }
    const bool has_room = product->type == HEED_F32 && !product->exact;
    const int whole = has_room ? product->columns : product->columns / VF_LANES * VF_LANES;
    struct heed_thin_product part = *product;
    part.columns = whole;
    if (whole > 0)
        thin_product_of_vectors(&part);
    part.columns = product->columns - whole;
    part.b = type_at(product->type, product->b, whole);
    part.c = product->c + whole;
    if (part.columns > 0)
        thin_product_of_rest(&part);
}

#endif
