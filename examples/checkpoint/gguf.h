/* The metadata of a GGUF file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), in the manner of settings_*: a field
 * that is not there has the value `otherwise`; one of another type or size ends the program, with its name. */
#ifndef HEED_EXAMPLES_GGUF_H
#define HEED_EXAMPLES_GGUF_H

#include "checkpoint.h"

bool gguf_has_field(const struct checkpoint *checkpoint, const char *field);
int64_t gguf_integer(const struct checkpoint *checkpoint, const char *field, int64_t least, int64_t most, int64_t otherwise);
double gguf_number(const struct checkpoint *checkpoint, const char *field, double least, double most, double otherwise);
bool gguf_flag(const struct checkpoint *checkpoint, const char *field, bool otherwise);

/* Bytes of the file, without a 0 after them. */
struct text {
    const char *data;
    int64_t bytes;
};
bool text_is(struct text text, const char *word);
int text_shown(struct text text); /* bytes of it that a message repeats: "%.*s" */
struct text gguf_text(const struct checkpoint *checkpoint, const char *field, const char *otherwise);
/* Arrays, copied; NULL and a count of 0 if there is none. */
struct text *gguf_texts(const struct checkpoint *checkpoint, const char *field, int64_t *count);
float *gguf_floats(const struct checkpoint *checkpoint, const char *field, int64_t *count);

#endif
