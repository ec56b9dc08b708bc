/* Rows in bytes times weights in blocks, as integers.  Contracts in src/contracts/i8.h, struct heed_i8_kernels.
 *
 * A word, 4 bytes of a column, meets 4 of the row in one step, where floats take a conversion and a multiply-add for each byte.
 * The sums of a block are integers, and so the same in any order; they meet the chains, which wait in L1, once in 32 elements
 * (K formats: twice).
 *
 * I8_DOT, I8_DOT_U7, I8_DOT_U4, I8_DOT_U4_END: how products of words are summed, if not as v_dot_i8 and the others do it;
 * I8_RAISED, 0 or 128: what I8_RAISE adds to bytes of q8_0 for I8_DOT, whose sums are then so many times that of q too large;
 * I8_STARTS: whether sums are integers from the first step on, so that they can begin with what is too much. */
#ifndef HEED_KERNELS_I8_PRODUCT_H
#define HEED_KERNELS_I8_PRODUCT_H

#ifndef I8_DOT
#define I8_DOT        v_dot_i8
#define I8_DOT_U7     v_dot_u7
#define I8_DOT_U4     v_dot_u4
#define I8_DOT_U4_END v_dot_u4_end
#endif
#ifndef I8_STARTS
#define I8_STARTS false
#endif
#ifndef I8_RAISED
#define I8_RAISED   0
#define I8_RAISE(w) (w)
#endif

#include "kernels/i8_one_row.h"

enum {
    I8_ROWS = 4, /* of a tile, at most */
    /* Of columns as they are, whose words become a tile's in registers: by 8 rows at a time 5 to 8 rows take 0.66 to 0.82 of the
     * time, 9 to 12 rows 0.83 to 0.89 (AVX-512, Zen 5). */
    I8_COLUMNS_ROWS = FEW_REGISTERS ? I8_ROWS : 8,
    I8_COLUMNS_MOST = 8,              /* of any vectors */
    I8_STRIP = 16,                    /* rows of which a window's bytes, and sums, are in L1 beside a window of b */
    I8_SUMS = FEW_REGISTERS ? 8 : 16, /* of integers; the rest of the registers multiply */
    /* Where registers are many, tiles after the first one are held, high and narrow (i8_tile.h), and what words need is done once
     * for more rows.  16 and more rows times q8_0 and q4_0 take 0.96 to 0.98 of the time, q5_0 0.97 to 1.02, q4_K
     * and q5_K 0.93 to 0.97, q6_K 0.85 to 0.87 (AVX-512, Zen 4). */
    I8_MOST_ROWS = 6, /* of any tile */
    I8_HELD_ROWS = FEW_REGISTERS ? 0 : I8_MOST_ROWS,
    I8_HELD_VECTORS = 2,
    I8_INTO_L2 = VF_LANES == HEED_LINE && I8_STARTS, /* processors for which that is better have VNNI */
    I8_PANEL = HEED_PANEL / VF_LANES,
    I8_VECTORS = I8_PANEL < I8_SUMS ? I8_PANEL : I8_SUMS /* of a tile, at most */
};

#include "kernels/i8_tile.h"
#include "kernels/i8_k_blocks.h"

INLINE int i8_vectors(const int rows) {
    const int vectors = I8_SUMS / (rows == 3 ? 4 : rows);
    return vectors < I8_PANEL ? vectors : I8_PANEL;
}
/* Held tiles load more for each product.  Where vectors are narrow, that counts for bytes that are what they are: q8_0 would take
 * 1.0 to 1.33 of the cycles (NEON, llvm-mca). */
INLINE bool i8_has_held(const enum heed_type type) { return I8_HELD_ROWS > 0 && (type != HEED_Q8_0 || VF_LANES == HEED_LINE); }
INLINE void i8_bodies(const enum heed_type type, const bool hold, const int rows, const int vectors,
                      const struct i8_window *window) {
    for (int j = 0; j < HEED_PANEL; j += vectors * VF_LANES)
        if (type_is_k(type))
            i8_k_body(type, hold, rows, vectors, window, j);
        else
            i8_body(type, hold, rows, vectors, window, j);
}
#define I8_SHAPE(name, type, rows)                                                                                                 \
    NOINLINE void name##_##rows(const struct i8_window *window) { i8_bodies(type, false, rows, i8_vectors(rows), window); }
