/* thin_product in pairs by vdpbf16ps, of rows of bf16 or bytes as they are: few rows times keys and values, or weights, that are
 * read once, from memory.  Contract in src/contracts/dots.h; by windows, src/kernels/thin_window.h, or in one piece,
 * src/kernels/in_order.h.
 *
 * Two rows of b become words in registers, each vector once for all rows of a tile, by one operation for 16 words of bf16 and five
 * of bytes; then one instruction multiplies what two multiply as floats.  Rows of a, which come as floats, become words in L1. */
#ifndef HEED_THIN_PAIRS_H
#define HEED_THIN_PAIRS_H

enum {
    PAIRS_K = 128,               /* of a window, at most: rows of a in words stay in L1 */
    PAIRS_ROWS = 2 * THIN_ROWS,  /* of a at a time */
    PAIRS_LD = PAIRS_K / 2 + 16, /* a line more: 12 rows are not in the same sets of L1 */
    SQUARES_LD = HEED_THIN_PAIRS_K / 2 + 16,
    PAIR_STEPS = 2, /* rows of b that a row of words has */
    /* In registers, of what lies in order: beside a number of each row, two indices, two rows of b, and a sum from memory. */
    PAIRS_SUMS = 22
};

/* For word i: which two of the 64 halves of words of two vectors it has. */
#define PAIR_PLACE(i, step, low, high) ((step) * (i) + (low) + (((step) * (i) + (high)) << 16))
#define PAIR_PLACES(step, low, high)                                                                                               \
    _mm512_set_epi32(PAIR_PLACE(15, step, low, high), PAIR_PLACE(14, step, low, high), PAIR_PLACE(13, step, low, high),            \
                     PAIR_PLACE(12, step, low, high), PAIR_PLACE(11, step, low, high), PAIR_PLACE(10, step, low, high),            \
                     PAIR_PLACE(9, step, low, high), PAIR_PLACE(8, step, low, high), PAIR_PLACE(7, step, low, high),               \
                     PAIR_PLACE(6, step, low, high), PAIR_PLACE(5, step, low, high), PAIR_PLACE(4, step, low, high),               \
                     PAIR_PLACE(3, step, low, high), PAIR_PLACE(2, step, low, high), PAIR_PLACE(1, step, low, high),               \
                     PAIR_PLACE(0, step, low, high))

INLINE void pair_store_words(vf first, vf second, float *words) {
    const __m512i places = PAIR_PLACES(4, 3, 1); /* of upper halves, the even one first */
    _mm512_storeu_si512(words, _mm512_permutex2var_epi16((__m512i)first, places, (__m512i)second));
}
/* Floats of rows of a are those of bf16, the odd one of a pair first; where k has none, there may be anything, which 0 takes the
 * place of. */
INLINE void pair_words_of_a(const float *a, int64_t lda, int rows, int64_t k, float *words, int64_t ldwords) {
    const int64_t floats = round_up(k, 2);
    for (int i = 0; i < rows; i++, a += lda, words += ldwords) {
        int64_t p = 0;
        for (; p + 2 * VF_LANES <= floats; p += 2 * VF_LANES)
            pair_store_words(v_load(a + p), v_load(a + p + VF_LANES), words + p / 2);
        if (p < floats)
            pair_store_words(v_load_n(a + p, floats - p), v_load_n(a + p + VF_LANES, floats - p - VF_LANES), words + p / 2);
        if (k % 2)
            memset((char *)(words + k / 2) + sizeof(uint16_t), 0, sizeof(uint16_t));
    }
}

INLINE __m512i pair_floats_of_bytes(const char *b) {
    return (__m512i)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)b)));
}

/* Words of columns of two rows; of `even` alone if there is no other. */
INLINE void pair_load_columns(const enum heed_type type, const int vectors, const char *even, const char *odd, const bool both,
                              vf column[THIN_VECTORS]) {
    const __m512i none = _mm512_setzero_si512();
    UNROLL for (int v = 0; v < vectors; v++) {
        const int64_t at = type_span(type, v * VF_LANES);
        if (type == HEED_I8) {
            const __m512i second = both ? pair_floats_of_bytes(odd + at) : none;
            column[v] = v_pin((vf)_mm512_permutex2var_epi16(pair_floats_of_bytes(even + at), PAIR_PLACES(2, 1, 33), second));
        } else if (v % 2 == 0 && v + 1 < vectors) {
            const __m512i first = _mm512_loadu_si512(even + at), second = both ? _mm512_loadu_si512(odd + at) : none;
            column[v] = v_pin((vf)_mm512_permutex2var_epi16(first, PAIR_PLACES(1, 0, 32), second));
            column[v + 1] = v_pin((vf)_mm512_permutex2var_epi16(first, PAIR_PLACES(1, 16, 48), second));
        } else if (v % 2 == 0) {
            const __m512i first = _mm512_castsi256_si512(v_load_half((const uint16_t *)(const void *)(even + at)));
            const __m512i second = both ? _mm512_castsi256_si512(v_load_half((const uint16_t *)(const void *)(odd + at))) : none;
            column[v] = v_pin((vf)_mm512_permutex2var_epi16(first, PAIR_PLACES(1, 0, 32), second));
        }
    }
}

