/* Text to the numbers of its pieces and back, by SentencePiece (Kudo and Richardson 2018), whose interface is C++. */
#ifndef HEED_EXAMPLES_PIECES_H
#define HEED_EXAMPLES_PIECES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* model: the content of a spiece.model.  NULL: it is none. */
struct pieces *pieces_open(const char *model, size_t bytes);
int64_t pieces_size(const struct pieces *pieces);
/* Of prefix and text, any bytes.  Returns how many pieces there are, their numbers in *ids, for free(); -1: out of memory. */
int64_t pieces_encode(const struct pieces *pieces, const char *prefix, const char *text, size_t bytes, int32_t **ids);
/* The text, for free(), NULL if out of memory.  Pieces that stand for no text, as the end of a sentence, leave nothing. */
char *pieces_decode(const struct pieces *pieces, const int32_t *ids, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
