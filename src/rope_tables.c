/* Rotary embedding of a row, and its tables: rope.h; and heed_rope_fill, which makes them. */
#include <inttypes.h>
#include <math.h>
#include <sleef.h>

#include "error.h"
#include "rope.h"
#include "rows.h"

enum heed_status heed_rope_tables_check(const struct heed_rope_tables *tables, const struct heed_rope_names *names,
                                        int64_t head_dim) {
    if (heed_check_range(names->pairs, tables->pairs, 0, head_dim / 2))
        return HEED_INVALID_ARGUMENT;
    if (tables->pairs > 0 && (heed_check_range(names->positions, tables->positions, 0, INT64_MAX) ||
                              heed_check_range(names->table_stride, tables->table_stride, tables->pairs, INT64_MAX)))
        return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

enum heed_status heed_rope_check_positions(const struct heed_rope_tables *tables, const struct heed_rope_names *names,
                                           const struct heed_sequences *sequences, int64_t b) {
    const int64_t tokens = sequences_begin(sequences, b + 1) - sequences_begin(sequences, b),
                  from = sequences_position(sequences, b);
    if (from < 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "positions[%" PRId64 "] is %" PRId64 ", must be at least 0", b, from);
    if (from > INT64_MAX - tokens)
        return heed_fail(HEED_INVALID_ARGUMENT, "positions[%" PRId64 "] is %" PRId64 ", must be at most %" PRId64, b, from,
                         INT64_MAX - tokens);
    if (tokens > 0 && tables->pairs > 0 && from + tokens > tables->positions)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %" PRId64 ", must be at least %" PRId64 " for sequence %" PRId64,
                         names->positions, tables->positions, from + tokens, b);
    return HEED_OK;
}

struct heed_region heed_rope_region(const char *name, const struct heed_rope_tables *tables, const float *table, bool needed) {
    const bool used = needed && tables->pairs > 0;
    return (struct heed_region){.name = name,
                                .data = table,
                                .width = tables->pairs,
                                .count = {1, 1, used ? tables->positions : 0},
                                .stride = {0, 0, used ? tables->table_stride : 0},
                                .stride_name = {"", "", ""}};
}

static void split_pairs(const float *x, int64_t n, float *a, float *b) {
    for (int64_t i = 0; i < n; i++) {
        a[i] = x[2 * i];
        b[i] = x[2 * i + 1];
    }
}

void heed_rope_turn(const struct heed_rope_tables *tables, const struct heed_kernels *kernels, const void *x, enum heed_type type,
                    int64_t position, int64_t from, int64_t n, float *a, float *b) {
    const int64_t row = position * tables->table_stride + from;
    float pairs[2 * HEED_ROPE_PIECE];
    if (tables->interleaved) {
        kernels->widen_rows(type_at(type, x, 2 * from), type, 0, 1, 2 * n, pairs, 0);
        split_pairs(pairs, n, a, b);
    } else {
        kernels->widen_rows(type_at(type, x, from), type, 0, 1, n, a, 0);
        kernels->widen_rows(type_at(type, x, from + tables->pairs), type, 0, 1, n, b, 0);
    }
    kernels->rope(a, b, tables->cos + row, tables->sin + row, n, a, b);
}

/* --- heed_rope_fill --- */

enum { COS, SIN, FREQUENCIES, REGIONS };

static enum heed_status check_numbers(const struct heed_rope_fill *request) {
    if (heed_check_range("pairs", request->pairs, 0, INT64_MAX) || heed_check_range("first", request->first, 0, INT64_MAX) ||
        heed_check_range("positions", request->positions, 0, INT64_MAX - request->first) ||
        heed_check_range("table_stride", request->table_stride, request->pairs, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if (!request->frequencies && !(isfinite(request->base) && request->base > 0))
        return heed_fail(HEED_INVALID_ARGUMENT, "base is %g, must be finite and more than 0 without frequencies", request->base);
    if (!isfinite(request->scale))
        return heed_fail(HEED_INVALID_ARGUMENT, "scale is %g, must be finite", (double)request->scale);
    return HEED_OK;
}

static enum heed_status check_fill(const struct heed_rope_fill *request) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "fill is NULL");
    if (check_numbers(request))
        return HEED_INVALID_ARGUMENT;
    struct heed_region regions[REGIONS] = {
        [COS] = heed_rows_region("cos", request->cos, request->positions, request->pairs, request->table_stride),
        [SIN] = heed_rows_region("sin", request->sin, request->positions, request->pairs, request->table_stride),
        [FREQUENCIES] = heed_rows_optional("frequencies", request->frequencies, request->positions > 0, request->pairs, 0)};
    for (int i = 0; i < REGIONS; i++)
        if (heed_region_check(&regions[i]))
            return HEED_INVALID_ARGUMENT;
    if (heed_region_check_apart(&regions[COS], &regions[SIN]) || heed_region_check_apart(&regions[COS], &regions[FREQUENCIES]))
        return HEED_INVALID_ARGUMENT;
    return heed_region_check_apart(&regions[SIN], &regions[FREQUENCIES]);
}

static float as_float(double x) { return x == x ? (float)x : __builtin_nanf(""); }

/* SLEEF's functions without FMA, in plain C: the same operations on every machine. */
static void fill_row(const void *context, const struct heed_kernels *kernels, int64_t row) {
    const struct heed_rope_fill *request = context;
    const double scale = request->scale == 0.0f ? 1.0 : (double)request->scale, position = (double)(request->first + row);
    (void)kernels;
    for (int64_t i = 0; i < request->pairs; i++) {
        const float frequency = request->frequencies
                                    ? request->frequencies[i]
                                    : as_float(Sleef_cinz_powd1_u10purec(request->base, -(double)i / (double)request->pairs));
        const Sleef_double_2 turn = Sleef_cinz_sincosd1_u10purec(position * (double)frequency);
        request->cos[row * request->table_stride + i] = as_float(scale * turn.y);
        request->sin[row * request->table_stride + i] = as_float(scale * turn.x);
    }
}

HEED_API enum heed_status heed_rope_fill(const struct heed_rope_fill *fill, const struct heed_exec *exec) {
    if (check_fill(fill))
        return HEED_INVALID_ARGUMENT;
    return heed_rows_run(
        &(struct heed_rows){
            .rows = fill->positions, .columns = fill->pairs, .flops_per_element = 2048.0, .run = fill_row, .request = fill},
        exec);
}
