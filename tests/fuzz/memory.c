/* Memory of requests: exact allocations in which every byte has a role. */
#include "fuzz.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined HAS_ASAN
#include <sanitizer/asan_interface.h>

/* New memory is all NaN, so that what heed leaves unset shows; a size that cannot be had is heed's to report. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "max_malloc_fill_size=1073741824:malloc_fill_byte=255:allocator_may_return_null=1";
}

/* An OpenMP library keeps what it has allocated for its threads. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libomp\nleak:libgomp\n"; }
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/* Loops over all bytes, which checks of each would slow down tenfold. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory)
        fuzz_fail("no memory for %zu bytes", bytes);
    return memory;
}

UNCHECKED static void put_nans(uint8_t *data, size_t bytes) {
    const uint32_t poison = POISON;
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(poison >> (8 * (i % 4)));
}

void *memory_new(struct memory *memory, const char *name, int64_t count, size_t element, struct input *in) {
    struct block *block = &memory->blocks[memory->count++];
    const size_t offset = (size_t)take_range(in, 0, 15) * 4 / element * element, bytes = (size_t)count * element;
    *block = (struct block){.name = name, .bytes = bytes};
    block->base = allocate(offset + bytes);
    block->data = block->base + offset;
    block->role = allocate(bytes);
    block->before = allocate(bytes);
    memset(block->role, ROLE_NONE, bytes);
    put_nans(block->data, bytes);
    return block->data;
}

void memory_free(struct memory *memory) {
    for (int i = 0; i < memory->count; i++) {
        free(memory->blocks[i].base);
        free(memory->blocks[i].role);
        free(memory->blocks[i].before);
    }
    memory->count = 0;
}

/* The block that a pointer points into, else the one at whose end it is: blocks may lie side by side, without a byte between. */
static struct block *block_of(const struct memory *memory, const void *pointer) {
    const struct block *ends_there = NULL;
    for (int i = 0; i < memory->count; i++) {
        const struct block *block = &memory->blocks[i];
        const uintptr_t offset = (uintptr_t)pointer - (uintptr_t)block->data;
        if (offset < block->bytes)
            return (struct block *)block;
        if (offset == block->bytes)
            ends_there = block;
    }
    return (struct block *)ends_there;
}

size_t memory_room(const struct memory *memory, const void *pointer) {
    const struct block *block = block_of(memory, pointer);
    return block ? block->bytes - ((uintptr_t)pointer - (uintptr_t)block->data) : 0;
}

bool memory_has(const struct memory *memory, const void *array, __int128 bytes) {
    return !array || bytes <= (__int128)memory_room(memory, array);
}

int64_t stride_bytes(int64_t stride, int64_t count, size_t element) {
    const int64_t most = INT64_C(1) << 40;
    return count <= 1 ? 0 : max_i64(-most, min_i64(stride, most)) * (int64_t)element;
}

UNCHECKED static enum marked mark_row(struct block *block, int64_t offset, int64_t width, enum role role) {
    if (offset < 0 || width > (int64_t)block->bytes || offset > (int64_t)block->bytes - width)
        return MARKED_OUTSIDE;
    for (int64_t i = 0; i < width; i++) {
        uint8_t *old = &block->role[offset + i];
        if (*old == ROLE_DESCRIPTOR && role == ROLE_OUTPUT)
            return MARKED_OUTSIDE;
        if (*old == ROLE_OUTPUT || (*old == ROLE_INPUT && role == ROLE_OUTPUT))
            return MARKED_TWICE;
        *old = *old == ROLE_DESCRIPTOR ? ROLE_DESCRIPTOR : (uint8_t)role;
    }
    return MARKED;
}

enum marked memory_mark(struct memory *memory, const struct rows *rows, enum role role) {
    struct block *block = block_of(memory, rows->data);
    const int64_t most = 1 << 20;
    const int64_t *count = rows->count;
    if (count[0] == 0 || count[1] == 0 || count[2] == 0 || rows->width == 0)
        return MARKED;
    if (!block || count[0] > most || count[1] > most / count[0] || count[2] > most / (count[0] * count[1]))
        return MARKED_OUTSIDE;
    const int64_t start = (int64_t)((uintptr_t)rows->data - (uintptr_t)block->data);
    for (int64_t i = 0; i < count[0] * count[1] * count[2]; i++) {
        const int64_t at[] = {i / (count[1] * count[2]), i / count[2] % count[1], i % count[2]};
        __int128 offset = start;
        for (int dim = 0; dim < 3; dim++)
            offset += (__int128)at[dim] * rows->stride[dim];
        if (offset > (__int128)block->bytes)
            return MARKED_OUTSIDE;
        const enum marked marked = mark_row(block, (int64_t)offset, rows->width, role);
        if (marked != MARKED)
            return marked;
    }
    return MARKED;
}

