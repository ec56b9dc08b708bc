/* See lines.h. */
#define _POSIX_C_SOURCE 200809L

#include "lines.h"
#include "../checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *next_line(int64_t *bytes) {
    static char *line;
    static size_t room;
    *bytes = getline(&line, &room, stdin);
    if (ferror(stdin))
        fail("standard input: %s", strerror(errno));
    if (*bytes < 0)
        return NULL;
    *bytes -= *bytes > 0 && line[*bytes - 1] == '\n';
    line[*bytes] = 0;
    return line;
}

void *grow(void *list, int64_t count, size_t size) {
    if ((count & (count - 1)) == 0)
        list = realloc(list, (size_t)(count ? 2 * count : 1) * size);
    if (!list)
        fail("out of memory for line %" PRId64, count + 1);
    return list;
}

/* stream: to memory; NULL: nothing has been written to it. */
struct text_kept {
    FILE *stream;
    char *data;
    size_t bytes;
    bool ended;
};

/* Text i has place i % most. */
struct texts {
    int64_t most, turn; /* turn: the one that goes to standard output */
    struct text_kept *kept;
};

struct texts *texts_open(int64_t most) {
    struct texts *texts = allocate(1, sizeof *texts);
    *texts = (struct texts){.most = most, .kept = allocate(most, sizeof *texts->kept)};
    for (int64_t i = 0; i < most; i++)
        texts->kept[i] = (struct text_kept){.stream = NULL};
    return texts;
}

FILE *texts_stream(struct texts *texts, int64_t i) {
    struct text_kept *kept = &texts->kept[i % texts->most];
    if (i == texts->turn)
        return stdout;
    if (!kept->stream)
        kept->stream = open_memstream(&kept->data, &kept->bytes);
    if (!kept->stream)
        fail("out of memory for the text of line %" PRId64, i + 1);
    return kept->stream;
}

/* What there is of a text, and where the rest goes. */
static void take_turn(struct text_kept *kept) {
    if (!kept->stream)
        return;
    if (fclose(kept->stream) != 0)
        fail("out of memory for a text of %zu bytes", kept->bytes);
    fwrite(kept->data, 1, kept->bytes, stdout);
    free(kept->data);
    kept->stream = NULL;
}

void texts_end(struct texts *texts, int64_t i) {
    texts->kept[i % texts->most].ended = true;
    for (struct text_kept *first; (first = &texts->kept[texts->turn % texts->most])->ended;) {
        first->ended = false;
        take_turn(&texts->kept[++texts->turn % texts->most]);
    }
    fflush(stdout);
}

void print_numbers(FILE *stream, const float *numbers, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        fprintf(stream, "%.9g%c", (double)numbers[i], i + 1 < count ? ' ' : '\n');
}

void print_ids(FILE *stream, const int32_t *ids, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        fprintf(stream, "%" PRId32 "%c", ids[i], i + 1 < count ? ' ' : '\n');
}

void end_output(void) {
    if (fflush(stdout) != 0 || ferror(stdout))
        fail("standard output: %s", strerror(errno));
}
