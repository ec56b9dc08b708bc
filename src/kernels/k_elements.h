/* Elements of a block of ggml's K formats as it is, one after another, as a row of a table of embeddings wants them. */
#ifndef HEED_KERNELS_K_ELEMENTS_H
#define HEED_KERNELS_K_ELEMENTS_H

/* What the numbers of a group, or of a half of one of q6_K, are multiplied by, and what is subtracted then. */
struct k_group_scales {
    float by, less;
};
INLINE float k_half_at(const char *p) {
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return v_f16_1(half);
}
/* As k_load_head has them. */
INLINE struct k_group_scales k_scales_of_group(const enum heed_type type, const char *block, int group, int half) {
    const float d = k_half_at(block + k_d_at(type));
    const uint8_t *bytes = (const uint8_t *)block + (type == HEED_Q6_K ? k_scales_at(type) : 4);
    if (type == HEED_Q6_K) {
        const float by = d * (float)(int8_t)bytes[2 * group + half];
        return (struct k_group_scales){by, 32 * by};
    }
    const uint8_t *scale = bytes + group % 4, *less = scale + 4, *last = less + 4;
    const float m = k_half_at(block + 2);
    if (group < 4)
        return (struct k_group_scales){d * (float)(*scale & 63), m * (float)(*less & 63)};
    return (struct k_group_scales){d * (float)((*last & 15) | *scale >> 6 << 4), m * (float)(*last >> 4 | *less >> 6 << 4)};
}

/* A vector of them, from element `at` on. */
INLINE vf k_load_elements(const enum heed_type type, const char *block, int at) {
    const bool q6 = type == HEED_Q6_K;
    const int group = at / TYPE_BLOCK, piece = q6 ? group / 4 * 2 + group % 2 : group / 2, upper = (q6 ? group / 2 : group) % 2;
    const struct k_group_scales scales = k_scales_of_group(type, block, group, at % TYPE_BLOCK / (TYPE_BLOCK / 2));
    const uint8_t *bytes = (const uint8_t *)block + at % TYPE_BLOCK, *low = bytes + k_low_at(type) + piece * TYPE_BLOCK;
    vi numbers = v_bits_of_bytes(v_load_bytes(low), 4 * upper, 15);
    if (type != HEED_Q4_K) {
        const uint8_t *high = bytes + k_high_at(type) + (q6 ? group / 4 * TYPE_BLOCK : 0);
        numbers = v_above(numbers, v_bits_of_bytes(v_load_bytes(high), q6 ? group % 4 * 2 : group, q6 ? 3 : 1), 4);
    }
    return v_fma(v_float_of_int(numbers), v_set1(scales.by), v_set1(-scales.less));
}

#endif
