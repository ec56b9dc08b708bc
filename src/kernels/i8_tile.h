/* Rows in bytes times a panel of weights in blocks, as integers: a tile.  Included by i8_product.h.
 *
 * A tile is as wide as registers allow, so that it reads a panel in its order, and its chains wait in L1; or it is held: high and
 * narrow, with chains in registers.  Chains in L1 are loaded and stored for each block, which takes 1.44 cycles for 64 products, in
 * registers 1.28 (a loop of its own, AVX-512, Zen 4). */
#ifndef HEED_KERNELS_I8_TILE_H
#define HEED_KERNELS_I8_TILE_H

/* Some blocks of a panel, which stay in L1 for all rows. */
struct i8_window {
    const char *packed;
    int64_t k;
    const struct heed_i8_block *a;
    int64_t lda;
    float *c;
    bool fetches, fetch_once, into_l2, in_order;
    /* What is fetched beside it into L2, as many bytes as it has: of each 32 elements so many lines, of which every tiles-th by one
     * tile, beginning with its own number.  0 lines: nothing. */
    uintptr_t next;
    int lines, tile, tiles;
};

/* Of word `place` of a block; high: the spread bits of q5_0. */
INLINE vi i8_dot(const enum heed_type type, const int half, vi sum, vi w, vi high, int place, vi x) {
    if (type == HEED_Q5_0)
        return I8_DOT_U7(sum, q5_numbers(w, high, half, place), x);
    if (type == HEED_MXFP4)
        return I8_DOT_U7(sum, v_look_up(mxfp4_raised, half ? v_high4(w) : v_low4(w)), x);
    if (type == HEED_IQ4_NL)
        return I8_DOT(sum, v_look_up(I8_RAISED ? iq4_nl_raised : iq4_nl_numbers, half ? v_high4(w) : v_low4(w)), x);
    return type == HEED_Q4_0 ? I8_DOT_U4(sum, half ? v_high4(w) : v_low4(w), x) : I8_DOT(sum, I8_RAISE(w), x);
}

/* Word w of a turn, of vector v of columns, and what lies above it. */
struct i8_words {
    vi low, high;
};
INLINE struct i8_words i8_words_of(const enum heed_type type, const struct block_turn *turn, const int v) {
    const vi low = load_words_of(turn->low, v * VF_LANES);
    return (struct i8_words){low, type == HEED_Q5_0 ? load_words_of(turn->high, v * VF_LANES) : low};
}

/* The sums of a tile take in halves [from, to) of a word of each column, word w of a turn.  A word of 4 or 5 bits has two, which
 * meet elements TYPE_BLOCK / 2 apart. */
INLINE void i8_halves(const enum heed_type type, const int from, const int to, const int rows, const int vectors,
                      vi sums[][I8_VECTORS], const int8_t *q, int64_t row_bytes, const struct block_turn *turn, const int w) {
    vi x[2][I8_ROWS];
    UNROLL for (int half = from; half < to; half++) UNROLL for (int i = 0; i < rows; i++) x[half][i] =
        v_set1_word(q + i * row_bytes + half * TYPE_BLOCK / 2);
    UNROLL for (int v = 0; v < vectors; v++) {
        const struct i8_words words = i8_words_of(type, turn, v);
        UNROLL for (int half = from; half < to; half++) UNROLL for (int i = 0; i < rows; i++) sums[i][v] =
            i8_dot(type, half, sums[i][v], words.low, words.high, turn->place + w, x[half][i]);
    }
}
/* The same of a held tile: what it has of words is prepared for all its rows. */
INLINE void i8_halves_held(const enum heed_type type, const int rows, vi sums[][I8_VECTORS], const int8_t *q, int64_t row_bytes,
                           const struct block_turn *turn, const int w) {
    struct i8_words words[I8_HELD_VECTORS];
    UNROLL for (int v = 0; v < I8_HELD_VECTORS; v++) words[v] = i8_words_of(type, turn, v);
    UNROLL for (int half = 0; half < block_halves(type); half++) UNROLL for (int i = 0; i < rows; i++) {
        const vi x = v_set1_word(q + i * row_bytes + half * TYPE_BLOCK / 2);
        UNROLL for (int v = 0; v < I8_HELD_VECTORS; v++) sums[i][v] =
            i8_dot(type, half, sums[i][v], words[v].low, words[v].high, turn->place + w, x);
    }
}

