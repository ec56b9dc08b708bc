/* Products of few rows, which wait for b: it is read in the order in which it lies, and fetched ahead.
 *
 * Tiles that do not span a panel, or more rows than a tile has, would read it several times, in strips: of a plain read's rate, 8
 * rows with 4096 x 4096 packed weights had 0.77 (AVX-512) and 0.46 (AVX2), now 0.90 and 0.62; one row of transposed ones 0.49, now
 * 0.68. */
#include <stddef.h>

#include "gemm_plan.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"

/* A single row of packed floats is as quick by tiles, of any width.  Other types become floats on their way, but are not rounded:
 * pairs are made of bf16 and bytes alone. */
bool heed_gemm_is_thin(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    if (request->m > HEED_GEMM_FEW_ROWS || request->transpose_a || !heed_gemm_reads_ab(request))
        return false;
    if (request->compute == HEED_COMPUTE_BF16)
        return request->b_type == HEED_BF16 || request->b_type == HEED_I8;
    if (request->b_type != HEED_F32)
        return true;
    if (request->packed_b)
        return request->m > kernels->tile_rows || (request->m > 1 && kernels->tile_columns < HEED_PANEL);
    return request->transpose_b;
}

/* The columns from `column` on, of which `next` come after these. */
static void multiply_columns(const struct heed_gemm *request, const struct heed_kernels *kernels, const float *a, int64_t lda,
                             int64_t column, int columns, int64_t next, float *sums) {
    struct heed_thin_product product = {.rows = (int)request->m,
                                        .columns = columns,
                                        .k = request->k,
                                        .a = a,
                                        .lda = lda,
                                        .type = request->b_type,
                                        .c = sums,
                                        .ldc = HEED_PANEL,
                                        .pairs = request->compute == HEED_COMPUTE_BF16};
    if (request->packed_b && type_has_blocks(request->b_type)) {
        kernels->thin_blocks(&(struct heed_thin_blocks){.rows = (int)request->m,
                                                        .k = request->k,
                                                        .a = a,
                                                        .lda = lda,
                                                        .packed = heed_gemm_packed_at(request, column, 0),
                                                        .type = request->b_type,
                                                        .c = sums});
        return;
    }
    if (request->packed_b) {
        product.columns = HEED_PANEL;
        product.b = heed_gemm_packed_at(request, column, 0);
        product.ldb = HEED_PANEL;
        product.next = heed_gemm_packed_at(request, next, 0);
        kernels->thin_product(&product);
        return;
    }
    product.b = heed_gemm_b_at(request, column, 0);
    product.ldb = request->ldb;
    product.next = heed_gemm_b_at(request, next, 0);
    product.next_step = type_span(request->b_type, request->ldb);
    if (request->transpose_b)
        kernels->thin_product_transposed(&product);
    else
        kernels->thin_product(&product);
}

bool heed_gemm_thin(const struct gemm_run *run, const float *a, int64_t lda, int64_t column, int64_t end, float *sums) {
    const struct heed_gemm *request = run->request;
    for (int64_t columns; column < end; column += columns) {
        if (heed_exec_cancelled(run->exec))
            return false;
        columns = min_i64(HEED_PANEL, end - column);
        const int64_t next = column + columns < end ? column + columns : column;
        multiply_columns(request, run->kernels, a, lda, column, (int)columns, next, sums);
        heed_gemm_finish(request, run->epilogue, run->kernels, 0, request->m, column, columns, sums);
    }
    return true;
}
