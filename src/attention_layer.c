/* heed_attention_layer: products with the fused weights, or those of values apart, norms, rotation, the cache, attention, and the
 * product with the output weights, as one call on one workspace.  All of its steps are checked before the first one runs. */
#include <stddef.h>

#include "attention.h"
#include "attention_memory.h"
#include "dispatch.h"
#include "error.h"
#include "gemm.h"
#include "internal.h"
#include "kv_append.h"
#include "kv_cache.h"
#include "norm.h"
#include "region.h"
#include "rope.h"
#include "rows.h"
#include "schedule.h"
#include "sequences.h"
#include "types.h"
#include "workspace.h"

/* Rows of floats between the products, and where they are. */
struct layout {
    int64_t rows;
    int64_t query, key, value, columns; /* where each begins in a row, and how long that is */
    int64_t output_columns;
    int64_t floats;
};

struct steps {
    struct heed_linear qkv, out;
    struct heed_linear value;              /* without outputs: none */
    struct heed_norm query_norm, key_norm; /* in place; without gain: none */
    struct heed_rope rope;                 /* of queries, and of keys beside them unless they go to a cache, in place */
    struct heed_kv_append append;          /* with a cache */
    struct heed_attention attention;
    const int64_t *positions; /* the layer's */
};

/* For what asks how much workspace a call needs: no tensor of a program is there. */
static float *nowhere(void) { return (float *)(UINTPTR_MAX / 2 + 1); }

static enum heed_status check_columns(const char *name, int64_t columns, const char *what, int64_t want) {
    if (columns == want)
        return HEED_OK;
    return heed_fail(HEED_INVALID_ARGUMENT, "%s is %lld, must be %lld: %s", name, (long long)columns, (long long)want, what);
}

static bool add_heads(int64_t *columns, int64_t heads, int64_t width) {
    int64_t more;
    return !__builtin_mul_overflow(heads, width, &more) && !__builtin_add_overflow(*columns, more, columns);
}

static enum heed_status check_sizes(const struct heed_attention *a) {
    const struct heed_limit sizes[] = {
        {"attention: batch", a->batch, 0, INT64_MAX},
        {"attention: num_heads", a->num_heads, 0, INT64_MAX},
        {"attention: num_kv_heads", a->num_kv_heads, 0, INT64_MAX},
        {"attention: query_tokens", a->query_tokens, 0, INT64_MAX},
        {"attention: head_dim", a->head_dim, 1, INT64_MAX},
        {"attention: value_dim", a->value_dim, 1, INT64_MAX},
    };
    return heed_check_limits(sizes, sizeof sizes / sizeof *sizes);
}

static enum heed_status check_weights(const struct heed_attention_layer *layer, const struct layout *layout) {
    const struct heed_weights *value = &layer->value;
    const bool apart = value->outputs != 0;
    if (check_columns("qkv.outputs", layer->qkv.outputs,
                      apart ? "queries of all heads, and keys" : "queries of all heads, keys, and values",
                      apart ? layout->value : layout->columns))
        return HEED_INVALID_ARGUMENT;
    if (apart && (check_columns("value.outputs", value->outputs, "values", layout->columns - layout->value) ||
                  check_columns("value.inputs", value->inputs, "qkv.inputs", layer->qkv.inputs)))
        return HEED_INVALID_ARGUMENT;
    return check_columns("out.inputs", layer->out.inputs, "outputs of all heads", layout->output_columns);
}

