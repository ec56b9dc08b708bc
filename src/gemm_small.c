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

/* One comparison for numbers that must all be small, and not negative, and one for types and compute. */
_Static_assert(HEED_F32 == 0 && HEED_COMPUTE_F32 == 0, "these are floats, computed as such");
static bool has_small_sizes(const struct heed_gemm *r) {
    return (((uint64_t)r->m - 1) | ((uint64_t)r->n - 1) | ((uint64_t)r->k - 1)) < MOST_SIZE && r->m * r->n * r->k < MOST_PRODUCTS &&
           r->alpha != 0.0f && ((unsigned)r->a_type | (unsigned)r->b_type | (unsigned)r->c_type | (unsigned)r->compute) == 0 &&
           !r->b_scales;
}

/* Of strides that are not checked yet: it may wrap around. */
struct span {
    uintptr_t start, end;
};

static struct span span_of(const float *data, int64_t rows, int64_t columns, int64_t ld) {
    const uintptr_t start = (uintptr_t)data;
    return (struct span){start, start + sizeof(float) * ((uintptr_t)(rows - 1) * (uintptr_t)ld + (uintptr_t)columns)};
}

/* A matrix that is there, aligned and within the address space, with rows apart. */
static bool is_legal(const float *data, int64_t columns, int64_t ld) {
    const uintptr_t start = (uintptr_t)data;
    return start && start % _Alignof(float) == 0 && !(start >> 62) && ld >= columns && ld < MOST_STRIDE;
}

static bool is_legal_input(const float *data, int64_t rows, int64_t columns, int64_t ld, struct span c) {
    const struct span input = span_of(data, rows, columns, ld);
    return is_legal(data, columns, ld) && (c.end <= input.start || input.end <= c.start);
}

static bool has_legal_memory(const struct heed_gemm *r) {
    const struct span c = span_of(r->c, r->m, r->n, r->ldc);
    if (!is_legal(r->c, r->n, r->ldc) ||
        !(r->transpose_a ? is_legal_input(r->a, r->k, r->m, r->lda, c) : is_legal_input(r->a, r->m, r->k, r->lda, c)))
        return false;
    if (r->packed_b)
        return is_legal_input(r->packed_b, ceil_div(r->n, HEED_PANEL), r->k * HEED_PANEL, r->k * HEED_PANEL, c);
    return r->transpose_b ? is_legal_input(r->b, r->n, r->k, r->ldb, c) : is_legal_input(r->b, r->k, r->n, r->ldb, c);
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
                                    .c = (float *)r->c + column,
                                    .ldc = r->ldc};
}

/* A function of its own, for its memory on the stack. */
NOINLINE void multiply_transposed(const struct heed_gemm *r, const struct heed_kernels *kernels, int64_t column) {
    _Alignas(64) float panel[MOST_SIZE * HEED_PANEL];
    const struct heed_gemm_small product = product_of(r, column, panel, HEED_PANEL);
    kernels->store_keys((const float *)r->b + column * r->ldb, HEED_F32, r->ldb, r->k, (int)product.columns, panel, HEED_PANEL);
    kernels->gemm_small(&product);
}

void heed_gemm_small(const struct heed_gemm *r, const struct heed_kernels *kernels) {
    const uint64_t callers = heed_fp_begin();
    for (int64_t column = 0; column < r->n; column += HEED_PANEL) {
        if (r->transpose_b && !r->packed_b) {
            multiply_transposed(r, kernels, column);
            continue;
        }
        const float *b = r->packed_b ? r->packed_b : r->b;
        const struct heed_gemm_small product =
            r->packed_b ? product_of(r, column, b + column * r->k, HEED_PANEL) : product_of(r, column, b + column, r->ldb);
        kernels->gemm_small(&product);
    }
    heed_fp_end(callers);
}
