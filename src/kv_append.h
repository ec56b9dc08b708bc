/* Appending to a key/value cache, from request to memory: validate (kv_append_check.c), write (kv_append.c). */
#ifndef HEED_KV_APPEND_H
#define HEED_KV_APPEND_H

#include <stdint.h>

#include "heed.h"
#include "internal.h"
#include "sequences.h"

INLINE struct heed_sequences append_sequences(const struct heed_kv_append *request) {
    return (struct heed_sequences){request->batch, request->tokens, request->starts, request->positions};
}

enum heed_status heed_kv_append_check(const struct heed_kv_append *request);

#endif
