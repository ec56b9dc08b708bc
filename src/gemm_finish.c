/* What becomes of sums of products: scales, alpha and beta, an epilogue, and the type of c. */
#include <stddef.h>

#include "cpu.h"
#include "gemm.h"
#include "internal.h"
#include "types.h"

/* Columns of a row of gate or residual as floats: where they are, or in scratch. */
static const float *load_row(const struct heed_input *input, const struct heed_kernels *kernels, int64_t row, int64_t column,
                             int64_t columns, float *scratch) {
    if (!input->data)
        return NULL;
    const void *data = type_at(input->type, input->data, row * input->token_stride + column);
    if (input->type == HEED_F32)
        return data;
    kernels->widen_rows(data, input->type, 0, 1, columns, scratch, 0);
    return scratch;
}

/* y may be sums. */
static void apply(const struct heed_epilogue *epilogue, const struct heed_kernels *kernels, int64_t row, int64_t rows,
                  int64_t column, int64_t columns, const float *sums, float *y, int64_t ldy) {
    _Alignas(64) float gate[HEED_PANEL], residual[HEED_PANEL];
    for (int64_t i = 0; i < rows; i++)
        kernels->activation_row(&(struct heed_activation_row){
            .n = columns,
            .activation = epilogue->activation,
            .input = sums + i * HEED_PANEL,
            .bias = epilogue->bias ? epilogue->bias + column : NULL,
            .gate = load_row(&epilogue->gate, kernels, row + i, column, columns, gate),
            .residual = load_row(&epilogue->residual, kernels, row + i, column, columns, residual),
            .y = y + i * ldy,
        });
}

/* Only products have numbers below 2^-126 be 0, and only in pairs: what follows them are floats like any. */
static void finish_epilogue(const struct heed_gemm *request, const struct heed_epilogue *epilogue,
                            const struct heed_kernels *kernels, int64_t row, int64_t rows, int64_t column, int64_t columns,
                            float *sums) {
    void *c = type_at_output(request->c_type, request->c, row * request->ldc + column);
    if (request->compute == HEED_COMPUTE_BF16)
        heed_fp_flush(false);
    if (request->c_type == HEED_F32) {
        apply(epilogue, kernels, row, rows, column, columns, sums, c, request->ldc);
    } else {
        apply(epilogue, kernels, row, rows, column, columns, sums, sums, HEED_PANEL);
        kernels->round_rows(sums, HEED_PANEL, rows, columns, c, request->c_type, request->ldc);
    }
    if (request->compute == HEED_COMPUTE_BF16)
        heed_fp_flush(true);
}

void heed_gemm_finish(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_kernels *kernels,
                      int64_t row, int64_t rows, int64_t column, int64_t columns, float *sums) {
    struct heed_finish_products finish = {.rows = rows,
                                          .columns = columns,
                                          .sums = sums,
                                          .ldsums = HEED_PANEL,
                                          .scales =
                                              request->b_scales && heed_gemm_reads_ab(request) ? request->b_scales + column : NULL,
                                          .alpha = request->alpha,
                                          .beta = request->beta,
                                          .c = sums,
                                          .ldc = HEED_PANEL};
    if (epilogue) {
        if (finish.scales)
            kernels->finish_products(&finish);
        finish_epilogue(request, epilogue, kernels, row, rows, column, columns, sums);
        return;
    }
    finish.c = type_at_output(request->c_type, request->c, row * request->ldc + column);
    finish.type = request->c_type;
    finish.ldc = request->ldc;
    kernels->finish_products(&finish);
}
