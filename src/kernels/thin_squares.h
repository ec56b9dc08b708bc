/* Few rows times a transposed matrix, whose rows are read once, from memory, square by square.
 *
 * Rows become columns in registers, a square at a time, and are multiplied there: stored and loaded again, which is how more rows
 * are multiplied than there are registers for, one row times 4096 x 4096 took 1.15 times as long, and memory waited meanwhile. */
#ifndef HEED_KERNELS_THIN_SQUARES_H
#define HEED_KERNELS_THIN_SQUARES_H

enum {
    SQUARE_ROWS = VF_LANES > 8 ? 8 : 4,      /* which have registers beside a square */
    FAR_SQUARE_ROWS = VF_LANES > 8 ? 12 : 4, /* the same if b is far: 12 rows of floats from memory take 0.75 of the time, of bf16
                                                0.9, but from L2 1.05 to 1.25 of it */
    FAR_SQUARE_ROWS_MOST = 12,               /* of any vectors */
    /* What was asked for may have been dropped: so few rows of floats ask again, so many elements ahead.  Times 4096 x 4096 from
     * memory 2 to 6 rows take 0.85 to 0.93 of the time so, 8 and 12 rows 1.0 to 1.12, and AVX2, which has half as many rows of b
     * under way, as long.  From L3 1 and 2 rows take 1.09 to 1.25, 3 and 4 rows 0.97 to 1.04: the former ask again where a pace is
     * wanted, which one row keeps, too: 0.88 of the time (2 rows 1.0 to 1.1, 4 rows 1.1 to 1.25 of it; Zen 4).  So do AVX2's two:
     * decoding from floats in rows, one and two to a key/value head, 0.91 and 0.97, three and four 1.0 to 1.05. */
    AGAIN_ROWS = VF_LANES >= HEED_LINE ? 6 : 0,
    AGAIN = 256,
    AGAIN_PACED_ROWS = 2,
    SQUARES_PACED_ROWS = AGAIN_ROWS > 0  ? 1
                         : VF_LANES == 8 ? 2
                                         : 0,
    /* By as many lines, and not asking after each whether its row ends, one row times 4096 x 4096 bf16 from memory takes 0.93 of
     * the time, times 768 x 768 floats from L2 0.94, 4 rows 0.82, decoding from rows of bf16 0.97, and 5 to 12 rows of floats from
     * memory, spread, 0.79 to 0.98 (Zen 5). */
    PART_LINES = 4,
    UNSPREAD_ROWS = 4,                    /* of far floats, at most: these would take 1.0 to 1.2 by as many lines */
    SQUARES_BESIDE = VF_LANES < 8 ? 4 : 2 /* see thin_squares_beside */
};

/* What a step of the chains takes in: an element; one of a pair of bf16, of which the odd one comes first; or both, as a word, by
 * TILE_CHAIN. */
enum thin_squares { SQUARES_OF_ELEMENTS, SQUARES_OF_PAIRS, SQUARES_OF_WORDS };

/* How many squares are multiplied side by side: a chain waits for its own latency, 4 cycles for an element of each row of b, which
 * of 16 bits are 8 bytes a cycle, 4 by AVX2, 2 by NEON; other squares' run meanwhile.  From L2, 1 and 2 rows of 16 bits take 0.61
 * to 0.83 of the time by two, 1 and 2 rows of floats 0.7 to 0.95, 1.09.  Memory gives less for more rows that are read side by
 * side: AVX-512's 32 take 1.05 to 1.5, from L3 0.84 to 1.5 (Zen 5).
 *
 * AVX2's two come by halves (thin_square_parts).  Of the time with one square, or of bf16 and 1 or 2 rows with two whole ones, 1 to
 * 3 rows times 768 x 768 floats from L3 take 0.54 to 0.84, 1 to 4 rows of bf16 0.74 to 0.89, from memory 0.93 to 1.05 and 0.71 to
 * 0.96; but 4 rows of floats 1.03 to 1.06, 1 and 2 rows of f16 1.05 to 1.11, which therefore come by two whole ones (Zen 4).  What
 * is not in L2 goes so only where all is fetched into L2: elsewhere whole ones took up to 1.3 from memory (Zen 5), and halves have
 * not been timed.  NEON has not been, either. */
