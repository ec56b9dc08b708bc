/* thin_product: few rows times a long matrix that is read once, from memory.  Contract in src/contracts/thin.h.
 *
 * By windows (thin_window.h); only one row, or two where vectors are narrow, leave it to prefetchers, which do follow these
 * (thin_panel.h, thin_followed.h), and few rows what lies in order (thin_in_order.h).  Elements of 16 or 8 bits become floats in
 * registers, each vector once for all rows of a tile: widened into L1 first, decoding from bf16 took 1.5 times as long, and from
 * bytes twice.
 *
 * b is rows of a type, or a panel of words: two elements of k side by side, which become floats by an operation each, in order. */
#ifndef HEED_KERNELS_THIN_PRODUCT_H
#define HEED_KERNELS_THIN_PRODUCT_H

/* Rows of b two by two, of which the first two come in this order; or words of two, the first. */
struct thin_rows_of_b {
    const char *at[2];
    int64_t two; /* bytes from there to the next two */
};

INLINE void thin_b_advance(struct thin_rows_of_b *b, const int steps) {
    UNROLL for (int i = 0; i < 2; i++) {
        b->at[i] += steps / 2 * b->two;
        PIN(b->at[i]);
    }
    PIN(b->two);
}

/* An even number of steps; a and b advance. */
INLINE void thin_turn(const enum heed_type type, const enum thin_b kind, const int steps, const int rows, const int vectors,
                      vf acc[][THIN_VECTORS], struct tile_rows *a, struct thin_rows_of_b *b) {
    UNROLL for (int u = 0; u < steps; u++)
        thin_step(type, kind, u % 2, u, rows, vectors, acc, a, b->at[kind == THIN_ROWS_OF_B ? u % 2 : 0] + u / 2 * b->two);
    tile_rows_advance(rows, a, steps);
    tile_rows_pin(rows, a);
    thin_b_advance(b, steps);
}

/* The last step where there is no other: of a pair the even one alone, after a product of zeros, which is no -0. */
INLINE void thin_last_step(const enum heed_type type, const enum thin_b kind, const int rows, const int vectors,
                           vf acc[][THIN_VECTORS], struct tile_rows *a, const struct thin_rows_of_b *b, bool pairs) {
    const vf zero = v_pin(v_set1(pairs ? 0.0f : -0.0f)); /* no sum changes by -0 */
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_add(acc[i][v], zero);
    tile_rows_advance(rows, a, pairs);
    thin_step(type, kind, kind == THIN_PAIR_WORDS, 0, rows, vectors, acc, a, pairs && kind == THIN_ROWS_OF_B ? b->at[1] : b->at[0]);
}

/* Narrow vectors, which fetch what lies in order into L1 (thin_fetch_rows), fetch rows that have gaps into L2 alone, where that is
 * wanted.  16 rows of heads that lie side by side, 4 KB apart, and as many ahead of them share 8 sets of L1, with 8 places each:
 * what was fetched there was gone before it was used.  AVX2 decodes from floats that lie so in 0.89 of the time, from L3 0.92, from
 * 16 bits 0.94 to 0.98, but from rows without gaps, and L3, in 1.02 to 1.09 (Zen 4).  In a loop of its own: asked for in the loop,
 * gcc 12 moves sums from register to register, and from a linear cache decoding takes 1.08. */
INLINE bool thin_leaves_l1(const enum heed_type type, const enum thin_b kind, const int vectors, const struct thin_window *window,
                           int64_t step) {
    return VF_LANES < HEED_LINE && kind == THIN_ROWS_OF_B && window->into_l2 && step > vectors * VF_LANES * type_bytes(type);
}

/* Turns of one tile, and how many steps are left behind them. */
INLINE int64_t thin_turns(const enum heed_type type, const enum thin_b kind, const bool into_l2, const int rows, const int vectors,
                          const struct thin_window *window, vf acc[][THIN_VECTORS], struct tile_rows *a, struct thin_rows_of_b *b,
                          struct thin_ahead ahead) {
    const int steps = thin_steps(type);
    const uintptr_t further = window->further;
    int64_t k = window->k;
    int wait = window->turn;
    NO_UNROLL for (; k >= steps; k -= steps) {
        if (wait-- == 0) {
            thin_fetch(type, vectors, into_l2, ahead, further);
            wait = window->turns - 1;
        }
        ahead.data += (uintptr_t)(steps * ahead.step);
        if (kind == THIN_ROWS_OF_B && window->paced) /* words are weights, which never are */
            b->at[0] = paced(b->at[0], steps * vectors * VF_LANES * (int)type_bytes(type));
        thin_turn(type, kind, steps, rows, vectors, acc, a, b);
        PIN(k); /* gcc 12 else counts on the stack */
    }
    return k;
}

