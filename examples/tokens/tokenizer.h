/* Text to tokens. */
#ifndef HEED_EXAMPLES_TOKENIZER_H
#define HEED_EXAMPLES_TOKENIZER_H

#include "vocabulary.h"

/* Writes the tokens of a text, 2 * bytes + MOST_FIRST + 1 at most, and returns how many there are. */
int64_t tokenizer_encode(const struct vocabulary *vocabulary, const char *text, int64_t bytes, int32_t *tokens);

#endif
