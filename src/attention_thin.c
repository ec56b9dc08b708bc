/* Few rows, as in decoding, against a chunk of keys and values that are read once: in place, in the order in which they lie, and
 * fetched ahead from each piece to the next, since memory is the limit. */
#include <string.h>

#include "attention_block.h"
#include "cache_sizes.h"
#include "internal.h"
#include "pace.h"

static const struct attention_next nothing = {NULL, 0};

/* How many more panels lie right behind number `first`, up to number `last`: in linear caches and long pages all do. */
static int panels_behind(const struct attention_chunk *chunk, int64_t head_dim, int first, int last) {
    const int64_t elements = head_dim * chunk->key_width;
    int n = 0;
    while (first + n < last && chunk->keys[first + n + 1] == type_at(chunk->key_type, chunk->keys[first + n], elements))
        n++;
    return n;
}

static void score_panels(const struct attention_block *block) {
    const struct attention_chunk *chunk = block->chunk;
    const struct attention_plan *plan = block->plan;
    const int64_t head_dim = plan->request->head_dim;
    const int width = chunk->key_width, last = (chunk->end - 1) / width;
    for (int panel = chunk->begin / width, more; panel <= last; panel += more + 1) {
        more = panels_behind(chunk, head_dim, panel, last);
        block->kernels->thin_product(&(struct heed_thin_product){
            .rows = (int)block->rows,
            .columns = width,
            .k = head_dim,
            .a = block->query,
            .lda = plan->depth,
            .pairs = plan->pairs,
            .a_words = plan->thin_dots,
            .b = chunk->keys[panel],
            .type = chunk->key_type,
            .ldb = width,
            .more_panels = more,
            .b_step = head_dim * width,
            .c_step = width,
            .c = chunk->scores + panel * width,
            .ldc = HEED_CHUNK,
            .in_order = plan->in_order,
            .paced = block->paced,
            .next = panel + more < last ? chunk->keys[panel + more + 1] : block->after_keys.data,
            .fetch_into = plan->fetch_into,
        });
    }
}

void heed_block_score_rows(const struct attention_block *block, int from, int to) {
    const struct attention_chunk *chunk = block->chunk;
    const struct heed_attention *request = block->plan->request;
    const bool into_l2 = block->plan->fetch_into == HEED_INTO_L2;
    block->kernels->thin_product_transposed(&(struct heed_thin_product){
        .rows = (int)block->rows,
        .columns = to - from,
        .k = request->head_dim,
        .a = block->query,
        .lda = block->plan->depth,
        .pairs = block->plan->pairs,
        .b = type_at(chunk->key_type, chunk->keys[0], from * request->key.token_stride),
        .type = chunk->key_type,
        .ldb = request->key.token_stride,
        .c = chunk->scores + from,
        .ldc = HEED_CHUNK,
        .crowded = heed_cache_crowded(type_span(chunk->key_type, request->key.token_stride)),
        .skipped = larger(0, chunk->begin - from),
        .paced = block->paced,
        .fetch_into = into_l2 ? HEED_INTO_L2 : HEED_INTO_L1_AND_L2, /* into L1 alone has not been timed */
        .next = block->after_keys.data,
        .next_step = block->after_keys.step,
    });
}

void heed_block_score_thin(const struct attention_block *block) {
    if (block->chunk->begin >= block->chunk->end)
        return;
    if (block->plan->request->cache)
        score_panels(block);
    else
        heed_block_score_rows(block, block->chunk->begin / HEED_SUM_LANES * HEED_SUM_LANES, block->chunk->end);
}

static struct attention_next value_at(const struct attention_block *block, const struct attention_chunk *chunk, int at) {
    const void *piece = chunk->values[at / chunk->piece_keys];
    return (struct attention_next){type_at(chunk->value_type, piece, at % chunk->piece_keys * chunk->value_ld),
                                   block->plan->request->cache ? 0 : chunk->value_ld * type_bytes(chunk->value_type)};
}

