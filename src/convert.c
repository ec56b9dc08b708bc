/* heed_convert: weights as checkpoints have them become what engines run.  Rounding is the kernels'; scales, and elements of
 * blocks, are found in plain C, for weights are converted once. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "error.h"
#include "rows.h"
#include "types.h"

enum { PIECE = K_BLOCK /* elements of a row at a time, whole blocks, on the stack */ };
/* Below it 1 / scale may be infinite, and the f16 of a block is 0 long before. */
static const float least_scale = 0x1p-126f;

static enum heed_status check_blocks(const struct heed_convert *r, const char *side, enum heed_type type, int64_t stride) {
    if (!type_has_blocks(type))
        return HEED_OK;
    if (r->columns % type_block(type))
        return heed_fail(HEED_INVALID_ARGUMENT, "columns is %" PRId64 ", must be a multiple of %d with %s.type %s", r->columns,
                         type_block(type), side, type_name(type));
    if (r->rows > 1 && stride % type_block(type))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s.token_stride is %" PRId64 ", must be a multiple of %d with %s.type %s", side,
                         stride, type_block(type), side, type_name(type));
    return HEED_OK;
}

static enum heed_status check_types(const struct heed_convert *r) {
    const enum heed_type input = r->input.type, output = r->output.type;
    if (heed_check_type("input.type", input, type_is_known(input) && input != HEED_I8,
                        "HEED_F32, HEED_BF16, HEED_F16 or one with blocks") ||
        heed_check_type("output.type", output, (unsigned)output <= HEED_Q4_0 || output == HEED_Q5_0,
                        "HEED_F32, HEED_BF16, HEED_F16, HEED_I8, HEED_Q8_0, HEED_Q4_0 or HEED_Q5_0"))
        return HEED_INVALID_ARGUMENT;
    if (r->output.type != HEED_I8 && r->scales)
        return heed_fail(HEED_INVALID_ARGUMENT, "scales is %p, must be NULL with output.type %s, which is not i8",
                         (const void *)r->scales, type_name(r->output.type));
    if (check_blocks(r, "input", r->input.type, r->input.token_stride))
        return HEED_INVALID_ARGUMENT;
    return check_blocks(r, "output", r->output.type, r->output.token_stride);
}

static struct heed_region region_of(const char *name, const void *data, enum heed_type type, int64_t rows, int64_t columns,
                                    int64_t stride) {
    struct heed_region region = heed_rows_region(name, data, rows, type_units(type, columns), type_units(type, stride));
    region.stride_name[2] = ".token_stride";
    region.element_bytes = (int)type_bytes(type);
    return region;
}

static enum heed_status check(const struct heed_convert *r) {
    if (!r)
        return heed_fail(HEED_INVALID_ARGUMENT, "convert is NULL");
    if (heed_check_range("rows", r->rows, 0, INT64_MAX) || heed_check_range("columns", r->columns, 0, INT64_MAX) || check_types(r))
        return HEED_INVALID_ARGUMENT;
    struct heed_region input = region_of("input", r->input.data, r->input.type, r->rows, r->columns, r->input.token_stride),
                       output = region_of("output", r->output.data, r->output.type, r->rows, r->columns, r->output.token_stride),
                       scales = region_of("scales", r->scales, HEED_F32, r->columns > 0 && r->output.type == HEED_I8, r->rows, 0);
    if (heed_region_check(&input) || heed_region_check(&output) || heed_region_check(&scales) ||
        heed_region_check_rows_apart(&output) || heed_region_check_apart(&output, &input) ||
        heed_region_check_apart(&output, &scales))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&scales, &input);
}

static const void *row_of(const struct heed_input *input, int64_t row) {
    return type_at(input->type, input->data, row > 0 ? row * input->token_stride : 0);
}

