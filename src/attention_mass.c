/* Sums of attention weights by key, over rows: a second pass over the scores once every row's final maximum and sum are known.  A
 * task is one chunk of keys of one key/value head; it adds its rows in order, whatever the number of workers. */
#include <string.h>

#include "attention_block.h"
#include "internal.h"
#include "schedule.h"

int64_t heed_attention_mass_tasks(const struct attention_plan *plan) {
    return plan->request->mass.data ? plan->heads * ceil_div(plan->columns, HEED_CHUNK) : 0;
}

/* The first of the sequence's rows that count. */
static int64_t first_row(const struct attention_plan *plan, const struct attention_sequence *sequence) {
    const int64_t wanted = plan->request->mass_queries;
    return wanted > 0 ? max_i64(0, sequence->queries - wanted) * plan->group : 0;
}

static void add_rows(const struct attention_block *block, float *shared, int rows) {
    for (int i = 0; i < rows; i++) {
        const int begin = block->chunk->begins[i], end = block->chunk->ends[i];
        const float *final = heed_block_row_max_sum(block, shared, i);
        if (begin < end)
            block->kernels->mass_row(block->mass + (block->first + i) % block->plan->group * HEED_CHUNK + begin,
                                     block->chunk->scores + i * HEED_CHUNK + begin, end - begin, final[0], final[1]);
    }
}

static void store_mass(const struct attention_plan *plan, int64_t head, int64_t index, const float *mass) {
    const struct heed_attention *request = plan->request;
    const struct heed_output *view = &request->mass;
    const int64_t start = index * HEED_CHUNK, n = min_i64(HEED_CHUNK, plan->columns - start);
    for (int64_t i = 0; i < plan->group; i++) {
        const int64_t query_head = head % request->num_kv_heads * plan->group + i;
        plan->kernels->store_row(mass + i * HEED_CHUNK, n, 1.0f,
                                 (float *)view->data + head / request->num_kv_heads * view->batch_stride +
                                     query_head * view->head_stride + start);
    }
}

/* Rows [first, first + rows) of the head, by the arrays and the chunk of the block of all. */
static void add_scores(const struct attention_block *all, float *shared, int64_t first, int rows) {
    struct attention_block block = *all;
    block.first = first;
    block.rows = rows;
    if (!heed_block_find_ranges(&block, 0, rows))
        return;
    heed_block_load_queries(&block, 0, rows);
    heed_dots_begin(block.plan->dots, &block.callers);
    heed_block_score(&block, 0, rows);
    heed_dots_end(block.plan->dots, &block.callers);
    add_rows(&block, shared, rows);
}

/* Keys are loaded once for all rows: for each few of them, a call with a mass of 1024 tokens takes 1.04 times as long (Zen 5). */
static bool add_chunk(struct attention_block *all, float *shared, float *workspace, int64_t index) {
    const struct attention_plan *plan = all->plan;
    const int64_t step = min_i64(plan->subrows, plan->block_rows), end = all->first + all->rows;
    struct attention_chunk chunks[HEED_CHUNKS_TOGETHER];
    all->first_chunk = index; /* so that it opens with what this one chunk needs */
    all->last_chunk = index + 1;
    heed_block_open(all, shared, workspace, 0, chunks);
    heed_block_load_keys(all, index);
    for (int64_t first = all->first; first < end; first += step) {
        if (heed_exec_cancelled(plan->exec))
            return false;
        add_scores(all, shared, first, (int)min_i64(step, end - first));
    }
    return true;
}

bool heed_attention_mass_task(const struct attention_plan *plan, int64_t task, float *shared, float *workspace) {
    const int64_t chunks = ceil_div(plan->columns, HEED_CHUNK), head = task / chunks, index = task % chunks;
    const struct attention_sequence sequence = heed_attention_sequence(plan->request, head / plan->request->num_kv_heads);
    struct attention_block all;
    float *mass = workspace + plan->layout.mass;
    memset(mass, 0, (size_t)(plan->group * HEED_CHUNK) * sizeof *mass);
    heed_block_find(&all, plan, head, first_row(plan, &sequence), plan->group * sequence.queries);
    if (index >= all.first_chunk && index < all.last_chunk && !add_chunk(&all, shared, workspace, index))
        return false;
    store_mass(plan, head, index, mass);
    return true;
}
