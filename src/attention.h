/* Attention from request to result (attention.c): validate (attention_check.c), plan (attention_plan.c, attention_layout.c), run:
 * tasks (attention_task.c) are blocks of rows (attention_block.c) against chunks of keys (attention_keys.c) as far as they see them
 * (attention_ranges.c), few of them (attention_thin.c), of heads side by side (attention_beside.c), as integers (attention_i8.c),
 * or as AMX and vdpbf16ps multiply them (attention_dots.c), with what is added to scores (attention_scores.c); partial states and
 * their merge (attention_states.c); outputs (attention_finish.c); sums of weights (attention_mass.c).  What these share: sequences
 * (attention_sequence.c), memory (attention_memory.c), what is fetched ahead (attention_fetch.c).  Small calls go a way of their
 * own (attention_small.c), and a layer around it all is attention_layer.c. */
#ifndef HEED_ATTENTION_H
#define HEED_ATTENTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "heed.h"
#include "internal.h"
#include "kernels.h"
#include "kv_cache.h"

enum {
    I8_DEPTH_MOST = 1 << 30, /* of keys that meet bytes: wider ones, if there are any, are floats */
    I8_BLOCK_FLOATS = sizeof(struct heed_i8_block) / sizeof(float),
    I8_CHUNK_FLOATS = HEED_CHUNK / TYPE_BLOCK * I8_BLOCK_FLOATS, /* of a row of weights with a chunk */
    HEED_ATTENTION_SUBROWS = 24, /* whole tiles of rows, but of AMX; their scores with one chunk take 24 KiB */
    HEED_MAX_BUCKETS = 512,      /* of the relative bias */
    HEED_HEADS_BESIDE = 16,      /* most key/value heads of one task */
    HEED_CHUNKS_TOGETHER = 16    /* most chunks of which few rows read all keys, then all values */
};
_Static_assert(HEED_HEADS_BESIDE <= HEED_CHUNKS_TOGETHER, "heads that take turns have a chunk each");

/* One sequence of the batch.  Keys are numbered from the first one of this call. */
struct attention_sequence {
    int64_t batch, queries, keys;
    int64_t first_query, first_key; /* tokens before it in packed tensors */
    int64_t offset;                 /* query i stands at key i + offset */
};
struct attention_sequence heed_attention_sequence(const struct heed_attention *request, int64_t batch);

/* The keys that a query may see by causal, window and length: begin ... end - 1; none if begin >= end.  Neither becomes less from
 * one token to the next. */
struct attention_range {
    int64_t begin, end;
};
INLINE struct attention_range heed_attention_range(const struct heed_attention *request, const struct attention_sequence *sequence,
                                                   int64_t token) {
    const struct heed_window *window = &request->window;
    const int64_t position = token + sequence->offset;
    struct attention_range range = {0, sequence->keys};
    if (request->causal)
        range.end = min_i64(range.end, position + 1);
    if (window->on && window->left >= 0)
        range.begin = max_i64(0, position - window->left);
    if (window->on && window->right >= 0)
        range.end = min_i64(range.end, position + window->right + 1);
    return range;
}

/* Where each array of the workspace begins, in floats; all aligned to 64 bytes. */
struct attention_layout {
    /* shared by all workers, before theirs: */
    int64_t state_output, state_max, state_sum; /* [heads][reach][block_rows][output_ld], [heads][reach][round16(block_rows)] */
    int64_t splits_left;                        /* [heads], atomic int: splits of a key/value head that are not done */
    int64_t row_max_sum;                        /* [query rows][2]: final max and sum, for the mass */
    int64_t relative_step;                      /* [buckets], int: the first distance of each bucket of one direction */
    int64_t shared;                             /* floats in all */
    /* of each worker: */
    int64_t head;                     /* floats from one head's query, max, sum and outputs to those of the next one beside it */
    int64_t query;                    /* [block_rows][depth], scaled */
    int64_t keys;                     /* [panels][depth][64] */
    int64_t values;                   /* [chunk][value_dim rounded up to 16]; empty unless values are packed */
    int64_t key_scales, value_scales; /* [together][HEED_CHUNK] */
    int64_t scores;                   /* [together][subrows][256], and a tile of dots' more */
    int64_t row_max;                  /* [together][subrows][16] */
    int64_t chunk_max, chunk_sum;     /* [together][subrows] */
    int64_t keep_old, take_new;       /* [subrows] */
    int64_t begins, ends;             /* [together][subrows], int */
    int64_t source;                   /* what dots arrange: [subrows][head_dim], or [64], or [32][value_dim] */
    int64_t term;                     /* [256]: what is added to one row of scores */
    int64_t relative;                 /* [group][relative_keys]: bias by distance */
    int64_t mass;                     /* [group][256] */
    int64_t max, sum;                 /* [block_rows] */
    int64_t output;                   /* [block_rows][output_ld] */
    int64_t chunk_output;             /* [subrows][output_ld], where states are kept apart; and a tile more */
    int64_t worker;                   /* floats in all */
};

/* What a block may hold at once: rows, those that are computed at once, chunks, rows of scores with a chunk; heads beside it. */
struct attention_held {
    int64_t rows, subrows, chunks, scores, beside;
};

/* Everything decided before data is touched, for the sequences that are the plan's.  Rows of a key/value head are its group's query
 * heads and tokens, token by token: row r is token r / group of head r % group, so that ranges of keys never go back from row to
 * row. */