INLINE void pair_step(const enum heed_type type, const int rows, const int vectors, const char *even, const char *odd,
                      const bool both, const struct tile_rows *a, vf acc[][THIN_VECTORS]) {
    vf column[THIN_VECTORS];
    pair_load_columns(type, vectors, even, odd, both, column);
    UNROLL for (int i = 0; i < rows; i++) {
        const vf row = v_load1(tile_row(a, i));
        UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = TILE_CHAIN(acc[i][v], row, column[v]);
    }
}

/* One tile. */
INLINE void pair_body(const enum heed_type type, const int rows, const int vectors, const struct thin_window *window,
                      struct tile_rows a, const char *b, struct thin_ahead ahead, float *c) {
    vf acc[THIN_ROWS][THIN_VECTORS];
    const uintptr_t further = window->further;
    const int64_t ldb = window->k > 1 ? type_span(type, window->ldb) : 0; /* of a single row it may be any number */
    int64_t k = window->k;
    int wait = window->turn;
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
        window->continues ? v_load(c + i * window->ldc + v * VF_LANES) : v_zero();
    NO_UNROLL for (; k >= PAIR_STEPS; k -= PAIR_STEPS) {
        if (wait-- == 0) {
            thin_fetch(type, vectors, window->into_l2, ahead, further);
            wait = window->turns - 1;
        }
        ahead.data += (uintptr_t)(PAIR_STEPS * ahead.step);
        pair_step(type, rows, vectors, b, b + ldb, true, &a, acc);
        tile_rows_advance(rows, &a, 1);
        tile_rows_pin(rows, &a);
        b += PAIR_STEPS * ldb;
        PIN(k); /* gcc 12 else counts on the stack */
    }
    if (k > 0)
        pair_step(type, rows, vectors, b, NULL, false, &a, acc);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(c + i * window->ldc + v * VF_LANES, acc[i][v]);
}

/* Tiles side by side, as thin_bodies has them. */
INLINE void pair_bodies(const enum heed_type type, const int rows, const int vectors, const struct thin_window *window, int from,
                        int j, int tiles) {
    const int bytes = vectors * VF_LANES * (int)type_bytes(type);
    const int64_t ahead_bytes = window->ahead.step ? bytes : bytes * window->k;
    const char *b = (const char *)window->b + j * type_bytes(type);
    struct thin_ahead ahead = thin_ahead_of_tile(window->ahead, bytes, window->k, j * type_bytes(type));
    float *c = window->c + from * window->ldc + j;
    struct tile_rows a;
    tile_rows_begin(rows, &a, window->a + from * window->lda, window->lda);
    NO_UNROLL for (; tiles > 0; tiles--) {
        pair_body(type, rows, vectors, window, a, b, ahead, c);
        b += bytes;
        ahead.data += (uintptr_t)ahead_bytes;
        c += vectors * VF_LANES;
    }
}

THIN_SHAPES(pairs_bf16, pair_bodies, HEED_BF16)
THIN_SHAPES(pairs_i8, pair_bodies, HEED_I8)

/* At most PAIRS_ROWS rows. */
static void thin_pairs_of_rows(const struct heed_thin_product *product) {
    static const thin_shape of_bf16[THIN_MOST_ROWS][THIN_MOST_VECTORS] = THIN_TABLE(pairs_bf16),
                            of_i8[THIN_MOST_ROWS][THIN_MOST_VECTORS] = THIN_TABLE(pairs_i8);
    const struct thin_split split = thin_split_of(product, product->columns);
    const bool once = thin_fetches_once(product, &split);
    const int64_t rows = min_i64(PAIRS_K, thin_window_rows(product, once));
    float words[PAIRS_ROWS * PAIRS_LD];
    struct thin_window window;
    for (int64_t row = 0; row < product->k; row += window.k) {
        window = thin_window_at(product, row, rows, once, false);
        if (product->a_words) {
            window.a = product->a + row / 2;
        } else {
            pair_words_of_a(window.a, window.lda, product->rows, window.k, words, PAIRS_LD);
            window.a = words;
            window.lda = PAIRS_LD;
        }
        thin_tiles(product->type == HEED_I8 ? of_i8 : of_bf16, &split, &window);
    }
}

