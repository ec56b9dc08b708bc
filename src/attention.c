/* heed_attention: check, plan, run. */
#include "attention.h"

#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "internal.h"
#include "schedule.h"
#include "workspace.h"

struct attention_run {
    const struct attention_plan *plan;
    float *workspace;
};

static void run_task(void *context, int64_t task, int worker) {
    const struct attention_run *run = context;
    heed_attention_block(run->plan, task, run->workspace + worker * run->plan->layout.floats);
}

static enum heed_status plan_and_run(const struct heed_attention *request, const struct heed_exec *exec,
                                     const struct heed_kernels *kernels) {
    struct attention_plan plan;
    struct heed_workspace workspace;
    heed_attention_prepare(request, exec, kernels, &plan);
    const enum heed_status status = workspace_open(&workspace, plan.workers * plan.layout.floats);
    if (status)
        return status;
    heed_schedule_run(exec, plan.workers, plan.tasks, run_task, &(struct attention_run){&plan, workspace.data});
    workspace_close(&workspace);
    return HEED_OK;
}

HEED_API enum heed_status heed_attention(const struct heed_attention *attention, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    enum heed_status status = heed_attention_check(attention);
    if (status == HEED_OK)
        status = heed_exec_check(exec);
    if (status == HEED_OK)
        status = heed_kernels_for(exec, &kernels);
    if (status || attention->batch == 0 || attention->num_heads == 0 || attention->query_tokens == 0)
        return status;
    const uint64_t callers = heed_fp_begin();
    status = plan_and_run(attention, exec, kernels);
    heed_fp_end(callers);
    return status;
}
