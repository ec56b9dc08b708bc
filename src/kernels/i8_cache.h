/* Rows in bytes times keys or values of a cache of bytes, as integers.  Contract in src/kernels.h, struct heed_i8_cache_product.
 *
 * In a cache a row has one element of many columns, where a step of a sum wants 4 elements of each: 4 rows are turned, which takes
 * 8 operations for as many columns as 4 vectors have words, and then 4 products for each row of a; as floats the same takes 32
 * operations and 16 for each row. */
#ifndef HEED_KERNELS_I8_CACHE_H
#define HEED_KERNELS_I8_CACHE_H

enum {
    I8_CACHE_COLUMNS = WORD_BYTES * VF_LANES, /* of a tile: its words are as many vectors as a word has bytes */
    I8_CACHE_ROWS = FEW_REGISTERS ? 2 : 4,
    /* Bytes: how far ahead is what is fetched first, and what is fetched into L2 beyond that.  From memory 8 KB take 1.02 of the
     * time, 16 KB 1.07, L1 alone 1.13, and no fetches 1.35 (Emerald Rapids, 32768 keys). */
    I8_CACHE_AHEAD = 4096,
    /* Columns that take in a block before the next one, for memory is read best in its order: heads of 128 from there take 0.95 of
     * the time of one tile after another. */
    I8_CACHE_ACROSS = 256
};
_Static_assert((int)I8_CACHE_ROWS <= (int)I8_ROWS, "rows of a tile are no more than others'");

/* Columns from j on of rows from `row` on; ahead: rows of b after which lines are fetched, 0: nothing is. */
struct i8_cache_tile {
    const struct heed_i8_cache_product *product;
    int row, j, ahead;
};

/* Where rows of a tile's columns are: the next one, and what is fetched beside it, 0: nothing; up to which row both go on so, and
 * where the piece ends. */
struct i8_cache_rows {
    const char *b;
    uintptr_t fetch;
    int until, piece_end;
};

/* From row p on.  What is fetched lies tile->ahead rows further in the piece, or as far in what is read after it. */
INLINE struct i8_cache_rows i8_cache_rows_at(const struct i8_cache_tile *tile, int p) {
    const struct heed_i8_cache_product *product = tile->product;
    const int number = p >> __builtin_ctz((unsigned)product->piece), first = p & -product->piece;
    const int in_piece = smaller(product->piece, product->end - first), ahead = p - first + tile->ahead;
    const bool last = first + in_piece >= product->end, within = ahead < in_piece;
    const char *piece = (const char *)product->pieces[number] + tile->j;
    const uintptr_t next = within ? (uintptr_t)piece : (uintptr_t)(last ? product->next : product->pieces[number + 1]);
    return (struct i8_cache_rows){
        .b = piece + (p - first) * product->ldb,
        .fetch = tile->ahead && next ? next + (uintptr_t)((within ? ahead : ahead - in_piece) * product->ldb) : 0,
        .until = first + in_piece - (within ? tile->ahead : 0),
        .piece_end = first + in_piece};
}

/* A line of each of 4 rows into L1, and into L2 what lies as far behind it.  Where all goes into L2, into that, and so twice, for
 * of what is asked for once some is not fetched: decoding 32768 keys from memory with 32, 16 and 8 heads of 128 on 8 takes 0.72 to
 * 0.84 of the time so, with heads of 64 0.89 to 0.94, 4 tokens 0.95, pages of 64 tokens 0.80, of 16 1.10, 4096 keys from L3 1.06,
 * with 64 tokens 1.03; once, 8 KB ahead, 0.87 to 0.97, 4 KB ahead 0.97 to 1.07, and without fetches 1.0 to 1.2 (Zen 4). */
INLINE void i8_cache_fetch(const enum heed_fetch_into into, int64_t ldb, uintptr_t at) {
    UNROLL for (int u = 0; u < WORD_BYTES; u++) {
        const char *line = (const char *)(at + (uintptr_t)(u * ldb));
        if (into == HEED_INTO_L2)
            __builtin_prefetch(line, 0, 2);
        else
            __builtin_prefetch(line, 0, 3);
        if (into != HEED_INTO_L1)
            __builtin_prefetch(line + I8_CACHE_AHEAD, 0, 2);
    }
}

