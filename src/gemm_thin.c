/* Products of few rows, which wait for b: it is read in the order in which it lies, and fetched ahead.
 *
 * Tiles that do not span a panel, or more rows than a tile has, would read it several times, in strips: of a plain read's rate, 8
 * rows with 4096 x 4096 packed weights had 0.77 (AVX-512) and 0.46 (AVX2), now 0.90 and 0.62; one row of transposed ones 0.49, now
 * 0.68. */
#include "gemm.h"
#include "internal.h"
#include "schedule.h"

/* A single row of packed b is as quick by tiles, of any width. */
bool heed_gemm_is_thin(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    if (request->m > HEED_GEMM_FEW_ROWS || request->transpose_a || !heed_gemm_reads_ab(request))
        return false;
    if (request->packed_b)
        return request->m > kernels->tile_rows || (request->m > 1 && kernels->tile_columns < HEED_PANEL);
    return request->transpose_b;
}

/* c = alpha * sums + beta * c */
static void store_sums(const struct heed_gemm *request, const struct heed_kernels *kernels, const float *sums, int64_t column,
                       int64_t columns) {
    for (int64_t i = 0; i < request->m; i += kernels->tile_rows)
        for (int64_t j = 0; j < columns; j += kernels->tile_columns)
            kernels->gemm_tile(&(struct heed_gemm_tile){.rows = (int)min_i64(kernels->tile_rows, request->m - i),
                                                        .columns = (int)min_i64(kernels->tile_columns, columns - j),
                                                        .a = sums,
                                                        .b = sums,
                                                        .acc = sums + i * HEED_PANEL + j,
                                                        .ldacc = HEED_PANEL,
                                                        .alpha = request->alpha,
                                                        .beta = request->beta,
                                                        .c = request->c + i * request->ldc + column + j,
                                                        .ldc = request->ldc});
}

/* The columns from `column` on, of which `next` come after these. */
static void multiply_columns(const struct heed_gemm *request, const struct heed_kernels *kernels, int64_t column, int columns,
                             int64_t next, float *sums) {
    struct heed_thin_product product = {.rows = (int)request->m,
                                        .columns = columns,
                                        .k = request->k,
                                        .a = request->a,
                                        .lda = request->lda,
                                        .c = sums,
                                        .ldc = HEED_PANEL};
    if (request->packed_b) {
        product.b = request->packed_b + column * request->k;
        product.ldb = HEED_PANEL;
        product.next = request->packed_b + next * request->k;
        kernels->thin_product(&product);
    } else {
        product.b = request->b + column * request->ldb;
        product.ldb = request->ldb;
        product.next = request->b + next * request->ldb;
        product.next_step = request->ldb * (int64_t)sizeof(float);
        kernels->thin_product_transposed(&product);
    }
}

bool heed_gemm_thin(const struct heed_gemm *request, const struct heed_exec *exec, const struct heed_kernels *kernels,
                    int64_t column, int64_t end, float *sums) {
    for (int64_t columns; column < end; column += columns) {
        if (heed_exec_cancelled(exec))
            return false;
        columns = min_i64(HEED_PANEL, end - column);
        const int64_t next = column + columns < end ? column + columns : column;
        multiply_columns(request, kernels, column, (int)columns, next, sums);
        store_sums(request, kernels, sums, column, columns);
    }
    return true;
}
