/* x86: features by the C library or CPUID, counted only if the operating system saves their registers (XCR0); MXCSR. */
#include "cpu.h"

#include <cpuid.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <xmmintrin.h>

#include "cpu_policy.h"

/* Words of CPUID, with the features that processor and operating system offer.  CPUID traps in virtual machines, 9 us each, so it
 * is asked for as little as can be. */
struct words {
    unsigned eax_1 /* family and model */, ecx_1, ebx_7, ecx_7, edx_7, eax_7_1;
};
enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29 };                               /* ecx_1 */
enum { AVX2 = 1 << 5, AVX512F = 1 << 16, AVX512DQ = 1 << 17, AVX512BW = 1 << 30, AVX512VL = 1u << 31 }; /* ebx_7 */
enum { AVX512_VNNI = 1 << 11 };                                                                         /* ecx_7 */
enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 };                                    /* edx_7 */
enum { AVX_VNNI = 1 << 4, AVX512_BF16 = 1 << 5 };                                                       /* eax_7_1 */

static bool has(unsigned word, unsigned bits) { return (word & bits) == bits; }

#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>

/* glibc asked at its start. */
static struct words look(void) {
    const struct cpuid_feature *leaf_1 = __x86_get_cpuid_feature_leaf(CPUID_INDEX_1);
    const struct cpuid_feature *leaf_7 = __x86_get_cpuid_feature_leaf(CPUID_INDEX_7);
    const struct cpuid_feature *leaf_7_1 = __x86_get_cpuid_feature_leaf(CPUID_INDEX_7_ECX_1);
    return (struct words){leaf_1->cpuid_array[0],  leaf_1->active_array[2], leaf_7->active_array[1],
                          leaf_7->active_array[2], leaf_7->active_array[3], leaf_7_1->active_array[0]};
}
#else
static unsigned enabled_state(void) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Leaf 1 is always there; 7 is where 13 is, which OSXSAVE promises. */
static struct words look(void) {
    enum { YMM_STATE = 0x06, ZMM_STATE = 0xe6, TILE_STATE = 0x60000 };
    struct words words = {0};
    unsigned a, b, c, d;
    __cpuid(1, words.eax_1, b, c, d);
    const unsigned state = has(c, OSXSAVE | AVX) ? enabled_state() : 0;
    if (!has(state, YMM_STATE))
        return words;
    words.ecx_1 = c;
    __cpuid_count(7, 0, a, words.ebx_7, words.ecx_7, words.edx_7);
    if (!has(state, ZMM_STATE))
        words.ebx_7 &= ~(unsigned)AVX512F;
    if (!has(state, TILE_STATE))
        words.edx_7 = 0;
    if (a >= 1) /* leaves below 7 */
        __cpuid_count(7, 1, words.eax_7_1, b, c, d);
    return words;
}
#endif

/* What is known of the processor, in one word. */
enum { COSTLY_SHIFT = 10, DETECTED = 1 << 20, TRAITS_SHIFT = 21 };

/* What does not pay, which takes the brand where AVX-512 may not, and what is quicker. */
static unsigned policy(unsigned signature, unsigned features) {
    unsigned brand[13] = {0};
    const unsigned base = signature >> 8 & 15, family = base + (base == 15 ? signature >> 20 & 255 : 0);
    const unsigned model = (signature >> 4 & 15) | (signature >> 12 & 0xf0);
    const bool by_brand = features & HEED_CPU_AVX512 && heed_x86_costly_by_brand(family, model);
    for (unsigned i = 0; by_brand && i < 3; i++)
        __cpuid(0x80000002 + i, brand[4 * i], brand[4 * i + 1], brand[4 * i + 2], brand[4 * i + 3]);
    const unsigned costly = heed_x86_costly(family, model, (const char *)brand) & features;
    return costly << COSTLY_SHIFT | heed_x86_traits(family, model) << TRAITS_SHIFT;
}

