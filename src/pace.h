/* Whether lines of memory are fetched at a pace (pace.c). */
#ifndef HEED_PACE_H
#define HEED_PACE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Whose lines: of some L3 has more than of others. */
enum heed_pace_of { HEED_PACE_KEYS, HEED_PACE_WEIGHTS, HEED_PACES };

/* One of the pieces of work that a thread does one after another, each of which reads bytes once. */
struct heed_pace {
    enum heed_pace_of of;
    bool paced, is_tried;
    struct timespec began;
};

/* Before it, and after it, unless it was given up. */
struct heed_pace heed_pace_begin(enum heed_pace_of of);
void heed_pace_end(const struct heed_pace *pace, int64_t bytes);

#endif
