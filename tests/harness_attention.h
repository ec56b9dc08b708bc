/* Attention requests for tests: random cases, and running one with its tensors laid out and placed in memory in any legal way. */
#ifndef HEED_TESTS_HARNESS_ATTENTION_H
#define HEED_TESTS_HARNESS_ATTENTION_H

#include "harness.h"

struct attention_case {
    struct heed_attention sizes; /* without its tensors, which run_attention makes from these contiguous values: */
    float *query, *key, *value;
    enum fill query_fill, key_fill, value_fill;
    bool wants_weights, wants_lse;
};

/* Contiguous results; weights and lse are only written if the case wants them. */
struct attention_result {
    float *output, *weights, *lse;
};

/* Chooses sizes of at most `work` multiplications: most of them small, some around the edges of chunks and blocks. */
struct heed_attention random_attention_sizes(struct rng *rng, int64_t work);
/* A case of these sizes with values of the given kinds. */
struct attention_case new_attention_case(const struct heed_attention *sizes, enum fill query, enum fill key, enum fill value,
                                         struct rng *rng);
/* Random sizes and kinds. */
struct attention_case random_attention_case(struct rng *rng, int64_t work);
void free_attention_case(struct attention_case *c);

/* Describes the case for reports. */
void describe_attention(const struct attention_case *c, const char *name, const struct heed_exec *exec);

/* The number of keys that a query sees where causal is all that hides any: they are the first ones. */
int64_t keys_seen(const struct heed_attention *sizes, int64_t query);
int64_t attention_rows(const struct attention_case *c);
struct attention_result new_attention_result(const struct attention_case *c);
void free_attention_result(struct attention_result *result);

/* Runs the case on guarded tensors of random layout and placement and checks everything but the values; rng NULL: plain layout. */
void run_attention(const struct attention_case *c, const struct heed_exec *exec, struct rng *rng, struct attention_result *result);
/* Fails unless all wanted results are bit for bit the same. */
void must_equal_attention(const struct attention_case *c, const struct attention_result *got, const struct attention_result *want);

#endif
