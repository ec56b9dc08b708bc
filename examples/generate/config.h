/* What a decoder consists of, from config.json or from the metadata of a GGUF file. */
#ifndef HEED_EXAMPLES_CONFIG_H
#define HEED_EXAMPLES_CONFIG_H

#include "../checkpoint/checkpoint.h"

enum { MOST_STOPS = 16 };

struct config {
    int64_t vocabulary, width, inner, layers, heads, kv_heads, head; /* inner: width of a feed-forward layer; head: of a head */
    int64_t experts, chosen; /* of a mixture, and of them for a token; 0: layers are feed-forward ones themselves */
    bool shares_sum_to_1;    /* those of the chosen experts; else those of all */
    int64_t positions;       /* tokens that it was trained for */
    float epsilon;
    bool tied;          /* logits are products with the embeddings */
    bool interleaved;   /* how rope pairs the elements of a head */
    bool head_norms;    /* queries and keys are normalised, head by head */
    double base;        /* of rope's frequencies, */
    float *frequencies; /* or NULL, or the scaled ones, [head / 2] */
    int32_t stop[MOST_STOPS];
    int stops; /* tokens that end a text */
};
/* path is that of the checkpoint. */
struct config config_read(const char *path, const struct checkpoint *checkpoint);
bool config_stops(const struct config *config, int32_t token);

#endif
