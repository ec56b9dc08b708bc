/* value_tile: the weights of one chunk times its values, merged into the running output.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_VALUE_TILE_H
#define HEED_KERNELS_VALUE_TILE_H

/* Keys [from, to), of which a row sees those before its end, and from its begin on if it has `begins`: a row must not touch a value
 * that it does not see, for 0 * NaN is NaN. */
INLINE void value_edge(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct heed_value_tile *tile,
                       const int *begins, const float *value, int from, int to) {
    NO_UNROLL for (int j = from; j < to; j++) {
        UNROLL for (int i = 0; i < rows; i++) {
            if (j >= tile->ends[i] || (begins && j < begins[i]))
                continue;
            const vf weight = v_set1(tile->p[i * HEED_CHUNK + j]);
            UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
                v_fma(weight, v_load(value + j * tile->ldv + v * VF_LANES), acc[i][v]);
        }
    }
}

/* o = fma(o, keep_old, chain * take_new), or the chain alone. */
INLINE void value_merge(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct heed_value_tile *tile) {
    UNROLL for (int i = 0; i < rows; i++) {
        float *o = tile->o + i * tile->ldo;
        if (!tile->keep_old) {
            UNROLL for (int v = 0; v < vectors; v++) v_store(o + v * VF_LANES, v_add(acc[i][v], v_zero()));
            continue;
        }
        const vf keep_old = v_set1(tile->keep_old[i]), take_new = v_set1(tile->take_new[i]);
        UNROLL for (int v = 0; v < vectors; v++)
            v_store(o + v * VF_LANES, v_fma(v_load(o + v * VF_LANES), keep_old, v_mul(acc[i][v], take_new)));
    }
}

/* Values in one piece, of which all rows see the first: on the diagonal of a causal mask, some rows end before others. */
INLINE void value_prefix_body(const int rows, const int vectors, const struct heed_value_tile *tile) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const float *value = *tile->values + tile->offset;
    tile_zero(rows, vectors, acc);
    tile_multiply(rows, vectors, acc, tile->p, HEED_CHUNK, value, tile->ldv, tile->ends[0]);
    value_edge(rows, vectors, acc, tile, NULL, value, tile->ends[0], tile->ends[rows - 1]);
    value_merge(rows, vectors, acc, tile);
}

/* Values in any pieces, rows that begin one after another too. */
INLINE void value_pieces_body(const int rows, const int vectors, const struct heed_value_tile *tile) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    /* All rows see the keys from the last row's first to the first row's last, if they have any in common. */
    const int any_begin = tile->begins[0], any_end = tile->ends[rows - 1];
    const bool common = tile->begins[rows - 1] < tile->ends[0];
    const int all_begin = common ? tile->begins[rows - 1] : any_end, all_end = common ? tile->ends[0] : any_end;
    const float *const *piece = tile->values;
    tile_zero(rows, vectors, acc);
    NO_UNROLL for (int start = 0; start < any_end; start += tile->piece_keys, piece++) {
        const int stop = start + tile->piece_keys;
        if (stop <= any_begin)
            continue;
        const float *value = *piece + tile->offset - start * tile->ldv;
        value_edge(rows, vectors, acc, tile, tile->begins, value, larger(any_begin, start),
                   smaller(all_begin, smaller(any_end, stop)));
        const int from = larger(all_begin, start), to = smaller(all_end, stop);
        if (from < to)
            tile_multiply(rows, vectors, acc, tile->p + from, HEED_CHUNK, value + from * tile->ldv, tile->ldv, to - from);
        value_edge(rows, vectors, acc, tile, NULL, value, larger(all_end, start), smaller(any_end, stop));
    }
    value_merge(rows, vectors, acc, tile);
}

TILE_SHAPES(value_tile, value_prefix)
TILE_SHAPES(value_tile, value_pieces)

static void value_tile(const struct heed_value_tile *tile) {
    static void (*const prefix[6][4])(const struct heed_value_tile *) = TILE_TABLE(value_prefix);
    static void (*const pieces[6][4])(const struct heed_value_tile *) = TILE_TABLE(value_pieces);
    const int begin = tile->begins[tile->rows - 1], end = tile->ends[tile->rows - 1];
    const bool is_prefix = begin == 0 && end > 0 && end <= tile->piece_keys;
    const int rows = tile->rows - 1, vectors = (tile->columns - 1) / VF_LANES;
    (is_prefix ? prefix[rows][vectors] : pieces[rows][vectors])(tile);
}

#endif
