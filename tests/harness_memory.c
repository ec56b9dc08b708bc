/* Guarded memory: inaccessible pages catch stray accesses outside a tensor, poison catches those inside its pages. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "harness.h"

#include "cpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *or_die(void *memory) {
    if (!memory) {
        perror("test memory");
        abort();
    }
    return memory;
}

float *new_floats(int64_t n) { return or_die(malloc((size_t)(n + 1) * sizeof(float))); }

double *new_doubles(int64_t n) { return or_die(malloc((size_t)(n + 1) * sizeof(double))); }

float *new_filled(struct rng *rng, enum fill mode, int64_t n) {
    float *x = new_floats(n);
    fill(rng, mode, x, n);
    return x;
}

static void poison(float *x) {
    const uint32_t bits = POISON;
    memcpy(x, &bits, sizeof bits);
}

static bool is_poison(const float *x) {
    const uint32_t bits = POISON;
    return memcmp(x, &bits, sizeof bits) == 0;
}

#ifdef __x86_64__
#include <immintrin.h>

static void leave(int number) { _exit(number); }

__attribute__((target("avx2"))) static bool masked_load_faults(const float *last) {
    const __m256i first_lane = _mm256_setr_epi32(-1, 0, 0, 0, 0, 0, 0, 0);
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
        signal(SIGSEGV, leave);
        volatile float lane = _mm256_cvtss_f32(_mm256_maskload_ps(last, first_lane));
        (void)lane;
        _exit(0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

bool masked_loads_are_exact(void) {
    static int known = -1;
    if (known < 0 && heed_cpu_features() & HEED_CPU_AVX2) {
        known = 1; /* for buffer_new */
        struct buffer buffer = buffer_new(1, AT_END);
        known = !masked_load_faults(buffer.data);
        buffer_free(&buffer);
    }
    return known != 0;
}
#else
bool masked_loads_are_exact(void) { return true; }
#endif

size_t guard_delay(void) { return masked_loads_are_exact() ? 0 : HEED_PANEL * sizeof(float); }

static float *first_float(const struct buffer *buffer) { return (float *)(void *)(buffer->pages + sysconf(_SC_PAGESIZE)); }

struct buffer buffer_new(int64_t count, enum placement placement) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)count * sizeof(float);
    const size_t late = guard_delay();
    struct buffer buffer = {.count = count, .page_bytes = (bytes + late + page) / page * page};
    buffer.pages = mmap(NULL, buffer.page_bytes + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer.pages == MAP_FAILED || mprotect(buffer.pages, page, PROT_NONE) ||
        mprotect(buffer.pages + page + buffer.page_bytes, page, PROT_NONE))
        or_die(NULL);
    float *start = first_float(&buffer);
    for (size_t i = 0; i < buffer.page_bytes / sizeof(float); i++)
        poison(start + i);
    buffer.data = placement == AT_START ? start : start + (buffer.page_bytes - bytes - late) / sizeof(float);
    return buffer;
}

void buffer_free(struct buffer *buffer) {
    if (buffer->pages)
        munmap(buffer->pages, buffer->page_bytes + 2 * (size_t)sysconf(_SC_PAGESIZE));
    *buffer = (struct buffer){0};
}

