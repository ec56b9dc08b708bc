/* Weights in blocks, or bytes, as they are: columns that each lie along k, taken some at a time, for prefetchers follow few
 * streams, and transposed into words in registers. */
#ifndef HEED_KERNELS_BLOCK_COLUMNS_H
#define HEED_KERNELS_BLOCK_COLUMNS_H

/* VF_LANES columns or fewer, addressed as rows of a tile are. */
struct block_columns {
    const char *group[(VF_LANES + ROW_GROUP - 1) / ROW_GROUP];
    int64_t second, third; /* bytes from a group's first column */
};

INLINE struct block_columns block_columns_at(const int columns, const char *first, int64_t step) {
    struct block_columns at = {.second = step, .third = 2 * step};
    UNROLL for (int g = 0; g * ROW_GROUP < columns; g++) at.group[g] = first + g * ROW_GROUP * step;
    return at;
}

/* Pinned: gcc 12 else makes each column's address anew from the first, and keeps addresses in vector registers. */
INLINE void block_columns_advance(const int columns, struct block_columns *at, const int bytes) {
    UNROLL for (int g = 0; g * ROW_GROUP < columns; g++) {
        at->group[g] += bytes;
        PIN(at->group[g]);
    }
    PIN(at->second);
    PIN(at->third);
}

INLINE const char *block_column(const struct block_columns *at, const int i) {
    return at->group[i / ROW_GROUP] + (i % ROW_GROUP == 0 ? 0 : i % ROW_GROUP == 1 ? at->second : at->third);
}

/* While some columns are multiplied, the next ones, which lie behind them, are fetched as they lie, for each block as many bytes as
 * it has; behind the last ones too, which is no access.  Prefetchers are late in every column: without this, one row times 768 x
 * 768 from memory takes 1.8 to 2.3 times as long, times 4096 x 4096 1.0 to 1.4 times (Zen 3).
 * They will be found in L2; but where lines are fetched once, they are asked for in L1, not less than COLUMNS_AHEAD before they
 * are read (one row of bytes times 768 x 768 of q8_0 takes 0.88 of the time), and twice, for of what is asked for too quickly some
 * is not fetched: 1 and 2 rows of bytes times 4096 x 4096 of q8_0 from memory take 0.86 to 0.9 of the time so, 4 rows and q4_0 0.95
 * to 1.0, from caches 0.98 to 1.03 (Zen 5). */
enum { COLUMNS_AHEAD = 8192, COLUMNS_TWICE = 4096 };
INLINE uintptr_t next_columns(const bool once, const char *column, int64_t bytes) {
    return (uintptr_t)column + (uintptr_t)(once && bytes > 0 ? round_up(COLUMNS_AHEAD, bytes) : bytes);
}
INLINE uintptr_t fetch_next_columns(const bool once, uintptr_t next, const int bytes) {
    fetch_lines(next, bytes, once);
    if (once)
        fetch_lines(next + COLUMNS_TWICE, bytes, true);
    return next + (uintptr_t)bytes;
}

/* Their scales. */
INLINE vh load_column_scales(const struct block_columns *at) {
    const char *columns[VF_LANES];
    UNROLL for (int j = 0; j < VF_LANES; j++) columns[j] = block_column(at, j);
    return v_load_half_at(columns);
}

/* VF_PIECE words of all of them, `bytes` behind where they are.  A vector takes a piece of every VF_PIECE-th column, so that words
 * change places within pieces alone: vectors of one column each would be half as much again to transpose, with AVX-512 twice as
 * much. */
INLINE void load_column_words(const struct block_columns *at, const int bytes, vf words[VF_PIECE]) {
    UNROLL for (int i = 0; i < VF_PIECE; i++) {
        const char *pieces[VF_LANES / VF_PIECE];
        UNROLL for (int j = i; j < VF_LANES; j += VF_PIECE) pieces[j / VF_PIECE] = block_column(at, j) + bytes;
        words[i] = v_load_pieces(pieces, VF_LANES / VF_PIECE);
    }
    v_transpose_pieces(words);
}

/* The same of any number, whole pieces, as integers. */
INLINE void load_column_ints(const struct block_columns *at, const int bytes, const int count, vi words[]) {
    UNROLL for (int first = 0; first < count; first += VF_PIECE) {
        vf r[VF_PIECE];
        load_column_words(at, bytes + first * WORD_BYTES, r);
        UNROLL for (int i = 0; i < VF_PIECE; i++) words[first + i] = v_bits(r[i]);
    }
}

/* What a block begins with: its scale, as panels have it, and, of q5_0, the fifth bits as panels have them, which take no loads of
 * their own. */
struct block_head {
    vh d;
    vi fifths;
};
INLINE struct block_head load_column_heads(const enum heed_type type, const struct block_columns *at) {
    vi words[4];
    if (type == HEED_MXFP4)
        return (struct block_head){v_bf16_of_exponents(load_column_scales(at), MXFP4_LEAST_SCALE), v_zero_int()};
    if (type != HEED_Q5_0)
        return (struct block_head){load_column_scales(at), v_zero_int()};
    load_column_ints(at, 0, 4, words);
    return (struct block_head){v_half_of(words[0], 0), q5_spread(v_above(v_shift(words[0], -16), words[1], 16))};
}

#endif
