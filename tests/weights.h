/* Random weights of the types that hold more than rounded floats: bytes with a scale for each column, and blocks. */
#ifndef HEED_TESTS_WEIGHTS_H
#define HEED_TESTS_WEIGHTS_H

#include "harness.h"

/* A type with blocks of which rows of n elements are made. */
enum heed_type any_blocks(struct rng *rng, int64_t n);
/* n of them, any bytes.  Scales of blocks are numbers of at most 1/8, or with any_scales, which may be NaN or infinite, any bits.
 */
char *new_weights(struct rng *rng, enum heed_type type, int64_t n, bool any_scales);
/* Of a block, and a quarter of it as what is subtracted where there is such; of K formats a part of it, for groups have more. */
void put_block_scales(char *block, enum heed_type type, float scale);
/* Where f16 has denormals flushed, as an emulator does, scales of K blocks that are denormal, one of 67, become the least that is
 * not: products that flush would have other bits. */
void keep_scales_normal(char *weights, enum heed_type type, int64_t n);
/* The same as floats, which hold them exactly; those of HEED_I8 without a scale. */
float *weights_as_floats(const char *weights, enum heed_type type, int64_t n);

#endif
