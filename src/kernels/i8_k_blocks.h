/* Rows in bytes times a panel of weights in ggml's K formats, as integers: a tile.  Included by i8_product.h.
 *
 * A group has a scale for each column: its sum meets the chain by one multiply-add, and what is subtracted, m * t times the sum of
 * the row's part, by another.  Numbers of q6_K are 32 too large, which sums begin with, or are given at their end. */
#ifndef HEED_KERNELS_I8_K_BLOCKS_H
#define HEED_KERNELS_I8_K_BLOCKS_H

/* Sums of numbers of 4 bits fit where v_dot_u4 has them. */
INLINE vi i8_k_dot(const enum heed_type type, vi sum, vi numbers, vi x) {
    return type == HEED_Q4_K ? I8_DOT_U4(sum, numbers, x) : I8_DOT_U7(sum, numbers, x);
}
INLINE vi i8_k_sum(const enum heed_type type, vi sum) { return type == HEED_Q4_K ? I8_DOT_U4_END(sum) : sum; }

/* Of what lies ahead of a group's share of the panel the lines that are fetched beside word n of 8: of what is asked for at once
 * some is not fetched. */
INLINE void i8_k_fetch(const enum heed_type type, const char *share, const int n, bool once, bool into_l2) {
    const int lines = (BLOCK_TURNS * turn_bytes(type) + LINE_BYTES - 1) / LINE_BYTES, from = n * lines / 8,
              to = (n + 1) * lines / 8;
    const uintptr_t ahead = (uintptr_t)share + BLOCK_AHEAD + (uintptr_t)(from * LINE_BYTES);
    if (!once)
        fetch_lines(ahead, (to - from) * LINE_BYTES, !into_l2);
    fetch_lines(ahead + BLOCK_AHEAD, (to - from) * LINE_BYTES, once);
}

/* All scales of a block, into L1 before its words are read, so that prefetchers find what is read out of order: what they ask for
 * leaves no room for what is asked for here.  3 and 4 rows from memory take 0.82 to 0.94 of the time so, 8 rows 0.93 to 1.02
 * (Zen 4). */
INLINE void i8_k_fetch_scales(const enum heed_type type, const char *block) {
    const char *scales = block + k_panel_groups_at(type) + k_group_scales_at(type, 0);
    UNROLL for (int g = 0; g < K_GROUPS; g++)
        fetch_lines((uintptr_t)scales + (uintptr_t)(g * k_group_bytes(type)), 2 * HEED_PANEL, true);
}

/* The numbers of word w of a half of a group. */
INLINE vi i8_k_numbers(const enum heed_type type, const struct block_turn *words, int column, const int half, const int w) {
    const vi word = load_words_of(words->low + w * WORDS_BYTES, column);
    const vi high = type == HEED_Q4_K ? word : load_words_of(words->high, column);
    return k_numbers_from(type, word, half, high, type == HEED_Q6_K ? 2 * w : w + K_LOW_WORDS * half);
}

/* The sums of a tile take in word w of a half of a group, and q of each row. */
INLINE void i8_k_word(const enum heed_type type, const int rows, const int vectors, vi sums[][I8_VECTORS], const int8_t *q,
                      int64_t row_bytes, const struct block_turn *words, int j, const int half, const int w) {
    vi x[I8_ROWS];
    UNROLL for (int i = 0; i < rows; i++) x[i] = v_set1_word(q + i * row_bytes);
    UNROLL for (int v = 0; v < vectors; v++) {
        const vi numbers = i8_k_numbers(type, words, j + v * VF_LANES, half, w);
        UNROLL for (int i = 0; i < rows; i++) sums[i][v] = i8_k_dot(type, sums[i][v], numbers, x[i]);
    }
}
/* The same of a held tile, as i8_halves_held. */
INLINE void i8_k_word_held(const enum heed_type type, const int rows, vi sums[][I8_VECTORS], const int8_t *q, int64_t row_bytes,
                           const struct block_turn *words, int j, const int half, const int w) {
    vi numbers[I8_HELD_VECTORS];
    UNROLL for (int v = 0; v < I8_HELD_VECTORS; v++) numbers[v] = i8_k_numbers(type, words, j + v * VF_LANES, half, w);
    UNROLL for (int i = 0; i < rows; i++) {
        const vi x = v_set1_word(q + i * row_bytes);
        UNROLL for (int v = 0; v < I8_HELD_VECTORS; v++) sums[i][v] = i8_k_dot(type, sums[i][v], numbers[v], x);
    }
}

/* The sums of a tile take in a half of a group. */
INLINE void i8_k_half(const enum heed_type type, const bool hold, const int rows, const int vectors, vi sums[][I8_VECTORS],
                      const int8_t *q, int64_t row_bytes, const char *group, int j, const int half, const char *share, bool once,
                      bool into_l2) {
    struct block_turn words = k_turn_at(type, group, half, 0);
    q += half * TYPE_BLOCK / 2;
    UNROLL for (int w = 0; w < K_LOW_WORDS; w++, q += WORD_BYTES) {
        if (share)
            i8_k_fetch(type, share, half * K_LOW_WORDS + w, once, into_l2);
        if (!hold) {
            i8_k_word(type, rows, vectors, sums, q, row_bytes, &words, j, half, w);
            continue;
        }
        i8_k_word_held(type, rows, sums, q, row_bytes, &words, j, half, w);
        PIN(words.low); /* else gcc loads all words at once, and keeps chains on the stack instead */
        PIN(words.high);
        PIN(q);
    }
}

