/* The second factor of a product, weights as a rule: packed once in the type that they have, and widened or made pairs a block at a
 * time, for all rows that a task multiplies with it. */
#include <string.h>

#include "dispatch.h"
#include "gemm.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"

/* Of k rows of a packed panel: of bf16, whole words. */
static int64_t packed_k(enum heed_type type, int64_t k) { return type == HEED_BF16 ? round_up(k, 2) : k; }
static int64_t panel_bytes(enum heed_type type, int64_t k) { return HEED_PANEL * type_packed_span(type, packed_k(type, k)); }

HEED_API int64_t heed_gemm_packed_bytes(const struct heed_gemm *gemm) {
    int64_t bytes;
    if (!gemm || gemm->n < 0 || gemm->k < 0 || !type_is_known(gemm->b_type) || gemm->n > INT64_MAX - HEED_PANEL)
        return -1;
    if (type_has_blocks(gemm->b_type) && gemm->k % type_block(gemm->b_type))
        return -1;
    if (gemm->k > INT64_MAX / 4 || __builtin_mul_overflow(round_up(gemm->n, HEED_PANEL),
                                                          type_packed_span(gemm->b_type, packed_k(gemm->b_type, gemm->k)), &bytes))
        return -1;
    return bytes;
}

const void *heed_gemm_packed_at(const struct heed_gemm *request, int64_t column, int64_t start) {
    return (const char *)request->packed_b + column / HEED_PANEL * panel_bytes(request->b_type, request->k) +
           panel_bytes(request->b_type, start);
}

const void *heed_gemm_b_at(const struct heed_gemm *request, int64_t column, int64_t start) {
    return type_at(request->b_type, request->b,
                   request->transpose_b ? column * request->ldb + start : start * request->ldb + column);
}

/* b as it is, but no words, of any type without blocks, where it is or in scratch, with panels' columns then. */
struct b_rows {
    const void *data;
    enum heed_type type;
    int64_t ld;
    int columns;
};

static struct b_rows rows_of_b(const struct heed_gemm *request, const struct heed_kernels *kernels, int64_t column, int columns,
                               int64_t start, int64_t k, float *scratch) {
    const void *b = request->packed_b ? heed_gemm_packed_at(request, column, start) : heed_gemm_b_at(request, column, start);
    if (request->packed_b && !type_has_blocks(request->b_type))
        return (struct b_rows){b, request->b_type, HEED_PANEL, HEED_PANEL};
    if (!request->packed_b && !request->transpose_b)
        return (struct b_rows){b, request->b_type, request->ldb, columns};
    if (request->packed_b)
        kernels->unpack_blocks(b, request->b_type, k, scratch);
    else
        kernels->pack_transposed(b, request->b_type, request->ldb, k, columns, scratch);
    return (struct b_rows){scratch, HEED_F32, HEED_PANEL, HEED_PANEL};
}

static void load_pairs(const struct heed_gemm *request, const struct heed_kernels *kernels, int64_t column, int columns,
                       int64_t start, int64_t k, float *scratch) {
    if (heed_gemm_packed_has_words(request)) {
        kernels->unpack_words(heed_gemm_packed_at(request, column, start), k, true, scratch);
        return;
    }
    const struct b_rows b = rows_of_b(request, kernels, column, columns, start, k, scratch);
    kernels->pair_rows(b.data, b.type, b.ld, k, b.columns, false, scratch, HEED_PANEL);
}

const float *heed_gemm_load_b(const struct heed_gemm *request, const struct heed_kernels *kernels, int64_t column, int columns,
                              int64_t start, int64_t k, float *scratch) {
    if (request->packed_b && request->b_type == HEED_F32 && request->compute == HEED_COMPUTE_F32)
        return heed_gemm_packed_at(request, column, start);
    if (request->compute == HEED_COMPUTE_BF16) {
        load_pairs(request, kernels, column, columns, start, k, scratch);
    } else if (heed_gemm_packed_has_words(request)) {
        kernels->unpack_words(heed_gemm_packed_at(request, column, start), k, false, scratch);
    } else {
        const struct b_rows b = rows_of_b(request, kernels, column, columns, start, k, scratch);
        if (b.data != scratch)
            kernels->pack(b.data, b.type, b.ld, k, b.columns, scratch);
    }
    return scratch;
}