/* The halves of few rows together, those of more one after the other, for want of registers. */
INLINE void i8_word(const enum heed_type type, const bool hold, const int rows, const int vectors, vi sums[][I8_VECTORS],
                    const int8_t *q, int64_t row_bytes, struct block_turn *turn, const int w) {
    const int halves = block_halves(type);
    if (hold) {
        i8_halves_held(type, rows, sums, q, row_bytes, turn, w);
    } else if (halves == 2 && rows > 2) {
        i8_halves(type, 0, 1, rows, vectors, sums, q, row_bytes, turn, w);
        PIN(turn->low);
        i8_halves(type, 1, 2, rows, vectors, sums, q, row_bytes, turn, w);
    } else {
        i8_halves(type, 0, halves, rows, vectors, sums, q, row_bytes, turn, w);
    }
}

/* What numbers of b are too large by. */
INLINE int i8_raised(const enum heed_type type) {
    return type == HEED_Q4_0 ? 8 : type == HEED_Q5_0 ? 16 : type == HEED_MXFP4 ? MXFP4_RAISED : I8_RAISED;
}
/* What is to be added to sums: minus what they are too large by. */
INLINE vi i8_correction(const enum heed_type type, const struct heed_i8_block *a) {
    const int raised = i8_raised(type);
    const int32_t correction = raised % 8 ? a->minus_8 / 4 * (raised / 2) : a->minus_8 * (raised / 8);
    return v_set1_word((const int8_t *)&correction);
}
INLINE vi i8_start(const enum heed_type type, const struct heed_i8_block *a) {
    return I8_STARTS ? i8_correction(type, a) : v_zero_int();
}

/* Of a block's rows, what their sums need at the end. */
struct i8_end {
    const struct heed_i8_block *a;
    int64_t lda;
    vf correction[I8_COLUMNS_MOST];
};
INLINE bool i8_corrects(const enum heed_type type) { return !I8_STARTS && i8_raised(type) > 0; }
INLINE struct i8_end i8_end_begin(const enum heed_type type, const int rows, const struct heed_i8_block *a, int64_t lda) {
    struct i8_end end = {.a = a, .lda = lda};
    UNROLL for (int i = 0; i < rows; i++) if (i8_corrects(type)) end.correction[i] =
        v_float_of_int(i8_correction(type, a + i * lda));
    return end;
}

/* A chain of row i takes in the sum of a block, whose scale of b is d. */
INLINE vf i8_chain(const enum heed_type type, vf chain, vi sum, const struct i8_end *end, const int i, vf d) {
    vf products = v_float_of_int(type == HEED_Q4_0 ? I8_DOT_U4_END(sum) : sum);
    if (i8_corrects(type))
        products = v_add(products, end->correction[i]);
    return v_fma(products, v_mul(v_set1(end->a[i * end->lda].scale), d), chain);
}

/* The chains of a tile, which wait in c or are held in registers. */
struct i8_chains {
    vf held[I8_MOST_ROWS][I8_HELD_VECTORS];
};
INLINE void i8_chains_begin(const bool hold, const int rows, const float *c, struct i8_chains *chains) {
    UNROLL for (int i = 0; hold && i < rows; i++) UNROLL for (int v = 0; v < I8_HELD_VECTORS; v++) chains->held[i][v] =
        v_load(c + i * HEED_PANEL + v * VF_LANES);
}
INLINE void i8_chains_end(const bool hold, const int rows, const struct i8_chains *chains, float *c) {
    UNROLL for (int i = 0; hold && i < rows; i++) UNROLL for (int v = 0; v < I8_HELD_VECTORS; v++)
        v_store(c + i * HEED_PANEL + v * VF_LANES, chains->held[i][v]);
}
INLINE vf i8_chains_get(const bool hold, const struct i8_chains *chains, const float *c, const int i, const int v) {
    return hold ? chains->held[i][v] : v_load(c + i * HEED_PANEL + v * VF_LANES);
}
INLINE void i8_chains_set(const bool hold, struct i8_chains *chains, float *c, const int i, const int v, vf x) {
    if (hold)
        chains->held[i][v] = x;
    else
        v_store(c + i * HEED_PANEL + v * VF_LANES, x);
}

