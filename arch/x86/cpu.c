/* x86: features by CPUID, counted only if the operating system saves their registers (XCR0); MXCSR. */
#include "cpu.h"

#include <cpuid.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <xmmintrin.h>

enum { DETECTED = 1u << 31 };

static bool has(unsigned word, unsigned bits) { return (word & bits) == bits; }

static unsigned enabled_state(void) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static unsigned detect(void) {
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28 };                                               /* leaf 1, ecx */
    enum { AVX2 = 1 << 5, AVX512F = 1 << 16, AVX512DQ = 1 << 17, AVX512BW = 1 << 30, AVX512VL = 1u << 31 }; /* leaf 7, ebx */
    enum { YMM_STATE = 0x06, ZMM_STATE = 0xe6 };                                                            /* XCR0 */
    unsigned a, b, c, d, features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, OSXSAVE | AVX))
        return 0;
    const unsigned state = enabled_state();
    if (!has(state, YMM_STATE))
        return 0;
    if (has(c, FMA))
        features |= HEED_CPU_FMA;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return features;
    if (has(b, AVX2))
        features |= HEED_CPU_AVX2;
    if (has(b, AVX512F | AVX512DQ | AVX512BW | (unsigned)AVX512VL) && has(state, ZMM_STATE))
        features |= HEED_CPU_AVX512;
    return features;
}

/* CPUID traps in virtual machines (microseconds), so it is asked once. */
unsigned heed_cpu_features(void) {
    static _Atomic unsigned cached;
    unsigned features = atomic_load_explicit(&cached, memory_order_relaxed);
    if (!features) {
        features = detect() | DETECTED;
        atomic_store_explicit(&cached, features, memory_order_relaxed);
    }
    return features & ~(unsigned)DETECTED;
}

const char *heed_cpu_feature_names(void) {
    static const char *const names[] = {"", "fma", "avx2", "avx2 fma", "avx512", "avx512 fma", "avx512 avx2", "avx512 avx2 fma"};
    return names[heed_cpu_features() & (HEED_CPU_FMA | HEED_CPU_AVX2 | HEED_CPU_AVX512)];
}

enum { MXCSR_DEFAULT = 0x1f80 }; /* all exceptions masked, round to nearest, no FTZ, no DAZ */

uint64_t heed_fp_begin(void) {
    const unsigned callers = _mm_getcsr();
    if (callers != MXCSR_DEFAULT)
        _mm_setcsr(MXCSR_DEFAULT);
    return callers;
}

void heed_fp_end(uint64_t callers) {
    if (_mm_getcsr() != (unsigned)callers)
        _mm_setcsr((unsigned)callers);
}
