/* The tokenizer of BERT (Devlin et al. 2019) for vocab.txt, token for token that of Hugging Face: see wordpiece.c. */
#ifndef HEED_EXAMPLES_WORDPIECE_H
#define HEED_EXAMPLES_WORDPIECE_H

#include <stddef.h>
#include <stdint.h>

struct wordpiece *wordpiece_open(const char *folder);
/* Tokens in vocab.txt; the longest text that it wants to have cut, in tokens, INT32_MAX if the folder says nothing of it. */
int64_t wordpiece_size(const struct wordpiece *wordpiece);
int64_t wordpiece_most_tokens(const struct wordpiece *wordpiece);
/* Writes [CLS], the tokens of the text, and [SEP]: at most `most` in all, at least 2, the text being cut at its end.  Returns how
 * many.  Bytes that are no UTF-8 count as nothing. */
int64_t wordpiece_encode(struct wordpiece *wordpiece, const char *text, size_t bytes, int64_t most, int32_t *tokens);

#endif
