/* What a block will read next is fetched into the cache during its products, which leave memory alone: keys and values of the next
 * chunk, or of the next block's first one, and queries.  All of it is advice: nothing is read, and nothing depends on it. */
#include "attention_block.h"
#include "internal.h"

/* Lines of keys or values for the exponentials of HEED_ATTENTION_SUBROWS rows: about as many as come in their time.  With 64, a
 * head of 512 tokens is not fetched in time and 1 % is lost. */
enum { SHARE_LINES = 192 };

/* The stride of a single row may be any number. */
static struct heed_fetch rows_of(const void *data, enum heed_type type, int64_t ld, int rows, int64_t width) {
    const int64_t bytes = type_bytes(type), lines = ceil_div(width * bytes, HEED_LINE * (int64_t)sizeof(float));
    return (struct heed_fetch){data, rows > 1 ? ld * bytes : 0, rows, (int)min_i64(lines, SHARE_LINES), 0};
}

/* Of a cache, as far as the first key's page goes. */
static int64_t rows_in_page(const struct attention_block *block, int64_t index, int64_t keys) {
    const struct heed_attention *request = block->plan->request;
    if (!request->cache)
        return keys;
    const int64_t page_tokens = request->cache->page_tokens;
    return min_i64(keys, page_tokens - (request->key_position + index * HEED_CHUNK) % page_tokens);
}

void heed_block_plan_fetch(struct attention_block *block) {
    const struct heed_attention *request = block->plan->request;
    const struct attention_block *next = block->next;
    const int64_t next_index = block->next_chunk;
    block->fetch = (struct attention_fetch){.share = 0};
    if (!next || block->plan->is_thin)
        return;
    const int64_t keys = next_index < next->last_chunk ? heed_block_keys_seen(next, next_index) : 0;
    if (keys <= 0)
        return;
    const int rows = (int)rows_in_page(next, next_index, keys);
    const int64_t key_ld = request->cache ? request->head_dim : request->key.token_stride;
    const int64_t value_ld = request->cache ? block->plan->cache.value_ld : request->value.token_stride;
    const int64_t shares = ceil_div(block->rows, block->plan->subrows);
    block->fetch.keys = rows_of(heed_block_first_key(next, next_index), block->plan->key_type, key_ld, rows, request->head_dim);
    block->fetch.values =
        rows_of(heed_block_first_value(next, next_index), block->plan->value_type, value_ld, rows, request->value_dim);
    block->fetch.share = (int)min_i64(SHARE_LINES / block->fetch.keys.lines, ceil_div(2 * rows, shares));
}

/* The rows from row `from` on that are computed at once, in the queries or the output; of several heads to a key/value head, whole
 * tokens, if either these or the heads lie side by side. */
static struct heed_fetch rows_from(const struct attention_block *block, int64_t from, const struct heed_input *view,
                                   int64_t width) {
    const int64_t group = block->plan->group, to = min_i64(from + block->plan->subrows, block->rows);
    const int64_t row = from - (block->first + from) % group, tokens = ceil_div(to - row, group);
    if (from >= to || !view->data || group > block->plan->subrows)
        return (struct heed_fetch){.rows = 0};
    const void *data = type_at(view->type, view->data,
                               heed_block_row_offset(block, view->batch_stride, view->head_stride, view->token_stride, row));
    if (group == 1 || view->head_stride == width)
        return rows_of(data, view->type, view->token_stride, (int)tokens, group * width);
    return rows_of(data, view->type, view->head_stride, view->token_stride == width ? (int)group : 0, tokens * width);
}

void heed_block_fetch_queries(struct attention_block *block, int64_t from) {
    const struct heed_attention *request = block->plan->request;
    block->fetch.queries = rows_from(block, from, &request->query, request->head_dim);
}

/* What is written must be in a cache first: 512 tokens of 12 heads of 64 take 0.985 of the time with this.  Not with a single chunk
 * of keys, beside all queries: 128 tokens would take 1.02. */
void heed_block_fetch_outputs(struct attention_block *block, int64_t from) {
    const struct heed_input view = view_of_output(&block->plan->request->output);
    block->fetch.outputs = rows_from(block, from, &view, block->plan->request->value_dim);
}

/* So many, beside `scores` rows of these.  A stride may lead from the last row to nowhere. */
static struct heed_fetch take(struct heed_fetch *from, int rows, int scores) {
    struct heed_fetch share = *from;
    share.rows = smaller(rows, from->rows);
    share.each = (int)ceil_div(share.rows, scores);
    from->rows -= share.rows;
    if (from->rows > 0)
        from->data += share.rows * from->step;
    return share;
}

void heed_block_fetch(struct attention_block *block, int rows, struct heed_fetch next[HEED_FETCHES]) {
    struct attention_fetch *fetch = &block->fetch;
    next[0] = take(&fetch->queries, fetch->queries.rows, rows);
    next[1] = take(&fetch->outputs, fetch->outputs.rows, rows);
    next[2] = take(fetch->keys.rows > 0 ? &fetch->keys : &fetch->values, fetch->share, rows);
}
