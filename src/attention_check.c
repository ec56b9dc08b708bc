/* What an attention request may be; the first thing that is wrong becomes the message. */
#include <math.h>

#include "attention.h"
#include "error.h"
#include "region.h"

enum { QUERY, KEY, VALUE, OUTPUT, WEIGHTS, LSE, TENSORS };

static enum heed_status check_sizes(const struct heed_attention *request) {
    const struct {
        const char *name;
        int64_t value, least, most;
    } sizes[] = {
        {"batch", request->batch, 0, INT64_MAX},
        {"num_heads", request->num_heads, 0, INT64_MAX},
        {"num_kv_heads", request->num_kv_heads, request->num_heads > 0, INT64_MAX},
        {"query_tokens", request->query_tokens, 0, INT64_MAX},
        {"key_tokens", request->key_tokens, 0, INT64_MAX},
        {"head_dim", request->head_dim, 1, INT32_MAX},
        {"value_dim", request->value_dim, 1, INT32_MAX},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (heed_check_range(sizes[i].name, sizes[i].value, sizes[i].least, sizes[i].most))
            return HEED_INVALID_ARGUMENT;
    if (request->num_heads % (request->num_kv_heads ? request->num_kv_heads : 1))
        return heed_fail(HEED_INVALID_ARGUMENT, "num_kv_heads is %lld, must divide num_heads, which is %lld",
                         (long long)request->num_kv_heads, (long long)request->num_heads);
    if (!isfinite(request->scale))
        return heed_fail(HEED_INVALID_ARGUMENT, "scale is %f, must be finite", (double)request->scale);
    if ((unsigned)request->alignment > HEED_ALIGN_OFFSETS)
        return heed_fail(HEED_INVALID_ARGUMENT, "alignment is %d, not an enum heed_alignment", (int)request->alignment);
    return HEED_OK;
}

static struct heed_region region_of(const char *name, int64_t batch, int64_t heads, int64_t tokens, int64_t width,
                                    const struct heed_input *view) {
    return (struct heed_region){.name = name,
                                .data = view->data,
                                .width = width,
                                .count = {batch, heads, tokens},
                                .stride = {view->batch_stride, view->head_stride, view->token_stride},
                                .stride_name = {".batch_stride", ".head_stride", ".token_stride"}};
}

static struct heed_input as_input(const struct heed_output *output) {
    return (struct heed_input){output->data, output->batch_stride, output->head_stride, output->token_stride};
}

/* An optional output that is not wanted is empty. */
static struct heed_region optional_region_of(const char *name, const struct heed_attention *request, int64_t width,
                                             const struct heed_output *view) {
    const struct heed_input input = as_input(view);
    return region_of(name, view->data ? request->batch : 0, request->num_heads, request->query_tokens, width, &input);
}

enum heed_status heed_attention_check(const struct heed_attention *request) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "attention is NULL");
    if (check_sizes(request))
        return HEED_INVALID_ARGUMENT;
    const int64_t batch = request->batch, heads = request->num_heads, kv_heads = request->num_kv_heads;
    const struct heed_input output = as_input(&request->output);
    struct heed_region regions[TENSORS] = {
        [QUERY] = region_of("query", batch, heads, request->query_tokens, request->head_dim, &request->query),
        [KEY] = region_of("key", batch, kv_heads, request->key_tokens, request->head_dim, &request->key),
        [VALUE] = region_of("value", batch, kv_heads, request->key_tokens, request->value_dim, &request->value),
        [OUTPUT] = region_of("output", batch, heads, request->query_tokens, request->value_dim, &output),
        [WEIGHTS] = optional_region_of("weights", request, request->key_tokens, &request->weights),
        [LSE] = optional_region_of("lse", request, 1, &request->lse),
    };
    for (int i = 0; i < TENSORS; i++)
        if (heed_region_check(&regions[i]))
            return HEED_INVALID_ARGUMENT;
    for (int out = OUTPUT; out < TENSORS; out++) {
        if (heed_region_check_rows_apart(&regions[out]))
            return HEED_INVALID_ARGUMENT;
        for (int other = 0; other < out; other++)
            if (heed_region_check_apart(&regions[out], &regions[other]))
                return HEED_INVALID_ARGUMENT;
    }
    return HEED_OK;
}
