/* The fifth bits of q5_0.
 *
 * As it is, a block has them in a word of its own, bit i for element i.  The elements whose lower bits a word has, 4 w to 4 w + 3
 * of a half, need theirs in its bytes.  So in a panel, of a half h, bit 8 b + 4 (w % 2) + 2 h + w / 2 is that of element 4 w + b:
 * of all orders with b above, the one that takes two exchanges to make. */
#ifndef HEED_KERNELS_Q5_WORDS_H
#define HEED_KERNELS_Q5_WORDS_H

INLINE vi q5_spread(vi bits) { return v_swap_bits(v_swap_bits(bits, 14, 0x0000cccc), 7, 0x00aa00aa); }

/* Of one column. */
INLINE void q5_spread_column(const char *from, char *to) {
    uint32_t bits, spread = 0;
    memcpy(&bits, from, sizeof bits);
    for (unsigned i = 0; i < TYPE_BLOCK; i++)
        spread |= (bits >> i & 1) << (i % 4 * 8 + i / 4 % 2 * 4 + i / 16 * 2 + i / 8 % 2);
    memcpy(to, &spread, sizeof spread);
}

/* Elements 4 w to 4 w + 3 of a half, plus 16, in bytes; `high` is spread. */
INLINE vi q5_numbers(vi low, vi high, const int half, int w) {
    const int from = w % 2 * 4 + half * 2 + w / 2;
    return v_join_bits(half ? v_high4(low) : v_low4(low), v_shift(high, 4 - from), 16);
}

#endif