uint64_t hash_floats(const float *x, int64_t n) {
    uint64_t hash = 0x243f6a8885a308d3u;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static uint64_t hash_pages(const struct buffer *buffer) {
    return hash_floats(first_float(buffer), (int64_t)(buffer->page_bytes / sizeof(float)));
}

static struct tensor tensor_strided(const int64_t size[4], const int64_t stride[3], enum placement placement) {
    struct tensor tensor = {.stride = {stride[0], stride[1], stride[2]}};
    int64_t extent = size[3];
    memcpy(tensor.size, size, sizeof tensor.size);
    for (int i = 0; i < 3; i++)
        extent += (size[i] - 1) * stride[i];
    bool empty = !size[0] || !size[1] || !size[2] || !size[3];
    tensor.memory = buffer_new(empty ? 0 : extent, placement);
    tensor.data = tensor.memory.data;
    return tensor;
}

static struct tensor tensor_new(const int64_t size[4], enum layout layout, enum placement placement) {
    bool gaps = layout == LAYOUT_BHSD_GAPS || layout == LAYOUT_BSHD_GAPS;
    int64_t width = size[3] + (gaps ? 3 : 0), between = gaps ? 5 : 0;
    if (layout == LAYOUT_BHSD || layout == LAYOUT_BHSD_GAPS) {
        int64_t head = size[2] * width + between;
        return tensor_strided(size, (int64_t[]){size[1] * head + between, head, width}, placement);
    }
    int64_t token = size[1] * width + between;
    return tensor_strided(size, (int64_t[]){size[2] * token + between, width, token}, placement);
}

/* Calls visit for each row of the tensor with its address and number. */
static void each_row(const struct tensor *t, void (*visit)(float *row, int64_t columns, float *values), float *values) {
    for (int64_t b = 0; b < t->size[0]; b++)
        for (int64_t h = 0; h < t->size[1]; h++)
            for (int64_t i = 0; i < t->size[2]; i++, values += t->size[3])
                visit(t->data + b * t->stride[0] + h * t->stride[1] + i * t->stride[2], t->size[3], values);
}

static void put_row(float *row, int64_t columns, float *values) { memcpy(row, values, (size_t)columns * sizeof *row); }

static void take_row(float *row, int64_t columns, float *values) {
    memcpy(values, row, (size_t)columns * sizeof *row);
    for (int64_t j = 0; j < columns; j++)
        poison(row + j);
}

void tensor_put(struct tensor *tensor, const float *values) {
    each_row(tensor, put_row, (float *)(uintptr_t)values);
    tensor->hash = hash_pages(&tensor->memory);
}

struct tensor tensor_input(const int64_t size[4], enum layout layout, enum placement placement, const float *values) {
    struct tensor tensor = tensor_new(size, layout, placement);
    tensor_put(&tensor, values);
    return tensor;
}

struct tensor tensor_output(const int64_t size[4], enum layout layout, enum placement placement) {
    struct tensor tensor = tensor_new(size, layout, placement);
    tensor.hash = hash_pages(&tensor.memory);
    return tensor;
}

struct tensor matrix(int64_t rows, int64_t columns, int64_t ld, enum placement placement, const float *values) {
    struct tensor tensor = tensor_strided((int64_t[]){1, 1, rows, columns}, (int64_t[]){0, 0, ld}, placement);
    if (values)
        each_row(&tensor, put_row, (float *)(uintptr_t)values);
    tensor.hash = hash_pages(&tensor.memory);
    return tensor;
}

static const char *find_stray_write(const struct tensor *tensor) {
    static char text[128];
    const float *start = first_float(&tensor->memory);
    for (size_t i = 0; i < tensor->memory.page_bytes / sizeof(float); i++) {
        if (!is_poison(start + i)) {
            int64_t at = start + i - tensor->data;
            const char *where = at < 0 ? "before" : at >= tensor->memory.count ? "after" : "in a gap of";
            snprintf(text, sizeof text, "wrote %s the output, %lld floats from its start", where, (long long)at);
            return text;
        }
    }
    return NULL;
}

const char *tensor_take(struct tensor *tensor, float *values) {
    static char text[128];
    int64_t n = tensor->size[0] * tensor->size[1] * tensor->size[2] * tensor->size[3];
    each_row(tensor, take_row, values);
    const char *problem = find_stray_write(tensor);
    for (int64_t i = 0; i < n && !problem; i++) {
        if (is_poison(values + i)) {
            snprintf(text, sizeof text, "element %lld of %lld was not written", (long long)i, (long long)n);
            problem = text;
        }
    }
    return problem;
}

const char *tensor_unchanged(const struct tensor *tensor) {
    return hash_pages(&tensor->memory) == tensor->hash ? NULL : "memory was written to that must not change";
}

void tensor_free(struct tensor *tensor) { buffer_free(&tensor->memory); }
