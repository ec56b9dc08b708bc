/* Scratch memory of one call: the caller's stack for small requests, one allocation for others. */
#ifndef HEED_WORKSPACE_H
#define HEED_WORKSPACE_H

#include <stdint.h>
#include <stdlib.h>

#include "error.h"
#include "internal.h"

enum { HEED_WORKSPACE_SMALL = 4096, HEED_WORKSPACE_ALIGN = 64 };

/* Floats rounded up to whole cache lines, so that what follows is aligned. */
INLINE int64_t workspace_round(int64_t floats) { return round_up(floats, HEED_WORKSPACE_ALIGN / (int64_t)sizeof(float)); }

struct heed_workspace {
    _Alignas(HEED_WORKSPACE_ALIGN) float small[HEED_WORKSPACE_SMALL];
    float *data; /* aligned to 64 bytes */
};

INLINE enum heed_status workspace_open(struct heed_workspace *workspace, int64_t floats) {
    workspace->data = workspace->small;
    if (floats > HEED_WORKSPACE_SMALL)
        workspace->data = aligned_alloc(HEED_WORKSPACE_ALIGN, (size_t)workspace_round(floats) * sizeof(float));
    return workspace->data ? HEED_OK : heed_fail(HEED_OUT_OF_MEMORY, "no memory for a workspace of %lld floats", (long long)floats);
}

INLINE void workspace_close(struct heed_workspace *workspace) {
    if (workspace->data != workspace->small)
        free(workspace->data);
}

#endif
