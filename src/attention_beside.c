/* Few rows of heads that lie side by side in each token, as in decoding: they take turns.
 *
 * What one head has of 256 tokens are short pieces with gaps between them, which memory gives at 0.6 of a plain read's rate; pieces
 * of 16 tokens, head by head, are soon all that lies there.  So, and at a pace (pace.c), decoding from floats takes 0.77 of the
 * time with 8 heads of 128, 0.76 with 12 of 64, 0.68 with 8 of 96, by AVX2 0.80, 0.75 with 12 of 64, from L3 1.0 to 1.05.  But
 * turns of 32 tokens take 1.2 times as long as these, 16 bits by turns 1.07 to 1.13 (Zen 4).  So they are for floats, and for a
 * token of each sequence, all rows of which see the same keys; and where lines go into L2 alone, for no other processor has been
 * tried. */
#include "attention_block.h"
#include "internal.h"
#include "pace.h"

enum { TURN_KEYS = HEED_SUM_LANES, TURN_ROWS = 4, TURN_COLUMNS = 128 }; /* one tile, see kernels/in_order.h */

bool heed_attention_takes_turns(const struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    return plan->beside > 1 && plan->leaves_l2 && plan->key_type == HEED_F32 && plan->value_type == HEED_F32 &&
           plan->subrows == plan->group && plan->group <= TURN_ROWS && request->value_dim % HEED_LINE == 0 &&
           request->value_dim <= TURN_COLUMNS && request->value.head_stride < request->value.token_stride;
}

static struct attention_next key_at(const struct attention_block *block, int at) {
    const struct heed_input *view = &block->plan->request->key;
    return (struct attention_next){type_at(view->type, block->chunk->keys[0], at * view->token_stride),
                                   type_span(view->type, view->token_stride)};
}
static struct attention_next value_at(const struct attention_block *block, int at) {
    const struct heed_input *view = &block->plan->request->value;
    return (struct attention_next){type_at(view->type, block->chunk->values[0], at * view->token_stride),
                                   type_span(view->type, view->token_stride)};
}

/* Behind the keys of a turn. */
static int turn_end(const struct attention_chunk *chunk, int from) {
    return smaller(chunk->end, from / TURN_KEYS * TURN_KEYS + TURN_KEYS);
}

static void score(struct attention_block *blocks, int count) {
    const struct attention_chunk *chunk = blocks->chunk;
    for (int from = chunk->begin / TURN_KEYS * TURN_KEYS, to; from < chunk->end; from = to) {
        to = turn_end(chunk, from);
        for (int i = 0; i < count; i++) {
            blocks[i].after_keys = to < chunk->end ? key_at(&blocks[i], to) : value_at(&blocks[i], chunk->begin);
            heed_block_score_rows(&blocks[i], from, to);
        }
    }
}

/* All heads with one request, for what it stores would wait for memory. */
static void weight(struct attention_block *first, int count, bool is_last) {
    const struct attention_chunk *chunk = first->chunk;
    const struct attention_next next_keys = is_last ? (struct attention_next){NULL, 0} : key_at(first, HEED_CHUNK);
    first->beside = count - 1;
    for (int from = chunk->begin, to; from < chunk->end; from = to) {
        to = turn_end(chunk, from);
        first->after_values = to < chunk->end ? value_at(first, to) : next_keys;
        heed_block_weight_thin(first, from, to);
    }
    first->beside = 0;
}

bool heed_blocks_attend_beside(struct attention_block *blocks, int count, float *shared, int64_t index) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += heed_block_load_thin(&blocks[i], index);
    const struct heed_pace pace = heed_pace_begin(HEED_PACE_KEYS);
    if (heed_block_cancelled(blocks))
        return false;
    blocks->paced = pace.paced;
    if (blocks->chunk->begin < blocks->chunk->end)
        score(blocks, count);
    if (!blocks->chunk->seen)
        return true;
    for (int i = 0; i < count; i++)
        heed_block_begin_weights(&blocks[i]);
    weight(blocks, count, index + 1 == blocks->last_chunk);
    for (int i = 0; i < count; i++)
        heed_block_end_weights(&blocks[i], shared);
    heed_pace_end(&pace, bytes);
    return true;
}
