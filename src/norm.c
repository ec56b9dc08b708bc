/* heed_layer_norm and heed_rms_norm. */
#include <math.h>

#include "error.h"
#include "rows.h"

enum { OUTPUT, SUM, INPUT, RESIDUAL, GAIN, BIAS, REGIONS };

static void find_regions(const struct heed_norm *r, struct heed_region regions[REGIONS]) {
    static const struct heed_output no_sum;
    const int64_t shared = r->rows > 0; /* by all rows */
    regions[OUTPUT] = heed_rows_output("output", &r->output, r->rows, r->columns);
    regions[SUM] = heed_rows_output("sum", r->sum.data ? &r->sum : &no_sum, r->sum.data ? r->rows : 0, r->columns);
    regions[INPUT] = heed_rows_view("input", &r->input, r->rows, r->columns);
    regions[RESIDUAL] = heed_rows_optional_view("residual", &r->residual, r->rows, r->columns);
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

static void run_row(const struct heed_norm *request, bool centers, const struct heed_kernels *kernels, int64_t row) {
    kernels->norm_row(&(struct heed_norm_row){
        .n = request->columns,
        .centers = centers,
        .epsilon = request->epsilon,
        .input = heed_rows_source(&request->input, row),
        .residual = heed_rows_source(&request->residual, row),
        .gain = request->gain,
        .bias = request->bias,
        .y = heed_rows_target(&request->output, row),
        .sum = heed_rows_target(&request->sum, row),
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
    if (check(request))
        return HEED_INVALID_ARGUMENT;
    return heed_rows_run(&(struct heed_rows){request->rows, request->columns, 16.0, run, request}, exec);
}

HEED_API enum heed_status heed_layer_norm(const struct heed_norm *norm, const struct heed_exec *exec) {
    return normalise(norm, run_layer_norm, exec);
}

HEED_API enum heed_status heed_rms_norm(const struct heed_norm *norm, const struct heed_exec *exec) {
    return normalise(norm, run_rms_norm, exec);
}
