/* heed_embedding. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "rows.h"

enum { PIECE = K_BLOCK /* columns summed at once, on the stack: whole blocks */ };

/* Fields of a table, by the names that messages have for them. */
enum { DATA, ROWS, STRIDE, TYPE, SCALES, FACTOR, IDS, FIELDS };
struct names {
    char of[FIELDS][48];
};

static bool is_empty(const struct heed_embedding *request) { return request->rows == 0 || request->columns == 0; }

static struct names name_fields(int64_t table) {
    static const char *const fields[FIELDS] = {"data", "rows", "stride", "type", "scales", "factor", "ids"};
    struct names names;
    for (int i = 0; i < FIELDS; i++)
        snprintf(names.of[i], sizeof names.of[i], "lookup[%" PRId64 "].%s", table, fields[i]);
    return names;
}

static enum heed_status check_blocks(const struct heed_embedding *request, const struct heed_lookup *lookup,
                                     const struct names *names) {
    if (!type_has_blocks(lookup->type))
        return HEED_OK;
    if (request->columns % type_block(lookup->type))
        return heed_fail(HEED_INVALID_ARGUMENT, "columns is %" PRId64 ", must be a multiple of %d with %s %s", request->columns,
                         type_block(lookup->type), names->of[TYPE], type_name(lookup->type));
    if (lookup->stride % type_block(lookup->type))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %" PRId64 ", must be a multiple of %d with type %s", names->of[STRIDE],
                         lookup->stride, type_block(lookup->type), type_name(lookup->type));
    return HEED_OK;
}

static enum heed_status check_fields(const struct heed_embedding *request, const struct heed_lookup *lookup,
                                     const struct names *names) {
    if (heed_check_range(names->of[ROWS], lookup->rows, is_empty(request) ? 0 : 1, INT64_MAX) ||
        heed_check_range(names->of[STRIDE], lookup->stride, 0, INT64_MAX) ||
        heed_check_type(names->of[TYPE], lookup->type, type_is_known(lookup->type), "one of enum heed_type"))
        return HEED_INVALID_ARGUMENT;
    if (lookup->type != HEED_I8 && lookup->scales)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %p, must be NULL with type %s, which is not i8", names->of[SCALES],
                         (const void *)lookup->scales, type_name(lookup->type));
    if (!isfinite(lookup->factor))
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is %g, must be finite", names->of[FACTOR], (double)lookup->factor);
    return check_blocks(request, lookup, names);
}

/* `units` of `bytes` each, one after another or in rows. */
static struct heed_region region_of(const char *name, const void *data, int64_t bytes, int64_t rows, int64_t units,
                                    int64_t stride) {
    struct heed_region region = heed_rows_region(name, data, rows, units, stride);
    region.element_bytes = (int)bytes;
    return region;
}

static enum heed_status check_memory(const struct heed_embedding *request, const struct heed_lookup *lookup,
                                     const struct names *names, const struct heed_region *output) {
    const int64_t used = !is_empty(request), scales = lookup->type == HEED_I8 ? lookup->rows : 0;
    struct heed_region inputs[] = {
        region_of(names->of[DATA], lookup->data, type_bytes(lookup->type), used * lookup->rows,
                  type_units(lookup->type, request->columns), type_units(lookup->type, lookup->stride)),
        region_of(names->of[SCALES], lookup->scales, sizeof *lookup->scales, used, scales, 0),
        region_of(names->of[IDS], lookup->ids, sizeof *lookup->ids, used, request->rows, 0),
    };
    for (unsigned i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (heed_region_check(&inputs[i]) || heed_region_check_apart(output, &inputs[i]))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

static enum heed_status check_ids(const struct heed_embedding *request, const struct heed_lookup *lookup,
                                  const struct names *names) {
    for (int64_t i = 0; !is_empty(request) && i < request->rows; i++) {
        const int32_t id = lookup->ids[i];
        if (id < 0 || id >= lookup->rows)
            return heed_fail(HEED_INVALID_ARGUMENT, "%s[%" PRId64 "] is %" PRId32 ", must be at least 0 and less than %" PRId64,
                             names->of[IDS], i, id, lookup->rows);
    }
    return HEED_OK;
}

static enum heed_status check_table(const struct heed_embedding *request, const struct heed_lookup *lookup,
                                    const struct names *names, const struct heed_region *output) {
    if (check_fields(request, lookup, names) || check_memory(request, lookup, names, output))
        return HEED_INVALID_ARGUMENT;
    return check_ids(request, lookup, names);
}

/* Names are made where something is wrong: they take longer than a row. */
static enum heed_status check_tables(const struct heed_embedding *request, const struct heed_region *output) {
    static const struct names none;
    for (int64_t table = 0; table < request->tables; table++) {
        const struct heed_lookup *lookup = &request->lookup[table];
        if (check_table(request, lookup, &none, output)) {
            const struct names names = name_fields(table);
            return check_table(request, lookup, &names, output);
        }
    }
    return HEED_OK;
}

static enum heed_status check(const struct heed_embedding *request) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "embedding is NULL");
    if (heed_check_range("rows", request->rows, 0, INT64_MAX) || heed_check_range("columns", request->columns, 0, INT64_MAX) ||
        heed_check_range("tables", request->tables, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if (request->tables > 0 && !request->lookup)
        return heed_fail(HEED_INVALID_ARGUMENT, "lookup is NULL, but tables is %" PRId64, request->tables);
    struct heed_region output = heed_rows_output("output", &request->output, request->rows, request->columns);
    if (heed_region_check(&output) || heed_region_check_rows_apart(&output))
        return HEED_INVALID_ARGUMENT;
    return check_tables(request, &output);
}

static const void *row_of(const struct heed_lookup *lookup, int64_t row, int64_t column) {
    return type_at(lookup->type, lookup->data, lookup->ids[row] * lookup->stride + column);
}

/* Rows of a table lie anywhere, so that of the next one is fetched. */
static void add_table(const struct heed_lookup *lookup, const struct heed_kernels *kernels, int64_t row, int64_t rows,
                      int64_t column, int64_t n, float *sum) {
    const int64_t id = lookup->ids[row];
    const float factor = lookup->factor == 0.0f ? 1.0f : lookup->factor;
    if (row + 1 < rows)
        fetch_bytes(row_of(lookup, row + 1, column), type_span(lookup->type, n));
    kernels->add_scaled(row_of(lookup, row, column), lookup->type, n,
                        lookup->type == HEED_I8 ? factor * lookup->scales[id] : factor, sum);
}

static void run_row(const void *context, const struct heed_kernels *kernels, int64_t row) {
    const struct heed_embedding *request = context;
    const struct heed_output *output = &request->output;
    void *to = type_at_output(output->type, output->data, row * output->token_stride);
    float sum[PIECE];
    for (int64_t column = 0; column < request->columns; column += PIECE) {
        const int64_t n = min_i64(PIECE, request->columns - column);
        memset(sum, 0, sizeof sum);
        for (int64_t table = 0; table < request->tables; table++)
            add_table(&request->lookup[table], kernels, row, request->rows, column, n, sum);
        kernels->round_rows(sum, 0, 1, n, type_at_output(output->type, to, column), output->type, 0);
    }
}

HEED_API enum heed_status heed_embedding(const struct heed_embedding *embedding, const struct heed_exec *exec) {
    if (check(embedding))
        return HEED_INVALID_ARGUMENT;
    return heed_rows_run(&(struct heed_rows){.rows = embedding->rows,
                                             .columns = embedding->columns,
                                             .flops_per_element = 8.0 * (double)embedding->tables,
                                             .run = run_row,
                                             .request = embedding},
                         exec);
}
