/* One task of attention: a block of rows against all the keys that they may see, chunk by chunk, serially.
 *
 * The scheme is FlashAttention-2's (Dao 2023): scores, softmax and value products of one chunk while it is in the cache, with a
 * running maximum and sum for each row.  Here a chunk is a fixed 256 keys, so that the rounding of a row does not depend on the
 * blocking.  Where few rows meet many keys, several tasks take chunks of one block, and the last to end merges their states. */
#include "attention_block.h"
#include "internal.h"
#include "schedule.h"

/* Rows [from, from + rows) of the block against the current chunk. */
static void attend_rows(struct attention_block *block, float *shared, int64_t from, int rows) {
    const struct attention_plan *plan = block->plan;
    if (!heed_block_find_ranges(block, from, rows) && plan->splits == 1 && !plan->request->states.output.data)
        return;
    heed_block_score(block, from, rows);
    heed_block_softmax(block, shared, from, rows);
}

/* exec.cancelled is the caller's code and may use AMX itself, so the tile registers are its own while it runs. */
bool heed_block_cancelled(struct attention_block *block) {
    const struct attention_plan *plan = block->plan;
    if (!plan->exec || !plan->exec->cancelled)
        return false;
    heed_dots_end(plan->dots, &block->callers);
    const bool cancelled = heed_exec_cancelled(plan->exec);
    heed_dots_begin(plan->dots, &block->callers);
    return cancelled;
}

/* A chunk; false if the call was cancelled.  Where all of the block's chunks are done here, rows start with the first and end with
 * the last that they see, while they are in L1; their outputs then wait for memory during the products of the next rows. */
static bool attend_chunk(struct attention_block *block, float *shared, int64_t index, bool is_first) {
    const bool alone = block->plan->splits == 1;
    heed_block_load_keys(block, index);
    heed_block_load_values(block);
    heed_block_plan_fetch(block);
    for (int64_t from = 0; from < block->rows; from += block->plan->subrows) {
        const int rows = (int)min_i64(block->plan->subrows, block->rows - from);
        const int64_t last = heed_block_last_chunk(block, from, rows);
        if (alone && index > last)
            continue;
        if (heed_block_cancelled(block))
            return false;
        if (is_first) {
            heed_block_load_queries(block, from, rows);
            heed_block_fetch_queries(block, from + rows);
        }
        if (is_first && alone)
            heed_block_start_states(block, from, rows);
        if (index == last && alone && block->first_chunk + 1 < block->last_chunk)
            heed_block_fetch_outputs(block, from);
        attend_rows(block, shared, from, rows);
        if (index == last && alone)
            heed_block_finish_rows(block, shared, from, rows);
    }
    return true;
}

/* The rows of a thin block start with the first chunk and end with the last, too. */
static void begin_thin(struct attention_block *block) {
    heed_block_load_queries(block, 0, block->rows);
    if (block->plan->splits == 1)
        heed_block_start_states(block, 0, block->rows);
}
static void end_thin(struct attention_block *block, float *shared, int64_t last) {
    if (last == block->last_chunk && block->plan->splits == 1)
        heed_block_finish_rows(block, shared, 0, block->rows);
}

static bool attend_thin(struct attention_block *block, float *shared, int64_t first, int64_t last, bool is_first) {
    if (is_first)
        begin_thin(block);
    if (!heed_block_attend_thin(block, shared, first, last))
        return false;
    end_thin(block, shared, last);
    return true;
}

/* The blocks of a task, of one head or of some that lie side by side, and what this worker will probably do then. */
struct block_group {
    struct attention_block *blocks;
    int count;
    const struct attention_block *then; /* NULL: nothing */
};

/* After the i-th block's chunks [index, end). */
static void find_next(const struct block_group *group, int i, int64_t index, int64_t end, bool is_last) {
    struct attention_block *block = &group->blocks[i];
    if (i + 1 < group->count) {
        block->next = block + 1;
        block->next_chunk = index;
    } else if (!is_last) {
        block->next = group->blocks;
        block->next_chunk = end;
    } else {
        block->next = group->then;
        block->next_chunk = group->then ? group->then->first_chunk : 0;
    }
}

/* Chunks from `index` on that are read together: of a cache those in one page, of which keys and values lie side by side (pages of
 * 256 tokens otherwise take 1.07 of the time). */
static int64_t chunks_together(const struct attention_plan *plan, int64_t index, int64_t last) {
    const struct heed_kv_cache *cache = plan->request->cache;
    int64_t together = min_i64(plan->together, last - index);
    if (cache && together > 1)
        together =
            min_i64(together, ceil_div(cache->page_tokens - (plan->request->key_position + index * HEED_CHUNK) % cache->page_tokens,
                                       HEED_CHUNK));
    return together;
}

