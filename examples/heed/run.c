/* heed run: attention on NumPy files.  Nothing is written before everything has been read and computed. */
#include "run.h"
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct npy_wanted tensor = {NPY_FLOATS, true, 2, NPY_MAX_RANK};
static const enum heed_type types[] = {[NPY_FLOATS] = HEED_F32, [NPY_BF16] = HEED_BF16, [NPY_F16] = HEED_F16};

/* All false with a message in error. */
static bool read_array(const char *path, const struct run_call *call, int64_t heads, struct npy *array, struct run_layout *layout,
                       struct npy_error *error) {
    if (!npy_read(path, &tensor, array, error))
        return false;
    if (array->rank != call->query.rank) {
        snprintf(error->text, sizeof error->text, "%.200s: the number of dimensions is %d, must be %d as in %.200s", path,
                 array->rank, call->query.rank, call->options->query);
        return false;
    }
    return run_layout_of(path, array, heads, layout, error);
}

static bool equal(const char *path, const char *field, int64_t value, int64_t wanted, const char *other, struct npy_error *error) {
    if (value == wanted)
        return true;
    snprintf(error->text, sizeof error->text, "%.200s: %s is %" PRId64 ", must be %" PRId64 " as in %.200s", path, field, value,
             wanted, other);
    return false;
}

static bool shapes_match(const struct run_call *call, struct npy_error *error) {
    const char *query = call->options->query, *key = call->options->key, *value = call->options->value;
    return equal(key, "batch", call->of_key.batch, call->of_query.batch, query, error) &&
           equal(key, "the width of a head", call->of_key.width, call->of_query.width, query, error) &&
           equal(value, "batch", call->of_value.batch, call->of_query.batch, query, error) &&
           equal(value, "the number of heads", call->of_value.heads, call->of_key.heads, key, error) &&
           equal(value, "the number of tokens", call->of_value.tokens, call->of_key.tokens, key, error);
}

static bool read_inputs(struct run_call *call, struct npy_error *error) {
    const struct run_options *options = call->options;
    int64_t kv_heads = options->kv_heads ? options->kv_heads : options->heads;
    return npy_read(options->query, &tensor, &call->query, error) &&
           run_layout_of(options->query, &call->query, options->heads, &call->of_query, error) &&
           read_array(options->key, call, kv_heads, &call->key, &call->of_key, error) &&
           read_array(options->value, call, kv_heads, &call->value, &call->of_value, error) && shapes_match(call, error);
}

/* --explain needs their sizes and writes none of them. */
static bool make_outputs(struct run_call *call, struct npy_error *error) {
    const struct run_options *options = call->options;
    const int64_t keys = call->of_key.tokens;
    return run_layout_output(options->output ? options->output : "the output", call, &call->output, &call->of_output, error) &&
           (!options->weights || run_layout_rows(options->weights, call, keys, &call->weights, &call->of_weights, error)) &&
           (!options->scores || run_layout_rows(options->scores, call, keys, &call->scores, &call->of_scores, error)) &&
           (!options->lse || run_layout_rows(options->lse, call, RUN_NO_COLUMNS, &call->lse, &call->of_lse, error));
}

static struct heed_input input_of(const struct npy *array, const struct run_layout *layout) {
    return (struct heed_input){array->memory, layout->batch_stride, layout->head_stride, layout->token_stride, types[array->type]};
}

static struct heed_output output_of(const struct npy *array, const struct run_layout *layout) {
    return (struct heed_output){array->memory, layout->batch_stride, layout->head_stride, layout->token_stride, types[array->type]};
}

static bool make_request(struct run_call *call, struct heed_attention *request, struct npy_error *error) {
    const struct run_options *options = call->options;
    *request = (struct heed_attention){
        .batch = call->of_query.batch,
        .num_heads = call->of_query.heads,
        .num_kv_heads = call->of_key.heads,
        .query_tokens = call->of_query.tokens,
        .key_tokens = call->of_key.tokens,
        .head_dim = call->of_query.width,
        .value_dim = call->of_value.width,
        .scale = options->scale,
        .compute = options->compute,
        .causal = options->position.causal,
        .alignment = options->position.alignment,
        .window = options->window,
        .softcap = options->softcap,
        .query = input_of(&call->query, &call->of_query),
        .key = input_of(&call->key, &call->of_key),
        .value = input_of(&call->value, &call->of_value),
        .output = output_of(&call->output, &call->of_output),
        .weights = output_of(&call->weights, &call->of_weights),
        .lse = output_of(&call->lse, &call->of_lse),
        .scores = output_of(&call->scores, &call->of_scores),
        .score_stage = options->score_stage.stage,
    };
    return run_terms(call, request, error);
}

static bool done(enum heed_status status, struct npy_error *error) {
    if (status != HEED_OK)
        snprintf(error->text, sizeof error->text, "%s", heed_error_message());
    return status == HEED_OK;
}

static void print_written(const char *path, const struct npy *array) {
    static const char *const names[] = {[NPY_FLOATS] = "float32", [NPY_BF16] = "bfloat16", [NPY_F16] = "float16"};
    printf("%s: %s [", path, names[array->type]);
    for (int i = 0; i < array->rank; i++)
        printf("%s%" PRId64, i > 0 ? ", " : "", array->shape[i]);
    printf("]\n");
}

static bool write_array(const char *path, const struct npy *array, struct npy_error *error) {
    if (!path)
        return true;
    if (!npy_write(path, array, error))
        return false;
    print_written(path, array);
    return true;
}

static bool write_outputs(const struct run_call *call, struct npy_error *error) {
    const struct run_options *options = call->options;
    return write_array(options->output, &call->output, error) && write_array(options->weights, &call->weights, error) &&
           write_array(options->lse, &call->lse, error) && write_array(options->scores, &call->scores, error);
}

static bool compute(const struct run_call *call, const struct heed_attention *request, struct npy_error *error) {
    return done(heed_attention(request, &call->options->exec), error) && write_outputs(call, error);
}

static bool explain(const struct run_call *call, const struct heed_attention *request, struct npy_error *error) {
    struct heed_plan plan;
    if (!done(heed_attention_plan(request, &call->options->exec, &plan), error))
        return false;
    const int64_t length = heed_explain(&plan, NULL, 0);
    char *text = malloc((size_t)length + 1);
    if (!text) {
        snprintf(error->text, sizeof error->text, "out of memory for an explanation of %" PRId64 " bytes", length);
        return false;
    }
    heed_explain(&plan, text, length + 1);
    fputs(text, stdout);
    free(text);
    return true;
}

int tool_run(int argc, char **argv) {
    struct run_options options;
    int status = run_parse(argc, argv, &options);
    if (status != TOOL_OK)
        return status;
    struct run_call call = {.options = &options};
    struct heed_attention request;
    struct npy_error error;
    bool good = read_inputs(&call, &error) && make_outputs(&call, &error) && make_request(&call, &request, &error) &&
                (options.explain ? explain : compute)(&call, &request, &error);
    struct npy *const arrays[] = {&call.query, &call.key,         &call.value,        &call.output, &call.weights,
                                  &call.lse,   &call.scores,      &call.mask,         &call.bias,   &call.alibi,
                                  &call.sinks, &call.key_lengths, &call.query_offsets};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        npy_free(arrays[i]);
    return good ? TOOL_OK : tool_fail("%s", error.text);
}
