/* value_rows: the weights of one chunk times its values, tile by tile, merged into the running output.  Contract in
 * src/contracts/attention.h.
 */
#ifndef HEED_KERNELS_VALUE_ROWS_H
#define HEED_KERNELS_VALUE_ROWS_H

/* Rows and columns of one tile, as bodies see them. */
struct value_tile {
    const struct heed_value_rows *all;
    const int *begins, *ends;
    const float *p;
    int64_t ldv, column;
    float *o;
};

INLINE struct value_tile value_tile_at(const struct heed_value_rows *all, int row, int64_t column) {
    return (struct value_tile){.all = all,
                               .begins = all->begins + row,
                               .ends = all->ends + row,
                               .p = all->p + row * HEED_CHUNK,
                               .ldv = all->ldv,
                               .column = column,
                               .o = all->o + row * all->ldo + column};
}

/* A key, or its place: of pairs, the next whole one. */
INLINE int value_up(const struct heed_value_rows *all, int key) { return key + (key & (int)all->pairs); }
INLINE int value_down(const struct heed_value_rows *all, int key) { return key - (key & (int)all->pairs); }

/* The places [from, to), of whose keys a row sees those before its end, and from its begin on if `begins`: a row must not touch a
 * value that it does not see, for 0 * NaN is NaN. */
INLINE void value_edge(const int rows, const int vectors, vf acc[][TILE_VECTORS], const struct value_tile *tile, const bool begins,
                       const float *value, int from, int to) {
    NO_UNROLL for (int j = from; j < to; j++) {
        const int key = j ^ (int)tile->all->pairs;
        UNROLL for (int i = 0; i < rows; i++) {
            if (key >= tile->ends[i] || (begins && key < tile->begins[i]))
                continue;
            const vf weight = v_set1(tile->p[i * HEED_CHUNK + j]);
            UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
                v_fma(weight, v_load(value + j * tile->ldv + v * VF_LANES), acc[i][v]);
        }
    }
}

/* Merged into o, or the chain alone. */
INLINE void value_merge(const int rows, const int vectors, vf acc[][TILE_VECTORS], const struct value_tile *tile, int row) {
    const float *keep_old = tile->all->keep_old, *take_new = tile->all->take_new;
    const int64_t ldo = tile->all->ldo;
    if (keep_old) {
        tile_merge(rows, vectors, acc, tile->o, ldo, keep_old + row, take_new + row);
        return;
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(tile->o + i * ldo + v * VF_LANES, v_add(acc[i][v], v_zero()));
}

/* Values in one piece, of which all rows see the first: on the diagonal of a causal mask, some rows end before others. */
INLINE void value_prefix_body(const int rows, const int vectors, const struct heed_value_rows *all, int row, int64_t column) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const struct value_tile tile = value_tile_at(all, row, column);
    const float *value = (const float *)*all->values + tile.column;
    const int end = value_down(all, tile.ends[0]);
    tile_zero(rows, vectors, acc);
    tile_multiply(rows, vectors, acc, tile.p, HEED_CHUNK, value, tile.ldv, end);
    value_edge(rows, vectors, acc, &tile, false, value, end, value_up(all, tile.ends[rows - 1]));
    value_merge(rows, vectors, acc, &tile, row);
}

/* Values in any pieces, rows that begin one after another too. */
INLINE void value_pieces_body(const int rows, const int vectors, const struct heed_value_rows *all, int row, int64_t column) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const struct value_tile tile = value_tile_at(all, row, column);
    /* All rows see the keys from the last row's first to the first row's last, if they have any in common. */
    const int any_begin = value_down(all, tile.begins[0]), any_end = value_up(all, tile.ends[rows - 1]);
    const int last_begin = value_up(all, tile.begins[rows - 1]), first_end = value_down(all, tile.ends[0]);
    const bool common = last_begin < first_end;
    const int all_begin = common ? last_begin : any_end, all_end = common ? first_end : any_end;
    const void *const *piece = all->values;
    tile_zero(rows, vectors, acc);
    NO_UNROLL for (int start = 0; start < any_end; start += all->piece_keys, piece++) {
        const int stop = start + all->piece_keys;
        if (stop <= any_begin)
            continue;
        const float *value = (const float *)*piece + tile.column - start * tile.ldv;
        value_edge(rows, vectors, acc, &tile, true, value, larger(any_begin, start), smaller(all_begin, smaller(any_end, stop)));
        const int from = larger(all_begin, start), to = smaller(all_end, stop);
        if (from < to)
            tile_multiply(rows, vectors, acc, tile.p + from, HEED_CHUNK, value + from * tile.ldv, tile.ldv, to - from);
        value_edge(rows, vectors, acc, &tile, false, value, larger(all_end, start), smaller(any_end, stop));
    }
    value_merge(rows, vectors, acc, &tile, row);
}

