/* Files that are whole, of all kinds that readers.c tells apart, and what becomes of them for the fuzzer.  See readers.h. */
#include "harness.h"
#include "readers.h"

#include <string.h>

static void put(struct seed *seed, const void *data, size_t bytes) {
    memcpy(seed->data + seed->size, data, bytes);
    seed->size += bytes;
}

static void put_number(struct seed *seed, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++)
        seed->data[seed->size++] = (uint8_t)(number >> 8 * i);
}

static void put_zeros(struct seed *seed, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        seed->data[seed->size++] = 0;
}

/* --- Safetensors --- */

static void make_safetensors(struct seed *seed) {
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],"
                                 "\"data_offsets\":[0,24]},\"b.bias\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
                                 "\"c\":{\"dtype\":\"F16\",\"shape\":[1,4],\"data_offsets\":[32,40]}}   ";
    put_number(seed, sizeof header - 1, 8);
    put(seed, header, sizeof header - 1);
    put_zeros(seed, 40);
}

/* --- GGUF --- */

enum { INT32 = 5, UINT32 = 4, FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

static void put_text(struct seed *seed, const char *text) {
    put_number(seed, strlen(text), 8);
    put(seed, text, strlen(text));
}

static void field_number(struct seed *seed, const char *name, uint32_t number) {
    put_text(seed, name);
    put_number(seed, UINT32, 4);
    put_number(seed, number, 4);
}

static void field_text(struct seed *seed, const char *name, const char *text) {
    put_text(seed, name);
    put_number(seed, STRING, 4);
    put_text(seed, text);
}

static void field_texts(struct seed *seed, const char *name, int count, const char *const *texts) {
    put_text(seed, name);
    put_number(seed, ARRAY, 4);
    put_number(seed, STRING, 4);
    put_number(seed, (uint64_t)count, 8);
    for (int i = 0; i < count; i++)
        put_text(seed, texts[i]);
}

static void field_words(struct seed *seed, const char *name, int type, int count, const uint32_t *words) {
    put_text(seed, name);
    put_number(seed, ARRAY, 4);
    put_number(seed, (uint64_t)type, 4);
    put_number(seed, (uint64_t)count, 8);
    for (int i = 0; i < count; i++)
        put_number(seed, words[i], 4);
}

static void tensor(struct seed *seed, const char *name, uint64_t rows, uint64_t columns, uint32_t type, uint64_t offset) {
    put_text(seed, name);
    put_number(seed, rows > 0 ? 2 : 1, 4);
    put_number(seed, columns, 8);
    if (rows > 0)
        put_number(seed, rows, 8);
    put_number(seed, type, 4);
    put_number(seed, offset, 8);
}

/* What both have; the fields that follow are `more`. */
static void begin_gguf(struct seed *seed, uint64_t more) {
    put(seed, "GGUF\3\0\0\0", 8);
    put_number(seed, 6, 8);
    put_number(seed, 9 + more, 8);
    field_text(seed, "general.architecture", "llama");
    field_number(seed, "general.alignment", 32);
    field_number(seed, "llama.embedding_length", 32);
    field_number(seed, "llama.feed_forward_length", 32);
    field_number(seed, "llama.block_count", 1);
    field_number(seed, "llama.attention.head_count", 2);
    field_number(seed, "tokenizer.ggml.eos_token_id", 1);
    field_number(seed, "tokenizer.ggml.bos_token_id", 0);
    put_text(seed, "tokenizer.ggml.add_bos_token");
    put_number(seed, BOOL, 4);
    put_number(seed, 1, 1);
}

static void end_gguf(struct seed *seed) {
    tensor(seed, "rope_freqs.weight", 0, 8, 0, 0);
    tensor(seed, "token_embd.weight", 2, 32, 8, 32);
    tensor(seed, "q4", 1, 32, 2, 128);
    tensor(seed, "q4k", 1, 256, 12, 160);
    tensor(seed, "q5k", 1, 256, 13, 320);
    tensor(seed, "q6k", 1, 256, 14, 512);
    put_zeros(seed, (32 - seed->size % 32) % 32);
    for (int i = 0; i < 8; i++)
        put_number(seed, 0x3f800000, 4);
    put_zeros(seed, 690);
}

static void make_scored(struct seed *seed) {
    static const char *const pieces[] = {"<s>", "</s>", "<unk>", "<0x0A>", "a", "b", "\xe2\x96\x81", "ab", "<|x|>"};
    static const uint32_t kinds[] = {3, 3, 2, 6, 1, 1, 1, 1, 4}, scores[9] = {0};
    begin_gguf(seed, 5);
    field_number(seed, "llama.vocab_size", 9);
    field_text(seed, "tokenizer.ggml.model", "llama");
    field_texts(seed, "tokenizer.ggml.tokens", 9, pieces);
    field_words(seed, "tokenizer.ggml.token_type", INT32, 9, kinds);
    field_words(seed, "tokenizer.ggml.scores", FLOAT32, 9, scores);
    end_gguf(seed);
}

static void make_merged(struct seed *seed) {
    static const char *const pieces[] = {"a", "b", "\304\240", "ab", "\304\240ab", "<|x|>"}; /* \304\240: a blank */
    static const char *const merges[] = {"a b", "\304\240 ab"};
    static const uint32_t kinds[] = {1, 1, 1, 1, 1, 3};
    begin_gguf(seed, 5);
    field_text(seed, "tokenizer.ggml.model", "gpt2");
    field_text(seed, "tokenizer.ggml.pre", "llama-bpe");
    field_texts(seed, "tokenizer.ggml.tokens", 6, pieces);
    field_words(seed, "tokenizer.ggml.token_type", INT32, 6, kinds);
    field_texts(seed, "tokenizer.ggml.merges", 2, merges);
    end_gguf(seed);
}

/* --- Settings: one text is all files --- */

static void make_settings(struct seed *seed) {
    static const char text[] =
        "{\"model_type\":\"llama\",\"vocab_size\":9,\"hidden_size\":32,\"intermediate_size\":32,\"num_hidden_layers\":1,"
        "\"num_attention_heads\":2,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":64},\"eos_token_id\":1,\"num_beams\":2,\"max_length\":20,"
        "\"early_stopping\":\"never\",\"decoder_start_token_id\":0,\"task_specific_params\":{\"translation_en_to_fr\":{\"prefix\":"
        "\"translate English to French: \",\"length_penalty\":2.0}},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2,\"b\":3,"
        "\"ab\":4,\"\xc4\xa0\":5},\"merges\":[[\"a\",\"b\"]]},\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":"
        "0,"
        "\"content\":\"<|x|>\",\"special\":true}],\"post_processor\":{\"single\":[{\"SpecialToken\":{\"id\":\"<|x|>\"}}],"
        "\"special_tokens\":{\"<|x|>\":{\"ids\":[0]}}},\"do_lower_case\":true,\"pad_token\":{\"content\":\"[PAD]\"},"
        "\"max_seq_length\":16}";
    put(seed, text, sizeof text - 1);
}

