/* The units of error that bounds are made of, for tests and the fuzzer; harness_bounds.h says how. */
#ifndef HEED_TESTS_ROUNDINGS_H
#define HEED_TESTS_ROUNDINGS_H

#include "heed.h"
#include "internal.h"

#define U    0x1p-24
#define TINY 0x1p-149
/* HEED_COMPUTE_BF16 rounds factors to 8 bits, each by B of them at most, and what is below 2^-126 becomes 0, scales of integers
 * too. */
#define B         0x1p-8
#define TINY_BF16 0x1p-118
/* exp2 is 0 below -126, so a weight is off by up to 2^-126, in units of the largest one; with room for the factors that come after.
 */
#define FLUSH 0x1p-124
#define LOG2E 1.4426950408889634

/* Whether factors are rounded to bf16, and small numbers to 0. */
INLINE bool rounds_to_bf16(enum heed_compute compute) { return compute == HEED_COMPUTE_BF16 || compute == HEED_COMPUTE_BF16_AMX; }

/* HEED_COMPUTE_I8: how far a number may be from what it is as one of TYPE_BLOCK bytes of one scale, `most` being the largest of
 * their sizes: half a scale, which is rounded, and two roundings of the number times its inverse, 2 u of most, which is 508 u of
 * most / 254. */
INLINE double byte_error(double most) { return (most / 254 + 0x1p-127) * (1 + 0x1p-14); }

/* By comparison, for gcc 12 for AArch64 breaks down on a loop of fmax. */
INLINE double larger_of(double a, double b) { return a > b ? a : b; }

INLINE double gamma_of(int64_t n) { return (double)n * U / (1 - (double)n * U); }

#endif
