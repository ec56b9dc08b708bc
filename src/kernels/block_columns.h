/* Weights in blocks, or bytes, as they are: columns that each lie along k, taken some at a time, for prefetchers follow few
 * streams, and turned into words in registers. */
#ifndef HEED_KERNELS_BLOCK_COLUMNS_H
#define HEED_KERNELS_BLOCK_COLUMNS_H

/* VF_LANES columns, addressed as rows of a tile are. */
struct block_columns {
    const char *group[(VF_LANES + ROW_GROUP - 1) / ROW_GROUP];
    int64_t second, third; /* bytes from a group's first column */
};

INLINE struct block_columns block_columns_at(const char *first, int64_t step) {
    struct block_columns at = {.second = step, .third = 2 * step};
    UNROLL for (int g = 0; g * ROW_GROUP < VF_LANES; g++) at.group[g] = first + g * ROW_GROUP * step;
    return at;
}

INLINE const char *block_column(const struct block_columns *at, const int i) {
    return at->group[i / ROW_GROUP] + (i % ROW_GROUP == 0 ? 0 : i % ROW_GROUP == 1 ? at->second : at->third);
}

/* While some columns are multiplied, the next ones, which lie behind them, are fetched as they lie, for each block as many bytes as
 * it has; behind the last ones too, which is no access.  Prefetchers are late in every column: without this, one row times 768 x
 * 768 from memory takes 1.8 to 2.3 times as long, times 4096 x 4096 1.0 to 1.4 times (Zen 3).
 * They will be found in L2; but asked for in L1 they come sooner where that is done once (Zen 5, 16 columns at a time: 0.88 to 0.95
 * of the time from memory, from caches as long). */
INLINE uintptr_t fetch_next_columns(const bool once, uintptr_t next, const int bytes) {
    UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) {
        const void *const at = (const void *)(next + (uintptr_t)line);
        if (once)
            __builtin_prefetch(at, 0, 3);
        else
            __builtin_prefetch(at, 0, 2);
    }
    return next + (uintptr_t)bytes;
}

/* VF_PIECE words of all of them, `bytes` behind where they are: as pack_words, but in registers. */
INLINE void load_column_words(const struct block_columns *at, const int bytes, vf words[VF_PIECE]) {
    UNROLL for (int i = 0; i < VF_PIECE; i++) {
        const char *pieces[VF_LANES / VF_PIECE];
        UNROLL for (int j = i; j < VF_LANES; j += VF_PIECE) pieces[j / VF_PIECE] = block_column(at, j) + bytes;
        words[i] = v_load_pieces(pieces, VF_LANES / VF_PIECE);
    }
    v_transpose_pieces(words);
}

#endif
