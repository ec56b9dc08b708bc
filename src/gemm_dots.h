/* Products in HEED_COMPUTE_BF16_AMX, of factors that there are (heed_gemm_reads_ab). */
#ifndef HEED_GEMM_DOTS_H
#define HEED_GEMM_DOTS_H

#include "gemm.h"

/* How such a product is cut, and what it works in. */
struct dots_run {
    const struct heed_gemm *request;
    const struct heed_epilogue *epilogue;
    const struct heed_exec *exec;
    const struct heed_kernels *kernels;
    const struct heed_dots *dots;
    int workers;
    int64_t k, block_k, block_rows, block_columns; /* k: rounded up to HEED_DOT */
    bool b_is_ready;                               /* packed words are read where they are */
    int64_t ready_rows;                            /* of a, which are read where they are; all others are arranged */
    int64_t row, rows;                             /* of the block of a that is multiplied now */
    int64_t task_rows, task_columns, column_tasks;
    /* A worker's workspace: a block of b, sums, what b's panel is made of. */
    int64_t panel_floats, ld_sums, sums_at, source_at, worker_floats;
    int64_t lda; /* of the rows in a */
    float *a, *workspace;
};

/* Without workspace; floats of it; and the product in it. */
struct dots_run heed_gemm_dots_plan(const struct heed_gemm *request, const struct heed_epilogue *epilogue,
                                    const struct heed_exec *exec, const struct heed_kernels *kernels);
int64_t heed_gemm_dots_floats(const struct dots_run *run);
enum heed_status heed_gemm_dots(struct dots_run *run, float *workspace);

#endif