/* Keys [from, to), which rows i, ..., i + rows - 1 see all of; `next` follows. */
static void weight_values(const struct attention_block *block, int i, int rows, int from, int to, struct attention_next next) {
    const struct attention_chunk *chunk = block->chunk;
    const int64_t output_ld = block->plan->output_ld;
    /* Zeros behind the values of a cache make whole vectors, without a rest. */
    const int64_t columns = block->plan->request->cache ? output_ld : block->plan->request->value_dim;
    const bool beside = block->beside > 0;
    for (int at = from, n; at < to; at += n) {
        const int piece = at / chunk->piece_keys, in_piece = at % chunk->piece_keys;
        const bool half = block->plan->pairs && at % 2; /* the odd key of a pair alone; the weight is in the place of the other */
        const int weight = chunk->dots ? at / 2 : half ? at - 1 : at; /* in floats; dots begin with whole pairs */
        n = half ? 1 : smaller(chunk->piece_keys - in_piece, to - at);
        const struct attention_next after = at + n < to ? value_at(block, chunk, at + n) : next;
        block->kernels->thin_product(&(struct heed_thin_product){
            .rows = rows,
            .columns = (int)columns,
            .k = n,
            .a = chunk->scores + i * HEED_CHUNK + weight,
            .a_words = chunk->dots,
            .lda = HEED_CHUNK,
            .b = type_at(chunk->value_type, chunk->values[piece], in_piece * chunk->value_ld),
            .type = chunk->value_type,
            .ldb = chunk->value_ld,
            .more_panels = block->beside,
            .b_step = block->plan->request->value.head_stride,
            .a_step = beside ? block[1].chunk->scores - chunk->scores : 0,
            .c_step = beside ? block[1].chunk_output - block->chunk_output : 0,
            .c = block->chunk_output + i * output_ld,
            .ldc = output_ld,
            .pairs = block->plan->pairs && !half,
            .continues = true,
            .crowded = heed_cache_crowded(type_span(chunk->value_type, chunk->value_ld)),
            .in_order = block->plan->values_in_order,
            .exact = !block->plan->request->cache,
            .paced = block->paced,
            .next = after.data,
            .next_step = after.step,
            .fetch_into = block->plan->fetch_into,
        });
    }
}

static bool are_alike(const struct attention_block *block) {
    const int *begins = block->chunk->begins, *ends = block->chunk->ends, last = (int)block->rows - 1;
    return begins[0] == begins[last] && ends[0] == ends[last];
}

/* How many rows from row i on see the same keys, as all query heads of a token do. */
static int alike_from(const struct attention_block *block, int i) {
    const int *begins = block->chunk->begins, *ends = block->chunk->ends, rows = (int)block->rows;
    int n = 1;
    while (i + n < rows && begins[i + n] == begins[i] && ends[i + n] == ends[i])
        n++;
    return n;
}

/* Rows see a range in common, and each some keys before and after it; unless that is all they see, it has whole pairs. */
static void weight_chunk(const struct attention_block *block) {
    const int *begins = block->chunk->begins, *ends = block->chunk->ends, rows = (int)block->rows;
    const bool whole = block->plan->pairs && !are_alike(block);
    const int begin = begins[rows - 1] + (whole ? begins[rows - 1] % 2 : 0);
    const int end = larger(begin, ends[0] - (whole ? ends[0] % 2 : 0));
    for (int i = 0, n; i < rows; i += n) {
        n = alike_from(block, i);
        weight_values(block, i, n, begins[i], smaller(begin, ends[i]), nothing);
    }
    weight_values(block, 0, rows, begin, end, block->after_values);
    for (int i = 0, n; i < rows; i += n) {
        n = alike_from(block, i);
        weight_values(block, i, n, larger(end, begins[i]), ends[i], nothing);
    }
}

