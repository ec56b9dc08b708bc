/* The sequences of a batch: packed or not, their lengths, and where their queries stand. */
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
