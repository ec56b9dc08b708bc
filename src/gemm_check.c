/* What a matrix product's request may be; the first thing that is wrong becomes the message. */
#include "error.h"
#include "gemm.h"
#include "kernels.h"
#include "internal.h"
#include "region.h"
#include "types.h"

const struct heed_gemm_names heed_gemm_names = {.request = "gemm",
                                                .m = "m",
                                                .n = "n",
                                                .k = "k",
                                                .a = "a",
                                                .a_type = "a_type",
                                                .lda = "lda",
                                                .b = "b",
                                                .b_type = "b_type",
                                                .ldb = "ldb",
                                                .b_scales = "b_scales",
                                                .packed_b = "packed_b",
                                                .c = "c",
                                                .c_type = "c_type",
                                                .ldc = "ldc"};

static enum heed_status check_b_type(const struct heed_gemm *request, const struct heed_gemm_names *names) {
    if (heed_check_type(names->b_type, request->b_type, type_is_known(request->b_type), "one of enum heed_type"))
        return HEED_INVALID_ARGUMENT;
    if (!type_has_blocks(request->b_type))
        return HEED_OK;
    if (!request->transpose_b)
        return heed_fail(HEED_INVALID_ARGUMENT, "transpose_b is false, must be true with %s %s", names->b_type,
                         type_name(request->b_type));
    if (request->k % type_block(request->b_type))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %lld, must be a multiple of %d with %s %s", names->k, (long long)request->k,
                         type_block(request->b_type), names->b_type, type_name(request->b_type));
    return HEED_OK;
}

static enum heed_status check_types(const struct heed_gemm *request, const struct heed_gemm_names *names) {
    if (heed_check_float_type(names->a_type, request->a_type) || heed_check_float_type(names->c_type, request->c_type))
        return HEED_INVALID_ARGUMENT;
    if (heed_check_range("compute", (int)request->compute, HEED_COMPUTE_F32, HEED_COMPUTE_I8) || check_b_type(request, names))
        return HEED_INVALID_ARGUMENT;
    if (request->compute == HEED_COMPUTE_I8 && !type_has_blocks(request->b_type))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %s, must be one with blocks with compute HEED_COMPUTE_I8", names->b_type,
                         type_name(request->b_type));
    return HEED_OK;
}

static struct heed_region region_of(const char *name, const void *data, enum heed_type type, int64_t rows, int64_t columns,
                                    int64_t ld) {
    return heed_region_of_matrix(name, " rows", data, type, rows, columns, ld);
}

