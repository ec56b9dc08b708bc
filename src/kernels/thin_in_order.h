/* thin_product of few rows where b lies in order and prefetchers are to follow it by themselves.  Contract in src/kernels.h.
 *
 * One tile has all columns of a panel, and panels come one after another.  Between panels little is done, and little is stored:
 * what is stored waits until all loads before it have come from memory, and a store queue that is full of it holds back what is to
 * be read next.  By windows (thin_window.h), whose requests are a hundred stores for each 32 KB, decoding from floats took 1.1 of
 * the time (Zen 4). */
#ifndef HEED_KERNELS_THIN_IN_ORDER_H
#define HEED_KERNELS_THIN_IN_ORDER_H

enum {
    WIDE_ROWS = 4,
    WIDE_VECTORS = 8,
    HALVES_IN_ORDER = 2,               /* rows of a, at most, where b is of 16 bits */
    IN_ORDER_SUMS = 32 - WIDE_ROWS - 2 /* in registers, beside a number of each row, a column, and a sum from memory */
};

/* Where all would be fetched into L2: what is fetched hides what lies behind it from prefetchers (decoding takes 1.14 if each piece
 * fetches the first 16 KB of the next one), and of rows that tiles share each sees steps.  Decoding with 32 heads of 128 on 8,
 * floats, takes 0.82 to 0.87 of the time, with 24 heads 0.75, with as many heads as there are of keys 0.86 to 0.9, of 16 bits 0.77
 * to 0.86; packed floats of 4 rows 0.82 to 0.97, of 16 bits 1 and 2 rows 0.79 to 0.89.  But 3 and 4 rows of 16 bits, whose products
 * take as long as memory, take 0.93 to 1.2; pages of 128 tokens 0.96, of 64 1.14 to 1.4; bytes 1.02 to 1.07, pairs 1.4 (Zen 4). */
INLINE bool thin_is_in_order(const struct heed_thin_product *product) {
    const bool floats = product->type == HEED_F32, halves = product->type == HEED_BF16 || product->type == HEED_F16;
    return VF_LANES == HEED_LINE && product->fetch_into == HEED_INTO_L2 && product->in_order && !product->pairs &&
           ((floats && product->rows <= WIDE_ROWS) || (halves && product->rows <= HALVES_IN_ORDER)) &&
           product->ldb == product->columns && product->columns % VF_LANES == 0 &&
           product->columns <= (product->words ? THIN_VECTORS : WIDE_VECTORS) * VF_LANES;
}

/* A line of each page, `PAGES_AHEAD` bytes ahead, for prefetchers end with a page, and to find the next one takes a walk through
 * tables of pages, on virtual machines through two: one row takes 0.8 to 0.9 of the time, 4 rows of floats 0.97.  Huge pages are as
 * quick without (Zen 4). */
INLINE void in_order_fetch(const struct heed_thin_product *product, const char *b, const char *end) {
    const uintptr_t ahead = (uintptr_t)b + PAGES_AHEAD;
    if (ahead < (uintptr_t)end)
        fetch_line(ahead, false);
    else if (product->next)
        fetch_line((uintptr_t)product->next + (ahead - (uintptr_t)end), false);
}

/* How many sums of row i are in registers; those of the last row that have no room there are in c. */
INLINE int in_order_held(const int rows, const int vectors, const int i) {
    const int room = i + 1 < rows ? vectors : IN_ORDER_SUMS - (rows - 1) * vectors;
    return room < vectors ? room : vectors;
}

/* One p.  Column by column, so that few registers hold columns; of 16 bits, which come two by two, all at once. */
INLINE void in_order_step(const enum heed_type type, const enum thin_b kind, const int step, const int rows, const int vectors,
                          vf acc[][WIDE_VECTORS], const struct tile_rows *a, const char *b, float *c) {
    vf row[WIDE_ROWS], column[WIDE_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) row[i] = v_pin(v_load1(tile_row(a, i) + step));
    if (type != HEED_F32)
        thin_load_columns(type, kind, step, vectors, b, column);
    UNROLL for (int v = 0; v < vectors; v++) {
        if (type == HEED_F32)
            column[v] = v_pin(v_load((const float *)(const void *)b + v * VF_LANES));
        UNROLL for (int i = 0; i < rows; i++) {
            if (v < in_order_held(rows, vectors, i))
                acc[i][v] = v_chain(acc[i][v], row[i], column[v]);
            else
                v_store(c + v * VF_LANES, v_chain(v_load(c + v * VF_LANES), row[i], column[v]));
        }
    }
}

INLINE void in_order_load(const enum heed_type order, const int rows, const int vectors, const struct heed_thin_product *product,
                          float *c, vf acc[][WIDE_VECTORS]) {
    UNROLL for (int i = 0; i < rows; i++, c += product->ldc) {
        const int held = in_order_held(rows, vectors, i);
        if (product->continues) {
            thin_load_sums(order, held, c, acc[i]);
            continue;
        }
        UNROLL for (int v = 0; v < held; v++) acc[i][v] = v_zero();
        UNROLL for (int v = held; v < vectors; v++) v_store(c + v * VF_LANES, v_zero());
    }
}

