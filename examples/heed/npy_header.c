/* Parses what comes before the data of an .npy file: from a buffer of bounded size, by a parser that knows its end. */
#include "npy_header.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { MAX_HEADER = 65535 }; /* what format 1.0 can express; 2.0 exists for structured types, which are not read */

const unsigned char npy_magic[NPY_MAGIC_BYTES + 1] = "\x93NUMPY";

/* The part of a header that is still to be read. */
struct cursor {
    const char *at, *end;
};

bool npy_fail(const char *path, struct npy_error *error, const char *format, ...) {
    int used = snprintf(error->text, sizeof error->text, "%.300s: ", path);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

/* Text of the file made fit for a terminal: short, and without control characters. */
struct shown {
    char text[48];
};
static struct shown shown(const char *text, size_t length) {
    struct shown result = {{0}};
    bool cut = length > sizeof result.text - 4;
    size_t kept = cut ? sizeof result.text - 4 : length;
    for (size_t i = 0; i < kept; i++)
        result.text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    if (cut)
        memcpy(result.text + kept, "...", 3);
    return result;
}

static void skip_spaces(struct cursor *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\t'))
        cursor->at++;
}

static struct shown rest(struct cursor cursor) {
    skip_spaces(&cursor);
    return shown(cursor.at, (size_t)(cursor.end - cursor.at));
}

static bool take(struct cursor *cursor, char wanted) {
    skip_spaces(cursor);
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

static bool take_word(struct cursor *cursor, const char *word) {
    skip_spaces(cursor);
    size_t length = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

/* A Python string without escapes; *text points into the header. */
static bool take_string(struct cursor *cursor, const char **text, size_t *length) {
    skip_spaces(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"'))
        return false;
    const char *close = memchr(cursor->at + 1, *cursor->at, (size_t)(cursor->end - cursor->at - 1));
    if (!close)
        return false;
    *text = cursor->at + 1;
    *length = (size_t)(close - *text);
    cursor->at = close + 1;
    return true;
}

static bool take_size(struct cursor *cursor, int64_t *size) {
    skip_spaces(cursor);
    const char *start = cursor->at;
    for (*size = 0; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        int digit = *cursor->at - '0';
        if (*size > (INT64_MAX - digit) / 10)
            return false;
        *size = *size * 10 + digit;
    }
    return cursor->at > start;
}

/* The dtypes that are read as each type. */
static const struct {
    const char *name;
    enum npy_type type;
    int item_bytes;
} dtypes[] = {{"<f4", NPY_FLOATS, 4}, {"<f8", NPY_FLOATS, 8}, {"<V2", NPY_BF16, 2},  {"|V2", NPY_BF16, 2},
              {"<f2", NPY_F16, 2},    {"|b1", NPY_FLAGS, 1},  {"|u1", NPY_FLAGS, 1}, {"<i8", NPY_INTEGERS, 8}};
static const char *const dtypes_of[] = {[NPY_FLOATS] = "<f4 or <f8: little-endian float32 or float64",
                                        [NPY_FLAGS] = "|b1 or |u1: bool or uint8",
                                        [NPY_INTEGERS] = "<i8: little-endian int64"};

static bool will_do(const struct npy_wanted *wanted, enum npy_type type) {
    return type == wanted->type || (wanted->halves && (type == NPY_BF16 || type == NPY_F16));
}

static bool read_descr(struct cursor *cursor, struct npy_header *header) {
    const char *text;
    size_t length;
    struct shown value = rest(*cursor);
    if (take_string(cursor, &text, &length)) {
        value = shown(text, length);
        for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
            if (will_do(header->wanted, dtypes[i].type) && length == 3 && memcmp(text, dtypes[i].name, 3) == 0) {
                header->array->type = dtypes[i].type;
                header->item_bytes = dtypes[i].item_bytes;
                return true;
            }
    }
    return npy_fail(header->path, header->error, "descr (the dtype) is %s, must be %s", value.text,
                    header->wanted->halves ? "<f4, <f8, <f2 or <V2: little-endian float32, float64, float16 or bfloat16"
                                           : dtypes_of[header->wanted->type]);
}

static bool read_order(struct cursor *cursor, struct npy_header *header) {
    if (take_word(cursor, "False"))
        return true;
    if (take_word(cursor, "True"))
        return npy_fail(header->path, header->error, "fortran_order is True, must be False: save numpy.ascontiguousarray(x)");
    return npy_fail(header->path, header->error, "fortran_order is %s, must be False", rest(*cursor).text);
}

static bool wrong_rank(const struct npy_header *header, const char *more, int rank) {
    const int least = header->wanted->least_rank, most = header->wanted->most_rank;
    const char *plural = rank == 1 ? "" : "s";
    if (least == most)
        return npy_fail(header->path, header->error, "shape has %s%d dimension%s, must have %d", more, rank, plural, least);
    return npy_fail(header->path, header->error, "shape has %s%d dimension%s, must have %d to %d", more, rank, plural, least, most);
}

static bool read_shape(struct cursor *cursor, struct npy_header *header) {
    struct npy *array = header->array;
    struct shown value = rest(*cursor);
    bool open = take(cursor, '(');
    bool close = open && take(cursor, ')');
    for (array->rank = 0; open && !close; array->rank++) {
        if (array->rank == NPY_MAX_RANK)
            return wrong_rank(header, "more than ", NPY_MAX_RANK);
        if (!take_size(cursor, &array->shape[array->rank]))
            break;
        bool comma = take(cursor, ',');
        close = take(cursor, ')');
        open = comma;
    }
    if (!close)
        return npy_fail(header->path, header->error, "shape is %s, must be sizes in parentheses that fit in 64 bits", value.text);
    if (array->rank < header->wanted->least_rank || array->rank > header->wanted->most_rank)
        return wrong_rank(header, "", array->rank);
    return true;
}

static bool read_field(struct cursor *cursor, struct npy_header *header) {
    const struct {
        const char *name;
        bool *seen;
        bool (*read)(struct cursor *, struct npy_header *);
    } fields[] = {{"descr", &header->has_descr, read_descr},
                  {"fortran_order", &header->has_order, read_order},
                  {"shape", &header->has_shape, read_shape}};
    const char *name;
    size_t length;
    struct shown value = rest(*cursor);
    if (!take_string(cursor, &name, &length) || !take(cursor, ':'))
        return npy_fail(header->path, header->error, "the header has %s where a field must be", value.text);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (length == strlen(fields[i].name) && memcmp(name, fields[i].name, length) == 0) {
            if (*fields[i].seen)
                return npy_fail(header->path, header->error, "the header has field %s twice", fields[i].name);
            *fields[i].seen = true;
            return fields[i].read(cursor, header);
        }
    return npy_fail(header->path, header->error, "the header has an unknown field %s", shown(name, length).text);
}

static bool read_dictionary(struct cursor cursor, struct npy_header *header) {
    if (!take(&cursor, '{'))
        return npy_fail(header->path, header->error, "the header is %s, must be a dictionary in braces", rest(cursor).text);
    bool close = take(&cursor, '}');
    while (!close) {
        if (!read_field(&cursor, header))
            return false;
        bool comma = take(&cursor, ',');
        close = take(&cursor, '}');
        if (!comma && !close)
            return npy_fail(header->path, header->error, "the header goes on with %s, must go on with a comma or end",
                            rest(cursor).text);
    }
    skip_spaces(&cursor);
    if (cursor.at != cursor.end)
        return npy_fail(header->path, header->error, "the header goes on with %s after its end", rest(cursor).text);
    const char *missing = !header->has_descr ? "descr" : !header->has_order ? "fortran_order" : !header->has_shape ? "shape" : NULL;
    return !missing || npy_fail(header->path, header->error, "the header has no field %s", missing);
}

bool npy_read_header(FILE *file, struct npy_header *header, int64_t *data_offset) {
    unsigned char start[NPY_MAGIC_BYTES + 2], size[4] = {0};
    if (fread(start, 1, sizeof start, file) != sizeof start || memcmp(start, npy_magic, NPY_MAGIC_BYTES) != 0)
        return npy_fail(header->path, header->error, "not an .npy file: it does not begin with \\x93NUMPY");
    unsigned major = start[NPY_MAGIC_BYTES], minor = start[NPY_MAGIC_BYTES + 1];
    if (major < 1 || major > 2 || minor != 0)
        return npy_fail(header->path, header->error, "format version is %u.%u, must be 1.0 or 2.0", major, minor);
    size_t size_bytes = major == 1 ? 2 : 4;
    if (fread(size, 1, size_bytes, file) != size_bytes)
        return npy_fail(header->path, header->error, "the file ends within the size of its header");
    uint32_t length = (uint32_t)size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16 | (uint32_t)size[3] << 24;
    if (length > MAX_HEADER)
        return npy_fail(header->path, header->error, "the header's size is %" PRIu32 " bytes, must be at most %d", length,
                        MAX_HEADER);
    static char text[MAX_HEADER];
    if (fread(text, 1, length, file) != length)
        return npy_fail(header->path, header->error, "the file ends within its header of %" PRIu32 " bytes", length);
    *data_offset = (int64_t)(sizeof start + size_bytes + length);
    return read_dictionary((struct cursor){text, text + length}, header);
}
