/* heed_rope and heed_rope_fill: bits are compared with the scalar table, which other tests compare with the rule. */
#include "fuzz.h"
#include "types.h"

#include <inttypes.h>

static enum heed_status call_rope(const void *request, const struct heed_exec *exec) { return heed_rope(request, exec); }

static void print_rope(FILE *file, const void *request) {
    const struct heed_rope *r = request;
    fprintf(file,
            "rope: batch %" PRId64 ", heads %" PRId64 ", tokens %" PRId64 ", head_dim %" PRId64 ", %" PRId64
            " pairs%s, types %d %d%s%s%s\n",
            r->batch, r->num_heads, r->tokens, r->head_dim, r->tables.pairs, r->tables.interleaved ? " interleaved" : "",
            (int)r->input.type, (int)r->output.type, r->starts ? ", starts" : "", r->positions ? ", positions" : "",
            r->input.data == r->output.data ? ", in place" : "");
}

/* One row of a view, token number `at` of its batch entry or, packed, of all. */
static enum marked mark_row(struct memory *memory, const struct heed_rope *r, const struct heed_input *view, int64_t b, int64_t h,
                            int64_t at, enum role role) {
    const size_t each = (size_t)type_bytes(view->type);
    const int64_t offset = (r->starts ? 0 : b * stride_bytes(view->batch_stride, r->batch, each)) +
                           h * stride_bytes(view->head_stride, r->num_heads, each) +
                           at * stride_bytes(view->token_stride, r->tokens, each);
    const struct rows row = {(const char *)view->data + offset, {1, 1, 1}, {0, 0, 0}, r->head_dim * (int64_t)each};
    return memory_mark(memory, &row, role);
}

static struct heed_input view_of(const struct heed_output *view) {
    return (struct heed_input){view->data, view->batch_stride, view->head_stride, view->token_stride, view->type};
}

/* A row of the tables, which without pairs may be NULL. */
static enum marked mark_tables(struct memory *memory, const struct heed_rope_tables *tables, int64_t position) {
    if (tables->pairs == 0)
        return MARKED;
    const struct rows cos = matrix_rows(tables->cos + position * tables->table_stride, 1, tables->pairs, 0),
                      sin = matrix_rows(tables->sin + position * tables->table_stride, 1, tables->pairs, 0);
    const enum marked marked = memory_mark(memory, &cos, ROLE_INPUT);
    return marked == MARKED ? memory_mark(memory, &sin, ROLE_INPUT) : marked;
}

/* Token t of sequence b: its rows of all heads, and that of the tables. */
static enum marked mark_token(struct memory *memory, const struct heed_rope *r, int64_t b, int64_t t) {
    const int64_t position = (r->positions ? r->positions[b] : 0) + t, at = t + (r->starts ? r->starts[b] : 0);
    const struct heed_input output = view_of(&r->output);
    enum marked marked = mark_tables(memory, &r->tables, position);
    for (int64_t h = 0; h < r->num_heads && marked == MARKED; h++) {
        if (r->input.data != r->output.data)
            marked = mark_row(memory, r, &r->input, b, h, at, ROLE_INPUT);
        if (marked == MARKED)
            marked = mark_row(memory, r, &output, b, h, at, ROLE_OUTPUT);
    }
    return marked;
}

static enum marked mark_rope(struct memory *memory, const void *request) {
    const struct heed_rope *r = request;
    const struct rows starts = {r->starts, {1, 1, 1}, {0, 0, 0}, r->starts ? (r->batch + 1) * (int64_t)sizeof *r->starts : 0};
    const struct rows positions = {r->positions, {1, 1, 1}, {0, 0, 0}, r->positions ? r->batch * (int64_t)sizeof *r->positions : 0};
    enum marked marked = memory_mark(memory, &starts, ROLE_INPUT);
    if (marked == MARKED)
        marked = memory_mark(memory, &positions, ROLE_INPUT);
    if (marked != MARKED || r->batch == 0 || r->num_heads == 0 || r->tokens == 0 || r->head_dim == 0)
        return marked;
    if (r->batch > 4096 || is_large(r->num_heads, r->tokens, r->head_dim))
        return MARKED_OUTSIDE;
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t t = 0; t < (r->starts ? r->starts[b + 1] - r->starts[b] : r->tokens) && marked == MARKED; t++)
            marked = mark_token(memory, r, b, t);
    return marked;
}

static bool rope_may_be_validated(const struct memory *memory, const void *request) {
    const struct heed_rope *r = request;
    return memory_has(memory, r->starts, ((__int128)r->batch + 1) * (__int128)sizeof *r->starts) &&
           memory_has(memory, r->positions, (__int128)r->batch * (__int128)sizeof *r->positions);
}

