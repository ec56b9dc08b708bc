/* heed_layer_norm and heed_rms_norm. */
#include "norm.h"

#include <math.h>
#include <stddef.h>

#include "error.h"
#include "internal.h"
#include "rows.h"
#include "types.h"

enum { OUTPUT, SUM, INPUT, RESIDUAL, GAIN, BIAS, REGIONS };

static int64_t heads_of(const struct heed_norm *request) { return max_i64(1, request->heads); }

/* Where rows have heads, they are heads of rows. */
static struct heed_region with_heads(const struct heed_norm *r, struct heed_region region, int64_t head_stride) {
    if (r->heads > 1 && region.count[2] > 0) {
        region.count[1] = r->heads;
        region.stride[1] = head_stride;
        region.stride_name[1] = ".head_stride";
    }
    return region;
}

static void find_regions(const struct heed_norm *r, struct heed_region regions[REGIONS]) {
    static const struct heed_output no_sum;
    const int64_t shared = r->rows > 0; /* by all rows */
    const struct heed_output *sum = r->sum.data ? &r->sum : &no_sum;
    regions[OUTPUT] = with_heads(r, heed_rows_output("output", &r->output, r->rows, r->columns), r->output.head_stride);
    regions[SUM] = with_heads(r, heed_rows_output("sum", sum, sum->data ? r->rows : 0, r->columns), sum->head_stride);
    regions[INPUT] = with_heads(r, heed_rows_view("input", &r->input, r->rows, r->columns), r->input.head_stride);
    regions[RESIDUAL] =
        with_heads(r, heed_rows_optional_view("residual", &r->residual, r->rows, r->columns), r->residual.head_stride);
    regions[GAIN] = heed_rows_optional("gain", r->gain, shared, r->columns, 0);
    regions[BIAS] = heed_rows_optional("bias", r->bias, shared, r->columns, 0);
}

static enum heed_status check_apart(const struct heed_region regions[REGIONS]) {
    for (int i = OUTPUT; i <= SUM; i++)
        for (int j = INPUT; j < REGIONS; j++)
            if ((j < GAIN ? heed_rows_check_apart : heed_region_check_apart)(&regions[i], &regions[j]))
                return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&regions[OUTPUT], &regions[SUM]);
}

enum heed_status heed_norm_check(const struct heed_norm *request) {
    struct heed_region regions[REGIONS];
    int64_t all;
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "norm is NULL");
    if (heed_check_range("rows", request->rows, 0, INT64_MAX) || heed_check_range("columns", request->columns, 0, INT64_MAX) ||
        heed_check_range("heads", request->heads, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if (__builtin_mul_overflow(request->rows, heads_of(request), &all))
        return heed_fail(HEED_INVALID_ARGUMENT, "heads is %lld, times rows it overflows", (long long)request->heads);
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

static void run_row(const struct heed_norm *request, bool centers, const struct heed_kernels *kernels, int64_t index) {
    const int64_t heads = heads_of(request), row = index / heads, head = index % heads;
    kernels->norm_row(&(struct heed_norm_row){
        .n = request->columns,
        .centers = centers,
        .epsilon = request->epsilon,
        .input = heed_rows_source(&request->input, row, head * request->input.head_stride),
        .residual = heed_rows_source(&request->residual, row, head * request->residual.head_stride),
        .gain = request->gain,
        .bias = request->bias,
        .y = heed_rows_target(&request->output, row, head * request->output.head_stride),
        .sum = heed_rows_target(&request->sum, row, head * request->sum.head_stride),
    });
}

static void run_layer_norm(const void *request, const struct heed_kernels *kernels, int64_t row) {
    run_row(request, true, kernels, row);
}

static void run_rms_norm(const void *request, const struct heed_kernels *kernels, int64_t row) {
    run_row(request, false, kernels, row);
}

static enum heed_status normalise(const struct heed_norm *request, void (*run)(const void *, const struct heed_kernels *, int64_t),
                                  const struct heed_exec *exec) {
    if (heed_norm_check(request))
        return HEED_INVALID_ARGUMENT;
    return heed_rows_run(&(struct heed_rows){.rows = request->rows * heads_of(request),
                                             .columns = request->columns,
                                             .flops_per_element = 16.0,
                                             .run = run,
                                             .request = request},
                         exec);
}

HEED_API enum heed_status heed_layer_norm(const struct heed_norm *norm, const struct heed_exec *exec) {
    return normalise(norm, run_layer_norm, exec);
}

HEED_API enum heed_status heed_rms_norm(const struct heed_norm *norm, const struct heed_exec *exec) {
    return normalise(norm, run_rms_norm, exec);
}
