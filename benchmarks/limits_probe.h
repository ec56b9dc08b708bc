/* The loops that measure what an instruction set can do at best: multiply-adds from registers, loads, and copies.
 *
 * One object per instruction set, benchmarks/limits_<isa>.c, built with that set's flags like the kernels, and in assembly, so
 * that neither heed's kernels nor the compiler has a part in the limit that heed is measured against.  To be called only for a set
 * that heed_info lists as usable. */
#ifndef HEED_BENCHMARKS_LIMITS_PROBE_H
#define HEED_BENCHMARKS_LIMITS_PROBE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LIMIT_READ_STEP = 1024 }; /* all three take multiples of this many bytes, aligned to 64 */

struct limit_probe {
    const char *isa;
    int64_t flops_per_round; /* of multiply_add; a fused multiply-add counts as two */
    /* Chains of multiply-adds on normal, changing values: more of them than latency times units, so that units are the limit. */
    void (*multiply_add)(int64_t rounds);
    /* Loads every byte once, in the widest vectors of the set, and uses none. */
    void (*read)(const void *data, int64_t bytes);
    /* Loads every byte once and stores it elsewhere; stream does so past the caches, where the set has stores for that. */
    void (*copy)(void *to, const void *from, int64_t bytes);
    void (*stream)(void *to, const void *from, int64_t bytes);
};

extern const struct limit_probe limit_scalar, limit_scalarfma, limit_avx2, limit_avx512, limit_avx512bf16, limit_amx, limit_neon;

#ifdef __cplusplus
}
#endif

#endif
