/* See layers.h. */
#include "layers.h"

#include <math.h>
#include <string.h>

struct heed_input rows_of(const float *data, int64_t width) {
    return (struct heed_input){.data = data, .token_stride = width};
}

static struct heed_output rows_to(float *data, int64_t width) { return (struct heed_output){.data = data, .token_stride = width}; }

void rms_norm(const struct heed_exec *exec, int64_t rows, int64_t width, float epsilon, const float *gain, const float *input,
              float *output) {
    check(heed_rms_norm(&(struct heed_norm){.rows = rows,
                                            .columns = width,
                                            .epsilon = epsilon,
                                            .input = rows_of(input, width),
                                            .gain = gain,
                                            .output = rows_to(output, width)},
                        exec));
}

/* Weights that are not in blocks are multiplied as floats where others are as bytes. */
static enum heed_compute compute_with(const struct heed_weights *weights, enum heed_compute compute) {
    return compute == HEED_COMPUTE_I8 && block_of(weights->type) == 1 ? HEED_COMPUTE_F32 : compute;
}

struct heed_linear linear_of(enum heed_compute compute, int64_t rows, const struct heed_weights *weights, const float *input,
                             const float *residual, float *output) {
    return (struct heed_linear){.rows = rows,
                                .compute = compute_with(weights, compute),
                                .weights = *weights,
                                .input = rows_of(input, weights->inputs),
                                .residual = rows_of(residual, weights->outputs),
                                .output = rows_to(output, weights->outputs)};
}

void linear_in(const struct heed_exec *exec, enum heed_compute compute, int64_t rows, const struct heed_weights *weights,
               const float *input, const float *residual, float *output) {
    const struct heed_linear layer = linear_of(compute, rows, weights, input, residual, output);
    check(heed_linear(&layer, exec));
}

void linear(const struct heed_exec *exec, int64_t rows, const struct heed_weights *weights, const float *input,
            const float *residual, float *output) {
    linear_in(exec, HEED_COMPUTE_F32, rows, weights, input, residual, output);
}

void attend(const struct heed_exec *exec, struct heed_attention_layer layer, const float *input, float *hidden) {
    layer.attention.compute = compute_with(&layer.qkv, compute_with(&layer.out, layer.attention.compute));
    if (layer.value.outputs > 0)
        layer.attention.compute = compute_with(&layer.value, layer.attention.compute);
    layer.input = rows_of(input, layer.qkv.inputs);
    layer.residual = rows_of(hidden, layer.out.outputs);
    layer.output = rows_to(hidden, layer.out.outputs);
    check(heed_attention_layer(&layer, exec));
}

bool activation_named(const char *name, enum heed_activation *activation) {
    static const struct {
        const char *name;
        enum heed_activation activation;
    } known[] = {{"gelu", HEED_GELU}, {"gelu_new", HEED_GELU_TANH}, {"gelu_pytorch_tanh", HEED_GELU_TANH},
                 {"relu", HEED_RELU}, {"silu", HEED_SILU},          {"swish", HEED_SILU}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return *activation = known[i].activation, true;
    return false;
}

struct heed_linear activated_of(int64_t rows, const struct feed_forward *layer, const float *input, float *wide) {
    struct heed_linear up = linear_of(layer->compute, rows, &layer->up, input, NULL, wide);
    up.activation = layer->activation;
    up.gate = rows_of(layer->gate.outputs > 0 ? wide : NULL, layer->up.outputs);
    return up;
}

void feed_forward(const struct heed_exec *exec, int64_t rows, const struct feed_forward *layer, const float *input, float *wide,
                  float *hidden) {
    const struct heed_linear up = activated_of(rows, layer, input, wide);
    if (layer->gate.outputs > 0)
        linear_in(exec, layer->compute, rows, &layer->gate, input, NULL, wide);
    check(heed_linear(&up, exec));
    linear_in(exec, layer->compute, rows, &layer->down, wide, hidden, hidden);
}

void check_finite(const struct checkpoint *checkpoint, const char *what, const float *numbers, int64_t count) {
    bool finite = true;
    for (int64_t i = 0; i < count; i++)
        finite &= isfinite(numbers[i]) != 0;
    if (!finite)
        checkpoint_blame(checkpoint, what);
}

int32_t likeliest(const float *numbers, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (numbers[i] > numbers[best])
            best = i;
    return (int32_t)best;
}

void softmax(const struct heed_exec *exec, int64_t rows, int64_t columns, float scale, const float *input, float *output) {
    check(heed_softmax(&(struct heed_softmax){.rows = rows,
                                              .columns = columns,
                                              .scale = scale,
                                              .input = input,
                                              .input_stride = columns,
                                              .output = output,
                                              .output_stride = columns},
                       exec));
}