/* What is to be added to sums of a half of a group of q6_K: minus what they are too large by. */
INLINE vi i8_k_correction(const struct heed_i8_block *a, const int half) {
    const int32_t correction = 4 * (half ? a->minus_8 - a->minus_8_of_first : a->minus_8_of_first);
    return v_set1_word((const int8_t *)&correction);
}

/* A row's part of a group, or of a half of one of q6_K. */
struct i8_k_row {
    vf scale, minus_sum, correction;
};
INLINE struct i8_k_row i8_k_row(const enum heed_type type, const struct heed_i8_block *a, const int half) {
    struct i8_k_row row = {.scale = v_set1(a->scale), .minus_sum = v_zero(), .correction = v_zero()};
    if (type != HEED_Q6_K)
        row.minus_sum = v_set1(a->minus_sum);
    else if (!I8_STARTS)
        row.correction = v_float_of_int(i8_k_correction(a, half));
    return row;
}
INLINE vi i8_k_start(const enum heed_type type, const struct heed_i8_block *a, const int half) {
    return type == HEED_Q6_K && I8_STARTS ? i8_k_correction(a, half) : v_zero_int();
}
/* A chain takes in its sum: by is the columns' scale, less their m * t. */
INLINE vf i8_k_chain(const enum heed_type type, vf chain, vi sum, const struct i8_k_row *row, vf by, vf less) {
    vf products = v_float_of_int(i8_k_sum(type, sum));
    if (type == HEED_Q6_K && !I8_STARTS)
        products = v_add(products, row->correction);
    chain = v_fma(products, v_mul(row->scale, by), chain);
    return type == HEED_Q6_K ? chain : v_fma(row->minus_sum, less, chain);
}

/* The chains of a tile take in the sums of a group, or of a half of one of q6_K. */
INLINE void i8_k_end(const enum heed_type type, const bool hold, const int rows, const int vectors, vi sums[][I8_VECTORS],
                     const struct heed_i8_block *a, int64_t lda, const int half, const struct k_scales *scales,
                     struct i8_chains *chains, float *c) {
    UNROLL for (int i = 0; i < rows; i++) {
        const struct i8_k_row row = i8_k_row(type, a + i * lda, half);
        UNROLL for (int v = 0; v < vectors; v++) {
            const vf chain = i8_chains_get(hold, chains, c, i, v);
            i8_chains_set(hold, chains, c, i, v, i8_k_chain(type, chain, sums[i][v], &row, scales->by[v], scales->less[v]));
        }
    }
}

INLINE void i8_k_group(const enum heed_type type, const bool hold, const int rows, const int vectors, const struct heed_i8_block *a,
                       int64_t lda, const char *block, int g, int j, struct k_scales *scales, struct i8_chains *chains, float *c,
                       const char *share, bool once, bool into_l2) {
    const char *group = block + k_panel_groups_at(type) + g * k_group_bytes(type);
    vi sums[I8_MOST_ROWS][I8_VECTORS];
    UNROLL for (int half = 0; half < 2; half++) {
        const bool begins = half == 0 || type == HEED_Q6_K, ends = half == 1 || type == HEED_Q6_K;
        if (begins)
            UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) sums[i][v] =
                i8_k_start(type, a + i * lda, half);
        i8_k_half(type, hold, rows, vectors, sums, a->q, lda * (int64_t)sizeof *a, group, j, half, share, once, into_l2);
        if (!ends)
            continue;
        k_load_scales(type, vectors, group, j, type == HEED_Q6_K ? half : 0, scales);
        i8_k_end(type, hold, rows, vectors, sums, a, lda, half, scales, chains, c);
    }
}

/* c of rows x vectors, columns from j on. */
INLINE void i8_k_body(const enum heed_type type, const bool hold, const int rows, const int vectors, const struct i8_window *window,
                      int j) {
    const char *block = window->packed;
    const struct heed_i8_block *a = window->a;
    uintptr_t next = window->next;
    struct i8_chains chains;
    i8_chains_begin(hold, rows, window->c + j, &chains);
    NO_UNROLL for (int64_t p = 0; p < window->k; block += k_panel_bytes(type)) {
        struct k_scales scales;
        if (I8_INTO_L2 && window->into_l2 && window->fetches && j == 0)
            i8_k_fetch_scales(type, block);
        k_load_block_scales(type, vectors, 1.0f, block, j, &scales);
        NO_UNROLL for (int g = 0; g < K_GROUPS; g++, a++, p += TYPE_BLOCK) {
            if (rows > 1 && j == 0) {
                fetch_some_lines(next, window->tile, window->tiles, window->lines);
                next += (uintptr_t)(window->lines * LINE_BYTES);
            }
            const char *share = window->fetches && j == 0 ? window->packed + p / TURN_DEPTH * turn_bytes(type) : NULL;
            i8_k_group(type, hold, rows, vectors, a, window->lda, block, g, j, &scales, &chains, window->c + j, share,
                       window->fetch_once, I8_INTO_L2 && window->into_l2);
        }
    }
    i8_chains_end(hold, rows, &chains, window->c + j);
}

#endif
