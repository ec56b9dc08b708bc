/* Weights from a checkpoint to what heed runs: converted, put together and packed.  What is wrong ends the program, as in
 * checkpoint.h; what is read lives as long as it. */
#ifndef HEED_EXAMPLES_WEIGHTS_H
#define HEED_EXAMPLES_WEIGHTS_H

#include "../checkpoint/checkpoint.h"

/* Ends the program with heed's message unless status is HEED_OK. */
void check(enum heed_status status);

/* What a part of the names of tensors is in another kind of checkpoint. */
struct alias {
    const char *name, *other;
};

/* Where tensors come from and what becomes of them. */
struct reader {
    const struct checkpoint *checkpoint;
    const struct heed_exec *exec;
    char scope[128];             /* begins the names of all tensors: "encoder.layer.3." */
    const struct alias *aliases; /* of what follows the scope, the last one without a name; NULL: none */
    bool biased;                 /* every linear layer has a bias; else those have one for which there is a tensor */
    bool stored;                 /* weights keep the type that the checkpoint has them in */
    enum heed_type type; /* else HEED_F32, HEED_BF16, or HEED_Q8_0, which leaves floats where a row has no whole blocks of 32 */
    int64_t stack, part; /* tensors are stacks of so many, of which this one is read; stack 0: they are not */
};
/* From now on the names begin so. */
__attribute__((format(printf, 2, 3))) void reader_enter(struct reader *reader, const char *format, ...);

/* Below, <name> is the scope, and the name or its alias. */
bool has_tensor(const struct reader *reader, const char *name, const char *kind); /* <name><kind>: kind is ".weight" or ".bias" */
/* <name>.weight, where it lies; shapes as for checkpoint_tensor. */
struct tensor find_table(const struct reader *reader, const char *name, int64_t rows, int64_t columns);
/* Floats of <name><kind>, copied. */
float *read_floats(const struct reader *reader, const char *name, const char *kind, int64_t rows, int64_t columns);

/* A linear layer: <name>.weight, [outputs, inputs], and <name>.bias, [outputs]; packed. */
struct heed_weights read_linear(const struct reader *reader, const char *name, int64_t outputs, int64_t inputs);
/* Linear layers, one below the other, as one. */
struct part {
    const char *name;
    int64_t outputs;
};
/* Whether they keep one type, and need not become floats to be one. */
bool have_one_type(const struct reader *reader, const struct part *parts, int count, int64_t inputs);
struct heed_weights read_parts(const struct reader *reader, const struct part *parts, int count, int64_t inputs);

/* The rows of a tensor that ids name, for heed_embedding; and output row i = row ids[i]. */
struct heed_lookup lookup_of(const struct tensor *tensor, const int32_t *ids);
void look_up(const struct heed_exec *exec, const struct tensor *tensor, const int32_t *ids, int64_t rows, float *output);

#endif
