/* See gguf.h.  The file is: magic, version, number of tensors, number of fields, the fields, what is known of each tensor, and at
 * the next multiple of the alignment the tensors themselves; numbers are little-endian.  Everything is looked at once, in
 * gguf_open, so that nothing after it leaves the file. */
#include "gguf.h"
#include "shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0x46554747, OLDEST = 2, NEWEST = 3, DIMENSIONS = 4, ALIGNMENT = 32 };
enum { LEAST_FIELD = 13, LEAST_TENSOR = 32 }; /* bytes of an empty name, its length, and what follows */

enum type { UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64, TYPES };
static const char *const type_names[TYPES] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                              "bool",  "string", "array",  "uint64", "int64",  "float64"};
static const int widths[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* 0: no fixed one */

struct field {
    struct text name;
    enum type type; /* of its elements */
    bool array;
    int64_t count;
    const unsigned char *value;
};

struct entry {
    struct text name;
    uint32_t type, dimensions;
    uint64_t size[DIMENSIONS], offset;
};

/* Fields and entries are sorted by their names, with which both begin. */
struct gguf {
    const struct shard *shard;
    struct field *field;
    struct entry *entry;
    int64_t fields, entries, alignment, data;
};

/* Where we are in the file, and what is being read. */
struct cursor {
    const struct shard *shard;
    int64_t at;
    const char *what;
    struct text name;
};

enum { SHOWN = 64 }; /* bytes of a text that a message repeats */
int text_shown(struct text text) { return text.bytes < SHOWN ? (int)text.bytes : SHOWN; }

bool text_is(struct text text, const char *word) {
    return text.bytes == (int64_t)strlen(word) && memcmp(text.data, word, (size_t)text.bytes) == 0;
}

__attribute__((noreturn)) static void refuse(const struct cursor *cursor, const char *problem, uint64_t value) {
    fail("%s: at byte %" PRId64 ", %s %.*s: %s %" PRIu64, cursor->shard->path, cursor->at, cursor->what, text_shown(cursor->name),
         cursor->name.data, problem, value);
}

static const unsigned char *take(struct cursor *cursor, uint64_t count, uint64_t width) {
    const unsigned char *place = cursor->shard->file + cursor->at;
    if (count > (uint64_t)(cursor->shard->file_bytes - cursor->at) / width)
        refuse(cursor, "the file has no room for a count of", count);
    cursor->at += (int64_t)(count * width);
    return place;
}

static uint64_t load(const unsigned char *bytes, int width) {
    uint64_t bits = 0;
    for (int i = 0; i < width; i++)
        bits |= (uint64_t)bytes[i] << 8 * i;
    return bits;
}

static uint64_t take_number(struct cursor *cursor, int width) { return load(take(cursor, 1, (uint64_t)width), width); }

static struct text take_text(struct cursor *cursor) {
    const uint64_t bytes = take_number(cursor, 8);
    return (struct text){(const char *)take(cursor, bytes, 1), (int64_t)bytes};
}

static enum type take_type(struct cursor *cursor) {
    const uint64_t type = take_number(cursor, 4);
    if (type >= TYPES)
        refuse(cursor, "there is no type", type);
    return (enum type)type;
}

static struct field take_field(struct cursor *cursor) {
    cursor->name = (struct text){"", 0};
    struct field field = {.name = take_text(cursor), .count = 1};
    cursor->name = field.name;
    field.type = take_type(cursor);
    field.array = field.type == ARRAY;
    if (field.array) {
        field.type = take_type(cursor);
        if (field.type == ARRAY)
            refuse(cursor, "an array of arrays, of type", ARRAY);
        const uint64_t count = take_number(cursor, 8);
        if (count > (uint64_t)cursor->shard->file_bytes)
            refuse(cursor, "the file has no room for a count of", count);
        field.count = (int64_t)count;
    }
    field.value = cursor->shard->file + cursor->at;
    for (int64_t i = 0; field.type == STRING && i < field.count; i++)
        take_text(cursor);
    if (field.type != STRING)
        take(cursor, (uint64_t)field.count, (uint64_t)widths[field.type]);
    return field;
}

static struct entry take_entry(struct cursor *cursor) {
    cursor->name = (struct text){"", 0};
    struct entry entry = {.name = take_text(cursor)};
    cursor->name = entry.name;
    entry.dimensions = (uint32_t)take_number(cursor, 4);
    if (entry.dimensions < 1 || entry.dimensions > DIMENSIONS)
        refuse(cursor, "must have from 1 to 4 dimensions, has", entry.dimensions);
    for (uint32_t i = 0; i < DIMENSIONS; i++)
        entry.size[i] = i < entry.dimensions ? take_number(cursor, 8) : 1;
    entry.type = (uint32_t)take_number(cursor, 4);
    entry.offset = take_number(cursor, 8);
    return entry;
}

static int compare_texts(const void *a, const void *b) {
    const struct text *x = a, *y = b;
    const int order = memcmp(x->data, y->data, (size_t)(x->bytes < y->bytes ? x->bytes : y->bytes));
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* By name; none may be there twice. */
static void sort(const struct shard *shard, const char *what, void *all, int64_t count, size_t size) {
    qsort(all, (size_t)count, size, compare_texts);
    for (int64_t i = 1; i < count; i++) {
        const struct text *name = (const struct text *)((const char *)all + (size_t)i * size);
        if (compare_texts(name, (const char *)name - size) == 0)
            fail("%s: there are two %s %.*s", shard->path, what, text_shown(*name), name->data);
    }
}

static const void *look_up(const void *all, int64_t count, size_t size, const char *name) {
    const struct text key = {name, (int64_t)strlen(name)};
    return bsearch(&key, all, (size_t)count, size, compare_texts);
}

static int64_t take_count(struct cursor *cursor, const char *what, int64_t least_bytes) {
    cursor->what = what;
    const uint64_t count = take_number(cursor, 8);
    if (count > (uint64_t)(cursor->shard->file_bytes / least_bytes))
        refuse(cursor, "the file has no room for a count of", count);
    return (int64_t)count;
}

static void set_alignment(struct gguf *gguf, int64_t end) {
    const struct field *field = look_up(gguf->field, gguf->fields, sizeof *field, "general.alignment");
    if (field && (field->type != UINT32 || field->array))
        fail("%s: general.alignment is %s%s, must be uint32", gguf->shard->path, field->array ? "an array of " : "",
             type_names[field->type]);
    gguf->alignment = field ? (int64_t)load(field->value, 4) : ALIGNMENT;
    if (gguf->alignment < 8 || (gguf->alignment & (gguf->alignment - 1)) != 0)
        fail("%s: general.alignment is %" PRId64 ", must be a power of 2 from 8", gguf->shard->path, gguf->alignment);
    gguf->data = (end + gguf->alignment - 1) / gguf->alignment * gguf->alignment;
}

struct gguf *gguf_open(const struct shard *shard) {
    struct gguf *gguf = allocate(1, sizeof *gguf);
    struct cursor cursor = {.shard = shard, .what = "the header", .name = {"", 0}};
    *gguf = (struct gguf){.shard = shard};
    const uint64_t magic = take_number(&cursor, 4), version = take_number(&cursor, 4);
    if (magic != MAGIC)
        fail("%s: is no GGUF file, it begins with %08" PRIx64, shard->path, magic);
    if (version < OLDEST || version > NEWEST)
        fail("%s: GGUF of version %" PRIu64 ", must be 2 or 3, little-endian", shard->path, version);
    gguf->entries = take_count(&cursor, "tensors", LEAST_TENSOR);
    gguf->fields = take_count(&cursor, "fields", LEAST_FIELD);
    gguf->field = allocate(gguf->fields, sizeof *gguf->field);
    gguf->entry = allocate(gguf->entries, sizeof *gguf->entry);
    cursor.what = "field";
    for (int64_t i = 0; i < gguf->fields; i++)
        gguf->field[i] = take_field(&cursor);
    cursor.what = "tensor";
    for (int64_t i = 0; i < gguf->entries; i++)
        gguf->entry[i] = take_entry(&cursor);
    sort(shard, "fields", gguf->field, gguf->fields, sizeof *gguf->field);
    sort(shard, "tensors", gguf->entry, gguf->entries, sizeof *gguf->entry);
    set_alignment(gguf, cursor.at);
    return gguf;
}

bool gguf_has(const struct gguf *gguf, const char *name) {
    return look_up(gguf->entry, gguf->entries, sizeof *gguf->entry, name) != NULL;
}

struct tensor gguf_tensor(const struct gguf *gguf, const char *name, int64_t rows, int64_t columns) {
    static const struct {
        uint32_t number;
        enum heed_type type;
        int64_t elements, bytes;
    } known[] = {{0, HEED_F32, 1, 4}, {1, HEED_F16, 1, 2}, {30, HEED_BF16, 1, 2}, {8, HEED_Q8_0, 32, 34}, {2, HEED_Q4_0, 32, 18}};
    const struct shard *shard = gguf->shard;
    const struct entry *entry = look_up(gguf->entry, gguf->entries, sizeof *entry, name);
    const int64_t count = rows > 0 ? rows : 1;
    if (!entry)
        fail("%s: there is no tensor %s", shard->path, name);
    size_t i = 0;
    while (i < sizeof known / sizeof *known && known[i].number != entry->type)
        i++;
    if (i == sizeof known / sizeof *known)
        fail("%s: %s: type is %" PRIu32 ", must be 0 (F32), 1 (F16), 30 (BF16), 8 (Q8_0) or 2 (Q4_0)", shard->path, name,
             entry->type);
    const uint64_t *size = entry->size;
    if (size[0] != (uint64_t)columns || size[1] != (uint64_t)count || size[2] != 1 || size[3] != 1)
        fail("%s: %s: dimensions are %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64 ", must be %" PRId64 " x %" PRId64,
             shard->path, name, size[0], size[1], size[2], size[3], columns, count);
    if (columns % known[i].elements != 0)
        fail("%s: %s: rows of %" PRId64 " have no whole blocks of 32", shard->path, name, columns);
    const int64_t room = shard->file_bytes - gguf->data, row = columns / known[i].elements * known[i].bytes;
    if (entry->offset % (uint64_t)gguf->alignment != 0 || room < 0 || entry->offset > (uint64_t)room ||
        count > (room - (int64_t)entry->offset) / row)
        fail("%s: %s: offset is %" PRIu64 ", must be a multiple of %" PRId64 " and leave room for it in %" PRId64 " bytes of data",
             shard->path, name, entry->offset, gguf->alignment, room);
    return (struct tensor){shard->file + gguf->data + entry->offset, count, columns, known[i].type};
}

/* NULL: not there.  kind, for the message, is what it must be. */
static const struct field *find(const struct checkpoint *checkpoint, const char *name, bool array, bool string, const char *kind) {
    const struct gguf *gguf = checkpoint->gguf;
    const struct field *field = look_up(gguf->field, gguf->fields, sizeof *field, name);
    if (field && (field->array != array || (field->type == STRING) != string))
        fail("%s: %s is %s%s, must be %s", checkpoint->path, name, field->array ? "an array of " : "", type_names[field->type],
             kind);
    return field;
}

bool gguf_has_field(const struct checkpoint *checkpoint, const char *name) {
    const struct gguf *gguf = checkpoint->gguf;
    return look_up(gguf->field, gguf->fields, sizeof *gguf->field, name) != NULL;
}

/* All as doubles, as in settings_number. */
static double number(const struct field *field, int64_t i) {
    const int width = widths[field->type];
    const uint64_t bits = load(field->value + i * width, width);
    const uint32_t low = (uint32_t)bits;
    const bool is_signed = field->type == INT8 || field->type == INT16 || field->type == INT32 || field->type == INT64;
    float single;
    double wide;
    if (field->type == FLOAT32)
        return memcpy(&single, &low, sizeof single), single;
    if (field->type == FLOAT64)
        return memcpy(&wide, &bits, sizeof wide), wide;
    const uint64_t sign = (uint64_t)1 << (8 * width - 1);
    return is_signed ? (double)(int64_t)((bits ^ sign) - sign) : (double)bits;
}

double gguf_number(const struct checkpoint *checkpoint, const char *name, double least, double most, double otherwise) {
    const struct field *field = find(checkpoint, name, false, false, "a number");
    if (!field && otherwise == SETTINGS_REQUIRED)
        fail("%s: %s is missing", checkpoint->path, name);
    const double value = field ? number(field, 0) : otherwise;
    if (field && !(value >= least && value <= most))
        fail("%s: %s is %g, must be from %g to %g", checkpoint->path, name, value, least, most);
    return value;
}

int64_t gguf_integer(const struct checkpoint *checkpoint, const char *name, int64_t least, int64_t most, int64_t otherwise) {
    const double value = gguf_number(checkpoint, name, (double)least, (double)most, (double)otherwise);
    if (value != (double)(int64_t)value)
        fail("%s: %s is %g, must be an integer", checkpoint->path, name, value);
    return (int64_t)value;
}

bool gguf_flag(const struct checkpoint *checkpoint, const char *name, bool otherwise) {
    const struct field *field = find(checkpoint, name, false, false, "a bool");
    return field ? number(field, 0) != 0 : otherwise;
}

struct text gguf_text(const struct checkpoint *checkpoint, const char *name, const char *otherwise) {
    const struct field *field = find(checkpoint, name, false, true, "a string");
    if (!field)
        return (struct text){otherwise, otherwise ? (int64_t)strlen(otherwise) : 0};
    return (struct text){(const char *)field->value + 8, (int64_t)load(field->value, 8)};
}

struct text *gguf_texts(const struct checkpoint *checkpoint, const char *name, int64_t *count) {
    const struct field *field = find(checkpoint, name, true, true, "an array of strings");
    const unsigned char *at = field ? field->value : NULL;
    *count = field ? field->count : 0;
    struct text *texts = field ? allocate(*count, sizeof *texts) : NULL;
    for (int64_t i = 0; i < *count; i++) {
        texts[i] = (struct text){(const char *)at + 8, (int64_t)load(at, 8)};
        at += 8 + texts[i].bytes;
    }
    return texts;
}

float *gguf_floats(const struct checkpoint *checkpoint, const char *name, int64_t *count) {
    const struct field *field = find(checkpoint, name, true, false, "an array of numbers");
    *count = field ? field->count : 0;
    float *floats = field ? allocate(*count, sizeof *floats) : NULL;
    for (int64_t i = 0; i < *count; i++)
        floats[i] = (float)number(field, i);
    return floats;
}
