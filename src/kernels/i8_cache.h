/* Rows in bytes times keys or values of a cache of bytes, as integers.  Contract in src/contracts/i8.h, struct
 * heed_i8_cache_product.
 *
 * In a cache a row has one element of many columns, where a step of a sum wants 4 elements of each: 4 rows are transposed, which
 * takes 8 operations for as many columns as 4 vectors have words, and then 4 products for each row of a; as floats the same takes
 * 32 operations and 16 for each row.
 *
 * Transposed, a tile's words are 4 vectors, whose sums would fill the registers.  So half of them are made and multiplied at a
 * time, and the chains of these stay in registers, too: a stretch of rows for one half, and again, from L1, for the other.  With
 * chains in L1, where they are loaded and stored for each block, a token from caches took 1.2 of the time (AVX-512, Zen 4).  Where
 * registers are few, words are made once for four rows instead of two. */
#ifndef HEED_KERNELS_I8_CACHE_H
#define HEED_KERNELS_I8_CACHE_H

enum {
    I8_CACHE_COLUMNS = WORD_BYTES * VF_LANES, /* of a tile: its words are as many vectors as a word has bytes */
    I8_CACHE_ROWS = 4,
    I8_CACHE_VECTORS = I8_HELD_VECTORS, /* of a half */
    I8_CACHE_HOLDS = !FEW_REGISTERS,    /* chains */
    /* Rows of a stretch.  With 64 from caches 1.04 of the time, with 32 1.15 (Zen 4).  Where what is read next is known no further
     * than a page, SHORT: with pages of 64 tokens, from memory, 128 rows take 1.2 of its time. */
    I8_CACHE_STRETCH = I8_CACHE_HOLDS ? 128 : TYPE_BLOCK,
    I8_CACHE_SHORT = I8_CACHE_HOLDS ? 64 : TYPE_BLOCK,
    /* Rows: how far ahead is what is fetched from memory, where it lies in order.  With 128 1.06 to 1.3 of the time, with 192 1.03
     * to 1.1, with 384 1.0 to 1.03 (Zen 4). */
    I8_CACHE_AHEAD = 256,
    /* Columns that take in a stretch before the next one, for memory is read best in its order. */
    I8_CACHE_ACROSS = 256
};
_Static_assert((int)I8_CACHE_ROWS <= (int)I8_ROWS && 2 * (int)I8_CACHE_VECTORS == (int)WORD_BYTES, "a tile's sums have room");

/* Columns from j on of rows of a from `row` on. */
struct i8_cache_tile {
    const struct heed_i8_cache_product *product;
    int row, j;
    bool fetches;
};

/* Row p of b, or as far behind its end in what is read after it; 0: nothing is. */
INLINE uintptr_t i8_cache_row(const struct heed_i8_cache_product *product, int p) {
    const int piece = product->piece, beyond = p - product->end;
    if (beyond < 0)
        return (uintptr_t)product->pieces[p >> __builtin_ctz((unsigned)piece)] + (uintptr_t)((p & (piece - 1)) * product->ldb);
    return product->next ? (uintptr_t)product->next + (uintptr_t)(beyond * product->ldb) : 0;
}

/* Rows of b that a half takes, and what is fetched meanwhile, line by line, 0: nothing.  `far` comes from memory, into L2.  Where
 * that is all, some of what is asked for is not fetched, so it is asked for `again`: from memory 0.9 of the time, 4096 keys 0.94,
 * from L3 1.05; and `near`, which is read next, into L1, would take 1.01 (Zen 4). */
struct i8_cache_stretch {
    int begin, end;
    bool whole; /* begins with a block, lies in one piece, and has whole words */
    uintptr_t b, far, again, near;
};

/* Half of the lines of 4 rows, for the other half of a tile asks for the rest: all of them beside one half take 1.02 to 1.18 of the
 * time from memory (Zen 4). */
INLINE void i8_cache_fetch(const int half, const bool into_l1, int64_t ldb, uintptr_t *rows) {
    if (!*rows)
        return;
    UNROLL for (int u = 2 * half; u < 2 * half + 2; u++) fetch_line(*rows + (uintptr_t)(u * ldb), into_l1);
    *rows += (uintptr_t)(WORD_BYTES * ldb);
}

/* A half of 4 rows from p on as words; where a has zeros before `begin` and from `end` on, another row's bytes stand for theirs. */
INLINE void i8_cache_words(const bool whole, const int half, const struct heed_i8_cache_product *product, const uint8_t *b, int p,
                           vi words[I8_CACHE_VECTORS]) {
    vi rows[WORD_BYTES];
    UNROLL for (int u = 0; u < WORD_BYTES; u++) {
        const int row = whole ? u : larger(product->begin - p, smaller(u, product->end - 1 - p));
        rows[u] = v_load_int(b + row * product->ldb);
    }
    v_transpose_bytes(rows);
    UNROLL for (int v = 0; v < I8_CACHE_VECTORS; v++) words[v] = rows[half * I8_CACHE_VECTORS + v];
}

