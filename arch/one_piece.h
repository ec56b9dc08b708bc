/* What vectors of one piece, which have no more than a block of bytes, have in common.  Included by their vocabulary, once they load
 * integers and elements of 16 bits. */
#ifndef HEED_ONE_PIECE_H
#define HEED_ONE_PIECE_H

INLINE vi v_load_blocks(const char *p, int64_t step) {
    (void)step;
    return v_load_int((const uint8_t *)p);
}
INLINE vh v_load_half_of_blocks(const char *const p[VF_PIECE], int64_t step) {
    (void)step;
    return v_load_half_at(p);
}
INLINE vf v_next_piece(vf x) { return x; }

#endif
