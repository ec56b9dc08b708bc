/* Blocks of ggml's K formats as panels of 64 columns, which k_words.h describes.  Contract in src/kernels.h, pack_blocks. */
#ifndef HEED_KERNELS_K_PACK_H
#define HEED_KERNELS_K_PACK_H

/* A group's two bytes, from words that have the scales of all groups, and then what m is multiplied by; of q6_K the scales of all
 * halves. */
INLINE void k_pack_scales(const enum heed_type type, const vi scales[K_SCALE_WORDS], int group, int8_t *to) {
    UNROLL for (int i = 0; i < 2; i++) {
        const int index = type == HEED_Q6_K ? 2 * group + i : i * K_GROUPS + group;
        const vi byte = v_shift(scales[index / WORD_BYTES], -8 * (index % WORD_BYTES));
        v_store_i8(to + k_group_scales_at(type, i), v_mul(v_byte(byte, 0), v_set1(WEIGHT_UNIT)));
    }
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
        v_store_bits(words + k_group_high_at(type, word), v_of_bits(all));
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
    struct k_head head;
    k_load_head(type, at, &head);
    v_store_half(d, head.d);
    if (type != HEED_Q6_K)
        v_store_half(d + HEED_PANEL, head.m);
    load_column_ints(at, k_high_at(type), k_high_words(type) * K_PIECE_WORDS, high);
    NO_UNROLL for (int piece = 0; piece < K_GROUPS / 2; piece++) {
        load_column_ints(at, k_low_at(type) + piece * TYPE_BLOCK, K_PIECE_WORDS, low);
        UNROLL for (int half = 0; half < 2; half++) {
            const int group = k_group_of(type, piece, half);
            char *const to = block + k_panel_groups_at(type) + group * k_group_bytes(type), *const words = to + j * WORD_BYTES;
            if (k_high_words(type) > 0)
                k_pack_high(type, high, group, words);
            UNROLL for (int w = 0; w < K_LOW_WORDS; w++)
                v_store_bits(words + k_group_low_at(type) + w * WORDS_BYTES, v_of_bits(k_join(low[w], low[w + K_LOW_WORDS], half)));
            k_pack_scales(type, head.scales, group, (int8_t *)to + j);
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

/* Zeros where there are no columns, in rows of so many bytes for each, `all` bytes of them, behind which it returns. */
static char *k_clear_rows(char *rows, int all, int each, int columns) {
    for (int at = 0; at < all; at += each * HEED_PANEL)
        memset(rows + at + each * columns, 0, (size_t)(each * (HEED_PANEL - columns)));
    return rows + all;
}
static void k_clear(enum heed_type type, int64_t k, int columns, char *panel) {
    for (; k > 0; k -= K_BLOCK) {
        panel = k_clear_rows(panel, k_panel_groups_at(type), 2, columns);
        for (int g = 0; g < K_GROUPS; g++) {
            panel = k_clear_rows(panel, k_group_scales_at(type, 0), WORD_BYTES, columns);
            panel = k_clear_rows(panel, HEED_PANEL, 1, columns);
            panel = k_clear_rows(panel, type == HEED_Q6_K ? WORDS_BYTES : 0, WORD_BYTES, columns);
            panel = k_clear_rows(panel, HEED_PANEL, 1, columns);
        }
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
