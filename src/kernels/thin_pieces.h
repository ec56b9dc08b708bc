/* What is fetched beside a product of few rows and a transposed b: pieces of the rows that are multiplied next, one row after the
 * other, for memory gives more of what lies in order.  For kernels that read b in rows, some side by side: thin_squares.h,
 * thin_lanes.h. */
#ifndef HEED_KERNELS_THIN_PIECES_H
#define HEED_KERNELS_THIN_PIECES_H

enum {
    PIECE_BYTES = 512, /* of each row of a square are fetched while as many are multiplied: of a plain read's rate,
                          floats then have 0.98, with 2 KB 0.88, with a line 0.96, and bf16 0.87, 0.83, 0.78 */
    /* With HEED_INTO_L1: of 1 or 2 rows times floats from memory 2 KB take 0.82 to 0.99 of the time, of 4 and 8 rows 0.95 to 1.1,
     * with 16 bits 1 KB 0.9 to 0.97, seldom 1.05.  Into L1: 1 to 6 rows times 4096 x 4096 from memory, 16 bits, take 0.8 to 0.94 of
     * the time, which without also depends on the order in which a square is loaded (1.0 to 1.3 by that alone); 4 and 8 rows of
     * floats 0.86 and 0.96, one row 1.06, one row times 768 x 768 bf16 1.05 (Zen 5). */
    PIECE_ONCE = 512, /* elements */
    /* With HEED_INTO_L2, from memory, of the time with 1 KB: floats with 4 KB 0.9 to 0.97, by AVX2 0.74 to 0.9, with 8 and 16 KB
     * the same; 16 bits with 2 KB 0.87 to 0.97, with 4 KB 0.95 to 1.02 of that; by AVX2, of each row of two squares side by side,
     * and not half as much, 0.93 to 0.97, 16 bits 0.85 to 0.92 (Zen 4). */
    PIECE_L2_FLOATS = 4096,
    PIECE_L2_HALVES = 2048,
    FAR_BYTES = 16 * 1024, /* shorter rows are fetched so far ahead, and from half of it on into L1; crowded floats would lose
                              there what they need first: by AVX2 decoding from heads side by side takes 0.95 of the time
                              without, but of 16 bits up to 1.2, for they are not asked for again then (Zen 4) */
    WHOLE_BYTES = 1024 /* so short rows are not cut to pieces, unless near: decoding from memory with 192 and 256 floats takes 0.75
                          and 0.86 of the time (Zen 5) */
};

/* Rows, `step` bytes apart, that are fetched a part at a time: far ones into L2, near ones into L1, as in thin_fetch; 0: none.  A
 * part is some lines of one row, or a few more than it has; or, unless `across` is 0, of as many rows, which lie so far apart. */
struct thin_pieces {
    uintptr_t far, near;
    int64_t step, across, bytes, at;
    int rows;
    bool again; /* what lies a little ahead of a square is asked for once more (thin_fetch_again) */
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
    if (near_step != ahead.step || (product->crowded && type == HEED_F32))
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
    const int shared = product->fetch_into == HEED_INTO_L2 ? 1 : beside;
    const int64_t most = whole ? product->k : (longer ? PIECE_ONCE : piece_bytes / type_bytes(type)) / shared;
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

#endif
