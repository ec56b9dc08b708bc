/* gemm_tile: tiles of c = alpha * a b + beta * c, one under the other, narrow ones side by side too, of floats or of what
 * TILE_CHAIN takes.  Contract in src/contracts/gemm.h.
 *
 * TILE_ROUND: stores two vectors of sums, none of them a NaN, in bf16, where tiles do that.  They do where it is an instruction:
 * with sums rounded afterwards, 64 x 64 x 64 in pairs takes 1.13 times as long, 512 x 512 x 512 1.03; by five operations for a
 * vector, whose constants gcc 12 keeps in registers that the inner loop needs, little would be gained. */
#ifndef HEED_KERNELS_GEMM_TILE_H
#define HEED_KERNELS_GEMM_TILE_H

#ifdef TILE_ROUND
#define GEMM_ROUNDS true
#else
#define GEMM_ROUNDS false
#define TILE_ROUND(to, first, second)
#endif

/* What is fetched while a tile computes: its own a and the next tile's, GEMM_A_AHEAD steps before they are used, the sums that the
 * next tile starts from, the c that its own meet, all into L1; into L2 the b of the next block.  The processor's prefetchers lose
 * their way at the ends of rows and pages; without these, products beyond L2 take 2 to 5 % longer.  In bursts, for the inner loop
 * has no registers left. */
struct gemm_fetch {
    int64_t ahead, beyond; /* bytes from a to what is fetched of it: within the tile, and where its rows end */
    const char *b, *c, *sums;
    int64_t ldc, ldsums; /* in bytes */
    int64_t b_rows;      /* still to be fetched */
    int rows;            /* the same, of c and sums */
    bool is_first;       /* of tiles side by side, which meet the same a: it alone fetches that */
};

/* Where a tile is; the first one is where heed_gemm_tile says. */
struct gemm_at {
    int64_t left; /* rows of tiles, with this one's */
    const float *a, *acc;
    int64_t ldacc;
    float *c;
    uint16_t *rounded;
    int64_t column; /* of the tile, from where a, acc and c are */
};

/* Tiles as wide as a panel take 21 bytes of b a cycle, which not all processors fetch from L2 in time (cpu_policy.c): where blocks
 * of k are short for that, the first tile alone takes b from there, and sums are many.  Narrow tiles, which take half of that, gain
 * nothing from either. */
enum { GEMM_IS_WIDE = TILE_COLUMNS >= HEED_PANEL };

/* Steps from what is used to what is fetched; rows of a plain b, far apart, share few sets of L1, so fewer then. */
enum { GEMM_A_AHEAD = 2 * HEED_LINE, GEMM_B_AHEAD = 12, GEMM_PLAIN_B_AHEAD = 4 };

INLINE struct gemm_fetch gemm_fetch_of(const int rows, const struct heed_gemm_tile *tile, const struct gemm_at *at,
                                       struct gemm_fetch before) {
    const bool rounds = GEMM_ROUNDS && at->rounded;
    const int64_t ldc = tile->ldc * (int64_t)(rounds ? sizeof *at->rounded : sizeof *at->c);
    const char *c = rounds ? (const char *)at->rounded : (const char *)at->c;
    const float *next_a = at->left > 1 ? at->a + rows * tile->lda : tile->next_a;
    return (struct gemm_fetch){.ahead = GEMM_A_AHEAD * (int64_t)sizeof(float),
                               .beyond =
                                   (const char *)next_a - (const char *)at->a + (GEMM_A_AHEAD - tile->k) * (int64_t)sizeof(float),
                               .b = before.b,
                               .b_rows = before.b_rows,
                               .c = (tile->next_c ? tile->next_c : c) + at->column * (int64_t)sizeof(float),
                               .ldc = tile->next_c ? tile->ldnext_c : ldc,
                               .sums = (const char *)(at->acc + rows * at->ldacc + at->column),
                               .ldsums = at->ldacc * (int64_t)sizeof(float),
                               .rows = rows,
                               .is_first = GEMM_IS_WIDE || at->column == 0};
}