void heed_block_weight_thin(const struct attention_block *block, int from, int to) {
    weight_values(block, 0, (int)block->rows, from, to, block->after_values);
}

void heed_block_begin_weights(const struct attention_block *block) {
    block->chunk->dots = block->plan->thin_dots && are_alike(block) && block->chunk->begins[0] % 2 == 0;
    heed_block_weigh_thin(block);
    if (!block->plan->i8_values)
        memset(block->chunk_output, 0, (size_t)(block->rows * block->plan->output_ld) * sizeof(float));
}

void heed_block_end_weights(const struct attention_block *block, float *shared) {
    const struct heed_merge_rows merge = heed_block_merge(block, 0, (int)block->rows);
    if (block->plan->splits == 1)
        block->kernels->merge_rows(&merge);
    heed_block_keep_states(block, shared, 0, (int)block->rows);
}

/* From scores to outputs, merged or kept. */
static void softmax(const struct attention_block *block, float *shared) {
    heed_block_begin_weights(block);
    if (block->plan->i8_values)
        heed_block_weight_i8(block, (int)block->rows, block->after_values.data);
    else
        weight_chunk(block);
    heed_block_end_weights(block, shared);
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
    return chunk->begin < chunk->end ? value_at(block, chunk, chunk->begin) : nothing;
}

/* Of what this worker will probably do then. */
static struct attention_next next_key(const struct attention_block *block) {
    const struct heed_attention *request = block->plan->request;
    return (struct attention_next){block->next ? heed_block_first_key(block->next, block->next_chunk) : NULL,
                                   request->cache ? 0 : request->key.token_stride * type_bytes(block->plan->key_type)};
}

/* False: the call was cancelled. */
static bool score_chunks(struct attention_block *block, int count) {
    for (int i = 0; i < count; i++) {
        if (heed_block_cancelled(block))
            return false;
        block->chunk = &block->chunks[i];
        if (block->next)
            heed_block_fetch_key_scales(block->next, block->next_chunk + i);
        block->after_keys = i + 1 < count ? first_key(block, &block->chunks[i + 1]) : first_value(block, &block->chunks[0]);
        if (block->plan->i8_keys)
            heed_block_score_i8(block, 0, (int)block->rows);
        else
            heed_block_score_thin(block);
    }
    return true;
}

static void weight_chunks(struct attention_block *block, float *shared, int count) {
    for (int i = 0; i < count; i++) {
        block->chunk = &block->chunks[i];
        if (block->next)
            heed_block_fetch_value_scales(block->next, block->next_chunk + i);
        block->after_values = i + 1 < count ? first_value(block, &block->chunks[i + 1]) : next_key(block);
        if (block->chunk->seen)
            softmax(block, shared);
    }
}

int64_t heed_block_load_thin(struct attention_block *block, int64_t index) {
    const struct attention_plan *plan = block->plan;
    const bool keeps_all = plan->splits > 1 || plan->request->states.output.data;
    heed_block_load_keys(block, index);
    heed_block_load_values(block);
    block->chunk->seen = heed_block_find_ranges(block, 0, (int)block->rows) || keeps_all;
    return (block->chunk->end - block->chunk->begin) *
           (type_span(plan->key_type, plan->request->head_dim) + type_span(plan->value_type, plan->request->value_dim));
}

bool heed_block_attend_thin(struct attention_block *block, float *shared, int64_t first, int64_t last) {
    const int count = (int)(last - first);
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        block->chunk = &block->chunks[i];
        bytes += heed_block_load_thin(block, first + i);
    }
    const struct heed_pace pace = block->plan->tries_pace ? heed_pace_begin(HEED_PACE_KEYS) : (struct heed_pace){.paced = false};
    block->paced = pace.paced;
    if (!score_chunks(block, count))
        return false;
    weight_chunks(block, shared, count);
    heed_pace_end(&pace, bytes);
    return true;
}
