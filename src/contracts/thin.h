/* Products of few rows with much that is read once, from memory. */
#ifndef HEED_CONTRACTS_THIN_H
#define HEED_CONTRACTS_THIN_H

#include <stdbool.h>
#include <stdint.h>

#include "contracts/common.h"
#include "cpu.h"

/* c[i][j] = chain, from c[i][j] if `continues`, else from 0, by fma over p = 0..k-1 of a[i][p] * b[p][j], or of a[i][p] * b[j][p]
 * if b is transposed.  For few rows and a long b that is read from memory: while it is computed, what lies ahead in b may be
 * fetched, and at the end what follows.  c, and b if it is of floats, not transposed and not `exact`, have room up to columns
 * rounded up to whole vectors.  far, near, crowded, in_order, paced, fetch_into and next are advice. */
struct heed_thin_product {
    int rows, columns;
    int64_t k;
    const float *a;
    int64_t lda;
    const void *b;
    enum heed_type type; /* of b: any without blocks */
    int64_t ldb;
    /* More products like it, of whole vectors of columns: panels right behind each other or, where rows have gaps, parts of these,
     * each of which is followed by what lies as far from `next` as it lies from b.  Elements from one to the next of b, a and c.
     * Not of a transposed b, nor of words. */
    int more_panels;
    int64_t b_step, a_step, c_step;
    float *c;
    int64_t ldc;
    int skipped; /* so many first rows of a transposed b are not read, and these columns of c hold anything */
    /* a is pairs, along rows; of an odd k the odd element of the last pair may be anything.  So are elements of b taken, not
     * rounded: they must be bf16 as they are. */
    bool pairs;
    /* a is rows as load_a of the table's dots of pairs has them, which must have thin_pairs; b is in whole vectors of columns, of
     * bf16 or bytes. */
    bool a_words;
    bool words; /* b is a panel of bf16 as heed_gemm_pack_b has it; nothing continues */
    bool continues;
    bool far;                        /* caches do not hold b */
    bool near;                       /* L2 has room for b */
    bool crowded;                    /* of lines of b's rows, one below the other, L1 keeps no more than 8 (heed_cache_crowded) */
    bool in_order;                   /* b is long, or lies behind or before others that are read in turn */
    bool exact;                      /* b ends with its columns, and has no room for whole vectors */
    bool paced;                      /* lines are fetched no faster than memory gives them (src/pace.c) */
    enum heed_fetch_into fetch_into; /* where what is ahead goes */
    const void *next;                /* what follows b; NULL: nothing */
    int64_t next_step;               /* bytes from one row of what follows to the next; 0: it is one piece */
};

/* thin_product_lanes is the same of a transposed b of floats, at most HEED_PANEL columns, but rows of a are lanes of vectors:
 * element p of row i is a[p * lda + i].  Of a and of c there are whole vectors of rows, whatever is behind the last, and no more
 * rows than most_lanes of the table.  Nothing is skipped, continues, or is pairs. */

/* c[i][j] = chain, from 0, by fma over p = 0..k-1 of a[i][p] * b[p][j], for all j < HEED_PANEL, the leading dimension of c.  b is a
 * panel that pack_blocks made or, if packed is NULL, what it is made of; k has whole blocks, of bytes 32, and is not 0.  What
 * follows the panel, or lies at `next`, HEED_PANEL columns of the same ldb, is fetched.  fetch_into: as above; raises:
 * HEED_TRAIT_RAISES_WEIGHTS. */
struct heed_thin_blocks {
    int rows, columns;
    int64_t k;
    const float *a;
    int64_t lda;
    enum heed_type type;
    const void *packed;
    const void *b;
    int64_t ldb;
    const void *next;
    float *c;
    enum heed_fetch_into fetch_into;
    bool raises;
};

#endif
