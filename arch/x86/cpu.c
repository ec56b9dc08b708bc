/* x86: features by the C library or CPUID, counted only if the operating system saves their registers (XCR0); MXCSR. */
#include "cpu.h"

#include <cpuid.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <xmmintrin.h>

#include "cpu_policy.h"

/* CPUID traps in virtual machines, 9 us each, so it is asked for as little as can be. */
struct seen {
    bool fma, avx2, avx512, vbmi;
};

#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>

/* glibc asked at its start, and counts what the operating system saves. */
static struct seen look(void) {
    const bool avx512 =
        CPU_FEATURE_ACTIVE(AVX512F) && CPU_FEATURE_ACTIVE(AVX512BW) && CPU_FEATURE_ACTIVE(AVX512DQ) && CPU_FEATURE_ACTIVE(AVX512VL);
    return (struct seen){.fma = CPU_FEATURE_ACTIVE(FMA),
                         .avx2 = CPU_FEATURE_ACTIVE(AVX2),
                         .avx512 = avx512,
                         .vbmi = CPU_FEATURE_ACTIVE(AVX512_VBMI)};
}
#else
static bool has(unsigned word, unsigned bits) { return (word & bits) == bits; }

static unsigned enabled_state(void) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Leaf 1 is always there; 7 is where 13 is, which OSXSAVE promises. */
static struct seen look(void) {
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28 };                                               /* leaf 1, ecx */
    enum { AVX2 = 1 << 5, AVX512F = 1 << 16, AVX512DQ = 1 << 17, AVX512BW = 1 << 30, AVX512VL = 1u << 31 }; /* leaf 7, ebx */
    enum { VBMI = 1 << 1 };                                                                                 /* leaf 7, ecx */
    enum { YMM_STATE = 0x06, ZMM_STATE = 0xe6 };                                                            /* XCR0 */
    unsigned a, b, c1, c7, d;
    __cpuid(1, a, b, c1, d);
    const unsigned state = has(c1, OSXSAVE | AVX) ? enabled_state() : 0;
    if (!has(state, YMM_STATE))
        return (struct seen){false, false, false, false};
    __cpuid_count(7, 0, a, b, c7, d);
    return (struct seen){
        .fma = has(c1, FMA),
        .avx2 = has(b, AVX2),
        .avx512 = has(b, AVX512F | AVX512DQ | AVX512BW | (unsigned)AVX512VL) && has(state, ZMM_STATE),
        .vbmi = has(c7, VBMI),
    };
}
#endif

/* Of a processor with AVX-512 and without VBMI, which all but the first of them have. */
static unsigned costly(void) {
    unsigned signature, b, c, d, brand[13] = {0};
    __cpuid(1, signature, b, c, d);
    const unsigned family = signature >> 8 & 15, model = (signature >> 4 & 15) | (signature >> 12 & 0xf0);
    for (unsigned i = 0; heed_x86_costly_by_brand(family, model) && i < 3; i++)
        __cpuid(0x80000002 + i, brand[4 * i], brand[4 * i + 1], brand[4 * i + 2], brand[4 * i + 3]);
    return heed_x86_costly(family, model, (const char *)brand);
}

/* What is known of the processor, in one word. */
enum { COSTLY_SHIFT = 8, DETECTED = 1 << 16 };

static unsigned detect(void) {
    const struct seen seen = look();
    const unsigned features =
        (seen.fma ? HEED_CPU_FMA : 0u) | (seen.avx2 ? HEED_CPU_AVX2 : 0u) | (seen.avx512 ? HEED_CPU_AVX512 : 0u);
    return features | (seen.avx512 && !seen.vbmi ? costly() << COSTLY_SHIFT : 0);
}

static unsigned known(void) {
    static _Atomic unsigned cached;
    unsigned word = atomic_load_explicit(&cached, memory_order_relaxed);
    if (!word) {
        word = detect() | DETECTED;
        atomic_store_explicit(&cached, word, memory_order_relaxed);
    }
    return word;
}

enum { FEATURES = HEED_CPU_FMA | HEED_CPU_AVX2 | HEED_CPU_AVX512 };

unsigned heed_cpu_features(void) { return known() & FEATURES; }

unsigned heed_cpu_costly(void) { return known() >> COSTLY_SHIFT & FEATURES; }

const char *heed_cpu_feature_names(void) {
    static const char *const names[] = {"", "fma", "avx2", "avx2 fma", "avx512", "avx512 fma", "avx512 avx2", "avx512 avx2 fma"};
    return names[heed_cpu_features()];
}

/* Control bits: all exceptions masked, round to nearest, no FTZ, no DAZ; below them the flags of exceptions so far. */
enum { MXCSR_DEFAULT = 0x1f80, MXCSR_FLAGS = 0x3f };

static bool is_default(uint64_t callers) { return ((unsigned)callers & ~(unsigned)MXCSR_FLAGS) == MXCSR_DEFAULT; }

/* Where the caller's control bits are the default ones nothing is written, so flags stay as arithmetic leaves them: a write to
 * MXCSR waits for all arithmetic before it and holds up all after it, 90 ns in a small call. */
uint64_t heed_fp_begin(void) {
    const unsigned callers = _mm_getcsr();
    if (!is_default(callers))
        _mm_setcsr(MXCSR_DEFAULT);
    return callers;
}

void heed_fp_end(uint64_t callers) {
    if (!is_default(callers))
        _mm_setcsr((unsigned)callers);
}