/* The first turns of tile_multiply, with exponentials beside as far as there are any; how many. */
INLINE int64_t value_turns_beside(const int rows, const int vectors, vf acc[][TILE_VECTORS], struct tile_rows *a, struct tile_b *b,
                                  int64_t k, struct exp_beside *beside) {
    struct exp_place place = beside->place;
    const int64_t turns = min_i64(place.left, k / TILE_STEPS);
    NO_UNROLL for (int64_t turn = turns; turn > 0; turn--) {
        tile_turn(TILE_STEPS, TILE_B_ALONE, 1, rows, vectors, acc, a, b, NULL);
        exp_beside_step(false, beside, &place);
    }
    beside->place = place;
    return turns;
}

INLINE void value_multiply(const int rows, const int vectors, vf acc[][TILE_VECTORS], const struct value_tile *tile,
                           const float *values, int64_t k, struct exp_beside *beside) {
    struct tile_rows a;
    struct tile_b b = tile_b_begin(values, tile->ldv);
    tile_rows_begin(rows, &a, tile->p, HEED_CHUNK);
    if (EXP_BESIDE)
        k -= TILE_STEPS * value_turns_beside(rows, vectors, acc, &a, &b, k, beside);
    NO_UNROLL for (; k >= TILE_STEPS; k -= TILE_STEPS) tile_turn(TILE_STEPS, TILE_B_ALONE, 1, rows, vectors, acc, &a, &b, NULL);
    tile_last_steps(1, rows, vectors, acc, &a, &b, NULL, k);
}

/* Whole tiles of the rows [row, end) and columns [from, to), of rows that see the same values, the first of one piece: what
 * value_prefix does, in a loop of its own for the reasons of score_whole_tiles.  By rows, whose weights stay in L1 while all
 * columns use them; beside them those of the next rows are made, unless exp is NULL. */
INLINE void value_whole_body(const int rows, const int vectors, const struct heed_value_rows *all, int row, int end, int64_t from,
                             int64_t to, const struct heed_exp_rows *exp) {
    struct exp_beside beside = {.block = exp};
    int64_t column = from;
    NO_UNROLL while (row < end) {
        vf acc[TALL_ROWS][TILE_VECTORS];
        const struct value_tile tile = value_tile_at(all, row, column);
        if (EXP_BESIDE && exp && column == from)
            exp_beside_begin(&beside, row + rows, smaller(row + 2 * rows, all->rows));
        tile_zero(rows, vectors, acc);
        value_multiply(rows, vectors, acc, &tile, (const float *)*all->values + tile.column, tile.ends[0], &beside);
        value_merge(rows, vectors, acc, &tile, row);
        column += vectors * VF_LANES;
        if (column < to)
            continue;
        row += rows;
        column = from;
        if (EXP_BESIDE)
            exp_beside_end(false, &beside);
    }
}

TILE_SHAPES(value_prefix, (const struct heed_value_rows *all, int row, int64_t column), all, row, column)
TILE_SHAPES(value_pieces, (const struct heed_value_rows *all, int row, int64_t column), all, row, column)

/* Few vectors leave registers for twice the rows.  Six chains wait for their own latency: 9 vectors of AVX2, the last alone, 0.917
 * of the peak, now 0.970; 6 x 2 tiles of AVX-512 0.930, 12 x 2 0.960. */
#define VALUE_WHOLE_ROWS(vectors) ((vectors) <= TILE_VECTORS / 2 ? TALL_ROWS : TILE_ROWS)
#define VALUE_WHOLE(vectors)                                                                                                       \
    NOINLINE void value_whole_##vectors(const struct heed_value_rows *all, int row, int end, int64_t from, int64_t to,             \
                                        const struct heed_exp_rows *exp) {                                                         \
        if (vectors <= TILE_VECTORS)                                                                                               \
            value_whole_body(VALUE_WHOLE_ROWS(vectors), vectors <= TILE_VECTORS ? vectors : 1, all, row, end, from, to, exp);      \
    }
VALUE_WHOLE(1)
VALUE_WHOLE(2)
VALUE_WHOLE(3)
VALUE_WHOLE(4)

