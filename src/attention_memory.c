/* Where the tensors of an attention request lie, and whether they may. */
#include "attention_memory.h"

#include "attention.h"
#include "error.h"
#include "internal.h"
#include "region.h"

enum { MOST_REGIONS = 24 };

/* Inputs first, then outputs.  What is not wanted is not in the list. */
struct regions {
    const struct heed_attention *request;
    int64_t queries, keys; /* of the longest sequence */
    struct heed_region *list;
    int inputs, count;
    enum heed_status status;
};

static void add(struct regions *regions, const struct heed_region *region) {
    regions->list[regions->count++] = *region;
    if (regions->status == HEED_OK)
        regions->status = heed_region_check(&regions->list[regions->count - 1]);
}

/* A [batch, heads, tokens, width] view; with packed tokens the batch is one. */
static void add_view(struct regions *regions, const char *name, bool any_type, bool packed, int64_t heads, int64_t tokens,
                     int64_t width, const struct heed_input *view) {
    struct heed_region region = heed_region_of_view(name, view, packed, regions->request->batch, heads, tokens, width);
    region.any_type = any_type;
    add(regions, &region);
}

static void add_output(struct regions *regions, const char *name, int64_t width, const struct heed_output *view) {
    const struct heed_attention *request = regions->request;
    const struct heed_input input = view_of_output(view);
    const bool any_type = view == &request->output;
    if (view->data)
        add_view(regions, name, any_type, request->query_starts, request->num_heads, request->query_tokens, width, &input);
}

/* `count` elements one after another. */
static void add_array(struct regions *regions, const char *name, const void *data, int element_bytes, int64_t count) {
    if (data)
        add(regions, &(struct heed_region){.name = name,
                                           .data = data,
                                           .element_bytes = element_bytes,
                                           .width = count,
                                           .count = {1, 1, 1},
                                           .stride_name = {"", "", ""}});
}

/* Keys may be any distance apart: what lies between them counts as part of a row. */
static void add_mask(struct regions *regions, const char *name, const void *data, int element_bytes, const int64_t strides[4]) {
    int64_t width;
    if (!data)
        return;
    if (strides[3] < 0) {
        regions->status =
            heed_fail(HEED_INVALID_ARGUMENT, "%s.key_stride is %lld, must be at least 0", name, (long long)strides[3]);
        return;
    }
    if (regions->keys == 0)
        width = 0;
    else if (__builtin_mul_overflow(regions->keys - 1, strides[3], &width) || __builtin_add_overflow(width, 1, &width))
        width = INT64_MAX;
    add(regions, &(struct heed_region){.name = name,
                                       .data = data,
                                       .element_bytes = element_bytes,
                                       .width = width,
                                       .count = {regions->request->batch, regions->request->num_heads, regions->queries},
                                       .stride = {strides[0], strides[1], strides[2]},
                                       .stride_name = {".batch_stride", ".head_stride", ".query_stride"}});
}

static void add_masks(struct regions *regions) {
    const struct heed_attention *request = regions->request;
    const struct heed_mask *mask = &request->mask;
    const struct heed_bias *bias = &request->bias;
    const struct heed_tree *tree = &request->tree;
    add_mask(regions, "mask", mask->data, sizeof *mask->data,
             (const int64_t[]){mask->batch_stride, mask->head_stride, mask->query_stride, mask->key_stride});
    add_mask(regions, "bias", bias->data, sizeof *bias->data,
             (const int64_t[]){bias->batch_stride, bias->head_stride, bias->query_stride, bias->key_stride});
    if (tree->words)
        add(regions, &(struct heed_region){.name = "tree",
                                           .data = tree->words,
                                           .element_bytes = sizeof *tree->words,
                                           .width = ceil_div(tree->keys, 64),
                                           .count = {1, request->batch, regions->queries},
                                           .stride = {0, tree->batch_stride, tree->query_stride},
                                           .stride_name = {"", ".batch_stride", ".query_stride"}});
    if (request->relative.table)
        add(regions, &(struct heed_region){.name = "relative",
                                           .data = request->relative.table,
                                           .width = 1,
                                           .count = {1, request->num_heads, request->relative.num_buckets},
                                           .stride = {0, request->relative.head_stride, request->relative.bucket_stride},
                                           .stride_name = {"", ".head_stride", ".bucket_stride"}});
}

static void add_arrays(struct regions *regions) {
    const struct heed_attention *request = regions->request;
    const int64_t batch = request->batch;
    add_array(regions, "query_starts", request->query_starts, sizeof(int64_t), batch + 1);
    add_array(regions, "key_starts", request->key_starts, sizeof(int64_t), batch + 1);
    add_array(regions, "key_lengths", request->key_lengths, sizeof(int64_t), batch);
    if (request->alignment == HEED_ALIGN_OFFSETS)
        add_array(regions, "query_offsets", request->query_offsets, sizeof(int64_t), batch);
    add_array(regions, "alibi_slopes", request->alibi_slopes, sizeof(float), request->num_heads);
    add_array(regions, "sinks", request->sinks, sizeof(float), request->num_heads);
}

