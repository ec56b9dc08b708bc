/* See weights.h. */
#include "weights.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

void check(enum heed_status status) {
    if (status != HEED_OK)
        fail("%s: %s", heed_status_string(status), heed_error_message());
}

void reader_enter(struct reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->scope, sizeof reader->scope, format, arguments);
    va_end(arguments);
}

static void name_of(const struct reader *reader, const char *name, const char *kind, char full[NAME_BYTES]) {
    const struct alias *alias = reader->aliases;
    while (alias && alias->name && strcmp(alias->name, name) != 0)
        alias++;
    snprintf(full, NAME_BYTES, "%s%s%s", reader->scope, alias && alias->name ? alias->other : name, kind);
}

static struct tensor find(const struct reader *reader, const char *name, const char *kind, int64_t rows, int64_t columns) {
    char full[NAME_BYTES];
    name_of(reader, name, kind, full);
    if (reader->stack == 0)
        return checkpoint_tensor(reader->checkpoint, full, rows, columns);
    struct tensor tensor = checkpoint_stack(reader->checkpoint, full, reader->stack, rows, columns);
    tensor.rows /= reader->stack;
    tensor.data = (const char *)tensor.data + reader->part * bytes_of(tensor.type, tensor.rows * columns);
    return tensor;
}

bool has_tensor(const struct reader *reader, const char *name, const char *kind) {
    char full[NAME_BYTES];
    name_of(reader, name, kind, full);
    return checkpoint_has(reader->checkpoint, full);
}

struct tensor find_table(const struct reader *reader, const char *name, int64_t rows, int64_t columns) {
    return find(reader, name, ".weight", rows, columns);
}

struct heed_lookup lookup_of(const struct tensor *tensor, const int32_t *ids) {
    return (struct heed_lookup){
        .data = tensor->data, .rows = tensor->rows, .stride = tensor->columns, .type = tensor->type, .ids = ids};
}

void look_up(const struct heed_exec *exec, const struct tensor *tensor, const int32_t *ids, int64_t rows, float *output) {
    const struct heed_lookup lookup = lookup_of(tensor, ids);
    check(heed_embedding(&(struct heed_embedding){.rows = rows,
                                                  .columns = tensor->columns,
                                                  .tables = 1,
                                                  .lookup = &lookup,
                                                  .output = {.data = output, .token_stride = tensor->columns}},
                         exec));
}

static void convert(const struct reader *reader, struct tensor tensor, enum heed_type type, void *copy) {
    if (tensor.type == type) {
        memcpy(copy, tensor.data, (size_t)bytes_of(type, tensor.rows * tensor.columns));
        return;
    }
    check(heed_convert(&(struct heed_convert){.rows = tensor.rows,
                                              .columns = tensor.columns,
                                              .input = {.data = tensor.data, .token_stride = tensor.columns, .type = tensor.type},
                                              .output = {.data = copy, .token_stride = tensor.columns, .type = type}},
                       reader->exec));
}

float *read_floats(const struct reader *reader, const char *name, const char *kind, int64_t rows, int64_t columns) {
    const struct tensor tensor = find(reader, name, kind, rows, columns);
    float *floats = allocate(tensor.rows * columns, sizeof *floats);
    convert(reader, tensor, HEED_F32, floats);
    return floats;
}

/* Looks at all tensors, so that no memory is asked for on the word of a file that does not have them.  One scale for a row of 1536
 * weights, as HEED_I8 has it, makes the sentences of examples/embed 7 times as wrong as one for each block of 32.  Stored types
 * that differ between the parts meet in floats. */
static enum heed_type type_of_parts(const struct reader *reader, const struct part *parts, int count, int64_t inputs) {
    enum heed_type type = HEED_F32;
    for (int i = 0; i < count; i++) {
        const enum heed_type found = find_table(reader, parts[i].name, parts[i].outputs, inputs).type;
        type = i == 0 || type == found ? found : HEED_F32;
    }
    if (reader->stored)
        return type;
    return inputs % block_of(reader->type) != 0 ? HEED_F32 : reader->type;
}

bool have_one_type(const struct reader *reader, const struct part *parts, int count, int64_t inputs) {
    const enum heed_type first = find_table(reader, parts[0].name, parts[0].outputs, inputs).type;
    bool one = true;
    for (int i = 1; i < count; i++)
        one &= find_table(reader, parts[i].name, parts[i].outputs, inputs).type == first;
    return one || !reader->stored;
}

static float *read_bias(const struct reader *reader, const struct part *parts, int count, int64_t outputs) {
    float *bias = allocate(outputs, sizeof *bias), *next = bias;
    for (int i = 0; i < count; next += parts[i++].outputs)
        convert(reader, find(reader, parts[i].name, ".bias", 0, parts[i].outputs), HEED_F32, next);
    return bias;
}

/* The parts, one below the other: in the checkpoint, if there is one and it has the type, else in *copy. */
static const void *put_together(const struct reader *reader, const struct part *parts, int count,
                                const struct heed_weights *weights, char **copy) {
    const struct tensor first = find_table(reader, parts[0].name, parts[0].outputs, weights->inputs);
    if (count == 1 && first.type == weights->type)
        return first.data;
    char *next = *copy = allocate(bytes_of(weights->type, weights->outputs * weights->inputs), 1);
    for (int i = 0; i < count; next += bytes_of(weights->type, parts[i++].outputs * weights->inputs))
        convert(reader, find_table(reader, parts[i].name, parts[i].outputs, weights->inputs), weights->type, next);
    return *copy;
}

struct heed_weights read_parts(const struct reader *reader, const struct part *parts, int count, int64_t inputs) {
    struct heed_weights weights = {.inputs = inputs, .type = type_of_parts(reader, parts, count, inputs), .stride = inputs};
    char *copy = NULL;
    for (int i = 0; i < count; i++)
        weights.outputs += parts[i].outputs;
    weights.data = put_together(reader, parts, count, &weights, &copy);
    if (reader->biased || has_tensor(reader, parts[0].name, ".bias"))
        weights.bias = read_bias(reader, parts, count, weights.outputs);
    void *packed = allocate(heed_packed_bytes(&weights), 1);
    check(heed_pack_weights(&weights, packed, reader->exec));
    weights.packed = packed;
    weights.data = NULL;
    release(copy);
    return weights;
}

struct heed_weights read_linear(const struct reader *reader, const char *name, int64_t outputs, int64_t inputs) {
    return read_parts(reader, &(struct part){name, outputs}, 1, inputs);
}