INLINE int thin_squares_beside(const enum heed_type type, const int rows, bool near, bool into_l2) {
    const bool halves = type != HEED_F32;
    int most = 0;
    if (VF_LANES == HEED_LINE)
        most = !near ? 0 : halves ? 3 : 1;
    else if (VF_LANES < 8)
        most = near ? SQUARE_ROWS : 2;
    else if (near || into_l2)
        most = type == HEED_BF16 ? 4 : halves ? 2 : 3;
    else
        most = halves ? 2 : 0;
    return rows <= most ? SQUARES_BESIDE : 1;
}

/* A square becomes columns in so many parts: AVX2 has no registers for a whole one beside the sums of two. */
INLINE int thin_square_parts(const enum heed_type type, const int beside) {
    return VF_LANES == 2 * VF_PIECE && beside > 1 && type != HEED_F16 ? 2 : 1;
}

/* Rows [row, row + lines) of the square at b. */
INLINE void thin_fetch_again(const enum heed_type type, const void *b, int64_t ldb, const int row, const int lines) {
    UNROLL for (int i = row; i < row + lines; i++)
        __builtin_prefetch((const void *)((uintptr_t)b + (uintptr_t)type_span(type, i * ldb + AGAIN)), 0, 2);
}

/* How many lines a square of b has, and how many of them are fetched at once. */
INLINE int thin_square_lines(const enum heed_type type) {
    return larger(1, VF_LANES * transpose_step(type, INT64_MAX) * (int)type_bytes(type) / LINE_BYTES);
}
INLINE int thin_part_lines(const enum heed_type type, const bool spread) {
    return spread ? smaller(thin_square_lines(type), PART_LINES) : 1;
}

/* By whole squares a line is taken in by two steps, before others have its place in L1: though crowded, one row of bf16 by two of
 * them takes 0.90 to 0.95 of the time times 4096 x 4096, 0.94 times 2048 x 2048 from memory, 1.1 from L3 (AVX2, Zen 3), by halves
 * 1.2 of that (Zen 4). */
INLINE bool thin_takes_lines_soon(const enum heed_type type, const int rows) { return rows == 1 && type == HEED_BF16; }

/* Elements of each row, or words of bf16. */
INLINE void thin_square_load(const enum heed_type type, const int parts, const int part, const void *b, int64_t ldb,
                             vf r[VF_LANES]) {
    if (parts > 1)
        transpose_piece(type, (const char *)b + part * VF_PIECE * (int)sizeof(float), ldb, r);
    else if (type == HEED_BF16)
        transpose_words(b, ldb, 0, VF_LANES, r);
    else
        transpose_elements(type, b, ldb, 0, VF_LANES, VF_LANES, r);
}

/* Element p of each row, which is in r[at] or, of bf16, in the word r[at / 2]. */
INLINE void thin_square_step(const enum heed_type type, const enum thin_squares kind, const int rows, const int p, const int at,
                             const vf r[VF_LANES], const struct tile_rows *a, vf acc[FAR_SQUARE_ROWS]) {
    if (kind == SQUARES_OF_WORDS) {
        if (at % 2 == 0)
            UNROLL for (int i = 0; i < rows; i++) acc[i] = TILE_CHAIN(acc[i], v_load1(tile_row(a, i) + p / 2), r[at / 2]);
        return;
    }
    const int odd = kind == SQUARES_OF_PAIRS ? 1 - at % 2 : at % 2;
    const vf column = type == HEED_BF16 ? v_bf16(v_bits(r[at / 2]), odd) : r[at];
    UNROLL for (int i = 0; i < rows; i++) acc[i] = v_chain_at(acc[i], tile_row(a, i) + p, column);
}

