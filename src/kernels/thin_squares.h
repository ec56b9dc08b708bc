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
    PIECE_BYTES = 512, /* of each row of a square are fetched while as many are multiplied: of a plain read's rate,
                          floats then have 0.98, with 2 KB 0.88, with a line 0.96, and bf16 0.87, 0.83, 0.78 */
    /* With HEED_INTO_L1: of 1 or 2 rows times floats from memory 2 KB take 0.82 to 0.99 of the time, of 4 and 8 rows 0.95 to 1.1,
     * with 16 bits 1 KB 0.9 to 0.97, seldom 1.05.  Into L1: 1 to 6 rows times 4096 x 4096 from memory, 16 bits, take 0.8 to 0.94 of
     * the time, which without also depends on the order in which a square is loaded (1.0 to 1.3 by that alone); 4 and 8 rows of
     * floats 0.86 and 0.96, one row 1.06, one row times 768 x 768 bf16 1.05 (Zen 5). */
    PIECE_ONCE = 512, /* elements */
    /* With HEED_INTO_L2, from memory, of the time with 1 KB: floats with 4 KB 0.9 to 0.97, by AVX2 0.74 to 0.9, with 8 and 16 KB
     * the same; 16 bits with 2 KB 0.87 to 0.97, with 4 KB 0.95 to 1.02 of that (Zen 4). */
    PIECE_L2_FLOATS = 4096,
    PIECE_L2_HALVES = 2048,
    /* What was asked for may have been dropped: so few rows of floats ask again, so many elements ahead.  Times 4096 x 4096 from
     * memory 2 to 6 rows take 0.85 to 0.93 of the time so, 8 and 12 rows 1.0 to 1.12, and AVX2, which has half as many rows of b
     * under way, as long.  From L3 1 and 2 rows take 1.09 to 1.25, 3 and 4 rows 0.97 to 1.04: the former ask again where a pace is
     * wanted, which one row keeps, too: 0.88 of the time (2 rows 1.0 to 1.1, 4 rows 1.1 to 1.25 of it; Zen 4). */
    AGAIN_ROWS = VF_LANES >= HEED_LINE ? 6 : 0,
    AGAIN = 256,
    AGAIN_PACED_ROWS = 2,
    SQUARES_PACED_ROWS = AGAIN_ROWS > 0 ? 1 : 0,
    /* By as many lines, and not asking after each whether its row ends, one row times 4096 x 4096 bf16 from memory takes 0.93 of
     * the time, times 768 x 768 floats from L2 0.94, 4 rows 0.82, decoding from rows of bf16 0.97, and 5 to 12 rows of floats from
     * memory, spread, 0.79 to 0.98 (Zen 5). */
    PART_LINES = 4,
    UNSPREAD_ROWS = 4,                     /* of far floats, at most: these would take 1.0 to 1.2 by as many lines */
    SQUARES_BESIDE = VF_LANES < 8 ? 4 : 2, /* see thin_squares_beside */
    FAR_BYTES = 16 * 1024,                 /* shorter rows are fetched so far ahead, and from half of it on into L1 */
    WHOLE_BYTES = 1024 /* so short rows are not cut to pieces, unless near: decoding from memory with 192 and 256 floats takes 0.75
                          and 0.86 of the time (Zen 5) */
};

/* What a step of the chains takes in: an element; one of a pair of bf16, of which the odd one comes first; or both, as a word, by
 * TILE_CHAIN. */
enum thin_squares { SQUARES_OF_ELEMENTS, SQUARES_OF_PAIRS, SQUARES_OF_WORDS };

