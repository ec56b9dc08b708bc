/* Products of factors that are arranged for them, in bf16: by AMX or by pairs. */
#ifndef HEED_CONTRACTS_DOTS_H
#define HEED_CONTRACTS_DOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "contracts/attention.h"
#include "contracts/gemm.h"
#include "contracts/thin.h"

/* A tile of sums of dots: sums[i][j], from what it is if `continues`, else from 0, takes in a's row i times b's column j for p =
 * 0..k-1, as load_a and load_b arrange them; k is a multiple of `depth`.  lda: floats from a row to the next.  columns may also be
 * more than tile_columns, up to HEED_PANEL: tiles side by side.  Of a, b and sums all that whole tiles would have may be read,
 * and of sums written; what is beyond rows and columns may be anything.
 * Where dots' tiles finish, and there alone: nothing continues; any number of tiles one under the other; if keep_old, sums[i][j] =
 * fma(sums[i][j], keep_old[i], chain * take_new[i]), the chain from 0; if row_max, lane-wise maxima of the sums of row i go to
 * row_max[i][0..15], of these and, unless `first`, what is there, and ldsums is HEED_CHUNK.
 * Where dots' tiles do not finish: becomes, unless NULL, is what becomes of these very sums, then or later.  *left, of no rows at
 * first, is what is still to be finished, of earlier tiles before and of this one afterwards; the caller finishes what the last one
 * leaves, and the sums of all of them may be in the same place.
 * Advice: fetches_b, for the first tile that reads this b, which then is fetched into L2; c, unless NULL, what is read when the
 * sums are finished, its rows ldc bytes apart and of c_lines cache lines for every tile_columns columns. */
struct heed_dot_tile {
    int rows, columns;
    int64_t k;
    const float *a;
    int64_t lda;
    const float *b;
    bool fetches_b;
    const char *c;
    int64_t ldc;
    int c_lines;
    bool continues;
    float *sums;
    int64_t ldsums;
    const struct heed_finish_products *becomes;
    struct heed_finish_products *left;
    const float *keep_old, *take_new;
    float *row_max;
    bool first;
};

/* As heed_exp_rows, but pairs are not used, and row_max may be NULL: then any number may stand around the keys that a row sees, out
 * to multiples of HEED_DOT, and scores are times key_scales[j] where there are any, read as far; else -inf stands there.  Weights,
 * times scales[j] where there are any, become rows of a in the place of s, with zeros for the other keys from `first`, a multiple
 * of HEED_DOT, up to `last`, and on to the next multiple. */
struct heed_dot_weights {
    struct heed_exp_rows rows;
    int first, last;
    const float *key_scales, *scales;
};

/* weigh, then merge_rows, then the products of these weights and of values, merged into o, all rows and `columns` columns of it:
 * exponentials of some rows beside the products of others.  Tiles finish; all rows see some keys, from the first of a tile on.
 * row_max has maxima of the keys whose tiles the first of tile_rows rows sees whole; those of the others are added to it.  b:
 * values of all keys from there on, up to a multiple of HEED_DOT, finite where any row does not see them, from one panel to the
 * next panel_floats apart. */
struct heed_dot_values {
    struct heed_dot_weights weights; /* row_max NULL */
    struct heed_merge_rows merge;
    float *row_max;
    int64_t columns, panel_floats;
    const float *b;
    float *o;
    int64_t ldo;
};

/* What a thread's tile registers were set to. */
struct heed_dots_callers {
    uint8_t tile_configuration[64];
};

/* Products of factors that are arranged for them.  In HEED_COMPUTE_BF16_AMX a sum takes in HEED_DOT elements of k at a time, sum +
 * (even + odd), where even and odd are chains by fma from 0 over those at even and at odd places; in HEED_COMPUTE_BF16 a pair.
 * heed_fp_flush is on.
 *
 * Factors are rounded to bf16, elements below 2^-126 (AMX: of both, pairs: of a) being 0, and arranged as tile has them, zeros up
 * to a multiple of HEED_DOT included: rows of a, and panels of b of which each row, of words if elements is 2, has HEED_PANEL.  So
 * rows and packed panels of bf16 are words as they are, at any address. */
struct heed_dots {
    int elements;                /* of a factor, in the place of a float: 1, or 2 */
    int depth;                   /* of k, taken in at a time */
    int tile_rows, tile_columns; /* tile_columns divides HEED_PANEL */
    bool finishes;               /* see heed_dot_tile; AMX's sums leave their registers only for memory */
    /* Whether the operating system lets this process use the tiles: if not, the dots of `otherwise` do.  NULL: it does. */
    bool (*permitted)(void);
    const struct heed_kernels *otherwise;
    /* Around tiles, on each thread.  The caller's configuration of tile registers comes back at the end, for ggml, which has AMX of
     * its own, sets it once and for all.  NULL: nothing. */
    void (*begin)(struct heed_dots_callers *callers);
    void (*end)(const struct heed_dots_callers *callers);
    /* x[i][p] for p < k, and x[p][j] for p < k, j < columns, or x[j][p] if transposed; of b's other columns up to HEED_PANEL
     * anything.  load_b alone takes bytes.  Where tiles finish, y of load_a may be x, with the same stride. */
    void (*load_a)(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy);
    void (*load_b)(const void *x, enum heed_type type, int64_t ldx, int64_t k, int columns, float *y);
    void (*load_b_transposed)(const void *x, enum heed_type type, int64_t ldx, int64_t k, int columns, float *y);
    void (*tile)(const struct heed_dot_tile *tile);
    void (*weigh)(const struct heed_dot_weights *weights);
    void (*weigh_values)(const struct heed_dot_values *values); /* where tiles finish */
    /* Where tiles finish: as that of the table, and of the same tiles, but a, b and k are of words, two elements of k each, as
     * load_a and load_b have them; panel is NULL. */
    void (*gemm_tile)(const struct heed_gemm_tile *tile);
    /* Where tiles finish: as that of the table, of words and in pairs, but a is rows as load_a has them.  What is fetched is what
     * follows the panel in memory. */
    void (*thin_product)(const struct heed_thin_product *product);
    /* Where tiles finish: the same of a transposed b of bf16; at most 2 * HEED_MAX_TILE_ROWS rows, columns a multiple
     * of HEED_SUM_LANES, k of HEED_DOT, nothing skipped. */
    void (*thin_product_transposed)(const struct heed_thin_product *product);
    /* What those of the table do in pairs, of whole vectors of columns: with rows of bf16 or bytes; and with columns [from, to) of
     * a transposed b of bf16 and the first k elements of k, a multiple of HEED_DOT and at most HEED_THIN_PAIRS_K. */
    void (*thin_pairs)(const struct heed_thin_product *product);
    void (*thin_squares)(const struct heed_thin_product *product, int64_t k, int from, int to);
};

/* NULL: there are none. */
INLINE void heed_dots_begin(const struct heed_dots *dots, struct heed_dots_callers *callers) {
    if (dots && dots->begin)
        dots->begin(callers);
}
INLINE void heed_dots_end(const struct heed_dots *dots, const struct heed_dots_callers *callers) {
    if (dots && dots->end)
        dots->end(callers);
}

#endif