struct attention_plan {
    const struct heed_attention *request; /* given, but for strides that no index asks for */
    struct heed_attention given;
    const struct heed_exec *exec;
    const struct heed_kernels *kernels;
    const struct heed_kernels *machine; /* the best table, whose elementary functions all tables use: the same bits for all */
    float query_factor;                 /* scale * log2(e), or scale if terms follow */
    float score_factor;                 /* log2(e) if terms follow, else 1 */
    float raw_factor;                   /* makes a score of q' k^T natural again: 1, or ln 2 */
    bool has_terms;                     /* softcap, bias, alibi or relative: scores are natural until sealed */
    bool fetches_scores;                /* what scores meet or become in the caller's memory is fetched beside their products */
    bool has_passes;                    /* rows of scores need a pass before the softmax; few rows are scaled without one */
    bool keeps_states;                  /* each chunk's output is computed apart, then merged */
    bool exps_beside;                   /* exponentials are made beside products, where kernels do so */
    bool is_thin;                       /* few rows, all of a head in one block */
    int64_t least_rows, most_rows;      /* of a key/value head, of sequences that are the plan's */
    enum heed_fetch_into fetch_into;    /* of keys and values */
    bool leaves_l2;                     /* keys and values are more than L2 holds; false also where that does not matter */
    bool tries_pace;                    /* of lines of memory (pace.h) */
    bool in_order;                      /* a chunk's keys lie in one piece of a cache, and so do its values */
    bool values_in_order;               /* the same, or in rows without gaps */
    bool pack_keys, pack_values;
    bool pairs;                        /* products of bf16 pairs as floats: queries, keys, weights and values are made them */
    const struct heed_i8_kernels *i8;  /* what multiplies integers, if keys or values are bytes in HEED_COMPUTE_I8; else NULL */
    bool i8_keys, i8_values;           /* whether i8 multiplies queries by keys, and weights by values */
    const struct heed_dots *dots;      /* what multiplies if queries, keys, weights and values are arranged for it; else NULL */
    const struct heed_dots *thin_dots; /* what multiplies thin blocks if queries and weights are arranged for it; else NULL */
    int64_t value_panel;               /* floats of 64 columns of a chunk's values, as dots have them */
    int64_t depth;                     /* of queries and keys, as the kernels see them: floats */
    int subrows; /* rows that are computed at once: all of a thin block; else SUBROWS, twice as many, or a tile */
    enum heed_type key_type, value_type; /* as they are stored */
    struct kv_layout cache;
    int64_t group;
    int64_t heads;      /* key/value heads of the whole batch */
    int64_t columns;    /* keys in a row of weights: those of the longest sequence */
    int64_t chunks;     /* most chunks of a sequence */
    int64_t reach;      /* and of them that its queries see, by window */
    int64_t block_rows; /* of one task */
    int64_t blocks;     /* of the longest sequence of one key/value head */
    bool has_states;    /* there is memory for those of all chunks, which splits leave */
    bool any_lengths;   /* it is wanted if there are splits with some lengths, not with these alone */
    int64_t splits;     /* tasks that share the one block of a key/value head */
    int64_t beside;     /* key/value heads of a sequence that a task takes chunk by chunk, whose rows lie side by side; the last
                           task of a sequence may have less of them */
    bool takes_turns;   /* some keys of each of these heads in turn, then some values; else a head has a chunk to itself */
    int64_t together;   /* chunks of which keys are read before values */
    int64_t tasks;
    int64_t output_ld;
    int64_t chunk_keys;         /* room for keys of one chunk */
    int64_t relative_keys;      /* distances in a table of relative bias */
    int workers, most_workers;  /* of this call, and of any with the same sizes */
    struct attention_held held; /* as memory is for: with any lengths and strides */
    struct attention_layout layout;
};

INLINE bool attention_plan_has(const struct attention_plan *plan, const struct attention_sequence *sequence) {
    const int64_t rows = plan->group * sequence->queries;
    return rows >= plan->least_rows && rows <= plan->most_rows;
}

/* Sequences of few rows that are packed beside others, or are many, have a plan of their own, the second one; its tasks follow. */
struct attention_plans {
    struct attention_plan plan[2];
    int count;
};

enum heed_status heed_attention_check(const struct heed_attention *request);
/* any_lengths: the workspace has room for this and all other lengths. */
void heed_attention_prepare(const struct heed_attention *given, const struct heed_exec *exec, const struct heed_kernels *kernels,
                            bool any_lengths, struct attention_plans *plans);
/* Cuts what each head has so many rows of, at most, into blocks and tasks; sets what a block holds. */
void heed_attention_cut(struct attention_plan *plan, int64_t rows);
/* Sets the layout, by all else that is decided. */
void heed_attention_lay_out(struct attention_plan *plan);
/* Whether heads that lie side by side take turns: of what is thin and else decided. */
bool heed_attention_takes_turns(const struct attention_plan *plan);
/* Whether fetching what scores meet in memory pays: not with a bias or a mask that stays in the caches. */
bool heed_attention_fetches_scores(const struct attention_plan *plan);
/* The buckets of one direction, and the first distance of each. */
int heed_relative_buckets(const struct heed_relative *relative);
void heed_relative_steps(const struct heed_relative *relative, int *step);

/* Tasks of a plan; workspace as the plan's layout says.  False: cancelled. */
bool heed_attention_task(const struct attention_plan *plan, int64_t task, float *shared, float *workspace);
bool heed_attention_mass_task(const struct attention_plan *plan, int64_t task, float *shared, float *workspace);
int64_t heed_attention_mass_tasks(const struct attention_plan *plan);

#endif
