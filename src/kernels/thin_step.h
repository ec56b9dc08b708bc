/* What thin products do with a row of b: its elements become floats in registers, each vector once for all rows of a tile. */
#ifndef HEED_KERNELS_THIN_STEP_H
#define HEED_KERNELS_THIN_STEP_H

/* What b of any thin product is: rows, here of floats, or words, of which the first element comes first, or of pairs the second. */
enum thin_b { THIN_ROWS_OF_B, THIN_WORDS, THIN_PAIR_WORDS };

/* Columns of rows of bf16 become floats two vectors at a time, all even ones and all odd ones, in one operation each; sums are so,
 * too. */
INLINE bool thin_is_apart(const enum heed_type type, const int vectors, const int v) {
    return type == HEED_BF16 && (v | 1) < vectors;
}
/* `step`: of the two that a word has. */
INLINE void thin_load_columns(const enum heed_type type, const enum thin_b kind, const int step, const int vectors, const void *b,
                              vf column[]) {
    UNROLL for (int v = 0; v < vectors; v++) {
        if (kind != THIN_ROWS_OF_B)
            column[v] = v_pin(v_bf16(v_load_int(type_at(type, b, 2 * v * VF_LANES)), (kind == THIN_WORDS) == step));
        else if (thin_is_apart(type, vectors, v))
            column[v] = v_pin(v_bf16(v_load_int(type_at(type, b, v / 2 * 2 * VF_LANES)), v % 2));
        else
            column[v] = v_pin(load_type(type, type_at(type, b, v * VF_LANES)));
    }
}
INLINE void thin_load_sums(const enum heed_type type, const int vectors, const float *c, vf acc[]) {
    UNROLL for (int v = 0; v < vectors; v++) acc[v] = v_load(c + v * VF_LANES);
    UNROLL for (int v = 0; v < vectors; v += 2) if (thin_is_apart(type, vectors, v)) v_unzip(&acc[v], &acc[v + 1]);
}
INLINE void thin_store_sums(const enum heed_type type, const int vectors, vf acc[], float *c) {
    UNROLL for (int v = 0; v < vectors; v += 2) if (thin_is_apart(type, vectors, v)) v_zip(&acc[v], &acc[v + 1]);
    UNROLL for (int v = 0; v < vectors; v++) v_store(c + v * VF_LANES, acc[v]);
}

/* acc[i] = fma(a[i][p], b[p], acc[i]) for one p, `offset` floats behind where rows of a are. */
INLINE void thin_step(const enum heed_type type, const enum thin_b kind, const int step, const int offset, const int rows,
                      const int vectors, vf acc[][THIN_VECTORS], const struct tile_rows *a, const void *b) {
    vf column[THIN_VECTORS];
    thin_load_columns(type, kind, step, vectors, b, column);
    UNROLL for (int i = 0; i < rows; i++) {
        const vf row = v_load1(tile_row(a, i) + offset);
        UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_chain(acc[i][v], row, column[v]);
    }
}

#endif