void heed_gemm_load_dots(const struct heed_gemm *request, const struct heed_kernels *kernels, const struct heed_dots *dots,
                         int64_t column, int columns, int64_t start, int64_t k, float *source, float *panel) {
    if (heed_gemm_packed_has_words(request) && dots->elements == 2) {
        const int64_t bytes = panel_bytes(HEED_BF16, k);
        memcpy(panel, heed_gemm_packed_at(request, column, start), (size_t)bytes);
        memset((char *)panel + bytes, 0, (size_t)(panel_bytes(HEED_BF16, round_up(k, HEED_DOT)) - bytes));
    } else if (heed_gemm_packed_has_words(request)) {
        kernels->unpack_words(heed_gemm_packed_at(request, column, start), k, false, panel);
        dots->load_b(panel, HEED_F32, HEED_PANEL, k, HEED_PANEL, panel);
    } else if (request->transpose_b && !request->packed_b && !type_has_blocks(request->b_type)) {
        dots->load_b_transposed(heed_gemm_b_at(request, column, start), request->b_type, request->ldb, k, columns, panel);
    } else {
        const struct b_rows b = rows_of_b(request, kernels, column, columns, start, k, source);
        dots->load_b(b.data, b.type, b.ld, k, b.columns, panel);
    }
}

struct pack_run {
    const struct heed_gemm *request;
    const struct heed_kernels *kernels;
    char *packed;
};

/* panel[p][0..63] = b[p][0..columns-1] of elements of `bytes`, zeros after them; b[p][j] is src[p * ld + j * step]. */
INLINE void copy_panel(const int bytes, const char *src, int64_t ld, int64_t step, int64_t k, int columns, char *panel) {
    for (int64_t p = 0; p < k; p++, panel += HEED_PANEL * bytes) {
        for (int j = 0; j < columns; j++)
            memcpy(panel + j * bytes, src + (p * ld + j * step) * bytes, (size_t)bytes);
        memset(panel + columns * bytes, 0, (size_t)((HEED_PANEL - columns) * bytes));
    }
}

/* Words of bf16: panel[p][0..63] = b[2 p][j] and b[2 p + 1][j], zeros where there is none; b as above. */
static void copy_words(const char *src, int64_t ld, int64_t step, int64_t k, int columns, char *panel) {
    enum { BYTES = 2 };
    memset(panel, 0, (size_t)panel_bytes(HEED_BF16, k));
    for (int64_t p = 0; p < k; p++) {
        char *to = panel + p / 2 * 2 * HEED_PANEL * BYTES + p % 2 * BYTES;
        for (int j = 0; j < columns; j++)
            memcpy(to + 2 * j * BYTES, src + (p * ld + j * step) * BYTES, BYTES);
    }
}

/* Words of a transposed b lie there already, if it begins as they do, and panels do: they take a twelfth of the time of elements.
 */
static bool copies_words(const struct heed_gemm *request, const void *panel) {
    return request->b_type == HEED_BF16 && request->transpose_b && request->k % 2 == 0 && request->ldb % 2 == 0 &&
           ((uintptr_t)request->b | (uintptr_t)panel) % sizeof(float) == 0;
}

static bool pack_task(void *context, int64_t task, int worker) {
    const struct pack_run *run = context;
    const struct heed_gemm *request = run->request;
    const int64_t column = task * HEED_PANEL, ld = request->transpose_b ? 1 : request->ldb,
                  step = request->transpose_b ? request->ldb : 1;
    const int columns = (int)min_i64(HEED_PANEL, request->n - column);
    const void *src = heed_gemm_b_at(request, column, 0);
    void *panel = run->packed + task * panel_bytes(request->b_type, request->k);
    (void)worker;
    if (type_has_blocks(request->b_type))
        run->kernels->pack_blocks(src, request->b_type, request->ldb, request->k, columns, panel);
    else if (request->b_type == HEED_I8)
        copy_panel(1, src, ld, step, request->k, columns, panel);
    else if (copies_words(request, panel))
        run->kernels->pack_transposed(src, HEED_F32, request->ldb / 2, request->k / 2, columns, panel);
    else if (request->b_type == HEED_BF16)
        copy_words(src, ld, step, request->k, columns, panel);
    else if (request->b_type == HEED_F16)
        copy_panel(2, src, ld, step, request->k, columns, panel);
    else if (request->transpose_b)
        run->kernels->pack_transposed(src, HEED_F32, request->ldb, request->k, columns, panel);
    else
        run->kernels->pack(src, HEED_F32, request->ldb, request->k, columns, panel);
    return true;
}

enum heed_status heed_gemm_pack(const struct heed_gemm *checked, void *packed_b, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    const enum heed_status status = heed_exec_kernels(exec, &kernels);
    if (status || checked->n == 0 || checked->k == 0)
        return status;
    const struct heed_gemm request = heed_gemm_safe(checked);
    struct pack_run run = {&request, kernels, packed_b};
    const int64_t panels = ceil_div(request.n, HEED_PANEL);
    const double bytes = 8.0 * (double)request.n * (double)request.k;
    return heed_schedule_run(exec, heed_schedule_workers(exec, panels, bytes), panels, pack_task, &run);
}

HEED_API enum heed_status heed_gemm_pack_b(const struct heed_gemm *gemm, void *packed_b, const struct heed_exec *exec) {
    const enum heed_status status = heed_gemm_check_pack(gemm, &heed_gemm_names, packed_b);
    return status ? status : heed_gemm_pack(gemm, packed_b, exec);
}
