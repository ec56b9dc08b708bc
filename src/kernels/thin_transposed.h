/* thin_product_transposed: few rows times a transposed matrix, whose rows are read once, from memory.  Contract in
 * src/contracts/thin.h.
 *
 * Square by square (thin_squares.h), or, where rows are more than these have registers for, and where squares are not whole, some
 * rows of b are copied, transposed, and the copy is multiplied as thin_product multiplies. */
#ifndef HEED_KERNELS_THIN_TRANSPOSED_H
#define HEED_KERNELS_THIN_TRANSPOSED_H

THIN_SQUARES_OF_TYPE(squares, HEED_F32, SQUARES_OF_ELEMENTS)
THIN_SQUARES_OF_TYPE(squares_bf16, HEED_BF16, SQUARES_OF_ELEMENTS)
THIN_SQUARES_OF_TYPE(squares_f16, HEED_F16, SQUARES_OF_ELEMENTS)
THIN_SQUARES_OF_TYPE(squares_pairs, HEED_BF16, SQUARES_OF_PAIRS)

/* Rows of b that are transposed at a time, and elements of each: 16 KiB. */
enum { TRANSPOSED_ROWS = 32, TRANSPOSED_DEPTH = 128 };

/* transposed[p][j] = b[j][p], [depth][TRANSPOSED_ROWS], of rows `first` up to `rows`.  Beside each square, as much of the rows
 * ahead is fetched. */
INLINE void transpose_rows(const enum heed_type type, const void *b, int64_t ldb, const int first, const int rows, const int depth,
                           const char *ahead, int64_t ahead_step, float *transposed) {
    const int bytes = (int)type_span(type, depth);
    for (int j = 0; j < rows; j += VF_LANES)
        for (int p = 0, row = j, step; p < depth; p += step) {
            step = transpose_step(type, depth - p);
            transpose(type, type_at(type, b, j * ldb + p), ldb, first > 0 ? first - j : 0,
                      rows == TRANSPOSED_ROWS ? VF_LANES : rows - j, depth - p, transposed + p * TRANSPOSED_ROWS + j,
                      TRANSPOSED_ROWS);
            for (; ahead && (row - j) * depth < (p + step) * VF_LANES; row++)
                for (int at = 0; at < bytes; at += LINE_BYTES)
                    __builtin_prefetch(ahead + row * ahead_step + at, 0, 2);
        }
}

/* Beside the squares, rows ahead are fetched into L2; where they are one piece of floats, the products then fetch them into L1
 * (decoding from L3 takes 3 to 5 % less, from memory 1 %). */
INLINE void thin_product_copied_of(const enum heed_type type, const struct heed_thin_product *product) {
    float transposed[TRANSPOSED_DEPTH * TRANSPOSED_ROWS] __attribute__((aligned(64)));
    const int64_t step = type_span(type, product->ldb);
    for (int j = 0; j < product->columns; j += TRANSPOSED_ROWS) {
        const int columns = smaller(TRANSPOSED_ROWS, product->columns - j), skipped = larger(0, product->skipped - j);
        const struct thin_split split = thin_split_of(product, columns);
        const bool inside = j + TRANSPOSED_ROWS < product->columns;
        const char *b = type_at(type, product->b, j * product->ldb), *ahead = inside ? b + TRANSPOSED_ROWS * step : product->next;
        const int64_t ahead_step = inside ? step : product->next_step;
        for (int64_t p = 0; p < product->k; p += TRANSPOSED_DEPTH, b += type_span(type, TRANSPOSED_DEPTH)) {
            const int depth = (int)min_i64(TRANSPOSED_DEPTH, product->k - p);
            if (skipped == 0 && columns == TRANSPOSED_ROWS && depth == TRANSPOSED_DEPTH && ahead)
                transpose_rows(type, b, product->ldb, 0, TRANSPOSED_ROWS, TRANSPOSED_DEPTH, ahead, ahead_step, transposed);
            else
                transpose_rows(type, b, product->ldb, skipped, columns, depth, ahead, ahead_step, transposed);
            const bool in_one_piece = type == HEED_F32 && ahead_step == type_span(type, depth);
            thin_tiles(thin_shapes_of(HEED_F32, false, false), &split,
                       &(struct thin_window){.k = depth,
                                             .a = product->a + p,
                                             .lda = product->lda,
                                             .b = transposed,
                                             .ldb = TRANSPOSED_ROWS,
                                             .c = product->c + j,
                                             .ldc = product->ldc,
                                             .pairs = product->pairs,
                                             .continues = product->continues || p > 0,
                                             .ahead = {in_one_piece ? (uintptr_t)ahead : 0, 0}});
            ahead += ahead ? type_span(type, TRANSPOSED_DEPTH) : 0;
        }
    }
}

