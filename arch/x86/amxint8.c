/* HEED_COMPUTE_I8 by AMX: tdpbssd multiplies 16 rows by 16 columns, over the 32 elements of a block, in 16 cycles, where vpdpbusd
 * takes 64.  What is left are the chains: three instructions for 16 of a block's sums. */
#define _GNU_SOURCE
#include "vec_avx512.h"

#include "amx_tiles.h"
#include "cpu.h"
#include "kernels.h"

#include "kernels/types.h"
#include "kernels/block_words.h"

enum {
    LEAST_ROWS_Q4_0 = 2 * REGISTER, /* fewer are as quick without what words become */
    STRIP_ROWS = 128,               /* for which they become bytes once: with 64 rows products take 1.04 times as long */
    WINDOW = 64,                    /* blocks of them: with 16, 1.08 times */
    BLOCK_WORDS = TYPE_BLOCK / WORD_BYTES,
    BLOCK_BYTES = BLOCK_WORDS * WORDS_BYTES,
    AHEAD = 8192 /* bytes of a panel */
};

/* Blocks of a panel, with integers as bytes, and how many bytes one is from the other. */
struct window {
    const char *scales, *words;
    int64_t scales_step, words_step;
    int64_t blocks;
    bool continues, fetches;
};

INLINE void fetch_block(const char *block, int64_t bytes) {
    NO_UNROLL for (int64_t line = 0; line < bytes; line += LINE_BYTES)
        __builtin_prefetch((const void *)((uintptr_t)block + AHEAD + (uintptr_t)line), 0, 2);
}

/* The rows' pointers are too many for registers, and gcc 12 keeps them in those of vectors, from where a port that multiplies has
 * to fetch them. */
INLINE void take_in(vf chains[REGISTER], const vi sums[REGISTER], const struct heed_i8_block *rows[REGISTER], int64_t block,
                    const char *scales) {
    const vf d = v_widen_f16(v_load_half((const uint16_t *)(const void *)scales));
    UNROLL for (int i = 0; i < REGISTER; i++) {
        const struct heed_i8_block **row = rows + i;
        __asm__("" : "+m"(*row));
        chains[i] = v_fma(v_float_of_int(sums[i]), v_mul(v_set1((*row)[block].scale), d), chains[i]);
    }
}

/* A register of sums is stored two blocks after it was multiplied, for as long it is not ready, and taken in two more blocks later:
 * a vector that is loaded soon after the register was stored there waits until that has left the core's buffers.  A block takes 23
 * ns so, and 26 if it is stored at once; the registers alone take 14, the chains alone 9: nothing runs beside the other. */
enum { LAG = 4 };

/* The n-th block of a turn: sums in register n, from a and words in two others; `stored` is that of two blocks before. */
#define CHAIN_BLOCK(n, of_a, of_b, stored)                                                                                         \
    do {                                                                                                                           \
        const int64_t next = block + (n), ready = next - LAG;                                                                      \
        if (next < blocks) {                                                                                                       \
            _tile_loadd(of_a, a + next, row_bytes);                                                                                \
            _tile_loadd(of_b, words + next * words_step, WORDS_BYTES);                                                             \
            _tile_zero(n);                                                                                                         \
            _tile_dpbssd(n, of_a, of_b);                                                                                           \
        }                                                                                                                          \
        _tile_stored(stored, sums[stored], ROW_BYTES);                                                                             \
        if (ready >= 0 && ready < blocks)                                                                                          \
            take_in(chains, sums[n], rows, ready, scales + ready * scales_step);                                                   \
    } while (0)

/* The chains of 16 rows and 16 columns, from j on, take in a window. */
NOINLINE void chain_window(const struct window *window, const struct heed_i8_block *a, int64_t lda, int j, float *c) {
    vi sums[LAG][REGISTER];
    vf chains[REGISTER];
    const struct heed_i8_block *rows[REGISTER];
    const int64_t row_bytes = lda * (int64_t)sizeof *a, blocks = window->blocks;
    const int64_t scales_step = window->scales_step, words_step = window->words_step;
    const char *scales = window->scales + j * (int64_t)sizeof(uint16_t), *words = window->words + j * WORD_BYTES;
    UNROLL for (int i = 0; i < REGISTER; i++) {
        rows[i] = a + i * lda;
        chains[i] = window->continues ? v_load(c + i * HEED_PANEL + j) : v_zero();
    }
    NO_UNROLL for (int64_t block = 0; block < blocks + LAG; block += LAG) {
        if (window->fetches && j == 0)
            fetch_block(scales + block * scales_step, LAG * scales_step);
        CHAIN_BLOCK(0, 4, 6, 2);
        CHAIN_BLOCK(1, 5, 7, 3);
        CHAIN_BLOCK(2, 4, 6, 0);
        CHAIN_BLOCK(3, 5, 7, 1);
    }
    UNROLL for (int i = 0; i < REGISTER; i++) v_store(c + i * HEED_PANEL + j, chains[i]);
}

/* All rows, from a block on. */
static void multiply_window(const struct heed_i8_product *product, int64_t start, const struct window *all) {
    struct window window = *all;
    for (int i = 0; i < product->rows; i += REGISTER) {
        for (int j = 0; j < product->columns; j += REGISTER)
            chain_window(&window, product->a + i * product->lda + start, product->lda, j, product->c + i * HEED_PANEL);
        window.fetches = false;
    }
}

