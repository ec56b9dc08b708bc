/* HEED_COMPUTE_I8 in plain loops, by the words of src/arithmetic.md. */
#ifndef HEED_TESTS_I8_PRODUCTS_H
#define HEED_TESTS_I8_PRODUCTS_H

#include <stdint.h>

#include "heed.h"
#include "types.h"

/* TYPE_BLOCK numbers, `step` apart, as integers and the scale that is returned: NaN, and integers of 0, where one is not finite. */
float i8_round_block(const float *x, int64_t step, int q[TYPE_BLOCK]);
/* The chain of one element of c: `blocks` blocks of a row, its elements `step` apart, times those of a column. */
float i8_chain(const float *row, int64_t step, enum heed_type type, const char *column, int64_t blocks);

#endif
