/* heed_linear: a product with an epilogue, in the words of layers. */
#include <stddef.h>

#include "error.h"
#include "linear.h"
#include "rows.h"

static const struct heed_gemm_names names = {.request = "linear",
                                             .m = "rows",
                                             .n = "weights.outputs",
                                             .k = "weights.inputs",
                                             .a = "input",
                                             .a_type = "input.type",
                                             .lda = "input.token_stride",
                                             .b = "weights.data",
                                             .b_type = "weights.type",
                                             .ldb = "weights.stride",
                                             .b_scales = "weights.scales",
                                             .packed_b = "weights.packed",
                                             .c = "output",
                                             .c_type = "output.type",
                                             .ldc = "output.token_stride"};

static struct heed_gemm product_with(const struct heed_weights *weights) {
    return (struct heed_gemm){.n = weights->outputs,
                              .k = weights->inputs,
                              .alpha = 1.0f,
                              .transpose_b = true,
                              .b = weights->data,
                              .b_type = weights->type,
                              .ldb = weights->stride,
                              .b_scales = weights->scales,
                              .packed_b = weights->packed};
}

HEED_API int64_t heed_packed_bytes(const struct heed_weights *weights) {
    if (!weights)
        return -1;
    const struct heed_gemm product = product_with(weights);
    return heed_gemm_packed_bytes(&product);
}

HEED_API enum heed_status heed_pack_weights(const struct heed_weights *weights, void *packed, const struct heed_exec *exec) {
    if (!weights)
        return heed_fail(HEED_INVALID_ARGUMENT, "weights is NULL");
    const struct heed_gemm product = product_with(weights);
    struct heed_gemm_names own = names;
    own.packed_b = "packed"; /* the argument, not the field */
    const enum heed_status status = heed_gemm_check_pack(&product, &own, packed);
    return status ? status : heed_gemm_pack(&product, packed, exec);
}

/* Views need no stride for a single row; leading dimensions are checked in any case. */
static int64_t ld_of(const struct heed_linear *r, int64_t token_stride, int64_t columns) {
    return r->rows == 1 && token_stride == 0 ? columns : token_stride;
}

struct heed_gemm heed_linear_product(const struct heed_linear *r) {
    struct heed_gemm product = product_with(&r->weights);
    product.m = r->rows;
    product.compute = r->compute;
    product.a = r->input.data;
    product.a_type = r->input.type;
    product.lda = ld_of(r, r->input.token_stride, r->weights.inputs);
    product.c = r->output.data;
    product.c_type = r->output.type;
    product.ldc = ld_of(r, r->output.token_stride, r->weights.outputs);
    return product;
}

/* Gate or residual. */
static enum heed_status check_view(const char *name, const struct heed_linear *r, const struct heed_input *input,
                                   const struct heed_region *output) {
    struct heed_region region = heed_rows_optional_view(name, input, r->rows, r->weights.outputs);
    return heed_region_check(&region) ? HEED_INVALID_ARGUMENT : heed_rows_check_apart(output, &region);
}

static struct heed_region region_of_bias(const struct heed_linear *r) {
    return heed_rows_optional("weights.bias", r->weights.bias, r->rows > 0, r->weights.outputs, r->weights.outputs);
}

static enum heed_status check_epilogue(const struct heed_linear *r) {
    struct heed_region output = heed_rows_output("output", &r->output, r->rows, r->weights.outputs);
    struct heed_region bias = region_of_bias(r);
    if (heed_check_range("activation", (int64_t)r->activation, HEED_IDENTITY, HEED_SILU) || heed_region_check(&output) ||
        heed_region_check(&bias) || heed_region_check_apart(&output, &bias) || check_view("gate", r, &r->gate, &output))
        return HEED_INVALID_ARGUMENT;
    return check_view("residual", r, &r->residual, &output);
}

enum heed_status heed_linear_check(const struct heed_linear *r, struct heed_gemm *product) {
    if (!r)
        return heed_fail(HEED_INVALID_ARGUMENT, "linear is NULL");
    *product = heed_linear_product(r);
    return heed_gemm_check(product, &names) ? HEED_INVALID_ARGUMENT : check_epilogue(r);
}

enum heed_status heed_linear_check_apart(const struct heed_linear *checked, const struct heed_region *output) {
    struct heed_region regions[HEED_LINEAR_REGIONS];
    heed_linear_regions(checked, regions);
    for (int i = HEED_LINEAR_BIAS; i < HEED_LINEAR_REGIONS; i++)
        if (heed_region_check_apart(output, &regions[i]))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

const struct heed_epilogue *heed_linear_epilogue(const struct heed_linear *r, struct heed_epilogue *epilogue) {
    *epilogue = (struct heed_epilogue){r->activation, r->weights.bias, r->gate, r->residual};
    const bool any = r->activation != HEED_IDENTITY || r->weights.bias || r->gate.data || r->residual.data;
    return any ? epilogue : NULL;
}

void heed_linear_regions(const struct heed_linear *r, struct heed_region regions[HEED_LINEAR_REGIONS]) {
    const int64_t outputs = r->weights.outputs, rows = outputs > 0 ? r->rows : 0; /* without any of them nothing is read */
    const struct heed_gemm product = heed_linear_product(r);
    regions[HEED_LINEAR_OUTPUT] = heed_rows_output("output", &r->output, rows, outputs);
    regions[HEED_LINEAR_INPUT] = heed_rows_optional_view("input", &r->input, rows, r->weights.inputs);
    regions[HEED_LINEAR_GATE] = heed_rows_optional_view("gate", &r->gate, rows, outputs);
    regions[HEED_LINEAR_RESIDUAL] = heed_rows_optional_view("residual", &r->residual, rows, outputs);
    regions[HEED_LINEAR_BIAS] = region_of_bias(r);
    heed_gemm_b_regions(&product, &names, &regions[HEED_LINEAR_WEIGHTS]);
    for (int i = 0; i < HEED_LINEAR_REGIONS; i++)
        if (heed_region_check(&regions[i]))
            regions[i].span = 0; /* not of what has been checked */
}

HEED_API int64_t heed_linear_workspace_bytes(const struct heed_linear *linear, const struct heed_exec *exec) {
    struct heed_gemm product;
    struct heed_epilogue epilogue;
    return heed_linear_check(linear, &product) ? -1 : heed_gemm_workspace(&product, heed_linear_epilogue(linear, &epilogue), exec);
}

HEED_API enum heed_status heed_linear(const struct heed_linear *linear, const struct heed_exec *exec) {
    struct heed_gemm product;
    struct heed_epilogue epilogue;
    return heed_linear_check(linear, &product) ? HEED_INVALID_ARGUMENT
                                               : heed_gemm_run(&product, heed_linear_epilogue(linear, &epilogue), exec);
}
