/* thin_blocks: few rows times weights in blocks, or bytes, of which all is read once, from memory.  Contract in
 * src/contracts/thin.h.
 *
 * Rows meet weights as these become floats, in registers: unpacked into L1 first, 8 rows of q8_0 took 1.7 times as long (AVX-512).
 * Weights that are not packed are packed on their way, a window into L1.  What lies ahead is fetched: behind a panel that is packed
 * the next one follows in memory, so there without asking where panels end.
 *
 * A single row has a way of its own through blocks where raised numbers are quicker (AVX-512 on Emerald Rapids: q8_0 from L2 takes
 * 0.82 of the time, q4_0 0.93).  More rows gained nothing where the core's other hyperthread was busy. */
#ifndef HEED_KERNELS_THIN_BLOCKS_H
#define HEED_KERNELS_THIN_BLOCKS_H

enum {
    BLOCKS_ROWS = TALL_VECTORS > 1 ? TALL_ROWS : 6, /* of a tile, two vectors wide */
    /* Where registers are few, one row or two take a word of some vectors after another, and each vector of weights meets its sums
     * at once: with weights of all vectors in registers, sums wait on the stack (gcc 12), and q4_0 takes 1.35 times as long, two
     * rows 1.4 times.  Of one row four vectors abreast, q4_0 takes 0.91 of the time of one at a time (AVX2, Zen 3). */
    BLOCKS_BY_WORDS = FEW_REGISTERS,
    BLOCKS_VECTORS = 8 /* of a tile, at most */
};
/* The scales of a block, or of a half of one, and, times these, what its numbers are raised by. */
struct blocks_scales {
    vf d[BLOCKS_VECTORS], by[BLOCKS_VECTORS];
};
INLINE void blocks_load_scales(const enum heed_type type, const bool raised, const int vectors, const char *block, int j,
                               const int half, struct blocks_scales *scales) {
    const float by[2] = {type == HEED_Q4_0 ? VF_RAISED_INT4(0) : VF_RAISED_BYTE, VF_RAISED_INT4(1)};
    UNROLL for (int v = 0; v < vectors; v++) {
        scales->d[v] = load_scale(type, block, j + v * VF_LANES);
        scales->by[v] = raised ? v_mul(scales->d[v], v_set1(0x1p24f * by[half])) : v_zero();
    }
}
/* Row i of a turn times the scales: d * q, or fma(d, q + by, -(d * by)), where no step rounds. */
INLINE vf blocks_load_scaled(const enum heed_type type, const bool raised, const struct blocks_scales *scales,
                             const struct block_turn *turn, const int v, const int half, const int i) {
    if (!raised)
        return v_mul(scales->d[v], load_weight(type, turn, v * VF_LANES, half, i));
    const vi word = load_word(turn, v * VF_LANES, i);
    const vf number = type == HEED_Q4_0 ? v_raised_int4(word, i % WORD_BYTES * 2 + half) : v_raised_byte(word, i % WORD_BYTES);
    return v_fma(number, scales->d[v], v_negate(scales->by[v]));
}

/* acc[i] = fma(a[i][p], b[p], acc[i]) for one p of a turn. */
INLINE void blocks_step(const enum heed_type type, const bool raised, const int rows, const int vectors, vf acc[][BLOCKS_VECTORS],
                        const float *const a[ROW_GROUPS], int64_t lda, const struct block_turn *turn,
                        const struct blocks_scales *scales, const int half, const int p) {
    vf b[BLOCKS_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) b[v] = v_pin(blocks_load_scaled(type, raised, scales, turn, v, half, p));
    UNROLL for (int i = 0; i < rows; i++) {
        const vf row = v_set1(a[i / ROW_GROUP][i % ROW_GROUP * lda + p]);
        UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_chain(acc[i][v], row, b[v]);
    }
}

