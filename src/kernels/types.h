/* Elements of any type, as kernels load and store them.
 *
 * A kernel that takes a type has one body over load_type and store_type, compiled for each: the type must be a constant there, or
 * every load would ask for it. */
#ifndef HEED_KERNELS_TYPES_H
#define HEED_KERNELS_TYPES_H

#include "kernels/numbers4.h"

enum {
    LINE_BYTES = HEED_LINE * (int)sizeof(float),
    PAGE_BYTES = 4096 /* of virtual memory, at least */
};

/* The statement with `TYPE` for type, as a constant. */
#define WITH_TYPE(type, statement)                                                                                                 \
    do {                                                                                                                           \
        if ((type) == HEED_F32) {                                                                                                  \
            const enum heed_type TYPE = HEED_F32;                                                                                  \
            statement;                                                                                                             \
        } else if ((type) == HEED_BF16) {                                                                                          \
            const enum heed_type TYPE = HEED_BF16;                                                                                 \
            statement;                                                                                                             \
        } else {                                                                                                                   \
            const enum heed_type TYPE = HEED_F16;                                                                                  \
            statement;                                                                                                             \
        }                                                                                                                          \
    } while (0)

/* The same for kernels that take bytes too. */
#define WITH_STORED_TYPE(type, statement)                                                                                          \
    do {                                                                                                                           \
        if ((type) == HEED_I8) {                                                                                                   \
            const enum heed_type TYPE = HEED_I8;                                                                                   \
            statement;                                                                                                             \
        } else {                                                                                                                   \
            WITH_TYPE(type, statement);                                                                                            \
        }                                                                                                                          \
    } while (0)

/* Of blocks of 32. */
#define WITH_BLOCK_TYPE(type, statement)                                                                                           \
    do {                                                                                                                           \
        if ((type) == HEED_Q8_0) {                                                                                                 \
            const enum heed_type TYPE = HEED_Q8_0;                                                                                 \
            statement;                                                                                                             \
        } else if ((type) == HEED_Q4_0) {                                                                                          \
            const enum heed_type TYPE = HEED_Q4_0;                                                                                 \
            statement;                                                                                                             \
        } else if ((type) == HEED_Q5_0) {                                                                                          \
            const enum heed_type TYPE = HEED_Q5_0;                                                                                 \
            statement;                                                                                                             \
        } else if ((type) == HEED_IQ4_NL) {                                                                                        \
            const enum heed_type TYPE = HEED_IQ4_NL;                                                                               \
            statement;                                                                                                             \
        } else {                                                                                                                   \
            const enum heed_type TYPE = HEED_MXFP4;                                                                                \
            statement;                                                                                                             \
        }                                                                                                                          \
    } while (0)

/* A vector of elements, or its first n, as v_load_n and v_store_n have them. */
INLINE vf load_type(const enum heed_type type, const void *p) {
    if (type == HEED_I8)
        return v_load_i8(p);
    if (type == HEED_F32)
        return v_load(p);
    return type == HEED_BF16 ? v_widen_bf16(v_load_half(p)) : v_widen_f16(v_load_half(p));
}
INLINE vf load_type_n(const enum heed_type type, const void *p, int64_t n) {
    if (type == HEED_I8)
        return v_load_i8_n(p, n);
    if (type == HEED_F32)
        return v_load_n(p, n);
    return type == HEED_BF16 ? v_widen_bf16(v_load_half_n(p, n)) : v_widen_f16(v_load_half_n(p, n));
}
INLINE void store_type(const enum heed_type type, void *p, vf x) {
    if (type == HEED_F32)
        v_store(p, x);
    else if (type == HEED_I8)
        v_store_i8(p, x);
    else
        v_store_half(p, type == HEED_BF16 ? v_round_bf16(x) : v_round_f16(x));
}
INLINE void store_type_n(const enum heed_type type, void *p, vf x, int64_t n) {
    if (type == HEED_F32)
        v_store_n(p, x, n);
    else if (type == HEED_I8)
        v_store_i8_n(p, x, n);
    else
        v_store_half_n(p, type == HEED_BF16 ? v_round_bf16(x) : v_round_f16(x), n);
}

