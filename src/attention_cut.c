/* How an attention call is cut: rows into blocks, keys among workers, heads and chunks that are taken together; and what a block
 * holds of all that at once. */

#include <math.h>

#include "attention.h"
#include "cache_sizes.h"
#include "internal.h"

/* Queries and running outputs of one task may take half of L2, beside a chunk of keys and of values; but no more than this, for
 * they are memory of every worker. */
#define BLOCK_BYTES_MOST (1024 * 1024)
/* With this many rows a block's work hides the packing of its keys (about 1 % of it at 384 rows). */
#define BLOCK_ROWS_MOST 2048
/* Tasks for each worker, so that the last one to finish does not leave the others waiting for long. */
#define TASKS_PER_WORKER 4
/* Most bytes of states of sequences that are not alike, as a share of their keys and values, and at all. */
#define STATES_SHARE (1.0 / 16)
#define STATES_MOST  (64.0 * 1024 * 1024)

/* Rows of scores with a chunk, of one or of several: 64 KiB. */
#define ROWS_TOGETHER 64

/* Packed sequences of few rows; and whether there may be others, which have another plan. */
static bool is_of_few(const struct attention_plan *plan) { return plan->most_rows < INT64_MAX; }
static bool has_others(const struct attention_plan *plan) { return plan->most_rows < plan->group * plan->request->query_tokens; }

/* A block's rows, of packed sequences the most that one may have: memory depends on sizes alone. */
static int64_t rows_held(const struct attention_plan *plan) { return is_of_few(plan) ? plan->most_rows : plan->block_rows; }

static int64_t rows_in_cache(const struct heed_attention *request) {
    const int64_t row_bytes = (request->head_dim + request->value_dim) * (int64_t)sizeof(float);
    return min_i64(BLOCK_BYTES_MOST, heed_cache_sizes().l2 / 2) / row_bytes;
}

/* Fewer rows than this are one block, whose keys workers share. */
static int64_t least_block_rows(const struct attention_plan *plan) {
    return 2 * round_up(HEED_ATTENTION_SUBROWS, plan->dots ? plan->dots->tile_rows : 1);
}

static int64_t tasks_wanted(const struct attention_plan *plan) { return (int64_t)plan->most_workers * TASKS_PER_WORKER; }

static int64_t choose_block_rows(const struct attention_plan *plan, int64_t rows) {
    const int64_t least = least_block_rows(plan);
    if (rows <= least || plan->is_thin)
        return rows;
    int64_t most = max_i64(least, min_i64(BLOCK_ROWS_MOST, rows_in_cache(plan->request)));
    if (plan->most_workers > 1) {
        const int64_t blocks_wanted = ceil_div(tasks_wanted(plan), plan->heads);
        most = min_i64(most, ceil_div(rows, blocks_wanted));
    }
    return min_i64(round_up(most, least), rows);
}

/* Whether a long sequence among short ones may be all that is left to do: in a cache, if the states of all of its chunks are few
 * beside its keys and values.  With two threads, one of 16384 or 65536 keys beside seven of 64, for 8 heads on one, takes 0.55 of
 * the time (Zen 5). */
static bool may_differ(const struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    const double states = (double)rows_held(plan) * (double)(plan->output_ld + 2) * sizeof(float);
    const double keys =
        HEED_CHUNK * (double)(request->head_dim * type_bytes(plan->key_type) + request->value_dim * type_bytes(plan->value_type));
    return plan->is_thin && request->cache && states <= STATES_SHARE * keys &&
           states * (double)plan->heads * (double)plan->reach <= STATES_MOST;
}

/* Few rows against many keys: workers share the keys of one block, if there are fewer heads than tasks wanted, or may be. */
static bool may_split(const struct attention_plan *plan, int64_t rows) {
    return plan->most_workers > 1 && plan->block_rows >= rows && !has_others(plan) &&
           (plan->heads < tasks_wanted(plan) || may_differ(plan));
}

