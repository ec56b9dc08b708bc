/* Few rows times a long matrix that is read once, from memory: which of its rows are multiplied while which others are fetched, and
 * the shapes of tiles that do it.
 *
 * Here memory is the limit, and the prefetchers of CPUs do not follow tiles: they start anew in every page and panel.  So the
 * matrix is taken in the order in which it lies, some rows at a time over all columns, while the next ones are fetched by software.
 */
#ifndef HEED_KERNELS_THIN_WINDOW_H
#define HEED_KERNELS_THIN_WINDOW_H

enum {
    WINDOW_BYTES = 8192,  /* computed while as many are fetched */
    LONG_ROW_BYTES = 640, /* of weights as they are, and not of heads side by side */
    LONG_ROW_I8 = 256,    /* the same of bytes, which such heads are not */
    /* Of several tiles one under the other each loads and stores its sums once a window.  With 16 KB 16 and 64 rows of floats take
     * 0.93 of the time, 16 bits 0.95 to 0.98; with 32 KB they gain no more, nor does AVX2 (Zen 5). */
    LONG_WINDOW_BYTES = VF_LANES == HEED_LINE ? 2 * WINDOW_BYTES : WINDOW_BYTES,
    THIN_VECTORS = 4,
    /* Where registers are few, 3 and 4 rows have 3 vectors, as many accumulators as a whole tile: 4 x 2 would be no more chains
     * than latency times units, with which decoding from L2 takes 10 % longer.  1 and 2 rows have 4, which are whole lines: with 3,
     * 2 rows wait for 6 chains.  By 4 they take, of packed floats, 0.88 of the time from caches, of 16 bits 0.80 to 0.90 from
     * anywhere, decoding from caches 0.77 to 0.95; but where a pace is quicker, 3 are: 2 rows of floats from memory take 1.03 to
     * 1.09 by 4, for of lines that two tiles share those that were not fetched are asked for again (AVX2, Zen 4). */
    FEWEST_ROWS = 2,
    LOW_ROWS = 4,
    LOW_VECTORS = FEW_REGISTERS ? 3 : THIN_VECTORS,
    /* More rows than a tile has are one tall tile where that is two vectors wide: each line of b is loaded once, while another is
     * fetched (8 rows from L2 0.91 of the AVX-512 peak, two tiles of 4 rows 0.83; AVX2, one vector wide, 0.77 and 0.88). */
    TALL_VECTORS = TILE_VECTORS / 2,
    THIN_ROWS = TALL_VECTORS > 1 ? TALL_ROWS : TILE_ROWS,
    TALL_ROWS_FROM_L2 = 8, /* see thin_tall_rows */
    CROWDED_LINES = 8,     /* of crowded rows, which L1 keeps (contracts/thin.h): of a window and the next one together */
    THIN_MOST_ROWS = 12,   /* of tables of shapes */
    THIN_MOST_VECTORS = 4
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
    bool pairs, continues;   /* continues: sums begin with c; else at 0 */
    bool paced;              /* lines are multiplied no faster than memory gives them */
    bool into_l2;            /* what is fetched, all of it */
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

INLINE void thin_fetch_lines(const bool twice, const bool into_l2, const int bytes, uintptr_t at, uintptr_t further) {
    UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) fetch_line(at + (uintptr_t)line, !into_l2);
    if (twice || (VF_LANES == HEED_LINE && further > 0))
        UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) fetch_line(at + further + (uintptr_t)line, false);
}

/* Steps of a turn of the loop; where vectors are narrow, as many as make three of them whole lines to fetch, of any type.  What a
 * turn does beside products counts where these are quick, or another hardware thread takes its part: with turns of 2 for all types,
 * and sums and pointers that gcc 12 kept on the stack, decoding from bf16 and f16 took 1.03 to 1.2 times as long, from bytes, which
 * also were fetched twice, 1.14 to 1.19, 1 to 4 rows times plain bf16 1.01 to 1.34.  But floats from memory take 1.1 with turns of
 * 4 (AVX2, Zen 3). */
