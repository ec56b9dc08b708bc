/* Safetensors: 8 bytes with the length of the header, the header, the data; and tensors by name from any header.  See shard.h. */
#include "checkpoint.h"
#include "shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };
static const int64_t header_most = 100000000; /* the format's own limit */

void safetensors_open(struct shard *shard) {
    const int64_t most = shard->file_bytes - LENGTH_BYTES;
    uint64_t header_bytes = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        header_bytes |= (uint64_t)shard->file[i] << 8 * i;
    if (header_bytes > (uint64_t)most || header_bytes > (uint64_t)header_most)
        fail("%s: a header of %" PRIu64 " bytes, in a file of %" PRId64, shard->path, header_bytes, shard->file_bytes);
    json_error_t error;
    shard->header = json_loadb((const char *)shard->file + LENGTH_BYTES, (size_t)header_bytes,
                               JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!shard->header)
        fail("%s: the header, at byte %d: %s", shard->path, error.position, error.text);
    if (!json_is_object(shard->header))
        fail("%s: the header is not a JSON object", shard->path);
    shard->data = shard->file + LENGTH_BYTES + header_bytes;
    shard->bytes = most - (int64_t)header_bytes;
}

/* Element i of an array of integers, -1 if there is none: a double has all integers up to 2^53. */
static int64_t element(const json_t *array, size_t i) {
    const json_t *value = json_array_get(array, i);
    const double number = json_is_real(value) ? json_real_value(value) : -1;
    return number >= 0 && number <= 0x1p53 && number == (double)(int64_t)number ? (int64_t)number : -1;
}

static const struct storage storages[] = {
    {"F32", 0, HEED_F32, 1, 4, 1, 2},          {"F16", 1, HEED_F16, 1, 2, 1, 0},        {"BF16", 30, HEED_BF16, 1, 2, 1, 0},
    {"Q8_0", 8, HEED_Q8_0, 32, 34, 1, 0},      {"Q4_0", 2, HEED_Q4_0, 32, 18, 1, 0},    {"Q5_0", 6, HEED_Q5_0, 32, 22, 1, 0},
    {"Q4_K", 12, HEED_Q4_K, 256, 144, 2, 0},   {"Q5_K", 13, HEED_Q5_K, 256, 176, 2, 0}, {"Q6_K", 14, HEED_Q6_K, 256, 210, 1, 208},
    {"IQ4_NL", 20, HEED_IQ4_NL, 32, 18, 1, 0}, {"MXFP4", 39, HEED_MXFP4, 32, 17, 0, 0}};
enum { STORAGES = sizeof storages / sizeof *storages };

const struct storage *storage_of_gguf(uint32_t number) {
    for (int i = 0; i < STORAGES; i++)
        if (storages[i].gguf == number)
            return &storages[i];
    return NULL;
}

/* NULL: not one of ours. */
static const struct storage *storage_of(const json_t *entry) {
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    for (int i = 0; i < STORAGES; i++)
        if (dtype && strcmp(dtype, storages[i].name) == 0)
            return &storages[i];
    return NULL;
}

static const struct storage *storage_of_type(enum heed_type type) {
    for (int i = 0; i < STORAGES; i++)
        if (storages[i].type == type)
            return &storages[i];
    fail("no checkpoint has weights of type %d", (int)type);
}

int64_t block_of(enum heed_type type) { return storage_of_type(type)->elements; }

int64_t bytes_of(enum heed_type type, int64_t elements) {
    const struct storage *storage = storage_of_type(type);
    return elements / storage->elements * storage->bytes;
}

enum { SHAPE_BYTES = 256 };
static void append_size(char text[SHAPE_BYTES], double size) {
    const size_t used = strlen(text);
    snprintf(text + used, SHAPE_BYTES - used, "%s%.17g", used > 0 ? "," : "", size);
}

static void check_shape(const struct shard *shard, const char *name, const json_t *shape, const int64_t wanted[3]) {
    char found[SHAPE_BYTES] = "", must[SHAPE_BYTES] = "";
    for (size_t i = 0; i < json_array_size(shape); i++)
        append_size(found, json_real_value(json_array_get(shape, i)));
    for (int i = 0; i < 3; i++)
        if (wanted[i] > 0)
            append_size(must, (double)wanted[i]);
    if (strcmp(found, must) != 0)
        fail("%s: %s: shape is [%s], must be [%s]", shard->path, name, found, must);
}

struct tensor shard_tensor(const struct shard *shard, const char *name, int64_t parts, int64_t rows, int64_t columns) {
    const json_t *entry = json_object_get(shard->header, name), *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_object(entry))
        fail("%s: there is no tensor %s", shard->path, name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const struct storage *storage = storage_of(entry);
    if (!storage)
        fail("%s: %s: dtype is %s, must be F32, BF16, F16, Q8_0, Q4_0, Q5_0, Q4_K, Q5_K, Q6_K, IQ4_NL or MXFP4", shard->path, name,
             dtype ? dtype : "missing");
    check_shape(shard, name, json_object_get(entry, "shape"), (const int64_t[]){parts, rows, columns});
    if (columns % storage->elements != 0)
        fail("%s: %s: rows of %" PRId64 " have no whole blocks of %" PRId64, shard->path, name, columns, storage->elements);
    const int64_t begin = element(offsets, 0), end = element(offsets, 1),
                  width = storage->type == HEED_F32     ? 4
                          : storage->type == HEED_MXFP4 ? 1
                                                        : 2;
    const int64_t count = (parts > 0 ? parts : 1) * (rows > 0 ? rows : 1), row = bytes_of(storage->type, columns);
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin || end > shard->bytes || (end - begin) / row != count ||
        (end - begin) % row != 0)
        fail("%s: %s: data_offsets are %" PRId64 " and %" PRId64 ", which is not where its shape has room in %" PRId64
             " bytes of data",
             shard->path, name, begin, end, shard->bytes);
    if ((uintptr_t)(shard->data + begin) % (uintptr_t)width != 0)
        fail("%s: %s: data_offsets begin at %" PRId64 ", where it is not aligned", shard->path, name, begin);
    return (struct tensor){.data = shard->data + begin, .rows = count, .columns = columns, .type = storage->type};
}

/* By its exponents. */
static bool is_finite(const unsigned char *block, const struct storage *storage) {
    const unsigned exponent = storage->type == HEED_F32 || storage->type == HEED_BF16 ? 0x7f80 : 0x7c00;
    const unsigned char *half = block + storage->first;
    bool finite = true;
    for (int i = 0; i < storage->exponents; i++, half += 2)
        finite &= ((unsigned)(half[1] << 8 | half[0]) & exponent) != exponent;
    return finite;
}

const char *shard_not_finite(const struct shard *shard) {
    const char *name;
    json_t *entry;
    json_object_foreach(shard->header, name, entry) {
        const json_t *offsets = json_object_get(entry, "data_offsets");
        const struct storage *storage = storage_of(entry);
        const int64_t end = element(offsets, 1);
        if (!storage || end > shard->bytes)
            continue;
        for (int64_t at = element(offsets, 0); at >= 0 && at + storage->bytes <= end; at += storage->bytes)
            if (!is_finite(shard->data + at, storage))
                return name;
    }
    return NULL;
}
