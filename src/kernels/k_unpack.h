/* A panel of blocks of ggml's K formats as floats.  Contract in src/kernels.h, unpack_blocks; what it looks like in k_words.h. */
#ifndef HEED_KERNELS_K_UNPACK_H
#define HEED_KERNELS_K_UNPACK_H

/* A vector of columns. */
INLINE void k_unpack_block(const enum heed_type type, const char *block, int j, float *panel) {
    const char *group = block + k_panel_groups_at(type);
    struct k_scales scales;
    k_load_block_scales(type, 1, WEIGHT_UNIT, block, j, &scales);
    NO_UNROLL for (int g = 0; g < K_GROUPS; g++, group += k_group_bytes(type)) UNROLL for (int half = 0; half < 2; half++) {
        k_load_scales(type, 1, group, j, half, &scales);
        NO_UNROLL for (int turn = 0; turn < K_LOW_WORDS / TURN_WORDS; turn++, panel += TURN_DEPTH * HEED_PANEL) {
            const struct block_turn words = k_turn_at(type, group, half, turn);
            UNROLL for (int i = 0; i < TURN_DEPTH; i++)
                v_store(panel + i * HEED_PANEL + j, k_load_weight(type, &scales, &words, j, 0, half, i));
        }
    }
}

INLINE void unpack_k_blocks_of(const enum heed_type type, const char *packed, int64_t k, float *panel) {
    for (; k > 0; k -= K_BLOCK, panel += K_BLOCK * HEED_PANEL, packed += k_panel_bytes(type))
        for (int j = 0; j < HEED_PANEL; j += VF_LANES)
            k_unpack_block(type, packed, j, panel);
}

static void unpack_k_blocks(const void *packed, enum heed_type type, int64_t k, float *panel) {
    WITH_K_TYPE(type, unpack_k_blocks_of(TYPE, packed, k, panel));
}

#endif