static enum heed_status lay_out(const struct heed_attention_layer *layer, struct layout *layout) {
    const struct heed_attention *a = &layer->attention;
    int64_t floats;
    *layout = (struct layout){.rows = a->query_tokens};
    if (check_sizes(a))
        return HEED_INVALID_ARGUMENT;
    bool fits = add_heads(&layout->key, a->num_heads, a->head_dim);
    layout->value = layout->key;
    fits = fits && add_heads(&layout->value, a->num_kv_heads, a->head_dim);
    layout->columns = layout->value;
    fits = fits && add_heads(&layout->columns, a->num_kv_heads, a->value_dim) &&
           add_heads(&layout->output_columns, a->num_heads, a->value_dim) &&
           !__builtin_add_overflow(layout->columns, layout->output_columns, &floats) &&
           (a->query_starts || !__builtin_mul_overflow(a->batch, a->query_tokens, &layout->rows)) &&
           !__builtin_mul_overflow(floats, layout->rows, &floats) && floats < PTRDIFF_MAX / 16;
    if (!fits)
        return heed_fail(HEED_INVALID_ARGUMENT, "attention: query_tokens is %lld, times batch and heads it overflows",
                         (long long)a->query_tokens);
    layout->floats = workspace_round(layout->rows * layout->columns) + layout->rows * layout->output_columns;
    return check_weights(layer, layout);
}

static struct heed_input input_view(const struct heed_attention *a, float *data, int64_t width, int64_t stride) {
    return (struct heed_input){
        .data = data, .batch_stride = a->query_tokens * stride, .head_stride = width, .token_stride = stride};
}

static struct heed_norm norm_of(const struct heed_attention_layer *layer, const struct layout *layout, float *rows, int64_t heads,
                                const float *gain) {
    const int64_t width = layer->attention.head_dim;
    return (struct heed_norm){.rows = heads > 0 ? layout->rows : 0,
                              .heads = heads,
                              .columns = width,
                              .epsilon = layer->head_norm.epsilon,
                              .gain = gain,
                              .input = {rows, 0, width, layout->columns, HEED_F32},
                              .output = {rows, 0, width, layout->columns, HEED_F32}};
}

static struct heed_rope rope_of(const struct heed_attention_layer *layer, const struct layout *layout, float *rows) {
    const struct heed_attention *a = &layer->attention;
    const struct heed_input view = input_view(a, rows, a->head_dim, layout->columns);
    return (struct heed_rope){.batch = a->batch,
                              .num_heads = a->num_heads + (a->cache ? 0 : a->num_kv_heads),
                              .tokens = a->query_tokens,
                              .head_dim = a->head_dim,
                              .starts = a->query_starts,
                              .positions = layer->positions,
                              .tables = layer->rope,
                              .input = view,
                              .output = {rows, view.batch_stride, view.head_stride, view.token_stride, HEED_F32}};
}

static void make_attention(const struct heed_attention_layer *layer, const struct layout *layout, float *rows, float *outputs,
                           struct steps *steps) {
    struct heed_attention *a = &steps->attention;
    *a = layer->attention;
    a->query = input_view(a, rows, a->head_dim, layout->columns);
    a->key = input_view(a, rows + layout->key, a->head_dim, layout->columns);
    a->value = input_view(a, rows + layout->value, a->value_dim, layout->columns);
    a->output = (struct heed_output){.data = outputs,
                                     .batch_stride = a->query_tokens * layout->output_columns,
                                     .head_stride = a->value_dim,
                                     .token_stride = layout->output_columns};
    if (a->cache) {
        steps->append = (struct heed_kv_append){.batch = a->batch,
                                                .tokens = a->query_tokens,
                                                .starts = a->query_starts,
                                                .positions = layer->positions,
                                                .rope = layer->rope,
                                                .key = a->key,
                                                .value = a->value,
                                                .cache = a->cache};
        a->key = a->value = (struct heed_input){.data = NULL};
        return;
    }
    a->key_tokens = a->query_tokens;
    a->key_starts = a->query_starts;
}

