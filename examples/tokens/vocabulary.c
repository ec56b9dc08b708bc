/* See vocabulary.h. */
#include "vocabulary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum piece_kind { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE }; /* as GGUF counts them */

/* Where a key is, or the free place where it would be (FNV-1a). */
static struct entry *look_up(const struct table *table, const void *key, int64_t bytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (int64_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)key)[i]) * 0x100000001b3;
    for (size_t i = hash ^ hash >> 32;; i++) {
        struct entry *entry = &table->entry[i & table->mask];
        if (!entry->key.data || (entry->key.bytes == bytes && memcmp(entry->key.data, key, (size_t)bytes) == 0))
            return entry;
    }
}

int32_t table_find(const struct table *table, const void *key, int64_t bytes) {
    const struct entry *entry = look_up(table, key, bytes);
    return entry->key.data ? entry->value : -1;
}

static void make_table(struct table *table, int64_t entries) {
    while ((int64_t)table->mask < 2 * entries)
        table->mask = 2 * table->mask + 1;
    table->entry = allocate((int64_t)table->mask + 1, sizeof *table->entry);
    memset(table->entry, 0, (table->mask + 1) * sizeof *table->entry);
}

/* The first of equal keys stays. */
static void add(struct table *table, const void *key, int64_t bytes, int64_t value) {
    struct entry *entry = look_up(table, key, bytes);
    if (!entry->key.data)
        *entry = (struct entry){{key, bytes}, (int32_t)value};
}

/* Byte-level vocabularies write bytes as characters that can be seen: those that cannot have the numbers from 256 on. */
static void number_characters(struct vocabulary *vocabulary) {
    int hidden = BYTES;
    for (int byte = 0; byte < BYTES; byte++) {
        const bool seen = (byte > ' ' && byte <= '~') || (byte > 0xa0 && byte != 0xad);
        vocabulary->byte_of[seen ? byte : hidden++] = (unsigned char)byte;
        vocabulary->known[seen ? byte : hidden - 1] = true;
    }
}

/* The bytes that a piece stands for, no more than its own.  What is no character of the vocabulary's kind stays as it is. */
static int64_t decode(const struct vocabulary *vocabulary, struct text piece, char *data) {
    static const char blank[] = "\xe2\x96\x81"; /* SentencePiece's */
    int64_t bytes = 0;
    utf8proc_int32_t point;
    for (int64_t at = 0, size; at < piece.bytes; at += size) {
        size = utf8proc_iterate((const utf8proc_uint8_t *)piece.data + at, piece.bytes - at, &point);
        size = size > 0 ? size : 1;
        if (vocabulary->byte_level && point >= 0 && point < CHARACTERS && vocabulary->known[point])
            data[bytes++] = (char)vocabulary->byte_of[point];
        else if (!vocabulary->byte_level && size == 3 && memcmp(piece.data + at, blank, 3) == 0)
            data[bytes++] = ' ';
        else
            for (int64_t i = 0; i < size; i++)
                data[bytes++] = piece.data[at + i];
    }
    return bytes;
}

static void add_byte(struct vocabulary *vocabulary, int64_t token, struct text piece) {
    unsigned byte;
    char *data = allocate(1, 1), text[8] = "";
    memcpy(text, piece.data, (size_t)(piece.bytes < 7 ? piece.bytes : 7));
    if (piece.bytes != 6 || sscanf(text, "<0x%2X>", &byte) != 1 || byte >= BYTES) /* "-1" is a number, too */
        fail("%s: token %" PRId64 " is no byte: %.*s", vocabulary->path, token, text_shown(piece), piece.data);
    *data = (char)byte;
    vocabulary->byte[byte] = (int32_t)token;
    vocabulary->piece[token] = (struct text){data, 1};
}

