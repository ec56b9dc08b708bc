/* heed_linear and heed_linear_group, with heed_pack_weights, and heed_attention_layer, in the caller's workspace. */
#include "fuzz.h"
#include "internal.h"
#include "types.h"

#include <inttypes.h>

enum { MOST_WORKSPACE = 1 << 24 };

/* A workspace of what the call asks for, where it may be asked.  It ends where an array does that is there for good: a hostile
 * request may overlap what is allocated, and would be refused now and not the next time. */
static struct heed_exec exec_with_workspace(const struct heed_exec *exec, int64_t bytes) {
    static _Alignas(64) uint8_t workspace[MOST_WORKSPACE];
    struct heed_exec own = exec ? *exec : (struct heed_exec){0};
    if (bytes > 0 && bytes <= MOST_WORKSPACE) {
        own.workspace = workspace + MOST_WORKSPACE - round_up(bytes, 64);
        own.workspace_bytes = bytes;
    }
    return own;
}

static enum heed_status call_linear(const void *request, const struct heed_exec *exec) {
    const struct heed_exec own = exec_with_workspace(exec, heed_linear_workspace_bytes(request, exec));
    return heed_linear(request, &own);
}

static enum heed_status call_linear_group(const void *request, const struct heed_exec *exec) {
    const struct heed_exec own = exec_with_workspace(exec, heed_linear_group_workspace_bytes(request, 1, exec));
    return heed_linear_group(request, 1, &own);
}

static struct rows view_rows(const struct heed_input *view, int64_t rows, int64_t columns) {
    return typed_rows(view->data, view->type, view->data ? rows : 0, columns, view->token_stride);
}

static struct rows weight_rows(const struct heed_weights *w) {
    return w->packed ? (struct rows){w->packed, {1, 1, 1}, {0, 0, 0}, heed_packed_bytes(w)}
                     : typed_rows(w->data, w->type, w->outputs, w->inputs, w->stride);
}

/* What the output is exactly has no role of its own. */
static bool is_output(const struct heed_output *output, const struct heed_input *view) {
    return view->data == output->data && view->token_stride == output->token_stride && view->type == output->type;
}

static enum marked mark_inputs(struct memory *memory, const struct rows *inputs, int count) {
    enum marked marked = MARKED;
    for (int i = 0; i < count && marked == MARKED; i++)
        marked = inputs[i].width > 0 && inputs[i].count[2] > 0 ? memory_mark(memory, &inputs[i], ROLE_INPUT) : MARKED;
    return marked;
}

