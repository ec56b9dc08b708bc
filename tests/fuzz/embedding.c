/* heed_embedding and heed_convert: bits are compared with the scalar table, which other tests compare with the rule. */
#include "fuzz.h"
#include "types.h"

#include <inttypes.h>
#include <string.h>

static enum heed_status call_embedding(const void *request, const struct heed_exec *exec) { return heed_embedding(request, exec); }

static void print_embedding(FILE *file, const void *request) {
    const struct heed_embedding *r = request;
    fprintf(file, "embedding: %" PRId64 " x %" PRId64 ", %" PRId64 " tables, output of type %d, stride %" PRId64 "\n", r->rows,
            r->columns, r->tables, (int)r->output.type, r->output.token_stride);
}

/* Rows that no id asks for are not read. */
static enum marked mark_table(struct memory *memory, const struct heed_embedding *r, const struct heed_lookup *table) {
    const struct rows ids = {table->ids, {1, 1, 1}, {0, 0, 0}, r->rows * (int64_t)sizeof *table->ids};
    enum marked marked = memory_mark(memory, &ids, ROLE_INPUT);
    for (int64_t i = 0; i < r->rows && marked == MARKED; i++) {
        const struct rows all = typed_rows(table->data, table->type, 2, r->columns, table->stride);
        const struct rows row = {(const char *)table->data + table->ids[i] * all.stride[2], {1, 1, 1}, {0, 0, 0}, all.width},
                          scale = matrix_rows(table->type == HEED_I8 ? table->scales + table->ids[i] : NULL, 1,
                                              table->type == HEED_I8, 0);
        marked = memory_mark(memory, &row, ROLE_INPUT);
        if (marked == MARKED)
            marked = memory_mark(memory, &scale, ROLE_INPUT);
    }
    return marked;
}

static enum marked mark_embedding(struct memory *memory, const void *request) {
    const struct heed_embedding *r = request;
    const struct rows tables = {r->lookup, {1, 1, 1}, {0, 0, 0}, r->tables * (int64_t)sizeof *r->lookup};
    enum marked marked = memory_mark(memory, &tables, ROLE_DESCRIPTOR);
    if (marked != MARKED || r->rows == 0 || r->columns == 0)
        return marked;
    if (is_large(r->rows, r->columns, r->tables))
        return MARKED_OUTSIDE;
    for (int64_t i = 0; i < r->tables && marked == MARKED; i++)
        marked = mark_table(memory, r, &r->lookup[i]);
    const struct rows output = typed_rows(r->output.data, r->output.type, r->rows, r->columns, r->output.token_stride);
    return marked == MARKED ? memory_mark(memory, &output, ROLE_OUTPUT) : marked;
}

/* Ids are read to be validated. */
static bool embedding_may_be_validated(const struct memory *memory, const void *request) {
    const struct heed_embedding *r = request;
    if ((uintptr_t)r->lookup % _Alignof(struct heed_lookup) ||
        !memory_has(memory, r->lookup, (__int128)r->tables * (__int128)sizeof *r->lookup))
        return false;
    for (int64_t i = 0; r->lookup && i < r->tables; i++)
        if (!memory_has(memory, r->lookup[i].ids, (__int128)r->rows * (__int128)sizeof *r->lookup[i].ids))
            return false;
    return true;
}

static struct heed_lookup take_lookup(struct input *in, struct memory *memory, int64_t rows, int64_t columns) {
    static const float factors[] = {0.0f, 1.0f, -0.5f, 22.627417f, 3e38f};
    struct heed_lookup table = {.rows = take_range(in, 1, 9), .factor = factors[take_range(in, 0, 4)]};
    table.type = (enum heed_type)take_range(in, HEED_F32, columns % TYPE_BLOCK ? HEED_I8 : HEED_MXFP4);
    if (columns % type_block(table.type))
        table.type = HEED_Q5_0;
    const int64_t block = type_block(table.type);
    table.stride = take_chance(in, 6) ? 0 : columns + block * take_range(in, 0, 3);
    table.data = new_weights(in, memory, "data", table.type, table.rows, columns, table.stride);
    if (table.type == HEED_I8)
        table.scales = new_matrix(in, memory, "scales", 1, table.rows, table.rows, take_fill(in, false));
    int32_t *ids = memory_new(memory, "ids", rows, sizeof *ids, in);
    for (int64_t i = 0; i < rows; i++)
        ids[i] = (int32_t)take_range(in, 0, table.rows - 1);
    table.ids = ids;
    return table;
}

