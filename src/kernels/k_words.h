/* Weights in ggml's K formats: where a block of 256, and what packing makes of it, has what, and how numbers and scales come out of
 * that.
 *
 * As they are, the lower 4 bits of two groups share bytes, in an order of each format's own, what q5_K and q6_K have above lies
 * apart, and scales of 6 bits are spread over 12 bytes.  A block of a panel of 64 columns is 64 of d, 64 of m, which q6_K has not,
 * and 8 groups of 32 elements, each of words and bytes of 64 columns.  First comes a word of upper bits, which q4_K has not: of
 * q5_K its bit 8 b + w is that of element 4 w + b, of q6_K its two bits from 8 b + 2 w on are those of element 4 w + b of the first
 * half.  Then 4 words, whose byte i has the lower 4 bits of element i of the first half, and above them those of the second; a
 * byte, the scale, of q6_K that of the first half; of q6_K the word of upper bits of the second half; and a byte, what m is
 * multiplied by, of q6_K the scale of the second half.
 *
 * It is the order in which few rows of bytes read them, so that prefetchers follow.  With all scales first and upper bits last one
 * row takes 1.13 to 1.28 times as long from memory in huge pages, 0.95 to 1.08 in pages of 4 KB, 1.06 to 1.15 from L3, 1.09 to 1.17
 * from L2 (Zen 4). */
#ifndef HEED_KERNELS_K_WORDS_H
#define HEED_KERNELS_K_WORDS_H

enum {
    K_GROUPS = K_BLOCK / TYPE_BLOCK,
    K_LOW_WORDS = TYPE_BLOCK / 2 / WORD_BYTES,
    K_SCALE_WORDS = 4,
    K_HALVES_BYTES = HEED_PANEL * 2 /* of d or m of all columns */
};
INLINE int k_panel_groups_at(const enum heed_type type) { return (type == HEED_Q6_K ? 1 : 2) * K_HALVES_BYTES; }
INLINE int k_high_words(const enum heed_type type) { return type == HEED_Q6_K ? 2 : type == HEED_Q5_K ? 1 : 0; }
/* In a group. */
INLINE int k_group_low_at(const enum heed_type type) { return type == HEED_Q4_K ? 0 : WORDS_BYTES; }
INLINE int k_group_scales_at(const enum heed_type type, const int half) {
    const int between = HEED_PANEL + (type == HEED_Q6_K ? WORDS_BYTES : 0);
    return k_group_low_at(type) + K_LOW_WORDS * WORDS_BYTES + half * between;
}
INLINE int k_group_high_at(const enum heed_type type, const int half) {
    return type == HEED_Q6_K && half == 1 ? k_group_scales_at(type, 0) + HEED_PANEL : 0;
}
INLINE int k_group_bytes(const enum heed_type type) { return k_group_scales_at(type, 1) + HEED_PANEL; }
INLINE int k_panel_bytes(const enum heed_type type) { return HEED_PANEL * k_packed_bytes(type); }

/* In a block as it is, in bytes: d, which m follows; 16 with the scales; the lower 4 bits; what is above them. */
INLINE int k_d_at(const enum heed_type type) { return type == HEED_Q6_K ? Q6_K_BYTES - 2 : 0; }
INLINE int k_scales_at(const enum heed_type type) { return type == HEED_Q6_K ? Q6_K_BYTES - 18 : 0; }
INLINE int k_low_at(const enum heed_type type) { return type == HEED_Q6_K ? 0 : (int)type_span(type, K_BLOCK) - K_BLOCK / 2; }
INLINE int k_high_at(const enum heed_type type) { return type == HEED_Q6_K ? K_BLOCK / 2 : 16; }

/* Of 32 bytes with lower bits, there being 4 such pieces: which group has the lower, or upper, halves of bytes.  q6_K has groups 0
 * and 2 in the first, 1 and 3 in the second. */
INLINE int k_group_of(const enum heed_type type, int piece, int half) {
    return type == HEED_Q6_K ? piece / 2 * 4 + piece % 2 + 2 * half : 2 * piece + half;
}

