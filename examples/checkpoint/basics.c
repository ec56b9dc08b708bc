/* What all of the examples stand on: messages, memory, files.  A file of its own, so that a test can have others in their place.
 * See checkpoint.h. */
#define _DEFAULT_SOURCE

#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

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

/* What is no regular file may keep us waiting, or never end. */
int file_open(const char *path, int64_t *bytes) {
    struct stat status;
    const int file = open(path, O_RDONLY | O_NONBLOCK);
    if (file < 0 && errno == ENOENT)
        return -1;
    if (file < 0 || fstat(file, &status) != 0)
        fail("%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        fail("%s: is not a file", path);
    *bytes = status.st_size;
    return file;
}

char *file_read(const char *path, size_t *bytes) {
    int64_t most;
    const int opened = file_open(path, &most);
    if (opened < 0)
        return NULL;
    FILE *file = fdopen(opened, "rb");
    char *text = allocate(most + 1, 1);
    *bytes = file ? fread(text, 1, (size_t)most, file) : 0;
    if (!file || ferror(file))
        fail("%s: %s", path, strerror(errno));
    fclose(file);
    text[*bytes] = 0;
    return text;
}
