/* The parts of heed run: its command line (run_options.c), the layout of its files (run_layout.c), what masks a score or adds to it
 * (run_terms.c), the computation (run.c). */
#ifndef HEED_EXAMPLES_RUN_H
#define HEED_EXAMPLES_RUN_H

#include "npy.h"
#include <heed.h>

/* Where queries stand among the keys. */
struct run_position {
    bool causal;
    enum heed_alignment alignment;
    int64_t offset; /* of query 0, for HEED_ALIGN_OFFSETS */
};

struct run_alibi {
    bool on;
    const char *path; /* of the slopes; NULL: the geometric sequence */
};

struct run_stage {
    bool given;
    enum heed_score_stage stage;
};

struct run_options {
    const char *query, *key, *value, *output;      /* paths */
    const char *weights, *lse, *scores;            /* paths, NULL: not wanted */
    const char *mask, *bias, *sinks, *key_lengths; /* paths, NULL: none */
    int64_t heads, kv_heads;                       /* 0: not given, the last dimension is not split */
    struct run_position position;
    struct heed_window window;
    struct run_alibi alibi;
    float scale, softcap; /* 0: not given */
    struct run_stage score_stage;
    enum heed_type output_type;
    enum heed_compute compute;
    bool explain;
    struct heed_exec exec;
};
/* TOOL_OK, or TOOL_USAGE after a message. */
int run_parse(int argc, char **argv, struct run_options *options);

/* A file's array as [batch, heads, tokens, width]. */
struct run_layout {
    int64_t batch, heads, tokens, width;
    int64_t batch_stride, head_stride, token_stride;
};

/* One call of heed run, all arrays of it. */
struct run_call {
    const struct run_options *options;
    struct npy query, key, value, output, weights, lse, scores;
    struct run_layout of_query, of_key, of_value, of_output, of_weights, of_lse, of_scores;
    struct npy mask, bias, alibi, sinks, key_lengths, query_offsets;
};

/* All false with a message in error if the array cannot be seen like that, or has no room in memory.
 * heads: into how many the last dimension is split; 0: it is not. */
bool run_layout_of(const char *path, const struct npy *array, int64_t heads, struct run_layout *layout, struct npy_error *error);

/* A new array [batch, heads, tokens, columns] without the dimensions that the query does not have. */
enum { RUN_NO_COLUMNS = -1 };
bool run_layout_rows(const char *path, const struct run_call *call, int64_t columns, struct npy *array, struct run_layout *layout,
                     struct npy_error *error);

/* A new array in the layout of the query, with the width of the value. */
bool run_layout_output(const char *path, const struct run_call *call, struct npy *array, struct run_layout *layout,
                       struct npy_error *error);

/* Reads or makes the arrays from mask on and points the request, whose sizes are set, to them; false with a message in error. */
bool run_terms(struct run_call *call, struct heed_attention *request, struct npy_error *error);

#endif
