/* A mapped file of tensors; the checkpoint's own business (checkpoint.h). */
#ifndef HEED_EXAMPLES_SHARD_H
#define HEED_EXAMPLES_SHARD_H

#include "checkpoint.h"

struct shard {
    char path[4096];
    unsigned char *file;
    int64_t file_bytes;
    json_t *header;            /* name: {dtype, shape, data_offsets}, as safetensors have it */
    const unsigned char *data; /* what data_offsets count from */
    int64_t bytes;             /* there are so many */
};

/* How a type is stored. */
struct storage {
    const char *name; /* dtype */
    uint32_t gguf;    /* its number in GGUF files */
    enum heed_type type;
    int64_t elements, bytes; /* of a block */
    int exponents, first;    /* of a block, in 2 bytes each, from byte `first` on: those of a float, or of its scales */
};
/* NULL: not one of ours. */
const struct storage *storage_of_gguf(uint32_t number);

/* Reads the header of a mapped file. */
void safetensors_open(struct shard *shard);
/* The same of a GGUF file, of which it returns the fields. */
struct settings gguf_open(struct shard *shard);

/* The name of a tensor with a NaN or an infinity; NULL: there is none. */
const char *shard_not_finite(const struct shard *shard);

/* Of the shape [parts, rows, columns], without those of the first two that are 0. */
struct tensor shard_tensor(const struct shard *shard, const char *name, int64_t parts, int64_t rows, int64_t columns);

#endif
