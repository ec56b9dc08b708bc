/* Which files a checkpoint consists of, and which of them has a tensor.  See checkpoint.h. */
#define _DEFAULT_SOURCE

#include "checkpoint.h"
#include "shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST_BYTES = 8 }; /* of a file: the length of the header of safetensors */

static void join(char *path, size_t size, const char *folder, const char *name) {
    if (snprintf(path, size, "%s/%s", folder, name) >= (int)size)
        fail("the name of folder %s is too long", folder);
}

static void map(struct shard *shard) {
    const char *path = shard->path;
    const int file = file_open(path, &shard->file_bytes);
    if (file < 0)
        fail("%s: no such file", path);
    if (shard->file_bytes < LEAST_BYTES)
        fail("%s: has %" PRId64 " bytes, too few for the length of its header", path, shard->file_bytes);
    void *data = mmap(NULL, (size_t)shard->file_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
        fail("%s: %s", path, strerror(errno));
    close(file);
    shard->file = data;
}

/* A shard's name comes from the index: it must not lead out of the folder. */
static bool is_plain(const char *name) { return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0; }

static const struct shard *find_shard(const struct checkpoint *checkpoint, const char *name) {
    for (int i = 0; i < checkpoint->count; i++)
        if (strcmp(strrchr(checkpoint->shards[i].path, '/') + 1, name) == 0)
            return &checkpoint->shards[i];
    return NULL;
}

static void add_shard(struct checkpoint *checkpoint, const char *folder, const char *name) {
    checkpoint->shards = realloc(checkpoint->shards, (size_t)(checkpoint->count + 1) * sizeof *checkpoint->shards);
    if (!checkpoint->shards)
        fail("%s: out of memory", checkpoint->path);
    struct shard *shard = &checkpoint->shards[checkpoint->count++];
    join(shard->path, sizeof shard->path, folder, name);
    map(shard);
    safetensors_open(shard);
}

/* Every tensor of the index is where it says, and nowhere else. */
static void compare_with_index(const struct checkpoint *checkpoint) {
    const char *name;
    json_t *value;
    json_object_foreach(checkpoint->index, name, value) {
        for (int i = 0; i < checkpoint->count; i++) {
            const struct shard *shard = &checkpoint->shards[i];
            const bool there = json_object_get(shard->header, name),
                       expected = shard == find_shard(checkpoint, json_string_value(value));
            if (there != expected)
                fail("%s: weight_map has %s in %s, but it is%s in %s", checkpoint->path, name, json_string_value(value),
                     there ? "" : " not", shard->path);
        }
    }
}

static void open_shards(struct checkpoint *checkpoint, const char *folder) {
    const struct settings settings = settings_open(folder, "model.safetensors.index.json");
    memcpy(checkpoint->path, settings.path, sizeof checkpoint->path);
    checkpoint->index = json_object_get(settings.json, "weight_map");
    if (!json_is_object(checkpoint->index))
        fail("%s: weight_map is %s", settings.path, checkpoint->index ? "not a JSON object" : "missing");
    const char *name;
    json_t *value;
    json_object_foreach(checkpoint->index, name, value) {
        if (!json_is_string(value) || !is_plain(json_string_value(value)))
            fail("%s: weight_map: %s: is not the name of a file in this folder", settings.path, name);
        if (!find_shard(checkpoint, json_string_value(value)))
            add_shard(checkpoint, folder, json_string_value(value));
    }
    compare_with_index(checkpoint);
}

struct checkpoint checkpoint_open(const char *path) {
    struct checkpoint checkpoint = {.count = 0};
    struct stat status;
    join(checkpoint.path, sizeof checkpoint.path, path, "model.safetensors.index.json");
    const bool sharded = stat(checkpoint.path, &status) == 0;
    join(checkpoint.path, sizeof checkpoint.path, path, "model.safetensors");
    const bool whole = stat(checkpoint.path, &status) == 0;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        checkpoint.shards = allocate(1, sizeof *checkpoint.shards);
        checkpoint.count = 1;
        snprintf(checkpoint.path, sizeof checkpoint.path, "%s", path);
        memcpy(checkpoint.shards->path, checkpoint.path, sizeof checkpoint.path);
        map(checkpoint.shards);
        checkpoint.metadata = gguf_open(checkpoint.shards);
    } else if (sharded && !whole)
        open_shards(&checkpoint, path);
    else
        add_shard(&checkpoint, path, "model.safetensors");
    return checkpoint;
}

void checkpoint_release(const struct checkpoint *checkpoint) {
    for (int i = 0; i < checkpoint->count; i++)
        madvise(checkpoint->shards[i].file, (size_t)checkpoint->shards[i].file_bytes, MADV_DONTNEED);
}

/* NULL: the index does not know it. */
static const struct shard *shard_of(const struct checkpoint *checkpoint, const char *name) {
    const char *shard = json_string_value(json_object_get(checkpoint->index, name));
    return !checkpoint->index ? checkpoint->shards : shard ? find_shard(checkpoint, shard) : NULL;
}

bool checkpoint_has(const struct checkpoint *checkpoint, const char *name) {
    const struct shard *shard = shard_of(checkpoint, name);
    return shard && json_object_get(shard->header, name);
}

struct tensor checkpoint_stack(const struct checkpoint *checkpoint, const char *name, int64_t parts, int64_t rows,
                               int64_t columns) {
    const struct shard *shard = shard_of(checkpoint, name);
    if (!shard)
        fail("%s: there is no tensor %s", checkpoint->path, name);
    return shard_tensor(shard, name, parts, rows, columns);
}

struct tensor checkpoint_tensor(const struct checkpoint *checkpoint, const char *name, int64_t rows, int64_t columns) {
    return checkpoint_stack(checkpoint, name, 0, rows, columns);
}

void checkpoint_blame(const struct checkpoint *checkpoint, const char *what) {
    for (int i = 0; i < checkpoint->count; i++) {
        const char *name = shard_not_finite(&checkpoint->shards[i]);
        if (name)
            fail("%s: %s: has a NaN or an infinity, and the model gives %s that are not finite", checkpoint->shards[i].path, name,
                 what);
    }
    fail("%s: gives %s that are not finite", checkpoint->path, what);
}
