/* Blocks of weights as panels of 64 columns, and those as floats.  Contracts in src/kernels.h.
 *
 * Blocks lie along k, and lanes run over columns.  So 4 bytes of a block, a word, change places as a float would, and become 4
 * weights, or 8, once they are in their lane: of floats there would be as many times more to transpose. */
#ifndef HEED_KERNELS_BLOCKS_H
#define HEED_KERNELS_BLOCKS_H

/* VF_LANES columns. */
INLINE void pack_columns(const enum heed_type type, const char *src, int64_t step, int64_t k, int j, char *panel) {
    struct block_columns at = block_columns_at(VF_LANES, src, step);
    NO_UNROLL for (; k > 0; k -= TYPE_BLOCK, panel += HEED_PANEL * block_bytes(type)) {
        char *const words = panel + panel_words_at(type) + j * WORD_BYTES;
        if (scale_bytes(type) > 0) {
            const struct block_head head = load_column_heads(type, &at);
            v_store_half((uint16_t *)(void *)panel + j, head.d);
            if (type == HEED_Q5_0)
                v_store_bits(panel + panel_fifths_at(type) + j * WORD_BYTES, v_of_bits(head.fifths));
        }
        UNROLL for (int word = 0; word < block_words(type); word += VF_PIECE) {
            vf r[VF_PIECE];
            load_column_words(&at, words_at(type) + word * WORD_BYTES, r);
            UNROLL for (int i = 0; i < VF_PIECE; i++) v_store_bits(words + (word + i) * WORDS_BYTES, r[i]);
        }
        block_columns_advance(VF_LANES, &at, column_bytes(type));
    }
}

/* One column.  Not inlined, for gcc makes three long loops of it, with gathers. */
NOINLINE void pack_column(enum heed_type type, const char *src, int64_t k, int j, char *panel) {
    for (; k > 0; k -= TYPE_BLOCK, src += column_bytes(type), panel += HEED_PANEL * block_bytes(type)) {
        const uint16_t bf16 = numbers4_bf16((unsigned char)*src);
        char *const words = panel + panel_words_at(type) + j * WORD_BYTES;
        memcpy(panel + j * scale_bytes(type), type == HEED_MXFP4 ? (const void *)&bf16 : src, (size_t)scale_bytes(type));
        for (int word = 0; word < block_words(type); word++)
            memcpy(words + word * WORDS_BYTES, src + words_at(type) + word * WORD_BYTES, (size_t)WORD_BYTES);
        if (type == HEED_Q5_0)
            q5_spread_column(src + scale_bytes(type), panel + panel_fifths_at(type) + j * WORD_BYTES);
    }
}

/* The last VF_LANES columns again where others leave less; where there are fewer, one by one; where there are none, zeros. */
INLINE void pack_blocks_of(const enum heed_type type, const char *src, int64_t ld, int64_t k, int columns, char *panel) {
    const int64_t step = type_span(type, ld);
    if (columns < HEED_PANEL)
        memset(panel, 0, (size_t)(HEED_PANEL * type_packed_span(type, k)));
    if (columns < VF_LANES)
        for (int j = 0; j < columns; j++)
            pack_column(type, src + j * step, k, j, panel);
    else
        for (int done = 0; done < columns; done += VF_LANES) {
            const int j = smaller(done, columns - VF_LANES);
            pack_columns(type, src + j * step, step, k, j, panel);
        }
}

static void pack_blocks(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, void *panel) {
    if (type_is_k(type))
        pack_k_blocks(src, type, ld, k, columns, panel);
    else if (type == HEED_Q8_0)
        pack_blocks_of(HEED_Q8_0, src, ld, k, columns, panel);
    else if (type == HEED_Q4_0 || type == HEED_IQ4_NL) /* which lie alike */
        pack_blocks_of(HEED_Q4_0, src, ld, k, columns, panel);
    else if (type == HEED_Q5_0)
        pack_blocks_of(HEED_Q5_0, src, ld, k, columns, panel);
    else if (type == HEED_MXFP4)
        pack_blocks_of(HEED_MXFP4, src, ld, k, columns, panel);
    else
        pack_blocks_of(HEED_I8, src, ld, k, columns, panel);
}

INLINE void unpack_block(const enum heed_type type, const char *block, int j, float *panel) {
    const vf d = load_scale(type, block, j);
    UNROLL for (int half = 0; half < block_halves(type); half++)
        NO_UNROLL for (int at = 0; at < block_words(type) / TURN_WORDS; at++) {
        const struct block_turn turn = block_turn_at(type, block, at);
        UNROLL for (int i = 0; i < TURN_DEPTH; i++)
            v_store(panel + i * HEED_PANEL + j, v_mul(d, load_weight(type, &turn, j, half, i)));
        panel += TURN_DEPTH * HEED_PANEL;
    }
}

INLINE void unpack_blocks_of(const enum heed_type type, const char *packed, int64_t k, float *panel) {
    for (; k > 0; k -= TYPE_BLOCK, panel += TYPE_BLOCK * HEED_PANEL, packed += HEED_PANEL * block_bytes(type))
        for (int j = 0; j < HEED_PANEL; j += VF_LANES)
            unpack_block(type, packed, j, panel);
}

static void unpack_blocks(const void *packed, enum heed_type type, int64_t k, float *panel) {
    if (type_is_k(type))
        unpack_k_blocks(packed, type, k, panel);
    else if (type_has_blocks(type))
        WITH_BLOCK_TYPE(type, unpack_blocks_of(TYPE, packed, k, panel));
    else
        unpack_blocks_of(HEED_I8, packed, k, panel);
}

/* Both at once. */
static void pack_unpacked_blocks(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, float *panel) {
    float packed[WINDOW_FLOATS] __attribute__((aligned(64)));
    for (int64_t depth; k > 0; k -= depth, panel += depth * HEED_PANEL, src = type_at(type, src, depth)) {
        depth = min_i64(block_window(type), k);
        pack_blocks(src, type, ld, depth, columns, packed);
        unpack_blocks(packed, type, depth, panel);
    }
}

#endif
