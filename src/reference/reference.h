/* The oracle: what heed computes, in double, by plain loops in the order of the textbook.  It shares no code with the kernels and
 * no trick with them (no blocks, no base 2, no running maximum), so that a wrong idea is not wrong twice.  It takes the public
 * descriptors, ignores where their outputs go, and writes contiguous arrays of double.  For tests, demonstrations and benchmarks:
 * the descriptors must be valid, and nothing here is fast. */
#ifndef HEED_REFERENCE_H
#define HEED_REFERENCE_H

#include "heed.h"

/* 2^x */
double ref_exp2(float x);

/* c[m][n]; gemm->c is read where beta is not 0. */
void ref_gemm(const struct heed_gemm *gemm, double *c);

/* output[rows][columns] */
void ref_softmax(const struct heed_softmax *softmax, double *output);

/* The descriptor's scale in full: 1/sqrt(head_dim) for 0. */
double ref_scale(const struct heed_attention *attention);

/* The number of keys that a query may see: they are always the first ones. */
int64_t ref_visible_keys(const struct heed_attention *attention, int64_t query);

/* output[batch][num_heads][query_tokens][value_dim], weights[batch][num_heads][query_tokens][key_tokens] and
 * lse[batch][num_heads][query_tokens]; weights and lse may be NULL.  Returns false if there is no memory for one row of scores. */
bool ref_attention(const struct heed_attention *attention, double *output, double *weights, double *lse);

#endif
