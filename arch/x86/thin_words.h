/* thin_product by vdpbf16ps: few rows of words times a panel of bf16 that is read once, from memory.  Contract in src/kernels.h,
 * struct heed_dots.
 *
 * Two rows of the panel become words as they are multiplied: one operation for 16 of them, where two make floats of them, and then
 * two products.  Arranged first, as for tiles of many rows, 8 rows times 4096 x 4096 took twice as long, for memory waited. */
#ifndef HEED_THIN_WORDS_H
#define HEED_THIN_WORDS_H

enum {
    THIN_WORD_DEPTH = 64,                                 /* rows of the panel: 8 KiB, computed while as much is fetched */
    THIN_WORD_BYTES = HEED_PANEL * (int)sizeof(uint16_t), /* of such a row */
    THIN_LINE = HEED_LINE * (int)sizeof(float)
};

/* Some rows of the panel, and a tile's part in fetching the next ones: in each `turns`-th step, from the `turn`-th on. */
struct word_window {
    int64_t k;
    const float *a;
    int64_t lda;
    const char *b;
    float *c;
    int64_t ldc;
    bool continues, once;
    int turn, turns;
};

/* By address, since what follows the panel is mostly the next one: prefetching is no access. */
INLINE void word_fetch(uintptr_t at, const int lines, bool once) {
    UNROLL for (int line = 0; line < lines; line++) __builtin_prefetch((const void *)(at + (uintptr_t)(line * THIN_LINE)), 0, 3);
    if (!once)
        UNROLL for (int line = 0; line < lines; line++)
            __builtin_prefetch((const void *)(at + (uintptr_t)(THIN_WORD_DEPTH * THIN_WORD_BYTES + line * THIN_LINE)), 0, 2);
}

/* A step of all chains: two vectors of columns of each of two rows, or of one and zeros, become words by halves of 128 bits. */
INLINE void word_step(const int rows, const int vectors, vf acc[][TILE_VECTORS], const struct tile_rows *a, const char *b,
                      const bool odd) {
    vf words[TILE_VECTORS];
    UNROLL for (int v = 0; v < vectors; v += 2) {
        const __m512i even = _mm512_loadu_si512(b + v / 2 * THIN_LINE);
        const __m512i next = odd ? _mm512_setzero_si512() : _mm512_loadu_si512(b + THIN_WORD_BYTES + v / 2 * THIN_LINE);
        words[v] = v_pin(_mm512_castsi512_ps(_mm512_unpacklo_epi16(even, next)));
        words[v + 1] = v_pin(_mm512_castsi512_ps(_mm512_unpackhi_epi16(even, next)));
    }
    tile_column(rows, vectors, acc, a, 0, words);
}

/* Rows from `from` on, columns from j on.  Sums wait in the order of the words. */
INLINE void word_body(const int rows, const int vectors, const struct word_window *window, int from, int j) {
    const int lines = vectors; /* of two rows */
    vf acc[TALL_ROWS][TILE_VECTORS];
    const char *b = window->b + j * (int)sizeof(uint16_t);
    float *c = window->c + from * window->ldc + j;
    uintptr_t ahead = (uintptr_t)window->b + (uintptr_t)(THIN_WORD_DEPTH * (THIN_WORD_BYTES + j * (int)sizeof(uint16_t)));
    struct tile_rows at;
    int wait = window->turn;
    int64_t k = window->k;
    tile_rows_begin(rows, &at, window->a + from * window->lda, window->lda);
    tile_zero(rows, vectors, acc);
    if (window->continues)
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
            v_load(c + i * window->ldc + v * VF_LANES);
    NO_UNROLL for (; k >= 2; k -= 2) {
        if (wait-- == 0) {
            word_fetch(ahead, lines, window->once);
            wait = window->turns - 1;
        }
        ahead += (uintptr_t)(lines * THIN_LINE);
        word_step(rows, vectors, acc, &at, b, false);
        b += 2 * THIN_WORD_BYTES;
        tile_rows_advance(rows, &at, 1);
        tile_rows_pin(rows, &at);
    }
    if (k > 0)
        word_step(rows, vectors, acc, &at, b, true);
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

/* Sums of 32 columns in their own order. */
static void word_order(float *c) {
    const vf low = v_load(c), high = v_load(c + VF_LANES);
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    v_store(c, _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(low), first, _mm512_castps_pd(high))));
    v_store(c + VF_LANES, _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(low), second, _mm512_castps_pd(high))));
}

static void thin_words(const struct heed_thin_product *product) {
    static void (*const shapes[])(const struct word_window *window,
                                  int from) = {word_rows_1, word_rows_2, word_rows_3, word_rows_4,  word_rows_5,  word_rows_6,
                                               word_rows_7, word_rows_8, word_rows_9, word_rows_10, word_rows_11, word_rows_12};
    struct word_window window = {.lda = product->lda, .c = product->c, .ldc = product->ldc, .once = product->fetch_once};
    window.turns = (product->rows + TALL_ROWS - 1) / TALL_ROWS;
    for (int64_t p = 0; p < product->k; p += THIN_WORD_DEPTH) {
        window.k = min_i64(THIN_WORD_DEPTH, product->k - p);
        window.a = product->a + p / 2;
        window.b = (const char *)product->b + p * THIN_WORD_BYTES;
        window.continues = p > 0;
        for (int part = 0, from = 0, rows; part < window.turns; part++, from += rows) {
            rows = product->rows / window.turns + (part < product->rows % window.turns);
            window.turn = part;
            shapes[rows - 1](&window, from);
        }
    }
    for (int i = 0; i < product->rows; i++)
        for (int j = 0; j < HEED_PANEL; j += HEED_DOT)
            word_order(product->c + i * product->ldc + j);
}

#endif
