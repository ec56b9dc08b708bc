/* How far a correct result may be from a printed number: half a unit of its last printed digit, plus what the rounding of the
 * inputs and float arithmetic can do to it.
 *
 * With u = 2^-24, terms in u^2 left out, and inputs known within e (half a unit of the digits in which the notebook prints them; 0
 * where they are exact):
 *
 *   Product sum_p a_p b_p of k terms: the chain of fma is off by at most k u sum|a b|, the inputs by e sum|b|.
 *
 *   Score s_j = scale sum_d q_d k_jd of D terms.  Inputs: scale sum_d e (|q_d| + |k_jd| + e).  Arithmetic: q is multiplied by
 *   scale * log2(e), off by at most 3 u (scale, factor, product), and the chain by D u: (D + 3) u scale sum_d |q_d k_jd|.
 *
 *   Numerator exp(s_j - m) of a weight: the error of m is common to all and cancels; the difference rounds once, u |s_j - m|; exp2
 *   is within 1 ULP <= 2 u.  With the score's error: within a factor of exp(+-t), t the largest of these sums over j.
 *
 *   Weight: numerator and sum are within exp(+-t) each; n additions, the reciprocal and the product round: the relative error is at
 *   most r = expm1(2 t) + (n + 2) u.  heed_softmax on exact scores has less.
 *
 *   Output sum_j w_j v_j: (r + (n + 2) u) sum_j w_j |v_j| from weights, chain and its end, and e of the values, of which a weighted
 *   mean passes on at most one. */
#ifndef HEED_EXAMPLES_SEED_BOUNDS_H
#define HEED_EXAMPLES_SEED_BOUNDS_H

#include "seeds.h"

/* One head of self-attention: matrices of tokens x width, one after another. */
struct seed_attention {
    int tokens, width;
    float scale; /* 0: 1/sqrt(width) */
    const float *query, *key, *value;
    double score_error; /* e of query and key */
    double value_error; /* e of value */
};

/* A matrix as a notebook prints it: `decimals` digits after the point, of the number or, if scientific, of its mantissa. */
struct seed_print {
    int rows, columns;
    const double *numbers;
    int decimals; /* SEED_EXACT: these numbers are meant exactly */
    bool scientific;
};
enum { SEED_EXACT = -1 };

/* Adds a check to the result.  bounds: of the arithmetic, to which half a unit of the last printed digit is added; NULL: none. */
void seed_compare(struct seed_result *result, const char *name, const float *computed, const struct seed_print *print,
                  const double *bounds);
void seed_claim(struct seed_result *result, const char *text, bool holds);

/* bounds[m x n] of a product of a (m x k, known within e) and b (k x n). */
void seed_bound_product(int m, int n, int k, const float *a, double e, const float *b, double *bounds);
/* weights[tokens x tokens] and output[tokens x width] by plain loops in double, and the bounds of heed's. */
void seed_reference(const struct seed_attention *attention, double *weights, double *output);
void seed_bound_weights(const struct seed_attention *attention, double *bounds);
void seed_bound_output(const struct seed_attention *attention, double *bounds);

#endif