INLINE int thin_steps(const enum heed_type type) { return VF_LANES == HEED_LINE ? 2 : 8 / (int)type_bytes(type); }

/* The next window into L1, and into L2 the one after it, `further` bytes away: on Intel decoding from memory reaches 0.96 of a
 * plain read so, 0.89 if all goes into L2, and 0.82 if all goes into L1, whose few buffers for lines on their way then wait for
 * memory.  Into L1 alone it is the other way round where one tile has all rows and vectors are whole lines: with more rows
 * products take their time (16 rows times 4096 x 4096 1.09 times as long), and AVX2 decodes at 0.71 of a plain read, not 0.84.
 *
 * Into L2 alone, both windows: Zen 4's prefetchers bring lines from there into L1, and decoding from floats in a cache takes 0.86
 * to 1.0 of the time, in rows 1.03, from bf16 0.97 to 1.02, in rows of heads side by side 1.04, from bytes 1.01 to 1.03; 4 rows
 * times plain floats 0.76 to 0.86, 8 and 12 rows 0.53 to 0.76, packed bf16 0.91 to 0.98.  The second request is needed: without it
 * these take 1.05 to 1.2 times as long.  What lies in one piece goes without windows (in_order.h). */
INLINE void thin_fetch_rows(const enum heed_type type, const int vectors, const bool into_l2, struct thin_ahead ahead,
                            uintptr_t further) {
    const int steps = thin_steps(type), bytes = vectors * VF_LANES * (int)type_bytes(type);
    const bool twice = VF_LANES < HEED_LINE && type != HEED_I8; /* narrower vectors never fetch floats once */
    if (bytes % LINE_BYTES && ahead.step == bytes)
        thin_fetch_lines(twice, into_l2, steps * bytes, ahead.data, further);
    else
        UNROLL for (int u = 0; u < steps; u++)
            thin_fetch_lines(twice, into_l2, bytes, ahead.data + (uintptr_t)(u * ahead.step), further);
}
INLINE void thin_fetch(const enum heed_type type, const int vectors, bool into_l2, struct thin_ahead ahead, uintptr_t further) {
    PIN(ahead.data); /* else gcc 12 has a pointer for each line, some in vectors' registers: decoding in pairs takes 1.04 to 1.1 */
    if (into_l2)
        thin_fetch_rows(type, vectors, true, ahead, further);
    else
        thin_fetch_rows(type, vectors, false, ahead, further);
}

#define LOW_VECTORS_OF(rows) ((rows) > FEWEST_ROWS ? LOW_VECTORS : THIN_VECTORS)
#define THIN_FITS(rows, vectors)                                                                                                   \
    (rows <= TILE_ROWS ? vectors <= (rows > LOW_ROWS ? TILE_VECTORS : LOW_VECTORS_OF(rows))                                        \
                       : rows <= THIN_ROWS && vectors <= TALL_VECTORS)
#define THIN_SHAPE(kernel, rows, vectors, bodies, ...)                                                                             \
    NOINLINE void kernel##_##rows##x##vectors(const struct thin_window *window, int from, int j, int tiles) {                      \
        if (THIN_FITS(rows, vectors))                                                                                              \
            bodies(__VA_ARGS__, THIN_FITS(rows, vectors) ? rows : 1, THIN_FITS(rows, vectors) ? vectors : 1, window, from, j,      \
                   tiles);                                                                                                         \
    }
#define THIN_SHAPES_OF_ROWS(kernel, rows, ...)                                                                                     \
    THIN_SHAPE(kernel, rows, 1, __VA_ARGS__)                                                                                       \
    THIN_SHAPE(kernel, rows, 2, __VA_ARGS__)                                                                                       \
    THIN_SHAPE(kernel, rows, 3, __VA_ARGS__)                                                                                       \
    THIN_SHAPE(kernel, rows, 4, __VA_ARGS__)
