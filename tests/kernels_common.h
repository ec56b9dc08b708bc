/* What the tests of single kernels share: every table's kernels are compared with the scalar table's, which has smaller tiles and
 * therefore covers a tile of another table by several of its own. */
#ifndef HEED_TESTS_KERNELS_COMMON_H
#define HEED_TESTS_KERNELS_COMMON_H

#include "harness.h"
#include "internal.h"

#include <check.h>

/* The scalar table; always usable. */
const struct heed_kernels *scalar_kernels(void);
void add_tile_tests(TCase *tests, int tables);
void add_row_tests(TCase *tests, int tables);
void add_kv_tests(TCase *tests, int tables);

#endif
