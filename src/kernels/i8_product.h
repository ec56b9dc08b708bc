/* i8_rows and i8_product: rows in bytes times weights in blocks, as integers.  Contracts in src/kernels.h.
 *
 * A word, 4 bytes of a column, meets 4 of the row in one step, where floats take a conversion and a multiply-add for each byte.
 * The sums of a block are integers, and so the same in any order; they meet the chains, which wait in L1, once in 32 elements. */
#ifndef HEED_KERNELS_I8_PRODUCT_H
#define HEED_KERNELS_I8_PRODUCT_H

/* Below it 1 / scale may be infinite. */
static const float i8_least_scale = 0x1p-126f;

enum {
    I8_ROWS = 4,
    I8_SUMS = TILE_ROWS * TILE_VECTORS > 12 ? 16 : 8, /* of integers; the rest of the registers multiply */
    I8_PANEL = HEED_PANEL / VF_LANES,
    I8_VECTORS = I8_PANEL < I8_SUMS ? I8_PANEL : I8_SUMS /* of a tile, at most */
};

/* -8 times the sum of a block's integers. */
INLINE float i8_minus_8(const int8_t *q) {
    enum { BYTES = VF_LANES * WORD_BYTES, WHOLE = BYTES > TYPE_BLOCK ? BYTES : TYPE_BLOCK };
    static const int8_t ones[WORD_BYTES] = {1, 1, 1, 1};
    uint8_t bytes[WHOLE] = {0};
    float sum = 0;
    memcpy(bytes, q, TYPE_BLOCK);
    UNROLL for (int i = 0; i < WHOLE; i += BYTES) sum +=
        v_sum(v_float_of_int(v_dot_i8(v_zero_int(), v_load_int(bytes + i), v_set1_word(ones))));
    return 0.0f - 8 * sum;
}

INLINE void i8_block(const float *x, struct heed_i8_block *y) {
    const float scale = max_size(x, TYPE_BLOCK) / 127.0f;
    y->scale = scale < i8_least_scale ? i8_least_scale : scale;
    if (scale != scale)
        memset(y->q, 0, sizeof y->q);
    else
        UNROLL for (int i = 0; i < TYPE_BLOCK; i += VF_LANES) v_store_i8(y->q + i, v_mul(v_load(x + i), v_set1(1.0f / y->scale)));
    y->minus_8 = i8_minus_8(y->q);
}

INLINE void i8_row_of(const enum heed_type type, const void *x, int64_t blocks, struct heed_i8_block *y) {
    for (int64_t block = 0; block < blocks; block++) {
        float floats[TYPE_BLOCK];
        UNROLL for (int i = 0; i < TYPE_BLOCK; i += VF_LANES)
            v_store(floats + i, load_type(type, type_at(type, x, block * TYPE_BLOCK + i)));
        i8_block(floats, y + block);
    }
}

static void i8_row(const void *x, enum heed_type type, int64_t blocks, struct heed_i8_block *y) {
    WITH_TYPE(type, i8_row_of(TYPE, x, blocks, y));
}

/* A window of blocks, of which `blocks` has the panel and what is fetched. */
struct i8_window {
    struct blocks_window blocks;
    const struct heed_i8_block *a;
    int64_t lda;
};

/* The sums of a tile take in halves [from, to) of a word of each column.  A word of q4_0 has two, which meet elements TYPE_BLOCK /
 * 2 apart. */
INLINE void i8_halves(const enum heed_type type, const int from, const int to, const int rows, const int vectors,
                      vi sums[][I8_VECTORS], const int8_t *q, int64_t row_bytes, const char *words) {
    vi x[2][I8_ROWS];
    UNROLL for (int half = from; half < to; half++) UNROLL for (int i = 0; i < rows; i++) x[half][i] =
        v_set1_word(q + i * row_bytes + half * TYPE_BLOCK / 2);
    UNROLL for (int v = 0; v < vectors; v++) {
        const vi w = v_load_int((const uint8_t *)words + v * VF_LANES * WORD_BYTES);
        UNROLL for (int half = from; half < to; half++) UNROLL for (int i = 0; i < rows; i++) sums[i][v] =
            type == HEED_Q4_0 ? v_dot_u4(sums[i][v], half ? v_high4(w) : v_low4(w), x[half][i])
                              : v_dot_i8(sums[i][v], w, x[half][i]);
    }
}

