/* One task of attention: a block of rows against all the keys that they may see, chunk by chunk, serially.
 *
 * The scheme is FlashAttention-2's (Dao 2023): scores, softmax and value products of one chunk while it is in the cache, with a
 * running maximum and sum for each row.  Here a chunk is a fixed 256 keys, so that the rounding of a row does not depend on the
 * blocking. */
#include <math.h>
#include <string.h>

#include "attention.h"
#include "internal.h"

struct block {
    const struct attention_plan *plan;
    const struct heed_kernels *kernels;
    int64_t batch, kv_head;
    int64_t first, rows; /* of the key/value head's rows */
    const float *key, *value;
    float *query, *keys, *values, *output, *max, *sum;
    float *scores, *row_max, *chunk_max, *chunk_sum, *keep_old, *take_new;
    int *counts;
    /* of the current chunk: */
    int64_t start;  /* its first key */
    const float *v; /* its values, in columns panels v_panel apart, rows v_ld apart */
    int64_t v_ld, v_panel;
};

static int64_t head_of(const struct block *block, int64_t row) {
    return block->kv_head * block->plan->group + row % block->plan->group;
}

/* Row `row` of an output view: batch, head and token of that row. */
static float *output_row(const struct block *block, const struct heed_output *view, int64_t row) {
    return view->data + block->batch * view->batch_stride + head_of(block, row) * view->head_stride +
           row / block->plan->group * view->token_stride;
}

static void open_block(struct block *block, const struct attention_plan *plan, int64_t task, float *workspace) {
    const struct heed_attention *request = &plan->request;
    const struct attention_layout *layout = &plan->layout;
    /* Late blocks see more keys when causal: started first, they do not end last. */
    const int64_t index = plan->blocks - 1 - task % plan->blocks, head = task / plan->blocks;
    *block = (struct block){
        .plan = plan,
        .kernels = plan->kernels,
        .batch = head / request->num_kv_heads,
        .kv_head = head % request->num_kv_heads,
        .first = index * plan->block_rows,
        .rows = min_i64(plan->block_rows, plan->rows - index * plan->block_rows),
        .query = workspace + layout->query,
        .keys = workspace + layout->keys,
        .values = workspace + layout->values,
        .output = workspace + layout->output,
        .max = workspace + layout->max,
        .sum = workspace + layout->sum,
        .scores = workspace + layout->scores,
        .row_max = workspace + layout->row_max,
        .chunk_max = workspace + layout->chunk_max,
        .chunk_sum = workspace + layout->chunk_sum,
        .keep_old = workspace + layout->keep_old,
        .take_new = workspace + layout->take_new,
        .counts = (int *)(workspace + layout->counts),
    };
    block->key = request->key.data + block->batch * request->key.batch_stride + block->kv_head * request->key.head_stride;
    block->value = request->value.data + block->batch * request->value.batch_stride + block->kv_head * request->value.head_stride;
}

static void load_queries(const struct block *block) {
    const struct heed_attention *request = &block->plan->request;
    for (int64_t i = 0; i < block->rows; i++) {
        const int64_t row = block->first + i;
        const float *query = request->query.data + block->batch * request->query.batch_stride +
                             head_of(block, row) * request->query.head_stride +
                             row / block->plan->group * request->query.token_stride;
        block->kernels->scale(query, request->head_dim, block->plan->query_factor, block->query + i * request->head_dim);
    }
    for (int64_t i = 0; i < round_up(block->rows, 16); i++) {
        block->max[i] = -INFINITY;
        block->sum[i] = 0.0f;
    }
    memset(block->output, 0, (size_t)(block->rows * block->plan->output_ld) * sizeof(float));
}

/* Keys [start, start + n) into panels, values in place or into panels. */
static void load_chunk(struct block *block, int64_t n) {
    const struct heed_attention *request = &block->plan->request;
    const int64_t key_ld = request->key.token_stride, value_ld = request->value.token_stride;
    for (int64_t j = 0; j < n; j += HEED_PANEL)
        block->kernels->pack_transposed(block->key + (block->start + j) * key_ld, key_ld, request->head_dim,
                                        (int)min_i64(HEED_PANEL, n - j), block->keys + j * request->head_dim);
    block->v = block->value + block->start * value_ld;
    block->v_ld = value_ld;
    block->v_panel = HEED_PANEL;
    if (!block->plan->pack_values)
        return;
    for (int64_t d = 0; d < request->value_dim; d += HEED_PANEL)
        block->kernels->pack(block->v + d, value_ld, n, (int)min_i64(HEED_PANEL, request->value_dim - d),
                             block->values + d * block->plan->chunk_keys);
    block->v = block->values;
    block->v_ld = HEED_PANEL;
    block->v_panel = HEED_PANEL * block->plan->chunk_keys;
}

/* Scores of rows [from, from + rows) of the block, a tile's worth, with keys [at, at + tile_columns) of the chunk. */
static void score(const struct block *block, int64_t from, int64_t sub, int rows, int at) {
    const int64_t head_dim = block->plan->request.head_dim;
    const int columns = block->kernels->tile_columns, *counts = block->counts + sub;
    const bool all_seen = counts[0] - at >= columns;
    int limits[HEED_MAX_TILE_ROWS];
    for (int i = 0; i < rows && !all_seen; i++)
        limits[i] = counts[i] - at;
    block->kernels->score_tile(&(struct heed_score_tile){
        .rows = rows,
        .first = at == 0,
        .head_dim = head_dim,
        .query = block->query + (from + sub) * head_dim,
        .ldq = head_dim,
        .keys = block->keys + at / HEED_PANEL * HEED_PANEL * head_dim + at % HEED_PANEL,
        .limits = all_seen ? NULL : limits,
        .s = block->scores + sub * HEED_CHUNK + at,
        .row_max = block->row_max + sub * HEED_SUM_LANES,
    });
}

