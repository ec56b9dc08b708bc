/* heed_merge_states: one state after another, as attention itself merges its chunks. */
#include "merge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arithmetic.h"
#include "attention.h"
#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "internal.h"
#include "region.h"
#include "schedule.h"

/* Rows of a task, whose factors are computed side by side (one by one, merging takes 2.6 times as long); and columns of their
 * outputs and chunks that are merged at once, on the stack. */
enum { TASK_ROWS = 16, COLUMNS = 256, CHUNKS = 32 };

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
    struct heed_region region = heed_region_of_view(name, view, false, merge->batch, merge->num_heads, merge->query_tokens, width);
    region.any_type = false;
    return region;
}

static struct heed_region output_region_of(const char *name, const struct heed_merge *merge, int64_t width,
                                           const struct heed_output *view) {
    const struct heed_input input = view_of_output(view);
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
    const struct heed_limit sizes[] = {
        {"batch", merge->batch, 0, INT64_MAX},
        {"num_heads", merge->num_heads, 0, INT64_MAX},
        {"query_tokens", merge->query_tokens, 0, INT64_MAX},
        {"value_dim", merge->value_dim, 1, INT32_MAX},
        {"parts", merge->parts, 0, INT64_MAX},
        {"compute", (int)merge->compute, HEED_COMPUTE_F32, HEED_COMPUTE_I8},
    };
    if (heed_check_limits(sizes, sizeof sizes / sizeof *sizes))
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

/* Rows of a task and their running states for some columns. */
struct merge_group {
    const struct merge_run *run;
    int count;
    struct merge_row row[TASK_ROWS];
    float max[TASK_ROWS], sum[TASK_ROWS], output[TASK_ROWS][COLUMNS];
};

/* How the rows take in some chunks. */
struct merge_factors {
    float keep_old[CHUNKS][TASK_ROWS], take_new[CHUNKS][TASK_ROWS];
};

static int64_t offset_of(const struct merge_row *row, int64_t batch_stride, int64_t head_stride, int64_t token_stride) {
    return row->batch * batch_stride + row->head * head_stride + row->token * token_stride;
}
static const float *input_row(const struct merge_row *row, const struct heed_input *view) {
    return (const float *)view->data + offset_of(row, view->batch_stride, view->head_stride, view->token_stride);
}

static void find_rows(struct merge_group *group, int64_t first) {
    const struct heed_merge *request = group->run->request;
    group->count = (int)min_i64(TASK_ROWS, group->run->rows - first);
    for (int i = 0; i < group->count; i++) {
        const int64_t head = (first + i) / request->query_tokens;
        group->row[i] =
            (struct merge_row){head / request->num_heads, head % request->num_heads, (first + i) % request->query_tokens};
    }
}

static void start_rows(struct merge_group *group, int64_t columns) {
    const float *sinks = group->run->request->sinks;
    for (int i = 0; i < group->count; i++) {
        heed_state_of_sink(sinks ? sinks[group->row[i].head] : -INFINITY, &group->max[i], &group->sum[i]);
        memset(group->output[i], 0, (size_t)columns * sizeof(float));
    }
}

static void take_in_sums(struct merge_group *group, const struct heed_states_part *part, int64_t chunk, float *keep_old,
                         float *take_new) {
    float chunk_max[TASK_ROWS], chunk_sum[TASK_ROWS];
    for (int i = 0; i < group->count; i++) {
        chunk_max[i] = input_row(&group->row[i], &part->max)[chunk];
        chunk_sum[i] = input_row(&group->row[i], &part->sum)[chunk];
    }
    group->run->kernels->merge_rows(
        &(struct heed_merge_rows){group->count, group->max, group->sum, chunk_max, chunk_sum, keep_old, take_new});
}

/* Chunks [chunk, chunk + chunks) of a part, columns [column, column + n): row by row, as they lie in memory. */
static void take_in_chunks(struct merge_group *group, const struct heed_states_part *part, int64_t chunk, int chunks,
                           int64_t column, int64_t n) {
    const int64_t value_dim = group->run->request->value_dim;
    struct merge_factors factors;
    for (int j = 0; j < chunks; j++)
        take_in_sums(group, part, chunk + j, factors.keep_old[j], factors.take_new[j]);
    for (int i = 0; i < group->count; i++) {
        const float *from = input_row(&group->row[i], &part->output) + chunk * value_dim + column;
        for (int j = 0; j < chunks; j++)
            group->run->kernels->merge_row(group->output[i], from + j * value_dim, n, factors.keep_old[j][i],
                                           factors.take_new[j][i]);
    }
}

static void finish_columns(const struct merge_group *group, int64_t column, int64_t n) {
    const struct heed_output *output = &group->run->request->output;
    for (int i = 0; output->data && i < group->count; i++)
        group->run->kernels->finish_rows(
            group->output[i], 0, &group->sum[i], 1, n,
            (float *)output->data + column +
                offset_of(&group->row[i], output->batch_stride, output->head_stride, output->token_stride),
            HEED_F32, 0);
}

/* All states of the rows for columns [column, column + n), and into the output; max and sum come out the same each time. */
static void merge_columns(struct merge_group *group, int64_t column, int64_t n) {
    const struct heed_merge *request = group->run->request;
    start_rows(group, round_up(n, HEED_SUM_LANES));
    for (int64_t p = 0; p < request->parts; p++)
        for (int64_t chunk = 0, chunks = request->part[p].chunks; chunk < chunks; chunk += CHUNKS)
            take_in_chunks(group, &request->part[p], chunk, (int)min_i64(CHUNKS, chunks - chunk), column, n);
    finish_columns(group, column, n);
}

static bool merge_task(void *context, int64_t task, int worker) {
    const struct merge_run *run = context;
    const struct heed_merge *request = run->request;
    const struct heed_output *lse = &request->lse;
    struct merge_group group;
    (void)worker;
    group.run = run;
    find_rows(&group, task * TASK_ROWS);
    if (compute_flushes(request->compute))
        heed_fp_flush(true);
    for (int64_t column = 0; column < request->value_dim; column += COLUMNS)
        merge_columns(&group, column, min_i64(COLUMNS, request->value_dim - column));
    for (int i = 0; lse->data && i < group.count; i++)
        ((float *)lse->data)[offset_of(&group.row[i], lse->batch_stride, lse->head_stride, lse->token_stride)] =
            heed_log_sum_exp(group.max[i], group.sum[i]);
    if (compute_flushes(request->compute))
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
