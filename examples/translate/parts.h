/* What a model is made of; see model.h. */
#ifndef HEED_EXAMPLES_PARTS_H
#define HEED_EXAMPLES_PARTS_H

#include "../shared/layers.h"
#include "../shared/pages.h"
#include "model.h"

struct layer {
    float *self_norm, *cross_norm, *inner_norm; /* gains */
    struct heed_weights qkv, out;
    struct heed_weights cross_query, cross_key_value, cross_out; /* of a decoder */
    struct feed_forward inner;
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
    float *wide;              /* [rows, inner] */
    float *logits;            /* [rows, vocabulary] */
    int64_t *positions;       /* [rows] of the decoder's tokens: all the same */
    int64_t rows, tokens;     /* of the last step; that each of its rows has in `self` */
    int64_t beams, *lengths;  /* rows of each of its lines; [lines]: tokens in `cross` */
    struct store self, cross; /* keys and values of beams; and of lines, a page for each */
    struct pool pool;         /* of pages in self */
    int32_t *pages, *before;  /* [rows, self's pages of a sequence]: who has which; the same of the step before */
    int32_t *page;            /* [lines]: in cross */
};

#endif
