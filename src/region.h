/* The memory that a tensor of a request occupies: checked once, before anything is read or written. */
#ifndef HEED_REGION_H
#define HEED_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heed.h"
#include "internal.h"

enum { HEED_REGION_DIMS = 3 };

/* Rows of `width` contiguous elements, count[0] x count[1] x count[2] of them, `stride` elements apart. */
struct heed_region {
    const char *name; /* the field in messages */
    const void *data;
    enum heed_type type;
    bool any_type;     /* else it must be HEED_F32 */
    int element_bytes; /* also their alignment; 0: the type's */
    int64_t width;
    int64_t count[HEED_REGION_DIMS];
    int64_t stride[HEED_REGION_DIMS];
    const char *stride_name[HEED_REGION_DIMS];
    int64_t span; /* set by heed_region_check: elements from the first to the last, 0 if there are none */
};

/* A matrix of any type, rows `stride` elements apart. */
struct heed_region heed_region_of_matrix(const char *name, const char *stride_name, const void *data, enum heed_type type,
                                         int64_t rows, int64_t columns, int64_t stride);
/* [batch, heads, tokens, width] of any type; with packed sequences the batch is one. */
struct heed_region heed_region_of_view(const char *name, const struct heed_input *view, bool packed, int64_t batch, int64_t heads,
                                       int64_t tokens, int64_t width);
/* An output as such a view. */
INLINE struct heed_input view_of_output(const struct heed_output *output) {
    return (struct heed_input){output->data, output->batch_stride, output->head_stride, output->token_stride, output->type};
}
/* The type one that may be, strides not negative, every element within the address space, data there and aligned; sets span. */
enum heed_status heed_region_check(struct heed_region *region);
/* No two rows of an output share an element: taken by ascending stride, each dimension steps over all of those before it. */
enum heed_status heed_region_check_rows_apart(const struct heed_region *region);
/* Nothing of `output` is in `other`.  Exact for tensors apart in memory and for those of equal elements that interleave with
 * a common period (columns of one packed buffer); stranger patterns count as overlap. */
enum heed_status heed_region_check_apart(const struct heed_region *output, const struct heed_region *other);
/* Of a checked one: behind its last element. */
uintptr_t heed_region_end(const struct heed_region *region);

/* value in [least, most], else a message "name is value, must be ..." */
enum heed_status heed_check_range(const char *name, int64_t value, int64_t least, int64_t most);
/* The same of several, the first of which that is wrong becomes the message. */
struct heed_limit {
    const char *name;
    int64_t value, least, most;
};
enum heed_status heed_check_limits(const struct heed_limit *limits, size_t count);
/* A type, which may be so or not; `which` says what it must be. */
enum heed_status heed_check_type(const char *name, enum heed_type type, bool may_be, const char *which);
/* HEED_F32, HEED_BF16 or HEED_F16 */
enum heed_status heed_check_float_type(const char *name, enum heed_type type);

#endif
