/* The contract of the kernels: one const table of functions and tile sizes per instruction set.
 *
 * A kernel is serial and stateless: plain pointers and strides in elements, no allocation, no feature test.  All tables give the
 * same bits for the same arguments (src/arithmetic.md); what a table chooses freely is the shape of its tiles.  The bodies are in
 * src/kernels/, written once over the vector vocabulary of arch/README.md; tests/test_kernels.c walks all tables.
 *
 * Unless a kernel says otherwise: pointers need float alignment only, sizes may be 0, nothing outside the named rectangles is read
 * or written, inputs and outputs do not overlap. */
#ifndef HEED_KERNELS_H
#define HEED_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu.h"
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

/* Products of pairs, for HEED_COMPUTE_BF16: for every two elements that follow one another in a chain, x[2 i] and x[2 i + 1], both
 * rounded to bf16, chain = fma(x[2 i], y[2 i], fma(x[2 i + 1], y[2 i + 1], chain)).  What kernels take and make as "pairs" has
 * x[2 i + 1], then x[2 i], as floats, in the places of the two, so that a chain over floats in the order of memory is that chain;
 * where x[2 i + 1] or x[2 i] is missing, there is 0.  heed_fp_flush is on. */

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

/* Elements of rows, of floats or of 16 bits; data may be NULL where there need be none. */
struct heed_source {
    const void *data;
    enum heed_type type;
};
struct heed_target {
    void *data;
    enum heed_type type;
};

/* y[i] = softmax(factor * x[i]), 0 beyond lengths[i] of its columns, if there are lengths; y may be x, with the same stride.
 * stream: past the caches, but for the last row. */
struct heed_softmax_rows {
    const float *x;
    int64_t ldx, rows, columns;
    const int64_t *lengths;
    float factor;
    float *y;
    int64_t ldy;
    bool stream;
};

/* x[i] = input[i] + residual[i], or input[i] if there is no residual; d = x - mean(x) if `centers`, else x; y[i] = fma(d[i] * r,
 * gain[i], bias[i]), r = 1 / sqrt(mean(d^2) + epsilon); gain NULL: 1, bias NULL: 0; sum, if there is one, receives x.  What is
 * stored is rounded to its type, NaNs become its one NaN.  y and sum may each be input or residual, of the same type, but not the
 * same.  n is at least 1. */
struct heed_norm_row {
    int64_t n;
    bool centers;
    float epsilon;
    struct heed_source input, residual;
    const float *gain, *bias;
    struct heed_target y, sum;
};

/* y[i] = activation(input[i] + bias[i]) * gate[i] + residual[i], each operation rounded; without those that are NULL.  What is
 * stored is rounded to its type, NaNs become its one NaN.  y may be input, gate or residual, of the same type. */
struct heed_activation_row {
    int64_t n;
    enum heed_activation activation;
    struct heed_source input;
    const float *bias;
    struct heed_source gate, residual;
    struct heed_target y;
};

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

struct heed_kernels {
    const char *name;  /* the name in HEED_ISA, benchmarks and reports */
    unsigned requires; /* HEED_CPU_* bits of cpu.h that must be there to run this table */
    int lanes;         /* floats in a vector */
    int tile_rows;     /* of tiles of floats, at most HEED_MAX_TILE_ROWS; dots have their own, tall tiles twice as many */
    int tile_columns;  /* a multiple of lanes that divides HEED_PANEL */

    /* panel[p][0..63] = b[p][0..columns-1], zeros after them, of either sign; columns <= 64.  pack: b[p][j] is src[p * ld + j];
     * pack_transposed: src[j * ld + p], of the given type: of any, pack of any without blocks.  panel is aligned to 64 bytes only
     * if the caller wants speed.  pack_blocks: whole blocks as heed_gemm_pack_b has them, or HEED_I8 as if it were blocks without
     * scales; unpack_blocks: as many of such a panel.  unpack_words: of a panel of bf16, as pairs along columns if `pairs`. */
    void (*pack)(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, float *panel);
    void (*pack_blocks)(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, void *panel);
    void (*unpack_blocks)(const void *packed, enum heed_type type, int64_t k, float *panel);
    void (*unpack_words)(const void *words, int64_t k, bool pairs, float *panel);
    void (*pack_transposed)(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, float *panel);
    /* Strips of tiles: strips[(t * k + p) * tile_rows + i] = src[row * ld + p], transposed src[p * ld + row], row being the i-th of
     * tile t, and p < k; other elements, and HEED_LINE behind the last, hold anything.  src is of floats, or words of them, or of
     * 16 bits.  NULL: tiles read rows alone, being as wide as a panel. */
    void (*pack_strips)(const void *src, enum heed_type type, int64_t ld, bool transposed, const struct heed_heights *heights,
                        int64_t k, float *strips);
    /* panel[p * width + j] = src[j * ld + p] for j < columns <= width; other columns are not touched. */
    void (*store_keys)(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, float *panel, int64_t width);

    /* Pairs along rows: y[i] of x[i][j] * factor for j < n.  y may be x. */
    void (*pair_queries)(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, float factor, float *y,
                         int64_t ldy);
    /* Pairs along columns: y[2 i] and y[2 i + 1] of x[2 i] and x[2 i + 1]; if `odd`, x[0] is the second of y's first pair.  y is
     * written up to whole vectors, and may be x.  rows is at least 1. */
    void (*pair_rows)(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, bool odd, float *y, int64_t ldy);