static enum heed_status check_sizes(const struct heed_gemm *request, const struct heed_gemm_names *names) {
    if (heed_check_range(names->m, request->m, 0, INT64_MAX) || heed_check_range(names->n, request->n, 0, INT64_MAX) ||
        heed_check_range(names->k, request->k, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

/* A matrix in units of so many bytes, of which a row has so many. */
static struct heed_region region_of_units(const char *name, const void *data, int64_t bytes, int64_t rows, int64_t units,
                                          int64_t ld) {
    struct heed_region region = region_of(name, data, HEED_F32, rows, units, ld);
    region.element_bytes = (int)bytes;
    return region;
}

/* op(b) as stored */
static struct heed_region region_of_b(const struct heed_gemm *request, const struct heed_gemm_names *names) {
    const enum heed_type type = request->b_type;
    const int64_t rows = request->transpose_b ? request->n : request->k, columns = request->transpose_b ? request->k : request->n;
    return region_of_units(names->b, request->b, type_bytes(type), rows, type_units(type, columns), type_units(type, request->ldb));
}

static enum heed_status check_scales(const struct heed_gemm *request, const struct heed_gemm_names *names,
                                     struct heed_region *scales) {
    if (request->b_type != HEED_I8 && request->b_scales)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %p, must be NULL with %s %s, which is not i8", names->b_scales,
                         (const void *)request->b_scales, names->b_type, type_name(request->b_type));
    *scales = region_of(names->b_scales, request->b_scales, HEED_F32, 1, request->b_type == HEED_I8 ? request->n : 0, request->n);
    return heed_region_check(scales);
}

static enum heed_status check_b(const struct heed_gemm *request, const struct heed_gemm_names *names, struct heed_region *b) {
    *b = region_of_b(request, names);
    if (heed_check_range(names->ldb, request->ldb, request->transpose_b ? request->k : request->n, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if (type_has_blocks(request->b_type) && request->ldb % type_block(request->b_type))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %lld, must be a multiple of %d with %s %s", names->ldb,
                         (long long)request->ldb, type_block(request->b_type), names->b_type, type_name(request->b_type));
    return heed_region_check(b);
}

static enum heed_status check_packed(const struct heed_gemm *request, const struct heed_gemm_names *names, const void *packed,
                                     struct heed_region *region) {
    const int64_t bytes = heed_gemm_packed_bytes(request), unit = type_packed_bytes(request->b_type);
    if (bytes < 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %lld and %s is %lld, the packed matrix does not fit into the address space",
                         names->n, (long long)request->n, names->k, (long long)request->k);
    *region = region_of_units(names->packed_b, packed, unit, 1, bytes / unit, bytes / unit);
    return heed_region_check(region);
}

static enum heed_status check_factors(const struct heed_gemm *request, const struct heed_gemm_names *names, struct heed_region *a,
                                      struct heed_region *b) {
    *a = request->transpose_a ? region_of(names->a, request->a, request->a_type, request->k, request->m, request->lda)
                              : region_of(names->a, request->a, request->a_type, request->m, request->k, request->lda);
    if (heed_check_range(names->lda, request->lda, a->width, INT64_MAX) || heed_region_check(a))
        return HEED_INVALID_ARGUMENT;
    return request->packed_b ? check_packed(request, names, request->packed_b, b) : check_b(request, names, b);
}

enum heed_status heed_gemm_check(const struct heed_gemm *request, const struct heed_gemm_names *names) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is NULL", names->request);
    if (check_sizes(request, names) || check_types(request, names))
        return HEED_INVALID_ARGUMENT;
    struct heed_region a, b, scales, c = region_of(names->c, request->c, request->c_type, request->m, request->n, request->ldc);
    if (heed_check_range(names->ldc, request->ldc, request->n, INT64_MAX) || heed_region_check(&c))
        return HEED_INVALID_ARGUMENT;
    if (c.span == 0 || !heed_gemm_reads_ab(request))
        return HEED_OK;
    if (check_factors(request, names, &a, &b) || check_scales(request, names, &scales) || heed_region_check_apart(&c, &a) ||
        heed_region_check_apart(&c, &scales))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&c, &b);
}

enum heed_status heed_gemm_b_regions(const struct heed_gemm *checked, const struct heed_gemm_names *names,
                                     struct heed_region regions[2]) {
    regions[0] = regions[1] = region_of(names->b, NULL, HEED_F32, 0, 0, 0);
    regions[0].span = regions[1].span = 0;
    if (checked->m == 0 || checked->n == 0 || !heed_gemm_reads_ab(checked))
        return HEED_OK;
    const enum heed_status status =
        checked->packed_b ? check_packed(checked, names, checked->packed_b, &regions[0]) : check_b(checked, names, &regions[0]);
    return status ? status : check_scales(checked, names, &regions[1]);
}

struct heed_gemm heed_gemm_safe(const struct heed_gemm *request) {
    struct heed_gemm safe = *request;
    if ((safe.transpose_a ? safe.k : safe.m) <= 1)
        safe.lda = safe.transpose_a ? safe.m : safe.k;
    if ((safe.transpose_b ? safe.n : safe.k) <= 1)
        safe.ldb = safe.transpose_b ? safe.k : safe.n;
    if (safe.m <= 1)
        safe.ldc = safe.n;
    return safe;
}

enum heed_status heed_gemm_check_pack(const struct heed_gemm *request, const struct heed_gemm_names *names, const void *packed_b) {
    struct heed_region b, packed;
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is NULL", names->request);
    if (check_sizes(request, names) || check_b_type(request, names) || check_b(request, names, &b) ||
        check_packed(request, names, packed_b, &packed))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&packed, &b);
}