/* The chains of a tile take in a block's sums. */
INLINE void i8_block_end(const enum heed_type type, const bool hold, const int rows, const int vectors, vi sums[][I8_VECTORS],
                         const struct heed_i8_block *a, int64_t lda, const uint16_t *scales, struct i8_chains *chains, float *c) {
    const struct i8_end end = i8_end_begin(type, rows, a, lda);
    UNROLL for (int v = 0; v < vectors; v++) {
        const vf d = widen_scales(type, v_load_half(scales + v * VF_LANES));
        UNROLL for (int i = 0; i < rows; i++)
            i8_chains_set(hold, chains, c, i, v, i8_chain(type, i8_chains_get(hold, chains, c, i, v), sums[i][v], &end, i, d));
    }
}

/* The sums of a tile take in a turn of a block, elements p of the window, and their second halves. */
INLINE void i8_turn(const enum heed_type type, const bool hold, const int rows, const int vectors, vi sums[][I8_VECTORS],
                    const int8_t *q, int64_t row_bytes, struct block_turn *turn, const struct i8_window *window, int64_t p, int j) {
    const bool twice = type == HEED_Q8_0 && rows == 1 && VF_LANES == HEED_LINE;
    if (window->fetches && j == 0)
        UNROLL for (int half = 0; half < block_halves(type); half++) {
            const char *at = window->packed + (p / TURN_DEPTH + half) * HEED_PANEL / BLOCK_TURNS * block_bytes(type);
            PIN(at); /* else gcc makes each line's address in advance, and q4_0 from L2 takes 1.08 times as long */
            fetch_packed(type, twice, at, window->fetch_once, I8_INTO_L2 && window->into_l2);
        }
    UNROLL for (int word = 0; word < TURN_WORDS; word++) {
        i8_word(type, hold, rows, vectors, sums, q, row_bytes, turn, word);
        turn->low += WORDS_BYTES;
        q += WORD_BYTES;
        PIN(turn->low); /* else gcc loads what many words meet at once, and keeps it on the stack */
    }
}

/* c of rows x vectors, columns from j on. */
INLINE void i8_body(const enum heed_type type, const bool hold, const int rows, const int vectors, const struct i8_window *window,
                    int j) {
    const char *block = window->packed;
    const struct heed_i8_block *a = window->a;
    const int64_t row_bytes = window->lda * (int64_t)sizeof *a;
    uintptr_t next = window->next;
    struct i8_chains chains;
    i8_chains_begin(hold, rows, window->c + j, &chains);
    NO_UNROLL for (int64_t p = 0; p < window->k; block += HEED_PANEL * block_bytes(type)) {
        struct block_turn turn = block_turn_at(type, block + j * WORD_BYTES, 0);
        const char *const end = turn.low + block_words(type) * WORDS_BYTES;
        const int8_t *q = a->q;
        if (rows > 1 && j == 0) {
            fetch_some_lines(next, window->tile, window->tiles, window->lines);
            next += (uintptr_t)(HEED_PANEL * block_bytes(type));
        }
        vi sums[I8_MOST_ROWS][I8_VECTORS];
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) sums[i][v] =
            i8_start(type, a + i * window->lda);
        if (type == HEED_Q5_0)
            UNROLL for (; turn.place < block_words(type); turn.place += TURN_WORDS, q += TURN_DEPTH, p += 2 * TURN_DEPTH)
                i8_turn(type, hold, rows, vectors, sums, q, row_bytes, &turn, window, p, j);
        else
            NO_UNROLL for (; turn.low < end; q += TURN_DEPTH, p += block_halves(type) * TURN_DEPTH)
                i8_turn(type, hold, rows, vectors, sums, q, row_bytes, &turn, window, p, j);
        i8_block_end(type, hold, rows, vectors, sums, a, window->lda, (const uint16_t *)(const void *)block + j, &chains,
                     window->c + j);
        a++;
    }
    i8_chains_end(hold, rows, &chains, window->c + j);
}

#endif
