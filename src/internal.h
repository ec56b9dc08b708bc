/* Words that every file of the library shares: inlining, unrolling, visibility, small integer helpers, advice to the cache. */
#ifndef HEED_INTERNAL_H
#define HEED_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define HEED_API __attribute__((visibility("default")))
#define INLINE   static inline __attribute__((always_inline))
/* gcc 12 keeps a tile's accumulators in registers only if each tile shape is a function of its own. */
#define NOINLINE static __attribute__((noinline))

#ifdef __clang__
#define UNROLL    _Pragma("clang loop unroll(full)")
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNROLL    _Pragma("GCC unroll 64")
#define NO_UNROLL _Pragma("GCC unroll 1")
#endif

/* Holds a pointer or an integer in a register and makes the compiler forget where it came from, so that it neither recomputes it
 * nor derives others from its origin. */
#define PIN(x) __asm__("" : "+r"(x))
/* Makes it forget what it stored at p, a vector at most, so that it does not hold that in a register, too. */
#define PIN_VECTOR(p) __asm__("" : "+m"(*(char(*)[HEED_LINE * sizeof(float)])(p)))

INLINE int smaller(int a, int b) { return a < b ? a : b; }
INLINE int larger(int a, int b) { return a > b ? a : b; }
INLINE int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
/* a / b rounded up; a >= 0, b > 0, without overflow for any a */
INLINE int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
INLINE int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

/* Advice: what will be read soon goes into L1, or into L2 alone.  By address, for it need not be memory. */
INLINE void fetch_line(uintptr_t at, const bool into_l1) {
    if (into_l1)
        __builtin_prefetch((const void *)at, 0, 3);
    else
        __builtin_prefetch((const void *)at, 0, 2);
}
INLINE void fetch_bytes(const void *data, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64)
        fetch_line((uintptr_t)data + (uintptr_t)at, false);
}

#endif
