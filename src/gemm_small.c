/* Matrix products of so little work that the machinery of check, plan and tasks, 0.15 us, would count.
 *
 * One kernel for each panel of columns: of floats on a and b where they are, but for a transposed b; of others on floats, or pairs,
 * that they become first.  Checks here are sure or step aside: whatever they do not accept goes the long way, which knows exactly
 * and has the messages. */
#include "gemm_small.h"

#include "cpu.h"
#include "dispatch.h"
#include "gemm.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"

enum {
    MOST_SIZE = 128,
    MOST_PRODUCTS = 1000 * 1000, /* fewer than are worth a thread */
    /* Of factors that are converted.  Of the time of the plan's way, 16 x 16 x 16 of bf16 take 0.35, 48 x 48 x 56 0.90; in pairs,
     * which that way can multiply without making floats of them, 16 x 16 x 16 0.48, 32 x 32 x 16 1.19 (Zen 4). */
    MOST_CONVERTED_SIZE = HEED_PANEL,
    MOST_CONVERTED = 128 * 1024,
    MOST_PAIRS = 8192,
    MOST_OF_B_IN_PAIRS = 2048, /* 1 x 64 x 64 takes 1.45 (AVX2) */
    MOST_STRIDE = 1 << 30,     /* so that no extent overflows */
};

/* One comparison for numbers that must all be small, and not negative. */
static bool has_small_sizes(const struct heed_gemm *r) {
    return (((uint64_t)r->m - 1) | ((uint64_t)r->n - 1) | ((uint64_t)r->k - 1)) < MOST_SIZE && r->m * r->n * r->k < MOST_PRODUCTS &&
           r->alpha != 0.0f && !r->b_scales;
}

/* One more for types and compute. */
_Static_assert(HEED_F32 == 0 && HEED_COMPUTE_F32 == 0, "these are floats, computed as such");
static bool is_of_floats(const struct heed_gemm *r) {
    return ((unsigned)r->a_type | (unsigned)r->b_type | (unsigned)r->c_type | (unsigned)r->compute) == 0;
}

static int64_t most_converted(const struct heed_gemm *r) {
    if (r->compute == HEED_COMPUTE_F32)
        return MOST_CONVERTED;
    return r->compute == HEED_COMPUTE_BF16 && r->n * r->k <= MOST_OF_B_IN_PAIRS ? MOST_PAIRS : 0;
}

static bool may_be_converted(const struct heed_gemm *r) {
    return type_is_float(r->a_type) && type_is_float(r->b_type) && type_is_float(r->c_type) && r->m <= MOST_CONVERTED_SIZE &&
           r->n <= MOST_CONVERTED_SIZE && r->k <= MOST_CONVERTED_SIZE && r->m * r->n * r->k <= most_converted(r);
}

struct matrix {
    const void *data;
    enum heed_type type;
    int64_t rows, columns, ld;
};

INLINE struct matrix a_of(const struct heed_gemm *r, enum heed_type type) {
    return r->transpose_a ? (struct matrix){r->a, type, r->k, r->m, r->lda} : (struct matrix){r->a, type, r->m, r->k, r->lda};
}

INLINE struct matrix b_of(const struct heed_gemm *r, enum heed_type type) {
    if (r->packed_b) {
        const int64_t floats = HEED_PANEL * (type == HEED_BF16 ? round_up(r->k, 2) : r->k);
        return (struct matrix){r->packed_b, type, ceil_div(r->n, HEED_PANEL), floats, floats};
    }
    return r->transpose_b ? (struct matrix){r->b, type, r->n, r->k, r->ldb} : (struct matrix){r->b, type, r->k, r->n, r->ldb};
}

INLINE uintptr_t end_of(const struct matrix *x) {
    return (uintptr_t)x->data + (uintptr_t)(type_bytes(x->type) * ((x->rows - 1) * x->ld + x->columns));
}

INLINE bool are_apart(const struct matrix *x, const struct matrix *y) {
    return end_of(x) <= (uintptr_t)y->data || end_of(y) <= (uintptr_t)x->data;
}

INLINE uintptr_t misaligned(const struct matrix *x) { return (uintptr_t)x->data & (uintptr_t)(type_bytes(x->type) - 1); }

