/* thin_product by vdpbf16ps: few rows of words times a panel of words, or times rows of bf16 along k, that are read once, from
 * memory.  Contract in src/contracts/dots.h, struct heed_dots.  A panel is one piece (src/kernels/in_order.h). */
#ifndef HEED_THIN_WORDS_H
#define HEED_THIN_WORDS_H

enum {
    THIN_WORD_DEPTH = 32, /* rows of words, computed while as much is fetched */
    THIN_WORD_BYTES = THIN_WORD_DEPTH * HEED_PANEL * (int)sizeof(float),
    WORDS_IN_ORDER = 8 /* rows of a, at most */
};

/* Some rows of the panel, and a tile's part in fetching the next ones: in each `turns`-th step, from the `turn`-th
 * on. */
struct word_window {
    int64_t words;
    const float *a;
    int64_t lda;
    const float *b;
    float *c;
    int64_t ldc;
    bool continues;
    enum heed_fetch_into fetch_into;
    int turn, turns;
};

INLINE void word_fetch(uintptr_t at, const int lines, enum heed_fetch_into into) {
    if (into == HEED_INTO_L2)
        UNROLL for (int line = 0; line < lines; line++) fetch_line(at + (uintptr_t)(line * LINE_BYTES), false);
    else
        UNROLL for (int line = 0; line < lines; line++) fetch_line(at + (uintptr_t)(line * LINE_BYTES), true);
    if (into != HEED_INTO_L1)
        UNROLL for (int line = 0; line < lines; line++) fetch_line(at + (uintptr_t)(THIN_WORD_BYTES + line * LINE_BYTES), false);
}

/* Rows from `from` on, columns from j on. */
INLINE void word_body(const int rows, const int vectors, const struct word_window *window, int from, int j) {
    vf acc[TALL_ROWS][TILE_VECTORS];
    struct tile_b b = tile_b_begin(window->b + j, HEED_PANEL);
    float *c = window->c + from * window->ldc + j;
    uintptr_t ahead = (uintptr_t)window->b + (uintptr_t)(THIN_WORD_BYTES + THIN_WORD_BYTES / HEED_PANEL * j);
    struct tile_rows at;
    int wait = window->turn;
    tile_rows_begin(rows, &at, window->a + from * window->lda, window->lda);
    tile_zero(rows, vectors, acc);
    if (window->continues)
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
            v_load(c + i * window->ldc + v * VF_LANES);
    NO_UNROLL for (int64_t left = window->words; left > 0; left--) {
        if (wait-- == 0) {
            word_fetch(ahead, vectors, window->fetch_into);
            wait = window->turns - 1;
        }
        ahead += (uintptr_t)(vectors * LINE_BYTES);
        tile_turn(1, TILE_B_ALONE, 1, rows, vectors, acc, &at, &b, NULL);
        tile_rows_pin(rows, &at);
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(c + i * window->ldc + v * VF_LANES, acc[i][v]);
}

/* As many chains as there are registers for. */
#define WORD_VECTORS(rows) ((rows) > TILE_ROWS ? TILE_VECTORS / 2 : TILE_VECTORS)
#define WORD_SHAPE(rows)                                                                                                           \
    NOINLINE void word_rows_##rows(const struct word_window *window, int from) {                                                   \
        for (int j = 0; j < HEED_PANEL; j += WORD_VECTORS(rows) * VF_LANES)                                                        \
            word_body(rows, WORD_VECTORS(rows), window, from, j);                                                                  \
    }
WORD_SHAPE(1)
WORD_SHAPE(2)
WORD_SHAPE(3)
WORD_SHAPE(4)
WORD_SHAPE(5)
WORD_SHAPE(6)
WORD_SHAPE(7)
WORD_SHAPE(8)
WORD_SHAPE(9)
WORD_SHAPE(10)
WORD_SHAPE(11)
WORD_SHAPE(12)

/* Prefetchers follow what one tile reads in order, where all would be fetched into L2, but for pages: from memory 1 to 3 rows take
 * 0.73 to 0.95 of the time so, 4 rows 0.76 to 0.87, from L3 0.63 to 0.80 and 0.85 to 0.95, but 4 rows of 32 MB, about as much as
 * L3, 1.2 (without fetches of pages 1.0 to 1.1 times as long).  Of more than 8 each of two tiles sees half.  In one
 * piece, and not by windows, 1 row takes 0.93 to 0.96, 2 to 4 rows 0.95 to 1.0, 5 to 8 rows 0.79 to 0.98 (Zen 4). */
