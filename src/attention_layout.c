/* Where each array of an attention call's workspace begins. */
#include "attention.h"
#include "internal.h"
#include "workspace.h"

/* Where the next `count` floats begin. */
static int64_t take(int64_t *floats, int64_t count) {
    const int64_t at = *floats;
    *floats += workspace_round(count);
    return at;
}

static void lay_out_shared(struct attention_plan *plan) {
    struct attention_layout *layout = &plan->layout;
    const struct heed_attention *request = plan->request;
    const int64_t states = plan->has_states ? workspace_product(plan->heads, plan->reach) : 0,
                  sequences = request->query_starts ? 1 : request->batch;
    const int64_t query_rows =
        request->mass.data ? workspace_product(sequences, workspace_product(request->num_heads, request->query_tokens)) : 0;
    int64_t floats = 0;
    layout->state_output = take(&floats, workspace_product(states, workspace_product(plan->held.rows, plan->output_ld)));
    layout->state_max = take(&floats, workspace_product(states, round_up(plan->held.rows, 16)));
    layout->state_sum = take(&floats, workspace_product(states, round_up(plan->held.rows, 16)));
    layout->splits_left = take(&floats, plan->has_states ? plan->heads : 0);
    layout->row_max_sum = take(&floats, workspace_product(2, query_rows));
    layout->relative_step = take(&floats, request->relative.table ? heed_relative_buckets(&request->relative) : 0);
    layout->shared = floats;
}

static void lay_out_worker(struct attention_plan *plan) {
    struct attention_layout *layout = &plan->layout;
    const struct heed_attention *request = plan->request;
    const struct attention_held held = plan->held;
    const int64_t rows = held.rows, keys = round_up(plan->chunk_keys, 2), tile_rows = plan->dots ? plan->dots->tile_rows : 0;
    int64_t floats = 0;
    layout->query = take(&floats, (plan->dots ? round_up(rows, held.subrows) : rows) * plan->depth);
    layout->max = take(&floats, rows);
    layout->sum = take(&floats, rows);
    layout->output = take(&floats, rows * plan->output_ld);
    layout->chunk_output = take(&floats, plan->keeps_states ? (held.subrows + tile_rows) * plan->output_ld : 0);
    layout->head = floats;
    floats *= held.beside;
    layout->keys = take(&floats, plan->pack_keys ? round_up(keys, HEED_PANEL) * plan->depth : 0);
    layout->values = take(&floats, plan->dots          ? plan->output_ld / HEED_PANEL * plan->value_panel
                                   : plan->pack_values ? keys * plan->output_ld
                                                       : 0);
    layout->key_scales = take(&floats, plan->key_type == HEED_I8 ? held.chunks * HEED_CHUNK : 0);
    layout->value_scales = take(&floats, plan->value_type == HEED_I8 ? held.chunks * HEED_CHUNK : 0);
    layout->scores = take(&floats, (held.scores + tile_rows) * HEED_CHUNK);
    layout->row_max = take(&floats, held.scores * HEED_SUM_LANES);
    layout->chunk_max = take(&floats, held.scores);
    layout->chunk_sum = take(&floats, held.scores);
    layout->keep_old = take(&floats, held.subrows); /* kernels want room for rows rounded up to 16, as all of this is rounded */
    layout->take_new = take(&floats, held.subrows);
    layout->begins = take(&floats, held.scores);
    layout->ends = take(&floats, held.scores);
    layout->source = take(&floats, plan->dots ? max_i64(HEED_PANEL * request->head_dim, HEED_DOT * request->value_dim)
                                   : plan->i8 ? held.subrows * max_i64(round_up(request->head_dim, TYPE_BLOCK), I8_CHUNK_FLOATS)
                                   : plan->thin_dots ? rows * request->head_dim
                                                     : 0);
    layout->term = take(&floats, plan->has_passes ? HEED_CHUNK : 0);
    layout->relative = take(&floats, workspace_product(plan->group, plan->relative_keys));
    layout->mass = take(&floats, request->mass.data ? workspace_product(plan->group, HEED_CHUNK) : 0);
    layout->worker = floats;
}

void heed_attention_lay_out(struct attention_plan *plan) {
    lay_out_shared(plan);
    lay_out_worker(plan);
}