#define I8_HELD_SHAPE(name, type, rows)                                                                                            \
    NOINLINE void name##_held_##rows(const struct i8_window *window) {                                                             \
        if (i8_has_held(type))                                                                                                     \
            i8_bodies(type, true, rows, I8_HELD_VECTORS, window);                                                                  \
    }
#define I8_SHAPES(name, type)                                                                                                      \
    I8_SHAPE(name, type, 1)                                                                                                        \
    I8_SHAPE(name, type, 2)                                                                                                        \
    I8_SHAPE(name, type, 3)                                                                                                        \
    I8_SHAPE(name, type, 4) I8_HELD_SHAPE(name, type, 4) I8_HELD_SHAPE(name, type, 5) I8_HELD_SHAPE(name, type, 6)
I8_SHAPES(i8_q8_0, HEED_Q8_0)
I8_SHAPES(i8_q4_0, HEED_Q4_0)
I8_SHAPES(i8_q5_0, HEED_Q5_0)
I8_SHAPES(i8_q4_k, HEED_Q4_K)
I8_SHAPES(i8_q5_k, HEED_Q5_K)
I8_SHAPES(i8_q6_k, HEED_Q6_K)
I8_SHAPES(i8_iq4_nl, HEED_IQ4_NL)
I8_SHAPES(i8_mxfp4, HEED_MXFP4)
#define I8_NAMES(name)                                                                                                             \
    { name##_1, name##_2, name##_3, name##_4 }
/* Of fewer rows than 4 there is no held tile. */
#define I8_HELD_NAMES(name)                                                                                                        \
    { name##_1, name##_2, name##_3, name##_held_4, name##_held_5, name##_held_6 }

/* The first of the parts that so many rows are cut into, as evenly as may be. */
INLINE int i8_part(int rows, const int most) {
    const int parts = (rows + most - 1) / most;
    return (rows + parts - 1) / parts;
}

/* Whether the tile after `done` of some rows is held.  The first is as wide as the panel, which it reads in its order, unless
 * there is more to do for each byte of it: 8 rows from memory take 1.05 to 1.09 of the time with held ones alone, q8_0 with 16 rows
 * 1.05, but 16 rows of q5_0 0.98, 8 of q6_K 0.9 (Zen 4). */
INLINE bool i8_holds(const enum heed_type type, int rows, int done) {
    const int most = type == HEED_Q8_0 ? I8_STRIP : type_is_k(type) ? I8_ROWS : 2 * I8_ROWS;
    return i8_has_held(type) && (done > 0 || rows > most);
}
INLINE int i8_tile_rows(const enum heed_type type, int rows, int done) {
    return i8_part(rows - done, i8_holds(type, rows, done) ? I8_HELD_ROWS : I8_ROWS);
}
static int i8_count_tiles(const enum heed_type type, int rows) {
    int tiles = 0;
    for (int done = 0; done < rows; done += i8_tile_rows(type, rows, done))
        tiles++;
    return tiles;
}

/* All rows; the first ones fetch. */
static void i8_multiply_window(enum heed_type type, const struct i8_window *whole, int rows) {
    static void (*const shapes[][I8_ROWS])(const struct i8_window *) = {
        [HEED_Q8_0] = I8_NAMES(i8_q8_0),     [HEED_Q4_0] = I8_NAMES(i8_q4_0),  [HEED_Q5_0] = I8_NAMES(i8_q5_0),
        [HEED_Q4_K] = I8_NAMES(i8_q4_k),     [HEED_Q5_K] = I8_NAMES(i8_q5_k),  [HEED_Q6_K] = I8_NAMES(i8_q6_k),
        [HEED_IQ4_NL] = I8_NAMES(i8_iq4_nl), [HEED_MXFP4] = I8_NAMES(i8_mxfp4)};
    static void (*const held[][I8_MOST_ROWS])(const struct i8_window *) = {
        [HEED_Q8_0] = I8_HELD_NAMES(i8_q8_0),     [HEED_Q4_0] = I8_HELD_NAMES(i8_q4_0),  [HEED_Q5_0] = I8_HELD_NAMES(i8_q5_0),
        [HEED_Q4_K] = I8_HELD_NAMES(i8_q4_k),     [HEED_Q5_K] = I8_HELD_NAMES(i8_q5_k),  [HEED_Q6_K] = I8_HELD_NAMES(i8_q6_k),
        [HEED_IQ4_NL] = I8_HELD_NAMES(i8_iq4_nl), [HEED_MXFP4] = I8_HELD_NAMES(i8_mxfp4)};
    struct i8_window window = *whole;
    window.fetches = !whole->in_order;
    window.lines = window.next ? (BLOCK_TURNS * turn_bytes(type) + LINE_BYTES - 1) / LINE_BYTES : 0;
    window.tiles = window.next ? i8_count_tiles(type, rows) : 1;
    for (int done = 0, count; done < rows; done += count) {
        count = i8_tile_rows(type, rows, done);
        (i8_holds(type, rows, done) ? held[type] : shapes[type])[count - 1](&window);
        window.fetches = false;
        window.tile++;
        window.a += count * window.lda;
        window.c += count * HEED_PANEL;
    }
}

INLINE bool i8_into_l2(const struct heed_i8_product *product) { return I8_INTO_L2 && product->fetch_into == HEED_INTO_L2; }

/* Few rows read a panel as it lies, which prefetchers follow by themselves where all would go into L2.  Of q8_0 one row from L2 and
 * L3 takes 0.64 to 0.71 of the time so, from memory 0.80 to 1.0, two rows 0.71, and 0.96 to 1.04 (twice 1.16); of q4_0 one row 0.74
 * to 0.76, and 0.88 to 1.09 (once 1.17), two rows 0.89 to 0.93, and 0.93 to 1.17; of K formats one row 0.93 to 0.99, and 0.80 to
 * 0.95, two rows 0.99 to 1.04, and 0.98 to 1.08.  From memory more rows take up to 1.6 (Zen 4). */
INLINE bool i8_is_in_order(const struct heed_i8_product *product) {
    const int most = product->type == HEED_Q8_0 ? 2 : 1;
    return i8_into_l2(product) && product->rows <= most;
}

static void i8_panel(const struct heed_i8_product *product) {
    const enum heed_type type = product->type;
    struct i8_window window = {.lda = product->lda,
                               .c = product->c,
                               .fetch_once = product->fetch_into == HEED_INTO_L1,
                               .into_l2 = product->fetch_into == HEED_INTO_L2,
                               .in_order = i8_is_in_order(product)};
    memset(product->c, 0, (size_t)(product->rows * HEED_PANEL) * sizeof *product->c);
    for (int64_t start = 0; start < product->k; start += block_window(type)) {
        window.k = min_i64(block_window(type), product->k - start);
        window.a = product->a + start / TYPE_BLOCK;
        window.packed = (const char *)product->packed + HEED_PANEL * type_packed_span(type, start);
        if (window.in_order)
            fetch_pages((uintptr_t)window.packed + PAGES_AHEAD, HEED_PANEL * type_packed_span(type, window.k));
        window.next = product->next ? (uintptr_t)product->next + (uintptr_t)(HEED_PANEL * type_packed_span(type, start)) : 0;
        i8_multiply_window(type, &window, product->rows);
    }
}

/* Into L2 alone, too, some of what is asked for is not fetched.  Asked for again, 1 KB before it is asked for anyway, one row takes
 * 0.90 to 0.94 of the time from memory (q4_0, q4_K, iq4_nl), two and four rows 0.89 to 0.95, of q6_K 0.68 to 0.72; from L3 0.99 to
 * 1.02, of q6_K 0.81 to 0.94, from L2 0.99 to 1.03.  q8_0, q5_0 and mxfp4 gain nothing, and lose up to 1.05 (Zen 4).  Where lines
 * go into both caches the same line is asked for twice, which is less than to ask whether: that takes 1.02 to 1.045 from caches. */
enum { COLUMNS_AGAIN = 1024 };
INLINE uintptr_t i8_again(const struct heed_i8_product *product) { return i8_into_l2(product) ? COLUMNS_AGAIN : 0; }
INLINE uintptr_t i8_fetch_next(const enum heed_type type, const bool once, uintptr_t again, uintptr_t next, const int bytes) {
    if (I8_INTO_L2 && !once && (type_is_k(type) || type == HEED_Q4_0 || type == HEED_IQ4_NL))
        fetch_lines(next + again, bytes, false);
    return fetch_next_columns(once, next, bytes);
}

/* c of some rows and VF_LANES columns, `step` bytes apart. */
INLINE void i8_columns_body(const enum heed_type type, const int rows, const bool once, const struct heed_i8_product *product,
                            const char *column, int64_t step, float *c) {
    const struct heed_i8_block *a = product->a;
    const uintptr_t again = i8_again(product);
    struct block_columns at = block_columns_at(VF_LANES, column, step);
    uintptr_t next = next_columns(once, column, VF_LANES * step);
    vf chain[I8_COLUMNS_ROWS];
    UNROLL for (int i = 0; i < rows; i++) chain[i] = v_zero();
    NO_UNROLL for (int64_t k = product->k; k > 0; k -= TYPE_BLOCK, a++) {
        vi sums[I8_COLUMNS_ROWS];
        next = i8_fetch_next(type, once, again, next, VF_LANES * column_bytes(type));
        UNROLL for (int i = 0; i < rows; i++) sums[i] = i8_start(type, a + i * product->lda);
        const struct block_head head = load_column_heads(type, &at);
        UNROLL for (int word = 0; word < block_words(type); word += VF_PIECE) {
            vf words[VF_PIECE];
            load_column_words(&at, words_at(type) + word * WORD_BYTES, words);
            UNROLL for (int w = 0; w < VF_PIECE; w++) UNROLL for (int i = 0; i < rows; i++)
                UNROLL for (int half = 0; half < block_halves(type); half++) {
                const vi x = v_set1_word(a[i * product->lda].q + half * TYPE_BLOCK / 2 + (word + w) * WORD_BYTES),
                         b = v_bits(words[w]);
                sums[i] = i8_dot(type, half, sums[i], b, head.fifths, word + w, x);
            }
        }
        const vf d = widen_scales(type, head.d);
        const struct i8_end end = i8_end_begin(type, rows, a, product->lda);
        UNROLL for (int i = 0; i < rows; i++) chain[i] = i8_chain(type, chain[i], sums[i], &end, i, d);
        block_columns_advance(VF_LANES, &at, column_bytes(type));
    }
    UNROLL for (int i = 0; i < rows; i++) v_store(c + i * HEED_PANEL, chain[i]);
}

#include "kernels/i8_k_columns.h"

/* All of them, the last ones again where whole vectors of columns leave less than one.  Where there are fewer altogether, each is
 * taken for all lanes, of which the first is right. */
INLINE void i8_all_columns(const enum heed_type type, const int rows, const bool once, const struct heed_i8_product *product) {
    const int columns = product->columns, each = columns < VF_LANES ? 1 : VF_LANES;
    const int64_t step = columns < VF_LANES ? 0 : type_span(type, product->ldb);
    for (int done = 0; done < columns; done += each) {
        const int j = smaller(done, columns - each);
        const char *column = type_at(type, product->b, j * product->ldb);
        if (type_is_k(type))
            i8_k_columns_body(type, rows <= I8_K_ROWS ? rows : 1, once, product, column, step, product->c + j);
        else
            i8_columns_body(type, rows, once, product, column, step, product->c + j);
    }
}

/* once: where vectors are whole lines, nowhere else.  Asked at run time, for each block, it costs what it gains. */
enum { I8_ONCE = VF_LANES == HEED_LINE };
#define I8_COLUMNS_SHAPE(name, type, rows, once)                                                                                   \
    NOINLINE void name##_##rows(const struct heed_i8_product *product) {                                                           \
        if (once && !I8_ONCE)                                                                                                      \
            return;                                                                                                                \
        if (is_i8_one_row(type, rows))                                                                                             \
            i8_one_row(once, product);                                                                                             \
        else if (rows <= I8_COLUMNS_ROWS)                                                                                          \
            i8_all_columns(type, rows <= I8_COLUMNS_ROWS ? rows : 1, once, product);                                               \
    }
#define I8_COLUMNS(name, type, once)                                                                                               \
    I8_COLUMNS_SHAPE(name, type, 1, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 2, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 3, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 4, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 5, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 6, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 7, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 8, once)
#define I8_COLUMNS_NAMES(name)                                                                                                     \
    { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8 }
I8_COLUMNS(i8_columns_q8_0, HEED_Q8_0, false)
I8_COLUMNS(i8_columns_q4_0, HEED_Q4_0, false)
I8_COLUMNS(i8_columns_q5_0, HEED_Q5_0, false)
I8_COLUMNS(i8_columns_iq4_nl, HEED_IQ4_NL, false)
I8_COLUMNS(i8_columns_mxfp4, HEED_MXFP4, false)
I8_COLUMNS(i8_columns_q8_0_once, HEED_Q8_0, true)
I8_COLUMNS(i8_columns_q4_0_once, HEED_Q4_0, true)
I8_COLUMNS(i8_columns_q5_0_once, HEED_Q5_0, true)
I8_COLUMNS(i8_columns_iq4_nl_once, HEED_IQ4_NL, true)
I8_COLUMNS(i8_columns_mxfp4_once, HEED_MXFP4, true)
#define I8_K_COLUMNS(name, type, once)                                                                                             \
    I8_COLUMNS_SHAPE(name, type, 1, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 2, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 3, once)                                                                                          \
    I8_COLUMNS_SHAPE(name, type, 4, once)
I8_K_COLUMNS(i8_columns_q4_k, HEED_Q4_K, false)
I8_K_COLUMNS(i8_columns_q5_k, HEED_Q5_K, false)
I8_K_COLUMNS(i8_columns_q6_k, HEED_Q6_K, false)
I8_K_COLUMNS(i8_columns_q4_k_once, HEED_Q4_K, true)
I8_K_COLUMNS(i8_columns_q5_k_once, HEED_Q5_K, true)
I8_K_COLUMNS(i8_columns_q6_k_once, HEED_Q6_K, true)

static void i8_columns(const struct heed_i8_product *whole) {
    static void (*const shapes[][2][I8_COLUMNS_MOST])(const struct heed_i8_product *) = {
        [HEED_Q8_0] = {I8_COLUMNS_NAMES(i8_columns_q8_0), I8_COLUMNS_NAMES(i8_columns_q8_0_once)},
        [HEED_Q4_0] = {I8_COLUMNS_NAMES(i8_columns_q4_0), I8_COLUMNS_NAMES(i8_columns_q4_0_once)},
        [HEED_Q5_0] = {I8_COLUMNS_NAMES(i8_columns_q5_0), I8_COLUMNS_NAMES(i8_columns_q5_0_once)},
        [HEED_IQ4_NL] = {I8_COLUMNS_NAMES(i8_columns_iq4_nl), I8_COLUMNS_NAMES(i8_columns_iq4_nl_once)},
        [HEED_MXFP4] = {I8_COLUMNS_NAMES(i8_columns_mxfp4), I8_COLUMNS_NAMES(i8_columns_mxfp4_once)},
        [HEED_Q4_K] = {I8_NAMES(i8_columns_q4_k), I8_NAMES(i8_columns_q4_k_once)},
        [HEED_Q5_K] = {I8_NAMES(i8_columns_q5_k), I8_NAMES(i8_columns_q5_k_once)},
        [HEED_Q6_K] = {I8_NAMES(i8_columns_q6_k), I8_NAMES(i8_columns_q6_k_once)}};
    struct heed_i8_product product = *whole;
    const int most = type_is_k(product.type) ? I8_K_ROWS : I8_COLUMNS_ROWS;
    for (int rows = whole->rows; rows > 0; rows -= product.rows) {
        product.rows = i8_part(rows, most);
        shapes[product.type][I8_ONCE && product.fetch_into == HEED_INTO_L1][product.rows - 1](&product);
        product.a += product.rows * product.lda;
        product.c += product.rows * HEED_PANEL;
    }
}

#include "kernels/i8_cache.h"

/* Packed, b is read as it lies; else some columns at a time, along k, for prefetchers follow few streams: one row times 4096 x 4096
 * of q8_0 takes 0.65 of the time that windows of all columns through L1 take (Zen 3). */
static void i8_product(const struct heed_i8_product *product) {
    if (product->packed)
        i8_panel(product);
    else
        i8_columns(product);
}

#endif
