/* What all of the examples stand on: messages, memory, files.  A file of its own, so that a test can have others in their place.
 * See checkpoint.h. */
#define _DEFAULT_SOURCE

#include "checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char *program_name = "example";

/* Names out of files may have what moves the cursor of a terminal, or ends the line. */
void fail(const char *format, ...) {
    char message[1 << 14];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    for (char *at = message; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", program_name, message);
    exit(EXIT_FAILURE);
}

/* Large memory is asked for in huge pages: the first touch of small ones is a third of the time in which weights are read. */
void *allocate(int64_t count, size_t size) {
    const size_t line = 64, huge = (size_t)1 << 21;
    void *memory = NULL;
    if (count >= 0 && (uint64_t)count <= (SIZE_MAX - huge) / size) {
        const size_t bytes = (size_t)count * size, whole = bytes / huge * huge;
        if (posix_memalign(&memory, whole > 0 ? huge : line, (bytes / line + 1) * line) != 0)
            memory = NULL;
        if (memory && whole > 0)
            madvise(memory, whole, MADV_HUGEPAGE);
    }
    if (!memory)
        fail("out of memory for %" PRId64 " elements of %zu bytes", count, size);
    return memory;
}

void release(void *memory) { free(memory); }

void *renew(void *memory, int64_t count, size_t size) {
    release(memory);
    return allocate(count, size);
}

char *file_read(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file && errno == ENOENT)
        return NULL;
    char *text = NULL;
    size_t room = 1 << 16, used = 0;
    while (file && !ferror(file) && !feof(file)) {
        if (!text || used + 1 == room)
            text = realloc(text, room *= 2);
        if (!text)
            fail("%s: out of memory", path);
        used += fread(text + used, 1, room - used - 1, file);
    }
    if (!file || ferror(file))
        fail("%s: %s", path, strerror(errno));
    fclose(file);
    text[used] = 0;
    *bytes = used;
    return text;
}
