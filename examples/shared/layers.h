/* The layers that models consist of, over rows without gaps.  A row of `hidden` is what a token has become so far; layers add to
 * it. */
#ifndef HEED_EXAMPLES_LAYERS_H
#define HEED_EXAMPLES_LAYERS_H

#include "weights.h"

struct heed_input rows_of(const float *data, int64_t width);

/* output = norm(input) * gain; output may be input */
void rms_norm(const struct heed_exec *exec, int64_t rows, int64_t width, float epsilon, const float *gain, const float *input,
              float *output);

/* output = input weights^T + bias + residual; residual may be NULL, or output */
void linear(const struct heed_exec *exec, int64_t rows, const struct heed_weights *weights, const float *input,
            const float *residual, float *output);
/* The same in other numbers, HEED_COMPUTE_I8 where weights are in blocks, else in floats. */
void linear_in(const struct heed_exec *exec, enum heed_compute compute, int64_t rows, const struct heed_weights *weights,
               const float *input, const float *residual, float *output);

/* What linear_in does, for heed_linear or heed_linear_group. */
struct heed_linear linear_of(enum heed_compute compute, int64_t rows, const struct heed_weights *weights, const float *input,
                             const float *residual, float *output);

/* hidden += attention(input): sets input, residual and output of the layer.  input may be hidden. */
void attend(const struct heed_exec *exec, struct heed_attention_layer layer, const float *input, float *hidden);

/* By the names of config.json; false: there is none of this name. */
bool activation_named(const char *name, enum heed_activation *activation);
#define ACTIVATIONS "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish"

struct feed_forward {
    struct heed_weights up, gate, down; /* gate: without outputs if there is none */
    enum heed_activation activation;
    enum heed_compute compute; /* as in linear_in */
};
/* wide = activation(up(input)) * wide or, without a gate, * 1 */
struct heed_linear activated_of(int64_t rows, const struct feed_forward *layer, const float *input, float *wide);
/* hidden += down(activation(up(input)) * gate(input)); wide is room for up's outputs.  input may be hidden. */
void feed_forward(const struct heed_exec *exec, int64_t rows, const struct feed_forward *layer, const float *input, float *wide,
                  float *hidden);

/* What is not finite would make any choice wrong: the program ends, as checkpoint_blame says it. */
void check_finite(const struct checkpoint *checkpoint, const char *what, const float *numbers, int64_t count);
/* The first of the largest. */
int32_t likeliest(const float *numbers, int64_t count);
/* output = softmax(scale * input), row by row */
void softmax(const struct heed_exec *exec, int64_t rows, int64_t columns, float scale, const float *input, float *output);

#endif
