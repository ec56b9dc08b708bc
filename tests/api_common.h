/* What the tests of refusals share: a legal request of each kind, in memory that must stay as it is when a request is refused.
 *
 * A refusal gives its status and a message with the field and its value, and touches no output.  Requests without elements are
 * legal whatever their pointers are. */
#ifndef HEED_TESTS_API_COMMON_H
#define HEED_TESTS_API_COMMON_H

#include "harness.h"
#include "internal.h"

#include <check.h>

/* A legal attention: B2 H4 KV2 Q3 K5 D4 V6, all tensors contiguous in `memory`.  With all options: one chunk of keys, bias and mask
 * of every row, T5 buckets, and a cache of one page per sequence. */
enum {
    QUERY = 0,
    KEY = QUERY + 96,
    VALUE = KEY + 80,
    OUTPUT = VALUE + 120,
    WEIGHTS = OUTPUT + 144,
    LSE = WEIGHTS + 120,
    SCORES = LSE + 24,
    STATES = SCORES + 120,
    MAXIMA = STATES + 144,
    SUMS = MAXIMA + 24,
    MASS = SUMS + 24,
    BIAS = MASS + 40,
    SLOPES = BIAS + 120,
    SINKS = SLOPES + 4,
    BUCKETS = SINKS + 4,
    PAGES = BUCKETS + 32,
    PAGE = 2 * 16 * (4 + 16),
    FLOATS = PAGES + 2 * PAGE
};
extern float memory[FLOATS];
struct api_numbers {
    int64_t query_starts[3], key_starts[3], key_lengths[2], query_offsets[2];
    uint64_t tree[6];
    int32_t page_table[2];
    uint8_t mask[120];
};
extern struct api_numbers numbers;
extern struct heed_kv_cache cache;

struct heed_attention legal_attention(void);
/* All options of a batched request, and all outputs. */
struct heed_attention full_attention(void);
/* The same with keys and values in `cache`. */
struct heed_attention cached_attention(void);
struct heed_gemm legal_gemm(void);
struct heed_softmax legal_softmax(void);

/* What a plan asks for, to be freed. */
void *new_workspace(const struct heed_plan *plan);
/* Fills the memory; to be called first. */
void prepare(void);
float *misaligned(const void *p);
void must_refuse(enum heed_status got, enum heed_status want, const char *field, const char *value, const char *request);
/* The same of heed_attention, of its plan, which must stay as it is, and of a run on a plan for something legal. */
void must_refuse_attention(const struct heed_attention *request, const char *field, const char *value, const char *what);
void must_accept_attention(const struct heed_attention *request, const char *what);

/* One line for each refusal: what is changed in the legal request, what the message must name and say. */
#define REFUSED(kind, change, field, value)                                                                                        \
    do {                                                                                                                           \
        struct heed_##kind r = legal_##kind();                                                                                     \
        change;                                                                                                                    \
        must_refuse(heed_##kind(&r, NULL), HEED_INVALID_ARGUMENT, field, value, #kind " with " #change);                           \
    } while (0)
#define ACCEPTED(kind, change)                                                                                                     \
    do {                                                                                                                           \
        struct heed_##kind r = legal_##kind();                                                                                     \
        change;                                                                                                                    \
        ck_assert_msg(heed_##kind(&r, NULL) == HEED_OK, #kind " with " #change ": %s", heed_error_message());                      \
    } while (0)
/* For attention, from any legal request. */
#define REFUSED_FROM(legal, change, field, value)                                                                                  \
    do {                                                                                                                           \
        struct heed_attention r = legal();                                                                                         \
        change;                                                                                                                    \
        must_refuse_attention(&r, field, value, #legal " with " #change);                                                          \
    } while (0)
#define ACCEPTED_FROM(legal, change)                                                                                               \
    do {                                                                                                                           \
        struct heed_attention r = legal();                                                                                         \
        change;                                                                                                                    \
        must_accept_attention(&r, #legal " with " #change);                                                                        \
    } while (0)

void add_attention_refusals(TCase *tests);
void add_option_refusals(TCase *tests);
void add_cache_refusals(TCase *tests);
void add_plan_refusals(TCase *tests);
void add_merge_refusals(TCase *tests);
void add_norm_refusals(TCase *tests);
void add_activate_refusals(TCase *tests);
void add_linear_refusals(TCase *tests);
void add_embedding_refusals(TCase *tests);
void add_rope_refusals(TCase *tests);

#endif
