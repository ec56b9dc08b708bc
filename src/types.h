/* Types of stored elements: how large they are, and where they lie. */
#ifndef HEED_TYPES_H
#define HEED_TYPES_H

#include <stdint.h>

#include "heed.h"
#include "internal.h"

INLINE int64_t type_bytes(enum heed_type type) { return type == HEED_F32 ? 4 : type == HEED_I8 ? 1 : 2; }

INLINE const char *type_name(enum heed_type type) {
    return type == HEED_F32 ? "f32" : type == HEED_BF16 ? "bf16" : type == HEED_F16 ? "f16" : "i8";
}

INLINE const void *type_at(enum heed_type type, const void *data, int64_t index) {
    return (const char *)data + index * type_bytes(type);
}
INLINE void *type_at_output(enum heed_type type, void *data, int64_t index) { return (char *)data + index * type_bytes(type); }

#endif
