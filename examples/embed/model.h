/* Sentences to vectors: BERT's encoder (Devlin et al. 2019), the mean of its outputs, length 1 (Reimers and Gurevych 2019). */
#ifndef HEED_EXAMPLES_MODEL_H
#define HEED_EXAMPLES_MODEL_H

#include <heed.h>

/* weights: HEED_F32, HEED_BF16 or HEED_Q8_0, what those of linear layers are kept in.  What is wrong ends the program, with which
 * the model lives (checkpoint.h). */
struct model *model_open(const char *folder, enum heed_type weights, const struct heed_exec *exec);
/* Once, before model_encode: memory for calls of up to so many tokens. */
void model_make_room(struct model *model, int64_t tokens);

struct model_sizes {
    int64_t width, vocabulary, positions; /* of a vector; tokens that it knows; tokens of the longest sentence */
};
struct model_sizes model_sizes(const struct model *model);

/* Sentence i has tokens starts[i] ... starts[i + 1] - 1, at least one, and gets vectors[i * width ...].  Its bits do not depend on
 * the others. */
void model_encode(const struct model *model, const int32_t *tokens, const int64_t *starts, int64_t sentences, float *vectors);

#endif
