/* The inner loop of every product, and how a kernel is made for each tile shape.
 *
 * A tile is up to TILE_ROWS rows times TILE_VECTORS vectors of accumulators, held in registers over the whole chain; or a tall one,
 * of TALL_ROWS rows and half as many vectors.
 *
 * TILE_CHAIN: what a step of a chain is, if not that of floats. */
#ifndef HEED_KERNELS_TILE_H
#define HEED_KERNELS_TILE_H

#ifndef TILE_CHAIN
#define TILE_CHAIN v_chain
#endif

#define TILE_COLUMNS (TILE_VECTORS * VF_LANES)
enum {
    TALL_ROWS = 2 * TILE_ROWS,
    FEW_REGISTERS = TILE_ROWS * TILE_VECTORS <= 12 /* 16 */
};
_Static_assert(TILE_ROWS <= HEED_MAX_TILE_ROWS && TILE_VECTORS <= 4, "tables of shapes have no more");

INLINE void tile_zero(const int rows, const int vectors, vf acc[][TILE_VECTORS]) {
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_clear();
}

/* Rows of a are addressed from one pointer for every three, and the bytes from there to the second and to the third: left alone,
 * gcc 12 keeps a pointer for every row and unrolled step, on the stack, or adds up lda + lda + 4 for each. */
enum { MOST_ROWS = 16, ROW_GROUP = 3, ROW_GROUPS = (MOST_ROWS + ROW_GROUP - 1) / ROW_GROUP };
_Static_assert((int)TALL_ROWS <= (int)MOST_ROWS, "tall tiles have pointers to their rows");

struct tile_rows {
    const float *group[ROW_GROUPS];
    int64_t second, third;
};

INLINE void tile_rows_pin(const int rows, struct tile_rows *at) {
    if (rows > 1)
        PIN(at->second);
    if (rows > 2)
        PIN(at->third);
}

/* What was loaded from there is loaded anew. */
INLINE void tile_rows_repin(const int rows, struct tile_rows *at) {
    UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) PIN(at->group[g]);
}

INLINE void tile_rows_begin(const int rows, struct tile_rows *at, const float *a, int64_t lda) {
    const int64_t next = ROW_GROUP * lda;
    at->second = lda * (int64_t)sizeof(float);
    at->third = 2 * lda * (int64_t)sizeof(float);
    UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) {
        at->group[g] = a;
        a += next;
        PIN(a);
    }
    tile_rows_pin(rows, at);
}

INLINE const float *tile_row(const struct tile_rows *at, const int i) {
    const char *group = (const char *)at->group[i / ROW_GROUP];
    return (const float *)(group + (i % ROW_GROUP == 0 ? 0 : i % ROW_GROUP == 1 ? at->second : at->third));
}

INLINE void tile_rows_advance(const int rows, struct tile_rows *at, int64_t floats) {
    UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) {
        at->group[g] += floats;
        PIN(at->group[g]);
    }
}

/* acc[i] = fma(a[i][p], b[p], acc[i]) for one p, `offset` floats behind where rows are; column holds b[p]. */
INLINE void tile_column(const int rows, const int vectors, vf acc[][TILE_VECTORS], const struct tile_rows *a, const int offset,
                        const vf column[TILE_VECTORS]) {
    UNROLL for (int i = 0; i < rows; i++) {
        const vf row = v_set1(tile_row(a, i)[offset]);
        UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = TILE_CHAIN(acc[i][v], row, column[v]);
    }
}

/* b[p], copied unless `copy` is NULL. */
INLINE void tile_load_column(const int vectors, const float *b, float *copy, vf column[TILE_VECTORS]) {
    UNROLL for (int v = 0; v < vectors; v++) {
        column[v] = v_pin(v_load(b + v * VF_LANES));
        if (copy)
            v_store(copy + v * VF_LANES, column[v]);
    }
}

/* tile_column with b[p] in memory. */
INLINE void tile_step(const int rows, const int vectors, vf acc[][TILE_VECTORS], const struct tile_rows *a, const int offset,
                      const float *b, float *copy) {
    vf column[TILE_VECTORS];
    tile_load_column(vectors, b, copy, column);
    tile_column(rows, vectors, acc, a, offset, column);
}