/* So many rows of b, so far ahead, into L1. */
INLINE void gemm_fetch_rows(const int steps, const int vectors, const struct tile_b *b, const int ahead) {
    const char *row = b->at + ahead * b->second;
    UNROLL for (int u = 0; u < steps; u++) {
        UNROLL for (int j = 0; j < vectors * VF_LANES; j += HEED_LINE) __builtin_prefetch((const float *)row + j, 0, 3);
        row += b->second;
    }
}

INLINE void gemm_fetch_b(const struct heed_gemm_tile *tile, struct gemm_fetch *fetch) {
    if (fetch->b_rows <= 0)
        return;
    NO_UNROLL for (int64_t i = tile->next_burst; i > 0; i--) {
        const char *line = fetch->b;
        NO_UNROLL for (int64_t left = tile->next_lines; left > 0; left -= 4) {
            UNROLL for (int j = 0; j < 4; j++) __builtin_prefetch(line + j * HEED_LINE * (int)sizeof(float), 0, 2);
            line += 4 * HEED_LINE * (int)sizeof(float);
            PIN(line);
            PIN(left);
        }
        fetch->b += tile->next_step;
    }
    fetch->b_rows -= tile->next_burst;
}

INLINE void gemm_fetch_a(const int rows, const struct tile_rows *a, int64_t ahead) {
    UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) {
        const char *group = (const char *)a->group[g] + ahead;
        PIN(group);
        __builtin_prefetch(group, 0, 3);
        if (g * ROW_GROUP + 1 < rows)
            __builtin_prefetch(group + a->second, 0, 3);
        if (g * ROW_GROUP + 2 < rows)
            __builtin_prefetch(group + a->third, 0, 3);
    }
}

/* All but a. */
INLINE void gemm_fetch_others(const int vectors, const struct heed_gemm_tile *tile, struct gemm_fetch *fetch) {
    if (fetch->rows > 0) {
        UNROLL for (int j = 0; j < vectors * VF_LANES; j += HEED_LINE) __builtin_prefetch(fetch->c + j * (int)sizeof(float), 1, 3);
        if (GEMM_IS_WIDE && fetch->ldsums > 0) {
            UNROLL for (int j = 0; j < vectors * VF_LANES; j += HEED_LINE)
                __builtin_prefetch(fetch->sums + j * (int)sizeof(float), 1, 3);
        }
        fetch->c += fetch->ldc;
        fetch->sums += fetch->ldsums;
        fetch->rows--;
    }
    gemm_fetch_b(tile, fetch);
}

INLINE void gemm_fetch(const int rows, const int vectors, const struct heed_gemm_tile *tile, const struct tile_rows *a,
                       int64_t turns, struct gemm_fetch *fetch) {
    if (fetch->is_first)
        gemm_fetch_a(rows, a, turns > GEMM_A_AHEAD / TILE_STEPS ? fetch->ahead : fetch->beyond);
    gemm_fetch_others(vectors, tile, fetch);
}

/* `steps` of a strip, which is addressed from one pointer. */
INLINE void gemm_strip_turn(const int steps, const int group, const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS],
                            const float **a, struct tile_b *b, float **copy) {
    UNROLL for (int u = 0; u < steps; u++) {
        const int row = u % group;
        vf column[TILE_VECTORS];
        tile_load_column(vectors, (const float *)(b->at + tile_b_offset(b, row)), copy ? *copy : NULL, column);
        UNROLL for (int i = 0; i < rows; i++) {
            const vf element = v_set1((*a)[u * TILE_ROWS + i]);
            UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = TILE_CHAIN(acc[i][v], element, column[v]);
        }
        if (row == group - 1 || u == steps - 1)
            b->at += tile_b_offset(b, row + 1);
        if (copy)
            *copy += HEED_PANEL;
    }
    *a += steps * TILE_ROWS;
    PIN(*a);
    if (steps == TILE_STEPS)
        tile_b_pin(group, b);
}

