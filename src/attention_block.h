/* A block of rows of one key/value head while a worker computes it, shared by the parts of the driver. */
#ifndef HEED_ATTENTION_BLOCK_H
#define HEED_ATTENTION_BLOCK_H

#include "attention.h"

/* Keys [start, start + n) of the sequence, of which the block sees those from begin to end (counted from start); and what becomes
 * of them with the current rows. */
struct attention_chunk {
    int64_t start;
    int n, begin, end;
    /* Of a thin block: whether any of the rows sees it, or its state is kept anyway; and whether weights are rows of dots. */
    bool seen, dots;
    /* Panels of key_width keys, [head_dim][key_width]; of a thin block without a cache, keys[0] is the first key's row; not used
     * by dots. */
    const void *keys[HEED_CHUNK / HEED_SUM_LANES];
    int key_width;
    bool values_checked, values_finite;
    const void *values[HEED_CHUNK / HEED_SUM_LANES]; /* pieces of piece_keys keys, rows value_ld apart */
    int piece_keys;                                  /* 0: they are not loaded */
    enum heed_type key_type, value_type;             /* of what these point to: floats, unless the block is thin */
    int64_t value_ld;
    float *key_scales, *value_scales; /* of those of the keys that are seen, where they have any */
    int *begins, *ends;               /* of the current rows */
    float *scores, *row_max, *max, *sum;
};

/* What comes next, to be fetched a share at a time. */
struct attention_fetch {
    struct heed_fetch queries, outputs, keys, values;
    int share; /* rows of keys or values */
};

/* What is read after some piece of keys or values: rows `step` bytes apart; 0: in one piece.  data NULL: not known. */
struct attention_next {
    const void *data;
    int64_t step;
};

struct attention_block {
    const struct attention_plan *plan;
    const struct heed_kernels *kernels;
    struct attention_sequence sequence;
    int64_t head; /* of all key/value heads of the batch */
    int64_t kv_head;
    int64_t first, rows;             /* of the key/value head's rows */
    int64_t first_chunk, last_chunk; /* the chunks that it sees; last not included */
    float *query, *keys, *values, *output, *max, *sum;
    float *keep_old, *take_new, *chunk_output, *source, *term, *relative, *mass;
    struct attention_chunk *chunks, *chunk; /* plan->together of them; the current one */
    struct attention_fetch fetch;
    struct heed_dots_callers callers;
    struct attention_next after_keys, after_values; /* of the current chunk, where rows are few */
    const struct attention_block *next;             /* what this worker will probably do after the current chunk; NULL: nothing */
    int64_t next_chunk;
    bool paced; /* lines of keys and values are fetched at a pace */
    int beside; /* blocks right behind this one of which values are weighted with its own */
};

/* Query head and token of a row of the block. */
struct attention_row {
    int64_t head, token;
};
INLINE struct attention_row heed_block_row(const struct attention_block *block, int64_t row) {
    const int64_t group = block->plan->group, of_head = block->first + row;
    if (group == 1)
        return (struct attention_row){block->kv_head, of_head};
    return (struct attention_row){block->kv_head * group + of_head % group, of_head / group};
}

/* attention_task.c */

/* Whether the caller wants the work to end. */
bool heed_block_cancelled(struct attention_block *block);

/* attention_block.c */

/* Which rows and keys the block of rows [first, first + rows) of a key/value head has. */
void heed_block_find(struct attention_block *block, const struct attention_plan *plan, int64_t head, int64_t first, int64_t rows);
/* Gives it its workspace, that of the i-th head of a task.  Heads share the chunks, of which there are plan->together; but where
 * they take turns each has its own. */
void heed_block_open(struct attention_block *block, const float *shared, float *workspace, int i, struct attention_chunk *chunks);
/* Scales the queries of rows [from, from + rows). */
void heed_block_load_queries(const struct attention_block *block, int64_t from, int64_t rows);
/* Scores of rows [from, from + rows), ready for the softmax; and from there to outputs, merged or kept. */
void heed_block_score(const struct attention_block *block, int64_t from, int rows);
void heed_block_softmax(struct attention_block *block, float *shared, int64_t from, int rows);
/* Of a thin block, from products with the current chunk's keys to weights. */
void heed_block_weigh_thin(const struct attention_block *block);
/* The current rows of scores, which become weights as rows of dots. */
struct heed_dot_weights heed_block_dot_weights(const struct attention_block *block, int rows);
/* How rows [from, from + rows) take in the current chunk. */
struct heed_merge_rows heed_block_merge(const struct attention_block *block, int64_t from, int rows);
/* Where a view's row for this row of the block begins, in elements. */
int64_t heed_block_row_offset(const struct attention_block *block, int64_t batch_stride, int64_t head_stride, int64_t token_stride,
                              int64_t row);
/* How many rows from this one on lie one stride apart: all, or the query heads of one token. */
int64_t heed_block_rows_apart(const struct attention_block *block, int64_t row);
/* And in an output view of floats. */
float *heed_block_output_row(const struct attention_block *block, const struct heed_output *view, int64_t row);
/* Where final max and sum of a row are kept for the mass. */
float *heed_block_row_max_sum(const struct attention_block *block, float *shared, int64_t row);

/* attention_keys.c */

