/* Rows become columns: VF_LANES of them at a time, transposed in registers.
 *
 * Two elements of bf16 are transposed as one word, and become floats after that: half of the shuffles, for which x86 has one port.
 * From rows in memory, decoding takes 0.92 of the time so, and one row times 4096 x 4096 transposed ones 0.9. */
#ifndef HEED_KERNELS_TRANSPOSE_H
#define HEED_KERNELS_TRANSPOSE_H

/* How many elements of each row are transposed at once; of the last ones, less may be there. */
INLINE int transpose_step(const enum heed_type type, int64_t left) {
    return type == HEED_BF16 && left >= 2 * VF_LANES ? 2 * VF_LANES : VF_LANES;
}

/* r[i]: the i-th words of rows [first, rows), +0 of others. */
INLINE void transpose_words(const void *from, int64_t ld, const int first, const int rows, vf r[VF_LANES]) {
    const void *at = from;
    UNROLL for (int i = 0; i < VF_LANES; i++) {
        if (i % 4 == 0 && i > 0) {
            at = type_at(HEED_BF16, at, 4 * ld);
            PIN(at);
        }
        r[i] = i >= first && i < rows ? v_of_bits(v_load_int(type_at(HEED_BF16, at, i % 4 * ld))) : v_zero();
    }
    v_transpose(r);
}

/* r[i]: the i-th elements; +0 from `depth` on. */
INLINE void transpose_elements(const enum heed_type type, const void *from, int64_t ld, const int first, const int rows,
                               const int64_t depth, vf r[VF_LANES]) {
    const void *at = from;
    UNROLL for (int i = 0; i < VF_LANES; i++) {
        if (i % 4 == 0 && i > 0) {
            at = type_at(type, at, 4 * ld);
            PIN(at);
        }
        r[i] = i >= first && i < rows ? load_type_n(type, type_at(type, at, i % 4 * ld), depth) : v_zero();
    }
    v_transpose(r);
}

/* r[i]: the i-th of VF_PIECE floats, or words of bf16, of all rows. */
INLINE void transpose_piece(const enum heed_type type, const void *from, int64_t ld, vf r[VF_PIECE]) {
    enum { PIECES = VF_LANES / VF_PIECE };
    const int64_t row = type_span(type, ld);
    const char *at[PIECES];
    UNROLL for (int j = 0; j < PIECES; j++) {
        at[j] = (const char *)from + j * VF_PIECE * row;
        PIN(at[j]);
    }
    UNROLL for (int i = 0; i < VF_PIECE; i++) {
        const char *p[PIECES];
        UNROLL for (int j = 0; j < PIECES; j++) p[j] = at[j] + i * row;
        r[i] = v_load_pieces(p, PIECES);
    }
    v_transpose_pieces(r);
}

/* to[p * to_ld + i] = element p of row i, for rows [first, rows) and p < transpose_step(type, left), left; +0 for other rows. */
INLINE void transpose(const enum heed_type type, const void *from, int64_t ld, const int first, const int rows, int64_t left,
                      float *to, int64_t to_ld) {
    vf r[VF_LANES];
    if (transpose_step(type, left) > VF_LANES) {
        transpose_words(from, ld, first, rows, r);
        UNROLL for (int i = 0; i < VF_LANES; i++) UNROLL for (int odd = 0; odd < 2; odd++)
            v_store(to + (2 * i + odd) * to_ld, v_bf16(v_bits(r[i]), odd));
    } else if (left >= VF_LANES) {
        transpose_elements(type, from, ld, first, rows, VF_LANES, r);
        UNROLL for (int i = 0; i < VF_LANES; i++) v_store(to + i * to_ld, r[i]);
    } else {
        transpose_elements(type, from, ld, first, rows, left, r);
        UNROLL for (int i = 0; i < VF_LANES; i++) if (i < left) v_store(to + i * to_ld, r[i]);
    }
}

#endif
