/* What a model is made of; see model.h. */
#ifndef HEED_EXAMPLES_LAYERS_H
#define HEED_EXAMPLES_LAYERS_H

#include "cache.h"
#include "model.h"
#include "../checkpoint/weights.h"

struct layer {
    float *self_norm, *cross_norm, *inner_norm; /* gains */
    struct heed_weights qkv, out;
    struct heed_weights cross_query, cross_key_value, cross_out; /* of a decoder */
    struct heed_weights up, gate, down;                          /* gate: of gated models */
};

struct stack {
    struct layer *layer;
    int64_t layers;
    struct heed_relative relative;
    float *norm;
};

struct model {
    struct checkpoint checkpoint;
    struct heed_exec exec;
    int64_t vocabulary, width, inner, heads, head_dim;
    float epsilon;
    enum heed_activation activation;
    bool gated;
    struct tensor words;
    struct stack encoder, decoder;
    struct heed_weights head; /* from what the decoder says to logits */

    /* Of a batch: rows are the tokens of its lines, then beams. */
    float *hidden, *normed;   /* [rows, width] */
    float *projected, *mixed; /* [rows, 2 * heads * head_dim], half as wide */
    float *wide, *gate;       /* [rows, inner] */
    float *logits;            /* [rows, vocabulary] */
    int64_t *positions;       /* [rows] of the decoder's tokens: all the same */
    struct cache self, cross; /* of beams, in pages; of lines, a page for each */
    int64_t *lengths, beams;  /* [lines]: tokens in cross; rows of each line in the last step */
};

#endif
