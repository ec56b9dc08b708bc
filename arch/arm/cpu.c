/* AArch64: NEON by HWCAP (with its FMA it is part of the architecture, but a kernel may hide it), and its dot products; FPCR. */
#include "cpu.h"

#include <stdatomic.h>
#include <sys/auxv.h>

#ifndef HWCAP_ASIMD
#define HWCAP_ASIMD (1 << 1)
#endif

#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1 << 20)
#endif

unsigned heed_cpu_features(void) {
    const unsigned long words = getauxval(AT_HWCAP);
    return HEED_CPU_FMA | (words & HWCAP_ASIMD ? HEED_CPU_NEON : 0u) | (words & HWCAP_ASIMDDP ? HEED_CPU_DOTPROD : 0u);
}

unsigned heed_cpu_costly(void) { return 0; }

/* None is known of any processor. */
static _Atomic unsigned traits;

unsigned heed_cpu_traits(void) { return atomic_load_explicit(&traits, memory_order_relaxed); }

void heed_cpu_set_traits(unsigned others) {
    atomic_store_explicit(&traits, others == HEED_TRAITS_OWN ? 0 : others, memory_order_relaxed);
}

const char *heed_cpu_feature_names(void) {
    const unsigned features = heed_cpu_features();
    return features & HEED_CPU_DOTPROD ? "dotprod neon fma" : features & HEED_CPU_NEON ? "neon fma" : "fma";
}

/* FPCR 0: round to nearest, no flush to zero, no traps, NaN payloads kept.  Written only where it is something else, for a write
 * holds up the arithmetic after it. */
static void set_control(uint64_t control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }

uint64_t heed_fp_begin(void) {
    uint64_t callers;
    __asm__ volatile("mrs %0, fpcr" : "=r"(callers));
    if (callers != 0)
        set_control(0);
    return callers;
}

void heed_fp_end(uint64_t callers) {
    if (callers != 0)
        set_control(callers);
}

void heed_fp_flush(bool on) {
    enum { FZ = 1 << 24 };
    set_control(on ? FZ : 0);
}
