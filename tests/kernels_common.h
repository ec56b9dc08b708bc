/* What the tests of single kernels share: every table's kernels are compared with the scalar table's, which has smaller tiles and
 * therefore covers a tile of another table by several of its own. */
#ifndef HEED_TESTS_KERNELS_COMMON_H
#define HEED_TESTS_KERNELS_COMMON_H

#include "harness.h"
#include "internal.h"

#include <check.h>

enum { MAX_ROWS = 27 }; /* four tiles and more */

/* The scalar table; always usable. */
const struct heed_kernels *scalar_kernels(void);
/* The largest of x[0], x[step], ...; -inf if there is none, NaNs do not count. */
float max_of(const float *x, int64_t n, int64_t step);
/* Ranges within [0, most] as the rows of a tile have them: neither begins nor ends go back, some are empty. */
void random_ranges(struct rng *rng, int rows, int most, int *begins, int *ends);

/* What products of pairs are computed in, and what the caller had. */
struct flushing {
    uint64_t callers;
};
struct flushing flush_begin(void);
void flush_end(struct flushing before);

void add_pack_tests(TCase *tests, int tables);
void add_tile_tests(TCase *tests, int tables);
void add_thin_tests(TCase *tests, int tables);
void add_lanes_tests(TCase *tests, int tables);
void add_thin_pair_tests(TCase *tests, int tables);
void add_thin_panel_tests(TCase *tests, int tables);
void add_softmax_tests(TCase *tests, int tables);
void add_beside_tests(TCase *tests, int tables);
void add_score_tests(TCase *tests, int tables);
void add_row_tests(TCase *tests, int tables);
void add_type_tests(TCase *tests, int tables);
void add_kv_tests(TCase *tests, int tables);
void add_pair_tests(TCase *tests, int tables);
void add_dot_tests(TCase *tests, int tables);
void add_block_tests(TCase *tests, int tables);
void add_cache_tests(TCase *tests, int tables);

#endif