/* Chunk number `index`, of heads that take turns. */
static bool attend_turns(const struct block_group *group, float *shared, int64_t index, bool is_first) {
    for (int i = 0; is_first && i < group->count; i++)
        begin_thin(&group->blocks[i]);
    if (!heed_blocks_attend_beside(group->blocks, group->count, shared, index))
        return false;
    for (int i = 0; i < group->count; i++)
        end_thin(&group->blocks[i], shared, index + 1);
    return true;
}

/* Chunks [first, last) in order, each, or some together, of all heads.  Dots are configured once: for every few rows, AMX takes 3 %
 * of the time for it. */
static bool attend_chunks(const struct block_group *group, float *shared, int64_t first, int64_t last) {
    struct attention_block *blocks = group->blocks;
    const struct attention_plan *plan = blocks->plan;
    const bool takes_turns = plan->takes_turns && group->count > 1;
    bool goes_on = true;
    heed_dots_begin(plan->dots, &blocks->callers);
    for (int64_t index = first, end; goes_on && index < last; index = end) {
        end = index + chunks_together(plan, index, last);
        if (takes_turns)
            goes_on = attend_turns(group, shared, index, index == first);
        for (int i = 0; !takes_turns && goes_on && i < group->count; i++) {
            find_next(group, i, index, end, end == last);
            goes_on = plan->is_thin ? attend_thin(&blocks[i], shared, index, end, index == first)
                                    : attend_chunk(&blocks[i], shared, index, index == first);
        }
    }
    heed_dots_end(plan->dots, &blocks->callers);
    return goes_on;
}

/* What is left to do where states are kept apart, or there are none. */
static void finish_apart(const struct block_group *group, float *shared) {
    for (int i = 0; i < group->count; i++) {
        heed_block_start_states(&group->blocks[i], 0, group->blocks[i].rows);
        heed_block_merge_states(&group->blocks[i], shared);
        heed_block_finish_rows(&group->blocks[i], shared, 0, group->blocks[i].rows);
    }
}

/* A part of the chunks of heads' only blocks; the last part to end merges them. */
static bool run_split(const struct block_group *group, int64_t split, float *shared) {
    const struct attention_block *block = group->blocks;
    const struct attention_plan *plan = block->plan;
    const int64_t each = ceil_div(block->last_chunk - block->first_chunk, plan->splits), first = block->first_chunk + split * each;
    if (!attend_chunks(group, shared, first, min_i64(first + each, block->last_chunk)))
        return false;
    atomic_int *splits_left = (atomic_int *)(shared + plan->layout.splits_left) + block->head;
    if (atomic_fetch_sub_explicit(splits_left, 1, memory_order_acq_rel) == 1)
        finish_apart(group, shared);
    return true;
}

/* Blocks of a task, at most so many; how many.  Late ones first: when causal, they see more keys, and started first they do not end
 * last. */
static int find_blocks(const struct attention_plan *plan, int64_t task, struct attention_block *blocks, int most) {
    const int64_t heads = plan->request->num_kv_heads, groups = ceil_div(heads, plan->beside);
    const int64_t parts = plan->splits > 1 ? plan->splits : plan->blocks, group = task / parts;
    const int64_t row = plan->splits > 1 ? 0 : (plan->blocks - 1 - task % parts) * plan->block_rows;
    const int64_t first = group % groups * plan->beside;
    const int count = (int)min_i64(most, min_i64(plan->beside, heads - first));
    for (int i = 0; i < count; i++)
        heed_block_find(&blocks[i], plan, group / groups * heads + first + i, row, plan->block_rows);
    return count;
}

bool heed_attention_task(const struct attention_plan *plan, int64_t task, float *shared, float *workspace) {
    struct attention_block blocks[HEED_HEADS_BESIDE], then;
    struct attention_chunk chunks[HEED_CHUNKS_TOGETHER];
    struct block_group group = {blocks, find_blocks(plan, task, blocks, HEED_HEADS_BESIDE), NULL};
    if (blocks->rows <= 0)
        return true;
    for (int i = 0; i < group.count; i++)
        heed_block_open(&blocks[i], shared, workspace, i, chunks);
    if (plan->splits > 1)
        return run_split(&group, task % plan->splits, shared);
    if (task + plan->workers < plan->tasks) { /* workers take turns, more or less */
        find_blocks(plan, task + plan->workers, &then, 1);
        group.then = &then;
    }
    if (blocks->first_chunk < blocks->last_chunk)
        return attend_chunks(&group, shared, blocks->first_chunk, blocks->last_chunk);
    finish_apart(&group, shared);
    return true;
}
