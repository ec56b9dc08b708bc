/* value_rows: the weights of one chunk times its values, tile by tile, merged into the running output.  Contract in src/kernels.h.
 */
#ifndef HEED_KERNELS_VALUE_ROWS_H
#define HEED_KERNELS_VALUE_ROWS_H

/* Rows and columns of one tile, as bodies see them. */
struct value_tile {
    const struct heed_value_rows *all;
    const int *begins, *ends;
    const float *p;
    int64_t ldv, offset;
    float *o;
};

INLINE struct value_tile value_tile_at(const struct heed_value_rows *all, int row, int64_t column) {
    return (struct value_tile){.all = all,
                               .begins = all->begins + row,
                               .ends = all->ends + row,
                               .p = all->p + row * HEED_CHUNK,
                               .ldv = all->ldv,
                               .offset = column / HEED_PANEL * all->panel + column % HEED_PANEL,
                               .o = all->o + row * all->ldo + column};
}

/* Keys [from, to), of which a row sees those before its end, and from its begin on if `begins`: a row must not touch a value that
 * it does not see, for 0 * NaN is NaN. */
INLINE void value_edge(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct value_tile *tile,
                       const bool begins, const float *value, int from, int to) {
    NO_UNROLL for (int j = from; j < to; j++) {
        UNROLL for (int i = 0; i < rows; i++) {
            if (j >= tile->ends[i] || (begins && j < tile->begins[i]))
                continue;
            const vf weight = v_set1(tile->p[i * HEED_CHUNK + j]);
            UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
                v_fma(weight, v_load(value + j * tile->ldv + v * VF_LANES), acc[i][v]);
        }
    }
}

/* o = fma(o, keep_old, chain * take_new), or the chain alone. */
INLINE void value_merge(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct value_tile *tile,
                        int row) {
    const struct heed_value_rows *all = tile->all;
    UNROLL for (int i = 0; i < rows; i++) {
        float *o = tile->o + i * all->ldo;
        if (!all->keep_old) {
            UNROLL for (int v = 0; v < vectors; v++) v_store(o + v * VF_LANES, v_add(acc[i][v], v_zero()));
            continue;
        }
        const vf keep_old = v_set1(all->keep_old[row + i]), take_new = v_set1(all->take_new[row + i]);
        UNROLL for (int v = 0; v < vectors; v++)
            v_store(o + v * VF_LANES, v_fma(v_load(o + v * VF_LANES), keep_old, v_mul(acc[i][v], take_new)));
    }
}

/* Values in one piece, of which all rows see the first: on the diagonal of a causal mask, some rows end before others. */
INLINE void value_prefix_body(const int rows, const int vectors, const struct heed_value_rows *all, int row, int64_t column) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const struct value_tile tile = value_tile_at(all, row, column);
    const float *value = *all->values + tile.offset;
    tile_zero(rows, vectors, acc);
    tile_multiply(rows, vectors, acc, tile.p, HEED_CHUNK, value, tile.ldv, tile.ends[0]);
    value_edge(rows, vectors, acc, &tile, false, value, tile.ends[0], tile.ends[rows - 1]);
    value_merge(rows, vectors, acc, &tile, row);
}

/* Values in any pieces, rows that begin one after another too. */
INLINE void value_pieces_body(const int rows, const int vectors, const struct heed_value_rows *all, int row, int64_t column) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const struct value_tile tile = value_tile_at(all, row, column);
    /* All rows see the keys from the last row's first to the first row's last, if they have any in common. */
    const int any_begin = tile.begins[0], any_end = tile.ends[rows - 1];
    const bool common = tile.begins[rows - 1] < tile.ends[0];
    const int all_begin = common ? tile.begins[rows - 1] : any_end, all_end = common ? tile.ends[0] : any_end;
    const float *const *piece = all->values;
    tile_zero(rows, vectors, acc);
    NO_UNROLL for (int start = 0; start < any_end; start += all->piece_keys, piece++) {
        const int stop = start + all->piece_keys;
        if (stop <= any_begin)
            continue;
        const float *value = *piece + tile.offset - start * tile.ldv;
        value_edge(rows, vectors, acc, &tile, true, value, larger(any_begin, start), smaller(all_begin, smaller(any_end, stop)));
        const int from = larger(all_begin, start), to = smaller(all_end, stop);
        if (from < to)
            tile_multiply(rows, vectors, acc, tile.p + from, HEED_CHUNK, value + from * tile.ldv, tile.ldv, to - from);
        value_edge(rows, vectors, acc, &tile, false, value, larger(all_end, start), smaller(any_end, stop));
    }
    value_merge(rows, vectors, acc, &tile, row);
}

/* Whole tiles side by side, up to column `end`, of rows that see the same values, the first of one piece: what value_prefix does,
 * in a loop of its own for the reasons of score_whole_tiles. */
NOINLINE void value_whole_tiles(const struct heed_value_rows *all, int row, int64_t end) {
    NO_UNROLL for (int64_t column = 0; column < end; column += TILE_COLUMNS) {
        vf acc[TILE_ROWS][TILE_VECTORS];
        const struct value_tile tile = value_tile_at(all, row, column);
        tile_zero(TILE_ROWS, TILE_VECTORS, acc);
        tile_multiply(TILE_ROWS, TILE_VECTORS, acc, tile.p, HEED_CHUNK, *all->values + tile.offset, tile.ldv, tile.ends[0]);
        value_merge(TILE_ROWS, TILE_VECTORS, acc, &tile, row);
    }
}

TILE_SHAPES(value_prefix, (const struct heed_value_rows *all, int row, int64_t column), all, row, column)
TILE_SHAPES(value_pieces, (const struct heed_value_rows *all, int row, int64_t column), all, row, column)

typedef void value_shape(const struct heed_value_rows *all, int row, int64_t column);

/* By rows, whose weights stay in L1 while all columns use them. */
static void value_rows(const struct heed_value_rows *all) {
    static value_shape *const prefix[6][4] = TILE_TABLE(value_prefix), *const pieces[6][4] = TILE_TABLE(value_pieces);
    for (int row = 0; row < all->rows; row += TILE_ROWS) {
        const int rows = smaller(TILE_ROWS, all->rows - row);
        const int begin = all->begins[row + rows - 1], end = all->ends[row + rows - 1];
        if (all->begins[row] >= end && all->keep_old)
            continue;
        const bool is_prefix = begin == 0 && end > 0 && end <= all->piece_keys;
        value_shape *const *shapes = is_prefix ? prefix[rows - 1] : pieces[rows - 1];
        int64_t column = 0;
        if (is_prefix && rows == TILE_ROWS && all->ends[row] == end) {
            column = all->columns - all->columns % TILE_COLUMNS;
            value_whole_tiles(all, row, column);
        }
        for (; column < all->columns; column += TILE_COLUMNS)
            shapes[(min_i64(TILE_COLUMNS, all->columns - column) - 1) / VF_LANES](all, row, column);
    }
}

#endif
