/* T5 (Raffel et al. 2020): an encoder of lines, and a decoder that says token by token what follows. */
#ifndef HEED_EXAMPLES_MODEL_H
#define HEED_EXAMPLES_MODEL_H

#include <heed.h>

/* weights: HEED_F32, HEED_BF16 or HEED_Q8_0, what those of linear layers are kept in.  What is wrong ends the program, with which
 * the model lives (checkpoint.h). */
struct model *model_open(const char *folder, enum heed_type weights, const struct heed_exec *exec);
int64_t model_vocabulary(const struct model *model);

/* Encodes a batch of lines; line i has tokens starts[i] ... starts[i + 1] - 1, at least one.  The decoder may then take `steps`
 * steps of up to `beams` rows for each line. */
void model_begin(struct model *model, const int32_t *tokens, const int64_t *starts, int64_t lines, int64_t beams, int64_t steps);

/* What may follow: logits, [lines * beams, vocabulary], until the next step.  Row i is row parents[i] of the step before, and then
 * tokens[i]; rows of a line lie together, `beams` of each, and come from rows of that line.  A line without rows is done. In the
 * first step parents is NULL and beams is 1: a row for each line. */
const float *model_step(struct model *model, int64_t lines, int64_t beams, const int32_t *tokens, const int32_t *parents);

#endif
