/* HEED_COMPUTE_BF16 by vdpbf16ps: a step of a chain takes in a pair, 16 columns at a time, where two vfmadd take one of floats
 * each. All other kernels of its table are those for AVX-512.  Which processors gain: src/cpu_policy.c. */
#include <string.h>

#include "vec_avx512.h"

#include "internal.h"
#include "kernels.h"

/* Rounded first: what lies next to 2^-126 may become it.  Where it does not, vdpbf16ps takes it for 0. */
INLINE __m512i round_b(vf low, vf high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(v_round_bf16(low)), v_round_bf16(high), 1);
}

#include "bf16_words.h"

INLINE vf pair_chain(vf acc, vf a, vf b) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b)); /* as v_chain */
    return acc;
}

#define TILE_ROWS    6
#define TILE_VECTORS 4
#define TILE_CHAIN   pair_chain
/* Rounds as v_round_bf16 does, all but NaNs; numbers below 2^-126, which it takes for 0, are no sums of pairs. */
#define TILE_ROUND(to, first, second) _mm512_storeu_si512(to, round_a(first, second))
#include "kernels/tile.h"
#include "kernels/gemm_tile.h"
#include "kernels/merge_rows.h"
#include "kernels/pair_weight.h"
#include "kernels/exp_beside.h"
#include "kernels/transpose.h"
#include "kernels/paced.h"
#include "kernels/thin_pieces.h"
#include "kernels/thin_squares.h"
#include "kernels/thin_window.h"
#include "kernels/fetch_pages.h"
#include "kernels/types.h"
#include "kernels/thin_step.h"
#include "kernels/in_order.h"
#include "thin_words.h"
#include "thin_pairs.h"

