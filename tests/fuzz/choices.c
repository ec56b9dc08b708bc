/* From bytes to choices: numbers, values, and how to run a call. */
#include "fuzz.h"

#include <fenv.h>
#include <pthread.h>
#include <string.h>

uint64_t take(struct input *in, int bytes) {
    uint64_t x = 0;
    for (int i = 0; i < bytes && in->at < in->size; i++)
        x |= (uint64_t)in->data[in->at++] << (8 * i);
    return x;
}

int64_t take_range(struct input *in, int64_t low, int64_t high) {
    const uint64_t choices = (uint64_t)(high - low) + 1;
    return low + (int64_t)(take(in, choices <= 256 ? 1 : choices <= 65536 ? 2 : 8) % choices);
}

bool take_chance(struct input *in, int one_in) { return take(in, 1) % (uint64_t)one_in == (uint64_t)one_in - 1; }

int64_t take_of(struct input *in, const int64_t *list, int count) { return list[take_range(in, 0, count - 1)]; }

int64_t take_hostile(struct input *in) {
    static const int64_t roots[] = {0,
                                    1,
                                    -1,
                                    256,
                                    INT32_MAX,
                                    INT64_C(1) << 32,
                                    INT64_C(1) << 48,
                                    INT64_C(1) << 57,
                                    INT64_MAX / 256,
                                    INT64_MAX / 8,
                                    INT64_MAX / 2,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MIN / 4};
    if (take_chance(in, 3))
        return (int64_t)take(in, 8);
    const uint64_t root = (uint64_t)take_of(in, roots, sizeof roots / sizeof *roots);
    return (int64_t)(root + (uint64_t)take_range(in, 0, 4) - 2 * (uint64_t)take_range(in, 0, 1));
}

enum fill take_fill(struct input *in, bool finite) {
    if (!take_chance(in, 4))
        return FILL_NORMAL;
    return (enum fill)take_range(in, 0, (finite ? FILL_FINITE_COUNT : FILL_COUNT) - 1);
}

/* --- Pools --- */

struct job {
    pthread_t thread;
    void (*task)(void *, int);
    void *context;
    int index;
};

/* fegetround tells the mode of x87, which heed does not use. */
int rounding_mode(void) {
    volatile float one = 1.0f, little = 0x1p-30f, above = one + little, below = -one - little, nearer = one - little;
    return above > one ? FE_UPWARD : below < -one ? FE_DOWNWARD : nearer < one ? FE_TOWARDZERO : FE_TONEAREST;
}

/* With the floating-point environment of somebody else's thread, who wants it back. */
static void run_task(void (*task)(void *, int), void *context, int index) {
    fenv_t callers;
    fegetenv(&callers);
    fesetround(FE_UPWARD);
    const int before = rounding_mode();
    task(context, index);
    if (rounding_mode() != before)
        fuzz_fail("a task has changed the rounding mode");
    fesetenv(&callers);
}

static void *run_job(void *argument) {
    const struct job *job = argument;
    run_task(job->task, job->context, job->index);
    return NULL;
}

/* The pool is the number of threads that it says it has. */
static int pool_size(void *pool) { return *(const int *)pool; }

static void run_in_threads(void *pool, int count, void (*task)(void *, int), void *context) {
    enum { MOST = 16 };
    struct job jobs[MOST];
    (void)pool;
    if (count > MOST)
        fuzz_fail("the pool of %d is asked for %d workers", pool_size(pool), count);
    for (int i = 0; i < count; i++) {
        jobs[i] = (struct job){.task = task, .context = context, .index = i};
        if (pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]))
            fuzz_fail("no thread");
    }
    for (int i = 0; i < count; i++)
        pthread_join(jobs[i].thread, NULL);
}

/* As legal as any order: one after another, the last one first. */
static void run_backwards(void *pool, int count, void (*task)(void *, int), void *context) {
    (void)pool;
    for (int i = count - 1; i >= 0; i--)
        run_task(task, context, i);
}

/* --- How --- */

static bool never(void *context) {
    (void)context;
    return false;
}

static bool after_questions(void *context) { return __atomic_sub_fetch((int64_t *)context, 1, __ATOMIC_RELAXED) < 0; }

static void take_threads(struct input *in, struct heed_exec *exec) {
    static int sizes[] = {4, 1, 2, 3, 16, 0, -1};
    const int64_t kind = take_range(in, 0, 3);
    exec->threads = (int)TAKE_OF(in, 0, 1, 2, 3, 4, 7);
    if (kind < 2)
        return;
    exec->pool = &sizes[take_range(in, 0, 6)];
    exec->num_threads = pool_size;
    exec->run = kind == 2 ? run_in_threads : run_backwards;
}

void take_how(struct input *in, struct how *how) {
    const int isa = (int)take_range(in, 0, 7) - 1;
    *how = (struct how){.rounding = FE_TONEAREST};
    if (isa >= 0 && heed_kernels_usable(isa))
        how->exec.isa = heed_kernels_usable(isa)->name;
    take_threads(in, &how->exec);
    how->planned = take_chance(in, 3);
    how->early = take_chance(in, 2);
    if (take_chance(in, 8))
        how->rounding = (int)TAKE_OF(in, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO);
    const int64_t cancel = take_range(in, 0, 15);
    if (cancel < 14)
        return;
    how->questions = take_range(in, 0, 255);
    how->exec.cancelled = cancel == 14 ? never : after_questions;
    how->exec.cancel_context = &how->questions;
}

void make_hostile_exec(struct input *in, struct heed_exec *exec) {
    static const char *const names[] = {"", "avx", "scalar ", "AVX2", "neon", "avx512", "0123456789012345678901234567890123456789"};
    switch (take_range(in, 0, 7)) {
    case 1:
        exec->threads = (int)take_hostile(in);
        break;
    case 2:
        exec->isa = names[take_range(in, 0, 6)];
        break;
    case 3:
        exec->run = run_backwards;
        exec->num_threads = NULL;
        break;
    default:
        break;
    }
}

/* Near the beginning of any block. */
static uint64_t take_pointer(struct input *in, const struct memory *memory) {
    const struct block *block = &memory->blocks[take_range(in, 0, memory->count - 1)];
    return (uint64_t)(uintptr_t)block->data + 4 * (uint64_t)take_range(in, 0, 20) - 8;
}

void overwrite(struct input *in, const struct memory *memory, void *object, size_t bytes) {
    const int64_t slots = (int64_t)(bytes / sizeof(uint64_t));
    uint64_t *slot = (uint64_t *)object + take_range(in, 0, slots - 1);
    const int64_t kind = take_range(in, 0, 5);
    /* The next pointer, or the next number in use. */
    for (int64_t i = 0; kind >= 3 && i < slots && (kind >= 4 ? !memory_room(memory, (const void *)(uintptr_t)*slot) : !*slot); i++)
        slot = slot + 1 < (uint64_t *)object + slots ? slot + 1 : object;
    switch (kind) {
    case 0:
        *slot = (uint64_t)take_hostile(in);
        break;
    case 1:
        memcpy(slot, (const uint64_t *)object + take_range(in, 0, slots - 1), sizeof *slot);
        break;
    case 2:
        *slot = 0;
        break;
    case 3:
        *slot += (uint64_t)take_range(in, 0, 16) - 8;
        break;
    case 4:
        *slot += 4 * (uint64_t)take_range(in, 0, 16) - 32;
        break;
    default:
        *slot = take_pointer(in, memory);
    }
}

void make_bool(bool *x) {
    uint8_t byte;
    memcpy(&byte, x, 1);
    *x = byte & 1;
}
