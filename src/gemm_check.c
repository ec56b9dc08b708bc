/* What a matrix product's request may be; the first thing that is wrong becomes the message. */
#include "error.h"
#include "gemm.h"
#include "kernels.h"
#include "internal.h"
#include "region.h"

static struct heed_region region_of(const char *name, const float *data, int64_t rows, int64_t columns, int64_t ld) {
    return (struct heed_region){.name = name,
                                .data = data,
                                .width = columns,
                                .count = {1, 1, rows},
                                .stride = {0, 0, ld},
                                .stride_name = {"", "", " rows"}};
}

static enum heed_status check_sizes(const struct heed_gemm *request) {
    if (heed_check_range("m", request->m, 0, INT64_MAX) || heed_check_range("n", request->n, 0, INT64_MAX) ||
        heed_check_range("k", request->k, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

/* op(b) as stored */
static struct heed_region region_of_b(const struct heed_gemm *request) {
    return request->transpose_b ? region_of("b", request->b, request->n, request->k, request->ldb)
                                : region_of("b", request->b, request->k, request->n, request->ldb);
}

static enum heed_status check_b(const struct heed_gemm *request, struct heed_region *b) {
    *b = region_of_b(request);
    if (heed_check_range("ldb", request->ldb, b->width, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check(b);
}

static enum heed_status check_packed(const char *name, const float *packed, const struct heed_gemm *request,
                                     struct heed_region *region) {
    const int64_t size = heed_gemm_packed_size(request->n, request->k);
    if (size < 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "n is %lld and k is %lld, the packed matrix does not fit into the address space",
                         (long long)request->n, (long long)request->k);
    *region = region_of(name, packed, 1, size, size);
    return heed_region_check(region);
}

static enum heed_status check_factors(const struct heed_gemm *request, struct heed_region *a, struct heed_region *b) {
    *a = request->transpose_a ? region_of("a", request->a, request->k, request->m, request->lda)
                              : region_of("a", request->a, request->m, request->k, request->lda);
    if (heed_check_range("lda", request->lda, a->width, INT64_MAX) || heed_region_check(a))
        return HEED_INVALID_ARGUMENT;
    return request->packed_b ? check_packed("packed_b", request->packed_b, request, b) : check_b(request, b);
}

enum heed_status heed_gemm_check(const struct heed_gemm *request) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "gemm is NULL");
    if (check_sizes(request))
        return HEED_INVALID_ARGUMENT;
    struct heed_region a, b, c = region_of("c", request->c, request->m, request->n, request->ldc);
    if (heed_check_range("ldc", request->ldc, request->n, INT64_MAX) || heed_region_check(&c))
        return HEED_INVALID_ARGUMENT;
    if (c.span == 0 || !heed_gemm_reads_ab(request))
        return HEED_OK;
    if (check_factors(request, &a, &b) || heed_region_check_apart(&c, &a))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&c, &b);
}

enum heed_status heed_gemm_check_pack(const struct heed_gemm *request, const float *packed_b) {
    struct heed_region b, packed;
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "gemm is NULL");
    if (check_sizes(request) || check_b(request, &b) || check_packed("packed_b", packed_b, request, &packed))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&packed, &b);
}

HEED_API int64_t heed_gemm_packed_size(int64_t n, int64_t k) {
    int64_t size;
    if (n < 0 || k < 0 || n > INT64_MAX - HEED_PANEL || __builtin_mul_overflow(round_up(n, HEED_PANEL), k, &size))
        return -1;
    return size <= INT64_MAX / (int64_t)sizeof(float) ? size : -1;
}
