/* Reads and writes .npy files without trusting a byte of them: the header is parsed from a buffer of bounded size by a parser that
 * knows its end, and memory is taken only after the file has been seen to be as large as its header says. */
#define _POSIX_C_SOURCE 200809L

#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAGIC_BYTES = 6,
    MAX_HEADER = 65535, /* what format 1.0 can express; 2.0 exists for structured types, which are not read */
    HEADER_ALIGNMENT = 64,
    BLOCK = 4096 /* elements converted at a time */
};

static const unsigned char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

/* The part of a header that is still to be read. */
struct cursor {
    const char *at, *end;
};

/* What a header says beside the shape, and where messages about it go. */
struct header {
    const char *path;
    struct npy *array;
    int item_bytes;
    bool has_descr, has_order, has_shape;
    struct npy_error *error;
};

__attribute__((format(printf, 3, 4))) static bool fail(const char *path, struct npy_error *error, const char *format, ...) {
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

static bool read_descr(struct cursor *cursor, struct header *header) {
    const char *text;
    size_t length;
    struct shown value = rest(*cursor);
    if (take_string(cursor, &text, &length)) {
        value = shown(text, length);
        if (length == 3 && (memcmp(text, "<f4", 3) == 0 || memcmp(text, "<f8", 3) == 0)) {
            header->item_bytes = text[2] - '0';
            return true;
        }
    }
    return fail(header->path, header->error, "descr (the dtype) is %s, must be <f4 or <f8: little-endian float32 or float64",
                value.text);
}

static bool read_order(struct cursor *cursor, struct header *header) {
    if (take_word(cursor, "False"))
        return true;
    if (take_word(cursor, "True"))
        return fail(header->path, header->error, "fortran_order is True, must be False: save numpy.ascontiguousarray(x)");
    return fail(header->path, header->error, "fortran_order is %s, must be False", rest(*cursor).text);
}

static bool read_shape(struct cursor *cursor, struct header *header) {
    struct npy *array = header->array;
    struct shown value = rest(*cursor);
    bool open = take(cursor, '(');
    bool close = open && take(cursor, ')');
    for (array->rank = 0; open && !close; array->rank++) {
        if (array->rank == NPY_MAX_RANK)
            return fail(header->path, header->error, "shape has more than %d dimensions, must have 2 to 4", NPY_MAX_RANK);
        if (!take_size(cursor, &array->shape[array->rank]))
            break;
        bool comma = take(cursor, ',');
        close = take(cursor, ')');
        open = comma;
    }
    if (!close)
        return fail(header->path, header->error, "shape is %s, must be sizes in parentheses that fit in 64 bits", value.text);
    if (array->rank < 2)
        return fail(header->path, header->error, "shape has %d dimension%s, must have 2 to 4", array->rank,
                    array->rank == 1 ? "" : "s");
    return true;
}

static bool read_field(struct cursor *cursor, struct header *header) {
    const struct {
        const char *name;
        bool *seen;
        bool (*read)(struct cursor *, struct header *);
    } fields[] = {{"descr", &header->has_descr, read_descr},
                  {"fortran_order", &header->has_order, read_order},
                  {"shape", &header->has_shape, read_shape}};
    const char *name;
    size_t length;
    struct shown value = rest(*cursor);
    if (!take_string(cursor, &name, &length) || !take(cursor, ':'))
        return fail(header->path, header->error, "the header has %s where a field must be", value.text);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (length == strlen(fields[i].name) && memcmp(name, fields[i].name, length) == 0) {
            if (*fields[i].seen)
                return fail(header->path, header->error, "the header has field %s twice", fields[i].name);
            *fields[i].seen = true;
            return fields[i].read(cursor, header);
        }
    return fail(header->path, header->error, "the header has an unknown field %s", shown(name, length).text);
}

static bool read_dictionary(struct cursor cursor, struct header *header) {
    if (!take(&cursor, '{'))
        return fail(header->path, header->error, "the header is %s, must be a dictionary in braces", rest(cursor).text);
    bool close = take(&cursor, '}');
    while (!close) {
        if (!read_field(&cursor, header))
            return false;
        bool comma = take(&cursor, ',');
        close = take(&cursor, '}');
        if (!comma && !close)
            return fail(header->path, header->error, "the header goes on with %s, must go on with a comma or end",
                        rest(cursor).text);
    }
    skip_spaces(&cursor);
    if (cursor.at != cursor.end)
        return fail(header->path, header->error, "the header goes on with %s after its end", rest(cursor).text);
    const char *missing = !header->has_descr ? "descr" : !header->has_order ? "fortran_order" : !header->has_shape ? "shape" : NULL;
    return !missing || fail(header->path, header->error, "the header has no field %s", missing);
}

/* Reads everything before the data; *data_offset is where the data begins. */
static bool read_header(FILE *file, struct header *header, int64_t *data_offset) {
    unsigned char start[MAGIC_BYTES + 2], size[4] = {0};
    if (fread(start, 1, sizeof start, file) != sizeof start || memcmp(start, magic, MAGIC_BYTES) != 0)
        return fail(header->path, header->error, "not an .npy file: it does not begin with \\x93NUMPY");
    unsigned major = start[MAGIC_BYTES], minor = start[MAGIC_BYTES + 1];
    if (major < 1 || major > 2 || minor != 0)
        return fail(header->path, header->error, "format version is %u.%u, must be 1.0 or 2.0", major, minor);
    size_t size_bytes = major == 1 ? 2 : 4;
    if (fread(size, 1, size_bytes, file) != size_bytes)
        return fail(header->path, header->error, "the file ends within the size of its header");
    uint32_t length = (uint32_t)size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16 | (uint32_t)size[3] << 24;
    if (length > MAX_HEADER)
        return fail(header->path, header->error, "the header's size is %" PRIu32 " bytes, must be at most %d", length, MAX_HEADER);
    static char text[MAX_HEADER];
    if (fread(text, 1, length, file) != length)
        return fail(header->path, header->error, "the file ends within its header of %" PRIu32 " bytes", length);
    *data_offset = (int64_t)(sizeof start + size_bytes + length);
    return read_dictionary((struct cursor){text, text + length}, header);
}

/* Number of elements; -1 if the sizes, taking 0 as 1, multiply to more than memory can hold (so that strides never overflow
 * either). */
static int64_t count_of(const struct npy *array) {
    int64_t count = 1, room = INT64_MAX / (int64_t)sizeof(double);
    bool empty = false;
    for (int i = 0; i < array->rank; i++) {
        int64_t size = array->shape[i];
        empty |= size == 0;
        if (size > 0 && count > room / size)
            return -1;
        count *= size > 0 ? size : 1;
    }
    return empty ? 0 : count;
}

bool npy_allocate(const char *name, struct npy *array, struct npy_error *error) {
    int64_t count = count_of(array);
    array->data = NULL;
    if (count < 0 || (uint64_t)count > SIZE_MAX / sizeof(float))
        return fail(name, error, "the sizes of its dimensions multiply to more than memory can hold");
    array->data = malloc(count > 0 ? (size_t)count * sizeof(float) : 1);
    return array->data || fail(name, error, "out of memory for %" PRId64 " floats", count);
}

void npy_free(struct npy *array) {
    free(array->data);
    array->data = NULL;
}

/* Little-endian whatever the machine is. */
static uint64_t load_bits(const unsigned char *bytes, int count) {
    uint64_t bits = 0;
    for (int i = 0; i < count; i++)
        bits |= (uint64_t)bytes[i] << 8 * i;
    return bits;
}

static float float_of(const unsigned char *bytes, int item_bytes) {
    uint64_t bits = load_bits(bytes, item_bytes);
    if (item_bytes == 4) {
        uint32_t low = (uint32_t)bits;
        float value;
        memcpy(&value, &low, sizeof value);
        return value;
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

static bool read_data(FILE *file, const struct header *header) {
    unsigned char bytes[BLOCK * 8];
    int64_t count = count_of(header->array);
    for (int64_t done = 0; done < count;) {
        size_t wanted = count - done < BLOCK ? (size_t)(count - done) : BLOCK;
        if (fread(bytes, (size_t)header->item_bytes, wanted, file) != wanted)
            return fail(header->path, header->error, "cannot read the data: %s",
                        ferror(file) ? strerror(errno) : "the file has shrunk");
        for (size_t i = 0; i < wanted; i++)
            header->array->data[done + (int64_t)i] = float_of(bytes + i * (size_t)header->item_bytes, header->item_bytes);
        done += (int64_t)wanted;
    }
    return true;
}

static bool read_file(FILE *file, int64_t file_bytes, struct header *header) {
    int64_t data_offset = 0;
    if (!read_header(file, header, &data_offset))
        return false;
    int64_t count = count_of(header->array);
    if (count < 0)
        return fail(header->path, header->error, "the sizes in shape multiply to more than memory can hold");
    int64_t expected = count * header->item_bytes, found = file_bytes - data_offset;
    if (found != expected)
        return fail(header->path, header->error,
                    "%" PRId64 " bytes of data after the header, but shape and dtype need %" PRId64 "%s", found, expected,
                    found < expected ? ": the file is truncated" : "");
    return npy_allocate(header->path, header->array, header->error) && read_data(file, header);
}

bool npy_read(const char *path, struct npy *array, struct npy_error *error) {
    *array = (struct npy){0};
    int descriptor = open(path, O_RDONLY | O_NONBLOCK); /* a FIFO must not keep us waiting before it is refused */
    if (descriptor < 0)
        return fail(path, error, "cannot open: %s", strerror(errno));
    struct stat status;
    FILE *file = NULL;
    bool good = false;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        fail(path, error, "not a regular file");
    else if (!(file = fdopen(descriptor, "rb")))
        fail(path, error, "cannot open: %s", strerror(errno));
    else
        good = read_file(file, status.st_size, &(struct header){.path = path, .array = array, .error = error});
    if (file)
        fclose(file);
    else
        close(descriptor);
    if (!good)
        npy_free(array);
    return good;
}

/* The bytes before the data: magic, version 1.0, size, dictionary, padded with spaces so that the data begins aligned. */
static size_t format_header(const struct npy *array, unsigned char *bytes, size_t capacity) {
    size_t prefix = MAGIC_BYTES + 4;
    char *text = (char *)bytes + prefix;
    size_t room = capacity - prefix, length = (size_t)snprintf(text, room, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < array->rank; i++)
        length += (size_t)snprintf(text + length, room - length, i > 0 ? ", %" PRId64 : "%" PRId64, array->shape[i]);
    length += (size_t)snprintf(text + length, room - length, array->rank == 1 ? ",), }" : "), }");
    while ((prefix + length + 1) % HEADER_ALIGNMENT != 0)
        text[length++] = ' ';
    text[length++] = '\n';
    memcpy(bytes, magic, MAGIC_BYTES);
    bytes[MAGIC_BYTES] = 1;
    bytes[MAGIC_BYTES + 1] = 0;
    bytes[MAGIC_BYTES + 2] = (unsigned char)(length & 255);
    bytes[MAGIC_BYTES + 3] = (unsigned char)(length >> 8);
    return prefix + length;
}

static bool write_data(FILE *file, const struct npy *array) {
    unsigned char bytes[BLOCK * 4];
    int64_t count = count_of(array);
    for (int64_t done = 0; done < count;) {
        size_t wanted = count - done < BLOCK ? (size_t)(count - done) : BLOCK;
        for (size_t i = 0; i < wanted; i++) {
            uint32_t bits;
            memcpy(&bits, array->data + done + (int64_t)i, sizeof bits);
            for (int byte = 0; byte < 4; byte++)
                bytes[4 * i + (size_t)byte] = (unsigned char)(bits >> 8 * byte);
        }
        if (fwrite(bytes, 4, wanted, file) != wanted)
            return false;
        done += (int64_t)wanted;
    }
    return true;
}

bool npy_write(const char *path, const struct npy *array, struct npy_error *error) {
    unsigned char header[4 * HEADER_ALIGNMENT];
    size_t length = format_header(array, header, sizeof header);
    FILE *file = fopen(path, "wb");
    if (!file)
        return fail(path, error, "cannot create: %s", strerror(errno));
    bool good = fwrite(header, 1, length, file) == length && write_data(file, array);
    int reason = errno;
    if (fclose(file) != 0 && good) {
        good = false;
        reason = errno;
    }
    return good || fail(path, error, "cannot write: %s", strerror(reason));
}
