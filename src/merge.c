/* heed_merge_states: one state after another, as attention itself merges its chunks. */
#include "merge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "arithmetic.h"
#include "attention.h"
#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "internal.h"
#include "region.h"
#include "schedule.h"

enum { COLUMNS = 256 /* of an output row merged at once, on the stack */, TASK_ROWS = 16 };

void heed_state_of_sink(float sink, float *max, float *sum) {
    const float scaled = sink * HEED_LOG2E;
    /* exp(inf - inf) is NaN, so an infinite sink makes NaN even of a row that sees no key. */
    const bool is_nan = !(scaled < INFINITY);
    *max = is_nan ? -INFINITY : scaled;
    *sum = is_nan ? __builtin_nanf("") : scaled == -INFINITY ? 0.0f : 1.0f;
}

float heed_log_sum_exp(float max, float sum) {
    if (sum == 0.0f)
        return -INFINITY;
    /* The machine's best table, whichever runs: its logarithm is the same for all. */
    const float lse = __builtin_fmaf(max, HEED_LN2, heed_kernels_usable(0)->log(sum));
    return lse != lse ? __builtin_nanf("") : lse;
}

static struct heed_region region_of(const char *name, const struct heed_merge *merge, int64_t width,
                                    const struct heed_input *view) {
    return (struct heed_region){.name = name,
                                .data = view->data,
                                .type = view->type,
                                .width = width,
                                .count = {merge->batch, merge->num_heads, merge->query_tokens},
                                .stride = {view->batch_stride, view->head_stride, view->token_stride},
                                .stride_name = {".batch_stride", ".head_stride", ".token_stride"}};
}

static struct heed_region output_region_of(const char *name, const struct heed_merge *merge, int64_t width,
                                           const struct heed_output *view) {
    const struct heed_input input = {view->data, view->batch_stride, view->head_stride, view->token_stride, view->type};
    return region_of(name, merge, view->data ? width : 0, &input);
}

/* An output is in order by itself and apart from `other`. */
static enum heed_status check_output(struct heed_region *output, const struct heed_region *other) {
    if (heed_region_check(output) || heed_region_check_rows_apart(output))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(output, other);
}

