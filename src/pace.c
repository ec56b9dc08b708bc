/* Whether lines of memory are fetched at a pace.
 *
 * Asked for more than memory gives, Zen 4 gives less: products of few rows take 4 cycles for a line, memory 8.  At a pace of 6
 * decoding from pages of 64 tokens takes 0.80 of the time, in pairs 0.91, in pairs from a linear cache 0.89, from floats in a
 * linear cache, with one row to a key/value head, 0.85, which is 0.98 of a plain read; by AVX2, with four rows, 0.85, from pages
 * 0.91, from rows 0.94.  But from L3 it takes 1.15 to 1.6 of it, and no size tells where keys and values lie: L3 may hold what
 * several sequences share, or one layer of few.  So now and then both ways are tried, and timed.
 *
 * Each thread does so for itself and across calls, of keys and of weights apart, for a call of few keys would end before it knew.
 * Processors other than Zen 4 have not been timed so; they try a pace, too, on one of 64 pieces of work, and keep to what is
 * quicker. */
#include "pace.h"

/* Of so many pieces of work two are tried, one each way, though not a thread's very first, which waits for more than lines.  The
 * quicker one is a vote, for memory is not the same twice, and any piece may be interrupted. */
enum { PIECES = 64, PLAIN_TRY = 1, PACED_TRY = 2, MOST_VOTES = 4 };
#define LEAST_BYTES 16384 /* less is over too soon to be timed */

static _Thread_local struct {
    int piece, votes; /* for a pace, if these are positive */
    double plain;     /* ns that a byte took */
} known[HEED_PACES];

struct heed_pace heed_pace_begin(enum heed_pace_of of) {
    const int piece = known[of].piece;
    struct heed_pace pace = {.of = of, .paced = known[of].votes > 0};
    if (piece == PLAIN_TRY || piece == PACED_TRY) {
        pace.is_tried = true;
        pace.paced = piece == PACED_TRY;
        timespec_get(&pace.began, TIME_UTC);
    }
    known[of].piece = (piece + 1) % PIECES;
    return pace;
}

static double ns_since(const struct timespec *began) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e9 * (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec);
}

void heed_pace_end(const struct heed_pace *pace, int64_t bytes) {
    if (!pace->is_tried || bytes < LEAST_BYTES)
        return;
    const double ns = ns_since(&pace->began) / (double)bytes;
    int *votes = &known[pace->of].votes;
    if (!pace->paced)
        known[pace->of].plain = ns;
    else if (ns < known[pace->of].plain)
        *votes += *votes < MOST_VOTES;
    else
        *votes -= *votes > -MOST_VOTES;
}