    void (*gemm_tile)(const struct heed_gemm_tile *tile);
    const struct heed_dots *dots;  /* for HEED_COMPUTE_BF16_AMX */
    const struct heed_dots *pairs; /* for HEED_COMPUTE_BF16; NULL: pairs are two floats, and products of these have their bits */
    void (*finish_products)(const struct heed_finish_products *products);
    void (*gemm_small)(const struct heed_gemm_small *product);
    void (*score_panel)(const struct heed_score_panel *panel);
    void (*exp_rows)(const struct heed_exp_rows *block);
    void (*merge_rows)(const struct heed_merge_rows *block);
    void (*value_rows)(const struct heed_value_rows *rows);
    void (*softmax_values)(const struct heed_softmax_values *rows);
    void (*thin_product)(const struct heed_thin_product *product);
    void (*thin_product_transposed)(const struct heed_thin_product *product);
    void (*thin_blocks)(const struct heed_thin_blocks *product);
    /* For HEED_COMPUTE_I8.  i8_row: y[i] of x[32 i] and so on, of floats of 32 or 16 bits, by the rule of bytes in
     * src/arithmetic.md.  i8_weights: the same, but for sums, which hold anything. */
    void (*i8_row)(const void *x, enum heed_type type, int64_t blocks, struct heed_i8_block *y);
    void (*i8_weights)(const float *x, int64_t blocks, struct heed_i8_block *y);
    const struct heed_i8_kernels *i8;

    /* Terms of a score: x[i] = cap * tanh(x[i] * (1 / cap)); x[i] += y[i]; x[i] = fma(-slope, |distance - (first + i)|, x[i]).
     * Where y[i] is -inf, x[i] becomes -inf, NaN too. */
    void (*softcap_row)(float *x, int64_t n, float cap);
    void (*add_row)(float *x, int64_t n, const float *y);
    void (*scale_row)(float *x, int64_t n, const float *y); /* x[i] *= y[i] */
    void (*alibi_row)(float *x, int64_t n, float slope, float distance, int first);
    /* x[i] = -inf where mask[i] is 0 */
    void (*hide_row)(float *x, int64_t n, const uint8_t *mask);
    /* What score_panel leaves undone for a row of scores with terms: s[j] = s[j] * scales[j], unless scales is NULL, * factor for
     * begin <= j < end, -inf around them out to multiples of 16, where scales are read, too; lane-wise maxima to row_max[0..15].
     * 0 <= begin < end <= HEED_CHUNK. */
    void (*seal_row)(float *s, int begin, int end, float factor, const float *scales, float *row_max);
    /* o[i] = fma(o[i], keep_old, x[i] * take_new); o is readable and writable up to whole vectors. */
    void (*merge_row)(float *o, const float *x, int64_t n, float keep_old, float take_new);
    /* y[i] += exp2(z[i] - max) * (1 / sum); NaN if sum is NaN, nothing if it is 0. */
    void (*mass_row)(float *y, const float *z, int64_t n, float max, float sum);

    /* y[i][j] = x[i][j], of the given type, HEED_I8 too, exactly. */
    void (*widen_rows)(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, float *y, int64_t ldy);
    /* y[i][j] = x[i][j] rounded to the given type, to nearest even; NaNs become its one NaN: 0x7fc00000, 0x7fc0, 0x7e00.  HEED_I8
     * takes x from -127.5 to 127.5. */
    void (*round_rows)(const float *x, int64_t ldx, int64_t rows, int64_t n, void *y, enum heed_type type, int64_t ldy);
    /* y[i] = x[i] * factor + 0; NaNs become the one NaN. */
    void (*store_row)(const float *x, int64_t n, float factor, float *y);
    /* y[i][j] = x[i][j] * factor, x of the given type; y may be x. */
    void (*scale_rows)(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, float factor, float *y,
                       int64_t ldy);
    /* y[i][j] = x[i][j] * (1 / sum[i]) + 0, rounded to the given type; 0 if sum[i] is 0; NaNs become the one NaN. */
    void (*finish_rows)(const float *x, int64_t ldx, const float *sum, int64_t rows, int64_t n, void *y, enum heed_type type,
                        int64_t ldy);
    /* w[i] = exp2(w[i] - max) * (1 / sum); 0 if sum is 0; NaNs become the one NaN. */
    void (*weights_row)(float *w, int64_t n, float max, float sum);
    void (*softmax_rows)(const struct heed_softmax_rows *rows);
    /* y[i] = fma(x[i], factor, y[i]), x of any type, bytes and blocks too, of which there are whole ones. */
    void (*add_scaled)(const void *x, enum heed_type type, int64_t n, float factor, float *y);
    void (*norm_row)(const struct heed_norm_row *row);
    void (*activation_row)(const struct heed_activation_row *row);
    /* Rotary embedding of n pairs: ya[i] = fma(a[i], cos[i], -(b[i] * sin[i])), yb[i] = fma(b[i], cos[i], a[i] * sin[i]); NaNs
     * become the one NaN.  ya may be a, and yb b. */
    void (*rope)(const float *a, const float *b, const float *cos, const float *sin, int64_t n, float *ya, float *yb);
    void (*divide_row)(float *x, int64_t n, const float *y); /* x[i] /= y[i] */
    /* max |x[i]|, 0 if there are none; the one NaN if any is infinite or NaN. */
    float (*max_size)(const float *x, int64_t n);
    /* y[i] = 2^x[i] for x <= 0: 0 below -126, NaN for NaN; at most 1 ULP from the true value.  What the kernels above use, for
     * tests. */
    void (*exp2)(const float *x, int64_t n, float *y);
    /* ln(x): SLEEF's, 1.0 ULP.  Tables that require FMA share one; `scalar` has SLEEF's for CPUs without, with other last bits. */
    float (*log)(float x);
};

#endif
