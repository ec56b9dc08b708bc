/* Appending to a key/value cache, from request to memory: validate (kv_append_check.c), write (kv_append.c). */
#ifndef HEED_KV_APPEND_H
#define HEED_KV_APPEND_H

#include <stdint.h>

#include "heed.h"
#include "internal.h"

/* Tokens are numbered through all sequences; this is the first of sequence b, and one past the last of sequence b - 1. */
INLINE int64_t append_begin(const struct heed_kv_append *request, int64_t b) {
    return request->starts ? request->starts[b] : b * request->tokens;
}

INLINE int64_t append_position(const struct heed_kv_append *request, int64_t b) {
    return request->positions ? request->positions[b] : 0;
}

enum heed_status heed_kv_append_check(const struct heed_kv_append *request);

#endif