/* The halves of few rows together, those of more one after the other, for want of registers. */
INLINE void i8_word(const enum heed_type type, const int rows, const int vectors, vi sums[][I8_VECTORS], const int8_t *q,
                    int64_t row_bytes, const char *words) {
    const int halves = block_halves(type);
    if (halves == 2 && rows > 2) {
        i8_halves(type, 0, 1, rows, vectors, sums, q, row_bytes, words);
        PIN(words);
        i8_halves(type, 1, 2, rows, vectors, sums, q, row_bytes, words);
    } else {
        i8_halves(type, 0, halves, rows, vectors, sums, q, row_bytes, words);
    }
}

/* A chain takes in the sum of a block, whose scale of b is d. */
INLINE vf i8_chain(const enum heed_type type, vf chain, vi sum, const struct heed_i8_block *a, vf d) {
    const vf products = type == HEED_Q4_0 ? v_add(v_float_of_int(v_dot_u4_end(sum)), v_set1(a->minus_8)) : v_float_of_int(sum);
    return v_fma(products, v_mul(v_set1(a->scale), d), chain);
}

/* The chains of a tile take in a block's sums. */
INLINE void i8_block_end(const enum heed_type type, const int rows, const int vectors, vi sums[][I8_VECTORS],
                         const struct heed_i8_block *a, int64_t lda, const uint16_t *scales, float *c) {
    UNROLL for (int v = 0; v < vectors; v++) {
        const vf d = v_widen_f16(v_load_half(scales + v * VF_LANES));
        UNROLL for (int i = 0; i < rows; i++) {
            float *const to = c + i * HEED_PANEL + v * VF_LANES;
            v_store(to, i8_chain(type, v_load(to), sums[i][v], a + i * lda, d));
        }
    }
}

/* c of rows x vectors, columns from j on. */
INLINE void i8_body(const enum heed_type type, const int rows, const int vectors, const struct i8_window *window, int j) {
    const char *block = window->blocks.packed;
    const struct heed_i8_block *a = window->a;
    const int64_t row_bytes = window->lda * (int64_t)sizeof *a;
    NO_UNROLL for (int64_t p = 0; p < window->blocks.k; block += HEED_PANEL * block_bytes(type)) {
        const char *words = block + HEED_PANEL * scale_bytes(type) + j * WORD_BYTES;
        const char *const end = words + block_words(type) * WORDS_BYTES;
        const int8_t *q = a->q;
        vi sums[I8_ROWS][I8_VECTORS];
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) sums[i][v] = v_zero_int();
        NO_UNROLL while (words < end) {
            if (window->blocks.fetches && j == 0)
                UNROLL for (int half = 0; half < block_halves(type); half++)
                    fetch_ahead(type, &window->blocks, p + half * TURN_DEPTH);
            UNROLL for (int word = 0; word < TURN_WORDS; word++) {
                i8_word(type, rows, vectors, sums, q, row_bytes, words);
                words += WORDS_BYTES;
                q += WORD_BYTES;
                PIN(words); /* else gcc loads what many words meet at once, and keeps it on the stack */
            }
            p += block_halves(type) * TURN_DEPTH;
        }
        i8_block_end(type, rows, vectors, sums, a, window->lda, (const uint16_t *)(const void *)block + j, window->blocks.c + j);
        a++;
    }
}

