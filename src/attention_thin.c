/* Few rows, as in decoding, against a chunk of keys and values that are read once: in place, in the order in which they lie, and
 * fetched ahead from each piece to the next, since memory is the limit. */
#include <string.h>

#include "attention_block.h"
#include "internal.h"

/* What is read after some piece of keys or values. */
struct next {
    const void *data;
    int64_t step; /* bytes from row to row; 0: in one piece */
};

static struct next first_values(const struct attention_chunk *chunk, bool in_cache) {
    if (chunk->piece_keys == 0)
        return (struct next){NULL, 0};
    const void *piece = chunk->values[chunk->begin / chunk->piece_keys];
    return (struct next){type_at(chunk->value_type, piece, chunk->begin % chunk->piece_keys * chunk->value_ld),
                         in_cache ? 0 : chunk->value_ld * type_bytes(chunk->value_type)};
}

static void score_panels(const struct attention_block *block, const float *query, int rows) {
    const struct attention_chunk *chunk = &block->chunk;
    const struct attention_plan *plan = block->plan;
    const struct next values = first_values(chunk, true);
    for (int at = chunk->begin / chunk->key_width * chunk->key_width; at < chunk->end; at += chunk->key_width) {
        const bool last = at + chunk->key_width >= chunk->end;
        block->kernels->thin_product(&(struct heed_thin_product){
            .rows = rows,
            .columns = chunk->key_width,
            .k = plan->request->head_dim,
            .a = query,
            .lda = plan->depth,
            .pairs = plan->pairs,
            .b = chunk->keys[at / chunk->key_width],
            .type = chunk->key_type,
            .ldb = chunk->key_width,
            .c = block->scores + at,
            .ldc = HEED_CHUNK,
            .next = last ? values.data : chunk->keys[at / chunk->key_width + 1],
            .fetch_once = plan->fetch_once,
        });
    }
}

static void score_rows(const struct attention_block *block, const float *query, int rows) {
    const struct attention_chunk *chunk = &block->chunk;
    const struct heed_attention *request = block->plan->request;
    const struct next values = first_values(chunk, false);
    const int begin = chunk->begin / HEED_SUM_LANES * HEED_SUM_LANES;
    block->kernels->thin_product_transposed(&(struct heed_thin_product){
        .rows = rows,
        .columns = chunk->end - begin,
        .k = request->head_dim,
        .a = query,
        .lda = block->plan->depth,
        .pairs = block->plan->pairs,
        .b = type_at(chunk->key_type, chunk->keys[0], begin * request->key.token_stride),
        .type = chunk->key_type,
        .ldb = request->key.token_stride,
        .c = block->scores + begin,
        .ldc = HEED_CHUNK,
        .skipped = chunk->begin - begin,
        .next = values.data,
        .next_step = values.step,
    });
}

void heed_block_score_thin(const struct attention_block *block, int64_t from, int rows) {
    const float *query = block->query + from * block->plan->depth;
    if (block->chunk.begin >= block->chunk.end)
        return;
    if (block->plan->request->cache)
        score_panels(block, query, rows);
    else
        score_rows(block, query, rows);
    for (int i = 0; i < rows && !block->plan->has_passes; i++)
        if (block->begins[i] < block->ends[i])
            block->kernels->seal_row(block->scores + i * HEED_CHUNK, block->begins[i], block->ends[i], 1.0f,
                                     block->row_max + i * HEED_SUM_LANES);
}

/* Keys [from, to), which rows i, ..., i + rows - 1 see all of; `next` follows. */
static void weight_values(const struct attention_block *block, int i, int rows, int from, int to, struct next next) {
    const struct attention_chunk *chunk = &block->chunk;
    const int64_t output_ld = block->plan->output_ld;
    /* Zeros behind the values of a cache make whole vectors, without a rest. */
    const int64_t columns = block->plan->request->cache ? output_ld : block->plan->request->value_dim;
    for (int at = from, n; at < to; at += n) {
        const int piece = at / chunk->piece_keys, in_piece = at % chunk->piece_keys;
        const bool half = block->plan->pairs && at % 2; /* the odd key of a pair alone; the weight is in the place of the other */
        n = half ? 1 : smaller(chunk->piece_keys - in_piece, to - at);
        const struct next after = at + n < to ? (struct next){chunk->values[(at + n) / chunk->piece_keys], 0} : next;
        block->kernels->thin_product(&(struct heed_thin_product){
            .rows = rows,
            .columns = (int)columns,
            .k = n,
            .a = block->scores + i * HEED_CHUNK + (half ? at - 1 : at),
            .lda = HEED_CHUNK,
            .b = type_at(chunk->value_type, chunk->values[piece], in_piece * chunk->value_ld),
            .type = chunk->value_type,
            .ldb = chunk->value_ld,
            .c = block->chunk_output + i * output_ld,
            .ldc = output_ld,
            .pairs = block->plan->pairs && !half,
            .continues = true,
            .next = after.data,
            .next_step = after.step,
            .fetch_once = block->plan->fetch_once,
        });
    }
}

static struct next next_keys(const struct attention_block *block) {
    const struct heed_attention *request = block->plan->request;
    const int64_t step = request->cache ? 0 : request->key.token_stride * type_bytes(block->plan->key_type);
    return (struct next){block->next ? heed_block_first_key(block->next, block->next_chunk) : NULL, step};
}

/* Rows see a range in common, and each some keys before and after it; unless that is all they see, it has whole pairs. */
void heed_block_weight_thin(const struct attention_block *block, int rows) {
    const int *begins = block->begins, *ends = block->ends;
    const bool alike = begins[0] == begins[rows - 1] && ends[0] == ends[rows - 1], whole = block->plan->pairs && !alike;
    const struct next keys = next_keys(block), none = {NULL, 0};
    const int begin = begins[rows - 1] + (whole ? begins[rows - 1] % 2 : 0);
    const int end = larger(begin, ends[0] - (whole ? ends[0] % 2 : 0));
    memset(block->chunk_output, 0, (size_t)(rows * block->plan->output_ld) * sizeof(float));
    for (int i = 0; i < rows; i++)
        weight_values(block, i, 1, begins[i], smaller(begin, ends[i]), none);
    weight_values(block, 0, rows, begin, end, keys);
    for (int i = 0; i < rows; i++)
        weight_values(block, i, 1, larger(end, begins[i]), ends[i], none);
}
