/* Partial states: of a block's rows, chunk by chunk, and their merge in order, which is what one pass over all chunks does. */
#include <math.h>
#include <string.h>

#include "attention_block.h"
#include "internal.h"
#include "merge.h"

void heed_block_start_states(const struct attention_block *block, int64_t from, int64_t rows) {
    const float *sinks = block->plan->request->sinks;
    const int64_t ld = block->plan->output_ld;
    for (int64_t i = from; i < from + rows; i++)
        block->max[i] = -INFINITY;
    memset(block->sum + from, 0, (size_t)rows * sizeof *block->sum);
    for (int64_t i = from; sinks && i < from + rows; i++)
        heed_state_of_sink(sinks[heed_block_row(block, i).head], block->max + i, block->sum + i);
    memset(block->output + from * ld, 0, (size_t)(rows * ld) * sizeof(float));
}

/* Where a chunk's states of the block's head are kept for the merge: its max and sum, or its outputs. */
static int64_t state_place(const struct attention_block *block, int64_t index) {
    return block->head * block->plan->reach + index - block->first_chunk;
}
static int64_t state_row(const struct attention_block *block, int64_t index) {
    return state_place(block, index) * round_up(block->plan->block_rows, 16);
}
static int64_t state_output(const struct attention_block *block, int64_t index) {
    return state_place(block, index) * block->plan->block_rows * block->plan->output_ld;
}

static void store_state(const struct attention_block *block, int64_t row, int64_t index, const float *output, float max,
                        float sum) {
    const struct heed_states *states = &block->plan->request->states;
    const int64_t value_dim = block->plan->request->value_dim;
    /* Whether a NaN survives a maximum differs between instruction sets; the sum always tells. */
    heed_block_output_row(block, &states->max, row)[index] = sum != sum ? __builtin_nanf("") : max + 0.0f;
    heed_block_output_row(block, &states->sum, row)[index] = sum != sum ? __builtin_nanf("") : sum;
    block->kernels->store_row(output, value_dim, 1.0f, heed_block_output_row(block, &states->output, row) + index * value_dim);
}

void heed_block_keep_states(const struct attention_block *block, float *shared, int64_t from, int rows) {
    const struct attention_plan *plan = block->plan;
    const struct attention_layout *layout = &plan->layout;
    const int64_t index = block->chunk->start / HEED_CHUNK, ld = plan->output_ld;
    if (plan->splits > 1) {
        memcpy(shared + layout->state_max + state_row(block, index) + from, block->chunk->max, (size_t)rows * sizeof(float));
        memcpy(shared + layout->state_sum + state_row(block, index) + from, block->chunk->sum, (size_t)rows * sizeof(float));
        memcpy(shared + layout->state_output + state_output(block, index) + from * ld, block->chunk_output,
               (size_t)(rows * ld) * sizeof(float));
    }
    for (int i = 0; i < rows; i++) {
        const float *output = block->chunk_output + i * ld;
        if (plan->splits == 1)
            block->kernels->merge_row(block->output + (from + i) * ld, output, plan->request->value_dim, block->keep_old[i],
                                      block->take_new[i]);
        if (plan->request->states.output.data)
            store_state(block, from + i, index, output, block->chunk->max[i], block->chunk->sum[i]);
    }
}

void heed_block_keep_unseen_states(const struct attention_block *block, int64_t from, int64_t rows) {
    const int64_t value_dim = block->plan->request->value_dim, chunks = ceil_div(block->plan->columns, HEED_CHUNK);
    const struct heed_states *states = &block->plan->request->states;
    for (int64_t row = from; row < from + rows; row++)
        for (int64_t index = 0; index < chunks; index++) {
            if (index >= block->first_chunk && index < block->last_chunk)
                continue;
            heed_block_output_row(block, &states->max, row)[index] = -INFINITY;
            heed_block_output_row(block, &states->sum, row)[index] = 0.0f;
            memset(heed_block_output_row(block, &states->output, row) + index * value_dim, 0, (size_t)value_dim * sizeof(float));
        }
}

/* One chunk's states of rows [from, from + rows). */
static void merge_state(const struct attention_block *block, const float *shared, int64_t index, int64_t from, int rows) {
    const struct attention_plan *plan = block->plan;
    const struct attention_layout *layout = &plan->layout;
    const int64_t ld = plan->output_ld, state = state_row(block, index) + from;
    const float *output = shared + layout->state_output + state_output(block, index) + from * ld;
    block->kernels->merge_rows(&(struct heed_merge_rows){.rows = rows,
                                                         .max = block->max + from,
                                                         .sum = block->sum + from,
                                                         .chunk_max = shared + layout->state_max + state,
                                                         .chunk_sum = shared + layout->state_sum + state,
                                                         .keep_old = block->keep_old,
                                                         .take_new = block->take_new});
    for (int i = 0; i < rows; i++)
        block->kernels->merge_row(block->output + (from + i) * ld, output + i * ld, plan->request->value_dim, block->keep_old[i],
                                  block->take_new[i]);
}

void heed_block_merge_states(const struct attention_block *block, const float *shared) {
    for (int64_t index = block->first_chunk; index < block->last_chunk; index++)
        for (int64_t from = 0; from < block->rows; from += block->plan->subrows)
            merge_state(block, shared, index, from, (int)min_i64(block->plan->subrows, block->rows - from));
}