static void add_piece(struct vocabulary *vocabulary, int64_t token, struct text piece, enum piece_kind kind) {
    const bool special = kind == CONTROL || kind == USER;
    if (kind == BYTE) {
        add_byte(vocabulary, token, piece);
        return;
    }
    vocabulary->piece[token] = piece;
    if (!special) {
        char *data = allocate(piece.bytes, 1);
        vocabulary->piece[token] = (struct text){data, decode(vocabulary, piece, data)};
    }
    vocabulary->hidden[token] = kind == CONTROL || kind == UNKNOWN;
    if (kind == UNKNOWN)
        vocabulary->unknown = (int32_t)token;
    if (special && piece.bytes > 0)
        vocabulary->special[vocabulary->specials++] = (int32_t)token;
    if (kind == NORMAL || kind == USER)
        add(&vocabulary->tokens, vocabulary->piece[token].data, vocabulary->piece[token].bytes, token);
}

/* Pair number i, as it is written: two pieces. */
static void add_pair(struct vocabulary *vocabulary, int64_t i, struct text left, struct text right) {
    const struct table *tokens = &vocabulary->tokens;
    char *both = allocate(left.bytes + right.bytes, 1);
    const int64_t first = decode(vocabulary, left, both), second = decode(vocabulary, right, both + first);
    int32_t *pair = vocabulary->pair[i];
    pair[0] = table_find(tokens, both, first);
    pair[1] = table_find(tokens, both + first, second);
    vocabulary->merged[i] = table_find(tokens, both, first + second);
    if (pair[0] < 0 || pair[1] < 0 || vocabulary->merged[i] < 0)
        fail("%s: merge %" PRId64 " is of %.*s and %.*s: one of them, or both together, is no token", vocabulary->path, i,
             text_shown(left), left.data, text_shown(right), right.data);
    add(&vocabulary->pairs, pair, sizeof *vocabulary->pair, i);
    free(both);
}

/* A pair written as one text: there is a blank between its pieces, in which there is none. */
static void add_merge(struct vocabulary *vocabulary, int64_t i, struct text text) {
    const char *blank = text.bytes > 0 ? memchr(text.data, ' ', (size_t)text.bytes) : NULL;
    if (!blank)
        fail("%s: merge %" PRId64 " is %.*s, must be two pieces", vocabulary->path, i, text_shown(text), text.data);
    add_pair(vocabulary, i, (struct text){text.data, blank - text.data},
             (struct text){blank + 1, text.bytes - (blank + 1 - text.data)});
}

static void make_pairs(struct vocabulary *vocabulary, int64_t count) {
    make_table(&vocabulary->pairs, count);
    vocabulary->pair = allocate(count, sizeof *vocabulary->pair);
    vocabulary->merged = allocate(count, sizeof *vocabulary->merged);
}

static int32_t checked(const struct vocabulary *vocabulary, double token, const char *what) {
    if (!(token >= 0 && token < (double)vocabulary->size) || token != (double)(int32_t)token)
        fail("%s: %s is %g, must be a token less than %" PRId64, vocabulary->path, what, token, vocabulary->size);
    return (int32_t)token;
}

static void add_first(struct vocabulary *vocabulary, double token, const char *what) {
    if (vocabulary->firsts == MOST_FIRST)
        fail("%s: %s: more than %d tokens begin a text", vocabulary->path, what, MOST_FIRST);
    vocabulary->first[vocabulary->firsts++] = checked(vocabulary, token, what);
}

static struct vocabulary *make_vocabulary(const char *path, int64_t size) {
    struct vocabulary *vocabulary = allocate(1, sizeof *vocabulary);
    *vocabulary = (struct vocabulary){.path = path, .size = size, .unknown = -1};
    memset(vocabulary->byte, -1, sizeof vocabulary->byte);
    vocabulary->piece = allocate(size, sizeof *vocabulary->piece);
    vocabulary->hidden = allocate(size, sizeof *vocabulary->hidden);
    vocabulary->special = allocate(size, sizeof *vocabulary->special);
    memset(vocabulary->piece, 0, (size_t)size * sizeof *vocabulary->piece);
    memset(vocabulary->hidden, 0, (size_t)size * sizeof *vocabulary->hidden);
    make_table(&vocabulary->tokens, 2 * size); /* those of tokenizer.json, and what it adds to them */
    number_characters(vocabulary);
    return vocabulary;
}