static void make_tables(struct input *in, struct memory *memory, struct heed_rope *r) {
    struct heed_rope_tables *tables = &r->tables;
    tables->pairs = take_chance(in, 3) ? take_range(in, 0, r->head_dim / 2) : r->head_dim / 2;
    tables->interleaved = take_chance(in, 2);
    tables->positions = 40 + r->tokens;
    tables->table_stride = tables->pairs + take_range(in, 0, 2);
    tables->cos = new_matrix(in, memory, "cos", tables->positions, tables->pairs, tables->table_stride, take_fill(in, false));
    tables->sin = new_matrix(in, memory, "sin", tables->positions, tables->pairs, tables->table_stride, take_fill(in, false));
}

/* Heads outside or inside of tokens; all rows of the tensor are those of one matrix. */
static struct heed_input make_view(struct input *in, struct memory *memory, const char *name, const struct heed_rope *r) {
    const int64_t ld = r->head_dim + take_range(in, 0, 3), rows = (r->starts ? 1 : r->batch) * r->num_heads * r->tokens;
    struct heed_input view = {.type = take_type(in), .token_stride = ld, .head_stride = r->tokens * ld};
    if (take_chance(in, 2)) {
        view.head_stride = ld;
        view.token_stride = r->num_heads * ld;
    }
    view.batch_stride = r->num_heads * r->tokens * ld;
    view.data = new_typed(in, memory, name, view.type, rows, r->head_dim, ld);
    return view;
}

void fuzz_rope(struct input *in) {
    static const struct function function = {call_rope, print_rope, mark_rope, rope_may_be_validated, NULL};
    struct memory memory = {.count = 0};
    struct heed_rope r = {.batch = take_range(in, 0, 3), .num_heads = take_range(in, 0, 3), .tokens = take_range(in, 0, 20)};
    r.head_dim = take_chance(in, 8) ? take_range(in, 100, 300) : take_range(in, 0, 40);
    fuzz_take_sequences(in, &memory, r.batch, r.tokens, 40, &r.starts, &r.positions);
    make_tables(in, &memory, &r);
    const struct heed_input output = make_view(in, &memory, "output", &r);
    r.output = (struct heed_output){(void *)(uintptr_t)output.data, output.batch_stride, output.head_stride, output.token_stride,
                                    output.type};
    r.input = take_chance(in, 2) ? make_view(in, &memory, "input", &r) : output;
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    make_bool(&r.tables.interleaved);
    fuzz_request(in, &function, &memory, &r, changes == 0);
}

/* --- heed_rope_fill --- */

static enum heed_status call_fill(const void *request, const struct heed_exec *exec) { return heed_rope_fill(request, exec); }

static void print_fill(FILE *file, const void *request) {
    const struct heed_rope_fill *r = request;
    fprintf(file, "rope_fill: %" PRId64 " pairs, %" PRId64 " positions from %" PRId64 ", stride %" PRId64 ", scale %g%s\n",
            r->pairs, r->positions, r->first, r->table_stride, (double)r->scale, r->frequencies ? "" : ", base");
}

static enum marked mark_fill(struct memory *memory, const void *request) {
    const struct heed_rope_fill *r = request;
    if (r->positions == 0 || r->pairs == 0)
        return MARKED;
    if (is_large(r->positions, r->pairs, 0))
        return MARKED_OUTSIDE;
    const struct rows frequencies = matrix_rows(r->frequencies, r->frequencies ? 1 : 0, r->pairs, 0);
    const struct rows cos = matrix_rows(r->cos, r->positions, r->pairs, r->table_stride),
                      sin = matrix_rows(r->sin, r->positions, r->pairs, r->table_stride);
    enum marked marked = memory_mark(memory, &frequencies, ROLE_INPUT);
    if (marked == MARKED)
        marked = memory_mark(memory, &cos, ROLE_OUTPUT);
    return marked == MARKED ? memory_mark(memory, &sin, ROLE_OUTPUT) : marked;
}

void fuzz_rope_fill(struct input *in) {
    static const struct function function = {call_fill, print_fill, mark_fill, NULL, NULL};
    static const float scales[] = {0.0f, 1.0f, 1.1386294f, -3e38f};
    struct memory memory = {.count = 0};
    struct heed_rope_fill r = {.pairs = take_range(in, 0, 40), .positions = take_range(in, 0, 20)};
    r.first = take_chance(in, 2) ? take_range(in, 0, 1000000) : 0;
    r.scale = scales[take_range(in, 0, 3)];
    r.base = take_chance(in, 4) ? 1e300 : 10000;
    r.table_stride = r.pairs + take_range(in, 0, 3);
    if (take_chance(in, 2))
        r.frequencies = new_matrix(in, &memory, "frequencies", 1, r.pairs, 0, take_fill(in, false));
    r.cos = new_matrix(in, &memory, "cos", r.positions, r.pairs, r.table_stride, FILL_NORMAL);
    r.sin = new_matrix(in, &memory, "sin", r.positions, r.pairs, r.table_stride, FILL_NORMAL);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    fuzz_request(in, &function, &memory, &r, changes == 0);
}
