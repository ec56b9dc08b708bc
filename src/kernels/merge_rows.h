/* The running softmax takes in that of a chunk.  Contract in src/contracts/attention.h. */
#ifndef HEED_KERNELS_MERGE_ROWS_H
#define HEED_KERNELS_MERGE_ROWS_H

/* Of the chunk.  First: a row's exponentials then need not wait for the latency of finding its maximum. */
INLINE void exp_maxima(const struct heed_exp_rows *block) {
    for (int i = 0; i < block->rows; i++)
        block->chunk_max[i] = block->begins[i] < block->ends[i] ? v_hmax(v_load(block->row_max + i * HEED_SUM_LANES)) : -INFINITY;
}

/* Maxima and factors; and the sums, which need the factors. */
INLINE void merge_maxima(const struct heed_merge_rows *block) {
    for (int i = 0; i < block->rows; i += VF_LANES) {
        const int left = block->rows - i;
        const vf old_max = v_load_n(block->max + i, left), chunk_max = v_load_n(block->chunk_max + i, left);
        const vf new_max = v_max(old_max, chunk_max);
        v_store_n(block->max + i, new_max, left);
        v_store(block->keep_old + i, v_zero_at_minus_inf(exp2_of(v_sub(old_max, new_max)), old_max));
        v_store(block->take_new + i, v_zero_at_minus_inf(exp2_of(v_sub(chunk_max, new_max)), chunk_max));
    }
}

INLINE void merge_sums(const struct heed_merge_rows *block) {
    for (int i = 0; i < block->rows; i += VF_LANES) {
        const int left = block->rows - i;
        const vf chunk_sum = v_mul(v_load_n(block->chunk_sum + i, left), v_load(block->take_new + i));
        v_store_n(block->sum + i, v_fma(v_load_n(block->sum + i, left), v_load(block->keep_old + i), chunk_sum), left);
    }
}

INLINE void merge_rows(const struct heed_merge_rows *block) {
    merge_maxima(block);
    merge_sums(block);
}

#endif
