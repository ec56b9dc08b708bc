/* Few rows in bytes times weights in ggml's K formats as they are, as integers: words of some columns are transposed, and
 * become numbers and sums, in registers.  Included by i8_product.h. */
#ifndef HEED_KERNELS_I8_K_COLUMNS_H
#define HEED_KERNELS_I8_K_COLUMNS_H

enum { I8_K_ROWS = 4 /* at most */ };

/* Of some columns, in L1 for want of registers: a block's scales, in floats and bytes, what is above its lower bits, and pieces. */
struct i8_k_words {
    vf d, m;
    vi scales[K_SCALE_WORDS], high[K_PIECE_WORDS], low[2][K_PIECE_WORDS];
};
INLINE void i8_k_begin(const enum heed_type type, const struct block_columns *at, struct i8_k_words *words) {
    struct k_head head;
    k_load_head(type, at, &head);
    words->d = v_mul(v_widen_f16(head.d), v_set1(WEIGHT_UNIT));
    if (type != HEED_Q6_K)
        words->m = v_mul(v_widen_f16(head.m), v_set1(WEIGHT_UNIT));
    UNROLL for (int i = 0; i < K_SCALE_WORDS; i++) words->scales[i] = head.scales[i];
    if (type == HEED_Q5_K)
        load_column_ints(at, k_high_at(type), K_PIECE_WORDS, words->high);
}
/* Unsigned, so that compilers know what % leaves of a round's groups: else one row in L2 takes 1.04 to 1.06 of the time for q4_K
 * and q5_K, AVX2 1.04 to 1.09 for all three (Zen 4). */
INLINE vf i8_k_scale(const struct i8_k_words *words, unsigned index) {
    return v_byte(v_shift(words->scales[index / WORD_BYTES], -8 * (int)(index % WORD_BYTES)), 0);
}

/* How many pieces of each column a round takes, and rounds of a block.  q6_K has the lower halves of two pieces first, and then
 * their upper ones. */
INLINE int i8_k_pieces(const enum heed_type type) { return type == HEED_Q6_K ? 2 : 1; }
INLINE int i8_k_rounds(const enum heed_type type) { return K_GROUPS / 2 / i8_k_pieces(type); }

/* Of the lines that a round fetches those beside word w of its group n, if any: of the 27 that q6_K has at once for 16 columns some
 * are not fetched, and from memory 1, 2 and 4 rows take 0.65 to 0.75 of the time so, from L3 0.79, from L2 0.94 to 0.96 (Zen 4).
 * Where registers are few all go with the first: one by one 4 rows take 1.08, of q4_K 1.02 (AVX2, Zen 4). */
INLINE void i8_k_fetch_next(const enum heed_type type, const bool once, uintptr_t again, uintptr_t next, const int n, const int w) {
    const int words = 2 * i8_k_pieces(type) * K_PIECE_WORDS, word = n * K_PIECE_WORDS + w, each = FEW_REGISTERS ? words : 1;
    const int bytes = VF_LANES * (int)type_span(type, K_BLOCK) / i8_k_rounds(type), lines = (bytes + LINE_BYTES - 1) / LINE_BYTES;
    const int from = word * lines / words, to = (word + each) * lines / words;
    if (word % each == 0)
        i8_fetch_next(type, once, again, next + (uintptr_t)(from * LINE_BYTES), (to - from) * LINE_BYTES);
}

/* Group g, n of its round, in one half of the bytes of a piece: all rows. */
INLINE void i8_k_take_group(const enum heed_type type, const int rows, const bool once, uintptr_t again,
                            const struct i8_k_words *words, unsigned g, const int n, const struct heed_i8_block *a, int64_t lda,
                            uintptr_t next, vf chain[I8_K_ROWS]) {
    const int upper = n / i8_k_pieces(type), piece = n % i8_k_pieces(type);
    vi sums[I8_K_ROWS];
    UNROLL for (int half = 0; half < 2; half++) {
        if (half == 0 || type == HEED_Q6_K)
            UNROLL for (int i = 0; i < rows; i++) sums[i] = i8_k_start(type, a + i * lda, half);
        UNROLL for (int w = half * K_LOW_WORDS; w < (half + 1) * K_LOW_WORDS; w++) {
            i8_k_fetch_next(type, once, again, next, n, w);
            const vi numbers = type == HEED_Q6_K
                                   ? k_numbers_from(type, words->low[piece][w], upper, words->high[w], 2 * (2 * upper + piece))
                                   : k_numbers(type, words->low[piece][w], upper, words->high[w], (int)g);
            UNROLL for (int i = 0; i < rows; i++) sums[i] =
                i8_k_dot(type, sums[i], numbers, v_set1_word(a[i * lda].q + w * WORD_BYTES));
        }
        if (half == 0 && type != HEED_Q6_K)
            continue;
        const vf by = v_mul(words->d, i8_k_scale(words, type == HEED_Q6_K ? 2 * g + (unsigned)half : g));
        const vf less = type == HEED_Q6_K ? v_zero() : v_mul(words->m, i8_k_scale(words, K_GROUPS + g));
        UNROLL for (int i = 0; i < rows; i++) {
            const struct i8_k_row row = i8_k_row(type, a + i * lda, half);
            chain[i] = i8_k_chain(type, chain[i], sums[i], &row, by, less);
        }
    }
}

/* c of some rows and VF_LANES columns, `step` bytes apart. */
INLINE void i8_k_columns_body(const enum heed_type type, const int rows, const bool once, const struct heed_i8_product *product,
                              const char *column, int64_t step, float *c) {
    const int rounds = i8_k_rounds(type), pieces = i8_k_pieces(type), bytes = (int)type_span(type, K_BLOCK);
    const struct heed_i8_block *a = product->a;
    const uintptr_t again = i8_again(product);
    struct block_columns at = block_columns_at(VF_LANES, column, step);
    uintptr_t next = next_columns(once, column, VF_LANES * step);
    vf chain[I8_K_ROWS];
    UNROLL for (int i = 0; i < rows; i++) chain[i] = v_zero();
    NO_UNROLL for (int64_t k = product->k; k > 0; k -= K_BLOCK) {
        struct i8_k_words words;
        i8_k_begin(type, &at, &words);
        NO_UNROLL for (int round = 0; round < rounds; round++) {
            PIN(round); /* else gcc unrolls it */
            if (type == HEED_Q6_K)
                load_column_ints(&at, k_high_at(type) + round * TYPE_BLOCK, K_PIECE_WORDS, words.high);
            UNROLL for (int piece = 0; piece < pieces; piece++)
                load_column_ints(&at, k_low_at(type) + (round * pieces + piece) * TYPE_BLOCK, K_PIECE_WORDS, words.low[piece]);
            UNROLL for (int n = 0; n < 2 * pieces; n++, a++) i8_k_take_group(
                type, rows, once, again, &words, (unsigned)(round * 2 * pieces + n), n, a, product->lda, next, chain);
            next += (uintptr_t)(VF_LANES * bytes / rounds);
        }
        block_columns_advance(VF_LANES, &at, bytes);
    }
    UNROLL for (int i = 0; i < rows; i++) v_store(c + i * HEED_PANEL, chain[i]);
}

#endif
