/* heed_gemm: by which way a product goes, and what surrounds it: the plan, the workspace, the floating-point environment. */
#include "cpu.h"
#include "dispatch.h"
#include "gemm_dots.h"
#include "gemm_i8.h"
#include "gemm_plan.h"
#include "gemm_small.h"
#include "workspace.h"

/* One of the plans, made once: it takes a twelfth of the time of 16 x 16 x 16 pairs. */
struct gemm_way {
    enum { TILES, DOTS, I8 } is;
    struct gemm_run tiles;
    struct dots_run dots;
    struct i8_run i8;
};

static void plan_way(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_exec *exec,
                     const struct heed_kernels *kernels, struct gemm_way *way) {
    const bool reads_ab = heed_gemm_reads_ab(request);
    way->is = reads_ab && request->compute == HEED_COMPUTE_BF16_AMX ? DOTS
              : reads_ab && request->compute == HEED_COMPUTE_I8     ? I8
                                                                    : TILES;
    if (way->is == DOTS)
        way->dots = heed_gemm_dots_plan(request, epilogue, exec, kernels);
    else if (way->is == I8)
        way->i8 = heed_gemm_i8_plan(request, epilogue, exec, kernels);
    else
        way->tiles = heed_gemm_plan(request, epilogue, exec, kernels);
}

static int64_t workspace_floats(const struct gemm_way *way) {
    return way->is == DOTS ? heed_gemm_dots_floats(&way->dots)
           : way->is == I8 ? heed_gemm_i8_floats(&way->i8)
                           : workspace_product(way->tiles.workers, way->tiles.worker_floats);
}

static enum heed_status run_way(struct gemm_way *way, float *workspace) {
    return way->is == DOTS ? heed_gemm_dots(&way->dots, workspace)
           : way->is == I8 ? heed_gemm_i8(&way->i8, workspace)
                           : heed_gemm_tiles(&way->tiles, workspace);
}

enum heed_status heed_gemm_run(const struct heed_gemm *checked, const struct heed_epilogue *epilogue,
                               const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    enum heed_status status = heed_exec_kernels(exec, &kernels);
    if (status || checked->m == 0 || checked->n == 0)
        return status;
    const struct heed_gemm request = heed_gemm_safe(checked);
    struct gemm_way way;
    struct heed_workspace workspace;
    plan_way(&request, epilogue, exec, kernels, &way);
    const int64_t floats = workspace_floats(&way);
    if (workspace_check_floats(floats))
        return HEED_OUT_OF_MEMORY;
    status = workspace_open(&workspace, exec, floats);
    if (status)
        return status;
    const uint64_t callers = heed_fp_begin();
    status = run_way(&way, workspace.data);
    heed_fp_end(callers);
    workspace_close(&workspace);
    return status;
}

int64_t heed_gemm_workspace(const struct heed_gemm *checked, const struct heed_epilogue *epilogue, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    if (heed_exec_kernels(exec, &kernels))
        return -1;
    if (checked->m == 0 || checked->n == 0)
        return 0;
    const struct heed_gemm request = heed_gemm_safe(checked);
    struct gemm_way way;
    plan_way(&request, epilogue, exec, kernels, &way);
    const int64_t floats = workspace_floats(&way);
    return workspace_check_floats(floats) ? -1 : workspace_bytes(floats);
}

HEED_API int64_t heed_gemm_workspace_bytes(const struct heed_gemm *gemm, const struct heed_exec *exec) {
    return heed_gemm_check(gemm, &heed_gemm_names) ? -1 : heed_gemm_workspace(gemm, NULL, exec);
}

HEED_API enum heed_status heed_gemm(const struct heed_gemm *gemm, const struct heed_exec *exec) {
    if (heed_gemm_is_small(gemm, exec))
        return heed_gemm_small(gemm, exec);
    const enum heed_status status = heed_gemm_check(gemm, &heed_gemm_names);
    return status ? status : heed_gemm_run(gemm, NULL, exec);
}