/* Steps of one turn of the loop, about 96 multiply-adds: with 4, AVX2 takes 432 cycles for a tile of head_dim 64, with 8 it takes
 * 401, of which 384 are the products'; AVX-512 loses 4 % by 8. */
enum { TILE_STEPS = FEW_REGISTERS ? 8 : 4 };

/* How many rows of b are addressed from one pointer, as rows of a are.  An addition for each row is 8 of the 181 instructions of a
 * turn of AVX2, and where another hardware thread shares the core, instructions are what is short: with groups of four, and what
 * gemm_one_tile does, products take 0.96 to 0.98 of the time (Zen 3), but attention with head_dim 128 takes 1.01 to 1.03.  Short
 * turns have few additions, and AVX-512's loops no registers. */
enum { TILE_B_ALONE = 1, TILE_B_GROUP = TILE_STEPS < 8 ? TILE_B_ALONE : 4 };

struct tile_b {
    const char *at;
    int64_t second, third, fourth, fifth; /* bytes from `at` */
};

INLINE void tile_b_pin(const int group, struct tile_b *b) {
    PIN(b->second);
    if (group > TILE_B_ALONE) {
        PIN(b->third);
        PIN(b->fourth);
        PIN(b->fifth);
    }
}

INLINE struct tile_b tile_b_begin(const float *b, int64_t ldb) {
    const int64_t bytes = ldb * (int64_t)sizeof(float);
    return (struct tile_b){(const char *)b, bytes, 2 * bytes, 3 * bytes, 4 * bytes};
}

INLINE int64_t tile_b_offset(const struct tile_b *b, const int row) {
    return row == 0 ? 0 : row == 1 ? b->second : row == 2 ? b->third : row == 3 ? b->fourth : b->fifth;
}

/* That many steps of k.  Rows of b are addressed `group` at a time from one pointer.  a advances by `apart` floats a step, b by a
 * row, copy by HEED_PANEL. */
INLINE void tile_turn(const int steps, const int group, const int apart, const int rows, const int vectors, vf acc[][TILE_VECTORS],
                      struct tile_rows *a, struct tile_b *b, float **copy) {
    UNROLL for (int u = 0; u < steps; u++) {
        const int row = u % group;
        tile_step(rows, vectors, acc, a, u * apart, (const float *)(b->at + tile_b_offset(b, row)), copy ? *copy : NULL);
        if (row == group - 1 || u == steps - 1)
            b->at += tile_b_offset(b, row + 1);
        if (copy)
            *copy += HEED_PANEL;
    }
    tile_rows_advance(rows, a, steps * apart);
    if (steps == TILE_STEPS) { /* gcc 12 else keeps sums of these and others on the stack */
        tile_rows_pin(rows, a);
        tile_b_pin(group, b);
    }
}

/* Fewer steps than a turn has. */
INLINE void tile_last_steps(const int apart, const int rows, const int vectors, vf acc[][TILE_VECTORS], struct tile_rows *a,
                            struct tile_b *b, float **copy, int64_t k) {
    NO_UNROLL for (; k > 0; k--) {
        tile_turn(1, TILE_B_ALONE, apart, rows, vectors, acc, a, b, copy);
        PIN(k); /* gcc 12 else counts on the stack */
    }
}

/* The same for k places of a, `apart` floats from one to the next. */
INLINE void tile_multiply_apart(const int apart, const int rows, const int vectors, vf acc[][TILE_VECTORS], const float *a,
                                int64_t lda, const float *b, int64_t ldb, int64_t k) {
    struct tile_rows a_at;
    struct tile_b b_at = tile_b_begin(b, ldb);
    tile_rows_begin(rows, &a_at, a, lda);
    NO_UNROLL for (; k >= TILE_STEPS; k -= TILE_STEPS)
        tile_turn(TILE_STEPS, TILE_B_ALONE, apart, rows, vectors, acc, &a_at, &b_at, NULL);
    tile_last_steps(apart, rows, vectors, acc, &a_at, &b_at, NULL, k);
}