/* Two rows of b, of which the second lies right behind the first. */
INLINE void pair_turn(const enum heed_type type, const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS],
                      const struct tile_rows *a, const char *b, const struct in_order_sums *c) {
    const int beside = type == HEED_I8 ? 1 : 2, bytes = VF_LANES * (int)type_bytes(type), row_bytes = vectors * bytes;
    vf row[WIDE_ROWS], column[THIN_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) row[i] = v_pin(v_load1(tile_row(a, i)));
    UNROLL for (int v = 0; v < vectors; v += beside) {
        const char *even = b + v * bytes;
        pair_load_columns(type, smaller(beside, vectors - v), even, even + row_bytes, !rest, column);
        in_order_column(PAIRS_SUMS, rows, vectors, v, acc, row, column[0], c);
        if (beside > 1 && v + 1 < vectors)
            in_order_column(PAIRS_SUMS, rows, vectors, v + 1, acc, row, column[1], c);
    }
}
INLINE void pair_turn_bf16(const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS], const struct tile_rows *a,
                           const char *b, const struct in_order_sums *c) {
    pair_turn(HEED_BF16, rows, vectors, rest, acc, a, b, c);
}
INLINE void pair_turn_i8(const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS], const struct tile_rows *a,
                         const char *b, const struct in_order_sums *c) {
    pair_turn(HEED_I8, rows, vectors, rest, acc, a, b, c);
}
/* Of 4 rows of bf16 lines are fetched, of fewer not: from memory they take 0.93 to 0.98 of the time so, 3 rows 1.1, bytes 0.83
 * (Zen 4). */
INLINE struct in_order_kind pair_kind(const enum heed_type type, const int rows) {
    return (struct in_order_kind){.order = HEED_F32,
                                  .turn_k = PAIR_STEPS,
                                  .turn_floats = 1,
                                  .vector_bytes = PAIR_STEPS * VF_LANES * (int)type_bytes(type),
                                  .sums = PAIRS_SUMS,
                                  .fetches = type == HEED_I8 || rows > 3};
}
INLINE struct in_order_kind pair_kind_bf16(const int rows) { return pair_kind(HEED_BF16, rows); }
INLINE struct in_order_kind pair_kind_i8(const int rows) { return pair_kind(HEED_I8, rows); }

IN_ORDER_SHAPES(pairs_in_order_bf16, MOST_SUMS, pair_turn_bf16, pair_kind_bf16)
IN_ORDER_SHAPES(pairs_in_order_i8, MOST_SUMS, pair_turn_i8, pair_kind_i8)

static void thin_pairs_in_order(const struct heed_thin_product *product) {
    static const in_order_shape shapes[][WIDE_ROWS][WIDE_VECTORS] = {IN_ORDER_TABLE(pairs_in_order_bf16),
                                                                     IN_ORDER_TABLE(pairs_in_order_i8)};
    shapes[product->type == HEED_I8][product->rows - 1][product->columns / VF_LANES - 1](product);
}

static void thin_pairs_of_panel(const struct heed_thin_product *product) {
    if (product->a_words || product->rows <= PAIRS_ROWS) {
        thin_pairs_of_rows(product);
        return;
    }
    struct heed_thin_product part = *product;
    for (int from = 0; from < product->rows; from += part.rows) {
        part.rows = smaller(PAIRS_ROWS, product->rows - from);
        part.a = product->a + from * product->lda;
        part.c = product->c + from * product->ldc;
        thin_pairs_of_rows(&part);
    }
}

/* Of bf16 or bytes, whole vectors of columns. */
static void thin_pairs(const struct heed_thin_product *product) {
    if (thin_is_one_piece(product) && product->rows <= WIDE_ROWS && product->a_words)
        thin_pairs_in_order(product);
    else
        thin_each_panel(thin_pairs_of_panel, product);
}

/* As thin_squares_by_type. */
static void thin_pair_squares(const struct heed_thin_product *product, int64_t k, int from, int to) {
    float words[FAR_SQUARE_ROWS * SQUARES_LD];
    struct heed_thin_product part = *product;
    pair_words_of_a(product->a, product->lda, product->rows, k, words, SQUARES_LD);
    part.a = words;
    part.lda = SQUARES_LD;
    thin_word_squares(&part, k, from, to);
}

#endif
