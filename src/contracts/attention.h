/* Steps of attention over a chunk of keys, by tiles: scores, softmax, values. */
#ifndef HEED_CONTRACTS_ATTENTION_H
#define HEED_CONTRACTS_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "contracts/common.h"

/* Scores of a few queries with one panel of a chunk's keys, by tiles: s[i][key + j] = chain over d of query[i][d] * keys[d][j] for
 * j < columns, a multiple of 16; -inf, if `hides`, where key + j is outside of begins[i] ... ends[i] - 1.  Lane-wise maxima go to
 * row_max[i][0..15], of this panel and those before it.  Neither begins nor ends fall from row to row, and tiles that no row sees
 * are left out: panels come in the order of their keys.  keys has leading dimension ldk; s and row_max have HEED_CHUNK and
 * HEED_SUM_LANES. */
struct heed_score_panel {
    int rows, columns, key;
    bool hides;
    int64_t head_dim;
    const float *query;
    int64_t ldq;
    const float *keys;
    int64_t ldk;
    const int *begins, *ends;
    float *s;
    float *row_max;
};

/* Rows to be fetched, `step` bytes apart, of `lines` cache lines each; `each` of them beside a row of scores. */
struct heed_fetch {
    const char *data;
    int64_t step;
    int rows, lines, each;
};

/* The softmax of one chunk, rows apart: with row i seeing the keys begins[i] <= j < ends[i],
 *   chunk_max[i] = max of row_max[i][..] (-inf if there are none);  s[i][j] = exp2(s[i][j] - chunk_max[i]);  chunk_sum[i] = their
 * sum. The keys around these, out to multiples of 16, hold -inf on entry; s has leading dimension HEED_CHUNK.
 * pairs: s[i][j] becomes pairs of these, along the row, for as much of it; then, unless scales is NULL, pairs of s[i][j] times
 * scales[j], of which there are as many as keys out to multiples of 16: what those hold around the keys becomes anything.
 * Advice, fetched beside the rows and never read: what comes next. */
struct heed_exp_rows {
    int rows;
    bool pairs;
    const float *scales;
    const int *begins, *ends;
    float *s;
    const float *row_max;
    float *chunk_max;
    float *chunk_sum;
    struct heed_fetch next[HEED_FETCHES];
};

/* The running softmax takes in a chunk: m' = max(m, chunk_max); a = exp2(m - m'), b = exp2(chunk_max - m'), each 0 where its
 * maximum is -inf; l = fma(l, a, chunk_sum * b); m = m'.  a: keep_old, b: take_new.  keep_old and take_new have room for rows
 * rounded up to 16. */
struct heed_merge_rows {
    int rows;
    float *max;
    float *sum;
    const float *chunk_max;
    const float *chunk_sum;
    float *keep_old;
    float *take_new;
};

/* o[i][d] = fma(o[i][d], keep_old[i], chain * take_new[i]) for d < columns, chain over begins[i] <= j < ends[i] of p[i][j] *
 * value[j][d], from 0; with keep_old NULL o[i][d] = chain + 0.  Row i uses no value that it does not see.
 * Element d of value j is values[j / piece_keys][j % piece_keys * ldv + d]: pages, or one piece.  Values and o are readable, o
 * writable, up to columns rounded up to whole vectors; p has leading dimension HEED_CHUNK.  Neither begins nor ends fall from row
 * to row; where a row sees nothing, keep_old is 1.  pairs: p and values are pairs, along keys; of the pair of a key that a row sees
 * and one that it does not, the former alone counts. */
struct heed_value_rows {
    int rows;
    bool pairs;
    int64_t columns;
    const int *begins, *ends;
    const float *p;
    const void *const *values; /* of floats */
    int piece_keys;
    int64_t ldv;
    float *o;
    int64_t ldo;
    const float *keep_old;
    const float *take_new;
};

/* exp_rows, then merge_rows, then value_rows, of the same rows: exponentials of some beside the products of others. */
struct heed_softmax_values {
    struct heed_exp_rows exp;
    struct heed_merge_rows merge;
    struct heed_value_rows values;
};

#endif