void memory_unmark(struct memory *memory) {
    for (int i = 0; i < memory->count; i++)
        memset(memory->blocks[i].role, ROLE_NONE, memory->blocks[i].bytes);
}

/* Calls fn for each run of bytes of the block that have no role. */
UNCHECKED static void for_unused(const struct block *block, void (*fn)(uint8_t *data, size_t bytes)) {
    for (size_t i = 0, end; i < block->bytes; i = end) {
        for (end = i; end < block->bytes && block->role[end] == block->role[i];)
            end++;
        if (block->role[i] == ROLE_NONE)
            fn(block->data + i, end - i);
    }
}

void memory_scrub(struct memory *memory) {
    for (int i = 0; i < memory->count; i++)
        for_unused(&memory->blocks[i], put_nans);
}

static void poison(uint8_t *data, size_t bytes) {
    ASAN_POISON_MEMORY_REGION(data, bytes);
    (void)data;
    (void)bytes;
}

void memory_remember(struct memory *memory) {
    for (int i = 0; i < memory->count; i++)
        memcpy(memory->blocks[i].before, memory->blocks[i].data, memory->blocks[i].bytes);
}

void memory_begin_call(struct memory *memory) {
    memory_remember(memory);
    for (int i = 0; i < memory->count; i++) {
        const struct block *block = &memory->blocks[i];
        poison(block->base, (size_t)(block->data - block->base));
        for_unused(block, poison);
    }
}

UNCHECKED static void must_be_unchanged(const struct block *block, bool outputs_may_change) {
    for (size_t at = 0; at < block->bytes; at++)
        if (block->data[at] != block->before[at] && !(outputs_may_change && block->role[at] == ROLE_OUTPUT))
            fuzz_fail("byte %zu of %s has changed, %s", at, block->name,
                      block->role[at] == ROLE_OUTPUT ? "but the call was refused"
                      : block->role[at] == ROLE_NONE ? "it belongs to nothing"
                                                     : "it is an input");
}

void memory_end_call(struct memory *memory, bool outputs_may_change) {
    for (int i = 0; i < memory->count; i++) {
        const struct block *block = &memory->blocks[i];
        ASAN_UNPOISON_MEMORY_REGION(block->base, (size_t)(block->data - block->base) + block->bytes);
        if (memcmp(block->data, block->before, block->bytes) != 0)
            must_be_unchanged(block, outputs_may_change);
    }
}

void memory_restore(struct memory *memory) {
    for (int i = 0; i < memory->count; i++)
        memcpy(memory->blocks[i].data, memory->blocks[i].before, memory->blocks[i].bytes);
}

size_t memory_bytes(const struct memory *memory) {
    size_t bytes = 0;
    for (int i = 0; i < memory->count; i++)
        bytes += memory->blocks[i].bytes;
    return bytes;
}

void memory_copy(const struct memory *memory, uint8_t *image) {
    for (int i = 0; i < memory->count; image += memory->blocks[i++].bytes)
        memcpy(image, memory->blocks[i].data, memory->blocks[i].bytes);
}

void memory_must_equal(const struct memory *memory, const uint8_t *image, const char *which) {
    for (int i = 0; i < memory->count; image += memory->blocks[i++].bytes) {
        const struct block *block = &memory->blocks[i];
        size_t at = 0;
        if (memcmp(block->data, image, block->bytes) == 0)
            continue;
        while (block->data[at] == image[at])
            at++;
        float got, want;
        memcpy(&got, image + at / 4 * 4, sizeof got);
        memcpy(&want, block->data + at / 4 * 4, sizeof want);
        fuzz_fail("element %zu of %s is %.9g, but %s makes it %.9g", at / 4, block->name, (double)got, which, (double)want);
    }
}
