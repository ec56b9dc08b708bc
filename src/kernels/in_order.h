/* The loop of thin products whose b lies in one piece, or is parts of rows that take turns: one tile has all columns of a panel,
 * and panels come one after another.  Contract in src/contracts/thin.h.
 *
 * Between panels little is done, and little is stored: what is stored waits until all loads before it have come from memory, and a
 * store queue that is full holds back what is to be read next.  By windows (thin_window.h), which take a hundred stores each,
 * decoding from floats in a linear cache takes 1.04 to 1.12 of the time from memory, and 1.14 from caches, in pairs 1.05 to 1.2,
 * from pages of 64 tokens 1.03 to 1.1 (Zen 4). */
#ifndef HEED_KERNELS_IN_ORDER_H
#define HEED_KERNELS_IN_ORDER_H

enum {
    WIDE_ROWS = 4, /* of a, at most, where a panel has more than `NARROW_VECTORS` */
    WIDE_VECTORS = 8,
    TALL_ROWS_IN_ORDER = 8, /* where it has just so many */
    NARROW_VECTORS = 4,
    MOST_SUMS = 32,
    /* In registers, beside a sum from memory and a number of each row and a column; or a number and all columns. */
    FLOATS_SUMS = 32 - WIDE_ROWS - 2,
    TALL_SUMS = 32 - NARROW_VECTORS - 2,
    LINES_AHEAD = 16384, /* bytes from where they are read to where they are fetched; twice, the second as far again */
    LINES_TURN = 2048,   /* bytes for which that is found out anew */
    /* So few are paced where nothing is fetched, too, for prefetchers gain as well: decoding from floats in a linear cache takes
     * 0.85 and 0.87 of the time, of 3 rows 1.02. */
    PACED_ROWS = 2
};

/* c of the last row and of the one before it, where sums stay that registers have no room for (in_order_held). */
struct in_order_sums {
    float *last, *before;
};

/* What a tile does in a turn.  rest: the last one, where k has fewer elements left than a turn takes. */
typedef void in_order_turn(const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS], const struct tile_rows *a,
                           const char *b, const struct in_order_sums *c);
/* A turn takes turn_k elements of k, which are turn_floats of a row of a, and of b vector_bytes for each vector of columns. */
struct in_order_kind {
    enum heed_type order; /* of sums, see thin_load_sums */
    int turn_k, turn_floats, vector_bytes;
    int sums;     /* in registers, at most */
    bool fetches; /* lines, else of each page one */
};

/* Whether one tile has all columns of a panel, and so many rows.  Where all would be fetched into L2; elsewhere it has not been
 * timed. */
INLINE bool thin_is_tile(const struct heed_thin_product *product, int rows) {
    return VF_LANES == HEED_LINE && product->fetch_into == HEED_INTO_L2 && product->rows <= rows &&
           product->columns % VF_LANES == 0 && product->columns <= WIDE_VECTORS * VF_LANES;
}
INLINE bool thin_is_one_piece(const struct heed_thin_product *product) {
    return !thin_has_gaps(product) &&
           thin_is_tile(product, product->columns == NARROW_VECTORS * VF_LANES ? TALL_ROWS_IN_ORDER : WIDE_ROWS);
}
INLINE bool thin_takes_turns(const struct heed_thin_product *product) {
    return thin_has_gaps(product) && product->more_panels > 0 && thin_is_tile(product, WIDE_ROWS);
}

/* What is at an address of b or, behind its end, of what follows it. */
INLINE uintptr_t in_order_ahead(const struct heed_thin_product *product, uintptr_t at, uintptr_t end) {
    return at < end || !product->next ? at : (uintptr_t)product->next + (at - end);
}

/* How many sums of row i are in registers; those of the last rows that have no room there are in c. */
INLINE int in_order_held(const int sums, const int vectors, const int i) { return larger(0, smaller(vectors, sums - i * vectors)); }