/* All panels. */
INLINE void in_order_body(const enum heed_type type, const enum thin_b kind, const int rows, const int vectors,
                          const struct heed_thin_product *product) {
    const enum heed_type order = kind == THIN_ROWS_OF_B ? type : HEED_F32; /* of sums */
    const int steps = kind == THIN_ROWS_OF_B ? 1 : 2, bytes = steps * vectors * VF_LANES * (int)type_bytes(type);
    const int64_t turns = product->k / steps, rest = product->k % steps;
    const char *b = product->b, *end = b + (product->more_panels + 1) * (turns + rest) * bytes;
    float *c = product->c;
    NO_UNROLL for (int panel = 0; panel <= product->more_panels; panel++, c += product->columns) {
        vf acc[WIDE_ROWS][WIDE_VECTORS];
        struct tile_rows a;
        float *last = c + (rows - 1) * product->ldc;
        tile_rows_begin(rows, &a, product->a, product->lda);
        in_order_load(order, rows, vectors, product, c, acc);
        NO_UNROLL for (int64_t left = turns, in_page; left > 0; left -= in_page) {
            in_page = min_i64(left, PAGE_BYTES / bytes);
            in_order_fetch(product, b, end);
            NO_UNROLL for (int64_t turn = in_page; turn > 0; turn--) {
                UNROLL for (int u = 0; u < steps; u++) in_order_step(type, kind, u, rows, vectors, acc, &a, b, last);
                tile_rows_advance(rows, &a, steps);
                tile_rows_pin(rows, &a);
                b += bytes;
                PIN(b);
            }
        }
        if (rest) {
            in_order_step(type, kind, 0, rows, vectors, acc, &a, b, last);
            b += bytes;
        }
        UNROLL for (int i = 0; i < rows; i++) thin_store_sums(order, in_order_held(rows, vectors, i), acc[i], c + i * product->ldc);
    }
}

#define IN_ORDER_SHAPE(kernel, rows, vectors, most, ...)                                                                           \
    NOINLINE void kernel##_##rows##x##vectors(const struct heed_thin_product *product) {                                           \
        if (rows <= most)                                                                                                          \
            in_order_body(__VA_ARGS__, rows <= most ? rows : 1, vectors, product);                                                 \
    }
#define IN_ORDER_SHAPES_OF_ROWS(kernel, rows, ...)                                                                                 \
    IN_ORDER_SHAPE(kernel, rows, 1, __VA_ARGS__)                                                                                   \
    IN_ORDER_SHAPE(kernel, rows, 2, __VA_ARGS__)                                                                                   \
    IN_ORDER_SHAPE(kernel, rows, 3, __VA_ARGS__)                                                                                   \
    IN_ORDER_SHAPE(kernel, rows, 4, __VA_ARGS__)                                                                                   \
    IN_ORDER_SHAPE(kernel, rows, 5, __VA_ARGS__)                                                                                   \
    IN_ORDER_SHAPE(kernel, rows, 6, __VA_ARGS__)                                                                                   \
    IN_ORDER_SHAPE(kernel, rows, 7, __VA_ARGS__)                                                                                   \
    IN_ORDER_SHAPE(kernel, rows, 8, __VA_ARGS__)
#define IN_ORDER_SHAPES(kernel, ...)                                                                                               \
    IN_ORDER_SHAPES_OF_ROWS(kernel, 1, __VA_ARGS__)                                                                                \
    IN_ORDER_SHAPES_OF_ROWS(kernel, 2, __VA_ARGS__)                                                                                \
    IN_ORDER_SHAPES_OF_ROWS(kernel, 3, __VA_ARGS__)                                                                                \
    IN_ORDER_SHAPES_OF_ROWS(kernel, 4, __VA_ARGS__)
#define IN_ORDER_NAMES(kernel, rows)                                                                                               \
    {                                                                                                                              \
        kernel##_##rows##x1, kernel##_##rows##x2, kernel##_##rows##x3, kernel##_##rows##x4, kernel##_##rows##x5,                   \
            kernel##_##rows##x6, kernel##_##rows##x7, kernel##_##rows##x8                                                          \
    }
#define IN_ORDER_TABLE(kernel)                                                                                                     \
    { IN_ORDER_NAMES(kernel, 1), IN_ORDER_NAMES(kernel, 2), IN_ORDER_NAMES(kernel, 3), IN_ORDER_NAMES(kernel, 4) }

IN_ORDER_SHAPES(in_order, WIDE_ROWS, HEED_F32, THIN_ROWS_OF_B)
IN_ORDER_SHAPES(in_order_bf16, HALVES_IN_ORDER, HEED_BF16, THIN_ROWS_OF_B)
IN_ORDER_SHAPES(in_order_f16, HALVES_IN_ORDER, HEED_F16, THIN_ROWS_OF_B)
IN_ORDER_SHAPES(in_order_words, HALVES_IN_ORDER, HEED_BF16, THIN_WORDS)

static void thin_in_order(const struct heed_thin_product *product) {
    static void (*const shapes[4][WIDE_ROWS][WIDE_VECTORS])(const struct heed_thin_product *product) = {
        IN_ORDER_TABLE(in_order), IN_ORDER_TABLE(in_order_bf16), IN_ORDER_TABLE(in_order_f16), IN_ORDER_TABLE(in_order_words)};
    const int of_type = product->words ? 3 : product->type == HEED_F32 ? 0 : product->type == HEED_BF16 ? 1 : 2;
    shapes[of_type][product->rows - 1][product->columns / VF_LANES - 1](product);
}

#endif
