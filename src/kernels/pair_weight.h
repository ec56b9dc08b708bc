/* Weights rounded to bf16 while they are floats, where products of pairs are made of floats. */
#ifndef HEED_KERNELS_PAIR_WEIGHT_H
#define HEED_KERNELS_PAIR_WEIGHT_H

/* Added to 1.5 * 2^16 times their leading bit, numbers have no bits left but the 8 of bf16.  The same as rounding bits, in
 * 3 operations for 5. */
INLINE vf pair_weight(vf p) {
    const vf power = v_power(p);
    return v_fma(power, v_set1(-0x1.8p16f), v_fma(power, v_set1(0x1.8p16f), p));
}

#endif
