/* One row in bytes times q8_0 as it is, as integers: columns are multiplied as they lie, along k; afterwards sums change places.
 *
 * For more rows the words of columns change places first, to lie side by side (i8_product.h), once for all rows.  Here blocks are
 * loaded as they lie, 32 bytes at a time, and so is the row, and four columns are read at a time, not 16, which memory likes
 * better: times 4096 x 4096 from memory takes 0.75 to 0.85 of the time, times 4096 x 2048 from L3 0.93, from L2 1.01 to 1.05; two
 * rows would take 0.9 from memory and 1.3 from L2 (AVX-512, Zen 5).  With few registers it takes 1.05 from L2 (AVX2, Zen 5).
 * Contract in src/contracts/i8.h, struct heed_i8_kernels. */
#ifndef HEED_KERNELS_I8_ONE_ROW_H
#define HEED_KERNELS_I8_ONE_ROW_H

enum {
    BLOCK_WORDS = TYPE_BLOCK / WORD_BYTES,
    ONE_ROW_BLOCKS = VF_LANES > BLOCK_WORDS ? VF_LANES / BLOCK_WORDS : 1,  /* of a column, in a vector */
    ONE_ROW_VECTORS = VF_LANES < BLOCK_WORDS ? BLOCK_WORDS / VF_LANES : 1, /* of a block */
    ONE_ROW_PIECES = BLOCK_WORDS / ONE_ROW_VECTORS / VF_PIECE              /* of a block, in a vector */
};

INLINE bool is_i8_one_row(const enum heed_type type, const int rows) { return type == HEED_Q8_0 && rows == 1 && !FEW_REGISTERS; }

/* Where blocks of VF_PIECE columns, and of the row, are; from one to the next, in bytes. */
struct one_row_at {
    struct block_columns columns;
    const struct heed_i8_block *a;
    int64_t next, next_a;
};

INLINE void one_row_advance(struct one_row_at *at, const int blocks) {
    block_columns_advance(VF_PIECE, &at->columns, blocks * Q8_0_BYTES);
    at->a += blocks;
}

/* What a vector's lanes have of the sums of blocks, added up: those of VF_PIECE columns, in the first piece of each block. */
INLINE vi one_row_sums(const struct one_row_at *at) {
    vf parts[VF_PIECE];
    UNROLL for (int j = 0; j < VF_PIECE; j++) {
        vi sum = v_zero_int();
        UNROLL for (int v = 0; v < ONE_ROW_VECTORS; v++) {
            const int from = v * VF_LANES * WORD_BYTES;
            const vi w = v_load_blocks(block_column(&at->columns, j) + scale_bytes(HEED_Q8_0) + from, at->next);
            sum = I8_DOT(sum, I8_RAISE(w), v_load_blocks((const char *)at->a->q + from, at->next_a));
        }
        parts[j] = v_of_bits(sum);
    }
    v_transpose_pieces(parts);
    vi sums = v_bits(parts[0]);
    UNROLL for (int j = 1; j < VF_PIECE; j++) sums = v_add_int(sums, v_bits(parts[j]));
    UNROLL for (int piece = 1; piece < ONE_ROW_PIECES; piece++) sums = v_add_int(sums, v_bits(v_next_piece(v_of_bits(sums))));
    return sums;
}

/* The chains, in the first piece, take in so many blocks. */
INLINE vf one_row_blocks(const struct one_row_at *at, const int blocks, vf chain) {
    const char *columns[VF_PIECE];
    UNROLL for (int j = 0; j < VF_PIECE; j++) columns[j] = block_column(&at->columns, j);
    vf products = v_float_of_int(one_row_sums(at)), d = v_widen_f16(v_load_half_of_blocks(columns, at->next));
    UNROLL for (int block = 0; block < blocks; block++) {
        const struct heed_i8_block *const a = at->a + block;
        const vf minus_8 = v_float_of_int(v_set1_word((const int8_t *)&a->minus_8));
        const vf sums = I8_RAISED ? v_fma(minus_8, v_set1(I8_RAISED / 8), products) : products;
        chain = v_fma(sums, v_mul(v_set1(a->scale), d), chain);
        UNROLL for (int piece = 0; piece < ONE_ROW_PIECES; piece++) products = v_next_piece(products);
        d = v_next_piece(d);
    }
    return chain;
}

/* c of VF_PIECE columns, `step` bytes apart. */
INLINE void one_row_columns(const bool once, const struct heed_i8_product *product, const char *column, int64_t step, float *c) {
    struct one_row_at at = {block_columns_at(VF_PIECE, column, step), product->a, Q8_0_BYTES, sizeof *product->a};
    int64_t blocks = product->k / TYPE_BLOCK;
    uintptr_t next = next_columns(once, column, VF_PIECE * step);
    vf chain = v_zero();
    NO_UNROLL for (; blocks >= ONE_ROW_BLOCKS; blocks -= ONE_ROW_BLOCKS) {
        next = fetch_next_columns(once, next, VF_PIECE * ONE_ROW_BLOCKS * Q8_0_BYTES);
        chain = one_row_blocks(&at, ONE_ROW_BLOCKS, chain);
        one_row_advance(&at, ONE_ROW_BLOCKS);
    }
    at.next = at.next_a = 0;
    NO_UNROLL for (; blocks > 0; blocks--, one_row_advance(&at, 1)) chain = one_row_blocks(&at, 1, chain);
    v_store_n(c, chain, VF_PIECE);
}

/* All of them, the last ones again where VF_PIECE at a time leave less.  Where there are fewer altogether, each is taken for all
 * lanes, of which the first is right. */
INLINE void i8_one_row(const bool once, const struct heed_i8_product *product) {
    const int columns = product->columns, each = columns < VF_PIECE ? 1 : VF_PIECE;
    const int64_t step = columns < VF_PIECE ? 0 : type_span(HEED_Q8_0, product->ldb);
    for (int done = 0; done < columns; done += each) {
        const int j = smaller(done, columns - each);
        one_row_columns(once, product, type_at(HEED_Q8_0, product->b, j * product->ldb), step, product->c + j);
    }
}

#endif