INLINE int i8_vectors(const int rows) {
    const int vectors = I8_SUMS / (rows == 3 ? 4 : rows);
    return vectors < I8_PANEL ? vectors : I8_PANEL;
}
#define I8_SHAPE(name, type, rows)                                                                                                 \
    NOINLINE void name##_##rows(const struct i8_window *window) {                                                                  \
        for (int j = 0; j < HEED_PANEL; j += i8_vectors(rows) * VF_LANES)                                                          \
            i8_body(type, rows, i8_vectors(rows), window, j);                                                                      \
    }
#define I8_SHAPES(name, type) I8_SHAPE(name, type, 1) I8_SHAPE(name, type, 2) I8_SHAPE(name, type, 3) I8_SHAPE(name, type, 4)
I8_SHAPES(i8_q8_0, HEED_Q8_0)
I8_SHAPES(i8_q4_0, HEED_Q4_0)

/* All rows, as evenly as may be; the first ones fetch. */
static void i8_multiply_window(enum heed_type type, const struct i8_window *whole, const struct thin_parts *rows) {
    static void (*const shapes[2][I8_ROWS])(const struct i8_window *) = {{i8_q8_0_1, i8_q8_0_2, i8_q8_0_3, i8_q8_0_4},
                                                                         {i8_q4_0_1, i8_q4_0_2, i8_q4_0_3, i8_q4_0_4}};
    struct i8_window window = *whole;
    window.blocks.fetches = true;
    for (int part = 0; part < rows->count; part++) {
        const int count = thin_part(rows, part);
        shapes[type == HEED_Q4_0][count - 1](&window);
        window.blocks.fetches = false;
        window.a += count * window.lda;
        window.blocks.c += count * HEED_PANEL;
    }
}

/* VF_LANES columns of weights as they are, each of which lies along k. */
struct i8_columns {
    const char *group[(VF_LANES + ROW_GROUP - 1) / ROW_GROUP];
    int64_t second, third; /* bytes from a group's first column */
};
INLINE const char *i8_column(const struct i8_columns *at, const int i) {
    return at->group[i / ROW_GROUP] + (i % ROW_GROUP == 0 ? 0 : i % ROW_GROUP == 1 ? at->second : at->third);
}

/* VF_PIECE words of all of them, `bytes` behind where they are: as pack_words, but in registers. */
INLINE void i8_load_words(const struct i8_columns *at, const int bytes, vf words[VF_PIECE]) {
    UNROLL for (int i = 0; i < VF_PIECE; i++) {
        const char *pieces[VF_LANES / VF_PIECE];
        UNROLL for (int j = i; j < VF_LANES; j += VF_PIECE) pieces[j / VF_PIECE] = i8_column(at, j) + bytes;
        words[i] = v_load_pieces(pieces, VF_LANES / VF_PIECE);
    }
    v_transpose_pieces(words);
}

/* c of some rows and these columns. */
INLINE void i8_columns_body(const enum heed_type type, const int rows, const struct heed_i8_product *product, int j) {
    const int64_t step = type_span(type, product->ldb);
    const struct heed_i8_block *a = product->a;
    const char *column = (const char *)product->b + j * step;
    vf chain[I8_ROWS];
    UNROLL for (int i = 0; i < rows; i++) chain[i] = v_zero();
    NO_UNROLL for (int64_t k = product->k; k > 0; k -= TYPE_BLOCK, a++, column += block_bytes(type)) {
        vi sums[I8_ROWS];
        struct i8_columns at = {.second = step, .third = 2 * step};
        UNROLL for (int g = 0; g * ROW_GROUP < VF_LANES; g++) at.group[g] = column + g * ROW_GROUP * step;
        UNROLL for (int i = 0; i < rows; i++) sums[i] = v_zero_int();
        UNROLL for (int word = 0; word < block_words(type); word += VF_PIECE) {
            vf words[VF_PIECE];
            i8_load_words(&at, scale_bytes(type) + word * WORD_BYTES, words);
            UNROLL for (int w = 0; w < VF_PIECE; w++) UNROLL for (int i = 0; i < rows; i++)
                UNROLL for (int half = 0; half < block_halves(type); half++) {
                const vi x = v_set1_word(a[i * product->lda].q + half * TYPE_BLOCK / 2 + (word + w) * WORD_BYTES),
                         b = v_bits(words[w]);
                sums[i] = type == HEED_Q4_0 ? v_dot_u4(sums[i], half ? v_high4(b) : v_low4(b), x) : v_dot_i8(sums[i], b, x);
            }
        }
        const vf d = v_widen_f16(v_load_half_apart(column, step));
        UNROLL for (int i = 0; i < rows; i++) chain[i] = i8_chain(type, chain[i], sums[i], a + i * product->lda, d);
    }
    UNROLL for (int i = 0; i < rows; i++) v_store(product->c + i * HEED_PANEL + j, chain[i]);
}