/* The kind of vocabulary, and of words. */
static void read_model(struct vocabulary *vocabulary, const struct checkpoint *checkpoint) {
    const struct text model = gguf_text(checkpoint, "tokenizer.ggml.model", "none");
    const struct text words = gguf_text(checkpoint, "tokenizer.ggml.pre", "gpt-2");
    const bool llama3 = text_is(words, "llama-bpe"), qwen2 = text_is(words, "qwen2");
    vocabulary->byte_level = text_is(model, "gpt2");
    if (!vocabulary->byte_level && !text_is(model, "llama"))
        fail("%s: tokenizer.ggml.model is %.*s, must be llama or gpt2; or use --ids", checkpoint->path, text_shown(model),
             model.data);
    if (vocabulary->byte_level && !llama3 && !qwen2 && !text_is(words, "gpt-2"))
        fail("%s: tokenizer.ggml.pre is %.*s, must be llama-bpe, qwen2 or gpt-2; or use --ids", checkpoint->path, text_shown(words),
             words.data);
    vocabulary->split = llama3 ? SPLIT_LLAMA3 : qwen2 ? SPLIT_QWEN2 : SPLIT_GPT2;
    vocabulary->whole_words = vocabulary->byte_level && llama3;
    vocabulary->spaced = !vocabulary->byte_level && gguf_flag(checkpoint, "tokenizer.ggml.add_space_prefix", true);
}

static struct vocabulary *read_gguf(const struct checkpoint *checkpoint, int64_t size) {
    static const char first[] = "tokenizer.ggml.bos_token_id";
    struct vocabulary *vocabulary = make_vocabulary(checkpoint->path, size);
    int64_t count, kinds, scores, merges;
    const struct text *pieces = gguf_texts(checkpoint, "tokenizer.ggml.tokens", &count);
    const struct text *pairs = gguf_texts(checkpoint, "tokenizer.ggml.merges", &merges);
    const float *kind = gguf_floats(checkpoint, "tokenizer.ggml.token_type", &kinds);
    vocabulary->score = gguf_floats(checkpoint, "tokenizer.ggml.scores", &scores);
    read_model(vocabulary, checkpoint);
    if (count > size || (kinds != count && kinds != 0) || (scores != count && !vocabulary->byte_level))
        fail("%s: there are %" PRId64 " tokens, %" PRId64 " types of them and %" PRId64 " scores, and the model has %" PRId64,
             checkpoint->path, count, kinds, scores, size);
    for (int64_t i = 0; i < count; i++)
        add_piece(vocabulary, i, pieces[i], kinds > 0 && kind[i] >= NORMAL && kind[i] <= BYTE ? (enum piece_kind)kind[i] : NORMAL);
    if (vocabulary->byte_level)
        make_pairs(vocabulary, merges);
    for (int64_t i = 0; vocabulary->byte_level && i < merges; i++)
        add_merge(vocabulary, i, pairs[i]);
    if (gguf_flag(checkpoint, "tokenizer.ggml.add_bos_token", !vocabulary->byte_level || vocabulary->whole_words))
        add_first(vocabulary, gguf_number(checkpoint, first, 0, INT32_MAX, 1), first);
    return vocabulary;
}

static struct text text_of(const json_t *value) {
    return (struct text){json_string_value(value), (int64_t)json_string_length(value)};
}

/* -1: it is none. */
static double number_of(const json_t *value) { return json_is_real(value) ? json_real_value(value) : -1; }

/* Part i of what is one part, or a list of them in a field; NULL: there are no more. */
static const json_t *part_of(const json_t *whole, const char *field, size_t i) {
    const json_t *parts = json_object_get(whole, field);
    return json_is_array(parts) ? json_array_get(parts, i) : i == 0 ? whole : NULL;
}

