/* Reads and writes .npy files without trusting a byte of them: memory is taken only after the file has been seen to be as large as
 * its header says. */
#define _POSIX_C_SOURCE 200809L

#include "npy_header.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_ALIGNMENT = 64,
    BLOCK = 4096 /* elements converted at a time */
};

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

static const size_t element_bytes[] = {[NPY_FLOATS] = sizeof(float),
                                       [NPY_BF16] = sizeof(uint16_t),
                                       [NPY_F16] = sizeof(uint16_t),
                                       [NPY_FLAGS] = sizeof(uint8_t),
                                       [NPY_INTEGERS] = sizeof(int64_t)};

bool npy_allocate(const char *name, struct npy *array, struct npy_error *error) {
    const size_t bytes = element_bytes[array->type];
    int64_t count = count_of(array);
    array->memory = NULL;
    if (count < 0 || (uint64_t)count > SIZE_MAX / bytes)
        return npy_fail(name, error, "the sizes of its dimensions multiply to more than memory can hold");
    array->memory = malloc(count > 0 ? (size_t)count * bytes : 1);
    return array->memory || npy_fail(name, error, "out of memory for %" PRId64 " elements", count);
}

void npy_free(struct npy *array) {
    free(array->memory);
    array->memory = NULL;
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

static void store(const struct npy *array, int64_t index, const unsigned char *bytes, int item_bytes) {
    if (array->type == NPY_FLOATS)
        array->data[index] = float_of(bytes, item_bytes);
    else if (array->type == NPY_FLAGS)
        array->flags[index] = *bytes;
    else if (array->type == NPY_INTEGERS)
        array->integers[index] = (int64_t)load_bits(bytes, item_bytes);
    else
        array->halves[index] = (uint16_t)load_bits(bytes, item_bytes);
}

static bool read_data(FILE *file, const struct npy_header *header) {
    unsigned char bytes[BLOCK * 8];
    int64_t count = count_of(header->array);
    for (int64_t done = 0; done < count;) {
        size_t wanted = count - done < BLOCK ? (size_t)(count - done) : BLOCK;
        if (fread(bytes, (size_t)header->item_bytes, wanted, file) != wanted)
            return npy_fail(header->path, header->error, "cannot read the data: %s",
                            ferror(file) ? strerror(errno) : "the file has shrunk");
        for (size_t i = 0; i < wanted; i++)
            store(header->array, done + (int64_t)i, bytes + i * (size_t)header->item_bytes, header->item_bytes);
        done += (int64_t)wanted;
    }
    return true;
}

static bool read_file(FILE *file, int64_t file_bytes, struct npy_header *header) {
    int64_t data_offset = 0;
    if (!npy_read_header(file, header, &data_offset))
        return false;
    int64_t count = count_of(header->array);
    if (count < 0)
        return npy_fail(header->path, header->error, "the sizes in shape multiply to more than memory can hold");
    int64_t expected = count * header->item_bytes, found = file_bytes - data_offset;
    if (found != expected)
        return npy_fail(header->path, header->error,
                        "%" PRId64 " bytes of data after the header, but shape and dtype need %" PRId64 "%s", found, expected,
                        found < expected ? ": the file is truncated" : "");
    return npy_allocate(header->path, header->array, header->error) && read_data(file, header);
}

bool npy_read(const char *path, const struct npy_wanted *wanted, struct npy *array, struct npy_error *error) {
    *array = (struct npy){.type = wanted->type};
    int descriptor = open(path, O_RDONLY | O_NONBLOCK); /* a FIFO must not keep us waiting before it is refused */
    if (descriptor < 0)
        return npy_fail(path, error, "cannot open: %s", strerror(errno));
    struct stat status;
    FILE *file = NULL;
    bool good = false;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        npy_fail(path, error, "not a regular file");
    else if (!(file = fdopen(descriptor, "rb")))
        npy_fail(path, error, "cannot open: %s", strerror(errno));
    else
        good =
            read_file(file, status.st_size, &(struct npy_header){.path = path, .wanted = wanted, .array = array, .error = error});
    if (file)
        fclose(file);
    else
        close(descriptor);
    if (!good)
        npy_free(array);
    return good;
}

static const char *const written_dtypes[] = {[NPY_FLOATS] = "<f4", [NPY_BF16] = "<V2", [NPY_F16] = "<f2"};

/* The bytes before the data: magic, version 1.0, size, dictionary, padded with spaces so that the data begins aligned. */
static size_t format_header(const struct npy *array, unsigned char *bytes, size_t capacity) {
    size_t prefix = NPY_MAGIC_BYTES + 4;
    char *text = (char *)bytes + prefix;
    size_t room = capacity - prefix;
    size_t length = (size_t)snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (", written_dtypes[array->type]);
    for (int i = 0; i < array->rank; i++)
        length += (size_t)snprintf(text + length, room - length, i > 0 ? ", %" PRId64 : "%" PRId64, array->shape[i]);
    length += (size_t)snprintf(text + length, room - length, array->rank == 1 ? ",), }" : "), }");
    while ((prefix + length + 1) % HEADER_ALIGNMENT != 0)
        text[length++] = ' ';
    text[length++] = '\n';
    memcpy(bytes, npy_magic, NPY_MAGIC_BYTES);
    bytes[NPY_MAGIC_BYTES] = 1;
    bytes[NPY_MAGIC_BYTES + 1] = 0;
    bytes[NPY_MAGIC_BYTES + 2] = (unsigned char)(length & 255);
    bytes[NPY_MAGIC_BYTES + 3] = (unsigned char)(length >> 8);
    return prefix + length;
}

/* An element of floats, bf16 or f16. */
static uint32_t bits_of(const struct npy *array, int64_t index) {
    uint32_t bits;
    if (array->type != NPY_FLOATS)
        return array->halves[index];
    memcpy(&bits, array->data + index, sizeof bits);
    return bits;
}

static bool write_data(FILE *file, const struct npy *array) {
    unsigned char bytes[BLOCK * 4];
    const size_t item_bytes = element_bytes[array->type];
    int64_t count = count_of(array);
    for (int64_t done = 0; done < count;) {
        size_t wanted = count - done < BLOCK ? (size_t)(count - done) : BLOCK;
        for (size_t i = 0; i < wanted; i++) {
            const uint32_t bits = bits_of(array, done + (int64_t)i);
            for (size_t byte = 0; byte < item_bytes; byte++)
                bytes[item_bytes * i + byte] = (unsigned char)(bits >> 8 * byte);
        }
        if (fwrite(bytes, item_bytes, wanted, file) != wanted)
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
        return npy_fail(path, error, "cannot create: %s", strerror(errno));
    bool good = fwrite(header, 1, length, file) == length && write_data(file, array);
    int reason = errno;
    if (fclose(file) != 0 && good) {
        good = false;
        reason = errno;
    }
    return good || npy_fail(path, error, "cannot write: %s", strerror(reason));
}
