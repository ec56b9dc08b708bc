/* Rows over workers; see rows.h. */
#include "rows.h"

#include <stddef.h>

#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"

/* Of one task: the least hides the ticket; the most is some 100 us, after which a caller may want no more, but rows enough for a
 * softmax that stores past the caches, whose last row is stored by itself; so many tasks for each worker balance. */
enum { LEAST_FLOATS = 4 << 10, MOST_FLOATS = 256 << 10, MOST_ROWS = 8, TASKS_OF_WORKER = 16 };

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

struct heed_source heed_rows_source(const struct heed_input *input, int64_t row, int64_t column) {
    if (!input->data)
        return (struct heed_source){.data = NULL};
    return (struct heed_source){type_at(input->type, input->data, row * input->token_stride + column), input->type};
}

struct heed_target heed_rows_target(const struct heed_output *output, int64_t row, int64_t column) {
    if (!output->data)
        return (struct heed_target){.data = NULL};
    return (struct heed_target){type_at_output(output->type, output->data, row * output->token_stride + column), output->type};
}

struct heed_region heed_rows_view(const char *name, const struct heed_input *view, int64_t rows, int64_t columns) {
    return heed_region_of_matrix(name, ".token_stride", view->data, view->type, rows, columns, view->token_stride);
}

struct heed_region heed_rows_optional_view(const char *name, const struct heed_input *view, int64_t rows, int64_t columns) {
    static const struct heed_input none;
    return heed_rows_view(name, view->data ? view : &none, view->data ? rows : 0, columns);
}

struct heed_region heed_rows_output(const char *name, const struct heed_output *view, int64_t rows, int64_t columns) {
    return heed_region_of_matrix(name, ".token_stride", view->data, view->type, rows, columns, view->token_stride);
}

enum heed_status heed_rows_check_apart(const struct heed_region *output, const struct heed_region *input) {
    const bool alike = output->stride[1] == input->stride[1] && output->stride[2] == input->stride[2];
    if (output->data == input->data && alike && output->type == input->type)
        return HEED_OK;
    return heed_region_check_apart(output, input);
}

static bool run_task(void *context, int64_t task, int worker) {
    const struct rows_run *run = context;
    const struct heed_rows *rows = run->rows;
    const int64_t begin = task * run->task_rows, end = min_i64(rows->rows, begin + run->task_rows);
    (void)worker;
    if (rows->run_rows)
        rows->run_rows(rows->request, run->kernels, begin, end - begin);
    for (int64_t row = begin; row < end && rows->run; row++)
        rows->run(rows->request, run->kernels, row);
    return true;
}

enum heed_status heed_rows_run(const struct heed_rows *rows, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    enum heed_status status = heed_exec_kernels(exec, &kernels);
    if (status || rows->rows == 0 || rows->columns == 0)
        return status;
    const int64_t least = max_i64(1, LEAST_FLOATS / rows->columns), most = max_i64(MOST_ROWS, MOST_FLOATS / rows->columns);
    const double flops = rows->flops_per_element * (double)rows->rows * (double)rows->columns;
    const int workers = heed_schedule_workers(exec, ceil_div(rows->rows, least), flops);
    const int64_t share = workers > 1 ? rows->rows / workers / TASKS_OF_WORKER : most;
    struct rows_run run = {rows, kernels, max_i64(least, min_i64(most, share))};
    const uint64_t callers = heed_fp_begin();
    status = heed_schedule_run(exec, workers, ceil_div(rows->rows, run.task_rows), run_task, &run);
    heed_fp_end(callers);
    return status;
}