/* How many squares are multiplied side by side: a chain waits for its own latency, 4 cycles for an element of each row of b, which
 * of 16 bits are 8 bytes a cycle, 4 by AVX2, 2 by NEON; other squares' run meanwhile.  From L2, 1 and 2 rows of 16 bits take 0.61
 * to 0.83 of the time by two, by AVX2 0.61 to 0.69, 4 rows 0.98 (0.9), 1 and 2 rows of floats 0.7 to 0.95, 1.09 (0.6 to 0.7).
 * Memory gives less for more rows that are read side by side: AVX-512's 32 take 1.05 to 1.5, from L3 0.84 to 1.5, AVX2's 16 0.62 to
 * 0.9 with 16 bits, 1 or 2 rows, else 0.94 to 1.3 (Zen 5).  On Zen 3 (AVX2), 1 row from L2 takes 0.63 to 0.82, 2 rows 0.8 to
 * 0.96, 3 rows 0.9 to 1.15, 4 rows 1.01 to 1.4.  NEON has not been timed. */
INLINE int thin_squares_beside(const enum heed_type type, const int rows, bool near) {
    const bool halves = type != HEED_F32;
    const int near_rows = VF_LANES < 8 ? SQUARE_ROWS : VF_LANES < HEED_LINE ? 2 : halves ? 3 : 1;
    const int other_rows = VF_LANES < 8 || (VF_LANES < HEED_LINE && halves) ? 2 : 0;
    return rows <= (near ? near_rows : other_rows) ? SQUARES_BESIDE : 1;
}

/* Rows, `step` bytes apart, that are fetched a part at a time: far ones into L2, near ones into L1, as in thin_fetch; 0: none.  A
 * part is some lines of one row, or a few more than it has; or, unless `across` is 0, of as many rows, which lie so far apart. */
struct thin_pieces {
    uintptr_t far, near;
    int64_t step, across, bytes, at;
    int rows;
    bool again; /* what lies AGAIN elements ahead of a square is asked for once more */
};

INLINE void thin_fetch_far(const struct thin_pieces *pieces, int64_t line, const int lines) {
    UNROLL for (int i = 0; i < lines; i++)
        __builtin_prefetch((const void *)(pieces->far + (uintptr_t)(pieces->at + i * line)), 0, 2);
}
INLINE void thin_fetch_near(const struct thin_pieces *pieces, int64_t line, const int lines) {
    UNROLL for (int i = 0; i < lines; i++)
        __builtin_prefetch((const void *)(pieces->near + (uintptr_t)(pieces->at + i * line)), 0, 3);
}

INLINE void thin_fetch_part(struct thin_pieces *pieces, const int lines) {
    if (pieces->rows <= 0)
        return;
    if (lines > 1 && pieces->across) {
        if (pieces->far)
            thin_fetch_far(pieces, pieces->across, lines);
        if (pieces->near)
            thin_fetch_near(pieces, pieces->across, lines);
        pieces->at += LINE_BYTES;
    } else {
        if (pieces->far)
            thin_fetch_far(pieces, LINE_BYTES, lines);
        if (pieces->near)
            thin_fetch_near(pieces, LINE_BYTES, lines);
        pieces->at += lines * LINE_BYTES;
    }
    if (pieces->at >= pieces->bytes) {
        pieces->at = 0;
        pieces->far += pieces->far ? (uintptr_t)pieces->step : 0;
        pieces->near += pieces->near ? (uintptr_t)pieces->step : 0;
        pieces->rows--;
    }
}

/* Rows [row, row + lines) of the square at b. */
INLINE void thin_fetch_again(const enum heed_type type, const void *b, int64_t ldb, const int row, const int lines) {
    UNROLL for (int i = row; i < row + lines; i++)
        __builtin_prefetch((const void *)((uintptr_t)b + (uintptr_t)type_span(type, i * ldb + AGAIN)), 0, 2);
}

/* Rows that are not whole parts would need more of them than there are places for: they are fetched as one, if they lie one behind
 * the other, or else some at a time.  Decoding from memory, AVX-512: bf16, 64 wide, takes 0.68 of the time, in rows of all heads
 * 0.59, 80 wide 0.83 and 0.74 (Zen 5). */
