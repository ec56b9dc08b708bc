/* Which keys the rows of a block see: of a chunk, by its places, and in which chunk that ends. */
#include "attention_block.h"
#include "internal.h"

static void fill_ranges(const struct attention_block *block, int rows, int begin, int end) {
    for (int i = 0; i < rows; i++)
        block->chunk->begins[i] = begin;
    for (int i = 0; i < rows; i++)
        block->chunk->ends[i] = end;
}

bool heed_block_find_ranges(const struct attention_block *block, int64_t from, int rows) {
    const struct heed_attention *request = block->plan->request;
    const struct attention_chunk *chunk = block->chunk;
    const int64_t group = block->plan->group, row = block->first + from, end = chunk->start + chunk->n;
    const struct attention_range first = heed_attention_range(request, &block->sequence, row / group);
    const struct attention_range last = heed_attention_range(request, &block->sequence, (row + rows - 1) / group);
    if (last.begin <= chunk->start && first.end >= end) {
        fill_ranges(block, rows, 0, chunk->n);
        return true;
    }
    struct attention_range range = first;
    int64_t token = row / group, head = row % group;
    for (int i = 0; i < rows; i++) {
        chunk->begins[i] = (int)max_i64(0, min_i64(range.begin - chunk->start, chunk->n));
        chunk->ends[i] = (int)max_i64(0, min_i64(range.end - chunk->start, chunk->n));
        if (++head == group) {
            head = 0;
            range = heed_attention_range(request, &block->sequence, ++token);
        }
    }
    return first.begin < end && last.end > chunk->start;
}

int64_t heed_block_last_chunk(const struct attention_block *block, int64_t from, int rows) {
    const struct heed_attention *request = block->plan->request;
    const int64_t last = block->last_chunk - 1;
    if (last == block->first_chunk || request->states.output.data)
        return last;
    const int64_t token = heed_block_row(block, from + rows - 1).token;
    const int64_t end = heed_attention_range(request, &block->sequence, token).end;
    return max_i64(block->first_chunk, min_i64(last, ceil_div(end, HEED_CHUNK) - 1));
}
