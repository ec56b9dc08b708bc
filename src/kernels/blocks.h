/* Blocks of weights as panels of 64 columns, and those as floats.  Contracts in src/kernels.h.
 *
 * Blocks lie along k, and lanes run over columns.  So 4 bytes of a block, a word, change places as a float would, and become 4
 * weights, or 8, once they are in their lane: of floats there would be as many times more to transpose. */
#ifndef HEED_KERNELS_BLOCKS_H
#define HEED_KERNELS_BLOCKS_H

/* VF_PIECE words of VF_LANES columns, of which the first `columns` exist.  src is the first word of the first column, `step` bytes
 * from one to the next.  A vector takes a piece of every VF_PIECE-th column, so that words change places within pieces alone:
 * vectors of one column each would be half as much again to transpose, with AVX-512 twice as much. */
INLINE void pack_words(const char *src, int64_t step, const int columns, char *panel) {
    vf r[VF_PIECE];
    UNROLL for (int i = 0; i < VF_PIECE; i++) {
        const char *pieces[VF_LANES / VF_PIECE];
        UNROLL for (int j = i; j < VF_LANES; j += VF_PIECE) pieces[j / VF_PIECE] = src + (j < columns ? j : 0) * step;
        r[i] = v_load_pieces(pieces, (columns - i + VF_PIECE - 1) / VF_PIECE);
    }
    v_transpose_pieces(r);
    UNROLL for (int i = 0; i < VF_PIECE; i++) v_store_bits(panel + i * WORDS_BYTES, r[i]);
}

INLINE void pack_scales(const enum heed_type type, const char *src, int64_t step, int64_t k, int columns, char *panel) {
    const int bytes = (int)sizeof(uint16_t);
    for (; k > 0; k -= TYPE_BLOCK, src += block_bytes(type), panel += HEED_PANEL * block_bytes(type)) {
        int j = 0;
        const char *at = src;
        NO_UNROLL for (; j + 4 <= columns; j += 4, at += 4 * step) UNROLL for (int i = 0; i < 4; i++)
            memcpy(panel + (j + i) * bytes, at + i * step, (size_t)bytes);
        for (; j < columns; j++)
            memcpy(panel + j * bytes, src + j * step, (size_t)bytes);
        memset(panel + j * bytes, 0, (size_t)((HEED_PANEL - j) * bytes));
    }
}

/* Scales first: what has just been stored in parts is slow to load whole. */
INLINE void pack_blocks_of(const enum heed_type type, const char *src, int64_t ld, int64_t k, int columns, char *panel) {
    const int64_t step = type_span(type, ld), words = k / TYPE_BLOCK * block_words(type);
    if (scale_bytes(type) > 0)
        pack_scales(type, src, step, k, columns, panel);
    src += scale_bytes(type);
    panel += HEED_PANEL * scale_bytes(type);
    for (int j = 0; j < HEED_PANEL; j += VF_LANES) {
        const char *column = src + (j < columns ? j : 0) * step;
        for (int64_t word = 0; word < words; word += VF_PIECE) {
            const char *from = column + word_at(type, word);
            char *to = panel + words_at(type, word) + j * WORD_BYTES;
            if (columns - j >= VF_LANES)
                pack_words(from, step, VF_LANES, to);
            else
                pack_words(from, step, columns - j, to);
        }
    }
}

static void pack_blocks(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, void *panel) {
    if (type == HEED_Q8_0)
        pack_blocks_of(HEED_Q8_0, src, ld, k, columns, panel);
    else if (type == HEED_Q4_0)
        pack_blocks_of(HEED_Q4_0, src, ld, k, columns, panel);
    else
        pack_blocks_of(HEED_I8, src, ld, k, columns, panel);
}

INLINE void unpack_block(const enum heed_type type, const char *block, int j, float *panel) {
    const vf d = load_scale(type, block, j);
    const char *const words = block + HEED_PANEL * scale_bytes(type);
    UNROLL for (int half = 0; half < block_halves(type); half++)
        NO_UNROLL for (int word = 0; word < block_words(type); word += TURN_WORDS) {
        UNROLL for (int i = 0; i < TURN_DEPTH; i++)
            v_store(panel + i * HEED_PANEL + j, v_mul(d, load_weight(type, words + word * WORDS_BYTES, j, half, i)));
        panel += TURN_DEPTH * HEED_PANEL;
    }
}

INLINE void unpack_blocks_of(const enum heed_type type, const char *packed, int64_t k, float *panel) {
    for (; k > 0; k -= TYPE_BLOCK, panel += TYPE_BLOCK * HEED_PANEL, packed += HEED_PANEL * block_bytes(type))
        for (int j = 0; j < HEED_PANEL; j += VF_LANES)
            unpack_block(type, packed, j, panel);
}

static void unpack_blocks(const void *packed, enum heed_type type, int64_t k, float *panel) {
    if (type == HEED_Q8_0)
        unpack_blocks_of(HEED_Q8_0, packed, k, panel);
    else if (type == HEED_Q4_0)
        unpack_blocks_of(HEED_Q4_0, packed, k, panel);
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