INLINE void thin_cut(struct thin_pieces *pieces, const int lines) {
    if (pieces->step == pieces->bytes) {
        pieces->bytes *= pieces->rows;
        pieces->rows = 1;
    } else if (pieces->bytes % (lines * LINE_BYTES) != 0) {
        pieces->across = pieces->step;
        pieces->step *= lines;
        pieces->rows /= lines;
    }
}

/* Row `row` of b or, behind the last, what follows; 0: nothing. */
INLINE uintptr_t thin_row(const enum heed_type type, const struct heed_thin_product *product, int row, int64_t *step) {
    *step = row < product->columns ? type_span(type, product->ldb) : product->next_step;
    const uintptr_t first = (uintptr_t)(row < product->columns ? product->b : product->next);
    return first ? first + (uintptr_t)(row < product->columns ? row : row - product->columns) * (uintptr_t)*step : 0;
}

/* What is fetched beside the piece from element p on of so many rows from j on: their next one, or that of other rows. */
INLINE struct thin_pieces thin_pieces_after(const enum heed_type type, const int rows, const struct heed_thin_product *product,
                                            int j, int64_t p, int64_t piece) {
    const int64_t next = p + piece;
    struct thin_pieces ahead = {.rows = rows, .bytes = type_span(type, min_i64(piece, product->k))};
    if (next < product->k) {
        ahead.far = thin_row(type, product, j, &ahead.step) + (uintptr_t)type_span(type, next);
        ahead.bytes = type_span(type, min_i64(piece, product->k - next));
        return ahead;
    }
    const bool is_all = rows == product->columns; /* what follows is as short, too */
    const int times = piece < product->k || is_all ? 1 : (int)ceil_div(FAR_BYTES, rows * ahead.bytes);
    int64_t near_step = 0;
    ahead.far = thin_row(type, product, j + times * rows, &ahead.step);
    if (times > 1)
        ahead.near = thin_row(type, product, j + times / 2 * rows, &near_step);
    if (near_step != ahead.step)
        ahead.near = 0;
    if (!ahead.far)
        ahead.rows = 0;
    return ahead;
}

/* Into L1, and not into L2 before. */
INLINE void thin_fetch_into_l1(struct thin_pieces *pieces) {
    if (!pieces->near)
        pieces->near = pieces->far;
    pieces->far = 0;
}

/* Elements of each of so many rows of b, `beside` times, that are fetched at a time, a multiple of step. */
INLINE int64_t thin_piece(const enum heed_type type, const struct heed_thin_product *product, const int rows, const int beside,
                          const int step) {
    const bool longer = product->fetch_into == HEED_INTO_L1 && (type != HEED_F32 || rows <= 2);
    const int piece_bytes = product->fetch_into != HEED_INTO_L2 ? PIECE_BYTES
                            : type == HEED_F32                  ? PIECE_L2_FLOATS
                                                                : PIECE_L2_HALVES;
    const bool whole = !product->near && type_span(type, product->k) <= WHOLE_BYTES;
    const int64_t most = whole ? product->k : (longer ? PIECE_ONCE : piece_bytes / type_bytes(type)) / beside;
    return round_up(ceil_div(product->k, ceil_div(product->k, most)), step);
}

/* What is fetched, so many lines at once, beside that piece, from element p on, of `count` rows of b from j on. */
INLINE struct thin_pieces thin_pieces_beside(const enum heed_type type, const struct heed_thin_product *product, const int rows,
                                             const int count, const int lines, int j, int64_t p, int64_t piece) {
    struct thin_pieces ahead = thin_pieces_after(type, count, product, j, p, piece);
    if (product->fetch_into == HEED_INTO_L1 && (type != HEED_F32 || rows > 2))
        thin_fetch_into_l1(&ahead);
    thin_cut(&ahead, lines);
    return ahead;
}

/* How many lines a square of b has, and how many of them are fetched at once. */
INLINE int thin_square_lines(const enum heed_type type) {
    return larger(1, VF_LANES * transpose_step(type, INT64_MAX) * (int)type_bytes(type) / LINE_BYTES);
}
INLINE int thin_part_lines(const enum heed_type type, const bool spread) {
    return spread ? smaller(thin_square_lines(type), PART_LINES) : 1;
}