enum {
    AVX2_FEATURES = HEED_CPU_FMA | HEED_CPU_AVX2 | HEED_CPU_F16C,
    AVX512_FEATURES = AVX2_FEATURES | HEED_CPU_AVX512,
    FEATURES = AVX512_FEATURES | HEED_CPU_AMX | HEED_CPU_AVX512_BF16 | HEED_CPU_AVX512_VNNI | HEED_CPU_AVX_VNNI
};
_Static_assert((int)FEATURES >> (int)COSTLY_SHIFT == 0, "costs lie above features");
_Static_assert((int)FEATURES << (int)COSTLY_SHIFT < (int)DETECTED, "and below what says that they are known");

static unsigned detect(void) {
    const struct words words = look();
    unsigned features = 0;
    if (has(words.ecx_1, FMA))
        features |= HEED_CPU_FMA;
    if (has(words.ecx_1, F16C))
        features |= HEED_CPU_F16C;
    if (has(words.ebx_7, AVX2))
        features |= HEED_CPU_AVX2;
    if (has(words.ebx_7, AVX512F | AVX512DQ | AVX512BW | (unsigned)AVX512VL))
        features |= HEED_CPU_AVX512;
    const bool all_of_avx512 = features == AVX512_FEATURES;
    if (features == AVX2_FEATURES && has(words.eax_7_1, AVX_VNNI))
        features |= HEED_CPU_AVX_VNNI;
    if (all_of_avx512 && has(words.ecx_7, AVX512_VNNI))
        features |= HEED_CPU_AVX512_VNNI;
    if (all_of_avx512 && has(words.eax_7_1, AVX512_BF16))
        features |= HEED_CPU_AVX512_BF16 | (has(words.edx_7, AMX_TILE | AMX_BF16 | AMX_INT8) ? HEED_CPU_AMX : 0);
    return features | policy(words.eax_1, features);
}

/* That word; 0: not yet. */
static _Atomic unsigned cached;

static unsigned known(void) {
    unsigned word = atomic_load_explicit(&cached, memory_order_relaxed);
    if (!word) {
        word = detect() | DETECTED;
        atomic_store_explicit(&cached, word, memory_order_relaxed);
    }
    return word;
}

unsigned heed_cpu_features(void) { return known() & FEATURES; }

unsigned heed_cpu_costly(void) { return known() >> COSTLY_SHIFT & FEATURES; }

unsigned heed_cpu_traits(void) { return known() >> TRAITS_SHIFT; }

void heed_cpu_set_traits(unsigned traits) {
    const unsigned others = known() & ((1U << TRAITS_SHIFT) - 1);
    atomic_store_explicit(&cached, traits == HEED_TRAITS_OWN ? 0 : others | traits << TRAITS_SHIFT, memory_order_relaxed);
}

const char *heed_cpu_feature_names(void) {
    static const char *const names[] = {"",
                                        "fma",
                                        "avx2",
                                        "avx2 fma",
                                        "avx512",
                                        "avx512 fma",
                                        "avx512 avx2",
                                        "avx512 avx2 fma",
                                        "f16c",
                                        "f16c fma",
                                        "avx2 f16c",
                                        "avx2 f16c fma",
                                        "avx512 f16c",
                                        "avx512 f16c fma",
                                        "avx512 avx2 f16c",
                                        "avx512 avx2 f16c fma"};
    static const char *const all_of_avx512[2][3] = {
        {"avx512 avx2 f16c fma", "avx512bf16 avx512 avx2 f16c fma", "amx avx512bf16 avx512 avx2 f16c fma"},
        {"avx512vnni avx512 avx2 f16c fma", "avx512bf16 avx512vnni avx512 avx2 f16c fma",
         "amx avx512bf16 avx512vnni avx512 avx2 f16c fma"}};
    const unsigned features = heed_cpu_features();
    if (features & HEED_CPU_AVX_VNNI)
        return "avxvnni avx2 f16c fma";
    if ((features & AVX512_FEATURES) == AVX512_FEATURES)
        return all_of_avx512[(features & HEED_CPU_AVX512_VNNI) != 0][features & HEED_CPU_AMX           ? 2
                                                                     : features & HEED_CPU_AVX512_BF16 ? 1
                                                                                                       : 0];
    return names[features];
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

void heed_fp_flush(bool on) {
    enum { DAZ = 1 << 6, FTZ = 1 << 15 };
    const unsigned control = _mm_getcsr() & ~(unsigned)(DAZ | FTZ);
    _mm_setcsr(on ? control | DAZ | FTZ : control);
}
