/* Reads what GGUF files of ggml (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) have before their tensors, as the JSON
 * that Hugging Face's have: fields, like those of config.json, and the header of safetensors.  See shard.h.
 *
 * The file is: magic, version, number of tensors, number of fields, the fields, what is known of each tensor, and at the next
 * multiple of the alignment the tensors themselves; numbers are little-endian. */
#include "shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC = 0x46554747, OLDEST = 2, NEWEST = 3, DIMENSIONS = 4, ALIGNMENT = 32, MOST_ALIGNMENT = 1 << 20 };
enum { NAME_BYTES = 256, MOST_VALUES = 1 << 24 }; /* values: of all fields; in memory they are much larger than in the file */

enum type { UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64, TYPES };
static const int widths[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* 0: no fixed one */

/* Where we are in the file, and what is being read. */
struct cursor {
    const struct shard *shard;
    int64_t at, values; /* values: so far */
    const char *what;
    char name[NAME_BYTES];
};

__attribute__((noreturn)) static void refuse(const struct cursor *cursor, const char *problem, uint64_t value) {
    fail("%s: at byte %" PRId64 ", %s %s: %s %" PRIu64, cursor->shard->path, cursor->at, cursor->what, cursor->name, problem,
         value);
}

static const unsigned char *take(struct cursor *cursor, uint64_t bytes) {
    const unsigned char *place = cursor->shard->file + cursor->at;
    if (bytes > (uint64_t)(cursor->shard->file_bytes - cursor->at))
        refuse(cursor, "the file has no room for a count of", bytes);
    cursor->at += (int64_t)bytes;
    return place;
}

static uint64_t take_number(struct cursor *cursor, int width) {
    const unsigned char *bytes = take(cursor, (uint64_t)width);
    uint64_t bits = 0;
    for (int i = 0; i < width; i++)
        bits |= (uint64_t)bytes[i] << 8 * i;
    return bits;
}

/* A count of what has a byte at least. */
static int64_t take_count(struct cursor *cursor) {
    const uint64_t count = take_number(cursor, 8);
    if (count > (uint64_t)(cursor->shard->file_bytes - cursor->at))
        refuse(cursor, "the file has no room for a count of", count);
    return (int64_t)count;
}

static enum type take_type(struct cursor *cursor) {
    const uint64_t type = take_number(cursor, 4);
    if (type >= TYPES)
        refuse(cursor, "there is no type", type);
    return (enum type)type;
}

/* The name of what comes next, which must not be in the object yet. */
static void take_name(struct cursor *cursor, const char *what, const json_t *object) {
    cursor->what = what;
    *cursor->name = 0;
    const int64_t bytes = take_count(cursor);
    if (bytes >= NAME_BYTES)
        refuse(cursor, "a name is too long, its bytes are", (uint64_t)bytes);
    memcpy(cursor->name, take(cursor, (uint64_t)bytes), (size_t)bytes);
    cursor->name[bytes] = 0;
    if (json_object_get(object, cursor->name))
        fail("%s: there are two %ss %s", cursor->shard->path, what, cursor->name);
}

/* Numbers become doubles, all of them, as in settings_number; JSON has no NaN and no infinity: null. */
static json_t *number(enum type type, uint64_t bits) {
    const uint64_t sign = (uint64_t)1 << (8 * widths[type] - 1);
    const uint32_t low = (uint32_t)bits;
    const bool is_signed = type == INT8 || type == INT16 || type == INT32 || type == INT64;
    double value = is_signed ? (double)(int64_t)((bits ^ sign) - sign) : (double)bits;
    float single;
    if (type == FLOAT64)
        memcpy(&value, &bits, sizeof value);
    if (type == FLOAT32)
        value = (double)(memcpy(&single, &low, sizeof single), single);
    json_t *real = json_real(value);
    return real ? real : json_null();
}

/* json: NULL if there is no memory for it. */
static json_t *take_single(struct cursor *cursor, enum type type) {
    json_t *value;
    if (++cursor->values > MOST_VALUES)
        refuse(cursor, "there are more values than", MOST_VALUES);
    if (type == STRING) {
        const int64_t bytes = take_count(cursor);
        value = json_stringn_nocheck((const char *)take(cursor, (uint64_t)bytes), (size_t)bytes);
    } else {
        const uint64_t bits = take_number(cursor, widths[type]);
        value = type == BOOL ? json_boolean(bits != 0) : number(type, bits);
    }
    if (!value)
        refuse(cursor, "out of memory for value number", (uint64_t)cursor->values);
    return value;
}

static json_t *take_value(struct cursor *cursor) {
    enum type type = take_type(cursor);
    if (type != ARRAY)
        return take_single(cursor, type);
    if ((type = take_type(cursor)) == ARRAY)
        refuse(cursor, "an array of arrays, of type", ARRAY);
    const int64_t count = take_count(cursor);
    json_t *array = json_array();
    for (int64_t i = 0; i < count; i++)
        if (json_array_append_new(array, take_single(cursor, type)) != 0)
            refuse(cursor, "out of memory for value number", (uint64_t)i);
    return array;
}

/* Shape, from the last dimension to the first; type; and where its data begin.  Types that we do not know have no known size. */
static json_t *take_tensor(struct cursor *cursor, int64_t alignment) {
    const uint64_t dimensions = take_number(cursor, 4);
    json_t *shape = json_array();
    double elements = 1;
    if (dimensions < 1 || dimensions > DIMENSIONS)
        refuse(cursor, "must have from 1 to 4 dimensions, has", dimensions);
    for (uint64_t i = 0; i < dimensions; i++) {
        const double size = (double)take_number(cursor, 8);
        json_array_insert_new(shape, 0, json_real(size));
        elements *= size;
    }
    const uint32_t number = (uint32_t)take_number(cursor, 4);
    const uint64_t offset = take_number(cursor, 8);
    if (offset % (uint64_t)alignment != 0 || offset > (uint64_t)cursor->shard->file_bytes)
        refuse(cursor, "is not in the file, or not aligned, at offset", offset);
    const struct storage *storage = storage_of_gguf(number);
    const double bytes = storage ? elements / (double)storage->elements * (double)storage->bytes : 0;
    char unknown[32];
    snprintf(unknown, sizeof unknown, "type %" PRIu32, number);
    return json_pack("{s:s, s:o, s:[f, f]}", "dtype", storage ? storage->name : unknown, "shape", shape, "data_offsets",
                     (double)offset, (double)offset + bytes);
}

static void set(struct cursor *cursor, json_t *object, json_t *value) {
    if (json_object_set_new_nocheck(object, cursor->name, value) != 0)
        refuse(cursor, "out of memory for value number", (uint64_t)cursor->values);
}

static int64_t alignment_of(const struct settings *metadata) {
    static const char field[] = "general.alignment";
    const int64_t alignment = settings_integer(metadata, field, 8, MOST_ALIGNMENT, ALIGNMENT);
    if ((alignment & (alignment - 1)) != 0)
        fail("%s: %s is %" PRId64 ", must be a power of 2", metadata->path, field, alignment);
    return alignment;
}

struct settings gguf_open(struct shard *shard) {
    struct settings metadata = {.json = json_object()};
    struct cursor cursor = {.shard = shard, .what = "header"};
    memcpy(metadata.path, shard->path, sizeof metadata.path);
    const uint64_t magic = take_number(&cursor, 4), version = take_number(&cursor, 4);
    if (magic != MAGIC)
        fail("%s: is no GGUF file, it begins with %08" PRIx64, shard->path, magic);
    if (version < OLDEST || version > NEWEST)
        fail("%s: GGUF of version %" PRIu64 ", must be 2 or 3, little-endian", shard->path, version);
    const int64_t tensors = take_count(&cursor), fields = take_count(&cursor);
    for (int64_t i = 0; i < fields; i++) {
        take_name(&cursor, "field", metadata.json);
        set(&cursor, metadata.json, take_value(&cursor));
    }
    const int64_t alignment = alignment_of(&metadata);
    shard->header = json_object();
    for (int64_t i = 0; i < tensors; i++) {
        take_name(&cursor, "tensor", shard->header);
        set(&cursor, shard->header, take_tensor(&cursor, alignment));
    }
    const int64_t start = (cursor.at + alignment - 1) / alignment * alignment;
    shard->data = shard->file + start;
    shard->bytes = shard->file_bytes - start; /* less than 0: no tensor has room */
    return metadata;
}
