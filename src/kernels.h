/* The contract of the kernels: one const table of functions and tile sizes per instruction set.  What functions with many arguments
 * take, and do, is in src/contracts/.
 *
 * A kernel is serial and stateless: plain pointers and strides in elements, no allocation, no feature test.  All tables give the
 * same bits for the same arguments (src/arithmetic.md); what a table chooses freely is the shape of its tiles.  The bodies are in
 * src/kernels/, written once over the vector vocabulary of arch/README.md; tests/test_kernels.c walks all tables.
 *
 * Unless a kernel says otherwise: pointers need float alignment only, sizes may be 0, nothing outside the named rectangles is read
 * or written, inputs and outputs do not overlap. */
#ifndef HEED_KERNELS_H
#define HEED_KERNELS_H

#include <stdint.h>

#include "contracts/attention.h"
#include "contracts/dots.h"
#include "contracts/gemm.h"
#include "contracts/i8.h"
#include "contracts/rows.h"
#include "contracts/thin.h"
#include "cpu.h"

struct heed_kernels {
    const char *name;  /* the name in HEED_ISA, benchmarks and reports */
    unsigned requires; /* HEED_CPU_* bits of cpu.h that must be there to run this table */
    int lanes;         /* floats in a vector */
    int most_lanes;    /* rows that thin_product_lanes takes, a multiple of lanes */
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
    void (*thin_product_lanes)(const struct heed_thin_product *product);
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
