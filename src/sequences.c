/* What may be said of sequences; see sequences.h. */
#include "sequences.h"

#include <inttypes.h>
#include <stdio.h>

#include "error.h"

struct heed_region heed_sequences_region(const char *name, const int64_t *integers, int64_t count) {
    return (struct heed_region){.name = name,
                                .data = integers,
                                .element_bytes = sizeof *integers,
                                .width = integers ? count : 0,
                                .count = {1, 1, 1},
                                .stride_name = {"", "", ""}};
}

enum heed_status heed_check_starts(const char *name, const int64_t *starts, int64_t batch, int64_t tokens) {
    if ((uintptr_t)starts % _Alignof(int64_t))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %p, not aligned to int64_t", name, (const void *)starts);
    for (int64_t b = 0, least = 0; starts && b <= batch; least = starts[b++])
        if (starts[b] < least || starts[b] > tokens) {
            char field[64];
            snprintf(field, sizeof field, "%s[%" PRId64 "]", name, b);
            return heed_check_range(field, starts[b], least, tokens);
        }
    return HEED_OK;
}