INLINE void in_order_load(const struct in_order_kind kind, const int rows, const int vectors,
                          const struct heed_thin_product *product, float *c, vf acc[][WIDE_VECTORS]) {
    UNROLL for (int i = 0; i < rows; i++, c += product->ldc) {
        const int held = in_order_held(kind.sums, vectors, i);
        if (product->continues) {
            thin_load_sums(kind.order, held, c, acc[i]);
            continue;
        }
        UNROLL for (int v = 0; v < held; v++) acc[i][v] = v_zero();
        UNROLL for (int v = held; v < vectors; v++) v_store(c + v * VF_LANES, v_zero());
    }
}

/* Where the rows of a turn are, and what is fetched beside it: lines `far` ahead and as far again, or of each page one; behind
 * `end` what follows b.
 *
 * What is long is left to prefetchers, but for a line of each page, with which these end: to find the next one takes a walk through
 * tables of pages, on virtual machines through two (one row takes 0.8 to 0.9 of the time, 4 rows of floats 0.97; huge pages are as
 * quick without).  What is fetched hides what lies behind it from them: with fetches decoding from floats takes 1.06 to 1.28.
 *
 * All lines are fetched, twice, of short pieces, which end before prefetchers have begun (from pages of 64 tokens 0.87 of the
 * time), and where products take about as long as memory (3 and 4 rows of 16 bits, 0.76 to 0.9): no further ahead than half a
 * piece, for what follows the next one is not known.  With 8 KB instead of 16 1.0 to 1.03 (Zen 4).  Of parts of rows those that
 * follow are fetched, and, further, those that probably follow them. */
struct in_order_way {
    int64_t step; /* bytes from one turn's rows to the next one's */
    bool fetches;
    uintptr_t far, end;
};
INLINE struct in_order_way in_order_way_of(const struct in_order_kind kind, const int vectors,
                                           const struct heed_thin_product *product) {
    const uintptr_t b = (uintptr_t)product->b, next = (uintptr_t)product->next;
    const bool fetches = kind.fetches || !product->in_order;
    const int bytes = vectors * kind.vector_bytes;
    const int64_t piece = (product->more_panels + 1) * product->k * (bytes / kind.turn_k);
    if (thin_has_gaps(product))
        return (struct in_order_way){kind.turn_k * type_span(product->type, product->ldb), true, next ? next - b : 0, UINTPTR_MAX};
    return (struct in_order_way){bytes, fetches, fetches ? (uintptr_t)min_i64(LINES_AHEAD, piece / 2) : PAGES_AHEAD,
                                 b + (uintptr_t)piece};
}

/* Turns of one panel, without a rest. */
INLINE const char *in_order_turns(in_order_turn *turn, const struct in_order_kind kind, const int rows, const int vectors,
                                  int64_t turns, vf acc[][WIDE_VECTORS], struct tile_rows *a,
                                  const struct heed_thin_product *product, const char *b, const struct in_order_way *way,
                                  const struct in_order_sums *c) {
    const bool fetches = kind.fetches || way->fetches; /* of some kinds known where it is compiled */
    const int bytes = vectors * kind.vector_bytes, most = fetches ? LINES_TURN / bytes : PAGE_BYTES / bytes;
    NO_UNROLL for (int64_t some; turns > 0; turns -= some) {
        uintptr_t ahead = in_order_ahead(product, (uintptr_t)b + way->far, way->end);
        uintptr_t further = in_order_ahead(product, (uintptr_t)b + 2 * way->far, way->end);
        some = min_i64(turns, most);
        if (!fetches)
            fetch_line(ahead, false);
        NO_UNROLL for (int64_t left = some; left > 0; left--) {
            if (fetches) {
                UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) fetch_line(ahead + (uintptr_t)line, false);
                UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) fetch_line(further + (uintptr_t)line, false);
                ahead += (uintptr_t)way->step;
                further += (uintptr_t)way->step;
                PIN(ahead);
                PIN(further);
                if (rows > PACED_ROWS && product->paced)
                    b = paced(b, bytes);
            }
            if (rows <= PACED_ROWS && product->paced)
                b = paced(b, bytes);
            turn(rows, vectors, false, acc, a, b, c);
            tile_rows_advance(rows, a, kind.turn_floats);
            tile_rows_pin(rows, a);
            b += way->step;
            PIN(b);
        }
    }
    return b;
}