/* Makes chunk number `index` the current one, its keys as panels. */
void heed_block_load_keys(struct attention_block *block, int64_t index);
void heed_block_load_values(struct attention_block *block);
/* Where chunk number `index` begins: its first key that the block sees, or the panel that holds it; NULL if there is none. */
const void *heed_block_first_key(const struct attention_block *block, int64_t index);
/* What scales of chunk number `index` there are is fetched; nothing behind the block's last chunk. */
void heed_block_fetch_key_scales(const struct attention_block *block, int64_t index);
void heed_block_fetch_value_scales(const struct attention_block *block, int64_t index);
/* Keys of chunk number `index` that the block sees, and the first one's value, given that there are any. */
int heed_block_keys_seen(const struct attention_block *block, int64_t index);
const void *heed_block_first_value(const struct attention_block *block, int64_t index);

/* attention_ranges.c */

/* Ranges of the rows [from, from + rows) of the block in the current chunk; false if none sees a key. */
bool heed_block_find_ranges(const struct attention_block *block, int64_t from, int rows);
/* The last chunk of the block's that any of these rows sees; its very last where states of all chunks are wanted. */
int64_t heed_block_last_chunk(const struct attention_block *block, int64_t from, int rows);

/* attention_thin.c */

/* All rows of a thin block against chunks [first, last), at most plan->together of them: all keys, then all values.  False: the
 * call was cancelled. */
bool heed_block_attend_thin(struct attention_block *block, float *shared, int64_t first, int64_t last);
/* Loads keys and values of chunk number `index` as the current chunk, and finds what its rows see there; how many bytes there are.
 */
int64_t heed_block_load_thin(struct attention_block *block, int64_t index);
/* Products of all rows with the current chunk's keys, straight from where these are; and with rows of keys [from, to) alone, from
 * being a multiple of HEED_SUM_LANES. */
void heed_block_score_thin(const struct attention_block *block);
void heed_block_score_rows(const struct attention_block *block, int from, int to);
/* From scores to weights, and outputs of 0; values [from, to) of the current chunk, which all rows see, weighted, are added to
 * these; and they are merged or kept. */
void heed_block_begin_weights(const struct attention_block *block);
void heed_block_weight_thin(const struct attention_block *block, int from, int to);
void heed_block_end_weights(const struct attention_block *block, float *shared);

/* attention_beside.c */

/* Thin blocks of heads that take turns, one of each head, against chunk number `index`.  False: the call was cancelled. */
bool heed_blocks_attend_beside(struct attention_block *blocks, int count, float *shared, int64_t index);

/* attention_i8.c */

/* With integers: queries [from, from + rows), which are in `source` scaled, become bytes; their products with the current chunk's
 * keys; and its values, weighted, apart, after which `next` will be read. */
void heed_block_round_queries(const struct attention_block *block, int64_t from, int64_t rows);
void heed_block_score_i8(const struct attention_block *block, int64_t from, int rows);
void heed_block_weight_i8(const struct attention_block *block, int rows, const void *next);

/* attention_dots.c */

/* With dots, rows of queries, keys or values are arranged for them: queries [from, from + rows), which are in `source` scaled; n
 * keys from key `at` of the chunk on, in rows, or a panel of a cache; and the chunk's values. */
void heed_block_arrange_queries(const struct attention_block *block, int64_t from, int64_t rows);
void heed_block_arrange_key_rows(const struct attention_block *block, int at, const void *rows, int n);
void heed_block_arrange_key_panel(const struct attention_block *block, int at, const void *panel, int width);
void heed_block_arrange_values(const struct attention_block *block);
/* Between the begin and end of the dots: scores of the rows [from, from + rows); and from scores to outputs. */
void heed_block_score_dots(const struct attention_block *block, int64_t from, int rows);
void heed_block_softmax_dots(struct attention_block *block, int64_t from, int rows);

/* attention_scores.c */

/* What is added to the scores of row `row` of the block, the i-th of the current ones, and what hides them. */
void heed_block_pass_scores(const struct attention_block *block, int64_t row, int i);
/* Fetches what scores of rows [from, from + rows) with `keys` keys, from number `key` of the sequence on, will meet there: of no
 * more rows at a time than these, for processors wait where more lines are asked for at once (with 24 rows 1.13 of the time, in
 * pairs 1.15; 12 heads of 64, 1024 tokens with a bias, Zen 5). */
enum { HEED_FETCHED_ROWS = 12 };
void heed_block_fetch_scores(const struct attention_block *block, int64_t from, int rows, int64_t key, int keys);
/* The tables of relative bias of the block's heads. */
void heed_block_load_relative(const struct attention_block *block, const float *shared);

/* attention_states.c */

/* Initial states of rows [from, from + rows): the sinks'. */
void heed_block_start_states(const struct attention_block *block, int64_t from, int64_t rows);
/* The chunk's states go to the caller's and, where the keys are split, to those for the merge. */
void heed_block_keep_states(const struct attention_block *block, float *shared, int64_t from, int rows);
/* Chunks that no row of the block sees, for the caller. */
void heed_block_keep_unseen_states(const struct attention_block *block, int64_t from, int64_t rows);
/* All chunks of the block, in order. */
void heed_block_merge_states(const struct attention_block *block, const float *shared);

/* attention_finish.c */

/* Outputs of rows [from, from + rows), and what else is wanted of them. */
void heed_block_finish_rows(const struct attention_block *block, float *shared, int64_t from, int64_t rows);

/* attention_fetch.c */

/* Plans to fetch what is next. */
void heed_block_plan_fetch(struct attention_block *block);
/* Queries from row `from` on come beside that, in a later chunk the places of their outputs. */
void heed_block_fetch_queries(struct attention_block *block, int64_t from);
void heed_block_fetch_outputs(struct attention_block *block, int64_t from);
/* Takes a share of it. */
void heed_block_fetch(struct attention_block *block, int rows, struct heed_fetch next[HEED_FETCHES]);

#endif
