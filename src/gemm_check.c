/* What a matrix product's request may be; the first thing that is wrong becomes the message. */
#include "error.h"
#include "gemm.h"
#include "kernels.h"
#include "internal.h"
#include "region.h"
#include "types.h"

static bool is_of_floats(enum heed_type type) { return type == HEED_F32 || type == HEED_BF16 || type == HEED_F16; }

bool heed_gemm_b_may_be(enum heed_type type) { return is_of_floats(type); }

static enum heed_status check_type(const char *name, enum heed_type type, bool may_be, const char *which) {
    return may_be ? HEED_OK : heed_fail(HEED_INVALID_ARGUMENT, "%s is %d, must be %s", name, (int)type, which);
}

static enum heed_status check_b_type(const struct heed_gemm *request) {
    return check_type("b_type", request->b_type, heed_gemm_b_may_be(request->b_type), "HEED_F32, HEED_BF16 or HEED_F16");
}

static enum heed_status check_types(const struct heed_gemm *request) {
    if (check_type("a_type", request->a_type, is_of_floats(request->a_type), "HEED_F32, HEED_BF16 or HEED_F16") ||
        check_type("c_type", request->c_type, is_of_floats(request->c_type), "HEED_F32, HEED_BF16 or HEED_F16"))
        return HEED_INVALID_ARGUMENT;
    if (heed_check_range("compute", (int)request->compute, HEED_COMPUTE_F32, HEED_COMPUTE_BF16))
        return HEED_INVALID_ARGUMENT;
    if (request->compute == HEED_COMPUTE_BF16 && !is_of_floats(request->b_type))
        return heed_fail(HEED_INVALID_ARGUMENT, "compute is HEED_COMPUTE_BF16, must be HEED_COMPUTE_F32 with b_type %d",
                         (int)request->b_type);
    return check_b_type(request);
}

static struct heed_region region_of(const char *name, const void *data, enum heed_type type, int64_t rows, int64_t columns,
                                    int64_t ld) {
    return (struct heed_region){.name = name,
                                .data = data,
                                .type = type,
                                .any_type = true,
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
    return request->transpose_b ? region_of("b", request->b, request->b_type, request->n, request->k, request->ldb)
                                : region_of("b", request->b, request->b_type, request->k, request->n, request->ldb);
}

static enum heed_status check_b(const struct heed_gemm *request, struct heed_region *b) {
    *b = region_of_b(request);
    if (heed_check_range("ldb", request->ldb, b->width, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check(b);
}

static enum heed_status check_packed(const char *name, const void *packed, const struct heed_gemm *request,
                                     struct heed_region *region) {
    const int64_t bytes = heed_gemm_packed_bytes(request), size = bytes / type_bytes(request->b_type);
    if (bytes < 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "n is %lld and k is %lld, the packed matrix does not fit into the address space",
                         (long long)request->n, (long long)request->k);
    *region = region_of(name, packed, request->b_type, 1, size, size);
    return heed_region_check(region);
}

static enum heed_status check_factors(const struct heed_gemm *request, struct heed_region *a, struct heed_region *b) {
    *a = request->transpose_a ? region_of("a", request->a, request->a_type, request->k, request->m, request->lda)
                              : region_of("a", request->a, request->a_type, request->m, request->k, request->lda);
    if (heed_check_range("lda", request->lda, a->width, INT64_MAX) || heed_region_check(a))
        return HEED_INVALID_ARGUMENT;
    return request->packed_b ? check_packed("packed_b", request->packed_b, request, b) : check_b(request, b);
}

enum heed_status heed_gemm_check(const struct heed_gemm *request) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "gemm is NULL");
    if (check_sizes(request) || check_types(request))
        return HEED_INVALID_ARGUMENT;
    struct heed_region a, b, c = region_of("c", request->c, request->c_type, request->m, request->n, request->ldc);
    if (heed_check_range("ldc", request->ldc, request->n, INT64_MAX) || heed_region_check(&c))
        return HEED_INVALID_ARGUMENT;
    if (c.span == 0 || !heed_gemm_reads_ab(request))
        return HEED_OK;
    if (check_factors(request, &a, &b) || heed_region_check_apart(&c, &a))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&c, &b);
}

enum heed_status heed_gemm_check_pack(const struct heed_gemm *request, const void *packed_b) {
    struct heed_region b, packed;
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "gemm is NULL");
    if (check_sizes(request) || check_b_type(request) || check_b(request, &b) ||
        check_packed("packed_b", packed_b, request, &packed))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&packed, &b);
}