/* As many lines as it reads are fetched between its products, or, if not `spread`, one after the other when they are done. */
INLINE void thin_square(const enum heed_type type, const enum thin_squares kind, const int rows, const bool spread, const int parts,
                        const int part, const void *b, int64_t ldb, const struct tile_rows *a, vf acc[FAR_SQUARE_ROWS],
                        struct thin_pieces *ahead) {
    const int steps = transpose_step(type, INT64_MAX), part_steps = steps / parts;
    const int lines = thin_square_lines(type), at_once = thin_part_lines(type, spread);
    vf r[VF_LANES];
    thin_square_load(type, parts, part, b, ldb, r);
    UNROLL for (int at = 0; at < part_steps; at++) {
        const int p = part * part_steps + at;
        thin_square_step(type, kind, rows, p, at, r, a, acc);
        if (spread && p % (steps * at_once / lines) == 0) {
            thin_fetch_part(ahead, at_once);
            if (type == HEED_F32 && rows <= AGAIN_ROWS && ahead->again)
                thin_fetch_again(type, b, ldb, p, at_once);
        }
    }
    for (int line = spread ? lines : 0; line < lines; line += at_once)
        thin_fetch_part(ahead, at_once);
}

/* VF_LANES columns for each of the squares side by side, from j on; k is a multiple of a square's. */
INLINE void thin_squares_of(const enum heed_type type, const enum thin_squares kind, const int rows, const bool spread,
                            const int beside, const int parts, const struct heed_thin_product *product, int64_t k, int j) {
    const int step = transpose_step(type, INT64_MAX);
    const int64_t piece = thin_piece(type, product, rows, beside, step);
    const bool asks_again = product->fetch_into == HEED_INTO_L2 && !product->near && (rows > AGAIN_PACED_ROWS || product->paced);
    const void *b = type_at(type, product->b, j * product->ldb);
    struct tile_rows a;
    vf acc[SQUARES_BESIDE][FAR_SQUARE_ROWS];
    tile_rows_begin(rows, &a, product->a, product->lda);
    UNROLL for (int s = 0; s < beside; s++) UNROLL for (int i = 0; i < rows; i++) acc[s][i] =
        product->continues ? v_load(product->c + i * product->ldc + j + s * VF_LANES) : v_zero();
    for (int64_t p = 0; p < k;) {
        const int64_t end = min_i64(p + piece, k);
        struct thin_pieces ahead =
            thin_pieces_beside(type, product, rows, beside * VF_LANES, thin_part_lines(type, spread), j, p, piece);
        NO_UNROLL for (; p < end; p += step) {
            ahead.again = asks_again && p + AGAIN < k;
            if (type == HEED_F32 && rows <= SQUARES_PACED_ROWS && product->paced)
                b = paced(b, beside * thin_square_lines(type) * LINE_BYTES);
            if (parts == 1) /* apart: by the loop below, with one turn, one row of floats from memory takes 1.03 to 1.14 of the time
                               (gcc 12, AVX-512, Zen 4) */
                UNROLL for (int s = 0; s < beside; s++)
                    thin_square(type, kind, rows, spread, 1, 0, type_at(type, b, s * VF_LANES * product->ldb + p), product->ldb, &a,
                                acc[s], &ahead);
            else
                UNROLL for (int part = 0; part < parts; part++) UNROLL for (int s = 0; s < beside; s++) {
                    if (rows > 2)
                        tile_rows_repin(rows, &a); /* gcc 12 else keeps numbers of a on the stack, for the other squares */
                    thin_square(type, kind, rows, spread, parts, part, type_at(type, b, s * VF_LANES * product->ldb + p),
                                product->ldb, &a, acc[s], &ahead);
                }
            tile_rows_advance(rows, &a, kind == SQUARES_OF_WORDS ? step / 2 : step);
            tile_rows_pin(rows, &a);
        }
    }
    UNROLL for (int s = 0; s < beside; s++) UNROLL for (int i = 0; i < rows; i++)
        v_store(product->c + i * product->ldc + j + s * VF_LANES, acc[s][i]);
}

/* Spread, decoding from rows in memory takes 0.93 to 0.97 of the time, 2 to 12 rows times 4096 x 4096 bf16 0.87 to 0.93, 1 to 8
 * rows times 768 x 768 floats 0.7 to 0.9; but 1 to 4 rows of these that are far take 1.01 to 1.05, of AVX2 up to 1.25 (Zen 5), but
 * where all goes into L2 0.9 to 0.98 (Zen 4). */
