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

INLINE void value_tile_body(const int rows, const int vectors, const struct heed_value_tile *tile) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    /* All rows see the keys from the last row's first to the first row's last, if they have any in common. */
    const int any_begin = tile->begins[0], any_end = tile->ends[rows - 1];
    const bool common = tile->begins[rows - 1] < tile->ends[0];
    const int all_begin = common ? tile->begins[rows - 1] : any_end, all_end = common ? tile->ends[0] : any_end;
    tile_zero(rows, vectors, acc);
    const float *const *piece = tile->values;
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
