/* What a file goes through: its first byte says which readers.  See readers.h. */
#include "readers.h"
#include "../../examples/checkpoint/shard.h"
#include "../../examples/embed/wordpiece.h"
#include "../../examples/generate/config.h"
#include "../../examples/tokens/tokenizer.h"
#include "../../examples/translate/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_FILE = 8, MOST_SIZE = 1 << 30, TEXT_MOST = 64 }; /* as checkpoint.c and the configurations have it */
/* All vocabularies of seeds have the first, and not all the others. */
static const char *const texts[] = {"ab <|x|>b a", "a\xff\xe6\x97\xa5 \xc3\xa9.\r\n 1234 a'LL  ?", ""};
enum { TEXTS = sizeof texts / sizeof *texts };
static const char *text;

struct bytes {
    const uint8_t *data;
    size_t size;
};

static volatile unsigned touched;

/* Every byte that a reader says is there. */
static void touch(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        touched += ((const unsigned char *)data)[i];
}

/* The file, where nothing lies behind it. */
static struct shard map(const struct bytes *in) {
    struct shard shard = {.path = "file", .file = allocate((int64_t)in->size, 1), .file_bytes = (int64_t)in->size};
    memcpy(shard.file, in->data, in->size);
    return shard;
}

static int64_t size_of(const json_t *shape, size_t i) {
    const double size = json_real_value(json_array_get(shape, i));
    return size >= 1 && size <= MOST_SIZE ? (int64_t)size : 1;
}

/* Each with the shape that it says it has. */
static void read_tensors(const struct shard *shard) {
    const char *name;
    json_t *entry;
    touched += shard_not_finite(shard) != NULL;
    json_object_foreach(shard->header, name, entry) {
        const json_t *shape = json_object_get(entry, "shape");
        const size_t dimensions = json_array_size(shape);
        if (strcmp(name, "__metadata__") == 0)
            continue;
        const struct tensor tensor =
            shard_tensor(shard, name, dimensions < 3 ? 0 : size_of(shape, 0), dimensions == 1 ? 0 : size_of(shape, dimensions - 2),
                         size_of(shape, dimensions - 1));
        touch(tensor.data, (size_t)bytes_of(tensor.type, tensor.rows * tensor.columns));
    }
}

static void read_safetensors(void *in) {
    struct shard shard = map(in);
    safetensors_open(&shard);
    read_tensors(&shard);
}

static void encode(const struct vocabulary *vocabulary) {
    int32_t *tokens = allocate(2 * (int64_t)strlen(text) + MOST_FIRST + 1, sizeof *tokens);
    const int64_t count = tokenizer_encode(vocabulary, text, (int64_t)strlen(text), tokens);
    for (int64_t i = 0; i < count; i++)
        touch(vocabulary->piece[tokens[i]].data, vocabulary->piece[tokens[i]].bytes);
}

static void read_gguf(void *in) {
    struct shard shard = map(in);
    struct checkpoint checkpoint = {.shards = &shard, .count = 1};
    checkpoint.metadata = gguf_open(&shard);
    const struct config config = config_read("file", &checkpoint);
    encode(vocabulary_open("file", &checkpoint, config.vocabulary));
    read_tensors(&shard);
}

static void read_config(void *in) {
    (void)in;
    const struct checkpoint checkpoint = {.count = 0};
    const struct config config = config_read("folder", &checkpoint);
    touch(config.stop, (size_t)config.stops * sizeof *config.stop);
}

static void read_vocabulary(void *in) {
    (void)in;
    const struct checkpoint checkpoint = {.count = 0};
    encode(vocabulary_open("folder", &checkpoint, 300));
}

static void read_task(void *in) {
    (void)in;
    const struct task task = task_read("folder", "French");
    touch(task.prefix, strlen(task.prefix));
}

static void read_spiece(void *in) {
    const struct shard shard = map(in);
    spiece_check(shard.path, (const char *)shard.file, (size_t)shard.file_bytes);
}

static void read_wordpiece(void *in) {
    (void)in;
    int32_t *tokens = allocate(TEXT_MOST, sizeof *tokens);
    struct wordpiece *wordpiece = wordpiece_open("folder");
    const int64_t count = wordpiece_encode(wordpiece, text, strlen(text), TEXT_MOST, tokens);
    touch(tokens, (size_t)count * sizeof *tokens);
}

/* What is whole must be read. */
static void run(void (*reader)(void *), struct bytes *in) {
    text = texts[0];
    if (attempt(reader, in)) {
        for (int i = 1; i < TEXTS; i++) {
            text = texts[i];
            attempt(reader, in);
        }
        return;
    }
    for (int i = 0; i < SEEDS; i++) {
        const struct seed *seed = seed_number(i);
        if (seed->size == in->size && memcmp(seed->data, in->data, in->size) == 0)
            exit((fprintf(stderr, "a file that is whole is refused: %s\n", attempt_words()), EXIT_FAILURE));
    }
}

void fuzz_one(const uint8_t *data, size_t size) {
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n\n##b\n";
    struct bytes in = {.data = data, .size = size};
    const bool settings = size > 0 && *data == '{', words = size > 0 && *data == '[';
    file_is(".json", settings ? (const char *)data : NULL, size);
    file_is("vocab.txt", words ? (const char *)data : vocabulary, words ? size : sizeof vocabulary - 1);
    if (settings) {
        run(read_config, &in);
        run(read_vocabulary, &in);
        run(read_task, &in);
    }
    if (settings || words)
        run(read_wordpiece, &in);
    else if (size > 0 && *data == '\n')
        run(read_spiece, &in);
    else if (size >= LEAST_FILE)
        run(*data == 'G' ? read_gguf : read_safetensors, &in);
}
