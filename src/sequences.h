/* Sequences of tokens in a request, batched or packed, and where they begin: appending to a cache and rotary embedding. */
#ifndef HEED_SEQUENCES_H
#define HEED_SEQUENCES_H

#include <stdint.h>

#include "heed.h"
#include "internal.h"
#include "region.h"

struct heed_sequences {
    int64_t batch, tokens;
    const int64_t *starts, *positions; /* may be NULL */
};

/* Tokens are numbered through all sequences; this is the first of sequence b, and one past the last of sequence b - 1. */
INLINE int64_t sequences_begin(const struct heed_sequences *sequences, int64_t b) {
    return sequences->starts ? sequences->starts[b] : b * sequences->tokens;
}

INLINE int64_t sequences_position(const struct heed_sequences *sequences, int64_t b) {
    return sequences->positions ? sequences->positions[b] : 0;
}

/* All that may differ in tokens and positions: one where neither are told, for a batch may be of 2^50. */
INLINE int64_t sequences_unlike(const struct heed_sequences *sequences) {
    return sequences->starts || sequences->positions ? sequences->batch : min_i64(1, sequences->batch);
}

/* The sequence that token number `token` belongs to. */
INLINE int64_t sequences_of(const struct heed_sequences *sequences, int64_t token) {
    int64_t low = 0, high = sequences->batch;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (sequences_begin(sequences, middle) <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Of starts or positions; NULL: nothing. */
struct heed_region heed_sequences_region(const char *name, const int64_t *integers, int64_t count);
/* Starts of so many sequences, unless NULL: they do not descend, and go up to the number of tokens. */
enum heed_status heed_check_starts(const char *name, const int64_t *starts, int64_t batch, int64_t tokens);

#endif
