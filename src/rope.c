/* heed_rope. */
#include "rope.h"

#include <inttypes.h>

#include "error.h"
#include "rows.h"

enum { OUTPUT, INPUT, COS, SIN, STARTS, POSITIONS, REGIONS };

static const struct heed_rope_names own_names = {"tables.pairs", "tables.positions", "tables.table_stride", "tables.cos",
                                                 "tables.sin"};
const struct heed_rope_names heed_rope_fields = {"rope.pairs", "rope.positions", "rope.table_stride", "rope.cos", "rope.sin"};

struct rope_run {
    const struct heed_rope *request;
    struct heed_sequences sequences;
    int64_t first; /* token of all sequences */
};

static struct heed_sequences sequences_in(const struct heed_rope *request) {
    return (struct heed_sequences){request->batch, request->tokens, request->starts, request->positions};
}

static struct heed_region region_of(const char *name, const struct heed_rope *request, const struct heed_input *view) {
    return heed_region_of_view(name, view, request->starts, request->batch, request->num_heads, request->tokens, request->head_dim);
}

static bool is_same(const struct heed_region *a, const struct heed_region *b) {
    bool same = a->data == b->data && a->type == b->type;
    for (int i = 0; i < HEED_REGION_DIMS; i++)
        same &= a->count[i] <= 1 || a->stride[i] == b->stride[i];
    return same;
}

static bool is_empty(const struct heed_rope *request) {
    return request->batch == 0 || request->num_heads == 0 || request->tokens == 0 || request->head_dim == 0;
}

