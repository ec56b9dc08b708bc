/* heed_linear, with heed_pack_weights, alone or in the caller's workspace. */
#include "fuzz.h"
#include "internal.h"
#include "types.h"

#include <inttypes.h>
#include <stdlib.h>

/* In a workspace of exactly what the call asks for, where it may be asked. */
static enum heed_status call_linear(const void *request, const struct heed_exec *exec) {
    const int64_t bytes = heed_linear_workspace_bytes(request, exec);
    if (bytes <= 0 || bytes > 1 << 24)
        return heed_linear(request, exec);
    struct heed_exec own = exec ? *exec : (struct heed_exec){0};
    own.workspace = aligned_alloc(64, (size_t)bytes);
    own.workspace_bytes = bytes;
    const enum heed_status status = heed_linear(request, &own);
    free(own.workspace);
    return status;
}

static struct rows view_rows(const struct heed_linear *r, const struct heed_input *view, int64_t columns) {
    return typed_rows(view->data, view->type, view->data ? r->rows : 0, columns, view->token_stride);
}

static struct rows weight_rows(const struct heed_weights *w) {
    return w->packed ? (struct rows){w->packed, {1, 1, 1}, {0, 0, 0}, heed_packed_bytes(w)}
                     : typed_rows(w->data, w->type, w->outputs, w->inputs, w->stride);
}

/* What the output is exactly has no role of its own. */
static bool is_output(const struct heed_linear *r, const struct heed_input *view) {
    return view->data == r->output.data && view->token_stride == r->output.token_stride && view->type == r->output.type;
}

static enum marked mark_linear(struct memory *memory, const void *request) {
    const struct heed_linear *r = request;
    const struct heed_weights *w = &r->weights;
    if (r->rows == 0 || w->outputs == 0)
        return MARKED;
    if (is_large(r->rows, w->outputs, w->inputs))
        return MARKED_OUTSIDE;
    const struct rows inputs[] = {
        view_rows(r, &r->input, w->inputs),
        weight_rows(w),
        matrix_rows(w->scales, 1, w->inputs > 0 && w->type == HEED_I8 ? w->outputs : 0, 0),
        matrix_rows(w->bias, 1, w->bias ? w->outputs : 0, 0),
        view_rows(r, &r->gate, is_output(r, &r->gate) ? 0 : w->outputs),
        view_rows(r, &r->residual, is_output(r, &r->residual) ? 0 : w->outputs),
    };
    enum marked marked = MARKED;
    for (int i = w->inputs > 0 ? 0 : 2; i < 6 && marked == MARKED; i++)
        marked = inputs[i].width > 0 && inputs[i].count[2] > 0 ? memory_mark(memory, &inputs[i], ROLE_INPUT) : MARKED;
    const struct rows output = typed_rows(r->output.data, r->output.type, r->rows, w->outputs, r->output.token_stride);
    return marked == MARKED ? memory_mark(memory, &output, ROLE_OUTPUT) : marked;
}

static void print_linear(FILE *file, const void *request) {
    const struct heed_linear *r = request;
    const struct heed_weights *w = &r->weights;
    fprintf(file,
            "linear: %" PRId64 " rows, %" PRId64 " to %" PRId64 ", types %d %d %d %d %d, strides %" PRId64 " %" PRId64 " %" PRId64
            " %" PRId64 " %" PRId64 ", compute %d, activation %d%s%s%s%s\n",
            r->rows, w->inputs, w->outputs, (int)r->input.type, (int)w->type, (int)r->gate.type, (int)r->residual.type,
            (int)r->output.type, r->input.token_stride, w->stride, r->gate.token_stride, r->residual.token_stride,
            r->output.token_stride, (int)r->compute, (int)r->activation, w->packed ? ", packed" : "", w->bias ? ", bias" : "",
            r->gate.data ? ", gate" : "", r->residual.data ? ", residual" : "");
}

static struct heed_input take_view(struct input *in, struct memory *memory, const char *name, int64_t rows, int64_t columns) {
    struct heed_input view = {.type = take_type(in), .token_stride = columns + take_range(in, 0, 3)};
    view.data = new_typed(in, memory, name, view.type, rows, columns, view.token_stride);
    return view;
}

static void take_weights(struct input *in, struct memory *memory, struct heed_weights *w) {
    const int64_t block = type_has_blocks(w->type) ? TYPE_BLOCK : 1;
    w->stride = w->inputs + block * take_range(in, 0, 3);
    w->data = new_weights(in, memory, "weights", w->type, w->outputs, w->inputs, w->stride);
    if (w->type == HEED_I8)
        w->scales = new_matrix(in, memory, "scales", 1, w->outputs, w->outputs, take_fill(in, false));
    if (take_chance(in, 2))
        w->bias = new_matrix(in, memory, "bias", 1, w->outputs, w->outputs, take_fill(in, false));
    if (!take_chance(in, 3))
        return;
    const int64_t each = type_bytes(w->type);
    void *packed = memory_new(memory, "packed", heed_packed_bytes(w) / each, (size_t)each, in);
    if (heed_pack_weights(w, packed, NULL) != HEED_OK)
        fuzz_fail("heed_pack_weights: %s", heed_error_message());
    w->packed = packed;
}

void fuzz_linear(struct input *in) {
    static const struct function function = {call_linear, print_linear, mark_linear, NULL, NULL};
    struct memory memory = {.count = 0};
    struct heed_linear r = {.rows = take_dimension(in)};
    struct heed_weights *w = &r.weights;
    w->outputs = take_dimension(in);
    w->inputs = take_dimension(in);
    w->type = take_chance(in, 2) ? take_type(in) : (enum heed_type)TAKE_OF(in, HEED_I8, HEED_Q8_0, HEED_Q4_0);
    w->inputs =
        round_up(is_large(r.rows, w->outputs, w->inputs) ? w->inputs / 8 : w->inputs, type_has_blocks(w->type) ? TYPE_BLOCK : 1);
    w->outputs = is_large(r.rows, w->outputs, w->inputs) ? w->outputs / 8 : w->outputs;
    r.compute = (enum heed_compute)TAKE_OF(in, HEED_COMPUTE_F32, HEED_COMPUTE_BF16);
    r.activation = (enum heed_activation)take_range(in, HEED_IDENTITY, HEED_SILU);
    take_weights(in, &memory, w);
    r.input = take_view(in, &memory, "input", r.rows, w->inputs);
    struct heed_input output = take_view(in, &memory, "output", r.rows, w->outputs);
    r.output =
        (struct heed_output){.data = (void *)(uintptr_t)output.data, .token_stride = output.token_stride, .type = output.type};
    if (take_chance(in, 2))
        r.gate = take_chance(in, 2) ? output : take_view(in, &memory, "gate", r.rows, w->outputs);
    if (take_chance(in, 2))
        r.residual = take_chance(in, 2) ? output : take_view(in, &memory, "residual", r.rows, w->outputs);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    fuzz_request(in, &function, &memory, &r, changes == 0);
}
