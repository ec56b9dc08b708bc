/* Attention requests for tests: random cases, parts of them, and running one with everything that it points to laid out and placed
 * in memory in any legal way. */
#ifndef HEED_TESTS_HARNESS_ATTENTION_H
#define HEED_TESTS_HARNESS_ATTENTION_H

#include "harness.h"
#include "reference/reference.h"
#include "stored.h"

/* What comes out of a request. */
enum result_part { OUTPUT, WEIGHTS, LSE, SCORES, STATE_OUTPUT, STATE_MAX, STATE_SUM, MASS, RESULT_PARTS };
extern const char *const result_part_names[RESULT_PARTS];

/* How a case is stored where it is not laid out plainly. */
struct attention_types {
    enum heed_type query, key, value, output;
};

/* A whole request over memory of its own, but for its outputs: the oracle takes it as it is, run_attention makes others of it. */
struct attention_case {
    struct heed_attention request;
    bool wants[RESULT_PARTS]; /* the three of the states: all or none */
    enum fill query_fill, key_fill, value_fill;
    struct attention_types types; /* its inputs are floats that these hold exactly */
    char name[320];               /* of its options, for reports */
    void *owned[24];
    int owned_count;
};

/* n * size bytes that live as long as the case. */
void *case_memory(struct attention_case *c, int64_t n, size_t size);
void free_attention_case(struct attention_case *c);
/* The values of a case's input, to change them. */
float *values_of(const struct heed_input *input);

/* Contiguous results: part p has rows and columns as result_size says.  Packed rows that belong to no sequence are 0. */
struct attention_result {
    float *part[RESULT_PARTS];
};
void result_size(const struct heed_attention *request, enum result_part part, int64_t size[4]);
int64_t result_count(const struct heed_attention *request, enum result_part part);
/* Of the request; the three of the states are [row][chunk], with value_dim columns for the output. */
int64_t chunks_of(const struct heed_attention *request);
struct attention_result new_attention_result(const struct attention_case *c);
void free_attention_result(struct attention_result *result);
/* Fails unless all wanted parts are bit for bit the same. */
void must_equal_attention(const struct attention_case *c, const struct attention_result *got, const struct attention_result *want);
/* The same for one row of each, rows counted as ref_row does. */
void must_equal_row(const struct attention_case *c, const struct attention_result *got, int64_t got_row,
                    const struct attention_case *whole, const struct attention_result *want, int64_t want_row);

/* Chooses sizes of at most `work` multiplications: most of them small, some around the edges of chunks and blocks. */
struct heed_attention random_attention_sizes(struct rng *rng, int64_t work);
/* A case of these sizes with values of the given kinds; wants output, weights and lse. */
struct attention_case new_attention_case(const struct heed_attention *sizes, enum fill query, enum fill key, enum fill value,
                                         struct rng *rng);
/* Random sizes and kinds. */
struct attention_case random_attention_case(struct rng *rng, int64_t work);

/* What queries [first_query, first_query + queries) of sequence b compute over its keys [first_key, first_key + keys), as a request
 * of its own over the same memory.  It wants what c wants, but no mass. */
struct slice {
    int64_t b, first_query, queries, first_key, keys;
};
struct attention_case attention_slice(const struct attention_case *c, const struct slice *slice);

/* The keys [begin, end) outside of which no query of sequence b sees any: 0 and 0 if none sees any. */
struct key_range {
    int64_t begin, end;
};
struct key_range keys_in_reach(const struct heed_attention *request, int64_t b);
/* Where causal is all that hides keys: the number of keys that a query of sequence 0 sees, which are the first ones. */
int64_t keys_seen(const struct heed_attention *request, int64_t query);

/* Describes the case for reports. */
void describe_attention(const struct attention_case *c, const char *name, const struct heed_exec *exec);

/* --- Types: harness_types.c --- */

enum heed_type any_type(struct rng *rng);
/* Whether denormals of f16 are numbers where those of floats are 0, as processors promise.  qemu 7.2 makes zeros of both. */
bool f16_ignores_flushing(void);
/* Stores the case in these types, to which its inputs are rounded, keys and values of HEED_I8 in a cache; and the result as its
 * output's type has it. */
void use_types(struct attention_case *c, struct attention_types types);
void round_output(const struct attention_case *c, struct attention_result *result);
/* Rows of so many halves in a tensor of half as many floats, rounded up: nothing was written after their ends; and as floats. */
const char *check_row_ends(const struct tensor *t, int64_t columns);
const char *take_halves(struct tensor *t, enum heed_type type, int64_t columns, float *values);

/* --- Running: harness_run.c --- */

/* How a request is made; none of it may change a bit. */
enum cache_kind { CACHE_NONE, CACHE_LINEAR, CACHE_RING, CACHE_PAGED };
struct attention_way {
    struct heed_exec exec;
    bool planned;      /* heed_attention_plan and heed_attention_run */
    bool small_caches; /* L1 and L2 are believed to be a byte, so that nothing is near */
    enum cache_kind cache;
    int64_t page_tokens;             /* of CACHE_PAGED */
    const float *key_channel_scales; /* of the cache; NULL: none.  These may change bits */
};

/* Runs the case on guarded memory of random layout and placement, stored in its types, and checks everything but the values; rng
 * NULL: plain layout, and floats, the output too, but for what is HEED_I8, which has bits of its own. */
void run_attention(const struct attention_case *c, const struct heed_exec *exec, struct rng *rng, struct attention_result *result);
void run_attention_way(const struct attention_case *c, const struct attention_way *way, struct rng *rng,
                       struct attention_result *result);

#endif