/* What a tile does with b: the first of a column may have to fetch or pack what the others find in L1, or narrow ones in L2. */
enum gemm_b { B_IS_NEAR, B_IS_FETCHED, B_IS_PACKED };

/* tile_multiply, with these every HEED_LINE steps. */
INLINE void gemm_multiply(const int rows, const int vectors, const enum gemm_b way, vf acc[TILE_ROWS][TILE_VECTORS],
                          const struct heed_gemm_tile *tile, const struct gemm_at *at, struct gemm_fetch *fetch) {
    struct tile_b b = tile_b_begin(tile->b + at->column, tile->ldb);
    float *panel = way == B_IS_PACKED ? tile->panel + at->column : NULL, **copy = way == B_IS_PACKED ? &panel : NULL;
    struct tile_rows a;
    tile_rows_begin(rows, &a, at->a, tile->lda);
    for (int64_t turns = tile->k / TILE_STEPS; turns > 0;) {
        gemm_fetch(rows, vectors, tile, &a, turns, fetch);
        do {
            if (way != B_IS_NEAR)
                gemm_fetch_rows(TILE_STEPS, vectors, &b, way == B_IS_PACKED ? GEMM_PLAIN_B_AHEAD : GEMM_B_AHEAD);
            tile_turn(TILE_STEPS, TILE_B_GROUP, 1, rows, vectors, acc, &a, &b, copy);
            turns--;
            PIN(turns);
        } while (turns % (HEED_LINE / TILE_STEPS) != 0);
    }
    tile_last_steps(1, rows, vectors, acc, &a, &b, copy, tile->k % TILE_STEPS);
}

/* As much of it as HEED_LINE steps take, a page ahead.  Strips lie one behind the other, and so this is of the next tile, too: a
 * processor's prefetchers begin anew in each page, and strips of 512 rows are in L3 (0.99 to 1.01 of the time, 0.996 in
 * the mean of six shapes, AVX2, Zen 4). */
INLINE void gemm_fetch_strip(const float *a) {
    const char *ahead = (const char *)a + PAGE_BYTES;
    UNROLL for (int i = 0; i < TILE_ROWS; i++) __builtin_prefetch(ahead + i * LINE_BYTES, 0, 3);
}

/* The same of a strip.  Apart from that of rows: with one for both, gcc 12 has a sum of AVX-512's tiles on the stack, which have no
 * strips. */
INLINE void gemm_multiply_strip(const int rows, const int vectors, const enum gemm_b way, vf acc[TILE_ROWS][TILE_VECTORS],
                                const struct heed_gemm_tile *tile, const struct gemm_at *at, struct gemm_fetch *fetch) {
    struct tile_b b = tile_b_begin(tile->b + at->column, tile->ldb);
    float *panel = way == B_IS_PACKED ? tile->panel + at->column : NULL, **copy = way == B_IS_PACKED ? &panel : NULL;
    const float *a = at->a;
    for (int64_t turns = tile->k / TILE_STEPS; turns > 0;) {
        gemm_fetch_others(vectors, tile, fetch);
        if (fetch->is_first)
            gemm_fetch_strip(a);
        do {
            if (way == B_IS_PACKED)
                gemm_fetch_rows(TILE_STEPS, vectors, &b, GEMM_PLAIN_B_AHEAD);
            gemm_strip_turn(TILE_STEPS, TILE_B_GROUP, rows, vectors, acc, &a, &b, copy);
            turns--;
            PIN(turns);
        } while (turns % (HEED_LINE / TILE_STEPS) != 0);
    }
    NO_UNROLL for (int64_t left = tile->k % TILE_STEPS; left > 0; left--) {
        gemm_strip_turn(1, TILE_B_ALONE, rows, vectors, acc, &a, &b, copy);
        PIN(left);
    }
}

