/* heed_attention, and heed_attention_plan with heed_attention_run: check, plan, run. */
#include "attention.h"

#include "arithmetic.h"
#include "attention_small.h"
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

static float *worker_part(const struct attention_run *run, int worker) {
    return run->workspace + run->plan->layout.shared + worker * run->plan->layout.worker;
}

typedef bool attention_task(const struct attention_plan *plan, int64_t task, float *shared, float *workspace);

static bool run_task(attention_task *fn, const struct attention_run *run, int64_t task, int worker) {
    const bool flushes = compute_flushes(run->plan->request->compute);
    if (flushes)
        heed_fp_flush(true);
    const bool done = fn(run->plan, task, run->workspace, worker_part(run, worker));
    if (flushes)
        heed_fp_flush(false);
    return done;
}

static bool run_block(void *context, int64_t task, int worker) { return run_task(heed_attention_task, context, task, worker); }

static bool run_mass(void *context, int64_t task, int worker) { return run_task(heed_attention_mass_task, context, task, worker); }

/* One after the other.  most: for any lengths. */
static int64_t workspace_floats(const struct attention_plans *plans, bool most) {
    int64_t floats = 0;
    for (const struct attention_plan *plan = plans->plan; plan < plans->plan + plans->count; plan++)
        floats = max_i64(floats,
                         plan->layout.shared + workspace_product(most ? plan->most_workers : plan->workers, plan->layout.worker));
    return floats;
}

static int64_t bytes_of(const struct attention_plans *made) { return workspace_floats(made, false) * (int64_t)sizeof(float); }

static enum heed_status run_plan(const struct attention_plan *plan, float *workspace) {
    struct attention_run run = {plan, workspace};
    atomic_int *splits_left = (atomic_int *)(workspace + plan->layout.splits_left);
    for (int64_t head = 0; plan->splits > 1 && head < plan->heads; head++)
        atomic_init(splits_left + head, (int)plan->splits);
    if (plan->request->relative.table)
        heed_relative_steps(&plan->request->relative, (int *)(workspace + plan->layout.relative_step));
    const enum heed_status status = heed_schedule_run(plan->exec, plan->workers, plan->tasks, run_block, &run);
    const int64_t mass_tasks = heed_attention_mass_tasks(plan);
    if (status || mass_tasks == 0)
        return status;
    return heed_schedule_run(plan->exec, (int)min_i64(plan->workers, mass_tasks), mass_tasks, run_mass, &run);
}

static enum heed_status run_plans(const struct attention_plans *plans, float *workspace) {
    enum heed_status status = HEED_OK;
    for (int i = 0; status == HEED_OK && i < plans->count; i++)
        status = run_plan(&plans->plan[i], workspace);
    return status;
}

static enum heed_status check(const struct heed_attention *attention, const struct heed_exec *exec,
                              const struct heed_kernels **kernels) {
    const enum heed_status status = heed_attention_check(attention);
    return status ? status : heed_exec_kernels(exec, kernels);
}

static bool is_empty(const struct heed_attention *attention) { return attention->batch == 0 || attention->num_heads == 0; }

static enum heed_status plan_and_run(const struct heed_attention *attention, const struct heed_exec *exec,
                                     const struct heed_kernels *kernels) {
    struct attention_plans plans;
    struct heed_workspace workspace;
    heed_attention_prepare(attention, exec, kernels, false, &plans);
    const int64_t floats = workspace_floats(&plans, false);
    enum heed_status status = workspace_check_floats(floats);
    if (status == HEED_OK)
        status = workspace_open(&workspace, exec, floats);
    if (status)
        return status;
    status = run_plans(&plans, workspace.data);
    workspace_close(&workspace);
    return status;
}

HEED_API enum heed_status heed_attention(const struct heed_attention *attention, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    const bool small = heed_attention_is_small(attention, exec);
    enum heed_status status = small ? heed_exec_kernels(exec, &kernels) : check(attention, exec, &kernels);
    if (status || is_empty(attention))
        return status;
    if (small) {
        heed_attention_small(attention, kernels);
        return HEED_OK;
    }
    const uint64_t callers = heed_fp_begin();
    status = plan_and_run(attention, exec, kernels);
    heed_fp_end(callers);
    return status;
}

HEED_API enum heed_status heed_attention_plan(const struct heed_attention *attention, const struct heed_exec *exec,
                                              struct heed_plan *plan) {
    const struct heed_kernels *kernels;
    struct attention_plans made = {.count = 0};
    enum heed_status status = plan ? check(attention, exec, &kernels) : heed_fail(HEED_INVALID_ARGUMENT, "plan is NULL");
    if (status)
        return status;
    if (!is_empty(attention)) {
        const uint64_t callers = heed_fp_begin();
        heed_attention_prepare(attention, exec, kernels, true, &made);
        heed_fp_end(callers);
    }
    const int64_t floats = workspace_floats(&made, true);
    status = workspace_check_floats(floats);
    if (status)
        return status;
    *plan = (struct heed_plan){.isa = kernels->name, .attention = *attention};
    if (exec)
        plan->exec = *exec;
    plan->exec.isa = kernels->name;
    plan->workspace_bytes = floats * (int64_t)sizeof(float);
    for (int i = 0; i < made.count; i++) {
        plan->tasks += made.plan[i].tasks + heed_attention_mass_tasks(&made.plan[i]);
        plan->workers = (int)max_i64(plan->workers, made.plan[i].workers);
    }
    return HEED_OK;
}

/* More threads may be on offer than when the workspace was planned, which is for the workers of that moment. */
static enum heed_status run_in(void *workspace, const struct heed_plan *plan, const struct heed_attention *request,
                               const struct heed_kernels *kernels) {
    struct attention_plans made;
    struct heed_exec exec = plan->exec;
    const uint64_t callers = heed_fp_begin();
    heed_attention_prepare(request, &exec, kernels, false, &made);
    if (bytes_of(&made) > plan->workspace_bytes && plan->workers > 0) {
        exec.threads = plan->workers;
        heed_attention_prepare(request, &exec, kernels, false, &made);
    }
    enum heed_status status = workspace_check("workspace", workspace, plan->workspace_bytes, bytes_of(&made));
    if (status == HEED_OK)
        status = run_plans(&made, workspace);
    heed_fp_end(callers);
    return status;
}

HEED_API enum heed_status heed_attention_run(const struct heed_plan *plan, const struct heed_attention *attention,
                                             void *workspace) {
    const struct heed_kernels *kernels;
    if (!plan)
        return heed_fail(HEED_INVALID_ARGUMENT, "plan is NULL");
    if (!plan->isa)
        return heed_fail(HEED_INVALID_ARGUMENT, "plan.isa is NULL: it is not one that heed_attention_plan made");
    const struct heed_attention *request = attention ? attention : &plan->attention;
    const bool small = heed_attention_is_small(request, &plan->exec);
    enum heed_status status = small ? heed_exec_kernels(&plan->exec, &kernels) : check(request, &plan->exec, &kernels);
    if (status || is_empty(request))
        return status;
    if (!small)
        return run_in(workspace, plan, request, kernels);
    /* Not used, but what is wrong with it is so for all lengths that the plan is for. */
    status = workspace_check("workspace", workspace, plan->workspace_bytes, plan->workspace_bytes);
    if (status == HEED_OK)
        heed_attention_small(request, kernels);
    return status;
}
