/* Weights from a checkpoint to what heed runs: converted, put together and packed.  What is wrong ends the program, as in
 * checkpoint.h; what is read lives as long as it. */
#ifndef HEED_EXAMPLES_WEIGHTS_H
#define HEED_EXAMPLES_WEIGHTS_H

#include "checkpoint.h"

/* Ends the program with heed's message unless status is HEED_OK. */
void check(enum heed_status status);

/* Where tensors come from and what becomes of them. */
struct reader {
    const struct checkpoint *checkpoint;
    const struct heed_exec *exec;
    const char *scope;   /* begins the names of all tensors: "encoder.layer.3."; may change between calls */
    bool stored;         /* weights keep the type that the checkpoint has them in */
    enum heed_type type; /* else HEED_F32, HEED_BF16, or HEED_Q8_0, which leaves floats where a row has no whole blocks of 32 */
};

/* The tensor called <scope><name>, where it lies; shapes as for checkpoint_tensor. */
struct tensor find_tensor(const struct reader *reader, const char *name, int64_t rows, int64_t columns);
/* A copy of it as floats. */
float *read_floats(const struct reader *reader, const char *name, int64_t rows, int64_t columns);

/* A linear layer: <scope><name>.weight, [outputs, inputs], and with `bias` <scope><name>.bias, [outputs]. */
struct part {
    const char *name;
    int64_t outputs;
};
/* Linear layers, one below the other, as one; packed. */
struct heed_weights read_weights(const struct reader *reader, const struct part *parts, int count, int64_t inputs, bool bias);

/* The rows of a tensor that ids name, for heed_embedding. */
struct heed_lookup lookup_of(const struct tensor *tensor, const int32_t *ids);

#endif
