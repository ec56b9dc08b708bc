/* Rows become columns: VF_LANES of them at a time, transposed in registers.
 *
 * Two elements of bf16 are transposed as one word, and become floats after that: half of the shuffles, for which x86 has one port.
 * From rows in memory, decoding takes 0.92 of the time so, and one row times 4096 x 4096 transposed ones 0.9. */
#ifndef HEED_KERNELS_TURN_H
#define HEED_KERNELS_TURN_H

/* How many elements of each row are turned at once; of the last ones, less may be there. */
INLINE int turn_step(const enum heed_type type, int64_t left) {
    return type == HEED_BF16 && left >= 2 * VF_LANES ? 2 * VF_LANES : VF_LANES;
}

INLINE void turn_words(const void *from, int64_t ld, const int first, const int rows, float *to, int64_t to_ld) {
    vf r[VF_LANES];
    UNROLL for (int i = 0; i < VF_LANES; i++) r[i] =
        i >= first && i < rows ? v_of_bits(v_load_int(type_at(HEED_BF16, from, i * ld))) : v_zero();
    v_transpose(r);
    UNROLL for (int i = 0; i < VF_LANES; i++) {
        v_store(to + 2 * i * to_ld, v_bf16(v_bits(r[i]), 0));
        v_store(to + (2 * i + 1) * to_ld, v_bf16(v_bits(r[i]), 1));
    }
}

INLINE void turn_elements(const enum heed_type type, const void *from, int64_t ld, const int first, const int rows,
                          const int64_t depth, float *to, int64_t to_ld) {
    vf r[VF_LANES];
    UNROLL for (int i = 0; i < VF_LANES; i++) r[i] =
        i >= first && i < rows ? load_type_n(type, type_at(type, from, i * ld), depth) : v_zero();
    v_transpose(r);
    UNROLL for (int i = 0; i < VF_LANES; i++) if (i < depth) v_store(to + i * to_ld, r[i]);
}

/* to[p * to_ld + i] = element p of row i, for rows [first, rows) and p < turn_step(type, left), left; +0 for other rows. */
INLINE void turn(const enum heed_type type, const void *from, int64_t ld, const int first, const int rows, int64_t left, float *to,
                 int64_t to_ld) {
    if (turn_step(type, left) > VF_LANES)
        turn_words(from, ld, first, rows, to, to_ld);
    else if (left >= VF_LANES)
        turn_elements(type, from, ld, first, rows, VF_LANES, to, to_ld);
    else
        turn_elements(type, from, ld, first, rows, left, to, to_ld);
}

#endif
