/* How far results may be from the oracle's, derived from src/arithmetic.md; the analysis is Higham's (Accuracy and Stability of
 * Numerical Algorithms, 2002, chapter 3).
 *
 * u = 2^-24.  n roundings in a row are a factor 1 + theta, |theta| <= gamma(n) = n u / (1 - n u); one more than counted covers the
 * oracle's own error, as n 2^-53 < u.  A result below 2^-126 is instead off by at most 2^-150 for each rounding: TINY, doubled for
 * the factors that come after. */
#ifndef HEED_TESTS_HARNESS_BOUNDS_H
#define HEED_TESTS_HARNESS_BOUNDS_H

#include "harness_attention.h"
#include "roundings.h"

/* Softmax weights p[j] whose unnormalised logarithms, to base 2, are each off by at most e[j]: what their sum, 1, may be instead.
 */
struct spread {
    double low, high;
};
struct spread spread_of(const double *p, const double *e, int64_t n);
/* How far such a weight may then be off: it lies between p 2^-e / high and p 2^e / low. */
double weight_error(double p, double e, struct spread sum);

/* Of each part of the results but the states, gathered over many cases. */
struct attention_accuracy {
    struct accuracy part[RESULT_PARTS];
    const float *key_channel_scales; /* of the cache that the next results are from, or NULL */
};
/* Compares all that a case wants with the oracle; its tensors must be finite, but for biases and sinks of -inf. */
void check_attention(const struct attention_case *c, const struct attention_result *got, struct attention_accuracy *accuracy);

#endif