static void thin_product_copied(const struct heed_thin_product *product) {
    WITH_STORED_TYPE(product->type, thin_product_copied_of(TYPE, product));
}

/* The product of some columns, from element p on. */
static void thin_part_copied(const struct heed_thin_product *product, int j, int columns, int64_t p) {
    struct heed_thin_product part = *product;
    part.b = type_at(product->type, product->b, j * product->ldb + p);
    part.a += p;
    part.c += j;
    part.k -= p;
    part.columns = columns;
    part.skipped = larger(0, product->skipped - j);
    part.continues = product->continues || p > 0;
    part.next = NULL;
    if (columns > 0 && part.k > 0)
        thin_product_copied(&part);
}

/* By so many rows less 1; NULL where none of them takes these. */
static const thin_squares_shape *thin_squares_for(const struct heed_thin_product *product) {
    static const thin_squares_shape of_types[3][FAR_SQUARE_ROWS_MOST] = {[HEED_F32] = THIN_SQUARES_NAMES(squares),
                                                                         [HEED_BF16] = THIN_SQUARES_NAMES(squares_bf16),
                                                                         [HEED_F16] = THIN_SQUARES_NAMES(squares_f16)};
    static const thin_squares_shape of_pairs[FAR_SQUARE_ROWS_MOST] = THIN_SQUARES_NAMES(squares_pairs);
    if (product->rows > (product->far ? FAR_SQUARE_ROWS : SQUARE_ROWS) || product->type == HEED_I8)
        return NULL;
    if (product->pairs)
        return product->type == HEED_BF16 && product->rows <= SQUARE_ROWS_OF(SQUARES_OF_PAIRS) ? of_pairs : NULL;
    return of_types[product->type];
}

/* Columns [from, to), whole squares of them, and k of k. */
typedef void (*thin_squares_of_columns)(const struct heed_thin_product *product, int64_t k, int from, int to);
static void thin_squares_by_type(const struct heed_thin_product *product, int64_t k, int from, int to) {
    thin_squares_in(thin_squares_for(product)[product->rows - 1], product, k, from, to);
}

/* Squares as long as they are whole, and the rest by copies. */
INLINE void thin_transposed_by(thin_squares_of_columns squares, const struct heed_thin_product *product) {
    const int from = (product->skipped + VF_LANES - 1) / VF_LANES * VF_LANES;
    const int to = larger(from, product->columns / VF_LANES * VF_LANES);
    const int64_t step = transpose_step(product->type, INT64_MAX), k = product->k / step * step;
    if (k == 0) {
        thin_product_copied(product);
        return;
    }
    thin_part_copied(product, 0, smaller(from, product->columns), 0);
    squares(product, k, from, to);
    thin_part_copied(product, from, to - from, k);
    thin_part_copied(product, to, product->columns - to, 0);
}

static void thin_product_transposed(const struct heed_thin_product *product) {
    if (thin_squares_for(product))
        thin_transposed_by(thin_squares_by_type, product);
    else
        thin_product_copied(product);
}

#endif
