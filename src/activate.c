/* heed_activate. */
#include "error.h"
#include "rows.h"

enum { OUTPUT, INPUT, GATE, RESIDUAL, BIAS, REGIONS };

static void find_regions(const struct heed_activate *r, struct heed_region regions[REGIONS]) {
    regions[OUTPUT] = heed_rows_output("output", &r->output, r->rows, r->columns);
    regions[INPUT] = heed_rows_view("input", &r->input, r->rows, r->columns);
    regions[GATE] = heed_rows_optional_view("gate", &r->gate, r->rows, r->columns);
    regions[RESIDUAL] = heed_rows_optional_view("residual", &r->residual, r->rows, r->columns);
    regions[BIAS] = heed_rows_optional("bias", r->bias, r->rows > 0, r->columns, 0);
}

static enum heed_status check(const struct heed_activate *request) {
    struct heed_region regions[REGIONS];
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "activate is NULL");
    if (heed_check_range("rows", request->rows, 0, INT64_MAX) || heed_check_range("columns", request->columns, 0, INT64_MAX) ||
        heed_check_range("activation", (int64_t)request->activation, HEED_IDENTITY, HEED_SILU))
        return HEED_INVALID_ARGUMENT;
    find_regions(request, regions);
    for (int i = 0; i < REGIONS; i++)
        if (heed_region_check(&regions[i]))
            return HEED_INVALID_ARGUMENT;
    if (heed_region_check_rows_apart(&regions[OUTPUT]))
        return HEED_INVALID_ARGUMENT;
    for (int i = INPUT; i < BIAS; i++)
        if (heed_rows_check_apart(&regions[OUTPUT], &regions[i]))
            return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&regions[OUTPUT], &regions[BIAS]);
}

static void run_row(const void *context, const struct heed_kernels *kernels, int64_t row) {
    const struct heed_activate *request = context;
    kernels->activation_row(&(struct heed_activation_row){
        .n = request->columns,
        .activation = request->activation,
        .input = heed_rows_source(&request->input, row, 0),
        .bias = request->bias,
        .gate = heed_rows_source(&request->gate, row, 0),
        .residual = heed_rows_source(&request->residual, row, 0),
        .y = heed_rows_target(&request->output, row, 0),
    });
}

HEED_API enum heed_status heed_activate(const struct heed_activate *activate, const struct heed_exec *exec) {
    const bool is_plain = activate && (activate->activation == HEED_IDENTITY || activate->activation == HEED_RELU);
    if (check(activate))
        return HEED_INVALID_ARGUMENT;
    return heed_rows_run(&(struct heed_rows){.rows = activate->rows,
                                             .columns = activate->columns,
                                             .flops_per_element = is_plain ? 8.0 : 64.0,
                                             .run = run_row,
                                             .request = activate},
                         exec);
}
