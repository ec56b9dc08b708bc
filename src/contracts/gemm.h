/* Tiles of products of floats, and what becomes of their sums. */
#ifndef HEED_CONTRACTS_GEMM_H
#define HEED_CONTRACTS_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "contracts/common.h"

/* Tiles one under the other: `taller` of so many rows, at most tile_rows, the others of one row less. */
struct heed_heights {
    int64_t tiles, taller;
    int rows;
};

/* c = alpha * chain (+ beta * c if beta is not 0), chain = acc, or 0 if acc is NULL, continued by fma over p = 0..k-1 of a[i][p] *
 * b[p][j].  partial: c = chain as it is, for more of it to come; alpha and beta are not used.  rows <= tile_rows; columns <=
 * tile_columns; b is readable up to columns rounded up to whole vectors; c is written for `columns` only.  c may be acc (same
 * pointer and stride).  columns may also be several times tile_columns, up to HEED_PANEL: tiles side by side.  `tiles` of them, or
 * rows of them, one under the other: each goes on with the next rows of a, acc and c.
 *
 * strips: a is strips, as pack_strips of the table makes them, each of k steps, and lda and next_a are of no concern.
 *
 * panel, unless NULL: the first row of them copies b there, rows of HEED_PANEL, and the others read it; tiles are whole then.
 *
 * The rest is advice, and what comes next is fetched and never read: of rows of a, lda apart, the first cache lines; with every
 * HEED_LINE steps next_burst rows of next_lines cache lines or a few more, next_step bytes apart, until next_rows are fetched; of
 * c, where its sums go on from there, rows ldnext_c bytes apart, of about `columns` floats.  NULL or 0: nothing, but for c itself;
 * next_a is a then. */
struct heed_gemm_tile {
    int rows, columns;
    int64_t tiles;
    int64_t k;
    const float *a;
    int64_t lda;
    bool strips;
    const float *b;
    int64_t ldb;
    const float *acc;
    int64_t ldacc;
    bool partial;
    float alpha, beta;
    float *c;
    int64_t ldc;
    uint16_t *rounded; /* of dots' tiles: NULL, or where c goes in bf16, alpha being 1 and beta 0 */
    float *panel;
    bool fetches_b; /* its own b, of which ldb is HEED_PANEL, into L1 for the first tile: it stays there for the others */
    const float *next_a;
    const char *next_b;
    int64_t next_rows, next_step;
    int next_lines, next_burst;
    const char *next_c;
    int64_t ldnext_c;
};

/* c[i][j] = alpha * y (+ beta * c[i][j] if beta is not 0), y = sums[i][j] (* scales[j] unless that is NULL), rounded to the given
 * type; NaNs become its one NaN. */
struct heed_finish_products {
    int64_t rows, columns;
    const float *sums;
    int64_t ldsums;
    const float *scales;
    float alpha, beta;
    void *c;
    enum heed_type type;
    int64_t ldc;
};

/* c = alpha * chain (+ beta * c if beta is not 0), chain by fma over p = 0..k-1 of a[i * lda + p * a_step] * b[p][j], from 0: all
 * tiles of a product so small that a call for each would count.  rows and columns are at least 1, columns at most HEED_PANEL;
 * nothing of b and c but these columns is touched. */
struct heed_gemm_small {
    int64_t rows, columns, k;
    const float *a;
    int64_t lda, a_step;
    const float *b;
    int64_t ldb;
    float alpha, beta;
    float *c;
    int64_t ldc;
};

#endif
