/* Attention from request to result: validate (attention_check.c), plan (attention_plan.c), run (attention_block.c). */
#ifndef HEED_ATTENTION_H
#define HEED_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "heed.h"
#include "kernels.h"

enum { HEED_ATTENTION_SUBROWS = 48 }; /* rows whose scores with one chunk are held at once: 48 KiB, a multiple of all tile_rows */

/* Where each array of a worker's workspace begins, in floats; all aligned to 64 bytes. */
struct attention_layout {
    int64_t query;  /* [block_rows][head_dim], scaled */
    int64_t keys;   /* [panels][head_dim][64] */
    int64_t values; /* [panels of value_dim][chunk][64]; empty unless values are packed */
    int64_t scores; /* [SUBROWS][256] */
    int64_t row_max;
    int64_t chunk_max, chunk_sum, keep_old, take_new; /* [SUBROWS] */
    int64_t counts;                                   /* [SUBROWS], int */
    int64_t max, sum;                                 /* [block_rows] */
    int64_t output;                                   /* [block_rows][output_ld] */
    int64_t floats;                                   /* in all */
};

/* Everything decided before data is touched.  Rows of a key/value head are its group's query heads and tokens, token by token: row
 * r is token r / group of head r % group, so that the keys a row may see never become fewer from row to row. */
struct attention_plan {
    struct heed_attention request;
    const struct heed_kernels *kernels;
    float (*log)(float); /* the machine's, not the table's: the same bits whichever table runs */
    float query_factor;  /* scale * log2(e) */
    int64_t group;
    int64_t rows;       /* of one key/value head */
    int64_t block_rows; /* of one task */
    int64_t blocks;     /* of one key/value head */
    int64_t tasks;
    int64_t output_ld;
    int64_t chunk_keys; /* room for keys of one chunk */
    bool pack_values;
    int workers;
    struct attention_layout layout;
};

enum heed_status heed_attention_check(const struct heed_attention *request);
void heed_attention_prepare(const struct heed_attention *request, const struct heed_exec *exec, const struct heed_kernels *kernels,
                            struct attention_plan *plan);
/* Keys [0, limit) are what a query token may see. */
int64_t heed_attention_limit(const struct attention_plan *plan, int64_t token);
/* One block of rows of one key/value head; workspace as the plan's layout says. */
void heed_attention_block(const struct attention_plan *plan, int64_t task, float *workspace);

#endif