/* One tile. */
INLINE void thin_body(const enum heed_type type, const enum thin_b kind, const int rows, const int vectors,
                      const struct thin_window *window, struct tile_rows a, struct thin_rows_of_b b, struct thin_ahead ahead,
                      float *c) {
    enum { LEAST_STEPS = 2 };
    vf acc[THIN_ROWS][THIN_VECTORS];
    const enum heed_type order = kind == THIN_ROWS_OF_B ? type : HEED_F32; /* of sums */
    const int steps = thin_steps(type);
    int64_t k;
    if (window->continues)
        UNROLL for (int i = 0; i < rows; i++) thin_load_sums(order, vectors, c + i * window->ldc, acc[i]);
    else
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_zero();
    if (thin_leaves_l1(type, kind, vectors, window, ahead.step))
        k = thin_turns(type, kind, true, rows, vectors, window, acc, &a, &b, ahead);
    else
        k = thin_turns(type, kind, VF_LANES == HEED_LINE && window->into_l2, rows, vectors, window, acc, &a, &b, ahead);
    NO_UNROLL for (; steps > LEAST_STEPS && k >= LEAST_STEPS; k -= LEAST_STEPS)
        thin_turn(type, kind, LEAST_STEPS, rows, vectors, acc, &a, &b);
    if (k > 0)
        thin_last_step(type, kind, rows, vectors, acc, &a, &b, window->pairs);
    UNROLL for (int i = 0; i < rows; i++) thin_store_sums(order, vectors, acc[i], c + i * window->ldc);
}

INLINE struct thin_rows_of_b thin_b_at(const enum heed_type type, const enum thin_b kind, const struct thin_window *window, int j) {
    const bool words = kind != THIN_ROWS_OF_B;
    const int64_t ldb = window->k > 1 ? type_span(type, window->ldb) : 0;
    const char *b = (const char *)window->b + (words ? 2 : 1) * j * type_bytes(type);
    return (struct thin_rows_of_b){{b + (window->pairs && !words ? ldb : 0), b + (window->pairs ? 0 : ldb)}, 2 * ldb};
}

/* Tiles side by side: rows from `from` on, columns from j on. */
INLINE void thin_bodies(const enum heed_type type, const enum thin_b kind, const int rows, const int vectors,
                        const struct thin_window *window, int from, int j, int tiles) {
    const int bytes = vectors * VF_LANES * (int)type_bytes(type);
    const int64_t ahead_bytes = window->ahead.step ? bytes : bytes * window->k;
    struct tile_rows a;
    struct thin_rows_of_b b = thin_b_at(type, kind, window, j);
    struct thin_ahead ahead = thin_ahead_of_tile(window->ahead, bytes, window->k, j * type_bytes(type));
    float *c = window->c + from * window->ldc + j;
    tile_rows_begin(rows, &a, window->a + from * window->lda, window->lda);
    NO_UNROLL for (; tiles > 0; tiles--) {
        thin_body(type, kind, rows, vectors, window, a, b, ahead, c);
        UNROLL for (int i = 0; i < 2; i++) b.at[i] += kind == THIN_ROWS_OF_B ? bytes : 2 * bytes;
        ahead.data += (uintptr_t)ahead_bytes;
        c += vectors * VF_LANES;
    }
}

THIN_SHAPES(thin, thin_bodies, HEED_F32, THIN_ROWS_OF_B)
THIN_SHAPES(thin_bf16, thin_bodies, HEED_BF16, THIN_ROWS_OF_B)
THIN_SHAPES(thin_f16, thin_bodies, HEED_F16, THIN_ROWS_OF_B)
THIN_SHAPES(thin_i8, thin_bodies, HEED_I8, THIN_ROWS_OF_B)
THIN_SHAPES(thin_words, thin_bodies, HEED_BF16, THIN_WORDS)
THIN_SHAPES(thin_pair_words, thin_bodies, HEED_BF16, THIN_PAIR_WORDS)