static void make_steps(const struct heed_attention_layer *layer, const struct layout *layout, float *rows, struct steps *steps) {
    float *outputs = rows + workspace_round(layout->rows * layout->columns);
    *steps = (struct steps){.qkv = {.rows = layout->rows,
                                    .weights = layer->qkv,
                                    .compute = layer->attention.compute,
                                    .input = layer->input,
                                    .output = {.data = rows, .token_stride = layout->columns}},
                            .out = {.rows = layout->rows,
                                    .weights = layer->out,
                                    .compute = layer->attention.compute,
                                    .input = {.data = outputs, .token_stride = layout->output_columns},
                                    .residual = layer->residual,
                                    .output = layer->output},
                            .positions = layer->positions};
    steps->value = steps->qkv;
    steps->value.weights = layer->value;
    steps->value.output.data = rows + layout->value;
    const struct heed_head_norm *norm = &layer->head_norm;
    steps->query_norm = norm_of(layer, layout, rows, layer->attention.num_heads, norm->query_gain);
    steps->key_norm = norm_of(layer, layout, rows + layout->key, layer->attention.num_kv_heads, norm->key_gain);
    if (layer->rope.pairs != 0)
        steps->rope = rope_of(layer, layout, rows);
    make_attention(layer, layout, rows, outputs, steps);
}

static enum heed_status check_outputs(const struct heed_attention *a) {
    if (a->weights.data || a->lse.data || a->scores.data || a->states.output.data || a->states.max.data || a->states.sum.data ||
        a->mass.data)
        return heed_fail(HEED_INVALID_ARGUMENT, "weights, lse, scores, states or mass are set, must be NULL in a layer");
    return HEED_OK;
}

/* Attention says the rest about starts. */
static enum heed_status check_starts(const struct heed_attention *a) {
    if (a->query_starts && (a->query_starts[0] != 0 || a->query_starts[a->batch] != a->query_tokens))
        return heed_fail(HEED_INVALID_ARGUMENT, "query_starts go from %lld to %lld, must be from 0 to %lld",
                         (long long)a->query_starts[0], (long long)a->query_starts[a->batch], (long long)a->query_tokens);
    return HEED_OK;
}

/* What goes by positions stands where the new keys are. */
static enum heed_status check_offset(const struct heed_attention *a, int64_t b, int64_t position) {
    const int64_t offset = heed_attention_sequence(a, b).offset + a->key_position;
    if (offset == position || !(a->causal || a->window.on || a->alibi_slopes || a->relative.table))
        return HEED_OK;
    return heed_fail(HEED_INVALID_ARGUMENT, "alignment has sequence %lld begin at position %lld, but positions say %lld",
                     (long long)b, (long long)offset, (long long)position);
}

/* Positions have been checked.  Packed sequences are not padded, so lengths count all of their tokens. */
static enum heed_status check_key_tokens(const struct heed_attention *a, const int64_t *positions) {
    const struct heed_sequences sequences = {a->batch, a->query_tokens, a->query_starts, positions};
    for (int64_t b = 0; b < a->batch; b++) {
        const int64_t queries = sequences_begin(&sequences, b + 1) - sequences_begin(&sequences, b);
        const int64_t tokens = sequences_position(&sequences, b) + queries;
        const bool short_length = a->query_starts && a->key_lengths && a->key_position + a->key_lengths[b] < tokens;
        if (queries > 0 && (short_length || a->key_position + a->key_tokens < tokens))
            return heed_fail(HEED_INVALID_ARGUMENT, "%s is %lld, but sequence %lld has %lld tokens with the new ones",
                             short_length ? "key_lengths" : "key_tokens",
                             (long long)(short_length ? a->key_lengths[b] : a->key_tokens), (long long)b, (long long)tokens);
        if (queries > 0 && check_offset(a, b, tokens - queries))
            return HEED_INVALID_ARGUMENT;
    }
    return HEED_OK;
}

