/* Any other architecture: no features; the floating-point environment through the C library. */
#include "cpu.h"

#include <fenv.h>

unsigned heed_cpu_features(void) { return 0; }

unsigned heed_cpu_costly(void) { return 0; }

unsigned heed_cpu_traits(void) { return 0; }

void heed_cpu_set_traits(unsigned traits) { (void)traits; }

const char *heed_cpu_feature_names(void) { return ""; }

/* The rounding mode is all that C can name; heed has no SIMD kernels here, and no flush-to-zero mode is known to be on. */
uint64_t heed_fp_begin(void) {
    const int callers = fegetround();
    fesetround(FE_TONEAREST);
    return (uint64_t)callers;
}

void heed_fp_end(uint64_t callers) { fesetround((int)callers); }

/* C cannot say it: the exception that src/arithmetic.md names. */
void heed_fp_flush(bool on) { (void)on; }