/* All scores of a sub-block: by columns of keys, which stay in L1 while all rows use them.  Counts never fall from row to row, so a
 * tile's last row tells whether the tile sees a key. */
static void score_subrows(const struct block *block, int64_t from, int rows, int keys) {
    const int tile_rows = block->kernels->tile_rows, tile_columns = block->kernels->tile_columns;
    for (int at = 0; at < keys; at += tile_columns)
        for (int sub = 0; sub < rows; sub += tile_rows) {
            const int in_tile = (int)min_i64(tile_rows, rows - sub);
            if (at < block->counts[sub + in_tile - 1])
                score(block, from, sub, in_tile, at);
        }
}

static void store_scores(const struct block *block, int64_t from, int rows) {
    const struct heed_output *weights = &block->plan->request.weights;
    for (int i = 0; weights->data && i < rows; i++)
        memcpy(output_row(block, weights, block->first + from + i) + block->start, block->scores + i * HEED_CHUNK,
               (size_t)block->counts[i] * sizeof(float));
}

static void value_subrows(const struct block *block, int64_t from, int rows) {
    const int tile_rows = block->kernels->tile_rows, tile_columns = block->kernels->tile_columns;
    const int64_t value_dim = block->plan->request.value_dim, output_ld = block->plan->output_ld;
    for (int sub = 0; sub < rows; sub += tile_rows) {
        const int in_tile = (int)min_i64(tile_rows, rows - sub);
        if (block->counts[sub + in_tile - 1] == 0)
            continue;
        for (int64_t d = 0; d < value_dim; d += tile_columns)
            block->kernels->value_tile(&(struct heed_value_tile){
                .rows = in_tile,
                .columns = (int)min_i64(tile_columns, value_dim - d),
                .counts = block->counts + sub,
                .p = block->scores + sub * HEED_CHUNK,
                .values = block->v + d / HEED_PANEL * block->v_panel + d % HEED_PANEL,
                .ldv = block->v_ld,
                .o = block->output + (from + sub) * output_ld + d,
                .ldo = output_ld,
                .keep_old = block->keep_old + sub,
                .take_new = block->take_new + sub,
            });
    }
}

/* Keys of the current chunk, of n, that each of the rows [from, from + rows) of the block sees; one division for all of them. */
static void count_keys(const struct block *block, int64_t from, int rows, int64_t n) {
    const int64_t row = block->first + from, group = block->plan->group;
    int64_t token = row / group, head = row % group;
    for (int i = 0; i < rows; i++) {
        block->counts[i] = (int)max_i64(0, min_i64(heed_attention_limit(block->plan, token) - block->start, n));
        if (++head == group) {
            head = 0;
            token++;
        }
    }
}

/* Rows [from, from + rows) of the block against the current chunk of n keys. */
static void attend_subrows(const struct block *block, int64_t from, int rows, int64_t n) {
    count_keys(block, from, rows, n);
    if (block->counts[rows - 1] == 0)
        return;
    score_subrows(block, from, rows, block->counts[rows - 1]);
    store_scores(block, from, rows);
    block->kernels->exp_rows(&(struct heed_exp_rows){.rows = rows,
                                                     .counts = block->counts,
                                                     .s = block->scores,
                                                     .row_max = block->row_max,
                                                     .chunk_max = block->chunk_max,
                                                     .chunk_sum = block->chunk_sum});
    block->kernels->merge_rows(&(struct heed_merge_rows){.rows = rows,
                                                         .max = block->max + from,
                                                         .sum = block->sum + from,
                                                         .chunk_max = block->chunk_max,
                                                         .chunk_sum = block->chunk_sum,
                                                         .keep_old = block->keep_old,
                                                         .take_new = block->take_new});
    value_subrows(block, from, rows);
}

static float log_sum_exp(const struct attention_plan *plan, float max, float sum) {
    const float ln2 = 0x1.62e430p-1f;
    if (sum == 0.0f)
        return -INFINITY;
    const float lse = __builtin_fmaf(max, ln2, plan->log(sum));
    return lse != lse ? __builtin_nanf("") : lse;
}

static void finish_block(const struct block *block) {
    const struct heed_attention *request = &block->plan->request;
    for (int64_t i = 0; i < block->rows; i++) {
        const int64_t row = block->first + i;
        block->kernels->finish_row(block->output + i * block->plan->output_ld, request->value_dim, block->sum[i],
                                   output_row(block, &request->output, row));
        if (request->lse.data)
            *output_row(block, &request->lse, row) = log_sum_exp(block->plan, block->max[i], block->sum[i]);
        if (request->weights.data) {
            float *weights = output_row(block, &request->weights, row);
            const int64_t seen = heed_attention_limit(block->plan, row / block->plan->group);
            block->kernels->weights_row(weights, seen, block->max[i], block->sum[i]);
            memset(weights + seen, 0, (size_t)(request->key_tokens - seen) * sizeof(float));
        }
    }
}

void heed_attention_block(const struct attention_plan *plan, int64_t task, float *workspace) {
    struct block block;
    open_block(&block, plan, task, workspace);
    load_queries(&block);
    const int64_t keys = heed_attention_limit(plan, (block.first + block.rows - 1) / plan->group);
    for (block.start = 0; block.start < keys; block.start += HEED_CHUNK) {
        const int64_t n = min_i64(HEED_CHUNK, keys - block.start);
        load_chunk(&block, n);
        for (int64_t from = 0; from < block.rows; from += HEED_ATTENTION_SUBROWS)
            attend_subrows(&block, from, (int)min_i64(HEED_ATTENTION_SUBROWS, block.rows - from), n);
    }
    finish_block(&block);
}