/* All panels. */
INLINE void in_order_body(in_order_turn *turn, const struct in_order_kind kind, const int rows, const int vectors,
                          const struct heed_thin_product *product) {
    const struct in_order_way way = in_order_way_of(kind, vectors, product);
    const char *first = product->b;
    const float *first_a = product->a;
    float *c = product->c;
    NO_UNROLL for (int panel = 0; panel <= product->more_panels; panel++) {
        vf acc[TALL_ROWS_IN_ORDER][WIDE_VECTORS];
        struct tile_rows a;
        const struct in_order_sums sums = {c + (rows - 1) * product->ldc, c + larger(0, rows - 2) * product->ldc};
        tile_rows_begin(rows, &a, first_a, product->lda);
        in_order_load(kind, rows, vectors, product, c, acc);
        const char *b = in_order_turns(turn, kind, rows, vectors, product->k / kind.turn_k, acc, &a, product, first, &way, &sums);
        if (product->k % kind.turn_k)
            turn(rows, vectors, true, acc, &a, b, &sums);
        UNROLL for (int i = 0; i < rows; i++)
            thin_store_sums(kind.order, in_order_held(kind.sums, vectors, i), acc[i], c + i * product->ldc);
        first += type_span(product->type, product->b_step);
        first_a += product->a_step;
        c += product->c_step;
    }
}

/* acc or c = fma(row, column, acc or c) for row i and a vector of columns. */
INLINE void in_order_sum(const int sums, const int rows, const int vectors, const int i, const int v, vf acc[][WIDE_VECTORS],
                         vf row, vf column, const struct in_order_sums *c) {
    float *sum = (i + 1 < rows ? c->before : c->last) + v * VF_LANES;
    if (v < in_order_held(sums, vectors, i)) {
        acc[i][v] = TILE_CHAIN(acc[i][v], row, column);
        return;
    }
    v_store(sum, TILE_CHAIN(v_load(sum), row, column));
    PIN_VECTOR(sum); /* else gcc 12 holds it in a register, too, and others on the stack */
}
INLINE void in_order_column(const int sums, const int rows, const int vectors, const int v, vf acc[][WIDE_VECTORS],
                            const vf row[WIDE_ROWS], vf column, const struct in_order_sums *c) {
    UNROLL for (int i = 0; i < rows; i++) in_order_sum(sums, rows, vectors, i, v, acc, row[i], column, c);
}

/* A row of b of what steps multiply as it is.  Vector by vector, so that few registers hold columns. */
INLINE void in_order_floats(const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS], const struct tile_rows *a,
                            const char *b, const struct in_order_sums *c) {
    vf row[WIDE_ROWS];
    (void)rest;
    UNROLL for (int i = 0; i < rows; i++) row[i] = v_pin(v_load1(tile_row(a, i)));
    UNROLL for (int v = 0; v < vectors; v++)
        in_order_column(FLOATS_SUMS, rows, vectors, v, acc, row, v_pin(v_load((const float *)(const void *)b + v * VF_LANES)), c);
}

/* The same of more rows: columns stay in registers, and a number of each row comes in turn.  In two tiles, each of which sees half
 * of b, 5 to 8 rows times 4096 x 4096 take 1.03 to 1.15 of the time, in pairs 1.03 to 1.25, from L2 1.05 to 1.15 (Zen 4). */
