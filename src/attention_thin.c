/* Few rows, as in decoding, against a chunk of keys and values that are read once: in place, in the order in which they lie, and
 * fetched ahead from each piece to the next, since memory is the limit. */
#include <string.h>

#include "attention_block.h"
#include "internal.h"

static const struct attention_next nothing = {NULL, 0};

static void score_panels(const struct attention_block *block, const float *query, int rows) {
    const struct attention_chunk *chunk = &block->chunk;
    const struct attention_plan *plan = block->plan;
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
            .next = last ? block->after_keys.data : chunk->keys[at / chunk->key_width + 1],
            .fetch_once = plan->fetch_once,
        });
    }
}

static void score_rows(const struct attention_block *block, const float *query, int rows) {
    const struct attention_chunk *chunk = &block->chunk;
    const struct heed_attention *request = block->plan->request;
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
        .next = block->after_keys.data,
        .next_step = block->after_keys.step,
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
static void weight_values(const struct attention_block *block, int i, int rows, int from, int to, struct attention_next next) {
    const struct attention_chunk *chunk = &block->chunk;
    const int64_t output_ld = block->plan->output_ld;
    /* Zeros behind the values of a cache make whole vectors, without a rest. */
    const int64_t columns = block->plan->request->cache ? output_ld : block->plan->request->value_dim;
    for (int at = from, n; at < to; at += n) {
        const int piece = at / chunk->piece_keys, in_piece = at % chunk->piece_keys;
        const bool half = block->plan->pairs && at % 2; /* the odd key of a pair alone; the weight is in the place of the other */
        n = half ? 1 : smaller(chunk->piece_keys - in_piece, to - at);
        const struct attention_next after =
            at + n < to ? (struct attention_next){chunk->values[(at + n) / chunk->piece_keys], 0} : next;
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
            .exact = !block->plan->request->cache,
            .next = after.data,
            .next_step = after.step,
            .fetch_once = block->plan->fetch_once,
        });
    }
}

/* Rows see a range in common, and each some keys before and after it; unless that is all they see, it has whole pairs. */
void heed_block_weight_thin(const struct attention_block *block, int rows) {
    const int *begins = block->begins, *ends = block->ends;
    const bool alike = begins[0] == begins[rows - 1] && ends[0] == ends[rows - 1], whole = block->plan->pairs && !alike;
    const int begin = begins[rows - 1] + (whole ? begins[rows - 1] % 2 : 0);
    const int end = larger(begin, ends[0] - (whole ? ends[0] % 2 : 0));
    memset(block->chunk_output, 0, (size_t)(rows * block->plan->output_ld) * sizeof(float));
    for (int i = 0; i < rows; i++)
        weight_values(block, i, 1, begins[i], smaller(begin, ends[i]), nothing);
    weight_values(block, 0, rows, begin, end, block->after_values);
    for (int i = 0; i < rows; i++)
        weight_values(block, i, 1, larger(end, begins[i]), ends[i], nothing);
}

/* The first key of a chunk that the block sees, and its value. */
static struct attention_next first_key(const struct attention_block *block, const struct attention_chunk *chunk) {
    const struct heed_attention *request = block->plan->request;
    if (chunk->begin >= chunk->end)
        return nothing;
    if (request->cache)
        return (struct attention_next){chunk->keys[chunk->begin / chunk->key_width], 0};
    return (struct attention_next){type_at(chunk->key_type, chunk->keys[0], chunk->begin * request->key.token_stride),
                                   request->key.token_stride * type_bytes(chunk->key_type)};
}
static struct attention_next first_value(const struct attention_block *block, const struct attention_chunk *chunk) {
    if (chunk->begin >= chunk->end)
        return nothing;
    const void *piece = chunk->values[chunk->begin / chunk->piece_keys];
    return (struct attention_next){type_at(chunk->value_type, piece, chunk->begin % chunk->piece_keys * chunk->value_ld),
                                   block->plan->request->cache ? 0 : chunk->value_ld * type_bytes(chunk->value_type)};
}

/* Of what this worker will probably do then. */
static struct attention_next next_key(const struct attention_block *block) {
    const struct heed_attention *request = block->plan->request;
    return (struct attention_next){block->next ? heed_block_first_key(block->next, block->next_chunk) : NULL,
                                   request->cache ? 0 : request->key.token_stride * type_bytes(block->plan->key_type)};
}

/* Chunks that are read together, and where the block's arrays for each begin. */
struct few_chunks {
    int count;
    struct attention_chunk chunk[HEED_CHUNKS_TOGETHER];
    bool seen[HEED_CHUNKS_TOGETHER];
    float *scores, *row_max, *key_scales, *value_scales;
    int *begins, *ends;
};

static void move_to(struct attention_block *block, const struct few_chunks *few, int i) {
    const int64_t row = i * block->plan->subrows;
    block->chunk = few->chunk[i];
    block->scores = few->scores + row * HEED_CHUNK;
    block->row_max = few->row_max + row * HEED_SUM_LANES;
    block->key_scales = few->key_scales + i * HEED_CHUNK;
    block->value_scales = few->value_scales + i * HEED_CHUNK;
    block->begins = few->begins + row;
    block->ends = few->ends + row;
}

/* False: the call was cancelled. */
static bool score_chunks(struct attention_block *block, struct few_chunks *few) {
    const bool keeps_all = block->plan->splits > 1 || block->plan->request->states.output.data;
    const int rows = (int)block->rows;
    for (int i = 0; i < few->count; i++) {
        if (heed_block_cancelled(block))
            return false;
        move_to(block, few, i);
        if (block->next)
            heed_block_fetch_key_scales(block->next, block->next_chunk + i);
        few->seen[i] = heed_block_find_ranges(block, 0, rows) || keeps_all;
        if (!few->seen[i] || block->chunk.begin >= block->chunk.end)
            continue;
        block->after_keys = i + 1 < few->count ? first_key(block, &few->chunk[i + 1]) : first_value(block, &few->chunk[0]);
        heed_block_score(block, 0, rows);
        heed_block_store_scores(block, 0, rows);
    }
    return true;
}

static void weight_chunks(struct attention_block *block, const struct few_chunks *few, float *shared) {
    for (int i = 0; i < few->count; i++) {
        move_to(block, few, i);
        if (block->next)
            heed_block_fetch_value_scales(block->next, block->next_chunk + i);
        block->after_values = i + 1 < few->count ? first_value(block, &few->chunk[i + 1]) : next_key(block);
        if (few->seen[i])
            heed_block_softmax(block, shared, 0, (int)block->rows);
    }
}

bool heed_block_attend_few(struct attention_block *block, float *shared, int64_t first, int64_t last) {
    struct few_chunks few; /* most of it unused: to clear it takes 1 % of a chunk's time */
    few.count = (int)(last - first);
    few.scores = block->scores;
    few.row_max = block->row_max;
    few.key_scales = block->key_scales;
    few.value_scales = block->value_scales;
    few.begins = block->begins;
    few.ends = block->ends;
    for (int i = 0; i < few.count; i++) {
        block->key_scales = few.key_scales + i * HEED_CHUNK;
        block->value_scales = few.value_scales + i * HEED_CHUNK;
        heed_block_load_keys(block, first + i);
        heed_block_load_values(block);
        few.chunk[i] = block->chunk;
    }
    const bool goes_on = score_chunks(block, &few);
    if (goes_on)
        weight_chunks(block, &few, shared);
    move_to(block, &few, 0);
    return goes_on;
}
