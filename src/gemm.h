/* Matrix products from request to result: validate (gemm_check.c), plan and run (gemm.c). */
#ifndef HEED_GEMM_H
#define HEED_GEMM_H

#include <stdbool.h>

#include "heed.h"

/* Whether a request may be run: sizes, leading dimensions, pointers, overlap. */
enum heed_status heed_gemm_check(const struct heed_gemm *request);
enum heed_status heed_gemm_check_pack(const struct heed_gemm *request, const float *packed_b);
static inline bool heed_gemm_reads_ab(const struct heed_gemm *request) { return request->alpha != 0.0f && request->k > 0; }

#endif
