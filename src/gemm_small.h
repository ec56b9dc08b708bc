/* Matrix products too small for a plan. */
#ifndef HEED_GEMM_SMALL_H
#define HEED_GEMM_SMALL_H

#include <stdbool.h>

#include "heed.h"
#include "kernels.h"

/* Whether the request is one of those that heed_gemm_small computes; then it and exec, but for its isa, are valid.  Others may be
 * valid or not. */
bool heed_gemm_is_small(const struct heed_gemm *request, const struct heed_exec *exec);
/* The bits of the plan's way, on the calling thread, without an allocation. */
enum heed_status heed_gemm_small(const struct heed_gemm *request, const struct heed_exec *exec);

#endif