/* Sums to memory, or into what is there, and their maxima, while they are still in registers. */
INLINE void pair_finish(const int rows, const int vectors, vf acc[][TILE_VECTORS], const struct heed_dot_tile *tile, int row) {
    const int64_t ldsums = tile->ldsums;
    float *sums = tile->sums + row * ldsums, *row_max = tile->row_max;
    if (tile->keep_old) {
        tile_merge(rows, vectors, acc, sums, ldsums, tile->keep_old + row, tile->take_new + row);
        return;
    }
    if (row_max) {
        tile_store_scores(rows, vectors, acc, tile->first, sums, HEED_CHUNK, row_max + row * HEED_SUM_LANES);
        return;
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(sums + i * ldsums + v * VF_LANES, acc[i][v]);
}

/* Words are to it what floats are to others.  Rows [row, end), whole tiles of them. */
INLINE void pair_tile_body(const int rows, const int vectors, const struct heed_dot_tile *tile, int row, int end) {
    NO_UNROLL for (; row < end; row += rows) {
        vf acc[TILE_ROWS][TILE_VECTORS];
        tile_zero(rows, vectors, acc);
        tile_multiply(rows, vectors, acc, tile->a + row * tile->lda, tile->lda, tile->b, HEED_PANEL, tile->k / 2);
        pair_finish(rows, vectors, acc, tile, row);
    }
}

TILE_SHAPES(pair_tile, (const struct heed_dot_tile *tile, int row, int end), tile, row, end)

static void pair_tile(const struct heed_dot_tile *tile) {
    static void (*const shapes[6][4])(const struct heed_dot_tile *tile, int row, int end) = TILE_TABLE(pair_tile);
    const int vectors = (tile->columns - 1) / VF_LANES, rest = tile->rows % TILE_ROWS;
    shapes[TILE_ROWS - 1][vectors](tile, 0, tile->rows - rest);
    if (rest)
        shapes[rest - 1][vectors](tile, tile->rows - rest, tile->rows);
}

/* A tile's products, with exponentials beside as far as there are any: two steps for each turn, so that beside 64 columns the
 * weights of as many rows are made. */
INLINE void pair_multiply_beside(const int rows, const int vectors, vf acc[][TILE_VECTORS], const float *weights,
                                 const float *values, int64_t words, struct exp_beside *beside) {
    struct tile_rows a;
    struct tile_b b = tile_b_begin(values, HEED_PANEL);
    struct exp_place place = beside->place;
    const int64_t turns = min_i64(place.left / 2, words / TILE_STEPS);
    tile_rows_begin(rows, &a, weights, HEED_CHUNK);
    NO_UNROLL for (int64_t turn = turns; turn > 0; turn--) {
        tile_turn(TILE_STEPS / 2, TILE_B_ALONE, 1, rows, vectors, acc, &a, &b, NULL);
        tile_rows_pin(rows, &a);
        exp_beside_step(true, beside, &place);
        tile_turn(TILE_STEPS / 2, TILE_B_ALONE, 1, rows, vectors, acc, &a, &b, NULL);
        tile_rows_pin(rows, &a);
        tile_b_pin(TILE_B_ALONE, &b);
        exp_beside_step(true, beside, &place);
    }
    beside->place = place;
    NO_UNROLL for (words -= turns * TILE_STEPS; words > 0; words -= TILE_STEPS)
        tile_turn(TILE_STEPS, TILE_B_ALONE, 1, rows, vectors, acc, &a, &b, NULL);
}

/* Rows [row, end), whole tiles of them, and columns [from, to), as value_whole_body has them. */
INLINE void pair_values_body(const int rows, const int vectors, const struct heed_dot_values *all, int row, int end, int64_t from,
                             int64_t to, const struct heed_exp_rows *exp) {
    struct exp_beside beside = {.block = exp};
    int64_t column = from;
    NO_UNROLL while (row < end) {
        vf acc[TILE_ROWS][TILE_VECTORS];
        const float *weights = all->weights.rows.s + row * HEED_CHUNK + all->weights.first / 2;
        const int64_t keys = round_up(all->weights.rows.ends[row + rows - 1], HEED_DOT) - all->weights.first;
        if (exp && column == from)
            exp_beside_begin(&beside, row + rows, smaller(row + 2 * rows, exp->rows));
        tile_zero(rows, vectors, acc);
        pair_multiply_beside(rows, vectors, acc, weights, all->b + column / HEED_PANEL * all->panel_floats, keys / 2, &beside);
        tile_merge(rows, vectors, acc, all->o + row * all->ldo + column, all->ldo, all->merge.keep_old + row,
                   all->merge.take_new + row);
        column += HEED_PANEL;
        if (column < to)
            continue;
        row += rows;
        column = from;
        exp_beside_end(true, &beside);
    }
}

TILE_SHAPES(pair_values,
            (const struct heed_dot_values *all, int row, int end, int64_t from, int64_t to, const struct heed_exp_rows *exp), all,
            row, end, from, to, exp)

/* Columns [from, to), in tiles of so many vectors; beside the products of whole tiles exponentials, unless exp is NULL. */
static void pair_columns(const struct heed_dot_values *all, int64_t from, int64_t to, int vectors,
                         const struct heed_exp_rows *exp) {
    static void (*const shapes[6][4])(const struct heed_dot_values *all, int row, int end, int64_t from, int64_t to,
                                      const struct heed_exp_rows *exp) = TILE_TABLE(pair_values);
    const int rows = all->weights.rows.rows, rest = rows % TILE_ROWS;
    if (from >= to)
        return;
    shapes[TILE_ROWS - 1][vectors - 1](all, 0, rows - rest, from, to, exp);
    if (rest)
        shapes[rest - 1][vectors - 1](all, rows - rest, rows, from, to, NULL);
}

/* Of a tile's rows, keys that not all of them see: -inf where a row does not, as far as weights are made, and their maxima. */
static void pair_hide(const struct heed_dot_values *all, int row, int rows) {
    const struct heed_exp_rows *block = &all->weights.rows;
    const int first = all->weights.first, whole = larger(first, block->ends[row] / TILE_COLUMNS * TILE_COLUMNS);
    const int last = (int)round_up(block->ends[row + rows - 1], HEED_DOT);
    const vf hidden = v_set1(-INFINITY);
    for (int i = row; whole < last && i < row + rows; i++) {
        float *s = block->s + i * HEED_CHUNK, *row_max = all->row_max + i * HEED_SUM_LANES;
        vf max = whole > first ? v_load(row_max) : hidden;
        for (int at = whole; at < last; at += VF_LANES) {
            const vf z = v_keep_first(v_load(s + at), block->ends[i] - at, hidden);
            v_store(s + at, z);
            max = v_max(z, max);
        }
        v_store(row_max, max);
    }
}

static void pair_weigh_values(const struct heed_dot_values *all) {
    struct heed_dot_weights first = all->weights;
    const int rows = first.rows.rows;
    const int64_t wide = all->columns / HEED_PANEL * HEED_PANEL, left = (all->columns - wide + VF_LANES - 1) / VF_LANES;
    const bool beside = !all->weights.scales;
    for (int row = 0; row < rows; row += TILE_ROWS)
        pair_hide(all, row, smaller(TILE_ROWS, rows - row));
    first.rows.row_max = all->row_max;
    exp_maxima(&first.rows);
    merge_maxima(&all->merge);
    if (beside) {
        first.rows.rows = smaller(TILE_ROWS, rows);
        first.last = first.rows.ends[first.rows.rows - 1];
    }
    dot_weigh(&first);
    pair_columns(all, 0, wide, TILE_VECTORS, beside ? &all->weights.rows : NULL);
    pair_columns(all, wide, all->columns, (int)left, beside && wide == 0 ? &all->weights.rows : NULL);
    merge_sums(&all->merge);
}

extern const struct heed_dots heed_dots_avx512bf16;
const struct heed_dots heed_dots_avx512bf16 = {
    .elements = 2,
    .depth = 2,
    .tile_rows = TILE_ROWS,
    .tile_columns = TILE_COLUMNS,
    .finishes = true,
    .load_a = load_a,
    .load_b = load_b,
    .load_b_transposed = load_b_transposed,
    .tile = pair_tile,
    .gemm_tile = gemm_tile_ready,
    .weigh = dot_weigh,
    .weigh_values = pair_weigh_values,
    .thin_product = thin_words,
    .thin_product_transposed = thin_words_transposed,
    .thin_pairs = thin_pairs,
    .thin_squares = thin_pair_squares,
};
