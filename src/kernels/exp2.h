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

/* Vectors whose exponentials are made side by side, at most.  Wide vectors have theirs beside products (kernels/exp_beside.h). */
enum { EXP_ABREAST = VF_LANES < HEED_LINE ? 4 : 1 };

INLINE void exp2_step(float coefficient, const int count, const vf *f, vf *r) {
    UNROLL for (int v = 0; v < count; v++) r[v] = v_fma(r[v], f[v], v_set1(coefficient));
}

/* x[v] = exp2(x[v]), step by step for all of them: one takes 40 cycles, all of its operations wait for one another, and a core has
 * no room for those of more than some four meanwhile, or two where its other thread is at work.  Of the time of one after the
 * other, a row of 256 scores then takes 0.7, else 1.0, and attention 0.95 to 1.0 (AVX2, Zen 3).  flush: between v_flush_begin and
 * v_flush_end.  No loop over coefficients: unrolled by gcc 12, softmax_row takes 1.02 times as long (AVX2, llvm-mca). */
INLINE void exp2_by(const float *coefficients, const bool flush, const int count, vf *x) {
    vf power[EXP_ABREAST], f[EXP_ABREAST], r[EXP_ABREAST];
    UNROLL for (int v = 0; v < count; v++) x[v] = flush ? v_exp2_bound_flush(x[v]) : x[v];
    UNROLL for (int v = 0; v < count; v++) f[v] = v_exp2_split(x[v], &power[v]);
    UNROLL for (int v = 0; v < count; v++) r[v] = v_set1(coefficients[0]);
    exp2_step(coefficients[1], count, f, r);
    exp2_step(coefficients[2], count, f, r);
    exp2_step(coefficients[3], count, f, r);
    exp2_step(coefficients[4], count, f, r);
    exp2_step(coefficients[5], count, f, r);
    exp2_step(coefficients[6], count, f, r);
    UNROLL for (int v = 0; v < count; v++) x[v] =
        flush ? v_exp2_scale_flush(r[v], power[v], x[v]) : v_exp2_scale(r[v], power[v], x[v]);
}

INLINE vf v_exp2(vf x) {
    exp2_by(exp2_coefficients, false, 1, &x);
    return x;
}

/* Between v_flush_begin and v_flush_end. */
INLINE void v_exp2_flush_abreast(const int count, vf *x) { exp2_by(exp2_coefficients, true, count, x); }
INLINE vf v_exp2_flush(vf x) {
    v_exp2_flush_abreast(1, &x);
    return x;
}

/* Where few registers are free: coefficients come from memory every time. */
INLINE vf v_exp2_lean(const bool flush, vf x) {
    const float *coefficients = exp2_coefficients;
    __asm__ volatile("" : "+r"(coefficients)); /* volatile: each time another pointer, or they are kept after all, on the stack */
    exp2_by(coefficients, flush, 1, &x);
    return x;
}

/* Times 16 exponentials in one turn of a loop: with one, a chunk's row of 256 takes 5 cycles longer (AVX-512); where 16 are four
 * vectors already (NEON), more of them spill. */
enum { EXP_TIMES = VF_LANES >= 8 ? 4 : 1 };

#endif
