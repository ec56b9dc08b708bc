/* What an attention request may be; the first thing that is wrong becomes the message.  Numbers and arrays of numbers here, memory
 * in attention_memory.c. */
#include <inttypes.h>
#include <math.h>

#include "attention.h"
#include "attention_memory.h"
#include "error.h"
#include "internal.h"
#include "region.h"
#include "sequences.h"

/* Of tokens, positions and distances: their sums cannot overflow. */
#define MOST_TOKENS (INT64_C(1) << 48)

static enum heed_status check_sizes(const struct heed_attention *request) {
    const struct heed_limit sizes[] = {
        {"batch", request->batch, 0, INT64_MAX - 1}, /* starts are one more */
        {"num_heads", request->num_heads, 0, INT64_MAX},
        {"num_kv_heads", request->num_kv_heads, request->num_heads > 0, INT64_MAX},
        {"query_tokens", request->query_tokens, 0, MOST_TOKENS},
        {"key_tokens", request->key_tokens, 0, MOST_TOKENS},
        {"head_dim", request->head_dim, 1, INT32_MAX},
        {"value_dim", request->value_dim, 1, INT32_MAX},
        {"key_position", request->key_position, 0, MOST_TOKENS},
        {"mass_queries", request->mass_queries, 0, INT64_MAX},
    };
    int64_t rows;
    if (heed_check_limits(sizes, sizeof sizes / sizeof *sizes))
        return HEED_INVALID_ARGUMENT;
    if (request->num_heads % (request->num_kv_heads ? request->num_kv_heads : 1))
        return heed_fail(HEED_INVALID_ARGUMENT, "num_kv_heads is %" PRId64 ", must divide num_heads, which is %" PRId64,
                         request->num_kv_heads, request->num_heads);
    if (__builtin_mul_overflow(request->batch, request->num_heads, &rows) ||
        __builtin_mul_overflow(rows, max_i64(1, request->query_tokens), &rows) || rows > INT64_MAX / 64)
        return heed_fail(HEED_INVALID_ARGUMENT,
                         "query is too large: batch %" PRId64 ", num_heads %" PRId64 ", query_tokens %" PRId64, request->batch,
                         request->num_heads, request->query_tokens);
    if (request->key_position % HEED_CHUNK)
        return heed_fail(HEED_INVALID_ARGUMENT, "key_position is %" PRId64 ", must be a multiple of %d", request->key_position,
                         HEED_CHUNK);
    return HEED_OK;
}

static enum heed_status check_options(const struct heed_attention *request) {
    const struct heed_limit limits[] = {
        {"compute", (int)request->compute, HEED_COMPUTE_F32, HEED_COMPUTE_I8},
        {"alignment", (int)request->alignment, HEED_ALIGN_TOP_LEFT, HEED_ALIGN_OFFSETS},
        {"score_stage", (int)request->score_stage, HEED_SCORES_RAW, HEED_SCORES_BIASED},
        {"window.left", request->window.left, -1, MOST_TOKENS},
        {"window.right", request->window.right, -1, MOST_TOKENS},
        {"tree.keys", request->tree.words ? request->tree.keys : 0, 0, MOST_TOKENS},
    };
    if (heed_check_limits(limits, sizeof limits / sizeof *limits))
        return HEED_INVALID_ARGUMENT;
    if (!request->window.on && (request->window.left != 0 || request->window.right != 0))
        return heed_fail(HEED_INVALID_ARGUMENT, "window.on is false, but window.left is %" PRId64 " and window.right is %" PRId64,
                         request->window.left, request->window.right);
    if (!isfinite(request->scale))
        return heed_fail(HEED_INVALID_ARGUMENT, "scale is %f, must be finite", (double)request->scale);
    if (!isfinite(request->softcap) || request->softcap < 0.0f)
        return heed_fail(HEED_INVALID_ARGUMENT, "softcap is %f, must be finite and at least 0", (double)request->softcap);
    if (request->alignment == HEED_ALIGN_OFFSETS && !request->query_offsets && request->batch > 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "query_offsets is NULL, but alignment is HEED_ALIGN_OFFSETS");
    if (request->alignment != HEED_ALIGN_OFFSETS && request->query_offsets)
        return heed_fail(HEED_INVALID_ARGUMENT, "query_offsets is set, but alignment is not HEED_ALIGN_OFFSETS");
    return HEED_OK;
}