/* Element p of each row. */
INLINE void thin_square_step(const enum heed_type type, const enum thin_squares kind, const int rows, const int p,
                             const vf r[VF_LANES], const struct tile_rows *a, vf acc[FAR_SQUARE_ROWS]) {
    if (kind == SQUARES_OF_WORDS) {
        if (p % 2 == 0)
            UNROLL for (int i = 0; i < rows; i++) acc[i] = TILE_CHAIN(acc[i], v_load1(tile_row(a, i) + p / 2), r[p / 2]);
        return;
    }
    const int odd = kind == SQUARES_OF_PAIRS ? 1 - p % 2 : p % 2;
    const vf column = type == HEED_BF16 ? v_bf16(v_bits(r[p / 2]), odd) : r[p];
    UNROLL for (int i = 0; i < rows; i++) acc[i] = v_chain_at(acc[i], tile_row(a, i) + p, column);
}

/* As many lines as it reads are fetched between its products, or, if not `spread`, one after the other when they are done. */
INLINE void thin_square(const enum heed_type type, const enum thin_squares kind, const int rows, const bool spread, const void *b,
                        int64_t ldb, const struct tile_rows *a, vf acc[FAR_SQUARE_ROWS], struct thin_pieces *ahead) {
    const int steps = transpose_step(type, INT64_MAX), lines = thin_square_lines(type), part = thin_part_lines(type, spread);
    vf r[VF_LANES];
    if (type == HEED_BF16)
        transpose_words(b, ldb, 0, VF_LANES, r);
    else
        transpose_elements(type, b, ldb, 0, VF_LANES, VF_LANES, r);
    UNROLL for (int p = 0; p < steps; p++) {
        thin_square_step(type, kind, rows, p, r, a, acc);
        if (spread && p % (steps * part / lines) == 0) {
            thin_fetch_part(ahead, part);
            if (type == HEED_F32 && rows <= AGAIN_ROWS && ahead->again)
                thin_fetch_again(type, b, ldb, p, part);
        }
    }
    for (int line = spread ? lines : 0; line < lines; line += part)
        thin_fetch_part(ahead, part);
}

/* VF_LANES columns for each of the squares side by side, from j on; k is a multiple of a square's. */
INLINE void thin_squares_of(const enum heed_type type, const enum thin_squares kind, const int rows, const bool spread,
                            const int beside, const struct heed_thin_product *product, int64_t k, int j) {
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
            UNROLL for (int s = 0; s < beside; s++) thin_square(
                type, kind, rows, spread, type_at(type, b, s * VF_LANES * product->ldb + p), product->ldb, &a, acc[s], &ahead);
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
    const bool may_be_beside = thin_squares_beside(type, rows, true) > 1;
    if (may_be_beside && beside > 1)
        thin_squares_of(type, kind, rows, true, SQUARES_BESIDE, product, k, j);
    else if (type == HEED_F32 && product->far && rows <= UNSPREAD_ROWS && product->fetch_into != HEED_INTO_L2)
        thin_squares_of(type, kind, rows, false, 1, product, k, j);
    else
        thin_squares_of(type, kind, rows, true, 1, product, k, j);
}

/* Columns [from, to), whole squares of them.  Rows of b that are crowded in L1 are not read by more than one square: side by side,
 * 16 of them took 1.2 to 1.6 times as long of f16, 1.15 to 1.2 of bf16 with 2 rows, 1.4 of floats in L2 (AVX2, Zen 3, whose L1 has
 * 8 ways). */
typedef void (*thin_squares_shape)(const struct heed_thin_product *product, int64_t k, int j, int beside);
INLINE void thin_squares_in(thin_squares_shape squares, const struct heed_thin_product *product, int64_t k, int from, int to) {
    const int most = product->crowded ? 1 : thin_squares_beside(product->type, product->rows, product->near);
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
