/* Scratch memory of one call: the stack for small requests; the caller's, or one allocation, for others. */
#ifndef HEED_WORKSPACE_H
#define HEED_WORKSPACE_H

#include <stdint.h>
#include <stdlib.h>

#include "error.h"
#include "internal.h"

enum { HEED_WORKSPACE_SMALL = 4096, HEED_WORKSPACE_ALIGN = 64 };

/* Floats rounded up to whole cache lines, so that what follows is aligned. */
INLINE int64_t workspace_round(int64_t floats) { return round_up(floats, HEED_WORKSPACE_ALIGN / (int64_t)sizeof(float)); }

/* More floats than any memory has; products that would be more are as many, so that some of them can be added. */
#define HEED_WORKSPACE_MOST (INT64_MAX / 4096)
INLINE int64_t workspace_product(int64_t a, int64_t b) {
    int64_t floats;
    return __builtin_mul_overflow(a, b, &floats) ? HEED_WORKSPACE_MOST : min_i64(floats, HEED_WORKSPACE_MOST);
}
INLINE enum heed_status workspace_check_floats(int64_t floats) {
    return floats < HEED_WORKSPACE_MOST ? HEED_OK
                                        : heed_fail(HEED_OUT_OF_MEMORY, "the call needs a workspace that no memory has room for");
}

struct heed_workspace {
    _Alignas(HEED_WORKSPACE_ALIGN) float small[HEED_WORKSPACE_SMALL];
    float *data; /* aligned to 64 bytes */
    float *from_heap;
};

/* Of the caller's or the heap's memory. */
INLINE int64_t workspace_bytes(int64_t floats) {
    return floats > HEED_WORKSPACE_SMALL ? workspace_round(floats) * (int64_t)sizeof(float) : 0;
}

INLINE enum heed_status workspace_check(const char *name, const void *data, int64_t bytes, int64_t needed) {
    if (needed > bytes)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s has %lld bytes, but the call needs %lld", name, (long long)bytes,
                         (long long)needed);
    if (needed > 0 && !data)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is NULL, but the call needs %lld bytes", name, (long long)needed);
    if ((uintptr_t)data % HEED_WORKSPACE_ALIGN)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %p, not aligned to %d bytes", name, data, HEED_WORKSPACE_ALIGN);
    return HEED_OK;
}

INLINE enum heed_status workspace_open(struct heed_workspace *workspace, const struct heed_exec *exec, int64_t floats) {
    const int64_t bytes = workspace_bytes(floats);
    workspace->from_heap = NULL;
    workspace->data = workspace->small;
    if (bytes == 0)
        return HEED_OK;
    if (exec && exec->workspace) {
        workspace->data = exec->workspace;
        return workspace_check("exec.workspace", exec->workspace, exec->workspace_bytes, bytes);
    }
    workspace->data = workspace->from_heap = aligned_alloc(HEED_WORKSPACE_ALIGN, (size_t)bytes);
    return workspace->data ? HEED_OK : heed_fail(HEED_OUT_OF_MEMORY, "no memory for a workspace of %lld bytes", (long long)bytes);
}

INLINE void workspace_close(struct heed_workspace *workspace) { free(workspace->from_heap); }

#endif
