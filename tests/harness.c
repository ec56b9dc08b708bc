/* The test run: its seed, its size, the case under test; harness.h says what they are for. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "harness.h"

#include "cpu.h"

#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t test_seed(void) {
    static uint64_t seed;
    if (!seed) {
        const char *given = getenv("HEED_TEST_SEED");
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = given && *given ? strtoull(given, NULL, 0) : (uint64_t)now.tv_sec * 1000003 + (uint64_t)now.tv_nsec;
        seed += !seed;
    }
    return seed;
}

bool test_quick(void) {
    const char *quick = getenv("HEED_TEST_QUICK");
    return quick && *quick && strcmp(quick, "0") != 0;
}

int64_t test_count(int64_t full) { return test_quick() ? (full + 31) / 32 : full; }

int usable_tables(void) {
    int count = 0;
    while (heed_kernels_usable(count))
        count++;
    return count;
}

bool log_is_exact(const struct heed_kernels *table) {
    return strcmp(table->name, "scalar") != 0 || (heed_cpu_features() & (HEED_CPU_FMA | HEED_CPU_NEON));
}

static char described[512];

void describe(const char *kernel, const char *isa, const char *format, ...) {
    int used = snprintf(described, sizeof described, "%s, %s, ", kernel, isa);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(described + used, sizeof described - (size_t)used, format, arguments);
    va_end(arguments);
}

const char *compute_name(enum heed_compute compute) {
    static const char *const names[] = {[HEED_COMPUTE_F32] = "",
                                        [HEED_COMPUTE_BF16] = " in pairs",
                                        [HEED_COMPUTE_BF16_AMX] = " as AMX",
                                        [HEED_COMPUTE_I8] = " as i8"};
    return names[compute];
}

void must(const char *problem) {
    if (problem)
        ck_abort_msg("%s: %s\nreplay with HEED_TEST_SEED=%" PRIu64, described, problem, test_seed());
}

static void on_crash(int number) {
    static const char words[] = "\ncrashed in: ";
    /* a failing write changes nothing about what happens next */
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0 || write(STDERR_FILENO, described, strlen(described)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        signal(number, SIG_DFL);
    signal(number, SIG_DFL);
    raise(number);
}

void report_crashes(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], on_crash);
}

static uint64_t hash_name(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

struct rng rng_fixed(const char *name) {
    return rng_seeded(hash_name(name));
}

struct rng rng_for(const char *name, int64_t index) {
    return rng_seeded(hash_name(name) ^ (test_seed() * 0x2545f4914f6cdd1du) ^ ((uint64_t)index << 40));
}

enum placement any_placement(struct rng *rng) { return (enum placement)rng_range(rng, 0, PLACEMENTS - 1); }

const char *any_isa(struct rng *rng) { return heed_kernels_usable((int)rng_range(rng, 0, usable_tables() - 1))->name; }

int any_threads(struct rng *rng) {
    static const int threads[] = {1, 2, 3, 8};
    return threads[rng_range(rng, 0, 3)];
}