/* The same of one row or two, for the elements of a word, some vectors abreast. */
INLINE void blocks_word(const enum heed_type type, const bool raised, const int rows, const int vectors, vf acc[][BLOCKS_VECTORS],
                        const float *a, int64_t lda, const struct block_turn *turn, const struct blocks_scales *scales,
                        const int half, const int word) {
    const int abreast = rows == 1 ? 4 : 1;
    vf row[2];
    UNROLL for (int from = 0; from < vectors; from += abreast) UNROLL for (int p = word; p < word + WORD_BYTES; p++) {
        UNROLL for (int i = 0; i < rows; i++) row[i] = v_pin(v_set1(a[i * lda + p]));
        UNROLL for (int v = from; v < from + abreast; v++) {
            const vf b = v_pin(blocks_load_scaled(type, raised, scales, turn, v, half, p));
            UNROLL for (int i = 0; i < rows; i++) acc[i][v] = v_pin(v_chain(acc[i][v], row[i], b));
        }
    }
}

/* The elements of a turn, from p on of the window; it and a advance. */
INLINE void blocks_turn(const enum heed_type type, const bool raised, const int rows, const int vectors, vf acc[][BLOCKS_VECTORS],
                        const float *a[ROW_GROUPS], struct block_turn *turn, const struct blocks_scales *scales, const int half,
                        const struct blocks_window *window, int64_t p, int j) {
    if (window->fetches && j == 0)
        fetch_ahead(type, window, p);
    if (BLOCKS_BY_WORDS && rows <= 2 && type != HEED_Q5_0) {
        UNROLL for (int word = 0; word < TURN_DEPTH; word += WORD_BYTES)
            blocks_word(type, raised, rows, vectors, acc, a[0], window->lda, turn, scales, half, word);
    } else {
        UNROLL for (int i = 0; i < TURN_DEPTH; i++)
            blocks_step(type, raised, rows, vectors, acc, a, window->lda, turn, scales, half, i);
    }
    turn->low += TURN_WORDS * WORDS_BYTES;
    UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) a[g] += TURN_DEPTH;
}

