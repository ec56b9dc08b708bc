/* AMX's tile registers: leave to use them, and how a thread has them meanwhile. */
#ifndef HEED_AMX_TILES_H
#define HEED_AMX_TILES_H

#include <immintrin.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

enum {
    REGISTER = 16, /* rows of a whole one, of as many words */
    ROW_BYTES = 64
};

/* What _tile_loadconfig takes. */
struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Linux lets a process have the registers when it asks, for their 8 KiB make every signal's frame larger: so not before the first
 * call that computes with them. */
static inline bool tiles_permitted(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18, UNKNOWN = 0, NO, YES };
    static _Atomic int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

/* The caller's shapes come back at the end, for ggml, which has AMX of its own, sets them once and for all. */
INLINE void tiles_keep(uint8_t callers[sizeof(struct tile_shapes)]) {
    _tile_storeconfig(callers);
    /* gcc 12 thinks that the instruction writes 8 bytes: without this it may move reads of the others before it. */
    __asm__ volatile("" ::: "memory");
}

INLINE void tiles_shape(const struct tile_shapes *shapes) {
    /* gcc 12 thinks that the instruction reads 8 bytes: without this it may move writes of the others behind it. */
    __asm__ volatile("" ::"m"(*shapes));
    _tile_loadconfig(shapes);
}

INLINE void tiles_end(const uint8_t callers[sizeof(struct tile_shapes)]) {
    const bool had_tiles = callers[0] != 0;
    /* gcc 12 thinks that _tile_loadconfig reads 8 bytes: without this it may move writes of the others behind it. */
    __asm__ volatile("" ::: "memory");
    if (had_tiles)
        _tile_loadconfig(callers);
    else
        _tile_release();
}

#endif
