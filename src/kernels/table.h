/* All kernels of one instruction set and their table, for arch/.../<isa>.c, which includes it after its vocabulary and tile sizes;
 * KERNELS makes further tables of the same kernels there, as avx512.c does for AMX and for products of bf16.
 *
 * TILE_ROWS, TILE_VECTORS: the tile; TABLE: the table's symbol; TABLE_NAME, TABLE_REQUIRES: its name and HEED_CPU_* bits; TABLE_I8:
 * better heed_i8_kernels that some of its processors have, if there are any. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "arithmetic.h"
#include "cpu.h"
#include "internal.h"
#include "kernels.h"
#include "kernels/types.h"
#include "kernels/each_vector.h"
#include "kernels/widen_rows.h"
#include "kernels/transpose.h"
#include "kernels/pair_weight.h"
#include "kernels/pairs.h"
#include "kernels/tile.h"
#include "kernels/fetch_pages.h"
#include "kernels/paced.h"
#include "kernels/block_words.h"
#include "kernels/block_columns.h"
#include "kernels/k_words.h"
#include "kernels/k_columns.h"
#include "kernels/k_pack.h"
#include "kernels/k_unpack.h"
#include "kernels/k_elements.h"
#include "kernels/blocks.h"
#include "kernels/pack.h"
#include "kernels/gemm_tile.h"
#include "kernels/gemm_pack.h"
#include "kernels/finish_products.h"
#include "kernels/dot_tile.h"
#include "kernels/gemm_small.h"
#include "kernels/score_panel.h"
#include "kernels/thin_window.h"
#include "kernels/thin_step.h"
#include "kernels/thin_panel.h"
#include "kernels/in_order.h"
#include "kernels/thin_in_order.h"
#include "kernels/thin_followed.h"
#include "kernels/thin_product.h"
#include "kernels/thin_pieces.h"
#include "kernels/thin_squares.h"
#include "kernels/thin_transposed.h"
#include "kernels/thin_lanes.h"
#include "kernels/thin_columns.h"
#include "kernels/blocks_window.h"
#include "kernels/thin_k_blocks.h"
#include "kernels/thin_blocks.h"
#include "kernels/exp2.h"
#include "kernels/sum16.h"
#include "kernels/exp_fetch.h"
#include "kernels/merge_rows.h"
#include "kernels/exp_rows.h"
#include "kernels/exp_beside.h"
#include "kernels/value_rows.h"
#include "kernels/dot_weigh.h"
#include "kernels/score_rows.h"
#include "kernels/rows.h"
#include "kernels/softmax_rows.h"
#include "kernels/rope.h"
#include "kernels/max_size.h"
#include "kernels/i8_row.h"
#include "kernels/i8_product.h"
#include "kernels/norm_row.h"
#include "kernels/activation_row.h"

#ifndef TABLE_I8
#define TABLE_I8 NULL
#endif

static float log_sleef(float x) { return v_log1(x); }

static const struct heed_dots dots = {
    .elements = 1,
    .depth = HEED_DOT,
    .tile_rows = TILE_ROWS,
    .tile_columns = TILE_COLUMNS,
    .load_a = dot_load_a,
    .load_b = dot_load_b,
    .load_b_transposed = dot_load_b_transposed,
    .tile = dot_tile,
    .weigh = dot_weigh,
};

static const struct heed_i8_kernels i8_kernels = {
    .better = TABLE_I8, .strip_rows = I8_STRIP, .product = i8_product, .cache_product = i8_cache_product};

/* With these dots, or others, with pairs that are words, or none (NULL), and the thin products for them. */
#define KERNELS(table_name, table_requires, table_dots, table_pairs, table_thin, table_thin_transposed, table_i8)                  \
    {                                                                                                                              \
        .name = table_name, .requires = table_requires, .lanes = VF_LANES, .most_lanes = LANES_VECTORS * VF_LANES,                 \
        .tile_rows = TILE_ROWS, .tile_columns = TILE_COLUMNS, .pack = pack, .pack_blocks = pack_blocks,                            \
        .unpack_blocks = unpack_blocks, .unpack_words = unpack_words, .pack_transposed = pack_transposed,                          \
        .pack_strips = GEMM_IS_WIDE ? NULL : pack_strips, .store_keys = store_keys, .pair_queries = pair_queries,                  \
        .pair_rows = pair_rows, .gemm_tile = gemm_tile, .dots = table_dots, .pairs = table_pairs,                                  \
        .finish_products = finish_products, .gemm_small = gemm_small, .score_panel = score_panel, .exp_rows = exp_rows,            \
        .merge_rows = merge_rows, .value_rows = value_rows, .softmax_values = softmax_values, .thin_product = table_thin,          \
        .thin_product_transposed = table_thin_transposed, .thin_product_lanes = thin_product_lanes, .thin_blocks = thin_blocks,    \
        .i8_row = i8_row, .i8_weights = i8_weights, .i8 = table_i8, .softcap_row = softcap_row, .add_row = add_row,                \
        .scale_row = scale_row, .alibi_row = alibi_row, .hide_row = hide_row, .seal_row = seal_row, .merge_row = merge_row,        \
        .mass_row = mass_row, .widen_rows = widen_rows, .round_rows = round_rows, .store_row = store_row,                          \
        .scale_rows = scale_rows, .finish_rows = finish_rows, .weights_row = weights_row, .softmax_rows = softmax_rows,            \
        .add_scaled = add_scaled, .norm_row = norm_row, .activation_row = activation_row, .rope = rope, .divide_row = divide_row,  \
        .max_size = max_size, .exp2 = exp2_array, .log = log_sleef,                                                                \
    }

extern const struct heed_kernels TABLE;
const struct heed_kernels TABLE =
    KERNELS(TABLE_NAME, TABLE_REQUIRES, &dots, NULL, thin_product, thin_product_transposed, &i8_kernels);