static enum marked mark_linear(struct memory *memory, const void *request) {
    const struct heed_linear *r = request;
    const struct heed_weights *w = &r->weights;
    if (r->rows == 0 || w->outputs == 0)
        return MARKED;
    if (is_large(r->rows, w->outputs, w->inputs))
        return MARKED_OUTSIDE;
    const struct rows inputs[] = {
        view_rows(&r->input, r->rows, w->inputs),
        weight_rows(w),
        matrix_rows(w->scales, 1, w->inputs > 0 && w->type == HEED_I8 ? w->outputs : 0, 0),
        matrix_rows(w->bias, 1, w->bias ? w->outputs : 0, 0),
        view_rows(&r->gate, r->rows, is_output(&r->output, &r->gate) ? 0 : w->outputs),
        view_rows(&r->residual, r->rows, is_output(&r->output, &r->residual) ? 0 : w->outputs),
    };
    const enum marked marked = w->inputs > 0 ? mark_inputs(memory, inputs, 6) : mark_inputs(memory, inputs + 2, 4);
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
    const int64_t block = type_block(w->type);
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

static struct heed_output output_of(const struct heed_input *view) {
    return (struct heed_output){.data = (void *)(uintptr_t)view->data, .token_stride = view->token_stride, .type = view->type};
}

void fuzz_linear(struct input *in) {
    static const struct function functions[] = {{call_linear, print_linear, mark_linear, NULL, NULL},
                                                {call_linear_group, print_linear, mark_linear, NULL, NULL}};
    struct memory memory = {.count = 0};
    struct heed_linear r = {.rows = take_dimension(in)};
    struct heed_weights *w = &r.weights;
    w->outputs = take_dimension(in);
    w->inputs = take_dimension(in);
    w->type = take_chance(in, 2) ? take_type(in)
                                 : (enum heed_type)TAKE_OF(in, HEED_I8, HEED_Q8_0, HEED_Q4_0, HEED_Q5_0, HEED_Q4_K, HEED_Q5_K,
                                                           HEED_Q6_K, HEED_IQ4_NL, HEED_MXFP4);
    w->inputs = round_up(is_large(r.rows, w->outputs, w->inputs) ? w->inputs / 8 : w->inputs, type_block(w->type));
    w->outputs = is_large(r.rows, w->outputs, w->inputs) ? w->outputs / 8 : w->outputs;
    r.compute = (enum heed_compute)TAKE_OF(in, HEED_COMPUTE_F32, HEED_COMPUTE_BF16, HEED_COMPUTE_BF16_AMX, HEED_COMPUTE_I8);
    if (r.compute == HEED_COMPUTE_I8 && !type_has_blocks(w->type))
        r.compute = HEED_COMPUTE_F32;
    r.activation = (enum heed_activation)take_range(in, HEED_IDENTITY, HEED_SILU);
    take_weights(in, &memory, w);
    r.input = take_view(in, &memory, "input", r.rows, w->inputs);
    const struct heed_input output = take_view(in, &memory, "output", r.rows, w->outputs);
    r.output = output_of(&output);
    if (take_chance(in, 2))
        r.gate = take_chance(in, 2) ? output : take_view(in, &memory, "gate", r.rows, w->outputs);
    if (take_chance(in, 2))
        r.residual = take_chance(in, 2) ? output : take_view(in, &memory, "residual", r.rows, w->outputs);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    fuzz_request(in, &functions[take_range(in, 0, 1)], &memory, &r, changes == 0);
}

/* --- heed_attention_layer --- */

static enum heed_status call_layer(const void *request, const struct heed_exec *exec) {
    const struct heed_exec own = exec_with_workspace(exec, heed_attention_layer_workspace_bytes(request, exec));
    return heed_attention_layer(request, &own);
}

/* Arrays of attention have their own fuzzer. */
static bool layer_may_be_validated(const struct memory *memory, const void *request) {
    const struct heed_attention *a = &((const struct heed_attention_layer *)request)->attention;
    const void *const arrays[] = {a->query_starts, a->key_lengths,  a->query_offsets,  a->mask.data, a->tree.words,
                                  a->bias.data,    a->alibi_slopes, a->relative.table, a->sinks,     a->cache};
    (void)memory;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i])
            return false;
    return true;
}

static struct rows gain_rows(const struct heed_attention_layer *layer, const float *gain) {
    return matrix_rows(gain, 1, gain ? layer->attention.head_dim : 0, 0);
}

static enum marked mark_layer(struct memory *memory, const void *request) {
    const struct heed_attention_layer *r = request;
    const int64_t rows = r->attention.batch * r->attention.query_tokens;
    if (rows == 0)
        return MARKED;
    if (is_large(rows, r->qkv.outputs, r->qkv.inputs) || is_large(rows, r->value.outputs, r->value.inputs) ||
        is_large(rows, r->out.outputs, r->out.inputs) ||
        is_large(r->attention.num_heads * rows, r->attention.query_tokens, r->attention.head_dim + r->attention.value_dim))
        return MARKED_OUTSIDE;
    const bool in_place = is_output(&r->output, &r->residual);
    const struct rows input = view_rows(&r->input, rows, r->qkv.inputs), first[] = {weight_rows(&r->qkv)},
                      of_values[] = {weight_rows(&r->value)}, second[] = {weight_rows(&r->out)};
    const struct rows output = typed_rows(r->output.data, r->output.type, rows, r->out.outputs, r->output.token_stride);
    const struct rows others[] = {matrix_rows(r->qkv.bias, 1, r->qkv.bias ? r->qkv.outputs : 0, 0),
                                  matrix_rows(r->value.bias, 1, r->value.bias ? r->value.outputs : 0, 0),
                                  matrix_rows(r->out.bias, 1, r->out.bias ? r->out.outputs : 0, 0),
                                  view_rows(&r->residual, rows, in_place ? 0 : r->out.outputs),
                                  gain_rows(r, r->head_norm.query_gain),
                                  gain_rows(r, r->head_norm.key_gain)};
    const bool projects = r->qkv.inputs > 0 && r->qkv.outputs > 0, has_values = projects && r->value.outputs > 0;
    enum marked marked = projects ? memory_mark(memory, &input, ROLE_READ_FIRST) : MARKED;
    if (marked == MARKED)
        marked = mark_inputs(memory, others, 6);
    if (marked == MARKED && projects)
        marked = mark_inputs(memory, first, 1);
    if (marked == MARKED && has_values)
        marked = mark_inputs(memory, of_values, 1);
    if (marked == MARKED && r->out.inputs > 0 && r->out.outputs > 0)
        marked = mark_inputs(memory, second, 1);
    return marked == MARKED && r->out.outputs > 0 ? memory_mark(memory, &output, ROLE_OUTPUT) : marked;
}

