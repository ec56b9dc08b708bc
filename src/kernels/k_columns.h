/* Columns of blocks of ggml's K formats as they are: words and scales of VF_LANES of them, transposed into lanes. */
#ifndef HEED_KERNELS_K_COLUMNS_H
#define HEED_KERNELS_K_COLUMNS_H

enum { K_PIECE_WORDS = 8, K_HIGH_WORDS = 16 };

/* d, m and the bytes of scales of some columns.  Those of groups 0 to 3 are the lower 6 bits of 8 bytes, those of groups 4 to 7 4
 * bits of 4 more, and above them what those 8 have left; d of q6_K is the last half of the last of four words. */
struct k_head {
    vh d, m;
    vi scales[K_SCALE_WORDS];
};
INLINE void k_load_head(const enum heed_type type, const struct block_columns *at, struct k_head *head) {
    vi from[4];
    load_column_ints(at, type == HEED_Q6_K ? Q6_K_BYTES - 16 : 0, 4, from);
    head->d = type == HEED_Q6_K ? v_half_of(from[3], 1) : v_half_of(from[0], 0);
    if (type == HEED_Q6_K) {
        load_column_ints(at, k_scales_at(type), K_SCALE_WORDS, head->scales);
        return;
    }
    head->m = v_half_of(from[0], 1);
    UNROLL for (int less = 0; less < 2; less++) {
        const vi last = v_choose_bits(15, v_shift(from[3], -4 * less), v_shift(from[1 + less], -2));
        head->scales[2 * less] = v_bits_of_bytes(from[1 + less], 0, 63);
        head->scales[2 * less + 1] = v_bits_of_bytes(last, 0, 63);
    }
}

#endif
