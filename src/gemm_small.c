/* Matrix products of so little work that the machinery of check, plan and tasks, 0.15 us, would count.
 *
 * One kernel for each panel of columns, on a and b where they are; b alone is transposed first, if it must be.  Checks here are
 * sure or step aside: whatever they do not accept goes the long way, which knows exactly and has the messages. */
#include "gemm_small.h"

#include "cpu.h"
#include "internal.h"
#include "schedule.h"

enum {
    MOST_SIZE = 128,
    MOST_PRODUCTS = 1000 * 1000, /* fewer than are worth a thread */
    MOST_STRIDE = 1 << 30,       /* so that no extent overflows */
};

/* One comparison for numbers that must all be small, and not negative. */
static bool has_small_sizes(const struct heed_gemm *r) {
    return (uint64_t)((r->m - 1) | (r->n - 1) | (r->k - 1)) < MOST_SIZE && r->m * r->n * r->k < MOST_PRODUCTS && r->alpha != 0.0f;
}

static uintptr_t end_of(uintptr_t start, int64_t rows, int64_t columns, int64_t ld) {
    return start + sizeof(float) * (uintptr_t)((rows - 1) * ld + columns);
}

/* Rows apart, matrices there, aligned and within the address space, and c apart from a and b. */
static bool has_legal_memory(const struct heed_gemm *r) {
    const bool packed = r->packed_b, across_b = r->transpose_b;
    const uintptr_t a = (uintptr_t)r->a, b = (uintptr_t)(packed ? r->packed_b : r->b), c = (uintptr_t)r->c;
    const int64_t a_rows = r->transpose_a ? r->k : r->m, a_columns = r->transpose_a ? r->m : r->k;
    const int64_t b_rows = packed ? ceil_div(r->n, HEED_PANEL) : across_b ? r->n : r->k;
    const int64_t b_columns = packed ? r->k * HEED_PANEL : across_b ? r->k : r->n, ldb = packed ? b_columns : r->ldb;
    if (!a || !b || !c || (a | b | c) % _Alignof(float) || (a | b | c) >> 62)
        return false;
    if (r->lda < a_columns || ldb < b_columns || r->ldc < r->n || (r->lda | ldb | r->ldc) >= MOST_STRIDE)
        return false;
    const uintptr_t c_end = end_of(c, r->m, r->n, r->ldc);
    return (c_end <= a || end_of(a, a_rows, a_columns, r->lda) <= c) && (c_end <= b || end_of(b, b_rows, b_columns, ldb) <= c);
}

/* What heed_exec_check looks at, and cancellation, which a small call would not ask for. */
static bool is_plain(const struct heed_exec *exec) {
    return !exec || (!exec->cancelled && !exec->run && (unsigned)exec->threads <= HEED_MAX_WORKERS);
}

bool heed_gemm_is_small(const struct heed_gemm *request, const struct heed_exec *exec) {
    return request && is_plain(exec) && has_small_sizes(request) && has_legal_memory(request);
}

static struct heed_gemm_small product_of(const struct heed_gemm *r, int64_t column, const float *b, int64_t ldb) {
    return (struct heed_gemm_small){.rows = r->m,
                                    .columns = min_i64(HEED_PANEL, r->n - column),
                                    .k = r->k,
                                    .a = r->a,
                                    .lda = r->transpose_a ? 1 : r->lda,
                                    .a_step = r->transpose_a ? r->lda : 1,
                                    .b = b,
                                    .ldb = ldb,
                                    .alpha = r->alpha,
                                    .beta = r->beta,
                                    .c = r->c + column,
                                    .ldc = r->ldc};
}

/* A function of its own, for its memory on the stack. */
NOINLINE void multiply_transposed(const struct heed_gemm *r, const struct heed_kernels *kernels, int64_t column) {
    _Alignas(64) float panel[MOST_SIZE * HEED_PANEL];
    const struct heed_gemm_small product = product_of(r, column, panel, HEED_PANEL);
    kernels->store_keys(r->b + column * r->ldb, r->ldb, r->k, (int)product.columns, panel, HEED_PANEL);
    kernels->gemm_small(&product);
}

void heed_gemm_small(const struct heed_gemm *r, const struct heed_kernels *kernels) {
    const uint64_t callers = heed_fp_begin();
    for (int64_t column = 0; column < r->n; column += HEED_PANEL) {
        if (r->transpose_b && !r->packed_b) {
            multiply_transposed(r, kernels, column);
            continue;
        }
        const struct heed_gemm_small product = r->packed_b ? product_of(r, column, r->packed_b + column * r->k, HEED_PANEL)
                                                           : product_of(r, column, r->b + column, r->ldb);
        kernels->gemm_small(&product);
    }
    heed_fp_end(callers);
}
