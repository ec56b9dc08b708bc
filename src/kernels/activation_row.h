/* Activation of one row.  Contract in src/contracts/rows.h, formulas in heed.h.
 *
 * GELU, in both forms, and SiLU are x times something from 0 to 1, computed so that nothing cancels: they are right where they are
 * nearly 0 too, while 1 + erf(x) and 1 + tanh(x) have no digits left for x below -3.  All is made of exp2: SLEEF's erfcf in its
 * place takes 12 cycles an element, and has other bits on CPUs without FMA. */
#ifndef HEED_KERNELS_ACTIVATION_ROW_H
#define HEED_KERNELS_ACTIVATION_ROW_H

/* exp(factor * (x + x_rest)) for a factor that is a power of two, a product with x from -100 to 0, and an x_rest of a rounding of
 * x, off by 2 ULP at most.  What rounding takes from x log2(e) is a factor exp2(rest), and |rest| is below 2^-15. */
INLINE vf exp_below_1(vf x, vf x_rest, const float factor) {
    const vf log2e = v_set1(factor * 0x1.715476p+0f), log2e_rest = v_set1(factor * 0x1.4ae0cp-26f), ln2 = v_set1(0x1.62e43p-1f);
    const vf z = v_mul(x, log2e), e = exp2_of(z);
    const vf rest = v_fma(x_rest, log2e, v_fma(x, log2e_rest, v_fma(x, log2e, v_negate(z))));
    return v_fma(v_mul(rest, ln2), e, e);
}

/* -min(|x|, most) */
INLINE vf minus_size(vf x, float most) { return v_max(v_set1(-most), v_minus_size(x)); }

/* x / (1 + exp(-y)), y having the sign of x: for negative ones x exp(y) / (1 + exp(y)). */
INLINE vf times_logistic(vf x, vf y) {
    const vf e = exp_below_1(minus_size(y, 100.0f), v_zero(), 1.0f), positive = v_positive(x);
    const vf negative = v_max(v_negate(v_positive(v_negate(x))), v_set1(-0x1.fffffep127f));
    return v_div(v_fma(negative, e, positive), v_add(v_set1(1.0f), e));
}

/* max(x, 0) - |x| P(-|x|), P(-a) = exp(-a^2 / 2) r(a) being the normal distribution.  r, which is erfcx(a / sqrt(2)) / 2, is a
 * polynomial in q = (a - 3) / (a + 3) (Shepherd and Laframboise 1981 for erfcx), fitted for the least relative error where
 * exp2 does not end, below a = 13.2: 2^-25 with coefficients rounded to floats. */
INLINE vf times_normal(vf x) {
    const vf minus_a = minus_size(x, 14.0f), square = v_mul(minus_a, minus_a), three = v_set1(3.0f);
    const vf e = exp_below_1(square, v_fma(minus_a, minus_a, v_negate(square)), -0.5f);
    const vf q = v_div(v_add(minus_a, three), v_sub(minus_a, three));
    vf r = v_set1(0x1.c6401cp-15f);
    r = v_fma(r, q, v_set1(0x1.e6b236p-14f));
    r = v_fma(r, q, v_set1(-0x1.646c42p-12f));
    r = v_fma(r, q, v_set1(-0x1.01ff64p-10f));
    r = v_fma(r, q, v_set1(0x1.7cb9a6p-9f));
    r = v_fma(r, q, v_set1(0x1.91e0f6p-8f));
    r = v_fma(r, q, v_set1(-0x1.7a9458p-5f));
    r = v_fma(r, q, v_set1(0x1.f8baccp-4f));
    r = v_fma(r, q, v_set1(-0x1.a6b66ap-3f));
    r = v_fma(r, q, v_set1(0x1.f1b89cp-4f));
    return v_fma(minus_a, v_mul(e, r), v_positive(x));
}

INLINE vf activate(const enum heed_activation activation, vf x) {
    switch (activation) {
    case HEED_RELU:
        return v_positive(x);
    case HEED_GELU:
        return times_normal(x);
    case HEED_GELU_TANH: /* 1 + tanh(y) = 2 / (1 + exp(-2 y)) */
        return times_logistic(x, v_mul(x, v_fma(v_mul(x, x), v_set1(0x1.2444f2p-4f), v_set1(0x1.988454p+0f))));
    case HEED_SILU:
        return times_logistic(x, x);
    default:
        return x;
    }
}

/* n elements from i on: all of a vector or, if `tail`, fewer.  floats: all are floats, which is known to the compiler then. */
INLINE void activation_store(const enum heed_activation activation, const bool floats, const bool tail,
                             const struct heed_activation_row *row, int64_t i) {
    const int64_t n = tail ? row->n - i : VF_LANES;
    vf x = load_source(floats, &row->input, i, n);
    if (row->bias)
        x = v_add(x, v_load_n(row->bias + i, n));
    x = activate(activation, x);
    if (row->gate.data)
        x = v_mul(x, load_source(floats, &row->gate, i, n));
    if (row->residual.data)
        x = v_add(x, load_source(floats, &row->residual, i, n));
    store_target(floats, &row->y, i, v_one_nan(x), n);
}

INLINE void activation_row_with(const enum heed_activation activation, const bool floats, const struct heed_activation_row *row) {
    int64_t i = 0;
    for (; i + VF_LANES <= row->n; i += VF_LANES)
        activation_store(activation, floats, false, row, i);
    if (i < row->n)
        activation_store(activation, floats, true, row, i);
}

INLINE void activation_row_of(const enum heed_activation activation, const struct heed_activation_row *row) {
    if (row->input.type == HEED_F32 && row->gate.type == HEED_F32 && row->residual.type == HEED_F32 && row->y.type == HEED_F32)
        activation_row_with(activation, true, row);
    else
        activation_row_with(activation, false, row);
}

static void activation_row(const struct heed_activation_row *row) {
    switch (row->activation) {
    case HEED_IDENTITY:
        activation_row_of(HEED_IDENTITY, row);
        break;
    case HEED_RELU:
        activation_row_of(HEED_RELU, row);
        break;
    case HEED_GELU:
        activation_row_of(HEED_GELU, row);
        break;
    case HEED_GELU_TANH:
        activation_row_of(HEED_GELU_TANH, row);
        break;
    case HEED_SILU:
        activation_row_of(HEED_SILU, row);
        break;
    }
}

#endif
