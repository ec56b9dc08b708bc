/* Types of stored elements: how large they are, and where they lie. */
#ifndef HEED_TYPES_H
#define HEED_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "heed.h"
#include "internal.h"

/* Elements that share a scale are stored together: 32 of them in ggml's older formats, 256 in its K formats, whose groups of 32 or
 * 16 have scales of their own. */
enum {
    TYPE_BLOCK = 32,
    K_BLOCK = 256,
    Q8_0_BYTES = 2 + TYPE_BLOCK,
    Q4_0_BYTES = 2 + TYPE_BLOCK / 2,
    Q5_0_BYTES = 2 + TYPE_BLOCK / 8 * 5,
    MXFP4_BYTES = 1 + TYPE_BLOCK / 2,
    Q4_K_BYTES = 16 + K_BLOCK / 2,
    Q5_K_BYTES = 16 + K_BLOCK / 8 * 5,
    Q6_K_BYTES = 18 + K_BLOCK / 4 * 3,
    MXFP4_LEAST_SCALE = 26 /* lesser ones are 0: from here on, 2^-24 times a scale is no denormal */
};
INLINE bool type_is_known(enum heed_type type) { return (unsigned)type <= HEED_MXFP4; }
INLINE bool type_is_float(enum heed_type type) { return type == HEED_F32 || type == HEED_BF16 || type == HEED_F16; }
INLINE bool type_is_k(enum heed_type type) { return type == HEED_Q4_K || type == HEED_Q5_K || type == HEED_Q6_K; }
/* Whose 4 bits stand for numbers that are not evenly apart. */
INLINE bool type_has_table(enum heed_type type) { return type == HEED_IQ4_NL || type == HEED_MXFP4; }
INLINE bool type_has_blocks(enum heed_type type) { return type >= HEED_Q8_0; }
/* Elements of a block. */
INLINE int type_block(enum heed_type type) { return type_is_k(type) ? K_BLOCK : type_has_blocks(type) ? TYPE_BLOCK : 1; }

/* Of an element, or the scale of a block. */
INLINE int64_t type_bytes(enum heed_type type) { return type == HEED_F32 ? 4 : type == HEED_I8 || type == HEED_MXFP4 ? 1 : 2; }

INLINE const char *type_name(enum heed_type type) {
    static const char *const names[] = {"f32",  "bf16", "f16",  "i8",   "q8_0",   "q4_0",
                                        "q4_K", "q5_K", "q6_K", "q5_0", "iq4_nl", "mxfp4"};
    return names[type];
}

/* Of a block of 32 as it is, and in a packed panel, where all scales have 16 bits. */
INLINE int block_32_bytes(enum heed_type type) {
    return type == HEED_Q8_0 ? Q8_0_BYTES : type == HEED_Q5_0 ? Q5_0_BYTES : type == HEED_MXFP4 ? MXFP4_BYTES : Q4_0_BYTES;
}
INLINE int packed_32_bytes(enum heed_type type) { return type == HEED_MXFP4 ? Q4_0_BYTES : block_32_bytes(type); }
/* Of a K block as it is, and in a packed panel, where scales of 6 bits are bytes. */
INLINE int k_block_bytes(enum heed_type type) {
    return type == HEED_Q4_K ? Q4_K_BYTES : type == HEED_Q5_K ? Q5_K_BYTES : Q6_K_BYTES;
}
INLINE int k_packed_bytes(enum heed_type type) { return k_block_bytes(type) + (type == HEED_Q6_K ? 0 : 4); }

/* Of `elements`, whole blocks. */
INLINE int64_t type_span(enum heed_type type, int64_t elements) {
    if (type_is_k(type))
        return elements / K_BLOCK * k_block_bytes(type);
    if (type_has_blocks(type))
        return elements / TYPE_BLOCK * block_32_bytes(type);
    return elements * type_bytes(type);
}
/* The same of a column of a packed panel. */
INLINE int64_t type_packed_span(enum heed_type type, int64_t elements) {
    if (type_is_k(type))
        return elements / K_BLOCK * k_packed_bytes(type);
    return type_has_blocks(type) ? elements / TYPE_BLOCK * packed_32_bytes(type) : type_span(type, elements);
}
/* What packed panels consist of. */
INLINE int64_t type_packed_bytes(enum heed_type type) { return type == HEED_MXFP4 ? 2 : type_bytes(type); }

/* What alignment counts by: elements, or for blocks what their scales have: 16 bits, or 8. */
INLINE int64_t type_units(enum heed_type type, int64_t elements) {
    return type_has_blocks(type) ? elements / type_block(type) * (type_span(type, type_block(type)) / type_bytes(type)) : elements;
}

INLINE const void *type_at(enum heed_type type, const void *data, int64_t index) {
    return (const char *)data + type_span(type, index);
}
INLINE void *type_at_output(enum heed_type type, void *data, int64_t index) { return (char *)data + index * type_bytes(type); }

#endif
