/* The oracle: what heed computes, in double, by plain loops in the order of the textbook.  It shares no code with the kernels and
 * no trick with them (no blocks, no base 2, no running maximum), so that a wrong idea is not wrong twice.  It takes the public
 * descriptors, ignores where their outputs go, and writes contiguous arrays of double.  For tests, demonstrations and benchmarks:
 * the descriptors must be valid, and nothing here is fast. */
#ifndef HEED_REFERENCE_H
#define HEED_REFERENCE_H

#include "heed.h"

/* 2^x */
double ref_exp2(float x);

/* The value of a bf16 or f16, and the one that is nearest to x: of two, the even one; the quiet one for NaN. */
double ref_widen_bf16(uint16_t x);
double ref_widen_f16(uint16_t x);
uint16_t ref_round_bf16(double x);
uint16_t ref_round_f16(double x);

/* Of an array of one of ggml's K formats, group `index` of 32: its integers, the scales of its halves, and what is subtracted. */
struct ref_k_group {
    int q[32];
    double scale[2], less;
};
void ref_load_k_group(const void *data, enum heed_type type, int64_t index, struct ref_k_group *group);

/* Element `index` of an array of the type. */
double ref_element(const void *data, enum heed_type type, int64_t index);

/* Elements of op(a) and op(b); packed_b is not looked at. */
double ref_gemm_a(const struct heed_gemm *gemm, int64_t i, int64_t p);
double ref_gemm_b(const struct heed_gemm *gemm, int64_t p, int64_t j);
/* c[m][n]; gemm->c is read where beta is not 0. */
void ref_gemm(const struct heed_gemm *gemm, double *c);

/* output[rows][columns] */
void ref_softmax(const struct heed_softmax *softmax, double *output);

/* output[rows][columns]; centers: heed_layer_norm, else heed_rms_norm. */
void ref_norm(const struct heed_norm *norm, bool centers, double *output);

/* output[rows][columns], of the sum of input and bias as a float. */
void ref_activate(const struct heed_activate *activate, double *output);
double ref_activation(enum heed_activation activation, double x);

/* Turns n scores into their softmax and returns the logarithm of the sum of their exponentials. */
double ref_softmax_row(double *scores, int64_t n);

/* --- Attention: attention.c ---
 *
 * b is a sequence, h a query head, i a query and j a key of the sequence, each counted from 0.  Keys and values are read from key
 * and value; a cache is not looked at. */

/* The descriptor's scale in full: 1/sqrt(head_dim) for 0. */
double ref_scale(const struct heed_attention *attention);

/* The tokens of one sequence. */
struct ref_sequence {
    int64_t first_query, queries; /* tokens of the query and of the outputs */
    int64_t first_key, keys;      /* tokens of key and value; keys: within its length */
    int64_t offset;               /* query i stands at position i + offset */
};
struct ref_sequence ref_sequence_of(const struct heed_attention *attention, int64_t b);

/* Whether query i may see key j at all: by length, causal and window. */
bool ref_sees(const struct heed_attention *attention, int64_t b, int64_t i, int64_t j);
/* Whether mask, tree or a bias of -inf takes the weight of a key that it may see. */
bool ref_hides(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i, int64_t j);
/* The bucket of T5's relative position bias for a key that stands `ahead` tokens after the query, negative: before it. */
int64_t ref_bucket(const struct heed_relative *relative, int64_t ahead);
double ref_score(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i, int64_t j, enum heed_score_stage stage);

/* The columns of weights, scores and mass: key_tokens, or the keys of the longest packed sequence. */
int64_t ref_columns(const struct heed_attention *attention);
/* The number of rows of the outputs, and the one of a query: [batch][num_heads][query_tokens], without a batch if packed. */
int64_t ref_rows(const struct heed_attention *attention);
int64_t ref_row(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i);

/* With rows and columns as above: output[rows][value_dim], weights[rows][columns], lse[rows], scores[rows][columns] and
 * mass[batch][num_heads][columns]; NULL: not wanted.  Packed rows that belong to no sequence are not written. */
struct ref_attention_result {
    double *output, *weights, *lse, *scores, *mass;
};
/* Returns false if there is no memory for one row of scores. */
bool ref_attention(const struct heed_attention *attention, const struct ref_attention_result *result);

#endif
