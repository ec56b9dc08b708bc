/* Types of stored elements: how large they are, and where they lie. */
#ifndef HEED_TYPES_H
#define HEED_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "heed.h"
#include "internal.h"

/* Elements that share a scale are stored together: 32 of them in ggml's formats. */
enum { TYPE_BLOCK = 32, Q8_0_BYTES = 2 + TYPE_BLOCK, Q4_0_BYTES = 2 + TYPE_BLOCK / 2 };
INLINE bool type_has_blocks(enum heed_type type) { return type == HEED_Q8_0 || type == HEED_Q4_0; }

/* Of an element, or the scale of a block. */
INLINE int64_t type_bytes(enum heed_type type) { return type == HEED_F32 ? 4 : type == HEED_I8 ? 1 : 2; }

INLINE const char *type_name(enum heed_type type) {
    static const char *const names[] = {"f32", "bf16", "f16", "i8", "q8_0", "q4_0"};
    return names[type];
}

/* Of `elements`, whole blocks. */
INLINE int64_t type_span(enum heed_type type, int64_t elements) {
    if (type_has_blocks(type))
        return elements / TYPE_BLOCK * (type == HEED_Q8_0 ? Q8_0_BYTES : Q4_0_BYTES);
    return elements * type_bytes(type);
}

/* What alignment counts by: elements, or for blocks the halves of floats that their scales are. */
INLINE int64_t type_units(enum heed_type type, int64_t elements) {
    return type_has_blocks(type) ? elements / TYPE_BLOCK * (type_span(type, TYPE_BLOCK) / type_bytes(type)) : elements;
}

INLINE const void *type_at(enum heed_type type, const void *data, int64_t index) {
    return (const char *)data + type_span(type, index);
}
INLINE void *type_at_output(enum heed_type type, void *data, int64_t index) { return (char *)data + index * type_bytes(type); }

#endif
