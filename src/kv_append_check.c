/* What a request to append to a cache may be; the first thing that is wrong becomes the message. */
#include <stdbool.h>
#include <stdio.h>

#include "error.h"
#include "kv_append.h"
#include "kv_cache.h"

enum { KEY, VALUE, COS, SIN, STARTS, POSITIONS, INPUTS };

static enum heed_status check_sizes(const struct heed_kv_append *request) {
    if (heed_check_range("batch", request->batch, 0, INT64_MAX - 1) || heed_check_range("tokens", request->tokens, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

/* Rows, which no number of tasks exceeds, can be counted. */
static enum heed_status check_rows(const struct heed_kv_append *request) {
    int64_t rows = request->tokens;
    if ((!request->starts && __builtin_mul_overflow(request->batch, rows, &rows)) ||
        __builtin_mul_overflow(rows, request->cache->num_kv_heads, &rows))
        return heed_fail(HEED_INVALID_ARGUMENT, "tokens is %lld, times batch and cache.num_kv_heads it overflows",
                         (long long)request->tokens);
    return HEED_OK;
}

static enum heed_status check_rope(const struct heed_kv_append *request) {
    const struct heed_rope *rope = &request->rope;
    if (heed_check_range("rope.pairs", rope->pairs, 0, request->cache->head_dim / 2))
        return HEED_INVALID_ARGUMENT;
    if (rope->pairs > 0 && (heed_check_range("rope.positions", rope->positions, 0, INT64_MAX) ||
                            heed_check_range("rope.table_stride", rope->table_stride, rope->pairs, INT64_MAX)))
        return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

/* Rows of keys or values; those of packed sequences follow one another. */
static struct heed_region region_of_rows(const char *name, const struct heed_kv_append *request, int64_t width,
                                         const struct heed_input *view) {
    return (struct heed_region){.name = name,
                                .data = view->data,
                                .type = view->type,
                                .any_type = true,
                                .width = width,
                                .count = {request->starts ? 1 : request->batch, request->cache->num_kv_heads, request->tokens},
                                .stride = {request->starts ? 0 : view->batch_stride, view->head_stride, view->token_stride},
                                .stride_name = {".batch_stride", ".head_stride", ".token_stride"}};
}

static struct heed_region region_of_table(const char *name, const struct heed_kv_append *request, const float *table) {
    const struct heed_rope *rope = &request->rope;
    const bool needed = rope->pairs > 0 && request->batch > 0 && request->tokens > 0;
    return (struct heed_region){.name = name,
                                .data = table,
                                .width = rope->pairs,
                                .count = {1, 1, needed ? rope->positions : 0},
                                .stride = {0, 0, needed ? rope->table_stride : 0},
                                .stride_name = {"", "", ""}};
}

/* NULL: none. */
static struct heed_region region_of_integers(const char *name, const int64_t *integers, int64_t count) {
    return (struct heed_region){.name = name,
                                .data = integers,
                                .element_bytes = sizeof *integers,
                                .width = integers ? count : 0,
                                .count = {1, 1, 1},
                                .stride_name = {"", "", ""}};
}

static enum heed_status check_memory(const struct heed_kv_append *request, const struct heed_region cache[HEED_KV_REGIONS]) {
    struct heed_region inputs[INPUTS] = {
        [KEY] = region_of_rows("key", request, request->cache->head_dim, &request->key),
        [VALUE] = region_of_rows("value", request, request->cache->value_dim, &request->value),
        [COS] = region_of_table("rope.cos", request, request->rope.cos),
        [SIN] = region_of_table("rope.sin", request, request->rope.sin),
        [STARTS] = region_of_integers("starts", request->starts, request->batch + 1),
        [POSITIONS] = region_of_integers("positions", request->positions, request->batch),
    };
    for (int i = 0; i < INPUTS; i++)
        if (heed_region_check(&inputs[i]) || heed_region_check_apart(&cache[HEED_KV_DATA], &inputs[i]))
            return HEED_INVALID_ARGUMENT;
    for (int i = HEED_KV_TABLE; i < HEED_KV_REGIONS; i++)
        if (heed_region_check_apart(&cache[HEED_KV_DATA], &cache[i]))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

static enum heed_status check_starts(const struct heed_kv_append *request) {
    int64_t least = 0;
    for (int64_t b = 0; request->starts && b <= request->batch; b++) {
        char name[40];
        snprintf(name, sizeof name, "starts[%lld]", (long long)b);
        if (heed_check_range(name, request->starts[b], least, request->tokens))
            return HEED_INVALID_ARGUMENT;
        least = request->starts[b];
    }
    return HEED_OK;
}

/* Where sequence b's tokens go: there are such positions, cosines and pages. */
static enum heed_status check_sequence(const struct heed_kv_append *request, int64_t b) {
    const int64_t tokens = append_begin(request, b + 1) - append_begin(request, b), from = append_position(request, b);
    char name[40];
    snprintf(name, sizeof name, "positions[%lld]", (long long)b);
    if (heed_check_range(name, from, 0, INT64_MAX - tokens))
        return HEED_INVALID_ARGUMENT;
    if (tokens > 0 && request->rope.pairs > 0 && from + tokens > request->rope.positions)
        return heed_fail(HEED_INVALID_ARGUMENT, "rope.positions is %lld, must be at least %lld for sequence %lld",
                         (long long)request->rope.positions, (long long)(from + tokens), (long long)b);
    const int64_t written = min_i64(tokens, kv_capacity(request->cache));
    return heed_kv_pages_check(request->cache, b, from + tokens - written, from + tokens);
}

static enum heed_status check_sequences(const struct heed_kv_append *request) {
    if (append_begin(request, request->batch) == append_begin(request, 0))
        return HEED_OK;
    if (heed_check_range("cache.pages_per_sequence", request->cache->pages_per_sequence, 1, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    for (int64_t b = 0; b < request->batch; b++)
        if (check_sequence(request, b))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

enum heed_status heed_kv_append_check(const struct heed_kv_append *request) {
    struct heed_region cache[HEED_KV_REGIONS];
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "append is NULL");
    if (check_sizes(request) || heed_kv_cache_check(request->cache, request->batch, cache) || check_rows(request) ||
        check_rope(request) || check_memory(request, cache) || check_starts(request))
        return HEED_INVALID_ARGUMENT;
    return check_sequences(request);
}
