/* Products of a kind for which the table has dots (heed_kernels_dots), of factors that there are (heed_gemm_reads_ab).  Floats of
 * workspace, and the product in it. */
#ifndef HEED_GEMM_DOTS_H
#define HEED_GEMM_DOTS_H

#include "gemm.h"

int64_t heed_gemm_dots_floats(const struct heed_gemm *request, const struct heed_exec *exec, const struct heed_kernels *kernels);
enum heed_status heed_gemm_dots(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_exec *exec,
                                const struct heed_kernels *kernels, float *workspace);

#endif
