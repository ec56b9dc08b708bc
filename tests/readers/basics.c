/* What readers stand on, for a test that reads many files in one process: what is wrong does not end it, memory has a bound and is
 * given back, and files are not on a disk.  See readers.h. */
#define _POSIX_C_SOURCE 200809L /* posix_memalign */
#include "readers.h"
#include "../../examples/checkpoint/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, MOST_FILES = 4 };
static const size_t most_memory = (size_t)4 << 20;

/* Before the memory that is handed out. */
struct block {
    struct block *before, *after;
    size_t bytes;
};

static struct block blocks = {&blocks, &blocks, 0};
static size_t memory;
static jmp_buf refused;
static char words[1 << 14];
static struct {
    const char *ending, *text;
    size_t bytes;
} files[MOST_FILES];

const char *program_name = "readers";

/* NULL: there is no more.  Nothing lies behind the last byte. */
static void *take_memory(size_t bytes) {
    void *start;
    if (bytes > most_memory - memory || posix_memalign(&start, LINE, LINE + bytes) != 0)
        return NULL;
    struct block *block = start;
    *block = (struct block){&blocks, blocks.after, bytes};
    block->after->before = blocks.after = block;
    memory += bytes;
    return (char *)start + LINE;
}

void release(void *data) {
    if (!data)
        return;
    struct block *block = (struct block *)((char *)data - LINE);
    block->before->after = block->after;
    block->after->before = block->before;
    memory -= block->bytes;
    free(block);
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    longjmp(refused, 1);
}

void *allocate(int64_t count, size_t size) {
    void *data = count >= 0 && (uint64_t)count <= SIZE_MAX / size ? take_memory((size_t)count * size) : NULL;
    if (!data)
        fail("out of memory");
    memset(data, 0xa5, (size_t)count * size); /* what is not written must not be read as if it were */
    return data;
}

void *renew(void *data, int64_t count, size_t size) {
    release(data);
    return allocate(count, size);
}

void file_is(const char *ending, const char *text, size_t bytes) {
    int i = 0;
    while (files[i].ending && strcmp(files[i].ending, ending) != 0)
        i++;
    files[i].ending = ending;
    files[i].text = text;
    files[i].bytes = bytes;
}

int file_open(const char *path, int64_t *bytes) {
    *bytes = 0;
    fail("%s: no such file", path);
}

char *file_read(const char *path, size_t *bytes) {
    for (int i = 0; i < MOST_FILES && files[i].ending; i++) {
        const size_t length = strlen(path), ending = strlen(files[i].ending);
        if (length < ending || strcmp(path + length - ending, files[i].ending) != 0 || !files[i].text)
            continue;
        char *text = allocate((int64_t)files[i].bytes + 1, 1);
        memcpy(text, files[i].text, files[i].bytes);
        text[ *bytes = files[i].bytes] = 0;
        return text;
    }
    return NULL;
}

bool attempt(void (*read)(void *context), void *context) {
    json_set_alloc_funcs(take_memory, release);
    *words = 0;
    if (setjmp(refused) == 0)
        read(context);
    while (blocks.after != &blocks)
        release((char *)blocks.after + LINE);
    return *words == 0;
}

const char *attempt_words(void) { return words; }
