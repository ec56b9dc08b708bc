/* value_tile: the weights of one chunk times its values, merged into the running output.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_VALUE_TILE_H
#define HEED_KERNELS_VALUE_TILE_H

/* Keys that some rows of a tile see: a row must not touch a value that it does not see, for 0 * NaN is NaN. */
INLINE void value_edge(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const struct heed_value_tile *tile,
                       const float *piece, int start, int from, int to) {
    NO_UNROLL for (int j = from; j < to; j++) {
        const float *value = piece + (j - start) * tile->ldv;
        UNROLL for (int i = 0; i < rows; i++) {
            if (j < tile->begins[i] || j >= tile->ends[i])
                continue;
            const vf weight = v_set1(tile->p[i * HEED_CHUNK + j]);
            UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_fma(weight, v_load(value + v * VF_LANES), acc[i][v]);
        }
    }
}

/* Which keys any row of a tile sees, and, in their midst, which all rows see. */
struct value_keys {
    int any_begin, all_begin, all_end, any_end;
};

INLINE struct value_keys value_tile_keys(const int rows, const struct heed_value_tile *tile) {
    struct value_keys keys = {tile->begins[0], tile->begins[0], tile->ends[0], tile->ends[0]};
    UNROLL for (int i = 1; i < rows; i++) {
        const int begin = tile->begins[i], end = tile->ends[i];
        keys.any_begin = begin < keys.any_begin ? begin : keys.any_begin;
        keys.all_begin = begin > keys.all_begin ? begin : keys.all_begin;
        keys.all_end = end < keys.all_end ? end : keys.all_end;
        keys.any_end = end > keys.any_end ? end : keys.any_end;
    }
    if (keys.all_begin >= keys.all_end)
        keys.all_begin = keys.all_end = keys.any_end;
    return keys;
}

INLINE void value_tile_body(const int rows, const int vectors, const struct heed_value_tile *tile) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const struct value_keys keys = value_tile_keys(rows, tile);
    tile_zero(rows, vectors, acc);
    const float *const *values = tile->values;
    NO_UNROLL for (int start = 0; start < keys.any_end; start += tile->piece_keys, values++) {
        const int stop = start + tile->piece_keys;
        const int from = keys.all_begin > start ? keys.all_begin : start, to = keys.all_end < stop ? keys.all_end : stop;
        const int first = keys.any_begin > start ? keys.any_begin : start, last = keys.any_end < stop ? keys.any_end : stop;
        if (first >= last)
            continue;
        const float *piece = *values + tile->offset;
        value_edge(rows, vectors, acc, tile, piece, start, first, keys.all_begin < last ? keys.all_begin : last);
        if (from < to)
            tile_multiply(rows, vectors, acc, tile->p + from, HEED_CHUNK, piece + (from - start) * tile->ldv, tile->ldv, to - from);
        value_edge(rows, vectors, acc, tile, piece, start, keys.all_end > first ? keys.all_end : first, last);
    }
    if (!tile->keep_old) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
            v_store(tile->o + i * tile->ldo + v * VF_LANES, v_add(acc[i][v], v_zero()));
        return;
    }
    UNROLL for (int i = 0; i < rows; i++) {
        const vf keep_old = v_set1(tile->keep_old[i]), take_new = v_set1(tile->take_new[i]);
        UNROLL for (int v = 0; v < vectors; v++) {
            float *o = tile->o + i * tile->ldo + v * VF_LANES;
            v_store(o, v_fma(v_load(o), keep_old, v_mul(acc[i][v], take_new)));
        }
    }
}

TILE_SHAPES(value_tile)

static void value_tile(const struct heed_value_tile *tile) {
    static void (*const shapes[6][4])(const struct heed_value_tile *) = TILE_TABLE(value_tile);
    shapes[tile->rows - 1][(tile->columns - 1) / VF_LANES](tile);
}

#endif