INLINE bool words_are_in_order(const struct heed_thin_product *product) {
    return product->fetch_into == HEED_INTO_L2 && product->rows <= WORDS_IN_ORDER;
}

/* 6 rows are quicker without fetches, 0.95 of the time (Zen 4). */
INLINE struct in_order_kind word_kind_tall(const int rows) {
    struct in_order_kind kind = in_order_kind_tall(rows);
    kind.fetches = rows > 6;
    return kind;
}

IN_ORDER_SHAPE(words_in_order, 1, 4, FLOATS_SUMS, in_order_floats, in_order_kind_floats)
IN_ORDER_SHAPE(words_in_order, 2, 4, FLOATS_SUMS, in_order_floats, in_order_kind_floats)
IN_ORDER_SHAPE(words_in_order, 3, 4, FLOATS_SUMS, in_order_floats, in_order_kind_floats)
IN_ORDER_SHAPE(words_in_order, 4, 4, FLOATS_SUMS, in_order_floats, in_order_kind_floats)
IN_ORDER_SHAPE(words_in_order, 5, 4, MOST_SUMS, in_order_tall, word_kind_tall)
IN_ORDER_SHAPE(words_in_order, 6, 4, MOST_SUMS, in_order_tall, word_kind_tall)
IN_ORDER_SHAPE(words_in_order, 7, 4, MOST_SUMS, in_order_tall, word_kind_tall)
IN_ORDER_SHAPE(words_in_order, 8, 4, MOST_SUMS, in_order_tall, word_kind_tall)

static void thin_words_in_order(const struct heed_thin_product *product) {
    static const in_order_shape shapes[] = {words_in_order_1x4, words_in_order_2x4, words_in_order_3x4, words_in_order_4x4,
                                            words_in_order_5x4, words_in_order_6x4, words_in_order_7x4, words_in_order_8x4};
    struct heed_thin_product words = *product;
    words.k = round_up(product->k, 2) / 2;
    words.next = (const float *)product->b + words.k * HEED_PANEL;
    shapes[product->rows - 1](&words);
}

static void thin_words(const struct heed_thin_product *product) {
    static void (*const shapes[])(const struct word_window *window,
                                  int from) = {word_rows_1, word_rows_2, word_rows_3, word_rows_4,  word_rows_5,  word_rows_6,
                                               word_rows_7, word_rows_8, word_rows_9, word_rows_10, word_rows_11, word_rows_12};
    struct word_window window = {.lda = product->lda, .c = product->c, .ldc = product->ldc, .fetch_into = product->fetch_into};
    const int64_t words = round_up(product->k, 2) / 2;
    if (words_are_in_order(product)) {
        thin_words_in_order(product);
        return;
    }
    window.turns = (product->rows + TALL_ROWS - 1) / TALL_ROWS;
    for (int64_t p = 0; p < words; p += THIN_WORD_DEPTH) {
        window.words = min_i64(THIN_WORD_DEPTH, words - p);
        window.a = product->a + p;
        window.b = (const float *)product->b + p * HEED_PANEL;
        window.continues = p > 0;
        for (int part = 0, from = 0, rows; part < window.turns; part++, from += rows) {
            rows = product->rows / window.turns + (part < product->rows % window.turns);
            window.turn = part;
            shapes[rows - 1](&window, from);
        }
    }
}

THIN_SQUARES_OF_TYPE(squares_words, HEED_BF16, SQUARES_OF_WORDS)

static void thin_word_squares(const struct heed_thin_product *product, int64_t k, int from, int to) {
    static const thin_squares_shape squares[FAR_SQUARE_ROWS_MOST] = THIN_SQUARES_NAMES(squares_words);
    thin_squares_in(squares[product->rows - 1], product, k, from, to);
}

static void thin_words_transposed(const struct heed_thin_product *product) {
    thin_word_squares(product, product->k, 0, product->columns);
}

#endif
