/* heed_softmax: check, then rows over workers. */
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "internal.h"
#include "region.h"
#include "schedule.h"

/* Rows of one task, about 16 KiB of them: enough to hide the ticket, few enough to balance. */
#define TASK_FLOATS 4096
/* An element costs about as much time as this many operations of a product. */
#define FLOPS_PER_ELEMENT 32.0

struct softmax_run {
    const struct heed_softmax *request;
    const struct heed_kernels *kernels;
    float factor; /* scale * log2(e) */
    int64_t task_rows;
};

static struct heed_region region_of(const char *name, const struct heed_softmax *request, const float *data, int64_t stride) {
    return (struct heed_region){.name = name,
                                .data = data,
                                .width = request->columns,
                                .count = {1, 1, request->rows},
                                .stride = {0, 0, stride},
                                .stride_name = {"", "", "_stride"}};
}

/* Lengths are read while outputs are written, so they may not overlap; as floats, for they are memory like any other. */
static enum heed_status check_lengths(const struct heed_softmax *request, const struct heed_region *output) {
    const int64_t floats = sizeof(int64_t) / sizeof(float);
    struct heed_region lengths = {.name = "lengths",
                                  .data = (const float *)(const void *)request->lengths,
                                  .width = floats,
                                  .count = {1, 1, request->lengths ? request->rows : 0},
                                  .stride = {0, 0, floats},
                                  .stride_name = {"", "", ""}};
    if ((uintptr_t)request->lengths % _Alignof(int64_t))
        return heed_fail(HEED_INVALID_ARGUMENT, "lengths is %p, not aligned to int64_t", (const void *)request->lengths);
    if (heed_region_check(&lengths) || heed_region_check_apart(output, &lengths))
        return HEED_INVALID_ARGUMENT;
    for (int64_t i = 0; request->lengths && i < request->rows; i++)
        if (request->lengths[i] < 0 || request->lengths[i] > request->columns)
            return heed_fail(HEED_INVALID_ARGUMENT, "lengths[%lld] is %lld, must be in [0, %lld]", (long long)i,
                             (long long)request->lengths[i], (long long)request->columns);
    return HEED_OK;
}

static enum heed_status check(const struct heed_softmax *request) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "softmax is NULL");
    if (heed_check_range("rows", request->rows, 0, INT64_MAX) || heed_check_range("columns", request->columns, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if (!isfinite(request->scale))
        return heed_fail(HEED_INVALID_ARGUMENT, "scale is %f, must be finite", (double)request->scale);
    struct heed_region input = region_of("input", request, request->input, request->input_stride);
    struct heed_region output = region_of("output", request, request->output, request->output_stride);
    if (heed_region_check(&input) || heed_region_check(&output) || heed_region_check_rows_apart(&output) ||
        check_lengths(request, &output))
        return HEED_INVALID_ARGUMENT;
    if (request->input != request->output || request->input_stride != request->output_stride)
        return heed_region_check_apart(&output, &input);
    return HEED_OK;
}

static bool run_task(void *context, int64_t task, int worker) {
    const struct softmax_run *run = context;
    const struct heed_softmax *request = run->request;
    const int64_t end = min_i64(request->rows, (task + 1) * run->task_rows);
    (void)worker;
    for (int64_t i = task * run->task_rows; i < end; i++) {
        const int64_t n = request->lengths ? request->lengths[i] : request->columns;
        float *output = request->output + i * request->output_stride;
        run->kernels->softmax_row(request->input + i * request->input_stride, n, run->factor, output);
        memset(output + n, 0, (size_t)(request->columns - n) * sizeof(float));
    }
    return true;
}

static enum heed_status run_rows(const struct heed_softmax *request, const struct heed_exec *exec,
                                 const struct heed_kernels *kernels) {
    const float log2e = 0x1.715476p+0f;
    struct softmax_run run = {request, kernels, (request->scale != 0.0f ? request->scale : 1.0f) * log2e,
                              max_i64(1, TASK_FLOATS / request->columns)};
    const int64_t tasks = ceil_div(request->rows, run.task_rows);
    const double flops = FLOPS_PER_ELEMENT * (double)request->rows * (double)request->columns;
    return heed_schedule_run(exec, heed_schedule_workers(exec, tasks, flops), tasks, run_task, &run);
}

HEED_API enum heed_status heed_softmax(const struct heed_softmax *softmax, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    enum heed_status status = check(softmax);
    if (status == HEED_OK)
        status = heed_exec_check(exec);
    if (status == HEED_OK)
        status = heed_kernels_for(exec, &kernels);
    if (status || softmax->rows == 0 || softmax->columns == 0)
        return status;
    const uint64_t callers = heed_fp_begin();
    status = run_rows(softmax, exec, kernels);
    heed_fp_end(callers);
    return status;
}