/* Rows of acc are addressed from one pointer that moves: gcc 12 else computes the addresses of all vectors beforehand. */
INLINE void gemm_load_sums(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const float *from, int64_t ld,
                           int64_t tail) {
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            acc[i][v] = v == vectors - 1 ? v_load_n(from + v * VF_LANES, tail) : v_load(from + v * VF_LANES);
        }
        from += ld;
        PIN(from);
    }
}

/* One row of c = alpha * sums + beta * c. */
INLINE void gemm_finish_row(const int vectors, const vf acc[TILE_VECTORS], float alpha, float beta, float *to, int64_t tail) {
    UNROLL for (int v = 0; v < vectors; v++) {
        const int64_t n = v == vectors - 1 ? tail : VF_LANES;
        vf y = v_mul(v_set1(alpha), acc[v]);
        if (beta != 0.0f)
            y = v_fma(v_set1(beta), v_load_n(to + v * VF_LANES, n), y);
        v_store_n(to + v * VF_LANES, v_one_nan(y), n);
    }
}

/* The same, or the sums as they are where that changes nothing, as for most: to see it takes half the instructions.  Narrow tiles
 * have no registers for it (gcc 12 spills sums in the inner loop), and longer blocks of k. */
INLINE void gemm_store_sums(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct heed_gemm_tile *tile,
                            float *to, int64_t tail) {
    const bool may_be_finished = GEMM_IS_WIDE && tile->alpha == 1.0f && tile->beta == 0.0f;
    UNROLL for (int i = 0; i < rows; i++) {
        if (tile->partial || (may_be_finished && !v_any_nan(acc[i], vectors))) {
            UNROLL for (int v = 0; v < vectors; v++) v_store_n(to + v * VF_LANES, acc[i][v], v == vectors - 1 ? tail : VF_LANES);
        } else {
            gemm_finish_row(vectors, acc[i], tile->alpha, tile->beta, to, tail);
        }
        to += tile->ldc;
        PIN(to);
    }
}

/* A row with NaNs, or a part of a vector: apart, for gcc 12 else keeps constants in registers that the inner loop needs. */
NOINLINE void gemm_round_row(const float *sums, int columns, uint16_t *to) {
    for (int j = 0; j < columns; j += VF_LANES)
        v_store_half_n(to + j, v_round_bf16(v_load(sums + j)), columns - j);
}

INLINE void gemm_store_rounded(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], uint16_t *to, int64_t ldc,
                               int64_t tail) {
    const bool whole = vectors % 2 == 0 && tail >= VF_LANES;
    UNROLL for (int i = 0; i < rows; i++) {
        if (whole && !v_any_nan(acc[i], vectors)) {
            UNROLL for (int v = 0; v + 1 < vectors; v += 2) TILE_ROUND(to + v * VF_LANES, acc[i][v], acc[i][v + 1]);
        } else {
            float sums[TILE_VECTORS * VF_LANES];
            UNROLL for (int v = 0; v < vectors; v++) v_store(sums + v * VF_LANES, acc[i][v]);
            gemm_round_row(sums, (vectors - 1) * VF_LANES + (int)min_i64(tail, VF_LANES), to);
        }
        to += ldc;
        PIN(to);
    }
}

INLINE void gemm_one_tile(const int rows, const int vectors, const bool strip, const enum gemm_b way,
                          const struct heed_gemm_tile *tile, const struct gemm_at *at, struct gemm_fetch *fetch) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    int64_t tail = tile->columns - (vectors - 1) * VF_LANES; /* columns of the last vector, or more than it has */
    *fetch = gemm_fetch_of(rows, tile, at, *fetch);
    gemm_load_sums(rows, vectors, acc, at->acc + at->column, at->ldacc, tail);
    if (strip)
        gemm_multiply_strip(rows, vectors, way, acc, tile, at, fetch);
    else
        gemm_multiply(rows, vectors, way, acc, tile, at, fetch);
    if (!GEMM_IS_WIDE)
        PIN(tail); /* gcc 12 else has it in a vector beside the products, of which some then change registers */
    if (GEMM_ROUNDS && at->rounded)
        gemm_store_rounded(rows, vectors, acc, at->rounded, tile->ldc, tail);
    else
        gemm_store_sums(rows, vectors, acc, tile, at->c + at->column, tail);
}