/* What the numbers of a half of a group are multiplied by, and what is subtracted then, of some vectors of columns. */
enum { K_VECTORS = 16 /* at most */ };
struct k_scales {
    vf d[K_VECTORS], m[K_VECTORS]; /* of the block; d in units of numbers */
    vf by[K_VECTORS], less[K_VECTORS];
};
/* unit: what numbers are multiples of. */
INLINE void k_load_block_scales(const enum heed_type type, const int vectors, const float unit, const char *block, int j,
                                struct k_scales *scales) {
    const uint16_t *d = (const uint16_t *)(const void *)block + j, *m = d + HEED_PANEL;
    UNROLL for (int v = 0; v < vectors; v++) {
        scales->d[v] = v_mul(v_widen_f16(v_load_half(d + v * VF_LANES)), v_set1(unit));
        if (type != HEED_Q6_K)
            scales->m[v] = v_widen_f16(v_load_half(m + v * VF_LANES));
    }
}
/* Of q6_K numbers are 32 too large, and either half has its scale. */
INLINE void k_load_scales(const enum heed_type type, const int vectors, const char *group, int j, const int half,
                          struct k_scales *scales) {
    const int8_t *by = (const int8_t *)group + k_group_scales_at(type, type == HEED_Q6_K ? half : 0) + j;
    const int8_t *less = (const int8_t *)group + k_group_scales_at(type, 1) + j;
    if (type != HEED_Q6_K && half == 1)
        return;
    UNROLL for (int v = 0; v < vectors; v++) {
        scales->by[v] = v_mul(scales->d[v], v_load_i8(by + v * VF_LANES));
        scales->less[v] = type == HEED_Q6_K ? v_mul(scales->by[v], v_set1(32 / WEIGHT_UNIT))
                                            : v_mul(scales->m[v], v_load_i8(less + v * VF_LANES));
    }
}

/* A turn of a half of a group. */
INLINE struct block_turn k_turn_at(const enum heed_type type, const char *group, const int half, int turn) {
    return (struct block_turn){.low = group + k_group_low_at(type) + turn * TURN_WORDS * WORDS_BYTES,
                               .high = group + k_group_high_at(type, half),
                               .place = turn * TURN_WORDS};
}
/* Of each byte its lower, or upper, half, and above it what `high` has from bit `from` on. */
INLINE vi k_numbers(const enum heed_type type, vi word, const int upper, vi high, int from) {
    const vi low = upper ? v_high4(word) : v_low4(word);
    return type == HEED_Q4_K ? low : v_above(low, v_bits_of_bytes(high, from, type == HEED_Q6_K ? 3 : 1), 4);
}
/* The same by fewer operations, where `from` is a constant. */
INLINE vi k_numbers_from(const enum heed_type type, vi word, const int upper, vi high, const int from) {
    const vi low = upper ? v_high4(word) : v_low4(word);
    return type == HEED_Q4_K ? low : v_join_bits(low, v_shift(high, 4 - from), type == HEED_Q6_K ? 0x30 : 0x10);
}

/* The numbers of elements 4 w to 4 w + 3 of a turn, without sign, in bytes. */
INLINE vi k_load_numbers(const enum heed_type type, const struct block_turn *turn, int j, const int half, const int w) {
    const vi word = load_word(turn, j, w * WORD_BYTES);
    const vi high = type == HEED_Q4_K ? word : load_words_of(turn->high, j);
    return k_numbers(type, word, half, high, type == HEED_Q6_K ? 2 * (turn->place + w) : turn->place + w + K_LOW_WORDS * half);
}
/* Element i of a turn, of vector v: of the numbers of a word compilers make all four at once. */
INLINE vf k_load_weight(const enum heed_type type, const struct k_scales *scales, const struct block_turn *turn, int j, const int v,
                        const int half, const int i) {
    const vf number = v_byte(k_load_numbers(type, turn, j + v * VF_LANES, half, i / WORD_BYTES), i % WORD_BYTES);
    return v_fma(number, scales->by[v], v_negate(scales->less[v]));
}

#endif