/* --- SentencePiece: one piece, and a table that leads nowhere --- */

static void make_spiece(struct seed *seed) {
    enum { UNITS = 256 };
    put(seed, "\x0a\x07\x0a\x05<unk>", 9);
    put(seed, "\x1a\x8a\x08\x12\x87\x08", 6); /* 1034 bytes, of which the table has 1031 */
    put_number(seed, 4 * UNITS, 4);
    put_number(seed, 0x500, 4); /* unit 0 has the value that is in unit 1 */
    put_number(seed, 0x80000000, 4);
    put_zeros(seed, 4 * UNITS - 8);
    put(seed, "a\0", 3);
}

static void make_vocabulary(struct seed *seed) {
    static const char text[] = "[PAD]\n[UNK]\n[CLS]\r\n[SEP]\na\n##b\n.\n\xe6\x97\xa5\n";
    put(seed, text, sizeof text - 1);
}

const struct seed *seed_number(int i) {
    static struct seed seeds[SEEDS];
    static void (*const make[SEEDS])(struct seed *) = {make_safetensors, make_scored, make_merged,
                                                       make_settings,    make_spiece, make_vocabulary};
    if (seeds[i].size == 0)
        make[i](&seeds[i]);
    return &seeds[i];
}

/* What a format means something by, any byte, or a number that is too large for what it counts. */
static void change(struct rng *rng, uint8_t *bytes, size_t size) {
    static const uint8_t odd[] = "\x00\x01\x04\x08\x7f\x80\xff\"{}[]:,0129-.eE";
    const size_t at = (size_t)rng_range(rng, 0, (int64_t)size - 1);
    const int64_t kind = rng_range(rng, 0, 3);
    const uint64_t number = ((uint64_t)1 << rng_range(rng, 0, 63)) - (uint64_t)rng_range(rng, 0, 1);
    if (kind == 0)
        bytes[at] = (uint8_t)rng_next(rng);
    else if (kind < 3)
        bytes[at] = odd[rng_range(rng, 0, sizeof odd - 2)];
    for (size_t i = 0; kind == 3 && i < 8 && at + i < size; i++)
        bytes[at + i] = (uint8_t)(number >> 8 * i);
}

/* A part of a file, once more behind itself. */
static size_t repeat(struct rng *rng, uint8_t *bytes, size_t size) {
    const size_t at = (size_t)rng_range(rng, 0, (int64_t)size - 1);
    const size_t part = (size_t)rng_range(rng, 1, (int64_t)(size - at < 200 ? size - at : 200));
    if (size + part > FUZZ_MOST_BYTES)
        return size;
    memmove(bytes + at + part, bytes + at, size - at);
    return size + part;
}

/* A file, whole or not quite. */
size_t fuzz_draw(struct rng *rng, uint8_t bytes[FUZZ_MOST_BYTES]) {
    const struct seed *seed = seed_number((int)rng_range(rng, 0, SEEDS - 1));
    size_t size = seed->size;
    memcpy(bytes, seed->data, size);
    for (int64_t left = rng_range(rng, 0, 4); left > 0; left--)
        change(rng, bytes, size);
    if (rng_range(rng, 0, 3) == 0)
        size = repeat(rng, bytes, size);
    return rng_range(rng, 0, 9) == 0 ? (size_t)rng_range(rng, 0, (int64_t)size) : size;
}
