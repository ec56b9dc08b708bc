/* heed_softmax. */
#include <math.h>
#include <stddef.h>

#include "arithmetic.h"
#include "cache_sizes.h"
#include "cpu.h"
#include "error.h"
#include "rows.h"

enum { STREAMED_PART = 8 /* of L3 */, STREAMED_LEAST = 32 << 20 /* bytes, or all of L3 */ };

/* Lengths are read while outputs are written, so they may not overlap; as floats, for they are memory like any other. */
static enum heed_status check_lengths(const struct heed_softmax *request, const struct heed_region *output) {
    const int64_t floats = sizeof(int64_t) / sizeof(float);
    struct heed_region lengths = {.name = "lengths",
                                  .data = (const float *)(const void *)request->lengths,
                                  .width = floats,
                                  .count = {1, 1, request->lengths ? request->rows : 0},
                                  .stride = {0, 0, floats},
                                  .stride_name = {"", "", ""}};
    if ((uintptr_t)request->lengths % _Alignof(int64_t))
        return heed_fail(HEED_INVALID_ARGUMENT, "lengths is %p, not aligned to int64_t", (const void *)request->lengths);
    if (heed_region_check(&lengths) || heed_region_check_apart(output, &lengths))
        return HEED_INVALID_ARGUMENT;
    for (int64_t i = 0; request->lengths && i < request->rows; i++)
        if (request->lengths[i] < 0 || request->lengths[i] > request->columns)
            return heed_fail(HEED_INVALID_ARGUMENT, "lengths[%lld] is %lld, must be in [0, %lld]", (long long)i,
                             (long long)request->lengths[i], (long long)request->columns);
    return HEED_OK;
}

static enum heed_status check(const struct heed_softmax *request) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "softmax is NULL");
    if (heed_check_range("rows", request->rows, 0, INT64_MAX) || heed_check_range("columns", request->columns, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if (!isfinite(request->scale))
        return heed_fail(HEED_INVALID_ARGUMENT, "scale is %f, must be finite", (double)request->scale);
    struct heed_region input = heed_rows_region("input", request->input, request->rows, request->columns, request->input_stride);
    struct heed_region output =
        heed_rows_region("output", request->output, request->rows, request->columns, request->output_stride);
    if (heed_region_check(&input) || heed_region_check(&output) || heed_region_check_rows_apart(&output) ||
        check_lengths(request, &output))
        return HEED_INVALID_ARGUMENT;
    return heed_rows_check_apart(&output, &input);
}

/* Stores past the caches spare the reading of lines that are written as a whole.  They pay for what would not stay in the caches,
 * of which one call has but a part if they are large, and its input as much as its output: with 32 MB of L3 outputs of 8, 16, 32
 * and 64 MB take 1.0, 0.8, 0.7 and 0.65 of the time so on Zen 4.  On Zen 5 those of 8 to 32 MB took 1.15 to 1.7 times as long,
 * before lines were fetched ahead; others have not been timed. */
static bool streams(const struct heed_softmax *request) {
    const int64_t bytes = request->rows * request->columns * (int64_t)sizeof(float); /* the output is checked: it has as many */
    if (request->output == request->input)
        return false;
    const int64_t cache = heed_cache_shared(), least = heed_cpu_traits() & HEED_TRAIT_FETCHES_INTO_L2 ? cache / 2 : cache;
    return bytes > max_i64(cache / STREAMED_PART, min_i64(least, STREAMED_LEAST));
}

static void run_rows(const void *context, const struct heed_kernels *kernels, int64_t row, int64_t rows) {
    const struct heed_softmax *request = context;
    kernels->softmax_rows(
        &(struct heed_softmax_rows){.x = request->input + row * request->input_stride,
                                    .ldx = request->input_stride,
                                    .rows = rows,
                                    .columns = request->columns,
                                    .lengths = request->lengths ? request->lengths + row : NULL,
                                    .factor = finite_factor((request->scale != 0.0f ? request->scale : 1.0f) * HEED_LOG2E),
                                    .y = request->output + row * request->output_stride,
                                    .ldy = request->output_stride,
                                    .stream = streams(request)});
}

HEED_API enum heed_status heed_softmax(const struct heed_softmax *softmax, const struct heed_exec *exec) {
    if (check(softmax))
        return HEED_INVALID_ARGUMENT;
    return heed_rows_run(&(struct heed_rows){.rows = softmax->rows,
                                             .columns = softmax->columns,
                                             .flops_per_element = 32.0,
                                             .run_rows = run_rows,
                                             .request = softmax},
                         exec);
}
