/* Products in HEED_COMPUTE_I8, of factors that there are (heed_gemm_reads_ab). */
#ifndef HEED_GEMM_I8_H
#define HEED_GEMM_I8_H

#include "gemm.h"

/* How such a product is cut, and what it works in. */
struct i8_run {
    const struct heed_gemm *request;
    const struct heed_epilogue *epilogue;
    const struct heed_exec *exec;
    const struct heed_kernels *kernels;
    const struct heed_i8_kernels *i8;
    int workers;
    bool packs;                    /* b, a panel at a time, for more than a few rows */
    int64_t blocks;                /* of a row */
    int64_t block_rows, row, rows; /* most rows of a in bytes at a time; those that are so now */
    int64_t task_rows, task_columns, column_tasks;
    int64_t scratch_at, panel_at, worker_floats; /* of a worker's workspace, after its sums */
    struct heed_i8_block *a;
    float *workspace;
};

/* Without workspace; floats of it; and the product in it. */
struct i8_run heed_gemm_i8_plan(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_exec *exec,
                                const struct heed_kernels *kernels);
int64_t heed_gemm_i8_floats(const struct i8_run *run);
enum heed_status heed_gemm_i8(struct i8_run *run, float *workspace);

#endif
