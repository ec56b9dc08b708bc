/* A block of rows, and what becomes of them with one chunk of keys: scores, their softmax, and outputs. */
#include "attention_block.h"

#include <string.h>

#include "internal.h"

int64_t heed_block_row_offset(const struct attention_block *block, int64_t batch_stride, int64_t head_stride, int64_t token_stride,
                              int64_t row) {
    const bool packed = block->plan->request->query_starts != NULL;
    const int64_t base = packed ? block->sequence.first_query * token_stride : block->sequence.batch * batch_stride;
    const struct attention_row of_head = heed_block_row(block, row);
    return base + of_head.head * head_stride + of_head.token * token_stride;
}

static const void *query_row(const struct attention_block *block, int64_t row) {
    const struct heed_input *view = &block->plan->request->query;
    return type_at(view->type, view->data,
                   heed_block_row_offset(block, view->batch_stride, view->head_stride, view->token_stride, row));
}

float *heed_block_output_row(const struct attention_block *block, const struct heed_output *view, int64_t row) {
    return (float *)view->data + heed_block_row_offset(block, view->batch_stride, view->head_stride, view->token_stride, row);
}

float *heed_block_row_max_sum(const struct attention_block *block, float *shared, int64_t row) {
    const struct heed_attention *request = block->plan->request;
    const int64_t head_rows = request->query_tokens, batch_rows = request->num_heads * head_rows;
    return shared + block->plan->layout.row_max_sum + 2 * heed_block_row_offset(block, batch_rows, head_rows, 1, row);
}

static void place_arrays(struct attention_block *block, float *workspace, int i) {
    const struct attention_layout *layout = &block->plan->layout;
    block->query = workspace + i * layout->head + layout->query;
    block->keys = workspace + layout->keys;
    block->values = workspace + layout->values;
    block->output = workspace + i * layout->head + layout->output;
    block->max = workspace + i * layout->head + layout->max;
    block->sum = workspace + i * layout->head + layout->sum;
    block->keep_old = workspace + layout->keep_old;
    block->take_new = workspace + layout->take_new;
    block->chunk_output = workspace + i * layout->head + layout->chunk_output;
    block->source = workspace + layout->source;
    block->term = workspace + layout->term;
    block->relative = workspace + layout->relative;
    block->mass = workspace + layout->mass;
}

/* Those of the i-th chunk of some. */
static void place_chunk(const struct attention_plan *plan, float *workspace, int i, struct attention_chunk *chunk) {
    const struct attention_layout *layout = &plan->layout;
    const int64_t row = i * min_i64(plan->block_rows, plan->subrows);
    chunk->key_scales = workspace + layout->key_scales + i * HEED_CHUNK;
    chunk->value_scales = workspace + layout->value_scales + i * HEED_CHUNK;
    chunk->begins = (int *)(workspace + layout->begins) + row;
    chunk->ends = (int *)(workspace + layout->ends) + row;
    chunk->scores = workspace + layout->scores + row * HEED_CHUNK;
    chunk->row_max = workspace + layout->row_max + row * HEED_SUM_LANES;
    chunk->max = workspace + layout->chunk_max + row;
    chunk->sum = workspace + layout->chunk_sum + row;
}

int64_t heed_block_rows_apart(const struct attention_block *block, int64_t row) {
    const int64_t group = block->plan->group, left = block->rows - row;
    return group == 1 ? left : min_i64(left, group - (block->first + row) % group);
}

/* Queries as they meet the keys of a cache that has scales of channels. */
static void multiply_by_channels(const struct attention_block *block, const float *scales, int64_t rows, const void *query,
                                 int64_t stride, float *to, int64_t ld) {
    const struct heed_attention *request = block->plan->request;
    block->kernels->widen_rows(query, request->query.type, stride, rows, request->head_dim, to, ld);
    for (int64_t i = 0; i < rows; i++)
        block->kernels->scale_row(to + i * ld, request->head_dim, scales);
}

void heed_block_load_queries(const struct attention_block *block, int64_t from, int64_t rows) {
    const struct heed_attention *request = block->plan->request;
    const struct heed_input *view = &request->query;
    const int64_t stride = block->plan->group == 1 ? view->token_stride : view->head_stride, head_dim = request->head_dim;
    const bool arranged = block->plan->dots || block->plan->thin_dots || block->plan->i8_keys;
    const int64_t ld = block->plan->i8_keys ? round_up(head_dim, TYPE_BLOCK) : arranged ? head_dim : block->plan->depth;
    float *to = arranged ? block->source : block->query + from * ld;
    const struct heed_kernels *kernels = block->kernels;
    const float *scales = request->cache ? kv_channel_scales(request->cache, block->kv_head) : NULL;
    for (int64_t i = from, n; i < from + rows; i += n, to += n * ld) {
        const void *query = query_row(block, i);
        n = min_i64(heed_block_rows_apart(block, i), from + rows - i);
        if (scales)
            multiply_by_channels(block, scales, n, query, stride, to, ld);
        (block->plan->pairs && !arranged ? kernels->pair_queries : kernels->scale_rows)(
            scales ? to : query, scales ? HEED_F32 : view->type, scales ? ld : stride, n, head_dim, block->plan->query_factor, to,
            ld);
    }
    if (block->plan->i8_keys)
        heed_block_round_queries(block, from, rows);
    else if (arranged)
        heed_block_arrange_queries(block, from, rows);
}