INLINE void thin_squares(const enum heed_type type, const enum thin_squares kind, const int rows,
                         const struct heed_thin_product *product, int64_t k, int j, int beside) {
    const bool may_be_beside = thin_squares_beside(type, rows, true, true) > 1;
    const int parts = thin_square_parts(type, SQUARES_BESIDE);
    if (parts > 1 && thin_takes_lines_soon(type, rows) && beside > 1 && product->crowded)
        thin_squares_of(type, kind, rows, true, SQUARES_BESIDE, 1, product, k, j);
    else if (may_be_beside && beside > 1)
        thin_squares_of(type, kind, rows, true, SQUARES_BESIDE, parts, product, k, j);
    else if (type == HEED_F32 && product->far && rows <= UNSPREAD_ROWS && product->fetch_into != HEED_INTO_L2)
        thin_squares_of(type, kind, rows, false, 1, 1, product, k, j);
    else
        thin_squares_of(type, kind, rows, true, 1, 1, product, k, j);
}

/* Columns [from, to), whole squares of them.  Rows of b that are crowded in L1 are not read by more than one square: side by side,
 * 16 of them took 1.2 to 1.6 times as long of f16, 1.15 to 1.2 of bf16 with 2 rows, 1.4 of floats in L2 (AVX2, Zen 3, whose L1 has
 * 8 ways). */
typedef void (*thin_squares_shape)(const struct heed_thin_product *product, int64_t k, int j, int beside);
INLINE void thin_squares_in(thin_squares_shape squares, const struct heed_thin_product *product, int64_t k, int from, int to) {
    const bool alone = product->crowded && !thin_takes_lines_soon(product->type, product->rows);
    const bool into_l2 = product->fetch_into == HEED_INTO_L2;
    const int most = alone ? 1 : thin_squares_beside(product->type, product->rows, product->near, into_l2);
    for (int j = from, beside; j < to; j += beside * VF_LANES) {
        beside = to - j < most * VF_LANES ? 1 : most;
        squares(product, k, j, beside);
    }
}

/* Narrow vectors have no squares of pairs: by AVX2 1 to 4 rows times 768 x 768 would take 1.1 to 1.3 of the time from L2, times
 * 4096 x 4096 from memory 0.99 to 1.25 (Zen 5). */
#define SQUARE_ROWS_OF(kind) ((kind) == SQUARES_OF_PAIRS && VF_LANES < HEED_LINE ? 0 : FAR_SQUARE_ROWS)
#define THIN_SQUARES(name, type, kind, rows)                                                                                       \
    NOINLINE void name##_##rows(const struct heed_thin_product *product, int64_t k, int j, int beside) {                           \
        if (rows <= SQUARE_ROWS_OF(kind))                                                                                          \
            thin_squares(type, kind, rows <= SQUARE_ROWS_OF(kind) ? rows : 1, product, k, j, beside);                              \
    }
#define THIN_SQUARES_OF_TYPE(name, type, kind)                                                                                     \
    THIN_SQUARES(name, type, kind, 1)                                                                                              \
    THIN_SQUARES(name, type, kind, 2)                                                                                              \
    THIN_SQUARES(name, type, kind, 3)                                                                                              \
    THIN_SQUARES(name, type, kind, 4)                                                                                              \
    THIN_SQUARES(name, type, kind, 5)                                                                                              \
    THIN_SQUARES(name, type, kind, 6)                                                                                              \
    THIN_SQUARES(name, type, kind, 7)                                                                                              \
    THIN_SQUARES(name, type, kind, 8)                                                                                              \
    THIN_SQUARES(name, type, kind, 9)                                                                                              \
    THIN_SQUARES(name, type, kind, 10)                                                                                             \
    THIN_SQUARES(name, type, kind, 11)                                                                                             \
    THIN_SQUARES(name, type, kind, 12)
#define THIN_SQUARES_NAMES(name)                                                                                                   \
    { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8, name##_9, name##_10, name##_11, name##_12 }

#endif