static enum heed_status check_relative(const struct heed_relative *relative) {
    const int64_t directions = relative->bidirectional ? 2 : 1, exact = relative->num_buckets / directions / 2;
    if (!relative->table)
        return HEED_OK;
    if (heed_check_range("relative.num_buckets", relative->num_buckets, 2 * directions, HEED_MAX_BUCKETS))
        return HEED_INVALID_ARGUMENT;
    if (relative->num_buckets % directions)
        return heed_fail(HEED_INVALID_ARGUMENT, "relative.num_buckets is %" PRId64 ", must be even if bidirectional",
                         relative->num_buckets);
    return heed_check_range("relative.max_distance", relative->max_distance, exact + 1, 65536);
}

static enum heed_status check_numbers(const char *name, const int64_t *numbers, int64_t batch, int64_t least, int64_t most) {
    if ((uintptr_t)numbers % _Alignof(int64_t))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %p, not aligned to int64_t", name, (const void *)numbers);
    for (int64_t b = 0; numbers && b < batch; b++)
        if (numbers[b] < least || numbers[b] > most)
            return heed_fail(HEED_INVALID_ARGUMENT, "%s[%" PRId64 "] is %" PRId64 ", must be from %" PRId64 " to %" PRId64, name, b,
                             numbers[b], least, most);
    return HEED_OK;
}

static enum heed_status check_sequences(const struct heed_attention *request) {
    const int64_t batch = request->batch;
    if (heed_check_starts("query_starts", request->query_starts, batch, request->query_tokens) ||
        heed_check_starts("key_starts", request->key_starts, batch, request->key_tokens) ||
        check_numbers("key_lengths", request->key_lengths, batch, 0, request->key_tokens))
        return HEED_INVALID_ARGUMENT;
    for (int64_t b = 0; request->key_starts && request->key_lengths && b < batch; b++) {
        const int64_t most = request->key_starts[b + 1] - request->key_starts[b];
        if (request->key_lengths[b] > most)
            return heed_fail(HEED_INVALID_ARGUMENT,
                             "key_lengths[%" PRId64 "] is %" PRId64 ", must be at most %" PRId64 ", the keys of its sequence", b,
                             request->key_lengths[b], most);
    }
    if (request->alignment != HEED_ALIGN_OFFSETS)
        return HEED_OK;
    return check_numbers("query_offsets", request->query_offsets, batch, -MOST_TOKENS, MOST_TOKENS);
}

/* The cache's pages that the queries of a sequence see exist and still hold their keys. */
static enum heed_status check_pages(const struct heed_attention *request, int64_t batch) {
    const struct attention_sequence s = heed_attention_sequence(request, batch);
    if (s.queries == 0)
        return HEED_OK;
    const struct attention_range first = heed_attention_range(request, &s, 0),
                                 last = heed_attention_range(request, &s, s.queries - 1);
    const int64_t kept = s.keys + request->key_position - kv_capacity(request->cache);
    if (first.begin >= last.end)
        return HEED_OK;
    if (request->cache->pages_per_sequence == 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "cache.pages_per_sequence is 0, but sequence %" PRId64 " has %" PRId64 " keys",
                         batch, s.keys);
    if (request->key_position + first.begin < kept)
        return heed_fail(HEED_INVALID_ARGUMENT,
                         "cache has room for %" PRId64 " tokens of a sequence, so of sequence %" PRId64
                         " it has those from position %" PRId64 " on, but queries see position %" PRId64,
                         kv_capacity(request->cache), batch, kept, request->key_position + first.begin);
    return heed_kv_pages_check(request->cache, batch, request->key_position + first.begin, request->key_position + last.end);
}

static enum heed_status check_cache(const struct heed_attention *request) {
    const struct heed_kv_cache *cache = request->cache;
    if (!cache)
        return HEED_OK;
    const struct {
        const char *name;
        int64_t cache, request;
    } same[] = {{"num_kv_heads", cache->num_kv_heads, request->num_kv_heads},
                {"head_dim", cache->head_dim, request->head_dim},
                {"value_dim", cache->value_dim, request->value_dim}};
    for (unsigned i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i].cache != same[i].request)
            return heed_fail(HEED_INVALID_ARGUMENT, "cache.%s is %" PRId64 ", but %s is %" PRId64, same[i].name, same[i].cache,
                             same[i].name, same[i].request);
    if (request->key.data || request->value.data || request->key_starts)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is set, must be NULL with a cache",
                         request->key.data     ? "key"
                         : request->value.data ? "value"
                                               : "key_starts");
    return HEED_OK;
}

enum heed_status heed_attention_check(const struct heed_attention *request) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "attention is NULL");
    if (check_sizes(request) || check_options(request) || check_relative(&request->relative) || check_sequences(request) ||
        check_cache(request) || heed_attention_check_memory(request))
        return HEED_INVALID_ARGUMENT;
    const bool reads_pages = request->cache && request->num_heads > 0 && request->query_tokens > 0;
    for (int64_t b = 0; reads_pages && b < request->batch; b++)
        if (check_pages(request, b))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}