/* 4 rows from p on as words; where a has zeros before `begin` and from `end` on, another row's bytes stand for theirs. */
INLINE void i8_cache_words(const bool whole, const struct heed_i8_cache_product *product, const char *b, int p,
                           vi words[WORD_BYTES]) {
    UNROLL for (int u = 0; u < WORD_BYTES; u++) {
        const int row = whole ? u : larger(product->begin - p, smaller(u, product->end - 1 - p));
        words[u] = v_load_int((const uint8_t *)b + row * product->ldb);
    }
    v_turn_bytes(words);
    UNROLL for (int u = 0; u < WORD_BYTES; u++) words[u] = I8_RAISE(words[u]);
}

/* The sums of a tile take in rows [p, end), within a piece; q: of a's first row. */
INLINE void i8_cache_sum(const int rows, const bool whole, const enum heed_fetch_into into,
                         const struct heed_i8_cache_product *product, struct i8_cache_rows *at, const int8_t *q, int p, int end,
                         vi sums[][WORD_BYTES]) {
    const int64_t row_bytes = product->lda * (int64_t)sizeof *product->a, ldb = product->ldb;
    const char *b = at->b;
    uintptr_t fetch = at->fetch;
    NO_UNROLL for (; p < end; p += WORD_BYTES) {
        vi words[WORD_BYTES];
        if (fetch) {
            i8_cache_fetch(into, ldb, fetch);
            fetch += (uintptr_t)(WORD_BYTES * ldb);
        }
        i8_cache_words(whole, product, b, p, words);
        UNROLL for (int i = 0; i < rows; i++) {
            const vi x = v_set1_word(q + i * row_bytes);
            UNROLL for (int v = 0; v < WORD_BYTES; v++) sums[i][v] = I8_DOT(sums[i][v], words[v], x);
        }
        b += WORD_BYTES * ldb;
        q += WORD_BYTES;
    }
    at->b = b;
    at->fetch = fetch;
}

/* The chains of a tile take in rows [p, end) of b, which are all of a block of a, or of what it has.  A block has 8 turns of the
 * inner loop, so that finding out anew for each where its rows are, and where what is fetched, takes 1.04 of the time from caches
 * (Zen 4). */
INLINE void i8_cache_block(const int rows, const bool whole, const enum heed_fetch_into into, const struct i8_cache_tile *tile,
                           struct i8_cache_rows *at, int p, int end, float *chain) {
    const struct heed_i8_cache_product *product = tile->product;
    const int64_t lda = product->lda;
    const struct heed_i8_block *a = product->a + tile->row * lda + p / TYPE_BLOCK;
    const int8_t *q = a->q + p % TYPE_BLOCK;
    vi sums[I8_CACHE_ROWS][WORD_BYTES];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < WORD_BYTES; v++) sums[i][v] = i8_start(HEED_Q8_0, a + i * lda);
    NO_UNROLL for (int stop; p < end; q += stop - p, p = stop) {
        if (p >= at->until)
            *at = i8_cache_rows_at(tile, p);
        stop = smaller(end, at->piece_end);
        i8_cache_sum(rows, whole, into, product, at, q, p, stop, sums);
    }
    PIN(chain); /* else gcc keeps chains in registers, and sums on the stack */
    UNROLL for (int i = 0; i < rows; i++) {
        const vf scale = v_set1(a[i * lda].scale);
        UNROLL for (int v = 0; v < WORD_BYTES; v++) {
            float *const to = chain + i * I8_CACHE_COLUMNS + v * VF_LANES;
            v_store(to, v_fma(v_float_of_int(sums[i][v]), scale, v_load(to)));
        }
    }
}

/* The chains of a tile, whose columns are turned, go to c. */
INLINE void i8_cache_end(const int rows, const struct i8_cache_tile *tile, const float *chains) {
    const struct heed_i8_cache_product *product = tile->product;
    UNROLL for (int i = 0; i < rows; i++) {
        float *const c = product->c + (tile->row + i) * product->ldc + tile->j;
        vf x[WORD_BYTES];
        UNROLL for (int v = 0; v < WORD_BYTES; v++) x[v] = v_load(chains + i * I8_CACHE_COLUMNS + v * VF_LANES);
        v_in_order(x);
        UNROLL for (int v = 0; v < WORD_BYTES; v++) if (tile->j + v * VF_LANES < product->columns) v_store(c + v * VF_LANES, x[v]);
    }
}