static void print_layer(FILE *file, const void *request) {
    const struct heed_attention_layer *r = request;
    const struct heed_attention *a = &r->attention;
    fprintf(file,
            "attention_layer: %" PRId64 " x %" PRId64 " tokens, %" PRId64 " heads on %" PRId64 " of %" PRId64 " and %" PRId64
            ", weights %" PRId64 " x %" PRId64 " and %" PRId64 " x %" PRId64 ", compute %d, causal %d%s\n",
            a->batch, a->query_tokens, a->num_heads, a->num_kv_heads, a->head_dim, a->value_dim, r->qkv.outputs, r->qkv.inputs,
            r->out.outputs, r->out.inputs, (int)a->compute, a->causal, r->residual.data ? ", residual" : "");
}

void fuzz_attention_layer(struct input *in) {
    static const struct function function = {call_layer, print_layer, mark_layer, layer_may_be_validated, NULL};
    struct memory memory = {.count = 0};
    struct heed_attention_layer r = {.qkv = {.inputs = take_dimension(in)}, .out = {.outputs = take_dimension(in)}};
    struct heed_attention *a = &r.attention;
    a->batch = take_range(in, 0, 3), a->query_tokens = take_range(in, 0, 20);
    a->num_kv_heads = take_range(in, 1, 2), a->num_heads = a->num_kv_heads * take_range(in, 1, 2);
    a->head_dim = take_range(in, 1, 20), a->value_dim = take_range(in, 1, 20);
    a->causal = take_chance(in, 2);
    a->compute = (enum heed_compute)TAKE_OF(in, HEED_COMPUTE_F32, HEED_COMPUTE_BF16, HEED_COMPUTE_BF16_AMX);
    r.qkv.outputs = (a->num_heads + a->num_kv_heads) * a->head_dim + a->num_kv_heads * a->value_dim;
    r.out.inputs = a->num_heads * a->value_dim;
    r.qkv.type = take_type(in), r.out.type = take_type(in);
    if (take_chance(in, 3)) {
        r.value = (struct heed_weights){.outputs = a->num_kv_heads * a->value_dim, .inputs = r.qkv.inputs, .type = take_type(in)};
        r.qkv.outputs -= r.value.outputs;
        take_weights(in, &memory, &r.value);
    }
    take_weights(in, &memory, &r.qkv);
    take_weights(in, &memory, &r.out);
    r.input = take_view(in, &memory, "input", a->batch * a->query_tokens, r.qkv.inputs);
    const struct heed_input output = take_view(in, &memory, "output", a->batch * a->query_tokens, r.out.outputs);
    r.output = output_of(&output);
    if (take_chance(in, 2))
        r.residual = take_chance(in, 2) ? output : take_view(in, &memory, "residual", a->batch * a->query_tokens, r.out.outputs);
    if (take_chance(in, 3))
        r.head_norm.query_gain = new_matrix(in, &memory, "query_gain", 1, a->head_dim, 0, take_fill(in, false));
    if (take_chance(in, 3))
        r.head_norm.key_gain = new_matrix(in, &memory, "key_gain", 1, a->head_dim, 0, take_fill(in, false));
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    make_bool(&a->causal);
    make_bool(&a->window.on);
    make_bool(&a->relative.bidirectional);
    fuzz_request(in, &function, &memory, &r, changes == 0);
}