/* Of rows of b, or of words. */
static const thin_shape (*thin_shapes_of(enum heed_type type, bool words, bool pairs))[THIN_MOST_VECTORS] {
    static const thin_shape of_types[4][THIN_MOST_ROWS][THIN_MOST_VECTORS] = {[HEED_F32] = THIN_TABLE(thin),
                                                                              [HEED_BF16] = THIN_TABLE(thin_bf16),
                                                                              [HEED_F16] = THIN_TABLE(thin_f16),
                                                                              [HEED_I8] = THIN_TABLE(thin_i8)};
    static const thin_shape of_words[2][THIN_MOST_ROWS][THIN_MOST_VECTORS] = {THIN_TABLE(thin_words), THIN_TABLE(thin_pair_words)};
    return words ? of_words[pairs] : of_types[type];
}

static void thin_product_of_vectors(const struct heed_thin_product *product) {
    const thin_shape(*shapes)[THIN_MOST_VECTORS] = thin_shapes_of(product->type, product->words, product->pairs);
    const bool followed = thin_is_followed(product);
    const struct thin_split split = thin_split_of(product, product->columns);
    const bool once = thin_fetches_once(product, &split);
    const bool is_long = once && split.vectors.count == 1;
    const int64_t rows = followed ? FOLLOWED_ROWS : thin_window_rows(product, once);
    const int64_t done = followed ? thin_followed(product) : 0;
    struct thin_window window;
    for (int64_t row = done; row < product->k; row += window.k) {
        window = thin_window_at(product, row, rows, once, is_long);
        if (followed)
            window.ahead.data = 0;
        thin_tiles(shapes, &split, &window);
    }
}

/* Columns that are no whole vector, which floats mostly have room for: others are widened some rows at a time, beside zeros. */
static void thin_product_of_rest(const struct heed_thin_product *product) {
    enum { REST_ROWS = 64 };
    float rest[REST_ROWS * VF_LANES] = {0};
    for (int64_t row = 0; row < product->k; row += REST_ROWS) {
        const int64_t rows = min_i64(REST_ROWS, product->k - row);
        widen_rows(type_at(product->type, product->b, row * product->ldb), product->type, product->ldb, rows, product->columns,
                   rest, VF_LANES);
        thin_product_of_vectors(&(struct heed_thin_product){.rows = product->rows,
                                                            .columns = product->columns,
                                                            .k = rows,
                                                            .a = product->a + row,
                                                            .lda = product->lda,
                                                            .b = rest,
                                                            .ldb = VF_LANES,
                                                            .c = product->c,
                                                            .ldc = product->ldc,
                                                            .pairs = product->pairs,
                                                            .continues = product->continues || row > 0});
    }
}

/* Whole vectors of columns by of_vectors, and what is left. */
INLINE void thin_product_by(void (*of_vectors)(const struct heed_thin_product *product), const struct heed_thin_product *product) {
    const bool has_room = product->type == HEED_F32 && !product->exact;
    const int whole = has_room ? product->columns : product->columns / VF_LANES * VF_LANES;
    if (whole == product->columns) { /* mostly; without a copy */
        of_vectors(product);
        return;
    }
    struct heed_thin_product part = *product;
    part.columns = whole;
    if (whole > 0)
        of_vectors(&part);
    part.columns = product->columns - whole;
    part.b = type_at(product->type, product->b, whole);
    part.c = product->c + whole;
    thin_product_of_rest(&part);
}

static void thin_product_of_panel(const struct heed_thin_product *product) {
    if (is_thin_panel(product))
        thin_panel(product);
    else
        thin_product_by(thin_product_of_vectors, product);
}

static void thin_product(const struct heed_thin_product *product) {
    if ((thin_is_one_piece(product) || thin_takes_turns(product)) && in_order_has_kind(product))
        thin_in_order(product);
    else
        thin_each_panel(thin_product_of_panel, product);
}

#endif