/* Each is legal, and nothing of it is in `output`. */
static enum heed_status check_regions_apart(const struct heed_region *output, struct heed_region *inputs, int count) {
    for (int i = 0; i < count; i++)
        if (heed_region_check(&inputs[i]) || heed_region_check_apart(output, &inputs[i]))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

/* Nor of weights, masks and arrays. */
static enum heed_status check_steps_apart(const struct steps *steps, const struct heed_region *output) {
    if (heed_attention_check_apart(&steps->attention, output) || heed_linear_check_apart(&steps->qkv, output) ||
        (steps->value.weights.outputs != 0 && heed_linear_check_apart(&steps->value, output)))
        return HEED_INVALID_ARGUMENT;
    return heed_linear_check_apart(&steps->out, output);
}

/* Appending writes before all inputs have been read. */
static enum heed_status check_cache_apart(const struct steps *steps) {
    const struct heed_linear *qkv = &steps->qkv, *out = &steps->out;
    const int64_t rows = out->rows, outputs = out->weights.outputs;
    struct heed_region cache[HEED_KV_REGIONS], views[] = {heed_rows_optional_view("input", &qkv->input, rows, qkv->weights.inputs),
                                                          heed_rows_optional_view("residual", &out->residual, rows, outputs),
                                                          heed_rows_output("output", &out->output, rows, outputs)};
    if (heed_kv_cache_check(steps->append.cache, steps->append.batch, cache))
        return HEED_INVALID_ARGUMENT;
    if (check_regions_apart(&cache[HEED_KV_DATA], views, 3))
        return HEED_INVALID_ARGUMENT;
    return check_steps_apart(steps, &cache[HEED_KV_DATA]);
}

/* What the first steps read is no longer needed when the output is written, but that would be the end of it. */
static enum heed_status check_output_apart(const struct steps *steps) {
    const struct heed_linear *out = &steps->out;
    const struct heed_rope_tables *tables = &steps->rope.tables;
    const struct heed_attention *attention = &steps->attention;
    struct heed_region output = heed_rows_output("output", &out->output, out->rows, out->weights.outputs);
    struct heed_region cache[HEED_KV_REGIONS],
        inputs[] = {
            heed_rope_region(heed_rope_fields.cos, tables, tables->cos, tables->pairs != 0),
            heed_rope_region(heed_rope_fields.sin, tables, tables->sin, tables->pairs != 0),
            heed_sequences_region("positions", steps->positions, attention->batch),
            heed_rows_optional("head_norm.query_gain", steps->query_norm.gain, 1, attention->head_dim, 0),
            heed_rows_optional("head_norm.key_gain", steps->key_norm.gain, 1, attention->head_dim, 0),
        };
    if (heed_region_check(&output) || check_regions_apart(&output, inputs, sizeof inputs / sizeof *inputs))
        return HEED_INVALID_ARGUMENT;
    if (attention->cache &&
        (heed_kv_cache_check(attention->cache, attention->batch, cache) || check_regions_apart(&output, cache, HEED_KV_REGIONS)))
        return HEED_INVALID_ARGUMENT;
    return check_steps_apart(steps, &output);
}

/* Products that do not wait for one another; how many. */
static int64_t projections_of(const struct steps *steps, struct heed_linear projections[2]) {
    projections[0] = steps->qkv, projections[1] = steps->value;
    return steps->value.weights.outputs != 0 ? 2 : 1;
}

/* Bytes of workspace that any step needs, -1 if one of them is not legal. */
static int64_t check_steps(const struct steps *steps, const struct heed_exec *exec) {
    struct heed_plan plan;
    const int64_t qkv = heed_linear_workspace_bytes(&steps->qkv, exec);
    if (qkv < 0)
        return heed_fail_in("qkv"), -1;
    const int64_t value = steps->value.weights.outputs != 0 ? heed_linear_workspace_bytes(&steps->value, exec) : 0;
    if (value < 0)
        return heed_fail_in("value"), -1;
    struct heed_linear projections[2];
    const int64_t count = projections_of(steps, projections),
                  projecting = count > 1 ? heed_linear_group_workspace_bytes(projections, count, exec) : qkv;
    if (projecting < 0)
        return -1;
    if (check_outputs(&steps->attention) || heed_attention_plan(&steps->attention, exec, &plan) || check_starts(&steps->attention))
        return heed_fail_in("attention"), -1;
    if ((steps->query_norm.gain && heed_norm_check(&steps->query_norm)) ||
        (steps->key_norm.gain && heed_norm_check(&steps->key_norm)))
        return heed_fail_in("head_norm"), -1;
    if (steps->rope.tables.pairs != 0 && heed_rope_check(&steps->rope, &heed_rope_fields))
        return -1;
    if (steps->append.cache && heed_kv_append_check(&steps->append))
        return heed_fail_in("append"), -1;
    if (steps->append.cache && check_key_tokens(&steps->attention, steps->append.positions))
        return heed_fail_in("attention"), -1;
    const int64_t out = heed_linear_workspace_bytes(&steps->out, exec);
    if (out < 0)
        return heed_fail_in("out"), -1;
    if (check_output_apart(steps) || (steps->append.cache && check_cache_apart(steps)))
        return -1;
    return max_i64(max_i64(projecting, out), plan.workspace_bytes);
}

static enum heed_status check(const struct heed_attention_layer *layer, const struct heed_exec *exec, struct layout *layout) {
    const struct heed_kernels *kernels;
    if (!layer)
        return heed_fail(HEED_INVALID_ARGUMENT, "layer is NULL");
    const enum heed_status status = heed_exec_check(exec);
    if (status)
        return status;
    return lay_out(layer, layout) ? HEED_INVALID_ARGUMENT : heed_kernels_for(exec, &kernels);
}

/* Floats of workspace: for the rows, and behind them for the step that needs most.  -1 if a step is not legal. */
static int64_t floats_of(const struct heed_attention_layer *layer, const struct layout *layout, const struct heed_exec *exec) {
    struct steps steps;
    make_steps(layer, layout, nowhere(), &steps);
    const int64_t bytes = check_steps(&steps, exec);
    return bytes < 0 ? -1 : workspace_round(layout->floats) + bytes / (int64_t)sizeof(float);
}

HEED_API int64_t heed_attention_layer_workspace_bytes(const struct heed_attention_layer *layer, const struct heed_exec *exec) {
    struct layout layout;
    if (check(layer, exec, &layout))
        return -1;
    const struct heed_exec once = heed_exec_once(exec);
    const int64_t floats = floats_of(layer, &layout, &once);
    return floats < 0 || workspace_check_floats(floats) ? -1 : workspace_bytes(floats);
}

static enum heed_status run_steps(const struct steps *steps, const struct heed_exec *exec) {
    struct heed_linear projections[2];
    const int64_t count = projections_of(steps, projections);
    enum heed_status status = count > 1 ? heed_linear_group(projections, count, exec) : heed_linear(projections, exec);
    if (status == HEED_OK && steps->query_norm.gain)
        status = heed_rms_norm(&steps->query_norm, exec);
    if (status == HEED_OK && steps->key_norm.gain)
        status = heed_rms_norm(&steps->key_norm, exec);
    if (status == HEED_OK && steps->rope.tables.pairs != 0)
        status = heed_rope(&steps->rope, exec);
    if (status == HEED_OK && steps->append.cache)
        status = heed_kv_append(&steps->append, exec);
    if (status == HEED_OK)
        status = heed_attention(&steps->attention, exec);
    return status ? status : heed_linear(&steps->out, exec);
}

/* On one workspace, so that there is memory for all steps before the first one writes to the cache. */
HEED_API enum heed_status heed_attention_layer(const struct heed_attention_layer *layer, const struct heed_exec *exec) {
    struct layout layout;
    struct steps steps;
    struct heed_workspace workspace;
    enum heed_status status = check(layer, exec, &layout);
    if (status)
        return status;
    struct heed_exec once = heed_exec_once(exec);
    const int64_t floats = floats_of(layer, &layout, &once), rows = workspace_round(layout.floats);
    if (floats < 0)
        return HEED_INVALID_ARGUMENT;
    if (workspace_check_floats(floats))
        return HEED_OUT_OF_MEMORY;
    status = workspace_open(&workspace, exec, floats);
    if (status)
        return status;
    once.workspace = workspace.data + rows;
    once.workspace_bytes = (floats - rows) * (int64_t)sizeof(float);
    make_steps(layer, &layout, workspace.data, &steps);
    status = run_steps(&steps, &once);
    workspace_close(&workspace);
    return status;
}
