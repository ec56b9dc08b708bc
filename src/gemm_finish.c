/* What becomes of sums of products: scales, alpha and beta, an epilogue, and the type of c. */
#include <stddef.h>

#include "arithmetic.h"
#include "cpu.h"
#include "gemm.h"
#include "internal.h"
#include "rows.h"
#include "types.h"

/* Stores can wait, so of several matrices it is one that is read; often it is c itself. */
struct heed_gemm_finish_place heed_gemm_finish_at(const struct heed_gemm *request, const struct heed_epilogue *epilogue,
                                                  int64_t row, int64_t rows, int64_t column) {
    struct heed_input at = {.data = request->c, .type = request->c_type, .token_stride = request->ldc};
    if (epilogue && epilogue->gate.data)
        at = epilogue->gate;
    else if (epilogue && epilogue->residual.data)
        at = epilogue->residual;
    const int64_t ld = rows > 1 ? type_span(at.type, at.token_stride) : 0; /* that of a single row may be any number */
    return (struct heed_gemm_finish_place){heed_rows_source(&at, row, column).data, ld, at.type};
}

/* Only products have numbers below 2^-126 be 0, and only where they round to bf16: what follows them are floats
 * like any. */
static void finish_epilogue(const struct heed_gemm *request, const struct heed_epilogue *epilogue,
                            const struct heed_kernels *kernels, const struct heed_gemm_sums *sums) {
    if (compute_flushes(request->compute))
        heed_fp_flush(false);
    for (int64_t i = 0; i < sums->rows; i++) {
        const int64_t row = sums->row + i, column = sums->column;
        kernels->activation_row(&(struct heed_activation_row){
            .n = sums->columns,
            .activation = epilogue->activation,
            .input = {sums->data + i * sums->ld, HEED_F32},
            .bias = epilogue->bias ? epilogue->bias + column : NULL,
            .gate = heed_rows_source(&epilogue->gate, row, column),
            .residual = heed_rows_source(&epilogue->residual, row, column),
            .y = {type_at_output(request->c_type, request->c, row * request->ldc + column), request->c_type},
        });
    }
    if (compute_flushes(request->compute))
        heed_fp_flush(true);
}

struct heed_finish_products heed_gemm_finish_products(const struct heed_gemm *request, const struct heed_gemm_sums *sums) {
    const bool scaled = request->b_scales && heed_gemm_reads_ab(request);
    return (struct heed_finish_products){.rows = sums->rows,
                                         .columns = sums->columns,
                                         .sums = sums->data,
                                         .ldsums = sums->ld,
                                         .scales = scaled ? request->b_scales + sums->column : NULL,
                                         .alpha = request->alpha,
                                         .beta = request->beta,
                                         .c = type_at_output(request->c_type, request->c, sums->row * request->ldc + sums->column),
                                         .type = request->c_type,
                                         .ldc = request->ldc};
}

void heed_gemm_finish(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_kernels *kernels,
                      const struct heed_gemm_sums *sums) {
    struct heed_finish_products finish = heed_gemm_finish_products(request, sums);
    if (!epilogue) {
        kernels->finish_products(&finish);
        return;
    }
    if (finish.scales) {
        finish.c = sums->data;
        finish.type = HEED_F32;
        finish.ldc = sums->ld;
        kernels->finish_products(&finish);
    }
    finish_epilogue(request, epilogue, kernels, sums);
}