/* The sums of a half take in 4 rows of the stretch, which goes on behind them; q: of a's first row.  What multiplies bytes without
 * sign by bytes with one takes a for the former where it is positive, so that nothing is to be raised, or to change signs. */
INLINE void i8_cache_turn(const bool positive, const int rows, const bool whole, const int half, const struct i8_cache_tile *tile,
                          struct i8_cache_stretch *at, const int8_t *q, vi sums[][I8_CACHE_VECTORS]) {
    const struct heed_i8_cache_product *product = tile->product;
    const int64_t ldb = product->ldb, row_bytes = product->lda * (int64_t)sizeof *product->a;
    vi words[I8_CACHE_VECTORS];
    if (!whole)
        at->b = i8_cache_row(product, at->begin) + (uintptr_t)tile->j;
    i8_cache_fetch(half, false, ldb, &at->far);
    i8_cache_fetch(half, false, ldb, &at->again);
    i8_cache_fetch(half, true, ldb, &at->near);
    i8_cache_words(whole, half, product, (const uint8_t *)at->b, at->begin, words);
    UNROLL for (int v = 0; v < I8_CACHE_VECTORS && !positive; v++) words[v] = I8_RAISE(words[v]);
    UNROLL for (int i = 0; i < rows; i++) {
        /* Pinned: gcc 12 else copies sums back and forth, which takes 1.05 of the time. */
        const vi x = v_bits(v_pin(v_of_bits(v_set1_word(q + i * row_bytes))));
        UNROLL for (int v = 0; v < I8_CACHE_VECTORS; v++) sums[i][v] =
            positive ? I8_DOT_U7(sums[i][v], x, words[v]) : I8_DOT(sums[i][v], words[v], x);
    }
    at->b += (uintptr_t)(WORD_BYTES * ldb);
    at->begin += WORD_BYTES;
}

/* As i8_start: by vectors, for gcc 12 else takes the integers through mask registers. */
INLINE vi i8_cache_start(const struct heed_i8_block *a) {
    _Static_assert(I8_RAISED == 0 || I8_RAISED == 8 << 4, "so many times what blocks have");
    return I8_RAISED > 0 ? v_shift(v_set1_word((const int8_t *)&a->minus_8), 4) : v_zero_int();
}

/* The chains of a half take in a stretch, block by block of a, or what of a block there is. */
INLINE void i8_cache_half(const bool positive, const int rows, const bool whole, const int half, const struct i8_cache_tile *tile,
                          struct i8_cache_stretch at, float *c) {
    const int64_t lda = tile->product->lda;
    const struct heed_i8_block *a = tile->product->a + tile->row * lda + at.begin / TYPE_BLOCK;
    struct i8_chains chains;
    c += half * I8_CACHE_VECTORS * VF_LANES;
    i8_chains_begin(I8_CACHE_HOLDS, rows, c, &chains);
    NO_UNROLL for (; at.begin < at.end; a++) {
        const int in_block = whole ? 0 : at.begin % TYPE_BLOCK;
        const int8_t *q = a->q + in_block, *const stop = q + smaller(TYPE_BLOCK - in_block, at.end - at.begin);
        vi sums[I8_CACHE_ROWS][I8_CACHE_VECTORS];
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < I8_CACHE_VECTORS; v++) sums[i][v] =
            positive ? v_zero_int() : i8_cache_start(a + i * lda);
        NO_UNROLL for (; q < stop; q += WORD_BYTES) i8_cache_turn(positive, rows, whole, half, tile, &at, q, sums);
        UNROLL for (int i = 0; i < rows; i++) {
            const vf scale = v_set1(a[i * lda].scale);
            UNROLL for (int v = 0; v < I8_CACHE_VECTORS; v++)
                i8_chains_set(I8_CACHE_HOLDS, &chains, c, i, v,
                              v_fma(v_float_of_int(sums[i][v]), scale, i8_chains_get(I8_CACHE_HOLDS, &chains, c, i, v)));
        }
    }
    i8_chains_end(I8_CACHE_HOLDS, rows, &chains, c);
}

INLINE void i8_cache_halves(const bool positive, const int rows, const bool whole, const struct i8_cache_tile *tile,
                            const struct i8_cache_stretch *at, float *c) {
    UNROLL for (int half = 0; half < 2; half++) i8_cache_half(positive, rows, whole, half, tile, *at, c);
}

/* The chains of a tile, whose columns are in the order of v_transpose_bytes, go to c. */
INLINE void i8_cache_end(const int rows, const struct i8_cache_tile *tile, const float *chains) {
    const struct heed_i8_cache_product *product = tile->product;
    UNROLL for (int i = 0; i < rows; i++) {
        float *const c = product->c + (tile->row + i) * product->ldc + tile->j;
        vf x[WORD_BYTES];
        UNROLL for (int v = 0; v < WORD_BYTES; v++) x[v] = v_load(chains + i * HEED_PANEL + v * VF_LANES);
        v_in_order(x);
        UNROLL for (int v = 0; v < WORD_BYTES; v++) if (tile->j + v * VF_LANES < product->columns) v_store(c + v * VF_LANES, x[v]);
    }
}

