/* Attention for tests that compute each of its steps in plain loops, by the words of src/arithmetic.md: a case of any shape with
 * queries, outputs and ranges, and what walks over them.  Keys and values are the test's. */
#ifndef HEED_TESTS_PLAIN_ATTENTION_H
#define HEED_TESTS_PLAIN_ATTENTION_H

#include "harness.h"

enum { PLAIN_MOST_WIDTH = 70 };

/* Causal to the bottom right, or not, perhaps with a window.  Slopes of 0 are terms, so that scores are natural ones: they are sums
 * as they are.  Scores, and states of all chunks, are wanted. */
struct plain_attention {
    struct heed_attention request;
    float *query, *scores, *outputs, *max, *sum, *slopes;
    int64_t chunks;
};
struct plain_attention plain_attention_new(struct rng *rng, enum heed_compute compute);
void plain_attention_free(struct plain_attention *c);
/* Calls the table's heed_attention; what: of the report. */
void plain_attention_run(const struct plain_attention *c, const char *what, const struct heed_kernels *table);

/* The key that the keys of a row, counted over heads, begin with. */
int64_t plain_first_key(const struct plain_attention *c, int64_t row);
/* The query of a row times the scale. */
void plain_query(const struct plain_attention *c, int64_t row, float *query);
/* z[j], j < n, the natural scores of a row with keys of one chunk, become their weights. */
void plain_weights(const struct heed_kernels *table, float *z, int64_t n);
/* Calls check for all rows and chunks with the keys [begin, end) that the row sees of the chunk, where there are any. */
struct plain_chunk {
    int64_t row, chunk, begin, end;
};
void plain_attention_each(const struct plain_attention *c, void (*check)(const void *context, const struct plain_chunk *chunk),
                          const void *context);

#endif
