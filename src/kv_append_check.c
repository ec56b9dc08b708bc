/* What a request to append to a cache may be; the first thing that is wrong becomes the message. */
#include <stdbool.h>

#include "error.h"
#include "kv_append.h"
#include "kv_cache.h"
#include "rope.h"

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

/* Rows of keys or values; those of packed sequences follow one another. */
static struct heed_region region_of_rows(const char *name, const struct heed_kv_append *request, int64_t width,
                                         const struct heed_input *view) {
    return heed_region_of_view(name, view, request->starts, request->batch, request->cache->num_kv_heads, request->tokens, width);
}

static enum heed_status check_memory(const struct heed_kv_append *request, const struct heed_region cache[HEED_KV_REGIONS]) {
    const bool turns = request->batch > 0 && request->tokens > 0;
    struct heed_region inputs[INPUTS] = {
        [KEY] = region_of_rows("key", request, request->cache->head_dim, &request->key),
        [VALUE] = region_of_rows("value", request, request->cache->value_dim, &request->value),
        [COS] = heed_rope_region(heed_rope_fields.cos, &request->rope, request->rope.cos, turns),
        [SIN] = heed_rope_region(heed_rope_fields.sin, &request->rope, request->rope.sin, turns),
        [STARTS] = heed_sequences_region("starts", request->starts, request->batch + 1),
        [POSITIONS] = heed_sequences_region("positions", request->positions, request->batch),
    };
    for (int i = 0; i < INPUTS; i++)
        if (heed_region_check(&inputs[i]) || heed_region_check_apart(&cache[HEED_KV_DATA], &inputs[i]))
            return HEED_INVALID_ARGUMENT;
    for (int i = HEED_KV_TABLE; i < HEED_KV_REGIONS; i++)
        if (heed_region_check_apart(&cache[HEED_KV_DATA], &cache[i]))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

/* Where sequence b's tokens go: there are such positions, cosines and pages. */
static enum heed_status check_sequence(const struct heed_kv_append *request, const struct heed_sequences *sequences, int64_t b) {
    const int64_t tokens = sequences_begin(sequences, b + 1) - sequences_begin(sequences, b),
                  from = sequences_position(sequences, b);
    if (heed_rope_check_positions(&request->rope, &heed_rope_fields, sequences, b))
        return HEED_INVALID_ARGUMENT;
    const int64_t written = min_i64(tokens, kv_capacity(request->cache));
    return heed_kv_pages_check(request->cache, b, from + tokens - written, from + tokens);
}

static enum heed_status check_sequences(const struct heed_kv_append *request) {
    const struct heed_sequences sequences = append_sequences(request);
    if (sequences_begin(&sequences, request->batch) == sequences_begin(&sequences, 0))
        return HEED_OK;
    if (heed_check_range("cache.pages_per_sequence", request->cache->pages_per_sequence, 1, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    const int64_t unlike = request->cache->page_table ? request->batch : sequences_unlike(&sequences);
    for (int64_t b = 0; b < unlike; b++)
        if (check_sequence(request, &sequences, b))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

enum heed_status heed_kv_append_check(const struct heed_kv_append *request) {
    struct heed_region cache[HEED_KV_REGIONS];
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "append is NULL");
    if (check_sizes(request) || heed_kv_cache_check(request->cache, request->batch, cache) || check_rows(request) ||
        heed_rope_tables_check(&request->rope, &heed_rope_fields, request->cache->head_dim) || check_memory(request, cache))
        return HEED_INVALID_ARGUMENT;
    if (heed_check_starts("starts", request->starts, request->batch, request->tokens))
        return HEED_INVALID_ARGUMENT;
    return check_sequences(request);
}
