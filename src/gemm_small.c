/* Matrix products of so little work that the machinery of check, plan and tasks, 0.15 us, would count.
 *
 * One kernel for each panel of columns, on a and b where they are; b alone is transposed first, if it must be.  Checks here are
 * sure or step aside: whatever they do not accept goes the long way, which knows exactly and has the messages. */
#include "gemm_small.h"

#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "schedule.h"

enum {
    MOST_SIZE = 128,
    MOST_PRODUCTS = 1000 * 1000, /* fewer than are worth a thread */
    MOST_STRIDE = 1 << 30,       /* so that no extent overflows */
};

/* One comparison for numbers that must all be small, and not negative, and one for types and compute. */
_Static_assert(HEED_F32 == 0 && HEED_COMPUTE_F32 == 0, "these are floats, computed as such");
static bool has_small_sizes(const struct heed_gemm *r) {
    return (((uint64_t)r->m - 1) | ((uint64_t)r->n - 1) | ((uint64_t)r->k - 1)) < MOST_SIZE && r->m * r->n * r->k < MOST_PRODUCTS &&
           r->alpha != 0.0f && ((unsigned)r->a_type | (unsigned)r->b_type | (unsigned)r->c_type | (unsigned)r->compute) == 0 &&
           !r->b_scales;
}

struct matrix {
    const float *data;
    int64_t rows, columns, ld;
};

static struct matrix a_of(const struct heed_gemm *r) {
    return r->transpose_a ? (struct matrix){r->a, r->k, r->m, r->lda} : (struct matrix){r->a, r->m, r->k, r->lda};
}

static struct matrix b_of(const struct heed_gemm *r) {
    if (r->packed_b)
        return (struct matrix){r->packed_b, ceil_div(r->n, HEED_PANEL), r->k * HEED_PANEL, r->k * HEED_PANEL};
    return r->transpose_b ? (struct matrix){r->b, r->n, r->k, r->ldb} : (struct matrix){r->b, r->k, r->n, r->ldb};
}

static uintptr_t end_of(const struct matrix *x) {
    return (uintptr_t)x->data + sizeof(float) * (uintptr_t)((x->rows - 1) * x->ld + x->columns);
}

static bool are_apart(const struct matrix *x, const struct matrix *y) {
    return end_of(x) <= (uintptr_t)y->data || end_of(y) <= (uintptr_t)x->data;
}

/* Matrices that are there, aligned and within the address space, with rows apart, and c apart from the others. */
static bool has_legal_memory(const struct heed_gemm *r) {
    const struct matrix a = a_of(r), b = b_of(r), c = {r->c, r->m, r->n, r->ldc};
    const uintptr_t addresses = (uintptr_t)a.data | (uintptr_t)b.data | (uintptr_t)c.data, high_bits = (uintptr_t)3 << 62;
    if (!a.data || !b.data || !c.data || addresses & (high_bits | (_Alignof(float) - 1)) ||
        (uint64_t)(a.ld | b.ld | c.ld) >= MOST_STRIDE || a.ld < a.columns || b.ld < b.columns || c.ld < c.columns)
        return false;
    return are_apart(&a, &c) && are_apart(&b, &c);
}

/* What heed_exec_check looks at, and cancellation, which a small call would not ask for. */
static bool is_plain(const struct heed_exec *exec) {
    return !exec || (!exec->cancelled && !exec->run && (unsigned)exec->threads <= HEED_MAX_WORKERS);
}

bool heed_gemm_is_small(const struct heed_gemm *request, const struct heed_exec *exec) {
    return request && is_plain(exec) && has_small_sizes(request) && has_legal_memory(request);
}

/* A function of its own, for its memory on the stack. */
NOINLINE void multiply_transposed(const struct heed_gemm *r, const struct heed_kernels *kernels, int64_t column,
                                  struct heed_gemm_small *product) {
    _Alignas(64) float panel[MOST_SIZE * HEED_PANEL];
    product->b = panel;
    product->ldb = HEED_PANEL;
    kernels->store_keys((const float *)r->b + column * r->ldb, HEED_F32, r->ldb, r->k, (int)product->columns, panel, HEED_PANEL);
    kernels->gemm_small(product);
}

static void multiply(const struct heed_gemm *r, const struct heed_kernels *kernels) {
    struct heed_gemm_small product = {.rows = r->m,
                                      .k = r->k,
                                      .a = r->a,
                                      .lda = r->transpose_a ? 1 : r->lda,
                                      .a_step = r->transpose_a ? r->lda : 1,
                                      .b = r->packed_b ? r->packed_b : r->b,
                                      .ldb = r->packed_b ? HEED_PANEL : r->ldb,
                                      .alpha = r->alpha,
                                      .beta = r->beta,
                                      .c = r->c,
                                      .ldc = r->ldc};
    for (int64_t column = 0; column < r->n; column += HEED_PANEL) {
        product.columns = min_i64(HEED_PANEL, r->n - column);
        if (r->transpose_b && !r->packed_b)
            multiply_transposed(r, kernels, column, &product);
        else
            kernels->gemm_small(&product);
        product.b += r->packed_b ? HEED_PANEL * r->k : HEED_PANEL;
        product.c += HEED_PANEL;
    }
}

enum heed_status heed_gemm_small(const struct heed_gemm *request, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    const enum heed_status status = heed_kernels_for(exec, &kernels);
    if (status)
        return status;
    const uint64_t callers = heed_fp_begin();
    multiply(request, kernels);
    heed_fp_end(callers);
    return HEED_OK;
}