#define I8_COLUMNS(name, type, rows)                                                                                               \
    NOINLINE void name##_##rows(const struct heed_i8_product *product) {                                                           \
        for (int j = 0; j < product->columns; j += VF_LANES)                                                                       \
            i8_columns_body(type, rows, product, j);                                                                               \
    }
I8_COLUMNS(i8_columns_q8_0, HEED_Q8_0, 1)
I8_COLUMNS(i8_columns_q8_0, HEED_Q8_0, 2)
I8_COLUMNS(i8_columns_q8_0, HEED_Q8_0, 3)
I8_COLUMNS(i8_columns_q8_0, HEED_Q8_0, 4)
I8_COLUMNS(i8_columns_q4_0, HEED_Q4_0, 1)
I8_COLUMNS(i8_columns_q4_0, HEED_Q4_0, 2)
I8_COLUMNS(i8_columns_q4_0, HEED_Q4_0, 3)
I8_COLUMNS(i8_columns_q4_0, HEED_Q4_0, 4)

static void i8_columns(const struct heed_i8_product *product) {
    static void (*const shapes[2][I8_ROWS])(const struct heed_i8_product *) = {
        {i8_columns_q8_0_1, i8_columns_q8_0_2, i8_columns_q8_0_3, i8_columns_q8_0_4},
        {i8_columns_q4_0_1, i8_columns_q4_0_2, i8_columns_q4_0_3, i8_columns_q4_0_4}};
    shapes[product->type == HEED_Q4_0][product->rows - 1](product);
}

static void i8_windows(const struct heed_i8_product *product) {
    float packed[WINDOW_FLOATS] __attribute__((aligned(64)));
    const enum heed_type type = product->type;
    const struct thin_parts rows = thin_parts_of(product->rows, I8_ROWS);
    struct i8_window window = {
        .blocks = {.step = type_span(type, product->ldb), .c = product->c, .fetch_once = product->fetch_once}, .lda = product->lda};
    memset(product->c, 0, (size_t)(product->rows * HEED_PANEL) * sizeof *product->c);
    for (int64_t start = 0; start < product->k; start += block_window(type)) {
        window.blocks.k = min_i64(block_window(type), product->k - start);
        window.a = product->a + start / TYPE_BLOCK;
        if (product->packed) {
            window.blocks.packed = (const char *)product->packed + HEED_PANEL * type_span(type, start);
        } else {
            const char *columns = type_at(type, product->b, start), *const next = product->next ? product->next : columns;
            pack_blocks(columns, type, product->ldb, window.blocks.k, product->columns, packed);
            window.blocks.packed = (const char *)packed;
            window.blocks.next = start + window.blocks.k < product->k ? type_at(type, columns, window.blocks.k) : next;
        }
        i8_multiply_window(type, &window, &rows);
    }
}

/* Few rows and whole vectors of columns: some columns at a time, along k, for prefetchers follow few streams. */
static void i8_product(const struct heed_i8_product *product) {
    if (product->packed || product->rows > I8_ROWS || product->columns % VF_LANES)
        i8_windows(product);
    else
        i8_columns(product);
}

#endif
