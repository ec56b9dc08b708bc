/* Blocks of weights in a panel: where their scales and words are, and what is fetched while they are read.
 *
 * A block of a panel of 64 columns is 64 scales, and then the words, 4 bytes of a block each, of 64 columns each; of q5_0 one of
 * fifth bits, and those with the lower 4 bits.  Scales are f16, MXFP4's exponents bf16. */
#ifndef HEED_KERNELS_BLOCK_WORDS_H
#define HEED_KERNELS_BLOCK_WORDS_H

#include "kernels/numbers4.h"
#include "kernels/q5_words.h"

enum {
    WORD_BYTES = 4,
    WORDS_BYTES = HEED_PANEL * WORD_BYTES, /* of a word of all columns */
    TURN_WORDS = 2,                        /* that kernels take at a time, for 8 elements of k */
    TURN_DEPTH = TURN_WORDS * WORD_BYTES,
    BLOCK_TURNS = TYPE_BLOCK / TURN_DEPTH,
    BLOCK_AHEAD = 4096, /* bytes, into L1; twice as far into L2, or into L1 alone */
    WINDOW_BLOCKS = 8,
    INT4_WINDOW_BLOCKS = 16,
    WINDOW_FLOATS = INT4_WINDOW_BLOCKS * HEED_PANEL * Q4_0_BYTES / (int)sizeof(float) /* the longest one */
};

_Static_assert(WINDOW_FLOATS *(int)sizeof(float) >= HEED_PANEL * Q6_K_BYTES, "a K block of a panel has room");

/* The bytes of HEED_I8 are words without scales. */
INLINE int scale_bytes(const enum heed_type type) { return type_has_blocks(type) ? (int)sizeof(uint16_t) : 0; }
INLINE int block_bytes(const enum heed_type type) { return (int)type_packed_span(type, TYPE_BLOCK); }
/* Of a panel, that a turn goes through. */
INLINE int turn_bytes(const enum heed_type type) {
    return type_is_k(type) ? HEED_PANEL * k_packed_bytes(type) / (K_BLOCK / TURN_DEPTH)
                           : HEED_PANEL / BLOCK_TURNS * block_bytes(type);
}
/* Of a block as it is: all of it, bits of q5_0, and what precedes its words. */
INLINE int column_bytes(const enum heed_type type) { return (int)type_span(type, TYPE_BLOCK); }
INLINE int fifth_bytes(const enum heed_type type) { return type == HEED_Q5_0 ? WORD_BYTES : 0; }
INLINE int words_at(const enum heed_type type) { return (type == HEED_MXFP4 ? 1 : scale_bytes(type)) + fifth_bytes(type); }
/* In a block of a panel. */
INLINE int panel_fifths_at(const enum heed_type type) { return HEED_PANEL * scale_bytes(type); }
INLINE int panel_words_at(const enum heed_type type) { return HEED_PANEL * (scale_bytes(type) + fifth_bytes(type)); }
INLINE int block_words(const enum heed_type type) { return (column_bytes(type) - words_at(type)) / WORD_BYTES; }
/* Of 4 and 5 bits the first half of a block is in the lower halves of all bytes of words, the second in the upper ones. */
INLINE int block_halves(const enum heed_type type) {
    return type == HEED_Q4_0 || type == HEED_Q5_0 || type_has_table(type) ? 2 : 1;
}
INLINE bool has_4_bits(const enum heed_type type) { return type == HEED_Q4_0 || type_has_table(type); }
/* Of k, what goes through L1 at once.  As it is, from memory, q8_0 in windows of 4 blocks takes 1.2 times as long, q4_0 in windows
 * of 8 takes 1.05 times as long (Zen 3). */
INLINE int block_window(const enum heed_type type) {
    return type_is_k(type) ? K_BLOCK : (has_4_bits(type) ? INT4_WINDOW_BLOCKS : WINDOW_BLOCKS) * TYPE_BLOCK;
}

