/* Where 512-bit vectors do not pay, nor products of bf16 pairs, nor fetching into L1 or L2, fewer operations, reading in place,
 * blocks in L1, exponentials beside products: the only place that says so.
 *
 * heed's time is fused multiply-adds.  With 512-bit vectors a core does as many as with 256-bit ones, or twice as many, with half
 * the instructions, twice the registers and larger tiles.  So they pay wherever the clock stays.
 *
 * Two 512-bit units (Xeon Gold 6xxx and Platinum, Ice Lake-SP and later, Zen 5) do twice the work.  On Skylake-SP and Cascade Lake
 * the clock falls with them, by about a sixth for the Gold 6148 with all cores at work (Intel's specification update: 2.6 GHz with
 * AVX2, 2.2 with AVX-512), which leaves 1.7 times the speed.
 *
 * One unit, or 256-bit units used twice, at the same clock (Ice Lake, Tiger Lake and Rocket Lake clients, Zen 4): as many products,
 * with fewer instructions around them.
 *
 * One unit at a lower clock (Skylake-SP and Cascade Lake of the lower tiers, Skylake-D): as many products for each cycle, but about
 * a quarter fewer cycles (Gold 5120: 2.2 and 1.6 GHz).  These take AVX2.
 *
 * CPUID does not tell the number of units, so the model's name must; BLIS chooses its Haswell kernels by the same names.  In
 * virtual machines without a name, units are taken to be two: a wrong guess costs a quarter, the other one half of the speed.
 *
 * vdpbf16ps multiplies a pair where fma multiplies a float, and so twice as much where it is as quick: Zen 4 and 5, and Cooper
 * Lake, where IREE measured twice the speed of floats (its pull request 15089).  Intel's later CPUs, which have AMX for that,
 * take 4.1 times as long for it as for fma (Emerald Rapids, 24 chains: 0.73 ns and 0.18), so there pairs are floats.
 *
 * What is read once, from memory, is fetched into L1, and on Intel's processors into L2 before that, for their L1 has too few
 * buffers to wait for memory.  On Zen 5 the second request for a line only takes the place of another: with AVX-512, one token with
 * 32768 keys in a cache reads at 0.80 of a plain read without it and at 0.67 with it, and one row times 768 x 768 floats takes 0.79
 * of the time, one row times q8_0 0.92.  (Where columns are read side by side, or bytes quicker than memory gives them, some of
 * what is asked for is not fetched, and lines are asked for twice, but in L1: kernels/block_columns.h, block_words.h.)  With AVX2
 * that is not so (Zen 3, too: the same to 1.04 of the time), but for weights in blocks that meet bytes, of which less is computed:
 * Zen 3 takes 0.86 to 1.0 of the time with fetches into L1 alone.  Zen 4, which has the number of Zen 3's family, is unlike either:
 * with fetches into L1 alone these weights take 1.1 to 2.1 times as long from memory, and one token with 4096 keys 1.4 to 1.7; but
 * into L2 alone, from where its prefetchers bring lines into L1, nearly all is quicker than into both (kernels/thin_window.h), and
 * weights that meet bytes take 0.73 to 0.98 of the time from memory, 1.0 to 1.1 from L3.  What else has the number of a family is
 * taken to be like the one that was measured; Zen 2 and earlier ones have not been.
 *
 * Weights in blocks become floats by a table or a conversion, or, with an operation less, by a shuffle into a power of two. Intel's
 * two units for 512-bit vectors count operations: by the latter, one row times q8_0 from memory takes 0.92 of the time, q4_0 0.97
 * (Emerald Rapids).  Zen 5 has four, of which two multiply, and the products fill them in either way; but there 16 weights from L2
 * take 1.75 cycles by the latter and 1.05 by the former, for reasons that the throughput of its instructions does not tell.
 *
 * Rows of a plain b, of which a panel has 256 bytes each, are read in place or by a pass that packs them.  16 rows of a times
 * 2048 x 2048 take 0.83 of the time in place on Intel's processors; on Zen 5 13 to 24 rows take 1.7 to 1.9 times as long, times
 * 768 x 3072 up to 2.4 times, on Zen 3 (AVX2) 1.4 to 1.7 times, on Zen 4 1.0 to 1.5 times.  The pass is a tile's that multiplies by
 * them, where it does not wait for them: of those that come from L3 Zen 4 alone is known for that (src/gemm_plan.c).  By panels as
 * long as k, and not 16 rows of b at a time, Zen 4 does read in place for up to 32 rows (there, too).
 *
 * A product's tiles take 21 bytes of b a cycle.  From L2, Intel's processors do not fetch these in time by themselves (512 x 1536 x
 * 384 1.05 of the time), so blocks of b are as short as L1; Zen 5 does, and has 0.97 to 0.99 of the time with blocks four times as
 * long, AVX2 0.98 to 1.00, for there are fewer sums to put away; so has Zen 4, 0.96 to 1.01, and with fewer rows 0.92 to 1.0
 * (src/gemm_plan.c); Zen 3, whose L2 is half of that, 0.98 to 1.01.
 *
 * Exponentials beside products (kernels/exp_beside.h) fill units that do not multiply.  Intel's two units for 512-bit vectors
 * multiply both, so there is nothing to fill, and what is loaded once more has its price: attention takes 1.01 to 1.03 of the time,
 * with heads of 32 1.05 (Emerald Rapids). */
