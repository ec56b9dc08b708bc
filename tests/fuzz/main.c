/* A fuzzer without libFuzzer, fuzz_one being that of requests, or of readers (tests/readers): random inputs, the same on every
 * machine for a seed, or those in files.
 *
 *   PROGRAM [COUNT [FIRST]]   inputs number FIRST ... FIRST + COUNT - 1 of HEED_TEST_SEED, or of a new seed
 *   PROGRAM FILE...           what libFuzzer kept, say
 *   PROGRAM -o FOLDER         writes inputs there instead, for libFuzzer to begin with
 *
 * HEED_TEST_QUICK makes the default COUNT small; FUZZ_VERBOSE prints each request before it runs. */
#define _POSIX_C_SOURCE 200809L /* alarm */
#include "entry.h"
#include "harness.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    COUNT = 1500,
    QUICK_COUNT = 60,
    FOLDER_COUNT = 500,
    SECONDS = 60 /* an input that takes longer hangs */
};

static const char *program;
static char replay[1200]; /* how to see it again */

static void print_replay(void) {
    if (write(STDERR_FILENO, replay, strlen(replay)) < 0)
        _exit(EXIT_FAILURE);
}

static void on_signal(int number) {
    print_replay();
    signal(number, SIG_DFL);
    raise(number);
}

/* There where a sanitizer is, which ends the program itself and has handlers of its own. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void report_ends(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        void (*old)(int) = signal(signals[i], on_signal);
        if (old != SIG_DFL)
            signal(signals[i], old);
    }
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(print_replay);
}

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

static size_t random_input(uint64_t seed, int64_t index, uint8_t bytes[FUZZ_MOST_BYTES]) {
    struct rng rng = rng_seeded(seed + (uint64_t)index * 0x9e3779b97f4a7c15u);
    return fuzz_draw(&rng, bytes);
}

static void run_random(uint64_t seed, int64_t count, int64_t first) {
    uint8_t bytes[FUZZ_MOST_BYTES];
    for (int64_t i = first; i < first + count; i++) {
        const size_t size = random_input(seed, i, bytes);
        snprintf(replay, sizeof replay, "replay with HEED_TEST_SEED=%" PRIu64 " %.1000s 1 %" PRId64 "\n", seed, program, i);
        alarm(SECONDS);
        fuzz_one(bytes, size);
    }
    alarm(0);
    printf("%s: %" PRId64 " inputs are fine, seed %" PRIu64 "\n", program, count, seed);
}

static int complain(const char *name) {
    perror(name);
    return EXIT_FAILURE;
}

static int write_inputs(const char *folder) {
    uint8_t bytes[FUZZ_MOST_BYTES];
    for (int64_t i = 0; i < FOLDER_COUNT; i++) {
        char name[1024];
        const size_t size = random_input(0, i, bytes);
        snprintf(name, sizeof name, "%s/random-%" PRId64, folder, i);
        FILE *file = fopen(name, "wb");
        if (!file || fwrite(bytes, 1, size, file) != size || fclose(file))
            return complain(name);
    }
    return EXIT_SUCCESS;
}

static int run_file(const char *name) {
    static uint8_t bytes[1 << 16];
    FILE *file = fopen(name, "rb");
    if (!file)
        return complain(name);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    snprintf(replay, sizeof replay, "in %.120s\n", name);
    alarm(SECONDS);
    fuzz_one(bytes, size);
    printf("%s: fine\n", name);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    const char *given = getenv("HEED_TEST_SEED");
    const uint64_t seed = given && *given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    program = strrchr(*argv, '/') ? strrchr(*argv, '/') + 1 : *argv;
    report_ends();
    if (argc > 2 && strcmp(argv[1], "-o") == 0)
        return write_inputs(argv[2]);
    if (argc > 1 && strspn(argv[1], "0123456789") < strlen(argv[1])) {
        int status = EXIT_SUCCESS;
        for (int i = 1; i < argc; i++)
            status |= run_file(argv[i]);
        return status;
    }
    const int64_t count = is_set("HEED_TEST_QUICK") ? QUICK_COUNT : COUNT;
    run_random(seed, argc > 1 ? strtoll(argv[1], NULL, 10) : count, argc > 2 ? strtoll(argv[2], NULL, 10) : 0);
    return EXIT_SUCCESS;
}