INLINE void tile_multiply(const int rows, const int vectors, vf acc[][TILE_VECTORS], const float *a, int64_t lda, const float *b,
                          int64_t ldb, int64_t k) {
    tile_multiply_apart(1, rows, vectors, acc, a, lda, b, ldb, k);
}

/* o = fma(o, keep_old, chain * take_new). */
INLINE void tile_merge(const int rows, const int vectors, vf acc[][TILE_VECTORS], float *o, int64_t ldo, const float *keep_old,
                       const float *take_new) {
    UNROLL for (int i = 0; i < rows; i++) {
        const vf keep = v_set1(keep_old[i]), take = v_set1(take_new[i]);
        UNROLL for (int v = 0; v < vectors; v++) {
            float *to = o + i * ldo + v * VF_LANES;
            v_store(to, v_fma(v_load(to), keep, v_mul(acc[i][v], take)));
        }
    }
}

/* Scores to s, their lane-wise maxima to row_max: of these alone if `first`. */
INLINE void tile_store_scores(const int rows, const int vectors, vf acc[][TILE_VECTORS], bool first, float *s, int64_t lds,
                              float *row_max) {
    UNROLL for (int i = 0; i < rows; i++) {
        vf max = acc[i][0];
        UNROLL for (int v = 0; v < vectors; v++) v_store(s + i * lds + v * VF_LANES, acc[i][v]);
        UNROLL for (int v = 1; v < vectors; v++) max = v_max(max, acc[i][v]);
        v_store(row_max + i * HEED_SUM_LANES, first ? max : v_max(max, v_load(row_max + i * HEED_SUM_LANES)));
    }
}

/* kernel##_body(rows, vectors, arguments) with constant bounds, as one function with these parameters per shape; shapes beyond this
 * ISA's tile are empty. */
#define TILE_SHAPE(kernel, parameters, rows, vectors, ...)                                                                         \
    NOINLINE void kernel##_##rows##x##vectors parameters {                                                                         \
        if (rows <= TILE_ROWS && vectors <= TILE_VECTORS)                                                                          \
            kernel##_body(rows <= TILE_ROWS ? rows : 1, vectors <= TILE_VECTORS ? vectors : 1, __VA_ARGS__);                       \
    }
#define TILE_SHAPES_OF_ROWS(kernel, parameters, rows, ...)                                                                         \
    TILE_SHAPE(kernel, parameters, rows, 1, __VA_ARGS__)                                                                           \
    TILE_SHAPE(kernel, parameters, rows, 2, __VA_ARGS__)                                                                           \
    TILE_SHAPE(kernel, parameters, rows, 3, __VA_ARGS__)                                                                           \
    TILE_SHAPE(kernel, parameters, rows, 4, __VA_ARGS__)
#define TILE_SHAPES(kernel, parameters, ...)                                                                                       \
    TILE_SHAPES_OF_ROWS(kernel, parameters, 1, __VA_ARGS__)                                                                        \
    TILE_SHAPES_OF_ROWS(kernel, parameters, 2, __VA_ARGS__)                                                                        \
    TILE_SHAPES_OF_ROWS(kernel, parameters, 3, __VA_ARGS__)                                                                        \
    TILE_SHAPES_OF_ROWS(kernel, parameters, 4, __VA_ARGS__)                                                                        \
    TILE_SHAPES_OF_ROWS(kernel, parameters, 5, __VA_ARGS__)                                                                        \
    TILE_SHAPES_OF_ROWS(kernel, parameters, 6, __VA_ARGS__)
#define TILE_NAMES(kernel, rows)                                                                                                   \
    { kernel##_##rows##x1, kernel##_##rows##x2, kernel##_##rows##x3, kernel##_##rows##x4 }
#define TILE_TABLE(kernel)                                                                                                         \
    {                                                                                                                              \
        TILE_NAMES(kernel, 1), TILE_NAMES(kernel, 2), TILE_NAMES(kernel, 3), TILE_NAMES(kernel, 4), TILE_NAMES(kernel, 5),         \
            TILE_NAMES(kernel, 6)                                                                                                  \
    }

#endif
