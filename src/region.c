/* Where tensors lie, and whether they may: overflow, alignment, overlap. */
#include "region.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "error.h"
#include "internal.h"
#include "types.h"

enum heed_status heed_check_range(const char *name, int64_t value, int64_t least, int64_t most) {
    if (value < least)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %" PRId64 ", must be at least %" PRId64, name, value, least);
    if (value > most)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %" PRId64 ", must be at most %" PRId64, name, value, most);
    return HEED_OK;
}

enum heed_status heed_check_limits(const struct heed_limit *limits, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (heed_check_range(limits[i].name, limits[i].value, limits[i].least, limits[i].most))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

struct heed_region heed_region_of_matrix(const char *name, const char *stride_name, const void *data, enum heed_type type,
                                         int64_t rows, int64_t columns, int64_t stride) {
    return (struct heed_region){.name = name,
                                .data = data,
                                .type = type,
                                .any_type = true,
                                .width = columns,
                                .count = {1, 1, rows},
                                .stride = {0, 0, stride},
                                .stride_name = {"", "", stride_name}};
}

struct heed_region heed_region_of_view(const char *name, const struct heed_input *view, bool packed, int64_t batch, int64_t heads,
                                       int64_t tokens, int64_t width) {
    return (struct heed_region){.name = name,
                                .data = view->data,
                                .type = view->type,
                                .any_type = true,
                                .width = width,
                                .count = {packed ? 1 : batch, heads, tokens},
                                .stride = {packed ? 0 : view->batch_stride, view->head_stride, view->token_stride},
                                .stride_name = {".batch_stride", ".head_stride", ".token_stride"}};
}

static int64_t element_bytes(const struct heed_region *region) {
    return region->element_bytes ? region->element_bytes : type_bytes(region->type);
}

/* Elements from the first to the last; -1 if their bytes do not fit into a pointer difference. */
static int64_t span_of(const struct heed_region *region) {
    int64_t span = region->width;
    for (int i = 0; i < HEED_REGION_DIMS; i++) {
        int64_t step;
        if (__builtin_mul_overflow(region->count[i] - 1, region->stride[i], &step) || __builtin_add_overflow(span, step, &span))
            return -1;
    }
    return span < PTRDIFF_MAX / element_bytes(region) ? span : -1; /* a width that overflowed is INT64_MAX */
}

static uintptr_t end_of(const struct heed_region *region, int64_t span) {
    return (uintptr_t)region->data + (uintptr_t)(span * element_bytes(region));
}

static bool is_empty(const struct heed_region *region) {
    bool empty = region->width == 0;
    for (int i = 0; i < HEED_REGION_DIMS; i++)
        empty |= region->count[i] == 0;
    return empty;
}

enum heed_status heed_check_type(const char *name, enum heed_type type, bool may_be, const char *which) {
    const bool known = type_is_known(type);
    if (may_be)
        return HEED_OK;
    return heed_fail(HEED_INVALID_ARGUMENT, "%s is %d%s%s%s, must be %s", name, (int)type, known ? " (" : "",
                     known ? type_name(type) : "", known ? ")" : "", which);
}

enum heed_status heed_check_float_type(const char *name, enum heed_type type) {
    return heed_check_type(name, type, type_is_float(type), "HEED_F32, HEED_BF16 or HEED_F16");
}

/* The field's name is made where something is wrong: it takes as long as a small call. */
static enum heed_status check_type(const struct heed_region *region) {
    char name[64];
    if (region->any_type ? type_is_float(region->type) : region->type == HEED_F32)
        return HEED_OK;
    snprintf(name, sizeof name, "%s.type", region->name);
    if (region->any_type)
        return heed_check_float_type(name, region->type);
    return heed_check_type(name, region->type, false, "HEED_F32, which is 0");
}

enum heed_status heed_region_check(struct heed_region *region) {
    if (check_type(region))
        return HEED_INVALID_ARGUMENT;
    for (int i = 0; i < HEED_REGION_DIMS; i++)
        if (region->stride[i] < 0)
            return heed_fail(HEED_INVALID_ARGUMENT, "%s%s is %" PRId64 ", must be at least 0", region->name, region->stride_name[i],
                             region->stride[i]);
    region->span = 0;
    if (is_empty(region))
        return HEED_OK;
    const int64_t span = span_of(region);
    if (span < 0 || end_of(region, span) < (uintptr_t)region->data)
        return heed_fail(HEED_INVALID_ARGUMENT,
                         "%s is too large for the address space: %" PRId64 " x %" PRId64 " x %" PRId64 " rows of %" PRId64
                         ", strides %" PRId64 ", %" PRId64 ", %" PRId64,
                         region->name, region->count[0], region->count[1], region->count[2], region->width, region->stride[0],
                         region->stride[1], region->stride[2]);
    if (!region->data)
        return region->element_bytes
                   ? heed_fail(HEED_INVALID_ARGUMENT, "%s is NULL, but has %" PRId64 " bytes", region->name,
                               span * element_bytes(region))
                   : heed_fail(HEED_INVALID_ARGUMENT, "%s is NULL, but has %" PRId64 " elements", region->name, span);
    if ((uintptr_t)region->data % (uintptr_t)element_bytes(region))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %p, not aligned to its elements of %d bytes", region->name, region->data,
                         (int)element_bytes(region));
    region->span = span;
    return HEED_OK;
}