void heed_block_find(struct attention_block *block, const struct attention_plan *plan, int64_t head, int64_t first, int64_t rows) {
    const struct heed_attention *request = plan->request;
    *block = (struct attention_block){.plan = plan, .kernels = plan->kernels};
    block->sequence = heed_attention_sequence(request, head / request->num_kv_heads);
    block->head = head;
    block->kv_head = head % request->num_kv_heads;
    block->first = first;
    block->rows = attention_plan_has(plan, &block->sequence) ? min_i64(rows, plan->group * block->sequence.queries - first) : 0;
    if (block->rows <= 0)
        return;
    const struct attention_range begin = heed_attention_range(request, &block->sequence, heed_block_row(block, 0).token);
    const struct attention_range end =
        heed_attention_range(request, &block->sequence, heed_block_row(block, block->rows - 1).token);
    if (begin.begin < end.end) {
        block->first_chunk = begin.begin / HEED_CHUNK;
        block->last_chunk = ceil_div(end.end, HEED_CHUNK);
    }
}

void heed_block_open(struct attention_block *block, const float *shared, float *workspace, int i, struct attention_chunk *chunks) {
    place_arrays(block, workspace, i);
    const int first = block->plan->takes_turns ? i : 0;
    for (int j = 0; j < block->plan->together; j++)
        place_chunk(block->plan, workspace, first + j, &chunks[first + j]);
    block->chunks = block->chunk = &chunks[first];
    if (block->plan->request->relative.table)
        heed_block_load_relative(block, shared);
}

/* Those from the i-th of the current rows on, the first of which is row `from`.  Ranges never go back from row to row, so the first
 * and the last row tell which panels are seen. */
static void score_panel_rows(const struct attention_block *block, int64_t from, int i, int rows) {
    const struct attention_chunk *chunk = block->chunk;
    const int64_t depth = block->plan->depth;
    struct heed_score_panel panel = {.rows = rows,
                                     .columns = chunk->key_width,
                                     .hides = !block->plan->has_passes,
                                     .head_dim = depth,
                                     .query = block->query + (from + i) * depth,
                                     .ldq = depth,
                                     .ldk = chunk->key_width,
                                     .begins = chunk->begins + i,
                                     .ends = chunk->ends + i,
                                     .s = chunk->scores + i * HEED_CHUNK,
                                     .row_max = chunk->row_max + i * HEED_SUM_LANES};
    for (int number = panel.begins[0] / chunk->key_width; number * chunk->key_width < panel.ends[rows - 1]; number++) {
        panel.key = number * chunk->key_width;
        panel.keys = chunk->keys[number];
        if (block->plan->fetches_scores)
            heed_block_fetch_scores(block, from + i, rows, chunk->start + panel.key, chunk->key_width);
        block->kernels->score_panel(&panel);
    }
}

static void score_panels(const struct attention_block *block, int64_t from, int rows) {
    const int each = block->plan->fetches_scores ? HEED_FETCHED_ROWS : rows;
    for (int i = 0; i < rows; i += each)
        score_panel_rows(block, from, i, smaller(each, rows - i));
}

/* What is left to do with a row of products: of few rows, too, what panels of scores do in registers. */
static void pass_row(const struct attention_block *block, int64_t row, int i) {
    const struct attention_chunk *chunk = block->chunk;
    if (chunk->begins[i] >= chunk->ends[i])
        return;
    if (block->plan->has_passes)
        heed_block_pass_scores(block, row, i);
    else if (block->plan->is_thin)
        block->kernels->seal_row(chunk->scores + i * HEED_CHUNK, chunk->begins[i], chunk->ends[i], 1.0f,
                                 block->plan->key_type == HEED_I8 ? chunk->key_scales : NULL, chunk->row_max + i * HEED_SUM_LANES);
}

void heed_block_score(const struct attention_block *block, int64_t from, int rows) {
    if (block->plan->i8_keys)
        heed_block_score_i8(block, from, rows);
    else if (block->plan->is_thin)
        heed_block_score_thin(block);
    else if (block->plan->dots)
        heed_block_score_dots(block, from, rows);
    else
        score_panels(block, from, rows);
    for (int i = 0; i < rows; i++)
        pass_row(block, from + i, i);
}

/* Where weights are wanted, scores are kept until all chunks' maxima are known. */
static void store_row(const struct attention_block *block, int64_t row, int i) {
    const struct heed_output *weights = &block->plan->request->weights;
    const int begin = block->chunk->begins[i], end = block->chunk->ends[i];
    if (weights->data && begin < end)
        memcpy(heed_block_output_row(block, weights, row) + block->chunk->start + begin,
               block->chunk->scores + i * HEED_CHUNK + begin, (size_t)(end - begin) * sizeof(float));
}