/* So many that no task is more than half of what each worker does. */
static int64_t splits_of_longest(const struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    double longest = 0, all = 0;
    for (int64_t b = 0; request->key_lengths && b < request->batch; b++) {
        longest = longest > (double)request->key_lengths[b] ? longest : (double)request->key_lengths[b];
        all += (double)request->key_lengths[b];
    }
    return all > 0 ? (int64_t)ceil(2 * plan->most_workers * longest / (all * (double)request->num_kv_heads)) : 1;
}

static int64_t choose_splits(const struct attention_plan *plan, int64_t rows) {
    if (!may_split(plan, rows))
        return 1;
    const bool few_heads = plan->heads < tasks_wanted(plan);
    const int64_t wanted = few_heads ? ceil_div(tasks_wanted(plan), plan->heads) : splits_of_longest(plan);
    return max_i64(1, min_i64(plan->reach, wanted));
}

/* A head alone would read a piece of each token: with 8 heads of 128 floats side by side memory gives them at 0.75 of its rate, in
 * turn at 0.9, and decoding takes 0.62 of the time, of two threads 0.73, from L3 0.8 (Zen 5; of Zen 4 see attention_beside.c).
 * most: with any strides; and with any lengths, room for fewer workers too, who have more heads each. */
static int64_t choose_beside(const struct attention_plan *plan, bool most) {
    const struct heed_attention *request = plan->request;
    const int64_t heads = request->num_kv_heads;
    const bool far_apart = request->key.head_stride >= request->key.token_stride;
    if (!plan->is_thin || plan->chunks == 1 || request->cache || request->relative.table || (far_apart && !most))
        return 1;
    const int64_t each = most && plan->any_lengths ? ceil_div(plan->heads, plan->most_workers) : plan->heads / plan->most_workers;
    return max_i64(1, min_i64(min_i64(heads, HEED_HEADS_BESIDE), plan->splits > 1 ? heads : each));
}

/* Memory gives keys and values by turns of 128 KB at 0.79 of a plain read, by turns of 1 MB at 0.87 (Zen 5).  most: with any
 * strides; heads side by side are read chunk by chunk.  What is packed has one place. */
static int64_t choose_together(const struct attention_plan *plan, bool most) {
    const bool in_place = !plan->pack_keys && !plan->pack_values;
    if (!plan->is_thin || (!most && (!in_place || plan->beside > 1)))
        return 1;
    return max_i64(1, min_i64(min_i64(HEED_CHUNKS_TOGETHER, plan->chunks), ROWS_TOGETHER / plan->subrows));
}

/* What a block holds at once with any lengths and strides.  Packed sequences of few rows, however many, are taken together with as
 * many chunks as may be. */
static struct attention_held choose_held(const struct attention_plan *plan) {
    const int64_t rows = rows_held(plan), together = choose_together(plan, true), beside = choose_beside(plan, true);
    const int64_t chunks = max_i64(together, beside);
    const int64_t subrows = plan->dots ? plan->subrows : min_i64(rows, plan->subrows);
    if (is_of_few(plan))
        return (struct attention_held){rows, rows, max_i64(chunks, min_i64(HEED_CHUNKS_TOGETHER, plan->chunks)),
                                       max_i64(ROWS_TOGETHER, rows), beside};
    return (struct attention_held){rows, subrows, chunks, max_i64(together * subrows, min_i64(beside * subrows, ROWS_TOGETHER)),
                                   beside};
}

void heed_attention_cut(struct attention_plan *plan, int64_t rows) {
    plan->block_rows = choose_block_rows(plan, rows);
    plan->splits = choose_splits(plan, rows);
    plan->has_states = plan->any_lengths ? may_split(plan, rows) : plan->splits > 1;
    plan->beside = choose_beside(plan, false);
    plan->together = choose_together(plan, false);
    plan->held = choose_held(plan);
}