static enum heed_status check_memory(const struct heed_rope *request, const struct heed_rope_names *names) {
    const struct heed_input written = view_of_output(&request->output);
    const bool turns = !is_empty(request);
    struct heed_region regions[REGIONS] = {
        [OUTPUT] = region_of("output", request, &written),
        [INPUT] = region_of("input", request, &request->input),
        [COS] = heed_rope_region(names->cos, &request->tables, request->tables.cos, turns),
        [SIN] = heed_rope_region(names->sin, &request->tables, request->tables.sin, turns),
        [STARTS] = heed_sequences_region("starts", request->starts, request->batch + 1),
        [POSITIONS] = heed_sequences_region("positions", request->positions, request->batch),
    };
    for (int i = 0; i < REGIONS; i++)
        if (heed_region_check(&regions[i]))
            return HEED_INVALID_ARGUMENT;
    if (heed_region_check_rows_apart(&regions[OUTPUT]))
        return HEED_INVALID_ARGUMENT;
    for (int i = is_same(&regions[OUTPUT], &regions[INPUT]) ? COS : INPUT; i < REGIONS; i++)
        if (heed_region_check_apart(&regions[OUTPUT], &regions[i]))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

/* Rows, which no number of tasks exceeds, can be counted. */
static enum heed_status check_sizes(const struct heed_rope *request) {
    int64_t rows = request->tokens;
    if (heed_check_range("batch", request->batch, 0, INT64_MAX - 1) ||
        heed_check_range("num_heads", request->num_heads, 0, INT64_MAX) ||
        heed_check_range("tokens", request->tokens, 0, INT64_MAX) || heed_check_range("head_dim", request->head_dim, 0, INT64_MAX))
        return HEED_INVALID_ARGUMENT;
    if ((!request->starts && __builtin_mul_overflow(request->batch, rows, &rows)) ||
        __builtin_mul_overflow(rows, request->num_heads, &rows))
        return heed_fail(HEED_INVALID_ARGUMENT, "tokens is %" PRId64 ", times batch and num_heads it overflows", request->tokens);
    return HEED_OK;
}

enum heed_status heed_rope_check(const struct heed_rope *request, const struct heed_rope_names *names) {
    if (!request)
        return heed_fail(HEED_INVALID_ARGUMENT, "rope is NULL");
    if (check_sizes(request) || heed_rope_tables_check(&request->tables, names, request->head_dim) || check_memory(request, names))
        return HEED_INVALID_ARGUMENT;
    const struct heed_sequences sequences = sequences_in(request);
    if (heed_check_starts("starts", request->starts, request->batch, request->tokens))
        return HEED_INVALID_ARGUMENT;
    for (int64_t b = 0; !is_empty(request) && b < sequences_unlike(&sequences); b++)
        if (heed_rope_check_positions(&request->tables, names, &sequences, b))
            return HEED_INVALID_ARGUMENT;
    return HEED_OK;
}

static void store(const struct heed_kernels *kernels, const float *x, int64_t n, enum heed_type type, void *row, int64_t at) {
    kernels->round_rows(x, 0, 1, n, type_at_output(type, row, at), type, 0);
}

/* Pieces are read whole before they are written, in place too. */
static void turn_row(const struct heed_rope *request, const struct heed_kernels *kernels, int64_t position, const void *from,
                     void *to) {
    const struct heed_rope_tables *tables = &request->tables;
    const enum heed_type type = request->output.type;
    float a[HEED_ROPE_PIECE], b[HEED_ROPE_PIECE], joined[2 * HEED_ROPE_PIECE];
    if (type == HEED_F32 && request->input.type == HEED_F32 && !tables->interleaved && tables->pairs > 0) { /* half the time */
        const int64_t row = position * tables->table_stride, n = tables->pairs;
        kernels->rope(from, (const float *)from + n, tables->cos + row, tables->sin + row, n, to, (float *)to + n);
        return;
    }
    for (int64_t i = 0; i < tables->pairs; i += HEED_ROPE_PIECE) {
        const int64_t n = min_i64(HEED_ROPE_PIECE, tables->pairs - i);
        heed_rope_turn(tables, kernels, from, request->input.type, position, i, n, a, b);
        if (!tables->interleaved) {
            store(kernels, a, n, type, to, i);
            store(kernels, b, n, type, to, tables->pairs + i);
            continue;
        }
        for (int64_t j = 0; j < n; j++) {
            joined[2 * j] = a[j];
            joined[2 * j + 1] = b[j];
        }
        store(kernels, joined, 2 * n, type, to, 2 * i);
    }
}

/* Elements of a row that are not turned. */
static void copy_rest(const struct heed_rope *request, const struct heed_kernels *kernels, const void *from, void *to) {
    const enum heed_type input = request->input.type, output = request->output.type;
    float rest[2 * HEED_ROPE_PIECE];
    if (output == HEED_F32 && from == to)
        return;
    for (int64_t i = 2 * request->tables.pairs; i < request->head_dim; i += 2 * HEED_ROPE_PIECE) {
        const int64_t n = min_i64(2 * HEED_ROPE_PIECE, request->head_dim - i);
        kernels->widen_rows(type_at(input, from, i), input, 0, 1, n, output == HEED_F32 ? (float *)to + i : rest, 0);
        if (output != HEED_F32)
            store(kernels, rest, n, output, to, i);
    }
}

static void run_row(const void *context, const struct heed_kernels *kernels, int64_t row) {
    const struct rope_run *run = context;
    const struct heed_rope *request = run->request;
    const struct heed_input *input = &request->input;
    const struct heed_output *output = &request->output;
    const int64_t head = row % request->num_heads, token = run->first + row / request->num_heads;
    const int64_t b = sequences_of(&run->sequences, token), t = token - sequences_begin(&run->sequences, b);
    const int64_t batch = request->starts ? 0 : b, at = request->starts ? token : t;
    const void *from =
        type_at(input->type, input->data, batch * input->batch_stride + head * input->head_stride + at * input->token_stride);
    void *to = type_at_output(output->type, output->data,
                              batch * output->batch_stride + head * output->head_stride + at * output->token_stride);
    turn_row(request, kernels, sequences_position(&run->sequences, b) + t, from, to);
    copy_rest(request, kernels, from, to);
}

HEED_API enum heed_status heed_rope(const struct heed_rope *rope, const struct heed_exec *exec) {
    if (heed_rope_check(rope, &own_names))
        return HEED_INVALID_ARGUMENT;
    const struct heed_sequences sequences = sequences_in(rope);
    const int64_t first = sequences_begin(&sequences, 0), tokens = sequences_begin(&sequences, rope->batch) - first;
    const struct rope_run run = {rope, sequences, first};
    return heed_rows_run(&(struct heed_rows){.rows = tokens * rope->num_heads,
                                             .columns = rope->head_dim,
                                             .flops_per_element = 16.0,
                                             .run = run_row,
                                             .request = &run},
                         exec);
}
