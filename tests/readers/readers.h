/* A fuzzer of what reads checkpoints in examples/: bytes are a file, which is read, or refused in words.  basics.c stands in for
 * that of examples/checkpoint, seeds.c makes files that are whole, and readers.c has fuzz_one. */
#ifndef HEED_TESTS_READERS_H
#define HEED_TESTS_READERS_H

#include "../fuzz/entry.h"

#include <stdbool.h>

/* Runs read(context) until it ends or what it reads is refused; false: refused.  All memory is given back. */
bool attempt(void (*read)(void *context), void *context);
const char *attempt_words(void); /* in which the last one was refused */
/* What a file with that ending is: nothing, if text is NULL. */
void file_is(const char *ending, const char *text, size_t bytes);

struct seed {
    uint8_t data[FUZZ_MOST_BYTES];
    size_t size;
};
enum { SEEDS = 6 };
const struct seed *seed_number(int i);

#endif