static void multiply_q8_0(const struct heed_i8_product *product) {
    const char *packed = product->packed;
    const int64_t step = HEED_PANEL * block_bytes(HEED_Q8_0);
    multiply_window(product, 0,
                    &(struct window){.scales = packed,
                                     .words = packed + HEED_PANEL * scale_bytes(HEED_Q8_0),
                                     .scales_step = step,
                                     .words_step = step,
                                     .blocks = product->k / TYPE_BLOCK,
                                     .fetches = true});
}

/* Words of q4_0 as those of bytes: the first half of a block, which is in the lower halves of all, and then the second. */
static void spread_words(const char *blocks, int64_t count, uint8_t *bytes) {
    const int64_t step = HEED_PANEL * block_bytes(HEED_Q4_0);
    const vi eight = _mm512_set1_epi8(8);
    for (; count > 0; count--, blocks += step, bytes += BLOCK_BYTES) {
        const uint8_t *words = (const uint8_t *)blocks + HEED_PANEL * scale_bytes(HEED_Q4_0);
        fetch_block(blocks, step);
        UNROLL for (int i = 0; i < BLOCK_BYTES / 2; i += ROW_BYTES) {
            const vi w = v_load_int(words + i);
            _mm512_storeu_si512(bytes + i, _mm512_sub_epi8(v_low4(w), eight));
            _mm512_storeu_si512(bytes + BLOCK_BYTES / 2 + i, _mm512_sub_epi8(v_high4(w), eight));
        }
    }
}

static void multiply_q4_0(const struct heed_i8_product *product) {
    uint8_t *bytes = product->scratch;
    const char *packed = product->packed;
    const int64_t step = HEED_PANEL * block_bytes(HEED_Q4_0), blocks = product->k / TYPE_BLOCK;
    for (int64_t start = 0; start < blocks; start += WINDOW) {
        const struct window window = {.scales = packed + start * step,
                                      .words = (const char *)bytes,
                                      .scales_step = step,
                                      .words_step = BLOCK_BYTES,
                                      .blocks = min_i64(WINDOW, blocks - start),
                                      .continues = start > 0};
        spread_words(window.scales, window.blocks, bytes);
        __asm__ volatile("" ::: "memory"); /* gcc 12: a register that is loaded reads it */
        multiply_window(product, start, &window);
    }
}

extern const struct heed_i8_kernels heed_i8_avx512vnni;

static void multiply(const struct heed_i8_product *product) {
    static const struct tile_shapes shapes = {
        .palette = 1,
        .row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, TYPE_BLOCK, TYPE_BLOCK, ROW_BYTES, ROW_BYTES},
        .rows = {REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, BLOCK_WORDS, BLOCK_WORDS}};
    uint8_t callers[sizeof shapes];
    tiles_keep(callers);
    tiles_shape(&shapes);
    (product->type == HEED_Q4_0 ? multiply_q4_0 : multiply_q8_0)(product);
    tiles_end(callers);
}

/* Of so many, those in whole registers; the others are as quick by vpdpbusd. */
static int tile_rows(enum heed_type type, int rows) {
    const int whole = rows / REGISTER * REGISTER;
    if (type != HEED_Q8_0 && type != HEED_Q4_0)
        return 0;
    return whole < (type == HEED_Q4_0 ? LEAST_ROWS_Q4_0 : REGISTER) ? 0 : whole;
}

static int64_t scratch_bytes(enum heed_type type, int rows) {
    return type == HEED_Q4_0 && tile_rows(type, rows) > 0 ? WINDOW * BLOCK_BYTES : 0;
}

/* Rows [from, to). */
static struct heed_i8_product rows_of(const struct heed_i8_product *product, int from, int to) {
    struct heed_i8_product rows = *product;
    rows.rows = to - from;
    rows.a += from * product->lda;
    rows.c += from * HEED_PANEL;
    return rows;
}

static void i8_product(const struct heed_i8_product *product) {
    int from = product->packed ? tile_rows(product->type, product->rows) : 0;
    if (from > 0) {
        const struct heed_i8_product rows = rows_of(product, 0, from);
        multiply(&rows);
    }
    for (int to; from < product->rows; from = to) {
        to = smaller(from + heed_i8_avx512vnni.strip_rows, product->rows);
        const struct heed_i8_product rows = rows_of(product, from, to);
        heed_i8_avx512vnni.product(&rows);
    }
}

/* What a cache has is not in tiles. */
static void i8_cache_product(const struct heed_i8_cache_product *product) { heed_i8_avx512vnni.cache_product(product); }

extern const struct heed_i8_kernels heed_i8_amx;
const struct heed_i8_kernels heed_i8_amx = {.requires = HEED_CPU_AVX512_VNNI,
                                            .permitted = tiles_permitted,
                                            .otherwise = &heed_i8_avx512vnni,
                                            .strip_rows = STRIP_ROWS,
                                            .scratch_bytes = scratch_bytes,
                                            .product = i8_product,
                                            .cache_product = i8_cache_product};