/* c of rows x vectors, columns from j on. */
INLINE void blocks_body(const enum heed_type type, const bool raised, const int rows, const int vectors,
                        const struct blocks_window *window, int j) {
    vf acc[BLOCKS_ROWS][BLOCKS_VECTORS];
    struct blocks_scales scales;
    const char *block = window->packed;
    const float *a[ROW_GROUPS];
    UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) {
        a[g] = window->a + g * ROW_GROUP * window->lda;
        PIN(a[g]);
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
        window->continues ? v_load(window->c + i * HEED_PANEL + j + v * VF_LANES) : v_zero();
    NO_UNROLL for (int64_t p = 0; p < window->k; block += HEED_PANEL * block_bytes(type)) {
        UNROLL for (int half = 0; half < block_halves(type); half++) {
            const char *words = block + panel_words_at(type), *end = words + block_words(type) * WORDS_BYTES;
            struct block_turn turn = block_turn_at(type, block + j * WORD_BYTES, 0);
            blocks_load_scales(type, raised, vectors, block, j, half, &scales);
            if (raised)
                PIN(end); /* else gcc unrolls q4_0's two turns, which costs what the operation less saves */
            if (type == HEED_Q5_0)
                UNROLL for (; turn.place < block_words(type); turn.place += TURN_WORDS, p += TURN_DEPTH)
                    blocks_turn(type, raised, rows, vectors, acc, a, &turn, &scales, half, window, p, j);
            else
                NO_UNROLL for (; words < end; words += TURN_WORDS * WORDS_BYTES, p += TURN_DEPTH)
                    blocks_turn(type, raised, rows, vectors, acc, a, &turn, &scales, half, window, p, j);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(window->c + i * HEED_PANEL + j + v * VF_LANES, acc[i][v]);
}

/* Vectors of a tile.  Two rows or fewer have chains enough to hide their latency only if they are four vectors wide.  By words they
 * take bytes as they lie, all columns of a panel at once, which prefetchers follow: q8_0 from memory takes 0.69 of the time, two
 * rows 0.78, from caches 1.0 and 0.85 (AVX2, Zen 3).  q4_0 so takes 1.5 times as long: its constants, too, wait on the stack.  So,
 * too, where registers are many: 3 and 4 rows times packed q8_0 from memory take 0.69 and 0.8 of the time with four vectors, q4_0
 * 1.0 and 1.1 (AVX-512, Zen 5). */
INLINE int blocks_vectors(const enum heed_type type, const int rows) {
    if (type_is_k(type))
        return k_vectors(rows);
    if (BLOCKS_BY_WORDS && rows <= 2 && block_halves(type) == 1)
        return BLOCKS_VECTORS;
    if (FEW_REGISTERS && type == HEED_Q5_0)
        return 2;
    return rows <= (FEW_REGISTERS || block_halves(type) == 2 ? 2 : 4) ? 4 : 2;
}
/* Rows of a tile, at most.  Where registers are few, what makes numbers of halves of bytes leaves some for less: q4_0 of 6 and 12
 * rows takes 0.76 and 0.69 of the time in tiles of 5 and fewer, q5_0 0.78 and 0.74 in tiles of 4, q4_K 0.80 and 0.72, q5_K 0.93 and
 * 0.81; q8_0 and q6_K would take 1.20 and 1.10 (AVX2, Zen 5). */
INLINE int blocks_rows(enum heed_type type) {
    if (!FEW_REGISTERS || type == HEED_I8 || type == HEED_Q8_0 || type == HEED_Q6_K)
        return BLOCKS_ROWS;
    return smaller(BLOCKS_ROWS, type == HEED_Q4_0 ? 5 : 4);
}

#define BLOCKS_SHAPE(name, type, raised, rows)                                                                                     \
    NOINLINE void name##_##rows(const struct blocks_window *window) {                                                              \
        const int count = rows <= blocks_rows(type) ? rows : 1, vectors = blocks_vectors(type, count);                             \
        for (int j = 0; rows <= blocks_rows(type) && j < HEED_PANEL; j += vectors * VF_LANES)                                      \
            if (type_is_k(type))                                                                                                   \
                k_body(type, count, vectors, window, j);                                                                           \
            else                                                                                                                   \
                blocks_body(type, raised, count, vectors, window, j);                                                              \
    }
#define BLOCKS_SHAPES(name, type)                                                                                                  \
    BLOCKS_SHAPE(name, type, false, 1)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 2)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 3)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 4)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 5)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 6)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 7)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 8)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 9)                                                                                             \
    BLOCKS_SHAPE(name, type, false, 10)                                                                                            \
    BLOCKS_SHAPE(name, type, false, 11)                                                                                            \
    BLOCKS_SHAPE(name, type, false, 12)
