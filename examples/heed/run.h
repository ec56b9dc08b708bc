/* The parts of heed run: its command line (run_options.c), the layout of its files (run_layout.c), the computation (run.c). */
#ifndef HEED_EXAMPLES_RUN_H
#define HEED_EXAMPLES_RUN_H

#include "npy.h"
#include <heed.h>

struct run_options {
    const char *query, *key, *value, *output; /* paths */
    const char *weights, *lse;                /* paths, NULL: not wanted */
    int64_t heads, kv_heads;                  /* 0: not given, the last dimension is not split */
    bool causal;
    enum heed_alignment alignment;
    float scale; /* 0: not given */
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
    struct npy query, key, value, output, weights, lse;
    struct run_layout of_query, of_key, of_value, of_output, of_weights, of_lse;
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

#endif
