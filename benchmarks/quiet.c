/* See quiet.h.  Threads are OpenMP's, as heed's own are: others would find the cores taken by those that wait for their work. */
#include "quiet.h"

#include "config.h"

#include <math.h>
#include <stdint.h>
#include <time.h>

#define TWICE(x)      x x
#define SIXTY_FOUR(x) TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(x))))))

enum {
    IDLE_ROUNDS = 400, /* some 2 us each */
    CHAIN_ROUNDS = 80,
    RUNS = 3,
    FIRST_PROBES = 1000,
    BINS = 32, /* for each instruction a cycle */
    MOST_SLOTS = 32,
    RARE = 200 /* what is seen less often than once in so many is an error of the clock */
};

static const double own_share = 0.95;

static int64_t nanoseconds(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int64_t run_idle(void) {
    const int64_t start = nanoseconds();
    for (int i = 0; i < IDLE_ROUNDS; i++)
        __asm__ volatile(SIXTY_FOUR("nop\n\t"));
    return nanoseconds() - start;
}

/* One after the other, a cycle each; additions of a constant some processors do before they begin. */
static int64_t run_chain(void) {
    const int64_t start = nanoseconds();
    uint64_t x = 1, y = 3;
    for (int i = 0; i < CHAIN_ROUNDS; i++) {
        SIXTY_FOUR(x ^= y; __asm__ volatile("" : "+r"(x), "+r"(y));)
    }
    return nanoseconds() - start;
}

/* Instructions that do nothing for each cycle, at best: the first run finds its code outside the caches, and others are
 * interrupted. */
static double core_slots(void) {
    double idle = INFINITY, chain = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        idle = fmin(idle, (double)run_idle());
        chain = fmin(chain, (double)run_chain());
    }
    return idle > 0 ? chain / idle * IDLE_ROUNDS / CHAIN_ROUNDS : 0;
}

static double least_slots(int threads) {
    double least = MOST_SLOTS;
#if HEED_HAVE_OPENMP
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(min : least)
#endif
    for (int i = 0; i < threads; i++)
        least = fmin(least, core_slots());
    return least;
}

static int counts[MOST_SLOTS * BINS + 1], all;

static double count_slots(int threads) {
    const double slots = least_slots(threads);
    counts[(int)fmin(MOST_SLOTS * BINS, slots * BINS)]++;
    all++;
    return slots;
}

/* That a core of this machine was seen to have. */
static double most_slots(void) {
    int count = 0, bin = MOST_SLOTS * BINS;
    while (bin > 0 && (count += counts[bin]) <= all / RARE)
        bin--;
    return (double)bin / BINS;
}

bool cores_are_quiet(int threads) {
    static bool knows;
    for (int i = 0; i < FIRST_PROBES && !knows; i++)
        count_slots(1);
    knows = true;
    return count_slots(threads) >= own_share * most_slots();
}
