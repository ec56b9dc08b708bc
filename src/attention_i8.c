/* Products with keys and values of a cache of bytes as integers, of few rows or many, straight from where these are. */
#include <string.h>

#include "attention_block.h"
#include "internal.h"

static struct heed_i8_block *blocks_at(float *floats) { return (struct heed_i8_block *)(void *)floats; }

void heed_block_round_queries(const struct attention_block *block, int64_t from, int64_t rows) {
    const struct attention_plan *plan = block->plan;
    const int64_t head_dim = plan->request->head_dim, blocks = ceil_div(head_dim, TYPE_BLOCK), ld = blocks * TYPE_BLOCK;
    for (int64_t i = 0; i < rows; i++) {
        float *row = block->source + i * ld;
        memset(row + head_dim, 0, (size_t)(ld - head_dim) * sizeof *row);
        block->kernels->i8_row(row, HEED_F32, blocks, blocks_at(block->query + (from + i) * plan->depth));
    }
}

void heed_block_score_i8(const struct attention_block *block, int64_t from, int rows) {
    const struct attention_chunk *chunk = block->chunk;
    const struct attention_plan *plan = block->plan;
    const int width = chunk->key_width;
    for (int at = chunk->begins[0] / width * width; at < chunk->ends[rows - 1]; at += width)
        plan->i8->cache_product(&(struct heed_i8_cache_product){
            .rows = rows,
            .columns = width,
            .end = (int)plan->request->head_dim,
            .in_order = plan->in_order,
            .leaves_l2 = plan->leaves_l2,
            .a = blocks_at(block->query + from * plan->depth),
            .lda = plan->depth / I8_BLOCK_FLOATS,
            .pieces = &chunk->keys[at / width],
            .piece = I8_DEPTH_MOST, /* a panel is one */
            .ldb = width,
            .c = chunk->scores + at,
            .ldc = HEED_CHUNK,
            .next = at + width < chunk->end ? chunk->keys[at / width + 1] : block->after_keys.data,
            .fetch_into = plan->fetch_into,
        });
}

/* Weights of row i, of the keys [first, last), become 0 for those that the row does not see. */
static void clear_unseen(const struct attention_block *block, int i, int first, int last) {
    const struct attention_chunk *chunk = block->chunk;
    const bool any = chunk->begins[i] < chunk->ends[i];
    const int begin = any ? chunk->begins[i] : last, end = any ? chunk->ends[i] : last;
    float *weights = chunk->scores + i * HEED_CHUNK;
    memset(weights + first, 0, (size_t)(begin - first) * sizeof *weights);
    memset(weights + end, 0, (size_t)(last - end) * sizeof *weights);
}

/* Whether any has a sign: none of heed_kv_append's, but a cache may be another's. */
static bool any_negative(const float *scales, int n) {
    uint32_t all = 0;
    for (int j = 0; j < n; j++) { /* as bits, for a comparison of each takes 1.03 of decoding's time */
        uint32_t bits;
        memcpy(&bits, scales + j, sizeof bits);
        all |= bits;
    }
    return all >> 31;
}

/* Rows of weights, of the keys [first, last), as bytes. */
static void round_weights(const struct attention_block *block, int rows, int first, int last, bool positive,
                          struct heed_i8_block *weights) {
    const struct heed_kernels *kernels = block->kernels;
    const int lda = HEED_CHUNK / TYPE_BLOCK, at = first / TYPE_BLOCK;
    const bool whole = last - first == HEED_CHUNK; /* all rows as one */
    const int64_t blocks = whole ? rows * lda : (last - first) / TYPE_BLOCK;
    for (int i = 0; i < (whole ? 1 : rows); i++) {
        const float *row = block->chunk->scores + i * HEED_CHUNK + first;
        if (positive)
            kernels->i8_weights(row, blocks, weights + i * lda + at);
        else
            kernels->i8_row(row, HEED_F32, blocks, weights + i * lda + at);
    }
}

void heed_block_weight_i8(const struct attention_block *block, int rows, const void *next) {
    const struct attention_chunk *chunk = block->chunk;
    const struct attention_plan *plan = block->plan;
    const int begin = chunk->begins[0], end = chunk->ends[rows - 1];
    const int first = begin / TYPE_BLOCK * TYPE_BLOCK, last = (int)round_up(end, TYPE_BLOCK);
    struct heed_i8_block *weights = blocks_at(block->source);
    if (begin >= end) {
        memset(block->chunk_output, 0, (size_t)(rows * plan->output_ld) * sizeof *block->chunk_output);
        return;
    }
    for (int i = 0; i < rows; i++)
        clear_unseen(block, i, first, last);
    const bool positive = !any_negative(chunk->value_scales + begin, end - begin);
    round_weights(block, rows, first, last, positive, weights);
    plan->i8->cache_product(&(struct heed_i8_cache_product){
        .rows = rows,
        .columns = (int)plan->output_ld,
        .begin = begin,
        .end = end,
        .positive = positive,
        .in_order = plan->in_order,
        .leaves_l2 = plan->leaves_l2,
        .a = weights,
        .lda = HEED_CHUNK / TYPE_BLOCK,
        .pieces = chunk->values,
        .piece = chunk->piece_keys,
        .ldb = chunk->value_ld,
        .c = block->chunk_output,
        .ldc = plan->output_ld,
        .next = next,
        .fetch_into = plan->fetch_into,
    });
}
