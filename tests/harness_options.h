/* All options of an attention request as small lists, so that a test can walk through their combinations: a choice is one level of
 * each option.  A covering array holds every pair of levels of any two options in few rows (Cohen et al. 1997, AETG). */
#ifndef HEED_TESTS_HARNESS_OPTIONS_H
#define HEED_TESTS_HARNESS_OPTIONS_H

#include "harness_attention.h"

enum option {
    /* the request */
    OPT_SHAPE,
    OPT_WIDTH,
    OPT_GROUP,
    OPT_SCALE,
    OPT_FILL,
    OPT_CAUSAL,
    OPT_ALIGNMENT,
    OPT_WINDOW,
    OPT_QUERY_FORM,
    OPT_KEY_FORM,
    OPT_LENGTHS,
    OPT_KEY_POSITION,
    OPT_MASK,
    OPT_BIAS,
    OPT_TREE,
    OPT_SOFTCAP,
    OPT_ALIBI,
    OPT_RELATIVE,
    OPT_SINKS,
    OPT_OUTPUT,
    OPT_WEIGHTS,
    OPT_LSE,
    OPT_SCORES,
    OPT_STATES,
    OPT_MASS,
    /* how it is made */
    OPT_THREADS,
    OPT_ISA,
    OPT_PLANNED,
    OPT_CACHE,
    /* of what its tensors are: last, so that a list of cases remains what it was */
    OPT_QUERY_TYPE,
    OPT_KEY_TYPE,
    OPT_VALUE_TYPE,
    OPT_OUTPUT_TYPE,
    OPT_COMPUTE,
    OPT_CACHE_SIZES,
    OPTIONS
};

struct choice {
    int level[OPTIONS];
};

/* The number of levels of an option, and the words for one. */
int option_levels(enum option option);
const char *option_name(enum option option);
const char *level_name(enum option option, int level);

/* Levels that several places ask for. */
enum { SHAPE_SMALL, SHAPE_DECODE, SHAPE_DRAFTS, SHAPE_LONG_KEYS, SHAPE_LONG_QUERIES, SHAPE_CHUNK_EDGES };
enum { FORM_BATCHED, FORM_PACKED, FORM_PACKED_GAPS };
enum { FILLS_NORMAL, FILLS_FINITE, FILLS_ANY };

/* A request with these options, otherwise random, of at most `work` multiplications, which must be 400000 or more. */
struct attention_case case_of(const struct choice *choice, int64_t work, struct rng *rng);
struct attention_way way_of(const struct choice *choice);
struct choice random_choice(struct rng *rng);

/* Rows that hold all pairs of levels, to be freed; *pairs: how many pairs that is. */
struct choice *covering_array(struct rng *rng, int64_t *rows, int64_t *pairs);

#endif