INLINE void in_order_tall(const int rows, const int vectors, const bool rest, vf acc[][WIDE_VECTORS], const struct tile_rows *a,
                          const char *b, const struct in_order_sums *c) {
    vf column[NARROW_VECTORS];
    (void)rest;
    UNROLL for (int v = 0; v < vectors; v++) column[v] = v_pin(v_load((const float *)(const void *)b + v * VF_LANES));
    UNROLL for (int i = 0; i < rows; i++) {
        const vf row = v_load1(tile_row(a, i));
        UNROLL for (int v = 0; v < vectors; v++) in_order_sum(TALL_SUMS, rows, vectors, i, v, acc, row, column[v], c);
    }
}

INLINE struct in_order_kind in_order_kind_floats(const int rows) {
    (void)rows;
    return (struct in_order_kind){
        .order = HEED_F32, .turn_k = 1, .turn_floats = 1, .vector_bytes = VF_LANES * 4, .sums = FLOATS_SUMS};
}
/* By lines that are fetched 8 rows times 4096 x 4096 take 0.84 of the time, 7 rows 0.85, 6 rows 1.01, but of decoding, where values
 * are read by windows, 0.87 (Zen 4). */
INLINE struct in_order_kind in_order_kind_tall(const int rows) {
    struct in_order_kind kind = in_order_kind_floats(rows);
    kind.sums = TALL_SUMS;
    kind.fetches = rows > 5;
    return kind;
}

/* kind: of so many rows.  With more than `most` sums there is no tile. */
#define IN_ORDER_SHAPE(name, rows, vectors, most, turn, kind)                                                                      \
    NOINLINE void name##_##rows##x##vectors(const struct heed_thin_product *product) {                                             \
        if ((rows) * (vectors) <= (most))                                                                                          \
            in_order_body(turn, kind(rows), (rows) * (vectors) <= (most) ? rows : 1, vectors, product);                            \
    }
#define IN_ORDER_SHAPES_OF_ROWS(name, rows, ...)                                                                                   \
    IN_ORDER_SHAPE(name, rows, 1, __VA_ARGS__)                                                                                     \
    IN_ORDER_SHAPE(name, rows, 2, __VA_ARGS__)                                                                                     \
    IN_ORDER_SHAPE(name, rows, 3, __VA_ARGS__)                                                                                     \
    IN_ORDER_SHAPE(name, rows, 4, __VA_ARGS__)                                                                                     \
    IN_ORDER_SHAPE(name, rows, 5, __VA_ARGS__)                                                                                     \
    IN_ORDER_SHAPE(name, rows, 6, __VA_ARGS__)                                                                                     \
    IN_ORDER_SHAPE(name, rows, 7, __VA_ARGS__)                                                                                     \
    IN_ORDER_SHAPE(name, rows, 8, __VA_ARGS__)
#define IN_ORDER_NAMES(name, rows)                                                                                                 \
    {                                                                                                                              \
        name##_##rows##x1, name##_##rows##x2, name##_##rows##x3, name##_##rows##x4, name##_##rows##x5, name##_##rows##x6,          \
            name##_##rows##x7, name##_##rows##x8                                                                                   \
    }
#define IN_ORDER_SHAPES(name, ...)                                                                                                 \
    IN_ORDER_SHAPES_OF_ROWS(name, 1, __VA_ARGS__)                                                                                  \
    IN_ORDER_SHAPES_OF_ROWS(name, 2, __VA_ARGS__)                                                                                  \
    IN_ORDER_SHAPES_OF_ROWS(name, 3, __VA_ARGS__)                                                                                  \
    IN_ORDER_SHAPES_OF_ROWS(name, 4, __VA_ARGS__)
#define IN_ORDER_TABLE(name)                                                                                                       \
    { IN_ORDER_NAMES(name, 1), IN_ORDER_NAMES(name, 2), IN_ORDER_NAMES(name, 3), IN_ORDER_NAMES(name, 4) }
typedef void (*in_order_shape)(const struct heed_thin_product *product); /* by rows and vectors, less 1 */

#endif
