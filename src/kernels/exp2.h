/* 2^x for x <= 0, the only exponential of the library.
 *
 * x = n + f with n = rint(x), |f| <= 1/2; 2^f by a polynomial of degree 6 with constant term 1, fitted for the least relative
 * error after rounding: at most 0.96 ULP over [-126, 0] (`make check-exp` sweeps all of them; degree 5: 2.04 ULP).  SLEEF's exp2f
 * in its place takes twice the cycles, which is 5 to 10 % of attention. */
#ifndef HEED_KERNELS_EXP2_H
#define HEED_KERNELS_EXP2_H

/* Of the polynomial, from degree 6 down, times VF_EXP2_UNIT. */
static const float exp2_coefficients[] = {VF_EXP2_UNIT * 0x1.41fbbap-13f,
                                          VF_EXP2_UNIT * 0x1.5f3e54p-10f,
                                          VF_EXP2_UNIT * 0x1.3b2d4cp-7f,
                                          VF_EXP2_UNIT * 0x1.c6aee8p-5f,
                                          VF_EXP2_UNIT * 0x1.ebfbdcp-3f,
                                          VF_EXP2_UNIT * 0x1.62e430p-1f,
                                          VF_EXP2_UNIT};

/* 2^f * VF_EXP2_UNIT for |f| <= 1/2, given the coefficients.  No loop: as gcc 12 unrolls it, a softmax of one vector after
 * the other took 1.02 times as long (AVX2, llvm-mca). */
INLINE vf exp2_fraction(const float *coefficients, vf f) {
    vf r = v_set1(coefficients[0]);
    r = v_fma(r, f, v_set1(coefficients[1]));
    r = v_fma(r, f, v_set1(coefficients[2]));
    r = v_fma(r, f, v_set1(coefficients[3]));
    r = v_fma(r, f, v_set1(coefficients[4]));
    r = v_fma(r, f, v_set1(coefficients[5]));
    return v_fma(r, f, v_set1(coefficients[6]));
}

INLINE vf exp2_of(vf x) {
    vf power;
    const vf f = v_exp2_split(x, &power);
    return v_exp2_scale(exp2_fraction(exp2_coefficients, f), power, x);
}

/* The same between v_flush_begin and v_flush_end. */
INLINE vf exp2_flush(vf x) {
    vf power;
    const vf f = v_exp2_split(x, &power);
    return v_exp2_scale_flush(exp2_fraction(exp2_coefficients, f), power, x);
}

/* What scores are counted from, given their maximum: where all are -inf, -inf - 0 gives weights of 0; -inf - -inf would give NaN.
 */
INLINE float exp_base(float max) { return max == -INFINITY ? 0.0f : max; }

/* Either of them where few registers are free: coefficients come from memory every time. */
INLINE vf exp2_lean(const bool flush, vf x) {
    const float *coefficients = exp2_coefficients;
    __asm__ volatile("" : "+r"(coefficients)); /* volatile: each time another pointer, or they are kept after all, on the stack */
    vf power;
    const vf f = v_exp2_split(x, &power), r = exp2_fraction(coefficients, f);
    return flush ? v_exp2_scale_flush(r, power, x) : v_exp2_scale(r, power, x);
}

enum { EXP2_COEFFICIENTS = sizeof exp2_coefficients / sizeof *exp2_coefficients, EXP_ABREAST = VF_LANES > 1 ? 4 : 1 };

/* 2^x of EXP_ABREAST vectors, step by step side by side: those that wait for their next step take places from those
 * that could begin (Zen 4 has 64 of them, an exponential 16 steps).  lean: as above. */
INLINE void exp2_abreast(const bool lean, vf x[EXP_ABREAST]) {
    vf f[EXP_ABREAST], power[EXP_ABREAST], r[EXP_ABREAST];
    const float *coefficients = exp2_coefficients;
    if (lean)
        __asm__ volatile("" : "+r"(coefficients));
    UNROLL for (int i = 0; i < EXP_ABREAST; i++) f[i] = v_exp2_split(x[i], &power[i]);
    UNROLL for (int i = 0; i < EXP_ABREAST; i++) r[i] = v_set1(coefficients[0]);
    UNROLL for (int k = 1; k < EXP2_COEFFICIENTS; k++) UNROLL for (int i = 0; i < EXP_ABREAST; i++) r[i] =
        v_fma(r[i], f[i], v_set1(coefficients[k]));
    UNROLL for (int i = 0; i < EXP_ABREAST; i++) x[i] = v_exp2_scale(r[i], power[i], x[i]);
}

/* Times 16 exponentials in one turn of a loop: with one, a chunk's row of 256 takes 5 cycles longer (AVX-512); where 16 are four
 * vectors already (NEON), more of them spill. */
enum { EXP_TIMES = VF_LANES >= 8 ? 4 : 1 };

#endif