#define BLOCKS_NAMES(name)                                                                                                         \
    { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8, name##_9, name##_10, name##_11, name##_12 }
BLOCKS_SHAPES(blocks_q8_0, HEED_Q8_0)
BLOCKS_SHAPES(blocks_q4_0, HEED_Q4_0)
BLOCKS_SHAPES(blocks_q5_0, HEED_Q5_0)
BLOCKS_SHAPES(blocks_i8, HEED_I8)
BLOCKS_SHAPES(blocks_q4_k, HEED_Q4_K)
BLOCKS_SHAPES(blocks_q5_k, HEED_Q5_K)
BLOCKS_SHAPES(blocks_q6_k, HEED_Q6_K)
BLOCKS_SHAPES(blocks_iq4_nl, HEED_IQ4_NL)
BLOCKS_SHAPES(blocks_mxfp4, HEED_MXFP4)
BLOCKS_SHAPE(raised_q8_0, HEED_Q8_0, true, 1)
BLOCKS_SHAPE(raised_q4_0, HEED_Q4_0, true, 1)

/* All rows, as evenly as may be; the first ones fetch. */
static void blocks_multiply_window(enum heed_type type, const struct blocks_window *whole, const struct thin_parts *rows) {
    static void (*const shapes[][12])(const struct blocks_window *) = {
        [HEED_I8] = BLOCKS_NAMES(blocks_i8),      [HEED_Q8_0] = BLOCKS_NAMES(blocks_q8_0),
        [HEED_Q4_0] = BLOCKS_NAMES(blocks_q4_0),  [HEED_Q5_0] = BLOCKS_NAMES(blocks_q5_0),
        [HEED_Q4_K] = BLOCKS_NAMES(blocks_q4_k),  [HEED_Q5_K] = BLOCKS_NAMES(blocks_q5_k),
        [HEED_Q6_K] = BLOCKS_NAMES(blocks_q6_k),  [HEED_IQ4_NL] = BLOCKS_NAMES(blocks_iq4_nl),
        [HEED_MXFP4] = BLOCKS_NAMES(blocks_mxfp4)};
    struct blocks_window window = *whole;
    window.fetches = true;
    for (int part = 0; part < rows->count; part++) {
        const int count = thin_part(rows, part);
        shapes[type][count - 1](&window);
        window.fetches = false;
        window.a += count * window.lda;
        window.c += count * HEED_PANEL;
    }
}
static void blocks_multiply_raised(enum heed_type type, struct blocks_window *window) {
    window->fetches = true;
    (type == HEED_Q8_0 ? raised_q8_0_1 : raised_q4_0_1)(window);
}

static void blocks_multiply(const struct heed_thin_blocks *product, bool raised) {
    float packed[WINDOW_FLOATS] __attribute__((aligned(64)));
    const enum heed_type type = product->type;
    const struct thin_parts rows = thin_parts_of(product->rows, blocks_rows(type));
    struct blocks_window window = {.lda = product->lda,
                                   .step = type_span(type, product->ldb),
                                   .c = product->c,
                                   .fetch_once = product->fetch_into == HEED_INTO_L1};
    for (int64_t start = 0; start < product->k; start += block_window(type)) {
        window.k = min_i64(block_window(type), product->k - start);
        window.a = product->a + start;
        if (product->packed) {
            window.packed = (const char *)product->packed + HEED_PANEL * type_packed_span(type, start);
        } else {
            const char *columns = type_at(type, product->b, start), *const next = product->next ? product->next : columns;
            pack_blocks(columns, type, product->ldb, window.k, product->columns, packed);
            window.packed = (const char *)packed;
            window.next = start + window.k < product->k ? type_at(type, columns, window.k) : next;
        }
        if (raised)
            blocks_multiply_raised(type, &window);
        else
            blocks_multiply_window(type, &window, &rows);
        window.continues = true;
    }
}

/* Whether a product of one of these, not 0, with a weight, which is at least 2^-24 or 0, may round to 0. */
static bool blocks_may_vanish(const float *a, int64_t k) {
    bool small = false;
    for (int64_t p = 0; p < k; p++)
        small |= a[p] != 0.0f && fabsf(a[p]) < 0x1p-100f;
    return small;
}

/* Raised, two kinds of weights are others than d * q: those of an infinite d are NaN, and 0 is always +0, which a sum shows only if
 * it is -0, for which a product must have vanished. */
static bool blocks_may_differ(const struct heed_thin_blocks *product) {
    vf c[HEED_PANEL / VF_LANES], times_infinity[HEED_PANEL / VF_LANES];
    UNROLL for (int v = 0; v < HEED_PANEL / VF_LANES; v++) {
        c[v] = v_load(product->c + v * VF_LANES);
        times_infinity[v] = v_mul(c[v], v_set1(INFINITY)); /* NaN if c is, or is 0 */
    }
    return v_any_nan(times_infinity, HEED_PANEL / VF_LANES) &&
           (v_any_nan(c, HEED_PANEL / VF_LANES) || blocks_may_vanish(product->a, product->k));
}

static void thin_blocks(const struct heed_thin_blocks *product) {
    if (takes_columns(product)) {
        thin_columns(product);
        return;
    }
    const bool raised =
        VF_RAISES && product->raises && product->rows == 1 && (product->type == HEED_Q8_0 || product->type == HEED_Q4_0);
    blocks_multiply(product, raised);
    if (raised && blocks_may_differ(product))
        blocks_multiply(product, false);
}

#endif
