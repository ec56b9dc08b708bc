/* What the five notebooks have in common: short forms of heed's calls, and the steps that most of them take. */
#ifndef HEED_EXAMPLES_SEED_CALLS_H
#define HEED_EXAMPLES_SEED_CALLS_H

#include "seed_bounds.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* One notebook in progress.  After the first call of heed that fails the others do nothing. */
struct seed_run {
    const struct heed_exec *exec;
    struct seed_result *result;
};

/* Empties the result for a notebook of `tokens` words, projected to `width`. */
struct seed_run seed_start(const struct heed_exec *exec, struct seed_result *result, const char *const *words, int tokens,
                           int width);

/* c (m x n) = a (m x k) b (k x n) + beta c */
void seed_multiply(struct seed_run *run, int m, int n, int k, const float *a, const float *b, float beta, float *c);
/* scores (tokens x tokens) = query key^T */
void seed_multiply_keys(struct seed_run *run, int tokens, int width, const float *query, const float *key, float *scores);
/* weights (tokens x tokens) = softmax(scale * scores), row by row */
void seed_softmax(struct seed_run *run, int tokens, float scale, const float *scores, float *weights);
void seed_attend(struct seed_run *run, const struct heed_attention *attention);

/* product = x (tokens x depth, known within e) times weights (depth x width), compared with print. */
void seed_project(struct seed_run *run, const char *name, const float *x, double e, int depth, const float *weights,
                  const struct seed_print *print, float *product);
/* Whether one token at a time gives the bits of product, which seed_project made of all tokens at once. */
bool seed_projects_by_token(struct seed_run *run, const float *x, int depth, const float *weights, const float *product);

/* The attention that the result shows.  Returns whether one query at a time gives the same bits. */
bool seed_attend_both_ways(struct seed_run *run, const struct seed_attention *self);

/* The notebooks, one function per file. */
void seed_run_steps(const struct heed_exec *exec, struct seed_result *result);
void seed_run_words(const struct heed_exec *exec, struct seed_result *result);
void seed_run_positions(const struct heed_exec *exec, struct seed_result *result);
void seed_run_sentence(const struct heed_exec *exec, struct seed_result *result);

#endif