INLINE struct gemm_at gemm_begin(const struct heed_gemm_tile *tile) {
    static const float zeros[HEED_PANEL];
    return (struct gemm_at){.left = tile->tiles,
                            .a = tile->a,
                            .acc = tile->acc ? tile->acc : zeros,
                            .ldacc = tile->acc ? tile->ldacc : 0,
                            .c = tile->c,
                            .rounded = tile->rounded};
}

/* From the a of a tile to that of the tile below. */
INLINE int64_t gemm_a_step(const int rows, const bool strip, const struct heed_gemm_tile *tile) {
    return strip ? TILE_ROWS * tile->k : rows * tile->lda;
}

/* To the next tile: beside this one, whose rows of a are in L1, or below the first of them.  A call for each tile costs AVX2 150
 * cycles, 5 to 8 % of a product (Zen 3). */
INLINE void gemm_advance(const int rows, const int vectors, const bool strip, const struct heed_gemm_tile *tile,
                         struct gemm_at *at) {
    if (!GEMM_IS_WIDE && vectors == TILE_VECTORS) {
        at->column += TILE_COLUMNS;
        if (at->column < tile->columns)
            return;
        at->column = 0;
    }
    at->a += gemm_a_step(rows, strip, tile);
    at->acc += rows * at->ldacc;
    at->c += rows * tile->ldc;
    if (GEMM_ROUNDS && at->rounded)
        at->rounded += rows * tile->ldc;
    at->left--;
}

INLINE void gemm_tiles(const int rows, const int vectors, const bool strip, const struct heed_gemm_tile *tile) {
    struct gemm_at at = gemm_begin(tile);
    struct gemm_fetch fetch = {.b = tile->next_b, .b_rows = tile->next_rows};
    const bool whole = rows == TILE_ROWS && vectors == TILE_VECTORS;
    bool fetches_b = GEMM_IS_WIDE && whole && tile->fetches_b;
    NO_UNROLL while (at.left > 0) {
        if (GEMM_IS_WIDE && whole && fetches_b)
            gemm_one_tile(rows, vectors, strip, B_IS_FETCHED, tile, &at, &fetch);
        else
            gemm_one_tile(rows, vectors, strip, B_IS_NEAR, tile, &at, &fetch);
        gemm_advance(rows, vectors, strip, tile, &at);
        fetches_b = false;
    }
}

INLINE void gemm_tile_body(const int rows, const int vectors, const struct heed_gemm_tile *tile) {
    gemm_tiles(rows, vectors, false, tile);
}
/* Tiles as wide as a panel have none. */
INLINE void gemm_strip_body(const int rows, const int vectors, const struct heed_gemm_tile *tile) {
    if (!GEMM_IS_WIDE)
        gemm_tiles(rows, vectors, true, tile);
}

TILE_SHAPES(gemm_tile, (const struct heed_gemm_tile *tile), tile)
TILE_SHAPES(gemm_strip, (const struct heed_gemm_tile *tile), tile)

/* Of one tile. */
INLINE int gemm_vectors_of(const struct heed_gemm_tile *tile) {
    return (smaller(tile->columns, TILE_COLUMNS) + VF_LANES - 1) / VF_LANES;
}

/* Without a panel. */
static void gemm_tile_ready(const struct heed_gemm_tile *tile) {
    static void (*const shapes[2][6][4])(const struct heed_gemm_tile *) = {TILE_TABLE(gemm_tile), TILE_TABLE(gemm_strip)};
    shapes[tile->strips][tile->rows - 1][gemm_vectors_of(tile) - 1](tile);
}

#endif
