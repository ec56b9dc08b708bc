/* See vocabulary.h. */
#include "vocabulary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

enum piece_kind { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE }; /* as GGUF counts them */

static struct text text_of(const json_t *value) { return (struct text){json_string_value(value), json_string_length(value)}; }

/* -1: it is none. */
static double number_of(const json_t *value) { return json_is_real(value) ? json_real_value(value) : -1; }

/* Byte-level vocabularies write bytes as characters that can be seen: those that cannot have the numbers from 256 on. */
static void number_characters(struct vocabulary *vocabulary) {
    int hidden = BYTES;
    for (int byte = 0; byte < BYTES; byte++) {
        const bool seen = (byte > ' ' && byte <= '~') || (byte > 0xa0 && byte != 0xad);
        const int character = seen ? byte : hidden++;
        vocabulary->byte_of[character] = (unsigned char)byte;
        vocabulary->known[character] = true;
    }
}

/* The bytes that a piece stands for, no more than its own.  What is no character of the vocabulary's kind stays as it is. */
static size_t decode(const struct vocabulary *vocabulary, struct text piece, char *data) {
    static const char blank[] = "\xe2\x96\x81"; /* SentencePiece's */
    utf8proc_int32_t point;
    size_t bytes = 0;
    for (size_t at = 0, size; at < piece.bytes; at += size) {
        const char *character = piece.data + at;
        const utf8proc_ssize_t read =
            utf8proc_iterate((const utf8proc_uint8_t *)character, (utf8proc_ssize_t)(piece.bytes - at), &point);
        size = read > 0 ? (size_t)read : 1;
        if (vocabulary->byte_level && point >= 0 && point < CHARACTERS && vocabulary->known[point])
            data[bytes++] = (char)vocabulary->byte_of[point];
        else if (!vocabulary->byte_level && size == 3 && memcmp(character, blank, 3) == 0)
            data[bytes++] = ' ';
        else
            for (size_t i = 0; i < size; i++)
                data[bytes++] = character[i];
    }
    return bytes;
}

/* A piece like <0x0A>. */
static void add_byte(struct vocabulary *vocabulary, int32_t token, struct text piece) {
    unsigned byte = 0;
    char *data = allocate(1, 1), expected[8];
    sscanf(piece.data, "<0x%2X>", &byte);
    snprintf(expected, sizeof expected, "<0x%02X>", byte % BYTES);
    if (strcmp(piece.data, expected) != 0)
        fail("%s: token %" PRId32 " is no byte: %.64s", vocabulary->path, token, piece.data);
    *data = (char)byte;
    vocabulary->byte[byte] = token;
    vocabulary->piece[token] = (struct text){data, 1};
}

static void add_piece(struct vocabulary *vocabulary, int32_t token, struct text piece, enum piece_kind kind) {
    const bool special = kind == CONTROL || kind == USER;
    if (kind == BYTE) {
        add_byte(vocabulary, token, piece);
        return;
    }
    if (!special) {
        char *data = allocate((int64_t)piece.bytes, 1);
        piece = (struct text){data, decode(vocabulary, piece, data)};
    }
    vocabulary->piece[token] = piece;
    vocabulary->hidden[token] = kind == CONTROL || kind == UNKNOWN;
    if (kind == UNKNOWN)
        vocabulary->unknown = token;
    if (special && piece.bytes > 0)
        vocabulary->special[vocabulary->specials++] = token;
    if (kind == NORMAL || kind == USER)
        table_add(&vocabulary->tokens, piece.data, piece.bytes, token);
}

/* Merge number i, as it is written: two pieces. */
static void add_pair(struct vocabulary *vocabulary, int64_t i, struct text left, struct text right) {
    const struct table *tokens = &vocabulary->tokens;
    char *both = allocate((int64_t)(left.bytes + right.bytes), 1);
    const size_t first = decode(vocabulary, left, both), second = decode(vocabulary, right, both + first);
    int32_t *pair = vocabulary->pair[i];
    pair[0] = table_find(tokens, both, first);
    pair[1] = table_find(tokens, both + first, second);
    vocabulary->merged[i] = table_find(tokens, both, first + second);
    if (pair[0] < 0 || pair[1] < 0 || vocabulary->merged[i] < 0)
        fail("%s: merge %" PRId64 " is of %.*s and %.64s: one of them, or both together, is no token", vocabulary->path, i,
             (int)(left.bytes < 64 ? left.bytes : 64), left.data, right.data);
    table_add(&vocabulary->pairs, pair, sizeof *vocabulary->pair, (int32_t)i);
    release(both);
}

