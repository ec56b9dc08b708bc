/* Checkpoints, as the examples read them: Hugging Face's folders with JSON files of settings and model.safetensors, a JSON header
 * and the tensors themselves (https://github.com/huggingface/safetensors), whole or in shards; and the GGUF files of ggml.  No byte
 * of them is trusted.  What is wrong ends the program, with one line that names the file, and in it the field or the tensor; what
 * is read lives as long as the program. */
#ifndef HEED_EXAMPLES_CHECKPOINT_H
#define HEED_EXAMPLES_CHECKPOINT_H

#include <heed.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints "PROGRAM: message" on standard error and exits with status 1. */
__attribute__((format(printf, 1, 2), noreturn)) void fail(const char *format, ...);
extern const char *program_name;

/* count * size bytes, aligned to 64, as heed likes weights; never NULL. */
void *allocate(int64_t count, size_t size);
/* The same, in place of other memory, or of NULL. */
void *renew(void *memory, int64_t count, size_t size);
/* What these gave, or file_read did. */
void release(void *memory);
/* Opens a file, which is closed by its descriptor; -1 if there is none. */
int file_open(const char *path, int64_t *bytes);
/* Reads a whole file; NULL if there is none.  A 0 follows its last byte. */
char *file_read(const char *path, size_t *bytes);

/* A file of settings.  Strings and values live as long as it; a field that is not there, or null, has the value `otherwise`. */
struct settings {
    char path[4096];
    json_t *json; /* an object; NULL: there is no such file */
};
struct settings settings_open(const char *folder, const char *name);
void settings_require(const struct settings *settings);
int64_t settings_integer(const struct settings *settings, const char *field, int64_t least, int64_t most, int64_t otherwise);
double settings_number(const struct settings *settings, const char *field, double least, double most, double otherwise);
bool settings_flag(const struct settings *settings, const char *field, bool otherwise);
const char *settings_string(const struct settings *settings, const char *field, const char *otherwise);
/* The field must have this value, which it also has if it is not there. */
void settings_expect(const struct settings *settings, const char *field, const char *value);
/* A field that is an object; all of its fields are missing if it is not there. */
struct settings settings_object(const struct settings *settings, const char *field);
/* A field that is an array; NULL if it is not there. */
const json_t *settings_array(const struct settings *settings, const char *field);
enum { SETTINGS_REQUIRED = -1 }; /* as `otherwise` of a number that cannot be negative */

/* The tensors of a model, mapped: pages are read when they are used.  path is a folder with model.safetensors, or with
 * model.safetensors.index.json and the shards that it names, or it is a GGUF file. */
struct checkpoint {
    char path[4096]; /* of what names the tensors: the one file, or the index */
    struct shard *shards;
    int count;
    json_t *index;            /* from the names of tensors to those of shards; NULL: there is one shard */
    struct settings metadata; /* of a GGUF file; json NULL: these are safetensors */
};
struct checkpoint checkpoint_open(const char *path);
/* Gives back the memory of what has been read so far; what is used again is read again. */
void checkpoint_release(const struct checkpoint *checkpoint);

/* Whether the library may be given a spiece.model: it trusts a part of what is in it. */
void spiece_check(const char *path, const char *file, size_t bytes);

/* F32, BF16, F16, and in a GGUF file Q8_0, Q4_0, Q5_0, Q4_K, Q5_K, Q6_K, IQ4_NL and MXFP4; aligned as heed wants it. */
struct tensor {
    const void *data;
    int64_t rows, columns;
    enum heed_type type;
};
/* Elements of a block of one of these types, 1 where it has none; and bytes of so many elements, which are whole blocks. */
int64_t block_of(enum heed_type type);
int64_t bytes_of(enum heed_type type, int64_t elements);
bool checkpoint_has(const struct checkpoint *checkpoint, const char *name);
/* The tensor of that name, which must be there, lie within the file, and have that shape: [rows, columns] or, if rows is 0,
 * [columns], which comes back as one row. */
struct tensor checkpoint_tensor(const struct checkpoint *checkpoint, const char *name, int64_t rows, int64_t columns);
/* The same of as many as `parts` of them, one behind the other: [parts, rows, columns]. */
struct tensor checkpoint_stack(const struct checkpoint *checkpoint, const char *name, int64_t parts, int64_t rows, int64_t columns);
/* Ends the program because of what the model gives, with the name of a tensor that it may be due to. */
__attribute__((noreturn)) void checkpoint_blame(const struct checkpoint *checkpoint, const char *what);

#endif