#define THIN_TALL_SHAPES_OF_ROWS(kernel, rows, ...)                                                                                \
    THIN_SHAPE(kernel, rows, 1, __VA_ARGS__) THIN_SHAPE(kernel, rows, 2, __VA_ARGS__)
#define THIN_SHAPES(kernel, ...)                                                                                                   \
    THIN_SHAPES_OF_ROWS(kernel, 1, __VA_ARGS__)                                                                                    \
    THIN_SHAPES_OF_ROWS(kernel, 2, __VA_ARGS__)                                                                                    \
    THIN_SHAPES_OF_ROWS(kernel, 3, __VA_ARGS__)                                                                                    \
    THIN_SHAPES_OF_ROWS(kernel, 4, __VA_ARGS__)                                                                                    \
    THIN_SHAPES_OF_ROWS(kernel, 5, __VA_ARGS__)                                                                                    \
    THIN_SHAPES_OF_ROWS(kernel, 6, __VA_ARGS__)                                                                                    \
    THIN_TALL_SHAPES_OF_ROWS(kernel, 7, __VA_ARGS__)                                                                               \
    THIN_TALL_SHAPES_OF_ROWS(kernel, 8, __VA_ARGS__)                                                                               \
    THIN_TALL_SHAPES_OF_ROWS(kernel, 9, __VA_ARGS__)                                                                               \
    THIN_TALL_SHAPES_OF_ROWS(kernel, 10, __VA_ARGS__)                                                                              \
    THIN_TALL_SHAPES_OF_ROWS(kernel, 11, __VA_ARGS__)                                                                              \
    THIN_TALL_SHAPES_OF_ROWS(kernel, 12, __VA_ARGS__)