/* The dimensions with more than one index, by ascending stride; returns how many. */
static int sorted_dims(const struct heed_region *region, int order[HEED_REGION_DIMS]) {
    int dims = 0;
    for (int i = HEED_REGION_DIMS - 1; i >= 0; i--) {
        if (region->count[i] <= 1)
            continue;
        int at = dims++;
        for (; at > 0 && region->stride[order[at - 1]] > region->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return dims;
}

enum heed_status heed_region_check_rows_apart(const struct heed_region *region) {
    int order[HEED_REGION_DIMS];
    const int dims = region->span > 0 ? sorted_dims(region, order) : 0;
    int64_t extent = region->width;
    for (int i = 0; i < dims; i++) {
        const int dim = order[i];
        if (region->stride[dim] < extent)
            return heed_fail(HEED_INVALID_ARGUMENT, "%s%s is %" PRId64 ", must be at least %" PRId64 ": rows overlap", region->name,
                             region->stride_name[dim], region->stride[dim], extent);
        extent += region->stride[dim] * (region->count[dim] - 1);
    }
    return HEED_OK;
}

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Dimensions that continue the row without a gap become part of its width; the rest goes into the common period. */
static int64_t width_of_period(const struct heed_region *region, int64_t *period) {
    int order[HEED_REGION_DIMS];
    const int dims = sorted_dims(region, order);
    int64_t width = region->width;
    for (int i = 0; i < dims; i++) {
        if (region->stride[order[i]] == width)
            width *= region->count[order[i]];
        else
            *period = gcd(*period, region->stride[order[i]]);
    }
    return width;
}

enum heed_status heed_region_check_apart(const struct heed_region *output, const struct heed_region *other) {
    const uintptr_t a = (uintptr_t)output->data, b = (uintptr_t)other->data;
    if (output->span == 0 || other->span == 0 || end_of(output, output->span) <= b || end_of(other, other->span) <= a)
        return HEED_OK;
    int64_t period = 0;
    const int64_t output_width = width_of_period(output, &period), other_width = width_of_period(other, &period);
    const int64_t bytes = element_bytes(output);
    if (period > 0 && element_bytes(other) == bytes) {
        const int64_t distance = (int64_t)(b - a) / bytes;             /* both are aligned to it */
        const int64_t start = ((distance % period) + period) % period; /* of other, in output's period */
        if (start >= output_width && start + other_width <= period)
            return HEED_OK;
    }
    return heed_fail(HEED_INVALID_ARGUMENT, "%s (at %p) overlaps %s (at %p)", output->name, output->data, other->name, other->data);
}

uintptr_t heed_region_end(const struct heed_region *region) { return end_of(region, region->span); }
