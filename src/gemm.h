/* Matrix products from request to result: validate (gemm_check.c), plan and run (gemm.c), few rows (gemm_thin.c). */
#ifndef HEED_GEMM_H
#define HEED_GEMM_H

#include <stdbool.h>

#include "heed.h"
#include "kernels.h"

/* Whether a request may be run: sizes, leading dimensions, pointers, overlap. */
enum heed_status heed_gemm_check(const struct heed_gemm *request);
enum heed_status heed_gemm_check_pack(const struct heed_gemm *request, const float *packed_b);
static inline bool heed_gemm_reads_ab(const struct heed_gemm *request) { return request->alpha != 0.0f && request->k > 0; }

enum {
    HEED_GEMM_FEW_ROWS = 12, /* up to so many, a product waits for b */
    HEED_GEMM_THIN_FLOATS = HEED_GEMM_FEW_ROWS * HEED_PANEL
};
/* Whether heed_gemm_thin computes all rows of this request, columns [column, end) a call; column is a multiple of HEED_PANEL.
 * sums has HEED_GEMM_THIN_FLOATS, aligned to 64 bytes.  False: the call was cancelled. */
bool heed_gemm_is_thin(const struct heed_gemm *request, const struct heed_kernels *kernels);
bool heed_gemm_thin(const struct heed_gemm *request, const struct heed_exec *exec, const struct heed_kernels *kernels,
                    int64_t column, int64_t end, float *sums);

#endif