/* n elements from i on, at most a vector; floats: of floats, whatever the type says. */
INLINE vf load_source(const bool floats, const struct heed_source *source, int64_t i, int64_t n) {
    if (floats || source->type == HEED_F32) {
        const float *p = (const float *)source->data + i;
        return n == VF_LANES ? v_load(p) : v_load_n(p, n);
    }
    const uint16_t *p = (const uint16_t *)source->data + i;
    return source->type == HEED_BF16 ? load_type_n(HEED_BF16, p, n) : load_type_n(HEED_F16, p, n);
}
INLINE void store_target(const bool floats, const struct heed_target *target, int64_t i, vf x, int64_t n) {
    if (floats || target->type == HEED_F32)
        v_store_n((float *)target->data + i, x, n);
    else if (target->type == HEED_BF16)
        store_type_n(HEED_BF16, (uint16_t *)target->data + i, x, n);
    else
        store_type_n(HEED_F16, (uint16_t *)target->data + i, x, n);
}

/* Integers of a block of q5_0 from element `from` on, whose fifth bits are one by one: for rows of a table. */
INLINE vf load_q5(const char *block, int from) {
    const uint8_t *low = (const uint8_t *)block + Q5_0_BYTES - TYPE_BLOCK / 2;
    int8_t q[VF_LANES];
    uint32_t bits;
    memcpy(&bits, block + 2, sizeof bits);
    for (int i = 0; i < VF_LANES; i++) {
        const int at = from + i, byte = low[at % (TYPE_BLOCK / 2)], half = at / (TYPE_BLOCK / 2);
        q[i] = (int8_t)((byte >> 4 * half & 15) + (int)(bits >> at & 1) * 16 - 16);
    }
    return v_load_i8(q);
}

/* The same of what a table has for 4 bits. */
INLINE vf load_numbers4(const enum heed_type type, const char *block, int from) {
    const uint8_t *codes = (const uint8_t *)block + block_32_bytes(type) - TYPE_BLOCK / 2;
    const int8_t *table = numbers4_table(type);
    int8_t q[VF_LANES];
    for (int i = 0; i < VF_LANES; i++) {
        const int at = from + i;
        q[i] = table[codes[at % (TYPE_BLOCK / 2)] >> at / (TYPE_BLOCK / 2) * 4 & 15];
    }
    return v_load_i8(q);
}

INLINE float load_block_scale(const enum heed_type type, const char *block) {
    if (type == HEED_MXFP4)
        return numbers4_scale((unsigned char)*block);
    uint16_t scale;
    memcpy(&scale, block, sizeof scale);
    return v_f16_1(scale);
}

/* The elements from `index` on, of which there are n, at least a vector's worth if they are in blocks: a vector does not leave its
 * block, nor the half of a block whose elements are in the lower, or upper, halves of bytes. */
INLINE vf load_at(const enum heed_type type, const void *data, int64_t index, int64_t n) {
    if (!type_has_blocks(type))
        return load_type_n(type, type_at(type, data, index), n);
    const char *block = type_at(type, data, index), *elements = block + 2;
    const int in_block = (int)((uint64_t)index % TYPE_BLOCK), half = TYPE_BLOCK / 2;
    const vf d = v_set1(load_block_scale(type, block));
    if (type_has_table(type))
        return v_mul(d, load_numbers4(type, block, in_block));
    if (type == HEED_Q8_0)
        return v_mul(d, v_load_i8((const int8_t *)elements + in_block));
    if (type == HEED_Q5_0)
        return v_mul(d, load_q5(block, in_block));
    return v_mul(d, in_block < half ? v_load_low4((const uint8_t *)elements + in_block)
                                    : v_load_high4((const uint8_t *)elements + in_block - half));
}

#endif
