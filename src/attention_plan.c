/* The plan of an attention call: how rows are cut into tasks, how many workers, how much workspace.  None of it can change a bit.
 * Memory depends on sizes alone, not on the lengths within them, so that one plan serves all calls of a growing sequence. */
#include <math.h>

#include "attention.h"
#include "dispatch.h"
#include "internal.h"
#include "schedule.h"
#include "workspace.h"

/* Queries and running outputs of one task: half of the smallest L2 cache around (1 MiB), beside a chunk of keys and of values. */
#define BLOCK_FLOATS (512 * 1024 / (int64_t)sizeof(float))
/* With this many rows a block's work hides the packing of its keys (about 1 % of it at 384 rows). */
#define BLOCK_ROWS_MOST 768
/* Tasks for each worker, so that the last one to finish does not leave the others waiting for long. */
#define TASKS_PER_WORKER 4
/* Keys and values are packed when at least so many rows share them: strided rows share few cache sets and pages. */
#define PACK_ROWS 48

static void plan_scores(struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    const float log2e = 0x1.715476p+0f, ln2 = 0x1.62e430p-1f;
    const float scale = request->scale != 0.0f ? request->scale : 1.0f / sqrtf((float)request->head_dim);
    plan->has_terms = request->softcap != 0.0f || request->bias.data || request->alibi_slopes || request->relative.table != NULL;
    plan->has_passes = plan->has_terms || request->mask.data || request->tree.words || request->scores.data;
    plan->query_factor = plan->has_terms ? scale : scale * log2e;
    plan->score_factor = plan->has_terms ? log2e : 1.0f;
    plan->raw_factor = plan->has_terms ? 1.0f : ln2;
    if (request->relative.table)
        plan->relative_keys = 2 * request->relative.max_distance + 2 * HEED_CHUNK;
}

static void plan_memory_access(struct attention_plan *plan, int64_t rows) {
    const struct heed_attention *request = plan->request;
    if (request->cache) {
        heed_kv_layout(request->cache, &plan->cache);
        plan->pack_keys = plan->cache.width < plan->kernels->tile_columns && rows >= PACK_ROWS;
        plan->pack_values = request->cache->page_tokens < HEED_PANEL && rows >= PACK_ROWS;
        return;
    }
    plan->pack_keys = true;
    plan->pack_values =
        request->value_dim % plan->kernels->lanes != 0 || (request->value.token_stride != request->value_dim && rows >= PACK_ROWS);
}

static int64_t choose_block_rows(const struct attention_plan *plan, int64_t rows) {
    const int64_t width = plan->request->head_dim + plan->request->value_dim;
    int64_t most = max_i64(HEED_ATTENTION_SUBROWS, min_i64(BLOCK_ROWS_MOST, BLOCK_FLOATS / width));
    if (plan->most_workers > 1) {
        const int64_t blocks_wanted = ceil_div((int64_t)plan->most_workers * TASKS_PER_WORKER, plan->heads);
        most = min_i64(most, ceil_div(rows, blocks_wanted));
    }
    return min_i64(round_up(most, HEED_ATTENTION_SUBROWS), rows);
}

/* Few rows against many keys: workers share the keys of one block. */
static int64_t choose_splits(const struct attention_plan *plan, int64_t rows) {
    const int64_t wanted = (int64_t)plan->most_workers * TASKS_PER_WORKER;
    if (plan->most_workers == 1 || rows > HEED_ATTENTION_SUBROWS || plan->heads >= wanted)
        return 1;
    return max_i64(1, min_i64(plan->chunks, ceil_div(wanted, plan->heads)));
}

/* Multiplications and additions for all pairs of a query and a key in its reach, roughly; most: whatever the lengths are. */
static double count_flops(const struct heed_attention *request, bool most) {
    const double per_pair = 2.0 * (double)request->num_heads * (double)(request->head_dim + request->value_dim);
    const int64_t sequences = most ? 1 : request->batch;
    const bool packed = request->query_starts || request->key_starts;
    double pairs = 0;
    int64_t reach = INT64_MAX;
    if (request->window.on && request->window.left >= 0 && (request->window.right >= 0 || request->causal))
        reach = request->window.left + max_i64(0, request->causal ? 0 : request->window.right) + 1;
    if (most || !(packed || request->key_lengths))
        return per_pair * (packed ? 1.0 : (double)request->batch) * (double)request->query_tokens *
               (double)min_i64(request->key_tokens, reach);
    for (int64_t b = 0; b < sequences; b++) {
        const struct attention_sequence s = heed_attention_sequence(request, b);
        pairs += (double)s.queries * (double)min_i64(s.keys, reach);
    }
    return per_pair * pairs;
}

struct array {
    int64_t *offset, floats;
};

static int64_t lay_out(const struct array *arrays, unsigned count) {
    int64_t floats = 0;
    for (unsigned i = 0; i < count; i++) {
        *arrays[i].offset = floats;
        floats += workspace_round(arrays[i].floats);
    }
    return floats;
}