/* Merges are lists of two pieces, or texts with a blank between them; there is none in pieces. */
static void read_merges(struct vocabulary *vocabulary, const json_t *merges) {
    const size_t count = json_array_size(merges);
    vocabulary->pairs = table_make((int64_t)count);
    vocabulary->pair = allocate((int64_t)count, sizeof *vocabulary->pair);
    vocabulary->merged = allocate((int64_t)count, sizeof *vocabulary->merged);
    for (size_t i = 0; i < count; i++) {
        const json_t *merge = json_array_get(merges, i);
        const struct text whole = text_of(merge);
        struct text left = text_of(json_array_get(merge, 0)), right = text_of(json_array_get(merge, 1));
        const char *blank = whole.data ? memchr(whole.data, ' ', whole.bytes) : NULL;
        if (blank) {
            left = (struct text){whole.data, (size_t)(blank - whole.data)};
            right = (struct text){blank + 1, whole.bytes - left.bytes - 1};
        }
        if (!left.data || !right.data)
            fail("%s: merge %zu is %.64s, must be two pieces", vocabulary->path, i, whole.data ? whole.data : "no text");
        add_pair(vocabulary, (int64_t)i, left, right);
    }
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
    vocabulary->score = allocate(size, sizeof *vocabulary->score);
    memset(vocabulary->piece, 0, (size_t)size * sizeof *vocabulary->piece);
    memset(vocabulary->hidden, 0, (size_t)size * sizeof *vocabulary->hidden);
    vocabulary->tokens = table_make(2 * size); /* those of tokenizer.json, and what it adds to them */
    number_characters(vocabulary);
    return vocabulary;
}

/* The kind of vocabulary, and of words. */
static void read_kind(struct vocabulary *vocabulary, const struct settings *metadata) {
    static const char *const names[SPLITS] = {[SPLIT_GPT2] = "gpt-2", [SPLIT_LLAMA3] = "llama-bpe", [SPLIT_QWEN2] = "qwen2"};
    const char *model = settings_string(metadata, "tokenizer.ggml.model", "none");
    const char *words = settings_string(metadata, "tokenizer.ggml.pre", names[SPLIT_GPT2]);
    vocabulary->byte_level = strcmp(model, "gpt2") == 0;
    if (!vocabulary->byte_level && strcmp(model, "llama") != 0)
        fail("%s: tokenizer.ggml.model is %s, must be llama or gpt2; or use --ids", metadata->path, model);
    while (vocabulary->byte_level && vocabulary->split < SPLITS && strcmp(words, names[vocabulary->split]) != 0)
        vocabulary->split++;
    if (vocabulary->split == SPLITS)
        fail("%s: tokenizer.ggml.pre is %s, must be llama-bpe, qwen2 or gpt-2; or use --ids", metadata->path, words);
    vocabulary->whole_words = vocabulary->split == SPLIT_LLAMA3;
    vocabulary->spaced = !vocabulary->byte_level && settings_flag(metadata, "tokenizer.ggml.add_space_prefix", true);
}

static struct vocabulary *read_gguf(const struct settings *metadata, int64_t size) {
    static const char first[] = "tokenizer.ggml.bos_token_id";
    struct vocabulary *vocabulary = make_vocabulary(metadata->path, size);
    const json_t *pieces = settings_array(metadata, "tokenizer.ggml.tokens"), *piece;
    const json_t *kinds = settings_array(metadata, "tokenizer.ggml.token_type");
    const json_t *scores = settings_array(metadata, "tokenizer.ggml.scores");
    const size_t count = json_array_size(pieces);
    read_kind(vocabulary, metadata);
    if (count > (size_t)size || (kinds && json_array_size(kinds) != count) ||
        (!vocabulary->byte_level && json_array_size(scores) != count))
        fail("%s: there are %zu tokens, %zu types of them and %zu scores, and the model has %" PRId64, metadata->path, count,
             json_array_size(kinds), json_array_size(scores), size);
    for (size_t i = 0; i < count; i++) {
        const double kind = number_of(json_array_get(kinds, i));
        if (!json_is_string(piece = json_array_get(pieces, i)))
            fail("%s: tokenizer.ggml.tokens: token %zu is not a string", metadata->path, i);
        vocabulary->score[i] = json_is_real(json_array_get(scores, i)) ? json_real_value(json_array_get(scores, i)) : -INFINITY;
        add_piece(vocabulary, (int32_t)i, text_of(piece), kind >= NORMAL && kind <= BYTE ? (enum piece_kind)kind : NORMAL);
    }
    if (vocabulary->byte_level)
        read_merges(vocabulary, settings_array(metadata, "tokenizer.ggml.merges"));
    if (settings_flag(metadata, "tokenizer.ggml.add_bos_token", !vocabulary->byte_level || vocabulary->whole_words))
        add_first(vocabulary, settings_number(metadata, first, 0, INT32_MAX, 1), first);
    return vocabulary;
}

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
        if (json_is_true(json_object_get(part, "add_prefix_space")))
            fail("%s: pre_tokenizer has add_prefix_space, which must be false; use --ids", vocabulary->path);
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
        add_piece(vocabulary, checked(vocabulary, number_of(value), name), (struct text){name, strlen(name)}, NORMAL);
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
    struct vocabulary *vocabulary = make_vocabulary(settings->path, size);
    settings_expect(&model, "type", "BPE");
    read_split(vocabulary, json_object_get(settings->json, "pre_tokenizer"));
    read_pieces(vocabulary, json_object_get(model.json, "vocab"), json_object_get(settings->json, "added_tokens"));
    read_first(vocabulary, json_object_get(settings->json, "post_processor"));
    vocabulary->whole_words = settings_flag(&model, "ignore_merges", false);
    read_merges(vocabulary, settings_array(&model, "merges"));
    return vocabulary;
}

struct vocabulary *vocabulary_open(const char *path, const struct checkpoint *checkpoint, int64_t size) {
    return checkpoint->metadata.json ? read_gguf(&checkpoint->metadata, size) : read_json(path, size);
}
