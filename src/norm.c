/* heed_layer_norm and heed_rms_norm: check, then rows over workers. */
#include <math.h>
#include <stddef.h>

#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "internal.h"
#include "region.h"
#include "schedule.h"

/* Rows of one task, about 16 KiB of them: enough to hide the ticket, few enough to balance. */
#define TASK_FLOATS 4096
/* An element costs about as much time as this many operations of a product. */
#define FLOPS_PER_ELEMENT 16.0

struct norm_run {
    const struct heed_norm *request;
    const struct heed_kernels *kernels;
    bool centers;
    int64_t task_rows;
};

static struct heed_region region_of(const char *name, const struct heed_norm *request, const float *data, int64_t rows,
                                    int64_t stride) {
    return (struct heed_region){.name = name,
                                .data = data,
                                .width = request->columns,
                                .count = {1, 1, rows},
                                .stride = {0, 0, stride},
                                .stride_name = {"", "", "_stride"}};
}

enum { OUTPUT, SUM, INPUT, RESIDUAL, GAIN, BIAS, REGIONS };

static void find_regions(const struct heed_norm *r, struct heed_region regions[REGIONS]) {
    regions[OUTPUT] = region_of("output", r, r->output, r->rows, r->output_stride);
    regions[SUM] = region_of("sum", r, r->sum, r->sum ? r->rows : 0, r->sum_stride);
    regions[INPUT] = region_of("input", r, r->input, r->rows, r->input_stride);
    regions[RESIDUAL] = region_of("residual", r, r->residual, r->residual ? r->rows : 0, r->residual_stride);
    regions[GAIN] = region_of("gain", r, r->gain, r->gain && r->rows > 0, 0);
    regions[BIAS] = region_of("bias", r, r->bias, r->bias && r->rows > 0, 0);
}

static bool are_same(const struct heed_region *a, const struct heed_region *b) {
    return a->data == b->data && a->stride[2] == b->stride[2];
}

/* Each row is read before it is written, so an output may be one of the tensors that are read row by row. */
static enum heed_status check_apart(const struct heed_region regions[REGIONS]) {
    for (int i = OUTPUT; i <= SUM; i++)
        for (int j = i + 1; j < REGIONS; j++) {
            const bool by_row = j == INPUT || j == RESIDUAL;
            if (!(by_row && are_same(&regions[i], &regions[j])) && heed_region_check_apart(&regions[i], &regions[j]))
                return HEED_INVALID_ARGUMENT;
        }
    return HEED_OK;
}

static enum heed_status check(const struct heed_norm *request) {
    struct heed_region regions[REGIONS];
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "norm is NULL");
    if (heed_check_range("rows", request->rows, 0, INT64_MAX) || heed_check_range("columns", request->columns, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if (!isfinite(request->epsilon) || request->epsilon < 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "epsilon is %g, must be finite and at least 0", (double)request->epsilon);
    find_regions(request, regions);
    for (int i = 0; i < REGIONS; i++)
        if (heed_region_check(&regions[i]))
            return HEED_INVALID_ARGUMENT;
    if (heed_region_check_rows_apart(&regions[OUTPUT]) || heed_region_check_rows_apart(&regions[SUM]))
        return HEED_INVALID_ARGUMENT;
    return check_apart(regions);
}

static bool run_task(void *context, int64_t task, int worker) {
    const struct norm_run *run = context;
    const struct heed_norm *request = run->request;
    const int64_t end = min_i64(request->rows, (task + 1) * run->task_rows);
    (void)worker;
    for (int64_t i = task * run->task_rows; i < end; i++)
        run->kernels->norm_row(&(struct heed_norm_row){
            .n = request->columns,
            .centers = run->centers,
            .epsilon = request->epsilon,
            .input = request->input + i * request->input_stride,
            .residual = request->residual ? request->residual + i * request->residual_stride : NULL,
            .gain = request->gain,
            .bias = request->bias,
            .y = request->output + i * request->output_stride,
            .sum = request->sum ? request->sum + i * request->sum_stride : NULL,
        });
    return true;
}

static enum heed_status normalise(const struct heed_norm *request, bool centers, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    enum heed_status status = check(request);
    if (status == HEED_OK)
        status = heed_exec_check(exec);
    if (status == HEED_OK)
        status = heed_kernels_for(exec, &kernels);
    if (status || request->rows == 0 || request->columns == 0)
        return status;
    struct norm_run run = {request, kernels, centers, max_i64(1, TASK_FLOATS / request->columns)};
    const int64_t tasks = ceil_div(request->rows, run.task_rows);
    const double flops = FLOPS_PER_ELEMENT * (double)request->rows * (double)request->columns;
    const uint64_t callers = heed_fp_begin();
    status = heed_schedule_run(exec, heed_schedule_workers(exec, tasks, flops), tasks, run_task, &run);
    heed_fp_end(callers);
    return status;
}

HEED_API enum heed_status heed_layer_norm(const struct heed_norm *norm, const struct heed_exec *exec) {
    return normalise(norm, true, exec);
}

HEED_API enum heed_status heed_rms_norm(const struct heed_norm *norm, const struct heed_exec *exec) {
    return normalise(norm, false, exec);
}