/* Whether these rows see the same values, the first of one piece. */
INLINE bool value_is_whole(const struct heed_value_rows *all, int row, int rows) {
    const int end = all->ends[row];
    return !(end & (int)all->pairs) && all->begins[row + rows - 1] == 0 && end > 0 && end <= all->piece_keys &&
           all->ends[row + rows - 1] == end;
}

/* All rows of the columns [from, to), in tiles of so many vectors. */
INLINE void value_columns(const struct heed_value_rows *all, int64_t from, int64_t to, int vectors,
                          const struct heed_exp_rows *exp) {
    typedef void value_shape(const struct heed_value_rows *all, int row, int64_t column);
    static value_shape *const prefix[6][4] = TILE_TABLE(value_prefix), *const pieces[6][4] = TILE_TABLE(value_pieces);
    static void (*const whole[4])(const struct heed_value_rows *all, int row, int end, int64_t from, int64_t to,
                                  const struct heed_exp_rows *exp) = {value_whole_1, value_whole_2, value_whole_3, value_whole_4};
    const int whole_rows = VALUE_WHOLE_ROWS(vectors);
    int row = 0;
    while (row < all->rows) {
        int stop = row;
        while (stop + whole_rows <= all->rows && value_is_whole(all, stop, whole_rows))
            stop += whole_rows;
        if (stop > row) {
            whole[vectors - 1](all, row, stop, from, to, exp);
            row = stop;
            continue;
        }
        const int rows = smaller(TILE_ROWS, all->rows - row), end = all->ends[row + rows - 1];
        const bool is_prefix = all->begins[row + rows - 1] == 0 && end > 0 && end <= all->piece_keys;
        value_shape *const shape = is_prefix ? prefix[rows - 1][vectors - 1] : pieces[rows - 1][vectors - 1];
        for (int64_t column = from; column < to && (all->begins[row] < end || !all->keep_old); column += vectors * VF_LANES)
            shape(all, row, column);
        row += rows;
    }
}

/* Vectors of the columns that are not in tiles as wide as they come: what is left, but not one vector where two tiles can share: 5
 * vectors as 4 + 1 take 0.877 of the peak, as 3 + 2 0.957. */
INLINE int value_vectors_left(int64_t vectors) {
    const int left = (int)(vectors % TILE_VECTORS);
    return left == 1 && vectors > 1 && TILE_VECTORS > 2 ? left + TILE_VECTORS : left;
}

INLINE int value_vectors_next(int left) { return left > TILE_VECTORS ? TILE_VECTORS - 1 : left; }

/* By columns, beside the first of them exponentials, unless exp is NULL. */
INLINE void value_rows_beside(const struct heed_value_rows *all, const struct heed_exp_rows *exp) {
    const int64_t vectors = (all->columns + VF_LANES - 1) / VF_LANES;
    int left = value_vectors_left(vectors);
    const int64_t wide = (vectors - left) * VF_LANES;
    if (wide > 0)
        value_columns(all, 0, wide, TILE_VECTORS, exp);
    for (int64_t column = wide, next; left > 0; left -= (int)next, column += next * VF_LANES) {
        next = value_vectors_next(left);
        value_columns(all, column, column + next * VF_LANES, (int)next, column > 0 ? NULL : exp);
    }
}

static void value_rows(const struct heed_value_rows *all) { value_rows_beside(all, NULL); }

/* Rows whose weights must be there before the products begin: all, unless all rows are in whole tiles or below one. */
INLINE int value_rows_first(const struct heed_value_rows *all) {
    const int64_t vectors = (all->columns + VF_LANES - 1) / VF_LANES;
    const int left = value_vectors_left(vectors);
    const int rows = VALUE_WHOLE_ROWS(vectors > left ? TILE_VECTORS : value_vectors_next(left));
    const bool beside =
        EXP_BESIDE && rows < all->rows && value_is_whole(all, 0, all->rows) && all->ends[0] % EXP_STEP == 0 && vectors > 0;
    return beside ? rows : all->rows;
}

static void softmax_values(const struct heed_softmax_values *all) {
    const int first = value_rows_first(&all->values);
    exp_maxima(&all->exp);
    exp_rows_before(&all->exp, first);
    merge_maxima(&all->merge);
    value_rows_beside(&all->values, first < all->exp.rows ? &all->exp : NULL);
    merge_sums(&all->merge);
}

#endif
