/* thin_blocks of one or two rows and blocks as they are, where registers are few.  Contract in src/contracts/thin.h.
 *
 * Blocks become words, floats and products in registers, along k, by 6.5 instructions for a vector of one row; as windows that are
 * packed into L1 and read by tiles, by 10.  Of the time that those take, from memory and from caches, q8_0 takes 0.71 to 0.86, two
 * rows 0.74 to 0.83, q4_0 0.64 to 1.04, two rows 0.54 to 0.84 (768 x 768, 4096 x 4096, 8192 x 2048; AVX2, Zen 3). */
#ifndef HEED_KERNELS_THIN_COLUMNS_H
#define HEED_KERNELS_THIN_COLUMNS_H

enum {
    COLUMNS_ROWS = 2, /* at most; with 4, q8_0 takes 0.95 of the time that it takes by windows, q4_0 1.1 to 1.2 */
    /* One chain of a row would wait for itself; with three, words lie on the stack, and it takes 1.3 times as long. */
    COLUMNS_VECTORS = 2
};

/* A block of each column of some vectors: where it is, and what it begins with. */
struct scaled_columns {
    struct block_columns at[COLUMNS_VECTORS];
    vf scale[COLUMNS_VECTORS];
    vi fifths[COLUMNS_VECTORS];
};

/* Chains take in the elements of one word, from element p on; of q4_0's, a half. */
INLINE void columns_word(const enum heed_type type, const int rows, const int vectors, vf chains[][COLUMNS_VECTORS],
                         const struct tile_rows *a, const struct scaled_columns *columns, vf words[COLUMNS_VECTORS][VF_PIECE],
                         const int w, const int half, const int p) {
    UNROLL for (int byte = 0; byte < WORD_BYTES; byte++) {
        vf b[COLUMNS_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) b[v] = v_pin(
            v_mul(columns->scale[v], weight_of_word(type, v_bits(words[v][w % VF_PIECE]), columns->fifths[v], half, w, byte)));
        UNROLL for (int i = 0; i < rows; i++) {
            const vf row = v_load1(tile_row(a, i) + p + byte);
            UNROLL for (int v = 0; v < vectors; v++) chains[i][v] = v_chain(chains[i][v], row, b[v]);
        }
    }
}

/* A block of each column. */
INLINE void columns_block(const enum heed_type type, const int rows, const int vectors, vf chains[][COLUMNS_VECTORS],
                          const struct tile_rows *a, const struct scaled_columns *columns) {
    UNROLL for (int half = 0; half < block_halves(type); half++)
        UNROLL for (int word = 0; word < block_words(type); word += VF_PIECE) {
        vf words[COLUMNS_VECTORS][VF_PIECE];
        UNROLL for (int v = 0; v < vectors; v++) load_column_words(&columns->at[v], words_at(type) + word * WORD_BYTES, words[v]);
        UNROLL for (int w = 0; w < VF_PIECE; w++) columns_word(type, rows, vectors, chains, a, columns, words, word + w, half,
                                                               half * TYPE_BLOCK / 2 + (word + w) * WORD_BYTES);
    }
}

/* c of some rows and columns, which are `step` bytes apart. */
INLINE void columns_body(const enum heed_type type, const int rows, const int vectors, const struct heed_thin_blocks *product,
                         const char *column, int64_t step, float *c) {
    vf chains[COLUMNS_ROWS][COLUMNS_VECTORS];
    struct tile_rows a;
    uintptr_t next = next_columns(false, column, vectors * VF_LANES * step);
    tile_rows_begin(rows, &a, product->a, product->lda);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) chains[i][v] = v_zero();
    NO_UNROLL for (int64_t k = product->k; k > 0; k -= TYPE_BLOCK, column += column_bytes(type)) {
        struct scaled_columns columns;
        UNROLL for (int v = 0; v < vectors; v++) {
            const char *first = column + v * VF_LANES * step;
            columns.at[v] = block_columns_at(VF_LANES, first, step);
            const struct block_head head = load_column_heads(type, &columns.at[v]);
            columns.scale[v] = scales_of_weights(type, head.d);
            columns.fifths[v] = head.fifths;
        }
        next = fetch_next_columns(false, next, vectors * VF_LANES * column_bytes(type));
        columns_block(type, rows, vectors, chains, &a, &columns);
        tile_rows_advance(rows, &a, TYPE_BLOCK);
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(c + i * HEED_PANEL + v * VF_LANES, chains[i][v]);
}

/* All columns, the last ones again where whole vectors leave less than one.  Where there are fewer altogether, each is taken for
 * all lanes, of which the first is right. */
INLINE void all_columns(const enum heed_type type, const int rows, const struct heed_thin_blocks *product) {
    const int wide = COLUMNS_VECTORS * VF_LANES;
    const int columns = product->columns, each = columns < VF_LANES ? 1 : VF_LANES;
    const int64_t step = type_span(type, product->ldb);
    int done = 0;
    for (; done + wide <= columns; done += wide)
        columns_body(type, rows, COLUMNS_VECTORS, product, type_at(type, product->b, done * product->ldb), step, product->c + done);
    for (; done < columns; done += each) {
        const int j = smaller(done, columns - each);
        columns_body(type, rows, 1, product, type_at(type, product->b, j * product->ldb), each == 1 ? 0 : step, product->c + j);
    }
}

#define COLUMNS_SHAPE(name, type, rows)                                                                                            \
    NOINLINE void name##_##rows(const struct heed_thin_blocks *product) { all_columns(type, rows, product); }
COLUMNS_SHAPE(columns_q8_0, HEED_Q8_0, 1)
COLUMNS_SHAPE(columns_q8_0, HEED_Q8_0, 2)
COLUMNS_SHAPE(columns_q4_0, HEED_Q4_0, 1)
COLUMNS_SHAPE(columns_q4_0, HEED_Q4_0, 2)
COLUMNS_SHAPE(columns_q5_0, HEED_Q5_0, 1)
COLUMNS_SHAPE(columns_q5_0, HEED_Q5_0, 2)
COLUMNS_SHAPE(columns_iq4_nl, HEED_IQ4_NL, 1)
COLUMNS_SHAPE(columns_iq4_nl, HEED_IQ4_NL, 2)
COLUMNS_SHAPE(columns_mxfp4, HEED_MXFP4, 1)
COLUMNS_SHAPE(columns_mxfp4, HEED_MXFP4, 2)

/* Bytes, whose columns often are a multiple of 4 KB apart, take 1.4 to 1.6 times as long so. */
INLINE bool takes_columns(const struct heed_thin_blocks *product) {
    return FEW_REGISTERS && !product->packed && product->rows <= COLUMNS_ROWS && type_has_blocks(product->type) &&
           !type_is_k(product->type);
}
static void thin_columns(const struct heed_thin_blocks *product) {
    static void (*const shapes[][COLUMNS_ROWS])(const struct heed_thin_blocks *) = {
        [HEED_Q8_0] = {columns_q8_0_1, columns_q8_0_2},
        [HEED_Q4_0] = {columns_q4_0_1, columns_q4_0_2},
        [HEED_Q5_0] = {columns_q5_0_1, columns_q5_0_2},
        [HEED_IQ4_NL] = {columns_iq4_nl_1, columns_iq4_nl_2},
        [HEED_MXFP4] = {columns_mxfp4_1, columns_mxfp4_2}};
    const int columns = product->columns;
    shapes[product->type][product->rows - 1](product);
    for (int i = 0; i < product->rows; i++)
        memset(product->c + i * HEED_PANEL + columns, 0, (size_t)(HEED_PANEL - columns) * sizeof *product->c);
}

#endif
