/* Words of byte-level vocabularies, as the regular expressions of three families of models find them. */
#ifndef HEED_EXAMPLES_SPLIT_H
#define HEED_EXAMPLES_SPLIT_H

#include <stdint.h>

enum split { SPLIT_GPT2, SPLIT_LLAMA3, SPLIT_QWEN2, SPLITS };
extern const char *const split_expressions[SPLITS]; /* as tokenizer.json has them */

/* Bytes of the first word of a text, at least 1 of at least 1. */
int64_t split_next(const char *text, int64_t bytes, enum split split);

#endif