#define THIN_TALL_NAMES(kernel, rows)                                                                                              \
    { kernel##_##rows##x1, kernel##_##rows##x2 }
#define THIN_TABLE(kernel)                                                                                                         \
    {                                                                                                                              \
        TILE_NAMES(kernel, 1), TILE_NAMES(kernel, 2), TILE_NAMES(kernel, 3), TILE_NAMES(kernel, 4), TILE_NAMES(kernel, 5),         \
            TILE_NAMES(kernel, 6), THIN_TALL_NAMES(kernel, 7), THIN_TALL_NAMES(kernel, 8), THIN_TALL_NAMES(kernel, 9),             \
            THIN_TALL_NAMES(kernel, 10), THIN_TALL_NAMES(kernel, 11), THIN_TALL_NAMES(kernel, 12)                                  \
    }

/* n in as few parts of at most `most` as there can be, as even as can be: `longer` of them have each + 1. */
struct thin_parts {
    int count, each, longer;
};
INLINE struct thin_parts thin_parts_of(int n, int most) {
    if (n <= most) /* mostly: divisions here, and copies of products, were 4 % of decoding from bf16 in L2, in pairs */
        return (struct thin_parts){1, n, 0};
    const int count = (n + most - 1) / most;
    return (struct thin_parts){count, n / count, n % count};
}
INLINE int thin_part(const struct thin_parts *parts, int i) { return parts->each + (i < parts->longer); }

/* Tiles of a product. */
struct thin_split {
    struct thin_parts rows, vectors;
};
/* How many rows are one tall tile.  What goes into L2 alone costs little to be loaded again by another tile, but sums of a tall one
 * to be stored and loaded: by two tiles 12 rows of packed floats and bf16 take 0.90 to 0.98 of the time, 9 to 11 rows 0.93 to 0.99,
 * plain 0.87 to 0.98, in pairs 0.94 to 1.03; 7 and 8 rows of 16 bits 0.95 to 0.98, decoding from bf16 0.96 to 0.98, but 7 and 8
 * rows of floats 0.92 to 1.05, decoding from these 0.98 to 1.09, and in pairs 1.03 to 1.09 (AVX-512, Zen 4). */
INLINE int thin_tall_rows(const struct heed_thin_product *product) {
    if (product->fetch_into != HEED_INTO_L2)
        return THIN_ROWS;
    return product->type == HEED_F32 || product->pairs ? smaller(THIN_ROWS, TALL_ROWS_FROM_L2) : TILE_ROWS;
}
INLINE struct thin_split thin_split_of(const struct heed_thin_product *product, int columns) {
    const struct thin_parts parts = thin_parts_of(product->rows, product->rows <= thin_tall_rows(product) ? THIN_ROWS : TILE_ROWS);
    const int tile_rows = thin_part(&parts, 0);
    const int vectors = tile_rows > TILE_ROWS  ? TALL_VECTORS
                        : tile_rows > LOW_ROWS ? TILE_VECTORS
                        : product->paced       ? LOW_VECTORS
                                               : LOW_VECTORS_OF(tile_rows);
    return (struct thin_split){parts, thin_parts_of((columns + VF_LANES - 1) / VF_LANES, vectors)};
}

/* Rows from `from` on, columns from j on, so many tiles side by side: a call for each takes longer than four rows of a window. */
typedef void (*thin_shape)(const struct thin_window *window, int from, int j, int tiles);

/* Adds to c.  shapes: by rows and vectors, less 1. */
INLINE void thin_tiles(const thin_shape (*shapes)[THIN_MOST_VECTORS], const struct thin_split *split, struct thin_window *window) {
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

/* Into L2 alone, windows may be larger, which saves loads and stores of sums: of rows that have gaps, 8 rows times 4096 x 4096 take
 * 0.81 of the time with 16 KB, 0.73 with 32 and 0.68 with 64, 4 rows 0.84, 0.79 and 0.86 (AVX-512); by AVX2, whose tiles have
 * fewer sums, 4 to 12 rows times 4096 x 3200 0.67 to 0.84 with 32 or 64 KB, of 16 bits 0.63 to 0.88.  AVX2's tiles end within
 * lines, which those beside them read again, and of crowded rows L1 has only so many: 2 to 12 rows times 4096 x 4096 take 0.88 to
 * 0.97 with just these, of 16 bits 0.80 to 1.0, but with twice as many up to 1.26.  AVX-512's take 1.1 to 1.3 with so few.
 *
 * Of pieces without gaps at most half, so that the window after the next one lies in the same piece or at its head: from pages of
 * 32 KB, decoding takes 0.96 with 16 KB, 1.2 with 32.  More than 8 rows of packed floats take 0.96 with 64 KB, of 16 bits 0.98 to
 * 1.0, fewer as long.  AVX2's 6 and 12 rows take 0.96 to 1.02 with 16 KB; with 32 and 64 12 rows take 0.96, but 8 rows 1.02 to
 * 1.15, and decoding with 12 rows to a key/value head 1.02 to 1.05.  Heads side by side have short rows: from bf16 1.0 to 1.04 with
 * 8 KB, 1.1 with 16, 1.17 to 1.3 with 32 (all of this on Zen 4). */
INLINE int64_t thin_window_bytes(const struct heed_thin_product *product) {
    const bool gaps = product->ldb != product->columns, wide = VF_LANES == HEED_LINE;
    const int64_t row_bytes = product->columns * type_bytes(product->type);
    if (product->fetch_into != HEED_INTO_L2)
        return product->rows > THIN_ROWS ? LONG_WINDOW_BYTES : WINDOW_BYTES;
    if (!gaps) {
        const bool many = product->rows > (wide ? TALL_ROWS_FROM_L2 : LOW_ROWS);
        const int windows = wide ? (many ? 8 : 2) : (many ? 2 : 1);
        return max_i64(WINDOW_BYTES, min_i64(windows * WINDOW_BYTES, product->k * row_bytes / 2));
    }
    if (row_bytes < (product->type == HEED_I8 ? LONG_ROW_I8 : LONG_ROW_BYTES))
        return WINDOW_BYTES;
    if (!wide && product->crowded)
        return max_i64(WINDOW_BYTES, CROWDED_LINES * row_bytes);
    return product->rows > LOW_ROWS ? 8 * WINDOW_BYTES : 4 * WINDOW_BYTES;
}

/* Rows of a window.  Long ones come by four, so that sums are not loaded and stored too often; but of floats from far away that are
 * fetched into L1 alone two fill enough of it: 1 to 4 rows times 4096 x 4096 take 0.7 to 0.85 of the time, from L3 1.2 of it.
 * Windows are as even as may be, for a short last one would fetch no more of what comes next: decoding from bf16 in memory, heads
 * of 72 to 112 elements, takes 0.8 to 0.9 of the time, from floats, of 72, 80 and 112, 0.93 to 0.96 (Zen 5). */
INLINE int64_t thin_window_rows(const struct heed_thin_product *product, bool once) {
    const int64_t row_bytes = product->columns * type_bytes(product->type);
    const bool long_floats = product->type == HEED_F32 && row_bytes >= WINDOW_BYTES / 2;
    const int steps = thin_steps(product->type), least = once && product->far && long_floats ? 2 : 4;
    const int64_t bytes = thin_window_bytes(product);
    const int64_t in_window = row_bytes < bytes ? bytes / row_bytes : 1;
    const int64_t most = max_i64(larger(least, steps), in_window / steps * steps);
    return product->k > most ? round_up(ceil_div(product->k, ceil_div(product->k, most)), steps) : most;
}

/* One tile has all rows, and lines go into L1 alone. */
INLINE bool thin_fetches_once(const struct heed_thin_product *product, const struct thin_split *split) {
    return product->fetch_into == HEED_INTO_L1 && VF_LANES == HEED_LINE && split->rows.count == 1;
}

/* From row `row` of b on, at most `rows` of them, which are as many as are on their way; or, if it is long, all but the last ones,
 * for a tile that has all columns may go on while what it fetches moves along: 4 rows times packed bf16 from L2 take 0.95 of the
 * time so, from memory 0.98, one token with 8 heads of 1024 keys 0.98 (Zen 5). */
INLINE struct thin_window thin_window_at(const struct heed_thin_product *product, int64_t row, int64_t rows, bool once,
                                         bool is_long) {
    const int64_t left = product->k - row, all_but_last = round_up(left - rows, thin_steps(product->type));
    struct thin_window window = {
        .k = min_i64(left, is_long ? max_i64(rows, all_but_last) : rows),
        .a = product->a + row,
        .lda = product->lda,
        .b = type_at(product->type, product->b, row * product->ldb),
        .ldb = product->ldb,
        .c = product->c,
        .ldc = product->ldc,
        .pairs = product->pairs,
        .continues = product->continues || row > 0,
        .paced = product->paced,
        .into_l2 = product->fetch_into == HEED_INTO_L2 || (product->crowded && 2 * rows > CROWDED_LINES),
    };
    window.ahead = thin_ahead_at(product, row + min_i64(left, rows));
    const struct thin_ahead further = once ? (struct thin_ahead){0, 0} : thin_ahead_at(product, row + window.k + rows);
    window.further = further.data ? further.data - window.ahead.data : 0;
    return window;
}

INLINE bool thin_has_gaps(const struct heed_thin_product *product) { return product->ldb != product->columns; }

/* Panel by panel, each as a product of its own. */
INLINE void thin_each_panel(void (*of_panel)(const struct heed_thin_product *product), const struct heed_thin_product *product) {
    const bool gaps = thin_has_gaps(product);
    if (product->more_panels == 0) { /* mostly; without a copy */
        of_panel(product);
        return;
    }
    struct heed_thin_product panel = *product;
    for (int i = 0; i <= product->more_panels; i++) {
        const char *other = type_at(product->type, panel.b, product->b_step);
        if (gaps)
            panel.next = product->next ? type_at(product->type, product->next, i * product->b_step) : NULL;
        else
            panel.next = i < product->more_panels ? other : product->next;
        of_panel(&panel);
        panel.b = other;
        panel.a += product->a_step;
        panel.c += product->c_step;
    }
}

#endif