/* Elements [from, from + n) of a row as floats.  Those of blocks are added to -0, which changes none. */
static void load(const struct heed_convert *r, const struct heed_kernels *kernels, const void *row, int64_t from, int64_t n,
                 float *x) {
    const void *data = type_at(r->input.type, row, from);
    if (!type_has_blocks(r->input.type)) {
        kernels->widen_rows(data, r->input.type, 0, 1, n, x, 0);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = -0.0f;
    kernels->add_scaled(data, r->input.type, n, 1.0f, x);
}

/* The size of the largest element, NaN if one is not finite. */
static float largest_of(const struct heed_convert *r, const struct heed_kernels *kernels, const void *row) {
    float floats[PIECE], largest = 0;
    for (int64_t from = 0; from < r->columns; from += PIECE) {
        const int64_t n = min_i64(PIECE, r->columns - from);
        load(r, kernels, row, from, n, floats);
        const float size = kernels->max_size(floats, n);
        if (!(size <= largest) && largest == largest)
            largest = size;
    }
    return largest;
}

/* As heed_kv_append has it. */
static float scale_of(float largest) {
    const float scale = largest / 127.0f;
    return scale < least_scale ? least_scale : scale;
}

static void to_bytes(const struct heed_kernels *kernels, float *floats, int64_t n, float scale, void *to) {
    if (scale == scale)
        kernels->scale_rows(floats, HEED_F32, 0, 1, n, 1.0f / scale, floats, 0);
    else
        memset(floats, 0, (size_t)n * sizeof *floats);
    kernels->round_rows(floats, 0, 1, n, to, HEED_I8, 0);
}

static void put_scale(const struct heed_kernels *kernels, float scale, char *block) {
    uint16_t half;
    kernels->round_rows(&scale, 0, 1, 1, &half, HEED_F16, 0);
    memcpy(block, &half, sizeof half);
}

/* ggml rounds halves away from 0. */
static void to_q8_0(const struct heed_kernels *kernels, const float *x, char *block) {
    const float scale = kernels->max_size(x, TYPE_BLOCK) / 127.0f, factor = scale >= least_scale ? 1.0f / scale : 0.0f;
    put_scale(kernels, scale, block);
    for (int i = 0; i < TYPE_BLOCK; i++)
        block[2 + i] = (char)(factor > 0.0f ? lroundf(x[i] * factor) : 0);
}

/* Numbers of a block, from 0 to 2 * most - 1, and its scale.  The largest element becomes 0, so that all numbers are of use. */
static void find_numbers(const struct heed_kernels *kernels, const float *x, float most, unsigned number[TYPE_BLOCK], char *block) {
    const float size = kernels->max_size(x, TYPE_BLOCK);
    float largest = size;
    for (int i = TYPE_BLOCK - 1; i >= 0; i--)
        if (size > 0.0f && fabsf(x[i]) == size)
            largest = x[i];
    const float scale = largest / -most, factor = fabsf(scale) >= least_scale ? 1.0f / scale : 0.0f;
    put_scale(kernels, scale, block);
    for (int i = 0; i < TYPE_BLOCK; i++)
        number[i] = (unsigned)(factor != 0.0f ? fminf(2 * most - 1, x[i] * factor + most + 0.5f) : most);
}

static void put_low(const unsigned number[TYPE_BLOCK], char *bytes) {
    for (int i = 0; i < TYPE_BLOCK / 2; i++)
        bytes[i] = (char)(number[i] % 16 | number[i + TYPE_BLOCK / 2] % 16 << 4);
}

static void to_q4_0(const struct heed_kernels *kernels, const float *x, char *block) {
    unsigned number[TYPE_BLOCK];
    find_numbers(kernels, x, 8.0f, number, block);
    put_low(number, block + 2);
}

static void to_q5_0(const struct heed_kernels *kernels, const float *x, char *block) {
    unsigned number[TYPE_BLOCK];
    uint32_t fifths = 0;
    find_numbers(kernels, x, 16.0f, number, block);
    for (int i = 0; i < TYPE_BLOCK; i++)
        fifths |= (number[i] / 16) << i;
    memcpy(block + 2, &fifths, sizeof fifths);
    put_low(number, block + 2 + sizeof fifths);
}

static void to_blocks(const struct heed_kernels *kernels, const float *x, int64_t n, enum heed_type type, char *blocks) {
    for (int64_t i = 0; i < n; i += TYPE_BLOCK, blocks += type_span(type, TYPE_BLOCK))
        (type == HEED_Q8_0 ? to_q8_0 : type == HEED_Q4_0 ? to_q4_0 : to_q5_0)(kernels, x + i, blocks);
}

static void run_row(const void *context, const struct heed_kernels *kernels, int64_t row) {
    const struct heed_convert *r = context;
    const enum heed_type type = r->output.type;
    const void *from = row_of(&r->input, row);
    char *to = (char *)r->output.data + type_span(type, row > 0 ? row * r->output.token_stride : 0);
    const float scale = type == HEED_I8 ? scale_of(largest_of(r, kernels, from)) : 1.0f;
    float floats[PIECE];
    for (int64_t at = 0; at < r->columns; at += PIECE, to += type_span(type, PIECE)) {
        const int64_t n = min_i64(PIECE, r->columns - at);
        load(r, kernels, from, at, n, floats);
        if (type == HEED_I8)
            to_bytes(kernels, floats, n, scale, to);
        else if (type_has_blocks(type))
            to_blocks(kernels, floats, n, type, to);
        else
            kernels->round_rows(floats, 0, 1, n, to, type, 0);
    }
    if (type == HEED_I8)
        r->scales[row] = scale;
}

HEED_API int64_t heed_type_bytes(enum heed_type type, int64_t elements) {
    if (heed_check_type("type", type, type_is_known(type), "one of enum heed_type") ||
        heed_check_range("elements", elements, 0, INT64_MAX / (int64_t)sizeof(float)))
        return -1;
    if (elements % type_block(type))
        return heed_fail(HEED_INVALID_ARGUMENT, "elements is %" PRId64 ", must be a multiple of %d with type %s", elements,
                         type_block(type), type_name(type)),
               -1;
    return type_span(type, elements);
}

HEED_API enum heed_status heed_convert(const struct heed_convert *convert, const struct heed_exec *exec) {
    if (check(convert))
        return HEED_INVALID_ARGUMENT;
    return heed_rows_run(
        &(struct heed_rows){
            .rows = convert->rows, .columns = convert->columns, .flops_per_element = 64.0, .run = run_row, .request = convert},
        exec);
}
