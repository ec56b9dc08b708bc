/* Keys and values of one chunk, from the caller's rows or from a cache: in place where the kernels can read them so, else packed.
 * Nothing is read of keys that the block does not see. */
#include <string.h>

#include "attention_block.h"
#include "internal.h"

/* Key number `key` of the sequence, or its value. */
static const void *row_of(const struct attention_block *block, const struct heed_input *view, int64_t key) {
    const bool packed = block->plan->request->key_starts != NULL;
    const int64_t base = packed ? block->sequence.first_key * view->token_stride : block->sequence.batch * view->batch_stride;
    return type_at(view->type, view->data, base + block->kv_head * view->head_stride + key * view->token_stride);
}

/* Rows into panels of 64 columns; what a panel holds before the first key seen does not matter, but pairs are made of it. */
static void pack_key_rows(struct attention_block *block) {
    const struct heed_attention *request = block->plan->request;
    struct attention_chunk *chunk = block->chunk;
    for (int at = chunk->begin / HEED_PANEL * HEED_PANEL; at < chunk->end; at += HEED_PANEL) {
        const int from = at > chunk->begin ? at : chunk->begin, to = (int)min_i64(at + HEED_PANEL, chunk->end);
        float *panel = block->keys + at * block->plan->depth;
        const void *rows = row_of(block, &request->key, chunk->start + from);
        if (block->plan->dots) {
            heed_block_arrange_key_rows(block, from, rows, to - from);
            continue;
        }
        if (from > at && block->plan->pairs)
            memset(panel, 0, (size_t)(request->head_dim * HEED_PANEL) * sizeof *panel);
        if (from == at)
            block->kernels->pack_transposed(rows, chunk->key_type, request->key.token_stride, request->head_dim, to - from, panel);
        else
            block->kernels->store_keys(rows, chunk->key_type, request->key.token_stride, request->head_dim, to - from,
                                       panel + from - at, HEED_PANEL);
        if (block->plan->pairs)
            block->kernels->pair_rows(panel, HEED_F32, HEED_PANEL, request->head_dim, HEED_PANEL, false, panel, HEED_PANEL);
        chunk->keys[at / HEED_PANEL] = panel;
    }
    chunk->key_width = HEED_PANEL;
    chunk->key_type = HEED_F32;
}

/* A cache's panels: in place, or as floats side by side in panels of 64 columns. */
static void load_cache_keys(struct attention_block *block) {
    const struct attention_plan *plan = block->plan;
    const struct heed_attention *request = plan->request;
    struct attention_chunk *chunk = block->chunk;
    const int width = (int)plan->cache.width;
    for (int at = chunk->begin / width * width; at < chunk->end; at += width) {
        const void *panel = kv_panel(request->cache, &plan->cache, block->sequence.batch, block->kv_head,
                                     request->key_position + chunk->start + at);
        if (!plan->pack_keys) {
            chunk->keys[at / width] = panel;
            continue;
        }
        if (plan->dots) {
            heed_block_arrange_key_panel(block, at, panel, width);
            continue;
        }
        float *packed = block->keys + at / HEED_PANEL * HEED_PANEL * plan->depth;
        if (plan->pairs)
            block->kernels->pair_rows(panel, chunk->key_type, width, request->head_dim, width, false, packed + at % HEED_PANEL,
                                      HEED_PANEL);
        else
            block->kernels->widen_rows(panel, chunk->key_type, width, request->head_dim, width, packed + at % HEED_PANEL,
                                       HEED_PANEL);
        chunk->keys[at / HEED_PANEL] = packed;
    }
    chunk->key_width = plan->pack_keys ? HEED_PANEL : width;
    chunk->key_type = plan->pack_keys ? HEED_F32 : chunk->key_type;
}

/* kv_key_scale, or kv_value_scale. */
typedef float *kv_scale(const struct heed_kv_cache *cache, const struct kv_layout *layout, int64_t sequence, int64_t head,
                        int64_t position);

