/* What contracts of kernels have in common: sizes, and how they speak.  The table of kernels is in src/kernels.h. */
#ifndef HEED_CONTRACTS_COMMON_H
#define HEED_CONTRACTS_COMMON_H

#include "heed.h"
#include "types.h"

enum {
    HEED_PANEL = 64,           /* columns of a packed panel, on every instruction set */
    HEED_ROW_OF_STACK = 8192,  /* floats whose exponentials wait there for their sum */
    HEED_SOFTMAX_CHUNK = 1024, /* elements of a row of heed_softmax with a maximum of their own, or 2048, 4096 ... */
    HEED_SOFTMAX_CHUNKS = 256, /* of a row, at most; both are part of the arithmetic */
    HEED_SUM_LANES = 16,       /* partial sums of a softmax denominator; part of the arithmetic */
    HEED_MAX_TILE_ROWS = 6,
    HEED_FETCHES = 3,        /* queries, outputs, and keys or values */
    HEED_THIN_PAIRS_K = 512, /* of thin_squares: wider than heads of models */
    HEED_DOT = 32,           /* elements of k that dots have together; a sum of HEED_COMPUTE_BF16_AMX takes in as many at a time */
    HEED_LINE = 16           /* floats of a cache line, nearly everywhere; where lines are longer, some are fetched twice */
};

/* Products of pairs, for HEED_COMPUTE_BF16: for every two elements that follow one another in a chain, x[2 i] and x[2 i + 1], both
 * rounded to bf16, chain = fma(x[2 i], y[2 i], fma(x[2 i + 1], y[2 i + 1], chain)).  What kernels take and make as "pairs" has
 * x[2 i + 1], then x[2 i], as floats, in the places of the two, so that a chain over floats in the order of memory is that chain;
 * where x[2 i + 1] or x[2 i] is missing, there is 0.  heed_fp_flush is on. */

#endif