static enum heed_status check_part(const struct heed_merge *merge, int64_t index, struct heed_region outputs[2]) {
    const struct heed_states_part *part = &merge->part[index];
    char names[4][48];
    int64_t width;
    static const char *const fields[] = {"chunks", "output", "max", "sum"};
    for (int i = 0; i < 4; i++)
        snprintf(names[i], sizeof names[i], "part[%" PRId64 "].%s", index, fields[i]);
    if (heed_check_range(names[0], part->chunks, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if (__builtin_mul_overflow(part->chunks, merge->value_dim, &width))
        width = INT64_MAX;
    struct heed_region inputs[] = {region_of(names[1], merge, width, &part->output),
                                   region_of(names[2], merge, part->chunks, &part->max),
                                   region_of(names[3], merge, part->chunks, &part->sum)};
    for (int i = 0; i < 3; i++)
        if (heed_region_check(&inputs[i]) || check_output(&outputs[0], &inputs[i]) || check_output(&outputs[1], &inputs[i]))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

static enum heed_status check(const struct heed_merge *merge) {
    if (!merge)
        return heed_fail(HEED_INVALID_ARGUMENT, "merge is NULL");
    const struct {
        const char *name;
        int64_t value, least, most;
    } sizes[] = {
        {"batch", merge->batch, 0, INT64_MAX},
        {"num_heads", merge->num_heads, 0, INT64_MAX},
        {"query_tokens", merge->query_tokens, 0, INT64_MAX},
        {"value_dim", merge->value_dim, 1, INT32_MAX},
        {"parts", merge->parts, 0, INT64_MAX},
        {"compute", (int)merge->compute, HEED_COMPUTE_F32, HEED_COMPUTE_BF16_AMX},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (heed_check_range(sizes[i].name, sizes[i].value, sizes[i].least, sizes[i].most))
            return HEED_INVALID_ARGUMENT;
    if (merge->parts > 0 && !merge->part)
        return heed_fail(HEED_INVALID_ARGUMENT, "part is NULL, but parts is %" PRId64, merge->parts);
    struct heed_region outputs[] = {output_region_of("output", merge, merge->value_dim, &merge->output),
                                    output_region_of("lse", merge, 1, &merge->lse)};
    struct heed_region sinks = {
        .name = "sinks", .data = merge->sinks, .width = merge->sinks ? merge->num_heads : 0, .count = {1, 1, 1}};
    if (heed_region_check(&sinks) || check_output(&outputs[0], &sinks) || check_output(&outputs[1], &outputs[0]) ||
        check_output(&outputs[1], &sinks))
        return HEED_INVALID_ARGUMENT;
    for (int64_t i = 0; i < merge->parts; i++)
        if (check_part(merge, i, outputs))
            return HEED_INVALID_ARGUMENT;
    /* An output also bounds the number of rows. */
    if (!merge->output.data && !merge->lse.data && merge->batch > 0 && merge->num_heads > 0 && merge->query_tokens > 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "output is NULL, and lse is not wanted either");
    return HEED_OK;
}

struct merge_run {
    const struct heed_merge *request;
    const struct heed_kernels *kernels;
    int64_t rows;
};

struct merge_row {
    int64_t batch, head, token;
};

static int64_t offset_of(const struct merge_row *row, int64_t batch_stride, int64_t head_stride, int64_t token_stride) {
    return row->batch * batch_stride + row->head * head_stride + row->token * token_stride;
}
static const float *input_row(const struct merge_row *row, const struct heed_input *view) {
    return (const float *)view->data + offset_of(row, view->batch_stride, view->head_stride, view->token_stride);
}

/* All states of a row for columns [column, column + n), and into the output; max and sum come out the same each time. */
static void merge_columns(const struct merge_run *run, const struct merge_row *row, int64_t column, int64_t n, float *max,
                          float *sum) {
    const struct heed_merge *request = run->request;
    float output[COLUMNS] = {0}, old_max[16], old_sum[16] = {0}, chunk_max[16], chunk_sum[16] = {0}, keep_old[16], take_new[16];
    for (int i = 0; i < 16; i++)
        old_max[i] = chunk_max[i] = 0.0f;
    old_max[0] = -INFINITY;
    if (request->sinks)
        heed_state_of_sink(request->sinks[row->head], old_max, old_sum);
    for (int64_t p = 0; p < request->parts; p++) {
        const struct heed_states_part *part = &request->part[p];
        for (int64_t chunk = 0; chunk < part->chunks; chunk++) {
            chunk_max[0] = input_row(row, &part->max)[chunk];
            chunk_sum[0] = input_row(row, &part->sum)[chunk];
            run->kernels->merge_rows(&(struct heed_merge_rows){1, old_max, old_sum, chunk_max, chunk_sum, keep_old, take_new});
            run->kernels->merge_row(output, input_row(row, &part->output) + chunk * request->value_dim + column, n, keep_old[0],
                                    take_new[0]);
        }
    }
    *max = old_max[0];
    *sum = old_sum[0];
    if (request->output.data)
        run->kernels->finish_rows(
            output, 0, sum, 1, n,
            (float *)request->output.data + column +
                offset_of(row, request->output.batch_stride, request->output.head_stride, request->output.token_stride),
            HEED_F32, 0);
}

static bool merge_task(void *context, int64_t task, int worker) {
    const struct merge_run *run = context;
    const struct heed_merge *request = run->request;
    const struct heed_output *lse = &request->lse;
    (void)worker;
    if (request->compute != HEED_COMPUTE_F32)
        heed_fp_flush(true);
    for (int64_t r = task * TASK_ROWS; r < min_i64(run->rows, (task + 1) * TASK_ROWS); r++) {
        const int64_t head = r / request->query_tokens;
        const struct merge_row row = {head / request->num_heads, head % request->num_heads, r % request->query_tokens};
        float max, sum;
        for (int64_t column = 0; column < request->value_dim; column += COLUMNS)
            merge_columns(run, &row, column, min_i64(COLUMNS, request->value_dim - column), &max, &sum);
        if (lse->data)
            ((float *)lse->data)[offset_of(&row, lse->batch_stride, lse->head_stride, lse->token_stride)] =
                heed_log_sum_exp(max, sum);
    }
    if (request->compute != HEED_COMPUTE_F32)
        heed_fp_flush(false);
    return true;
}

HEED_API enum heed_status heed_merge_states(const struct heed_merge *merge, const struct heed_exec *exec) {
    struct merge_run run = {.request = merge};
    enum heed_status status = check(merge);
    if (status == HEED_OK)
        status = heed_exec_kernels(exec, &run.kernels);
    if (status || merge->batch == 0 || merge->num_heads == 0 || merge->query_tokens == 0)
        return status;
    run.rows = merge->batch * merge->num_heads * merge->query_tokens;
    double flops = 0;
    for (int64_t i = 0; i < merge->parts; i++)
        flops += 3.0 * (double)run.rows * (double)merge->part[i].chunks * (double)merge->value_dim;
    const int64_t tasks = ceil_div(run.rows, TASK_ROWS);
    const uint64_t callers = heed_fp_begin();
    status = heed_schedule_run(exec, heed_schedule_workers(exec, tasks, flops), tasks, merge_task, &run);
    heed_fp_end(callers);
    return status;
}