static void lay_out_shared(struct attention_plan *plan) {
    struct attention_layout *layout = &plan->layout;
    const struct heed_attention *request = plan->request;
    const int64_t states = plan->splits > 1 ? plan->heads * plan->chunks : 0,
                  sequences = request->query_starts ? 1 : request->batch;
    const int64_t query_rows = request->mass.data ? sequences * request->num_heads * request->query_tokens : 0;
    const struct array arrays[] = {
        {&layout->state_output, states * plan->block_rows * plan->output_ld},
        {&layout->state_max, states * round_up(plan->block_rows, 16)},
        {&layout->state_sum, states * round_up(plan->block_rows, 16)},
        {&layout->splits_left, plan->splits > 1 ? plan->heads : 0},
        {&layout->row_max_sum, 2 * query_rows},
        {&layout->relative_step, request->relative.table ? heed_relative_buckets(&request->relative) : 0},
    };
    layout->shared = lay_out(arrays, sizeof arrays / sizeof *arrays);
}

static void lay_out_worker(struct attention_plan *plan) {
    struct attention_layout *layout = &plan->layout;
    const struct heed_attention *request = plan->request;
    const int64_t subrows = round_up(min_i64(plan->block_rows, HEED_ATTENTION_SUBROWS), 16);
    const int64_t rows = round_up(plan->block_rows, 16);
    const struct array arrays[] = {
        {&layout->query, plan->block_rows * request->head_dim},
        {&layout->keys, plan->pack_keys ? plan->chunk_keys * request->head_dim : 0},
        {&layout->values, plan->pack_values ? plan->chunk_keys * round_up(request->value_dim, HEED_PANEL) : 0},
        {&layout->scores, subrows * HEED_CHUNK},
        {&layout->row_max, subrows * HEED_SUM_LANES},
        {&layout->chunk_max, subrows},
        {&layout->chunk_sum, subrows},
        {&layout->keep_old, subrows},
        {&layout->take_new, subrows},
        {&layout->begins, subrows},
        {&layout->ends, subrows},
        {&layout->chunk_output, plan->keeps_states ? subrows * plan->output_ld : 0},
        {&layout->term, plan->has_passes ? HEED_CHUNK : 0},
        {&layout->relative, plan->group * plan->relative_keys},
        {&layout->mass, request->mass.data ? plan->group * HEED_CHUNK : 0},
        {&layout->max, rows},
        {&layout->sum, rows},
        {&layout->output, plan->block_rows * plan->output_ld},
    };
    layout->worker = lay_out(arrays, sizeof arrays / sizeof *arrays);
}

/* The longest sequence decides how many blocks a head has, and how wide a row of weights is. */
static void plan_sequences(struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    int64_t queries = request->query_starts ? 0 : request->query_tokens, keys = request->key_starts ? 0 : request->key_tokens;
    for (int64_t b = 0; request->query_starts && b < request->batch; b++)
        queries = max_i64(queries, request->query_starts[b + 1] - request->query_starts[b]);
    for (int64_t b = 0; request->key_starts && b < request->batch; b++)
        keys = max_i64(keys, request->key_starts[b + 1] - request->key_starts[b]);
    plan->columns = keys;
    plan->blocks = ceil_div(plan->group * queries, plan->block_rows);
    plan->tasks = plan->heads * (plan->splits > 1 ? plan->splits : plan->blocks);
    plan->flops = count_flops(request, false);
    plan->workers = (int)min_i64(heed_schedule_workers(plan->exec, plan->tasks, plan->flops), plan->most_workers);
}

void heed_attention_prepare(const struct heed_attention *request, const struct heed_exec *exec, const struct heed_kernels *kernels,
                            struct attention_plan *plan) {
    *plan = (struct attention_plan){.request = request, .exec = exec, .kernels = kernels, .machine = heed_kernels_usable(0)};
    plan->group = request->num_heads / request->num_kv_heads;
    plan->heads = request->batch * request->num_kv_heads;
    plan->chunks = ceil_div(request->key_tokens, HEED_CHUNK);
    plan->output_ld = round_up(request->value_dim, HEED_SUM_LANES);
    plan->chunk_keys = min_i64(HEED_CHUNK, round_up(request->key_tokens, HEED_PANEL));
    const int64_t rows = max_i64(1, plan->group * request->query_tokens);
    plan_scores(plan);
    plan_memory_access(plan, rows);
    plan->most_workers = heed_schedule_workers(exec, INT64_MAX, count_flops(request, true));
    plan->block_rows = choose_block_rows(plan, rows);
    plan->splits = choose_splits(plan, rows);
    plan->keeps_states = plan->splits > 1 || request->states.output.data;
    lay_out_shared(plan);
    lay_out_worker(plan);
    plan_sequences(plan);
}