/* Tiles side by side, of columns from `first` on, block by block. */
INLINE void i8_cache_across(const int rows, const enum heed_fetch_into into, struct i8_cache_tile *tile, int first, int columns) {
    const struct heed_i8_cache_product *product = tile->product;
    float chains[I8_CACHE_ROWS * I8_CACHE_ACROSS] __attribute__((aligned(64)));
    struct i8_cache_rows at[I8_CACHE_ACROSS / I8_CACHE_COLUMNS];
    for (int j = 0; j < columns; j += I8_CACHE_COLUMNS)
        at[j / I8_CACHE_COLUMNS].until = 0;
    memset(chains, 0, (size_t)(rows * round_up(columns, I8_CACHE_COLUMNS)) * sizeof *chains);
    for (int p = product->begin / WORD_BYTES * WORD_BYTES, end; p < product->end; p = end) {
        end = smaller(product->end, p / TYPE_BLOCK * TYPE_BLOCK + TYPE_BLOCK);
        for (int j = 0; j < columns; j += I8_CACHE_COLUMNS) {
            tile->j = first + j;
            if (p >= product->begin && end % WORD_BYTES == 0)
                i8_cache_block(rows, true, into, tile, &at[j / I8_CACHE_COLUMNS], p, end, chains + rows * j);
            else
                i8_cache_block(rows, false, into, tile, &at[j / I8_CACHE_COLUMNS], p, end, chains + rows * j);
        }
    }
    for (int j = 0; j < columns; j += I8_CACHE_COLUMNS) {
        tile->j = first + j;
        i8_cache_end(rows, tile, chains + rows * j);
    }
}

/* Into one cache alone only where that is known to be better.  Each way is code of its own: with all three in one function gcc kept
 * sums on the stack, and 4096 keys from L3 took 1.15 of the time, with 64 tokens 1.13 (Zen 4). */
INLINE enum heed_fetch_into i8_cache_into(const enum heed_fetch_into into) {
    const bool knows = (into == HEED_INTO_L1 && I8_ONCE) || (into == HEED_INTO_L2 && I8_INTO_L2);
    return knows ? into : HEED_INTO_L1_AND_L2;
}
#define I8_CACHE_SHAPE(name, into, rows)                                                                                           \
    NOINLINE void name##_##rows(struct i8_cache_tile *tile, int first, int columns) {                                              \
        if (i8_cache_into(into) == (into))                                                                                         \
            i8_cache_across(rows <= I8_CACHE_ROWS ? rows : 1, into, tile, first, columns);                                         \
    }
#define I8_CACHE_SHAPES(name, into)                                                                                                \
    I8_CACHE_SHAPE(name, into, 1)                                                                                                  \
    I8_CACHE_SHAPE(name, into, 2) I8_CACHE_SHAPE(name, into, 3) I8_CACHE_SHAPE(name, into, 4)
I8_CACHE_SHAPES(i8_cache, HEED_INTO_L1_AND_L2)
I8_CACHE_SHAPES(i8_cache_into_l1, HEED_INTO_L1)
I8_CACHE_SHAPES(i8_cache_into_l2, HEED_INTO_L2)

/* The first rows fetch. */
static void i8_cache_product(const struct heed_i8_cache_product *product) {
    static void (*const shapes[][I8_ROWS])(struct i8_cache_tile *, int, int) = {[HEED_INTO_L1_AND_L2] = I8_NAMES(i8_cache),
                                                                                [HEED_INTO_L1] = I8_NAMES(i8_cache_into_l1),
                                                                                [HEED_INTO_L2] = I8_NAMES(i8_cache_into_l2)};
    const enum heed_fetch_into into = i8_cache_into(product->fetch_into);
    struct i8_cache_tile tile = {.product = product};
    for (int first = 0; first < product->columns; first += I8_CACHE_ACROSS) {
        tile.ahead = larger(1, I8_CACHE_AHEAD / (int)product->ldb);
        for (int rows = tile.row = 0; tile.row < product->rows; tile.row += rows) {
            rows = i8_part(product->rows - tile.row, I8_CACHE_ROWS);
            shapes[into][rows - 1](&tile, first, smaller(I8_CACHE_ACROSS, product->columns - first));
            tile.ahead = 0;
        }
    }
}

#endif