/* Scales, for weights as weight_of_word has them. */
#define WEIGHT_UNIT 0x1p-24f
INLINE vf widen_scales(const enum heed_type type, vh scales) {
    return type == HEED_MXFP4 ? v_widen_bf16(scales) : v_widen_f16(scales);
}
INLINE vf scales_of_weights(const enum heed_type type, vh scales) { return v_mul(widen_scales(type, scales), v_set1(WEIGHT_UNIT)); }
INLINE vf load_scale(const enum heed_type type, const char *block, int j) {
    return type_has_blocks(type) ? scales_of_weights(type, v_load_half((const uint16_t *)(const void *)block + j))
                                 : v_set1(WEIGHT_UNIT);
}
/* Element `byte` of word w of a block, of 4 and 5 bits the one in that half of it, in units of the scales; high: the spread bits
 * of q5_0. */
INLINE vf weight_of_word(const enum heed_type type, vi word, vi high, const int half, int w, const int byte) {
    if (type == HEED_Q5_0)
        return v_byte(v_less_16(q5_numbers(word, high, half, w)), byte);
    if (type_has_table(type))
        return v_byte(numbers4(type, word, half), byte);
    return type == HEED_Q4_0 ? v_int4(word, byte * 2 + half) : v_byte(word, byte);
}

/* Of a panel: the words of a turn, and what is above them, if there is anything. */
struct block_turn {
    const char *low, *high;
    int place; /* of words in their half: 0 or 2 */
};
INLINE struct block_turn block_turn_at(const enum heed_type type, const char *block, int turn) {
    return (struct block_turn){.low = block + panel_words_at(type) + turn * TURN_WORDS * WORDS_BYTES,
                               .high = block + panel_fifths_at(type),
                               .place = turn * TURN_WORDS};
}
INLINE vi load_words_of(const char *words, int j) { return v_load_int((const uint8_t *)words + j * WORD_BYTES); }
/* Word of row i of a turn, columns from j on. */
INLINE vi load_word(const struct block_turn *turn, int j, const int i) {
    return load_words_of(turn->low + i / WORD_BYTES * WORDS_BYTES, j);
}
INLINE vf load_weight(const enum heed_type type, const struct block_turn *turn, int j, const int half, const int i) {
    const vi word = load_word(turn, j, i), high = type == HEED_Q5_0 ? load_words_of(turn->high, j) : word;
    return weight_of_word(type, word, high, half, turn->place + i / WORD_BYTES, i % WORD_BYTES);
}

/* As pointers without a check of where the memory ends: prefetching is no access. */
INLINE void fetch_lines(uintptr_t at, const int bytes, const bool into_l1) {
    UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) {
        if (into_l1)
            __builtin_prefetch((const void *)(at + (uintptr_t)line), 0, 3);
        else
            __builtin_prefetch((const void *)(at + (uintptr_t)line), 0, 2);
    }
}

/* Every step-th of so many lines, into L2. */
INLINE void fetch_some_lines(uintptr_t at, int first, int step, int lines) {
    NO_UNROLL for (int line = first; line < lines; line += step) {
        __builtin_prefetch((const void *)(at + (uintptr_t)(line * LINE_BYTES)), 0, 2);
        PIN(line);
    }
}

/* Once, 8 KB ahead is best: with 12 to 24 KB, q8_0 from memory takes 1.07 of the time.  Twice, and again 4 KB ahead, is for
 * products that ask for lines too quickly for all of them to be fetched: one row of bytes times q8_0 from memory takes 0.92 to 0.99
 * of the time so, from L2 1.02; two and four rows would take 1.03, q4_0 1.0 to 1.04, one row of floats 1.04 (Zen 5). */
INLINE void fetch_packed(const enum heed_type type, const bool twice, const char *at, bool once, bool into_l2) {
    const int bytes = turn_bytes(type);
    const uintptr_t ahead = (uintptr_t)at + BLOCK_AHEAD;
    if (!once || twice)
        fetch_lines(ahead, bytes, !into_l2);
    if (once)
        fetch_lines(ahead + BLOCK_AHEAD, bytes, true);
    else
        fetch_lines(ahead + BLOCK_AHEAD, bytes, false);
}

#endif
