/* The plan of an attention call: how rows are cut into tasks, how many workers, how much workspace.  None of it can change a bit.
 */
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
/* Values are packed when at least so many rows share them: strided rows share few cache sets and pages. */
#define PACK_VALUES_ROWS 48

static float query_factor(const struct heed_attention *request) {
    const float log2e = 0x1.715476p+0f;
    const float scale = request->scale != 0.0f ? request->scale : 1.0f / sqrtf((float)request->head_dim);
    return scale * log2e;
}

int64_t heed_attention_limit(const struct attention_plan *plan, int64_t token) {
    const struct heed_attention *request = &plan->request;
    const int64_t seen = token + 1; /* keys up to the query's own position */
    if (!request->causal)
        return request->key_tokens;
    if (request->alignment == HEED_ALIGN_BOTTOM_RIGHT)
        return max_i64(0, seen + request->key_tokens - request->query_tokens);
    return min_i64(seen, request->key_tokens);
}

static int64_t choose_block_rows(const struct attention_plan *plan, int64_t heads, int threads) {
    const int64_t width = plan->request.head_dim + plan->request.value_dim;
    int64_t rows = max_i64(HEED_ATTENTION_SUBROWS, min_i64(BLOCK_ROWS_MOST, BLOCK_FLOATS / width));
    if (threads > 1) {
        const int64_t blocks_wanted = ceil_div((int64_t)threads * TASKS_PER_WORKER, heads);
        rows = min_i64(rows, ceil_div(plan->rows, blocks_wanted));
    }
    return min_i64(round_up(rows, HEED_ATTENTION_SUBROWS), plan->rows);
}

static void plan_layout(struct attention_plan *plan) {
    struct attention_layout *layout = &plan->layout;
    const int64_t subrows = round_up(min_i64(plan->block_rows, HEED_ATTENTION_SUBROWS), 16);
    const int64_t rows = round_up(plan->block_rows, 16);
    const int64_t values = plan->pack_values ? plan->chunk_keys * round_up(plan->request.value_dim, HEED_PANEL) : 0;
    const struct {
        int64_t *offset, floats;
    } arrays[] = {
        {&layout->query, plan->block_rows * plan->request.head_dim},
        {&layout->keys, plan->chunk_keys * plan->request.head_dim},
        {&layout->values, values},
        {&layout->scores, subrows * HEED_CHUNK},
        {&layout->row_max, subrows * HEED_SUM_LANES},
        {&layout->chunk_max, subrows},
        {&layout->chunk_sum, subrows},
        {&layout->keep_old, subrows},
        {&layout->take_new, subrows},
        {&layout->counts, subrows},
        {&layout->max, rows},
        {&layout->sum, rows},
        {&layout->output, plan->block_rows * plan->output_ld},
    };
    layout->floats = 0;
    for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i].offset = layout->floats;
        layout->floats += workspace_round(arrays[i].floats);
    }
}

void heed_attention_prepare(const struct heed_attention *request, const struct heed_exec *exec, const struct heed_kernels *kernels,
                            struct attention_plan *plan) {
    const int64_t heads = request->batch * request->num_kv_heads;
    *plan = (struct attention_plan){
        .request = *request, .kernels = kernels, .log = heed_kernels_usable(0)->log, .query_factor = query_factor(request)};
    plan->group = request->num_heads / request->num_kv_heads;
    plan->rows = plan->group * request->query_tokens;
    plan->output_ld = round_up(request->value_dim, HEED_SUM_LANES);
    plan->chunk_keys = min_i64(HEED_CHUNK, round_up(request->key_tokens, HEED_PANEL));
    plan->pack_values = request->value_dim % kernels->lanes != 0 ||
                        (request->value.token_stride != request->value_dim && plan->rows >= PACK_VALUES_ROWS);
    const double flops =
        2.0 * (double)heads * (double)plan->rows * (double)request->key_tokens * (double)(request->head_dim + request->value_dim);
    const int threads = heed_schedule_workers(exec, INT64_MAX, flops);
    plan->block_rows = choose_block_rows(plan, heads, threads);
    plan->blocks = ceil_div(plan->rows, plan->block_rows);
    plan->tasks = heads * plan->blocks;
    plan->workers = (int)min_i64(threads, plan->tasks);
    plan_layout(plan);
}
