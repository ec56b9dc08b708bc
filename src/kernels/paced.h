/* A loop that takes as long for a line as memory does: asked for more than it gives, memory gives less (src/pace.c). */
#ifndef HEED_KERNELS_PACED_H
#define HEED_KERNELS_PACED_H

enum { PACE_STEPS = 2 /* multiplications, 3 cycles each, for a line */ };

/* The same address, some time after it was known: for these bytes a chain of multiplications. */
INLINE const char *paced(const char *at, const int bytes) {
    uintptr_t address = (uintptr_t)at, one = 1;
    PIN(one);
    UNROLL for (int step = 0; step < bytes * PACE_STEPS / LINE_BYTES; step++) {
        address *= one;
        PIN(address);
    }
    return (const char *)address;
}

#endif
