/* A decoder of the Llama family (Touvron et al. 2023), with feed-forward layers or mixtures of experts: tokens of several sequences
 * in, logits out, keys and values in pages. */
#ifndef HEED_EXAMPLES_MODEL_H
#define HEED_EXAMPLES_MODEL_H

#include "../shared/pages.h"
#include "config.h"

/* Reads a checkpoint.  weights: what those of linear layers are kept in, HEED_F32, HEED_BF16 or HEED_Q8_0; NULL: what they are
 * stored in.  What is wrong ends the program, with which the model lives (checkpoint.h). */
struct model *model_open(const char *path, const enum heed_type *weights, const struct heed_exec *exec);
const struct config *model_config(const struct model *model);
const struct checkpoint *model_checkpoint(const struct model *model);

enum { PAGE_TOKENS = 64 }; /* a whole panel of keys: less is slower (heed.h) */

/* What calls need memory for: up to so many tokens and rows of logits, and pages, in all and of a sequence at most. */
struct room {
    int64_t tokens, rows, pages, pages_per_sequence;
    enum heed_type cache; /* of keys and values: HEED_F32, HEED_BF16, HEED_F16 or HEED_I8 */
};
/* Once, before the others.  Returns the pages. */
struct store *model_make_room(struct model *model, const struct room *room);

/* Sequence i brings tokens starts[i] ... starts[i + 1] - 1, the first of which has positions[i] in it; its pages are page[i *
 * pages_per_sequence ...]. */
struct batch {
    enum heed_compute compute; /* of the layers, but not of the logits */
    int64_t sequences, rows;
    int64_t *starts, *positions;
    int32_t *tokens, *page;
    int32_t *row; /* [rows]: tokens of the batch that logits are wanted for */
};
/* Returns logits, [rows, vocabulary], until the next call.  A row's bits depend on the tokens of its own sequence alone. */
float *model_run(struct model *model, const struct batch *batch);

#endif
