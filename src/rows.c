/* Rows over workers; see rows.h. */
#include "rows.h"

#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "schedule.h"

/* Rows of one task, about 16 KiB of them: enough to hide the ticket, few enough to balance. */
#define TASK_FLOATS 4096

struct rows_run {
    const struct heed_rows *rows;
    const struct heed_kernels *kernels;
    int64_t task_rows;
};

struct heed_region heed_rows_region(const char *name, const float *data, int64_t rows, int64_t columns, int64_t stride) {
    return (struct heed_region){.name = name,
                                .data = data,
                                .width = columns,
                                .count = {1, 1, rows},
                                .stride = {0, 0, stride},
                                .stride_name = {"", "", "_stride"}};
}

struct heed_region heed_rows_optional(const char *name, const float *data, int64_t rows, int64_t columns, int64_t stride) {
    return heed_rows_region(name, data, data ? rows : 0, columns, stride);
}

enum heed_status heed_rows_check_apart(const struct heed_region *output, const struct heed_region *input) {
    if (output->data == input->data && output->stride[2] == input->stride[2])
        return HEED_OK;
    return heed_region_check_apart(output, input);
}

static bool run_task(void *context, int64_t task, int worker) {
    const struct rows_run *run = context;
    const int64_t end = min_i64(run->rows->rows, (task + 1) * run->task_rows);
    (void)worker;
    for (int64_t row = task * run->task_rows; row < end; row++)
        run->rows->run(run->rows->request, run->kernels, row);
    return true;
}

enum heed_status heed_rows_run(const struct heed_rows *rows, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    if (heed_exec_check(exec))
        return HEED_INVALID_ARGUMENT;
    enum heed_status status = heed_kernels_for(exec, &kernels);
    if (status || rows->rows == 0 || rows->columns == 0)
        return status;
    struct rows_run run = {rows, kernels, max_i64(1, TASK_FLOATS / rows->columns)};
    const int64_t tasks = ceil_div(rows->rows, run.task_rows);
    const double flops = rows->flops_per_element * (double)rows->rows * (double)rows->columns;
    const uint64_t callers = heed_fp_begin();
    status = heed_schedule_run(exec, heed_schedule_workers(exec, tasks, flops), tasks, run_task, &run);
    heed_fp_end(callers);
    return status;
}