/* By the scales of the values that they meet; sums of weights are without.  Of pairs, exp_rows does it. */
static void scale_row(const struct attention_block *block, int i) {
    const int begin = block->chunk->begins[i];
    if (block->plan->value_type == HEED_I8 && !block->plan->pairs)
        block->kernels->scale_row(block->chunk->scores + i * HEED_CHUNK + begin, block->chunk->ends[i] - begin,
                                  block->chunk->value_scales + begin);
}

static struct heed_exp_rows exp_rows(const struct attention_block *block, int rows) {
    const bool scales = block->plan->pairs && block->plan->value_type == HEED_I8;
    const struct attention_chunk *chunk = block->chunk;
    return (struct heed_exp_rows){.rows = rows,
                                  .begins = chunk->begins,
                                  .ends = chunk->ends,
                                  .s = chunk->scores,
                                  .row_max = chunk->row_max,
                                  .chunk_max = chunk->max,
                                  .chunk_sum = chunk->sum,
                                  .pairs = block->plan->pairs,
                                  .scales = scales ? chunk->value_scales : NULL};
}

struct heed_dot_weights heed_block_dot_weights(const struct attention_block *block, int rows) {
    const struct attention_chunk *chunk = block->chunk;
    struct heed_dot_weights weights = {.rows = exp_rows(block, rows),
                                       .first = chunk->begins[0] / HEED_DOT * HEED_DOT,
                                       .last = chunk->ends[rows - 1],
                                       .scales = block->plan->value_type == HEED_I8 ? chunk->value_scales : NULL};
    weights.rows.row_max = NULL;
    return weights;
}

/* Where nobody asks for scores, what makes dots scales them, too, and finds their maxima. */
void heed_block_weigh_thin(const struct attention_block *block) {
    const struct attention_plan *plan = block->plan;
    const struct attention_chunk *chunk = block->chunk;
    const struct heed_exp_rows exp = exp_rows(block, (int)block->rows);
    const bool passes = !chunk->dots || plan->has_passes || plan->request->weights.data;
    for (int i = 0; passes && i < block->rows; i++) {
        pass_row(block, i, i);
        store_row(block, i, i);
    }
    if (chunk->dots) {
        struct heed_dot_weights weights = heed_block_dot_weights(block, (int)block->rows);
        weights.key_scales = plan->key_type == HEED_I8 && !passes ? chunk->key_scales : NULL;
        plan->thin_dots->weigh(&weights);
        return;
    }
    block->kernels->exp_rows(&exp);
    for (int i = 0; i < block->rows; i++)
        scale_row(block, i);
}

struct heed_merge_rows heed_block_merge(const struct attention_block *block, int64_t from, int rows) {
    return (struct heed_merge_rows){.rows = rows,
                                    .max = block->max + from,
                                    .sum = block->sum + from,
                                    .chunk_max = block->chunk->max,
                                    .chunk_sum = block->chunk->sum,
                                    .keep_old = block->keep_old,
                                    .take_new = block->take_new};
}

/* The chunk's values, weighted: merged into the running output, or apart. */
static struct heed_value_rows value_rows(const struct attention_block *block, int64_t from, int rows) {
    const int64_t output_ld = block->plan->output_ld;
    const bool apart = block->plan->keeps_states;
    const struct attention_chunk *chunk = block->chunk;
    return (struct heed_value_rows){
        .rows = rows,
        .columns = block->plan->request->value_dim,
        .begins = chunk->begins,
        .ends = chunk->ends,
        .p = chunk->scores,
        .values = chunk->values,
        .piece_keys = chunk->piece_keys,
        .ldv = chunk->value_ld,
        .o = apart ? block->chunk_output : block->output + from * output_ld,
        .ldo = output_ld,
        .keep_old = apart ? NULL : block->keep_old,
        .take_new = block->take_new,
        .pairs = block->plan->pairs,
    };
}

/* From scores to outputs, merged or apart. */
static void softmax_rows(struct attention_block *block, int64_t from, int rows) {
    const struct attention_plan *plan = block->plan;
    if (plan->dots) {
        heed_block_softmax_dots(block, from, rows);
        return;
    }
    struct heed_softmax_values all = {exp_rows(block, rows), heed_block_merge(block, from, rows), value_rows(block, from, rows)};
    heed_block_fetch(block, rows, all.exp.next);
    if (plan->exps_beside) {
        block->kernels->softmax_values(&all);
        return;
    }
    block->kernels->exp_rows(&all.exp);
    for (int i = 0; i < rows; i++)
        scale_row(block, i);
    if (plan->splits == 1)
        block->kernels->merge_rows(&all.merge);
    if (plan->i8_values)
        heed_block_weight_i8(block, rows, NULL);
    else
        block->kernels->value_rows(&all.values);
}

void heed_block_softmax(struct attention_block *block, float *shared, int64_t from, int rows) {
    for (int i = 0; i < rows; i++)
        store_row(block, from + i, i);
    softmax_rows(block, from, rows);
    if (block->plan->keeps_states)
        heed_block_keep_states(block, shared, from, rows);
}
