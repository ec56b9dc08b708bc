/* What heed asks of a processor; one implementation per architecture, in arch/x86/cpu.c, arch/arm/cpu.c or arch/scalar/cpu.c. */
#ifndef HEED_CPU_H
#define HEED_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Capabilities that both the processor and the operating system offer. */
enum {
    HEED_CPU_FMA = 1 << 0,
    HEED_CPU_AVX2 = 1 << 1,
    HEED_CPU_AVX512 = 1 << 2, /* F, BW, DQ and VL together */
    HEED_CPU_F16C = 1 << 3,
    HEED_CPU_NEON = 1 << 4,
    HEED_CPU_AMX = 1 << 5, /* TILE, BF16 and INT8 together; the process must ask for it before it is used */
    HEED_CPU_AVX512_BF16 = 1 << 6,
    HEED_CPU_AVX512_VNNI = 1 << 7,
    HEED_CPU_AVX_VNNI = 1 << 8,
    HEED_CPU_DOTPROD = 1 << 9
};
unsigned heed_cpu_features(void);
/* Of these, what does not pay (cpu_policy.h): tables that need it are not the first choice. */
unsigned heed_cpu_costly(void);

/* What is quicker on this processor than on others (cpu_policy.h). */
enum {
    HEED_TRAIT_FETCHES_ONCE = 1 << 0,   /* to fetch lines of memory into L1 alone, and not into L2 before */
    HEED_TRAIT_RAISES_WEIGHTS = 1 << 1, /* to make floats of bytes, and halves of them, by a power of two that they are added to */
    HEED_TRAIT_PACKS_FOR_FEW = 1 << 2,  /* to pack b for as few as 13 rows of a, and not to read its rows in place */
    HEED_TRAIT_MULTIPLIES_FROM_L2 = 1 << 3,  /* to multiply by what lies in L2, and not to bring it into L1 a part at a time */
    HEED_TRAIT_FETCHES_I8_ONCE = 1 << 4,     /* as the first one, of weights that meet bytes */
    HEED_TRAIT_EXPS_APART = 1 << 5,          /* to make exponentials before products, and not beside them */
    HEED_TRAIT_FETCHES_INTO_L2 = 1 << 6,     /* to fetch lines of memory into L2 alone, farther ahead */
    HEED_TRAIT_TILES_PACK_FROM_FAR = 1 << 7, /* to pack rows of b while they are first multiplied, also from L3 */
    HEED_TRAIT_LONG_BLOCKS_FOR_FEW = 1 << 8  /* to multiply by what lies in L2 with few rows of a, too */
};
unsigned heed_cpu_traits(void);
/* For tests: as on a processor with these, which change no bit; HEED_TRAITS_OWN: with its own again.  Not during a call. */
enum { HEED_TRAITS_OWN = 1 << 11 /* above all of them */ };
void heed_cpu_set_traits(unsigned traits);

/* Where lines of memory go that are read once: into L1 and, twice as far ahead, into L2; or into one of them alone. */
enum heed_fetch_into { HEED_INTO_L1_AND_L2 = 0, HEED_INTO_L1, HEED_INTO_L2 };
static inline enum heed_fetch_into heed_fetch_into_by(unsigned traits) {
    return traits & HEED_TRAIT_FETCHES_ONCE      ? HEED_INTO_L1
           : traits & HEED_TRAIT_FETCHES_INTO_L2 ? HEED_INTO_L2
                                                 : HEED_INTO_L1_AND_L2;
}

/* The features in words: "avx2 fma", "" if none. */
const char *heed_cpu_feature_names(void);

/* The floating-point environment that the arithmetic needs: round to nearest, no flush to zero, no traps.  begin sets it and
 * returns the caller's, which end restores; flags of exceptions are no part of it. */
uint64_t heed_fp_begin(void);
void heed_fp_end(uint64_t callers);
/* Within such a pair: whether inputs and results below 2^-126 become 0 of their sign, as products of bf16 pairs want it. */
void heed_fp_flush(bool on);

#endif
