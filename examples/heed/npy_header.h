/* The header of an .npy file, for npy.c alone. */
#ifndef HEED_EXAMPLES_NPY_HEADER_H
#define HEED_EXAMPLES_NPY_HEADER_H

#include "npy.h"

#include <stdio.h>

enum { NPY_MAGIC_BYTES = 6 };
extern const unsigned char npy_magic[NPY_MAGIC_BYTES + 1];

/* What a header says beside the shape, what it should say, and where messages about it go. */
struct npy_header {
    const char *path;
    const struct npy_wanted *wanted;
    struct npy *array;
    int item_bytes;
    bool has_descr, has_order, has_shape;
    struct npy_error *error;
};

/* Reads everything before the data; *data_offset is where the data begins. */
bool npy_read_header(FILE *file, struct npy_header *header, int64_t *data_offset);

/* Returns false, with a message that begins with the file's name. */
__attribute__((format(printf, 3, 4))) bool npy_fail(const char *path, struct npy_error *error, const char *format, ...);

#endif
