/* What libFuzzer, or main.c in its place, needs of a fuzzer. */
#ifndef HEED_TESTS_FUZZ_ENTRY_H
#define HEED_TESTS_FUZZ_ENTRY_H

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_MOST_BYTES = 8192 }; /* of an input */
struct rng;                      /* harness.h */

/* Ends the program if something is wrong. */
void fuzz_one(const uint8_t *data, size_t size);
/* A random input, for where there is no libFuzzer; returns its bytes. */
size_t fuzz_draw(struct rng *rng, uint8_t bytes[FUZZ_MOST_BYTES]);

#endif
