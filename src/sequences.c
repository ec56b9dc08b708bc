/* What may be said of sequences; see sequences.h. */
#include "sequences.h"

#include <stdio.h>

struct heed_region heed_sequences_region(const char *name, const int64_t *integers, int64_t count) {
    return (struct heed_region){.name = name,
                                .data = integers,
                                .element_bytes = sizeof *integers,
                                .width = integers ? count : 0,
                                .count = {1, 1, 1},
                                .stride_name = {"", "", ""}};
}

enum heed_status heed_sequences_check_starts(const struct heed_sequences *sequences) {
    int64_t least = 0;
    for (int64_t b = 0; sequences->starts && b <= sequences->batch; b++) {
        char name[40];
        snprintf(name, sizeof name, "starts[%lld]", (long long)b);
        if (heed_check_range(name, sequences->starts[b], least, sequences->tokens))
            return HEED_INVALID_ARGUMENT;
        least = sequences->starts[b];
    }
    return HEED_OK;
}