/* An id, a word of a table's description or one of the request. */
static void make_hostile(struct input *in, const struct memory *memory, struct heed_embedding *r, struct heed_lookup *tables,
                         int64_t count) {
    const int64_t kind = count > 0 ? take_range(in, 0, 3) : 0;
    struct heed_lookup *table = &tables[kind > 0 ? take_range(in, 0, count - 1) : 0];
    if (kind == 0)
        overwrite(in, memory, r, sizeof *r);
    else if (kind == 1 && memory_room(memory, table->ids) >= sizeof *table->ids)
        memcpy((void *)(uintptr_t)table->ids, &(int32_t){(int32_t)take_hostile(in)}, sizeof *table->ids);
    else if (kind > 1)
        overwrite(in, memory, table, sizeof *table);
}

void fuzz_embedding(struct input *in) {
    static const struct function function = {call_embedding, print_embedding, mark_embedding, embedding_may_be_validated, NULL};
    struct memory memory = {.count = 0};
    struct heed_embedding r = {.rows = take_range(in, 0, 9), .columns = take_range(in, 0, 80), .tables = take_range(in, 0, 3)};
    r.columns += take_chance(in, 8) ? 500 : 0;
    r.columns = take_chance(in, 2) ? r.columns / TYPE_BLOCK * TYPE_BLOCK : r.columns;
    struct heed_lookup *tables = memory_new(&memory, "lookup", r.tables, sizeof *tables, in);
    for (int64_t i = 0; i < r.tables; i++)
        tables[i] = take_lookup(in, &memory, r.rows, r.columns);
    r.lookup = tables;
    r.output.type = (enum heed_type)TAKE_OF(in, HEED_F32, HEED_BF16, HEED_F16);
    r.output.token_stride = r.columns + take_range(in, 0, 3);
    r.output.data = new_typed(in, &memory, "output", r.output.type, r.rows, r.columns, r.output.token_stride);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    struct heed_embedding changed = r;
    for (int64_t i = 0; i < changes; i++)
        make_hostile(in, &memory, &changed, tables, r.tables);
    fuzz_request(in, &function, &memory, &changed, changes == 0);
}

/* --- heed_convert --- */

static enum heed_status call_convert(const void *request, const struct heed_exec *exec) { return heed_convert(request, exec); }

static void print_convert(FILE *file, const void *request) {
    const struct heed_convert *r = request;
    fprintf(file, "convert: %" PRId64 " x %" PRId64 ", type %d to %d, strides %" PRId64 " %" PRId64 "\n", r->rows, r->columns,
            (int)r->input.type, (int)r->output.type, r->input.token_stride, r->output.token_stride);
}

static enum marked mark_convert(struct memory *memory, const void *request) {
    const struct heed_convert *r = request;
    if (r->rows == 0 || r->columns == 0)
        return MARKED;
    if (is_large(r->rows, r->columns, 0))
        return MARKED_OUTSIDE;
    const struct rows input = typed_rows(r->input.data, r->input.type, r->rows, r->columns, r->input.token_stride);
    const struct rows output = typed_rows(r->output.data, r->output.type, r->rows, r->columns, r->output.token_stride);
    const struct rows scales = matrix_rows(r->scales, 1, r->rows, 0);
    enum marked marked = memory_mark(memory, &input, ROLE_INPUT);
    if (marked == MARKED)
        marked = memory_mark(memory, &output, ROLE_OUTPUT);
    return marked == MARKED && r->output.type == HEED_I8 ? memory_mark(memory, &scales, ROLE_OUTPUT) : marked;
}

void fuzz_convert(struct input *in) {
    static const struct function function = {call_convert, print_convert, mark_convert, NULL, NULL};
    struct memory memory = {.count = 0};
    struct heed_convert r = {.rows = take_range(in, 0, 9), .columns = take_range(in, 0, 80)};
    r.output.type = take_chance(in, 6) ? HEED_Q5_0 : (enum heed_type)take_range(in, HEED_F32, HEED_Q4_0);
    r.input.type = take_chance(in, 3) ? (enum heed_type)take_range(in, HEED_Q8_0, HEED_MXFP4) : take_type(in);
    const int64_t block = max_i64(type_block(r.output.type), type_block(r.input.type));
    r.columns = (r.columns + (take_chance(in, 8) ? 500 : 0)) / block * block;
    r.input.token_stride = take_chance(in, 6) ? 0 : r.columns + block * take_range(in, 0, 3);
    r.input.data = new_weights(in, &memory, "input", r.input.type, r.rows, r.columns, r.input.token_stride);
    r.output.token_stride = r.columns + block * take_range(in, 0, 3);
    r.output.data = new_weights(in, &memory, "output", r.output.type, r.rows, r.columns, r.output.token_stride);
    if (r.output.type == HEED_I8)
        r.scales = new_matrix(in, &memory, "scales", 1, r.rows, r.rows, FILL_NORMAL);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    fuzz_request(in, &function, &memory, &r, changes == 0);
}