static void read_split(struct vocabulary *vocabulary, const json_t *whole) {
    const json_t *part;
    for (size_t i = 0; (part = part_of(whole, "pretokenizers", i)); i++) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const char *expression = json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex"));
        unsigned split = SPLIT_GPT2;
        while (split < SPLITS && expression && strcmp(expression, split_expressions[split]) != 0)
            split++;
        if (split == SPLITS)
            fail("%s: pre_tokenizer has the Regex %s, must have that of GPT-2, Llama 3 or Qwen2; use --ids", vocabulary->path,
                 expression);
        if (expression)
            vocabulary->split = split;
        vocabulary->byte_level |= type && strcmp(type, "ByteLevel") == 0;
    }
    if (!vocabulary->byte_level)
        fail("%s: pre_tokenizer is not ByteLevel: use a GGUF file of this model, or --ids", vocabulary->path);
}

/* What the template of a single text has before it. */
static void read_first(struct vocabulary *vocabulary, const json_t *whole) {
    const json_t *part, *id;
    for (size_t i = 0; (part = part_of(whole, "processors", i)); i++) {
        const json_t *single = json_object_get(part, "single");
        for (size_t j = 0; (id = json_object_get(json_object_get(json_array_get(single, j), "SpecialToken"), "id")); j++) {
            const json_t *token =
                json_string_value(id) ? json_object_get(json_object_get(part, "special_tokens"), json_string_value(id)) : NULL;
            add_first(vocabulary, number_of(json_array_get(json_object_get(token, "ids"), 0)), "post_processor");
        }
    }
}

static void read_pieces(struct vocabulary *vocabulary, const json_t *vocab, const json_t *added) {
    const char *name;
    json_t *value;
    if (json_object_size(vocab) > (size_t)vocabulary->size || json_array_size(added) > (size_t)vocabulary->size)
        fail("%s: there are more tokens than the %" PRId64 " of the model", vocabulary->path, vocabulary->size);
    json_object_foreach((json_t *)vocab, name, value)
        add_piece(vocabulary, checked(vocabulary, number_of(value), name), (struct text){name, (int64_t)strlen(name)}, NORMAL);
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i), *content = json_object_get(token, "content");
        if (!json_is_string(content))
            fail("%s: added_tokens: token %zu has no content", vocabulary->path, i);
        add_piece(vocabulary, checked(vocabulary, number_of(json_object_get(token, "id")), json_string_value(content)),
                  text_of(content), json_is_true(json_object_get(token, "special")) ? CONTROL : USER);
    }
}

/* Only what is byte-level: others, of Llama 2 and its time, are read from GGUF files. */
static struct vocabulary *read_json(const char *folder, int64_t size) {
    struct settings *settings = allocate(1, sizeof *settings); /* lives as long as its path does */
    *settings = settings_open(folder, "tokenizer.json");
    settings_require(settings);
    const struct settings model = settings_object(settings, "model");
    const json_t *merges = json_object_get(model.json, "merges");
    struct vocabulary *vocabulary = make_vocabulary(settings->path, size);
    settings_expect(&model, "type", "BPE");
    read_split(vocabulary, json_object_get(settings->json, "pre_tokenizer"));
    read_pieces(vocabulary, json_object_get(model.json, "vocab"), json_object_get(settings->json, "added_tokens"));
    read_first(vocabulary, json_object_get(settings->json, "post_processor"));
    vocabulary->whole_words = settings_flag(&model, "ignore_merges", false);
    make_pairs(vocabulary, (int64_t)json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i), *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        if (json_is_string(left) && json_is_string(right))
            add_pair(vocabulary, (int64_t)i, text_of(left), text_of(right));
        else
            add_merge(vocabulary, (int64_t)i, text_of(merge));
    }
    return vocabulary;
}

struct vocabulary *vocabulary_open(const char *path, const struct checkpoint *checkpoint, int64_t size) {
    return checkpoint->gguf ? read_gguf(checkpoint, size) : read_json(path, size);
}
