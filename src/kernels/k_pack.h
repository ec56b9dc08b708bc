/* Blocks of ggml's K formats as panels of 64 columns, which k_words.h describes.  Contract in src/kernels.h, pack_blocks. */
#ifndef HEED_KERNELS_K_PACK_H
#define HEED_KERNELS_K_PACK_H

INLINE void k_store_word(char *words, const int word, vi x) { v_store_bits(words + word * WORDS_BYTES, v_of_bits(x)); }

INLINE void k_pack_head(const enum heed_type type, const struct block_columns *at, uint16_t *d, char *words) {
    struct k_head head;
    k_load_head(type, at, &head);
    v_store_half(d, head.d);
    if (type != HEED_Q6_K)
        v_store_half(d + HEED_PANEL, head.m);
    UNROLL for (int i = 0; i < K_SCALE_WORDS; i++) k_store_word(words, i, head.scales[i]);
}

/* What is above the lower 4 bits of a group. */
INLINE void k_pack_high(const enum heed_type type, const vi high[K_HIGH_WORDS], int group, char *words) {
    const int bits = type == HEED_Q6_K ? 2 : 1, from = type == HEED_Q6_K ? group % 4 * 2 : group;
    const int each = K_PIECE_WORDS / k_high_words(type);
    const vi *source = type == HEED_Q6_K ? high + group / 4 * K_PIECE_WORDS : high;
    UNROLL for (int word = 0; word < k_high_words(type); word++, source += each) {
        vi all = v_shift(source[0], -from);
        UNROLL for (int w = 1; w < each; w++) all =
            v_choose_bits((1 << w * bits) - 1, all, v_shift(v_shift(source[w], -from), w * bits));
        k_store_word(words, word, all);
    }
}

/* Of each byte of two words the lower, or upper, half, that of the second above that of the first. */
INLINE vi k_join(vi first, vi second, const int upper) {
    return upper ? v_choose_bits(15, v_shift(first, -4), second) : v_choose_bits(15, first, v_shift(second, 4));
}

/* VF_LANES columns of a block. */
INLINE void k_pack_block(const enum heed_type type, const struct block_columns *at, int j, char *block) {
    vi low[K_PIECE_WORDS], high[K_HIGH_WORDS];
    uint16_t *const d = (uint16_t *)(void *)block + j;
    char *const words = block + j * WORD_BYTES, *const groups = words + k_panel_groups_at(type);
    k_pack_head(type, at, d, words + k_panel_scales_at(type));
    load_column_ints(at, k_high_at(type), k_high_words(type) * K_PIECE_WORDS, high);
    NO_UNROLL for (int piece = 0; piece < K_GROUPS / 2; piece++) {
        load_column_ints(at, k_low_at(type) + piece * TYPE_BLOCK, K_PIECE_WORDS, low);
        UNROLL for (int half = 0; half < 2; half++) {
            const int group = k_group_of(type, piece, half);
            char *to = groups + group * k_group_bytes(type);
            UNROLL for (int w = 0; w < K_LOW_WORDS; w++) k_store_word(to, w, k_join(low[w], low[w + K_LOW_WORDS], half));
            if (k_high_words(type) > 0)
                k_pack_high(type, high, group, to + K_LOW_WORDS * WORDS_BYTES);
        }
    }
}

INLINE void k_pack_columns(const enum heed_type type, const char *src, int64_t step, int64_t k, int j, char *panel) {
    struct block_columns at = block_columns_at(VF_LANES, src, step);
    NO_UNROLL for (; k > 0; k -= K_BLOCK, panel += k_panel_bytes(type)) {
        k_pack_block(type, &at, j, panel);
        block_columns_advance(VF_LANES, &at, (int)type_span(type, K_BLOCK));
    }
}

/* Zeros where there are no columns. */
static void k_clear(enum heed_type type, int64_t k, int columns, char *panel) {
    for (; k > 0; k -= K_BLOCK, panel += k_panel_bytes(type)) {
        for (int at = 0; at < k_panel_scales_at(type); at += K_HALVES_BYTES)
            memset(panel + at + 2 * columns, 0, (size_t)(K_HALVES_BYTES - 2 * columns));
        for (int at = k_panel_scales_at(type); at < k_panel_bytes(type); at += WORDS_BYTES)
            memset(panel + at + WORD_BYTES * columns, 0, (size_t)(WORDS_BYTES - WORD_BYTES * columns));
    }
}

/* The last VF_LANES columns again where others leave less; where there are fewer, each for all lanes from its own on. */
INLINE void pack_k_blocks_of(const enum heed_type type, const char *src, int64_t ld, int64_t k, int columns, char *panel) {
    const int64_t step = type_span(type, ld);
    const int wide = columns < VF_LANES ? 1 : VF_LANES;
    for (int done = 0; done < columns; done += wide) {
        const int j = smaller(done, columns - wide);
        k_pack_columns(type, src + j * step, wide == 1 ? 0 : step, k, j, panel);
    }
    if (columns < HEED_PANEL)
        k_clear(type, k, columns, panel);
}

#define WITH_K_TYPE(type, statement)                                                                                               \
    do {                                                                                                                           \
        if ((type) == HEED_Q4_K) {                                                                                                 \
            const enum heed_type TYPE = HEED_Q4_K;                                                                                 \
            statement;                                                                                                             \
        } else if ((type) == HEED_Q5_K) {                                                                                          \
            const enum heed_type TYPE = HEED_Q5_K;                                                                                 \
            statement;                                                                                                             \
        } else {                                                                                                                   \
            const enum heed_type TYPE = HEED_Q6_K;                                                                                 \
            statement;                                                                                                             \
        }                                                                                                                          \
    } while (0)

static void pack_k_blocks(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, void *panel) {
    WITH_K_TYPE(type, pack_k_blocks_of(TYPE, src, ld, k, columns, panel));
}

#endif
