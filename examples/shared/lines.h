/* Lines of standard input, and texts in their order on standard output. */
#ifndef HEED_EXAMPLES_LINES_H
#define HEED_EXAMPLES_LINES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The next line, without its end, until the next call; NULL: there is none. */
const char *next_line(int64_t *bytes);
/* A list of `count` elements with room for one more: asks for memory whenever count is a power of 2. */
void *grow(void *list, int64_t count, size_t size);

/* Texts that are written many at a time, and come out one after another, each as soon as those before it have ended. */
struct texts *texts_open(int64_t most);
/* Where text number i, from 0, is written to; i is less than `most` more than the number of those that have come out. */
FILE *texts_stream(struct texts *texts, int64_t i);
void texts_end(struct texts *texts, int64_t i);

/* With blanks between, and a newline after the last. */
void print_numbers(FILE *stream, const float *numbers, int64_t count);
void print_ids(FILE *stream, const int32_t *ids, int64_t count);
/* What could not be written ends the program with an error. */
void end_output(void);

#endif