/* Those of the keys that are seen, page by page; zeros around them, out to multiples of 16. */
static void load_scales(const struct attention_block *block, kv_scale *scale, float *scales) {
    const struct heed_kv_cache *cache = block->plan->request->cache;
    const struct attention_chunk *chunk = block->chunk;
    const int64_t first = block->plan->request->key_position + chunk->start;
    for (int64_t at = chunk->begin, n; at < chunk->end; at += n) {
        n = min_i64(chunk->end - at, cache->page_tokens - (first + at) % cache->page_tokens);
        memcpy(scales + at, scale(cache, &block->plan->cache, block->sequence.batch, block->kv_head, first + at),
               (size_t)n * sizeof *scales);
    }
    for (int at = chunk->begin / HEED_SUM_LANES * HEED_SUM_LANES; at < chunk->begin; at++)
        scales[at] = 0;
    for (int at = chunk->end; at % HEED_SUM_LANES; at++)
        scales[at] = 0;
}

/* Of chunk number `index`, which lie apart from keys and values: if they are loaded only when they are wanted, decoding from bytes
 * in memory waits a tenth of its time for them.  Advice: the rest of a page is taken for the rest of the chunk. */
static void fetch_scales(const struct attention_block *block, int64_t index, kv_scale *scale) {
    const struct attention_plan *plan = block->plan;
    if (index >= block->last_chunk)
        return;
    const char *scales = (const char *)scale(plan->request->cache, &plan->cache, block->sequence.batch, block->kv_head,
                                             plan->request->key_position + index * HEED_CHUNK);
    fetch_bytes(scales, HEED_CHUNK * (int64_t)sizeof(float));
}
void heed_block_fetch_key_scales(const struct attention_block *block, int64_t index) {
    if (block->plan->key_type == HEED_I8)
        fetch_scales(block, index, kv_key_scale);
}
void heed_block_fetch_value_scales(const struct attention_block *block, int64_t index) {
    if (block->plan->value_type == HEED_I8)
        fetch_scales(block, index, kv_value_scale);
}

static void find_chunk(const struct attention_block *block, int64_t index, struct attention_chunk *chunk) {
    const struct heed_attention *request = block->plan->request;
    const struct attention_sequence *sequence = &block->sequence;
    const struct attention_range first = heed_attention_range(request, sequence, heed_block_row(block, 0).token);
    const struct attention_range last = heed_attention_range(request, sequence, heed_block_row(block, block->rows - 1).token);
    chunk->start = index * HEED_CHUNK;
    chunk->n = (int)min_i64(HEED_CHUNK, sequence->keys - chunk->start);
    chunk->begin = (int)max_i64(0, min_i64(first.begin - chunk->start, chunk->n));
    chunk->end = (int)max_i64(0, min_i64(last.end - chunk->start, chunk->n));
    chunk->piece_keys = 0;
    chunk->values_checked = false;
}

void heed_block_load_keys(struct attention_block *block, int64_t index) {
    find_chunk(block, index, block->chunk);
    block->chunk->key_type = block->plan->key_type;
    if (block->plan->key_type == HEED_I8)
        load_scales(block, kv_key_scale, block->chunk->key_scales);
    if (block->plan->request->cache)
        load_cache_keys(block);
    else if (block->plan->pack_keys)
        pack_key_rows(block);
    else
        block->chunk->keys[0] = row_of(block, &block->plan->request->key, block->chunk->start);
}

const void *heed_block_first_key(const struct attention_block *block, int64_t index) {
    const struct attention_plan *plan = block->plan;
    const struct heed_attention *request = plan->request;
    struct attention_chunk chunk;
    if (index >= block->last_chunk)
        return NULL;
    find_chunk(block, index, &chunk);
    if (chunk.begin >= chunk.end)
        return NULL;
    if (!request->cache)
        return row_of(block, &request->key, chunk.start + chunk.begin);
    return kv_panel(request->cache, &plan->cache, block->sequence.batch, block->kv_head,
                    request->key_position + chunk.start + chunk.begin);
}

int heed_block_keys_seen(const struct attention_block *block, int64_t index) {
    struct attention_chunk chunk;
    find_chunk(block, index, &chunk);
    return chunk.end - chunk.begin;
}

