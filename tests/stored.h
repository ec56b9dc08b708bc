/* What the types store of a float, by their definitions: for tests, the fuzzer and the table of accuracy. */
#ifndef HEED_TESTS_STORED_H
#define HEED_TESTS_STORED_H

#include "heed.h"

#include <stdint.h>

/* The bf16 or f16 that is nearest, and as a float again. */
uint16_t half_of(enum heed_type type, float x);
float float_of_half(enum heed_type type, uint16_t x);
/* Floats become those that the type holds. */
void round_floats(enum heed_type type, float *x, int64_t n);
/* What integers that stand for n floats are multiplied by. */
float scale_of_bytes(const float *x, int64_t n);
/* Rows become what HEED_I8 holds exactly: integers times a scale of few bits, which the definition finds again. */
void round_to_bytes(float *x, int64_t rows, int64_t width);

#endif
