/* Which keys a query may see by position: the only place that knows packed sequences, alignment, causal and window. */
#include "attention.h"
#include "internal.h"

static int64_t offset_of(const struct heed_attention *request, const struct attention_sequence *sequence) {
    switch (request->alignment) {
    case HEED_ALIGN_BOTTOM_RIGHT:
        return sequence->keys - sequence->queries;
    case HEED_ALIGN_OFFSETS:
        return request->query_offsets[sequence->batch] - request->key_position;
    default:
        return -request->key_position;
    }
}

struct attention_sequence heed_attention_sequence(const struct heed_attention *request, int64_t batch) {
    struct attention_sequence s = {.batch = batch, .queries = request->query_tokens, .keys = request->key_tokens};
    if (request->query_starts) {
        s.first_query = request->query_starts[batch];
        s.queries = request->query_starts[batch + 1] - s.first_query;
    }
    if (request->key_starts) {
        s.first_key = request->key_starts[batch];
        s.keys = request->key_starts[batch + 1] - s.first_key;
    }
    if (request->key_lengths)
        s.keys = request->key_lengths[batch];
    s.offset = offset_of(request, &s);
    return s;
}

struct attention_range heed_attention_range(const struct heed_attention *request, const struct attention_sequence *sequence,
                                            int64_t token) {
    const struct heed_window *window = &request->window;
    const int64_t position = token + sequence->offset;
    struct attention_range range = {0, sequence->keys};
    if (request->causal)
        range.end = min_i64(range.end, position + 1);
    if (window->on && window->left >= 0)
        range.begin = max_i64(0, position - window->left);
    if (window->on && window->right >= 0)
        range.end = min_i64(range.end, position + window->right + 1);
    return range;
}