const void *heed_block_first_value(const struct attention_block *block, int64_t index) {
    const struct attention_plan *plan = block->plan;
    const struct heed_attention *request = plan->request;
    struct attention_chunk chunk;
    find_chunk(block, index, &chunk);
    if (!request->cache)
        return row_of(block, &request->value, chunk.start + chunk.begin);
    return kv_value(request->cache, &plan->cache, block->sequence.batch, block->kv_head,
                    request->key_position + chunk.start + chunk.begin);
}

static const void *cache_value(const struct attention_block *block, int at) {
    const struct heed_attention *request = block->plan->request;
    return kv_value(request->cache, &block->plan->cache, block->sequence.batch, block->kv_head,
                    request->key_position + block->chunk->start + at);
}

/* In as few pieces as the pages allow: one if all of the chunk that is seen lies in one page. */
static void find_cache_values(struct attention_block *block) {
    struct attention_chunk *chunk = block->chunk;
    const int64_t page_tokens = block->plan->request->cache->page_tokens;
    const int64_t position = block->plan->request->key_position + chunk->start;
    chunk->value_ld = block->plan->cache.value_ld;
    if ((position + chunk->begin) / page_tokens == (position + chunk->end - 1) / page_tokens) {
        chunk->piece_keys = HEED_CHUNK;
        chunk->values[0] = type_at(chunk->value_type, cache_value(block, chunk->begin), -chunk->begin * chunk->value_ld);
        return;
    }
    chunk->piece_keys = HEED_CHUNK;
    while (page_tokens % chunk->piece_keys)
        chunk->piece_keys /= 2;
    for (int at = chunk->begin / chunk->piece_keys * chunk->piece_keys; at < chunk->end; at += chunk->piece_keys)
        chunk->values[at / chunk->piece_keys] = cache_value(block, at);
}

/* As floats, in rows of whole lines, the rest zeros: what kernels make of it is not used, but denormals would slow them. */
static void pack_values(struct attention_block *block) {
    struct attention_chunk *chunk = block->chunk;
    const int64_t value_dim = block->plan->request->value_dim, ld = block->plan->output_ld;
    for (int at = chunk->begin, n; at < chunk->end; at += n) {
        const int in_piece = at % chunk->piece_keys;
        const void *rows = type_at(chunk->value_type, chunk->values[at / chunk->piece_keys], in_piece * chunk->value_ld);
        n = smaller(chunk->piece_keys - in_piece, chunk->end - at);
        if (block->plan->pairs) {
            block->kernels->pair_rows(rows, chunk->value_type, chunk->value_ld, n, value_dim, at % 2,
                                      block->values + at / 2 * 2 * ld, ld);
            continue;
        }
        block->kernels->widen_rows(rows, chunk->value_type, chunk->value_ld, n, value_dim, block->values + at * ld, ld);
        for (int i = at; value_dim < ld && i < at + n; i++)
            memset(block->values + i * ld + value_dim, 0, (size_t)(ld - value_dim) * sizeof(float));
    }
    chunk->values[0] = block->values;
    chunk->value_type = HEED_F32;
    chunk->piece_keys = HEED_CHUNK;
    chunk->value_ld = ld;
}

void heed_block_load_values(struct attention_block *block) {
    struct attention_chunk *chunk = block->chunk;
    const struct heed_input *view = &block->plan->request->value;
    chunk->value_type = block->plan->value_type;
    if (chunk->value_type == HEED_I8 && (block->plan->dots || block->plan->thin_dots)) /* which multiply whole dots */
        memset(chunk->value_scales, 0, (size_t)round_up(chunk->end, HEED_DOT) * sizeof *chunk->value_scales);
    if (chunk->value_type == HEED_I8)
        load_scales(block, kv_value_scale, chunk->value_scales);
    if (block->plan->request->cache) {
        find_cache_values(block);
    } else {
        chunk->piece_keys = HEED_CHUNK;
        chunk->value_ld = view->token_stride;
        chunk->values[0] = row_of(block, view, chunk->start);
    }
    if (block->plan->dots)
        heed_block_arrange_values(block);
    else if (block->plan->pack_values)
        pack_values(block);
}
