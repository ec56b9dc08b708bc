/* thin_product of few rows of floats or 16 bits that lie in order (in_order.h).  Contract in src/contracts/thin.h. */
#ifndef HEED_KERNELS_THIN_IN_ORDER_H
#define HEED_KERNELS_THIN_IN_ORDER_H

enum {
    HALVES_SUMS = 24 /* of 16 bits; with more, two tiles by windows are as quick or quicker */
};

/* Of 16 bits, two vectors at a time, in rows or in words, of which each has two steps. */
INLINE void in_order_halves(const enum heed_type type, const enum thin_b kind, const int step, const int rows, const int vectors,
                            vf acc[][WIDE_VECTORS], const struct tile_rows *a, const char *b, const struct in_order_sums *c) {
    const int bytes = (kind == THIN_ROWS_OF_B ? 1 : 2) * VF_LANES * (int)type_bytes(type);
    vf row[WIDE_ROWS], column[2];
    UNROLL for (int i = 0; i < rows; i++) row[i] = v_pin(v_load1(tile_row(a, i) + step));
    UNROLL for (int v = 0; v < vectors; v += 2) {
        thin_load_columns(type, kind, step, smaller(2, vectors - v), b + v * bytes, column);
        in_order_column(HALVES_SUMS, rows, vectors, v, acc, row, column[0], c);
        if (v + 1 < vectors)
            in_order_column(HALVES_SUMS, rows, vectors, v + 1, acc, row, column[1], c);
    }
}
INLINE void in_order_bf16(const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS], const struct tile_rows *a,
                          const char *b, const struct in_order_sums *c) {
    (void)rest;
    in_order_halves(HEED_BF16, THIN_ROWS_OF_B, 0, rows, vectors, acc, a, b, c);
}
INLINE void in_order_f16(const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS], const struct tile_rows *a,
                         const char *b, const struct in_order_sums *c) {
    (void)rest;
    in_order_halves(HEED_F16, THIN_ROWS_OF_B, 0, rows, vectors, acc, a, b, c);
}
INLINE void in_order_words(const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS], const struct tile_rows *a,
                           const char *b, const struct in_order_sums *c) {
    in_order_halves(HEED_BF16, THIN_WORDS, 0, rows, vectors, acc, a, b, c);
    if (!rest)
        in_order_halves(HEED_BF16, THIN_WORDS, 1, rows, vectors, acc, a, b, c);
}

INLINE struct in_order_kind in_order_kind_halves(const enum heed_type order, const int rows) {
    return (struct in_order_kind){
        .order = order, .turn_k = 1, .turn_floats = 1, .vector_bytes = VF_LANES * 2, .sums = HALVES_SUMS, .fetches = rows > 2};
}
INLINE struct in_order_kind in_order_kind_bf16(const int rows) { return in_order_kind_halves(HEED_BF16, rows); }
INLINE struct in_order_kind in_order_kind_f16(const int rows) { return in_order_kind_halves(HEED_F16, rows); }
INLINE struct in_order_kind in_order_kind_words(const int rows) {
    struct in_order_kind kind = in_order_kind_halves(HEED_F32, rows);
    kind.turn_k = kind.turn_floats = 2;
    kind.vector_bytes *= 2;
    return kind;
}

IN_ORDER_SHAPES(in_order, MOST_SUMS, in_order_floats, in_order_kind_floats)
IN_ORDER_SHAPE(in_order, 5, 4, MOST_SUMS, in_order_tall, in_order_kind_tall)
IN_ORDER_SHAPE(in_order, 6, 4, MOST_SUMS, in_order_tall, in_order_kind_tall)
IN_ORDER_SHAPE(in_order, 7, 4, MOST_SUMS, in_order_tall, in_order_kind_tall)
IN_ORDER_SHAPE(in_order, 8, 4, MOST_SUMS, in_order_tall, in_order_kind_tall)
IN_ORDER_SHAPES(in_order_bf16, HALVES_SUMS, in_order_bf16, in_order_kind_bf16)
IN_ORDER_SHAPES(in_order_f16, HALVES_SUMS, in_order_f16, in_order_kind_f16)
IN_ORDER_SHAPES(in_order_words, HALVES_SUMS, in_order_words, in_order_kind_words)

/* Of these types, and not too many sums. */
INLINE bool in_order_has_kind(const struct heed_thin_product *product) {
    const bool floats = product->type == HEED_F32, halves = product->type == HEED_BF16 || product->type == HEED_F16;
    const bool fits = product->rows <= WIDE_ROWS && product->rows * product->columns <= HALVES_SUMS * VF_LANES;
    return !product->pairs && (floats || (halves && fits));
}

static void thin_in_order(const struct heed_thin_product *product) {
    static const in_order_shape tall[] = {in_order_5x4, in_order_6x4, in_order_7x4, in_order_8x4};
    static const in_order_shape shapes[][WIDE_ROWS][WIDE_VECTORS] = {IN_ORDER_TABLE(in_order), IN_ORDER_TABLE(in_order_bf16),
                                                                     IN_ORDER_TABLE(in_order_f16), IN_ORDER_TABLE(in_order_words)};
    const int kind = product->words ? 3 : product->type == HEED_F32 ? 0 : product->type == HEED_BF16 ? 1 : 2;
    if (product->rows > WIDE_ROWS)
        tall[product->rows - WIDE_ROWS - 1](product);
    else
        shapes[kind][product->rows - 1][product->columns / VF_LANES - 1](product);
}

#endif
