/* The layer that the demo times, stored in any type. */
#ifndef HEED_EXAMPLES_LAYER_H
#define HEED_EXAMPLES_LAYER_H

#include <heed.h>

enum {
    LAYER_HEADS = 12,
    LAYER_DIM = 64,
    LAYER_TOKENS = 1024,
    LAYER_ROW = LAYER_HEADS * LAYER_DIM,
    LAYER_INPUTS = 3 * LAYER_ROW * LAYER_TOKENS,
    LAYER_OUTPUT = LAYER_ROW * LAYER_TOKENS
};

/* Query, key and value of a token lie in one row, as a fused projection leaves them. */
struct layer {
    enum heed_type type;
    void *qkv;    /* [tokens][3][heads][dim] */
    void *output; /* [tokens][heads][dim] */
};
void layer_fill(float *qkv);

struct layer_time {
    double milliseconds; /* median */
    enum heed_status status;
};
struct layer_time layer_measure(const struct layer *layer, const char *isa);

#endif
