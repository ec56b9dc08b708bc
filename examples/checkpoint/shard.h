/* A mapped file of tensors; the checkpoint's own business (checkpoint.h). */
#ifndef HEED_EXAMPLES_SHARD_H
#define HEED_EXAMPLES_SHARD_H

#include "checkpoint.h"

struct shard {
    char path[4096];
    unsigned char *file;
    int64_t file_bytes;
    json_t *header;            /* of safetensors */
    const unsigned char *data; /* what data_offsets count from */
    int64_t bytes;             /* there are so many */
};

/* Reads the header of a mapped file of safetensors. */
void safetensors_open(struct shard *shard);
struct tensor safetensors_tensor(const struct shard *shard, const char *name, int64_t rows, int64_t columns);

struct gguf *gguf_open(const struct shard *shard);
bool gguf_has(const struct gguf *gguf, const char *name);
struct tensor gguf_tensor(const struct gguf *gguf, const char *name, int64_t rows, int64_t columns);

#endif
