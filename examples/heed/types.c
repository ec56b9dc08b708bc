/* What storing the demo's layer in 16 bits saves, and what it costs. */
#include "layer.h"
#include "tool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct memory {
    float qkv[LAYER_INPUTS], output[LAYER_OUTPUT];
    uint16_t half_qkv[LAYER_INPUTS], half_output[LAYER_OUTPUT];
    float widened[LAYER_OUTPUT];
};

/* Rows of numbers in another type: over a single key the softmax is 1, so that the output is the value, rounded to its own type. */
static enum heed_status convert(enum heed_type from, const void *x, enum heed_type to, void *y, int64_t rows) {
    static const float zero;
    struct heed_attention copy = {
        .batch = rows,
        .num_heads = 1,
        .num_kv_heads = 1,
        .query_tokens = 1,
        .key_tokens = 1,
        .head_dim = 1,
        .value_dim = LAYER_ROW,
        .query = {.data = &zero},
        .key = {.data = &zero},
        .value = {.data = x, .batch_stride = LAYER_ROW, .type = from},
        .output = {.data = y, .batch_stride = LAYER_ROW, .head_stride = LAYER_ROW, .token_stride = LAYER_ROW, .type = to},
    };
    return heed_attention(&copy, NULL);
}

/* Comparisons, for gcc 12 for AArch64 breaks down on a loop of fmax. */
static double larger_size(double largest, double x) { return fabs(x) > largest ? fabs(x) : largest; }

/* Of all differences to the layer of floats, in units of its largest number. */
static double largest_error(const struct memory *memory) {
    double error = 0, largest = 0;
    for (int64_t i = 0; i < LAYER_OUTPUT; i++) {
        error = larger_size(error, (double)memory->widened[i] - (double)memory->output[i]);
        largest = larger_size(largest, (double)memory->output[i]);
    }
    return error / largest;
}

static void print_row(const char *name, const struct layer *layer, double milliseconds, const char *error) {
    const double mebibytes = (layer->type == HEED_F32 ? 4.0 : 2.0) * (LAYER_INPUTS + LAYER_OUTPUT) / (1 << 20);
    printf("     %-10s %12.2f %10.1f   %s\n", name, milliseconds, mebibytes, error);
    fflush(stdout);
}

static enum heed_status print_floats(struct memory *memory) {
    const struct layer layer = {HEED_F32, memory->qkv, memory->output};
    const struct layer_time time = layer_measure(&layer, NULL);
    if (time.status == HEED_OK)
        print_row("f32", &layer, time.milliseconds, "reference");
    return time.status;
}

static enum heed_status print_halves(const char *name, enum heed_type type, struct memory *memory) {
    const struct layer layer = {type, memory->half_qkv, memory->half_output};
    const enum heed_status stored = convert(HEED_F32, memory->qkv, type, layer.qkv, 3 * LAYER_TOKENS);
    const struct layer_time time = layer_measure(&layer, NULL);
    const enum heed_status widened = convert(type, layer.output, HEED_F32, memory->widened, LAYER_TOKENS);
    if (stored != HEED_OK || time.status != HEED_OK || widened != HEED_OK)
        return time.status != HEED_OK ? time.status : stored != HEED_OK ? stored : widened;
    char error[16];
    snprintf(error, sizeof error, "%.1e", largest_error(memory));
    print_row(name, &layer, time.milliseconds, error);
    return HEED_OK;
}

int tool_demo_types(void) {
    struct memory *memory = malloc(sizeof *memory);
    if (!memory)
        return tool_fail("out of memory for the layer");
    layer_fill(memory->qkv);
    printf("     %-10s %12s %10s   %s\n", "", "milliseconds", "MiB", "largest error / largest number");
    const bool good = print_floats(memory) == HEED_OK && print_halves("bf16", HEED_BF16, memory) == HEED_OK &&
                      print_halves("f16", HEED_F16, memory) == HEED_OK;
    free(memory);
    return good ? TOOL_OK : tool_fail("%s", heed_error_message());
}