static void add_inputs(struct regions *regions) {
    const struct heed_attention *request = regions->request;
    add_view(regions, "query", true, request->query_starts, request->num_heads, request->query_tokens, request->head_dim,
             &request->query);
    if (request->cache) {
        if (regions->status == HEED_OK)
            regions->status = heed_kv_cache_check(request->cache, request->batch, regions->list + regions->count);
        regions->count += HEED_KV_REGIONS;
    } else {
        add_view(regions, "key", true, request->key_starts, request->num_kv_heads, request->key_tokens, request->head_dim,
                 &request->key);
        add_view(regions, "value", true, request->key_starts, request->num_kv_heads, request->key_tokens, request->value_dim,
                 &request->value);
    }
    add_masks(regions);
    add_arrays(regions);
    regions->inputs = regions->count;
}

static void add_outputs(struct regions *regions) {
    const struct heed_attention *request = regions->request;
    const struct heed_states *states = &request->states;
    const int64_t chunks = ceil_div(regions->keys, HEED_CHUNK);
    int64_t outputs;
    if (__builtin_mul_overflow(chunks, request->value_dim, &outputs))
        outputs = INT64_MAX;
    add_output(regions, "output", request->value_dim, &request->output);
    add_output(regions, "weights", regions->keys, &request->weights);
    add_output(regions, "lse", 1, &request->lse);
    add_output(regions, "scores", regions->keys, &request->scores);
    add_output(regions, "states.output", outputs, &states->output);
    add_output(regions, "states.max", chunks, &states->max);
    add_output(regions, "states.sum", chunks, &states->sum);
    struct heed_input mass = view_of_output(&request->mass);
    mass.token_stride = 0;
    if (mass.data)
        add_view(regions, "mass", false, false, request->num_heads, 1, regions->keys, &mass);
}

static enum heed_status check_wanted(const struct regions *regions) {
    const struct heed_attention *request = regions->request;
    const struct heed_states *states = &request->states;
    const bool any = states->output.data || states->max.data || states->sum.data;
    if (any && !(states->output.data && states->max.data && states->sum.data))
        return heed_fail(HEED_INVALID_ARGUMENT, "states.%s is NULL, but not all of states are",
                         !states->output.data ? "output"
                         : !states->max.data  ? "max"
                                              : "sum");
    if (regions->count == regions->inputs && request->batch > 0 && request->num_heads > 0 && request->query_tokens > 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "output is NULL, and nothing else is wanted");
    return HEED_OK;
}

static int64_t longest(const int64_t *starts, int64_t batch, int64_t tokens) {
    int64_t most = 0;
    if (!starts)
        return tokens;
    for (int64_t b = 0; b < batch; b++)
        most = max_i64(most, starts[b + 1] - starts[b]);
    return most;
}

static struct regions regions_of(const struct heed_attention *request, struct heed_region list[MOST_REGIONS]) {
    return (struct regions){.request = request,
                            .list = list,
                            .queries = longest(request->query_starts, request->batch, request->query_tokens),
                            .keys = longest(request->key_starts, request->batch, request->key_tokens)};
}

enum heed_status heed_attention_check_apart(const struct heed_attention *request, const struct heed_region *output) {
    struct heed_region list[MOST_REGIONS];
    struct regions regions = regions_of(request, list);
    add_masks(&regions);
    add_arrays(&regions);
    for (int i = 0; regions.status == HEED_OK && i < regions.count; i++)
        regions.status = heed_region_check_apart(output, &list[i]);
    return regions.status;
}

enum heed_status heed_attention_check_memory(const struct heed_attention *request) {
    struct heed_region list[MOST_REGIONS];
    struct regions regions = regions_of(request, list);
    add_inputs(&regions);
    add_outputs(&regions);
    if (regions.status || check_wanted(&regions))
        return HEED_INVALID_ARGUMENT;
    for (int out = regions.inputs; out < regions.count; out++) {
        if (heed_region_check_rows_apart(&regions.list[out]))
            return HEED_INVALID_ARGUMENT;
        for (int other = 0; other < out; other++)
            if (heed_region_check_apart(&regions.list[out], &regions.list[other]))
                return HEED_INVALID_ARGUMENT;
    }
    return HEED_OK;
}

static void forget_strides(int64_t *batch, int64_t *head, int64_t *token, const int64_t count[3]) {
    *batch = count[0] > 1 ? *batch : 0;
    *head = count[1] > 1 ? *head : 0;
    *token = count[2] > 1 ? *token : 0;
}

void heed_attention_forget_strides(struct heed_attention *r) {
    const int64_t queries[] = {r->query_starts ? 1 : r->batch, r->num_heads, r->query_tokens};
    const int64_t keys[] = {r->key_starts ? 1 : r->batch, r->num_kv_heads, r->key_tokens}, mass[] = {r->batch, r->num_heads, 1};
    struct heed_input *const inputs[] = {&r->query, &r->key, &r->value};
    struct heed_output *const outputs[] = {&r->output,        &r->weights,    &r->lse,        &r->scores,
                                           &r->states.output, &r->states.max, &r->states.sum, &r->mass};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        forget_strides(&inputs[i]->batch_stride, &inputs[i]->head_stride, &inputs[i]->token_stride, i == 0 ? queries : keys);
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        forget_strides(&outputs[i]->batch_stride, &outputs[i]->head_stride, &outputs[i]->token_stride,
                       outputs[i] == &r->mass ? mass : queries);
}