/* The stretch from row p on, of all columns; what a ragged begin or end leaves of a block is one of its own. */
INLINE struct i8_cache_stretch i8_cache_stretch_at(const struct heed_i8_cache_product *product, int p) {
    const int longest = product->in_order ? I8_CACHE_STRETCH : I8_CACHE_SHORT;
    const int most = p < product->begin ? TYPE_BLOCK : smaller(longest, larger(TYPE_BLOCK, product->piece));
    const int stop = smaller(product->end, (p & -most) + most);
    struct i8_cache_stretch at = {.begin = p, .end = stop % WORD_BYTES && stop - p > TYPE_BLOCK ? stop & -TYPE_BLOCK : stop};
    at.whole = p >= product->begin && p % TYPE_BLOCK == 0 && at.end % WORD_BYTES == 0 && product->piece >= TYPE_BLOCK;
    at.b = i8_cache_row(product, p);
    if (product->fetch_into != HEED_INTO_L2)
        at.near = i8_cache_row(product, at.end);
    if (product->fetch_into == HEED_INTO_L1)
        return at;
    const int ahead = product->in_order ? I8_CACHE_AHEAD : smaller(product->piece, product->end);
    at.far = i8_cache_row(product, p + ahead);
    at.again = product->leaves_l2 ? i8_cache_row(product, p + ahead / 2) : 0;
    return at;
}

/* Of a tile's columns, from j on.  Some tiles share lines, which are fetched once. */
INLINE struct i8_cache_stretch i8_cache_of_tile(const struct i8_cache_stretch *all, const struct i8_cache_tile *tile, int after) {
    struct i8_cache_stretch at = *all;
    const bool fetches = tile->fetches && tile->j % LINE_BYTES == 0;
    const uintptr_t j = (uintptr_t)tile->j;
    at.b += j;
    at.far = fetches && all->far ? all->far + j : 0;
    at.again = fetches && all->again ? all->again + j : 0;
    at.near = !fetches || !all->near ? 0 : tile->j + LINE_BYTES < after ? all->b + j + LINE_BYTES : all->near;
    return at;
}

/* Where the chains of a tile are, of so many rows. */
INLINE float *i8_cache_chains(float *chains, const int rows, int j) { return chains + rows * (j & -HEED_PANEL) + j % HEED_PANEL; }

/* Tiles side by side, of columns from `first` on, stretch by stretch. */
INLINE void i8_cache_across(const bool positive, const int rows, struct i8_cache_tile *tile, int first, int columns) {
    const struct heed_i8_cache_product *product = tile->product;
    float chains[I8_CACHE_ROWS * I8_CACHE_ACROSS] __attribute__((aligned(64)));
    struct i8_cache_stretch all;
    memset(chains, 0, (size_t)(rows * round_up(columns, HEED_PANEL)) * sizeof *chains);
    for (int p = product->begin & -WORD_BYTES; p < product->end; p = all.end) {
        all = i8_cache_stretch_at(product, p);
        for (int j = 0; j < columns; j += I8_CACHE_COLUMNS) {
            float *const c = i8_cache_chains(chains, rows, j);
            tile->j = first + j;
            const struct i8_cache_stretch at = i8_cache_of_tile(&all, tile, first + columns);
            if (all.whole)
                i8_cache_halves(positive, rows, true, tile, &at, c);
            else
                i8_cache_halves(positive, rows, false, tile, &at, c);
        }
    }
    for (int j = 0; j < columns; j += I8_CACHE_COLUMNS) {
        tile->j = first + j;
        i8_cache_end(rows, tile, i8_cache_chains(chains, rows, j));
    }
}

#define I8_CACHE_SHAPE(name, positive, rows)                                                                                       \
    NOINLINE void name##_##rows(struct i8_cache_tile *tile, int first, int columns) {                                              \
        i8_cache_across(positive, rows, tile, first, columns);                                                                     \
    }
#define I8_CACHE_SHAPES(name, positive)                                                                                            \
    I8_CACHE_SHAPE(name, positive, 1)                                                                                              \
    I8_CACHE_SHAPE(name, positive, 2) I8_CACHE_SHAPE(name, positive, 3) I8_CACHE_SHAPE(name, positive, 4)
I8_CACHE_SHAPES(i8_cache, false)
I8_CACHE_SHAPES(i8_cache_positive, true)

/* The first rows fetch. */
static void i8_cache_product(const struct heed_i8_cache_product *product) {
    static void (*const shapes[2][I8_CACHE_ROWS])(struct i8_cache_tile *, int, int) = {I8_NAMES(i8_cache),
                                                                                       I8_NAMES(i8_cache_positive)};
    struct i8_cache_tile tile = {.product = product};
    for (int first = 0; first < product->columns; first += I8_CACHE_ACROSS) {
        tile.fetches = true;
        for (int rows = tile.row = 0; tile.row < product->rows; tile.row += rows) {
            rows = i8_part(product->rows - tile.row, I8_CACHE_ROWS);
            shapes[product->positive][rows - 1](&tile, first, smaller(I8_CACHE_ACROSS, product->columns - first));
            tile.fetches = false;
        }
    }
}

#endif
