/* value_tile: the weights of one chunk times its values, merged into the running output.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_VALUE_TILE_H
#define HEED_KERNELS_VALUE_TILE_H

INLINE void value_tile_body(const int rows, const int vectors, const struct heed_value_tile *tile) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    int all = tile->counts[0], any = tile->counts[0]; /* keys that all rows see, that any row sees */
    UNROLL for (int i = 1; i < rows; i++) {
        all = tile->counts[i] < all ? tile->counts[i] : all;
        any = tile->counts[i] > any ? tile->counts[i] : any;
    }
    tile_zero(rows, vectors, acc);
    tile_multiply(rows, vectors, acc, tile->p, HEED_CHUNK, tile->values, tile->ldv, all);

    /* The causal diagonal: a row must not touch a value that it does not see, for 0 * NaN is NaN. */
    NO_UNROLL for (int j = all; j < any; j++) {
        const float *value = tile->values + j * tile->ldv;
        UNROLL for (int i = 0; i < rows; i++) {
            if (j >= tile->counts[i])
                continue;
            const vf weight = v_set1(tile->p[i * HEED_CHUNK + j]);
            UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_fma(weight, v_load(value + v * VF_LANES), acc[i][v]);
        }
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
