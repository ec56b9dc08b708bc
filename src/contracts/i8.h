/* Products of bytes, for HEED_COMPUTE_I8. */
#ifndef HEED_CONTRACTS_I8_H
#define HEED_CONTRACTS_I8_H

#include <stdbool.h>
#include <stdint.h>

#include "contracts/common.h"
#include "cpu.h"

/* TYPE_BLOCK elements of a row for products in HEED_COMPUTE_I8: they are q * scale, and minus_sum is minus their sum, for what is
 * subtracted from q4_K and q5_K. */
struct heed_i8_block {
    int8_t q[TYPE_BLOCK];
    float scale;
    /* -8 times the sum of q, and the same of the first half: integers of q4_0 are stored 8 too large, of q5_0 16, of q6_K, whose
     * groups are 16, 32, and some kernels raise those of q8_0. */
    int32_t minus_8, minus_8_of_first;
    float minus_sum;
};

/* c[i][j] = chain, from 0, over blocks of fma(the sum of a's integers times b's, a's scale * b's scale, chain) for j < columns, or
 * of K formats over groups, as src/arithmetic.md has it; the other elements of c, up to HEED_PANEL, its leading dimension, become
 * anything.  lda counts blocks.  b is a panel that pack_blocks made, and what follows it is fetched, or, if packed is NULL, what it
 * is made of.  Advice, beside a panel: `next`, unless NULL, is fetched into L2, as many bytes as the panel has. */
struct heed_i8_product {
    int rows, columns;
    int64_t k;
    const struct heed_i8_block *a;
    int64_t lda;
    enum heed_type type;
    const void *packed;
    const void *b;
    int64_t ldb;
    const void *next;
    float *c;
    void *scratch; /* as many bytes as the kernels want, aligned to 64 */
    enum heed_fetch_into fetch_into;
};

/* c[i][j] = chain, from 0, over blocks of fma(the sum of a's integers times b's, a's scale, chain) over p in [begin, end) for j <
 * columns, a multiple of HEED_SUM_LANES; of columns of c no others are touched.  Row p of b, signed bytes, is row p % piece of
 * pieces[p / piece], a power of two and a multiple of HEED_SUM_LANES; rows are ldb bytes apart.  Other rows are not read, but from
 * where a row's column is up to 63 bytes more may be.  a has zeros before begin and from end on in the blocks that these are in;
 * lda are from a row to the next; positive: no element of it is less than 0, and its sums are not looked at.  Advice: `next`,
 * unless NULL, is read after b; in_order: most of what is read after a row lies behind it; leaves_l2: b is more than L2 holds. */
struct heed_i8_cache_product {
    int rows, columns, begin, end;
    bool positive, in_order, leaves_l2;
    const struct heed_i8_block *a;
    int64_t lda;
    const void *const *pieces;
    int piece;
    int64_t ldb;
    float *c;
    int64_t ldc;
    const void *next;
    enum heed_fetch_into fetch_into;
};

struct heed_i8_kernels {
    unsigned requires;                    /* HEED_CPU_* bits beyond those of the table */
    const struct heed_i8_kernels *better; /* where there is what these require, or NULL */
    /* Whether the operating system lets this process use them: if not, `otherwise` is used.  NULL: it does. */
    bool (*permitted)(void);
    const struct heed_i8_kernels *otherwise;
    int strip_rows;                                          /* to be multiplied at a time, if there are enough */
    int64_t (*scratch_bytes)(enum heed_type type, int rows); /* NULL: none */
    void (*product)(const struct heed_i8_product *product);
    void (*cache_product)(const struct heed_i8_cache_product *product);
};

#endif