#include "cpu_policy.h"

#include <stddef.h>
#include <string.h>

#include "cpu.h"

/* Skylake-SP, Cascade Lake, Cooper Lake, Skylake-D and Skylake-X share a number. */
enum { INTEL_FAMILY = 6, SKYLAKE_SERVER = 85, ZEN_3_FAMILY = 25 /* and Zen 4 */, ZEN_5_FAMILY = 26 };

static const char *const one_unit[] = {"Bronze", "Silver", "Gold 51", "Gold 52", "Xeon(R) D-21"};
static const char *const two_units[] = {"Gold 5122", "Gold 5222"};

static bool names_any(const char *brand, const char *const *parts, size_t count) {
    bool found = false;
    for (size_t i = 0; i < count; i++)
        found |= strstr(brand, parts[i]) != NULL;
    return found;
}

bool heed_x86_costly_by_brand(unsigned family, unsigned model) { return family == INTEL_FAMILY && model == SKYLAKE_SERVER; }

unsigned heed_x86_costly(unsigned family, unsigned model, const char *brand) {
    const bool slow = heed_x86_costly_by_brand(family, model) && names_any(brand, one_unit, sizeof one_unit / sizeof *one_unit) &&
                      !names_any(brand, two_units, sizeof two_units / sizeof *two_units);
    const bool slow_pairs = family == INTEL_FAMILY && model != SKYLAKE_SERVER;
    return (slow ? HEED_CPU_AVX512 : 0) | (slow_pairs ? HEED_CPU_AVX512_BF16 : 0);
}

/* Models of family 25, as Linux counts them (arch/x86/kernel/cpu/amd.c): 0x10 to 0x1f and 0x60 to 0xaf. */
static bool is_zen_4(unsigned family, unsigned model) {
    return family == ZEN_3_FAMILY && ((model >= 0x10 && model < 0x20) || (model >= 0x60 && model < 0xb0));
}

unsigned heed_x86_traits(unsigned family, unsigned model) {
    return family == ZEN_5_FAMILY    ? HEED_TRAIT_FETCHES_ONCE | HEED_TRAIT_PACKS_FOR_FEW | HEED_TRAIT_MULTIPLIES_FROM_L2
           : is_zen_4(family, model) ? HEED_TRAIT_PACKS_FOR_FEW | HEED_TRAIT_MULTIPLIES_FROM_L2 | HEED_TRAIT_FETCHES_INTO_L2 |
                                           HEED_TRAIT_TILES_PACK_FROM_FAR | HEED_TRAIT_LONG_BLOCKS_FOR_FEW
           : family == ZEN_3_FAMILY ? HEED_TRAIT_PACKS_FOR_FEW | HEED_TRAIT_FETCHES_I8_ONCE
           : family == INTEL_FAMILY ? HEED_TRAIT_RAISES_WEIGHTS | HEED_TRAIT_EXPS_APART
                                    : 0;
}