/* Matrices that are there, aligned and within the address space, with rows apart, and c apart from the others. */
INLINE bool has_legal_memory(const struct heed_gemm *r, enum heed_type a_type, enum heed_type b_type, enum heed_type c_type) {
    const struct matrix a = a_of(r, a_type), b = b_of(r, b_type), c = {r->c, c_type, r->m, r->n, r->ldc};
    const uintptr_t addresses = (uintptr_t)a.data | (uintptr_t)b.data | (uintptr_t)c.data, high_bits = (uintptr_t)3 << 62;
    if (!a.data || !b.data || !c.data || addresses & high_bits || misaligned(&a) | misaligned(&b) | misaligned(&c) ||
        (uint64_t)(a.ld | b.ld | c.ld) >= MOST_STRIDE || a.ld < a.columns || b.ld < b.columns || c.ld < c.columns)
        return false;
    return are_apart(&a, &c) && are_apart(&b, &c);
}

/* What heed_exec_check looks at, and cancellation, which a small call would not ask for. */
static bool is_plain(const struct heed_exec *exec) {
    return !exec ||
           (!exec->cancelled && !exec->run && !exec->num_threads && !exec->pool && (unsigned)exec->threads <= HEED_MAX_WORKERS);
}

bool heed_gemm_is_small(const struct heed_gemm *request, const struct heed_exec *exec) {
    if (!request || !is_plain(exec) || !has_small_sizes(request))
        return false;
    if (is_of_floats(request))
        return has_legal_memory(request, HEED_F32, HEED_F32, HEED_F32);
    return may_be_converted(request) && has_legal_memory(request, request->a_type, request->b_type, request->c_type);
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

static void multiply_floats(const struct heed_gemm *r, const struct heed_kernels *kernels) {
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

/* op(a) as floats or pairs, with leading dimension lda. */
static void convert_a(const struct heed_gemm *r, const struct heed_kernels *kernels, bool pairs, float *a, int64_t lda) {
    if (r->transpose_a)
        kernels->store_keys(r->a, r->a_type, r->lda, r->m, (int)r->k, a, lda);
    else if (!pairs)
        kernels->widen_rows(r->a, r->a_type, r->lda, r->m, r->k, a, lda);
    if (pairs && r->transpose_a)
        kernels->pair_queries(a, HEED_F32, lda, r->m, r->k, 1.0f, a, lda);
    else if (pairs)
        kernels->pair_queries(r->a, r->a_type, r->lda, r->m, r->k, 1.0f, a, lda);
}

/* A single panel.  A function of its own, for its memory on the stack. */
NOINLINE void multiply_converted(const struct heed_gemm *r, const struct heed_kernels *kernels, bool pairs) {
    _Alignas(64) float a[MOST_CONVERTED_SIZE * MOST_CONVERTED_SIZE], panel[MOST_CONVERTED_SIZE * HEED_PANEL],
        sums[MOST_CONVERTED_SIZE * HEED_PANEL];
    const int64_t k = pairs ? round_up(r->k, 2) : r->k;
    struct heed_gemm_small product = {.rows = r->m,
                                      .columns = r->n,
                                      .k = k,
                                      .a = a,
                                      .lda = k,
                                      .a_step = 1,
                                      .b = heed_gemm_load_b(r, kernels, 0, (int)r->n, 0, r->k, panel),
                                      .ldb = HEED_PANEL,
                                      .alpha = 1.0f,
                                      .c = sums,
                                      .ldc = HEED_PANEL};
    convert_a(r, kernels, pairs, a, k);
    if (r->c_type == HEED_F32) {
        product.c = r->c;
        product.ldc = r->ldc;
        product.alpha = r->alpha;
        product.beta = r->beta;
    }
    kernels->gemm_small(&product);
    if (r->c_type != HEED_F32)
        heed_gemm_finish(r, NULL, kernels, &(struct heed_gemm_sums){0, r->m, 0, r->n, sums, HEED_PANEL});
}

static void multiply(const struct heed_gemm *r, const struct heed_kernels *kernels) {
    const bool pairs = r->compute == HEED_COMPUTE_BF16;
    if (is_of_floats(r)) {
        multiply_floats(r, kernels);
        return;
    }
    if (pairs)
        heed_fp_flush(true);
    multiply_converted(r, kernels, pairs);
    if (pairs)
        heed_fp_flush(false);
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
