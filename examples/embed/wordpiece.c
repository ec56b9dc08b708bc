/* Text to tokens in the order of the reference (BertTokenizer): special tokens written out in the text; clean the rest, blanks
 * around ideographs, decompose (NFD) and drop the accents, lower-case; words at blanks and punctuation; the longest pieces of each
 * word that the vocabulary has, from the left.  Unicode is utf8proc's; the reference knows the accents, format characters and
 * punctuation of Unicode 8, and so takes the few hundred that came later for letters. */
#include "wordpiece.h"
#include "../checkpoint/checkpoint.h"
#include "../shared/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

enum { UNKNOWN, CLS, SEP, PAD, MASK, SPECIAL };
enum { WORD_MOST = 100, POINT_BYTES = 4, PREFIX = 2 }; /* characters of a word; bytes of a character; of "##" */

struct special {
    const char *text; /* of the settings; NULL: it has no token */
    size_t bytes;
    int32_t token;
};

struct wordpiece {
    char *vocabulary; /* the file, which keys of the table point to */
    struct table table;
    int64_t size, most_tokens;
    bool lower, strip, ideographs;
    struct special special[SPECIAL];
    utf8proc_uint8_t *clean; /* room for texts of up to `room` bytes, as they are decomposed */
    utf8proc_int32_t *points;
    size_t room;
};

/* A text on its way: the tokens so far, and the word that is being read, behind two bytes for "##". */
struct reader {
    const struct wordpiece *wordpiece;
    int32_t *tokens;
    int64_t count, most;
    char word[PREFIX + WORD_MOST * POINT_BYTES];
    size_t bytes;
    int64_t characters;
};

static void add_piece(struct reader *reader, int32_t token) {
    if (reader->count < reader->most)
        reader->tokens[reader->count++] = token;
}

static void end_word(struct reader *reader) {
    const int64_t before = reader->count;
    const int64_t characters = reader->characters;
    size_t start = 0;
    reader->characters = 0;
    while (start < reader->bytes && characters <= WORD_MOST) {
        const size_t prefix = start > 0 ? PREFIX : 0;
        char *piece = reader->word + PREFIX + start - prefix;
        memcpy(piece, "##", prefix); /* over what has been read of the word */
        size_t end = reader->bytes;
        int32_t token = table_find(&reader->wordpiece->table, piece, prefix + end - start);
        while (token < 0 && --end > start)
            token = table_find(&reader->wordpiece->table, piece, prefix + end - start);
        if (token < 0)
            break;
        add_piece(reader, token);
        start = end;
    }
    if (start < reader->bytes) {
        reader->count = before;
        add_piece(reader, reader->wordpiece->special[UNKNOWN].token);
    }
    reader->bytes = 0;
}

static void add_character(struct reader *reader, utf8proc_int32_t point) {
    if (reader->characters++ < WORD_MOST)
        reader->bytes += (size_t)utf8proc_encode_char(point, (utf8proc_uint8_t *)reader->word + PREFIX + reader->bytes);
}

static bool is_blank(utf8proc_int32_t point) {
    const utf8proc_category_t category = utf8proc_category(point);
    return point == '\t' || point == '\n' || point == '\r' ||
           (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

static bool is_dropped(utf8proc_int32_t point) {
    const utf8proc_category_t category = utf8proc_category(point);
    return point == 0xfffd || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
}

/* ASCII has symbols that count as punctuation here: $ + < = > ^ ` | ~. */
static bool is_punctuation(utf8proc_int32_t point) {
    const utf8proc_category_t category = utf8proc_category(point);
    return (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) ||
           (point < 0x80 && category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO);
}

/* CJK Unified Ideographs and their extensions up to E, as the reference has them, with its gap at the start of E. */
static bool is_ideograph(utf8proc_int32_t point) {
    static const utf8proc_int32_t ranges[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                                                 {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    bool found = false;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        found |= point >= ranges[i][0] && point <= ranges[i][1];
    return found;
}

/* Lower-case by single characters: U+0130, which is two, is the only one that utf8proc has as one. */
static void add_letter(struct reader *reader, utf8proc_int32_t point) {
    const bool lower = reader->wordpiece->lower;
    add_character(reader, lower ? utf8proc_tolower(point) : point);
    if (lower && point == 0x130)
        add_character(reader, 0x307);
}

/* To wordpiece->clean: UTF-8 without what is dropped, blanks as spaces, ideographs between spaces.  Returns its bytes. */
static size_t clean(const struct wordpiece *wordpiece, const char *text, size_t bytes) {
    utf8proc_uint8_t *to = wordpiece->clean;
    for (size_t i = 0; i < bytes;) {
        utf8proc_int32_t point;
        const utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(bytes - i), &point);
        i += length > 0 ? (size_t)length : 1;
        if (length <= 0 || (is_dropped(point) && !is_blank(point)))
            continue;
        const bool apart = wordpiece->ideographs && is_ideograph(point);
        if (apart)
            *to++ = ' ';
        to += utf8proc_encode_char(is_blank(point) ? ' ' : point, to);
        if (apart)
            *to++ = ' ';
    }
    return (size_t)(to - wordpiece->clean);
}

/* Room for what becomes of a text: 5 bytes for an ideograph of 3, and no more than 3 characters for one of 2 bytes, as NFD has it.
 */
static void make_room(struct wordpiece *wordpiece, size_t bytes) {
    if (wordpiece->room > 0 && bytes <= wordpiece->room)
        return;
    release(wordpiece->clean);
    release(wordpiece->points);
    wordpiece->room = bytes > 1 << 16 ? bytes : 1 << 16;
    wordpiece->clean = allocate((int64_t)wordpiece->room, 2);
    wordpiece->points = allocate((int64_t)wordpiece->room, 2 * sizeof *wordpiece->points);
}

/* Text between special tokens. */
static void read_text(struct reader *reader, struct wordpiece *wordpiece, const char *text, size_t bytes) {
    make_room(wordpiece, bytes);
    const utf8proc_ssize_t length = (utf8proc_ssize_t)clean(wordpiece, text, bytes), room = (utf8proc_ssize_t)wordpiece->room * 2;
    const utf8proc_option_t options = wordpiece->strip ? UTF8PROC_STABLE | UTF8PROC_DECOMPOSE : 0;
    const utf8proc_ssize_t count = utf8proc_decompose(wordpiece->clean, length, wordpiece->points, room, options);
    if (count < 0 || count > room)
        fail("a text cannot be decomposed: %s", utf8proc_errmsg(count));
    for (utf8proc_ssize_t i = 0; i < count && reader->count < reader->most; i++) {
        const utf8proc_int32_t point = wordpiece->points[i];
        const bool alone = is_punctuation(point), blank = is_blank(point);
        if (wordpiece->strip && utf8proc_category(point) == UTF8PROC_CATEGORY_MN)
            continue;
        if (alone || blank)
            end_word(reader);
        if (!blank)
            add_letter(reader, point);
        if (alone)
            end_word(reader);
    }
    end_word(reader);
}

/* The special token at the start of a text, or NULL. */
static const struct special *special_at(const struct wordpiece *wordpiece, const char *text, size_t bytes) {
    for (int i = 0; i < SPECIAL; i++) {
        const struct special *special = &wordpiece->special[i];
        if (special->text && special->bytes <= bytes && memcmp(special->text, text, special->bytes) == 0)
            return special;
    }
    return NULL;
}

int64_t wordpiece_encode(struct wordpiece *wordpiece, const char *text, size_t bytes, int64_t most, int32_t *tokens) {
    struct reader reader = {.wordpiece = wordpiece, .tokens = tokens, .most = most - 1};
    add_piece(&reader, wordpiece->special[CLS].token);
    size_t start = 0;
    for (size_t i = 0; i < bytes;) {
        const struct special *special = special_at(wordpiece, text + i, bytes - i);
        if (special) {
            read_text(&reader, wordpiece, text + start, i - start);
            add_piece(&reader, special->token);
            start = i + special->bytes;
        }
        i += special ? special->bytes : 1;
    }
    read_text(&reader, wordpiece, text + start, bytes - start);
    tokens[reader.count] = wordpiece->special[SEP].token;
    return reader.count + 1;
}

int64_t wordpiece_size(const struct wordpiece *wordpiece) { return wordpiece->size; }
int64_t wordpiece_most_tokens(const struct wordpiece *wordpiece) { return wordpiece->most_tokens; }

/* A token per line; of equal ones the last counts. */
static void read_vocabulary(struct wordpiece *wordpiece, const char *path) {
    size_t bytes;
    wordpiece->vocabulary = file_read(path, &bytes);
    if (!wordpiece->vocabulary)
        fail("%s: no such file", path);
    const char *end = wordpiece->vocabulary + bytes;
    for (const char *at = wordpiece->vocabulary; at < end; at++)
        wordpiece->size += *at == '\n' || at + 1 == end;
    if (wordpiece->size > INT32_MAX / 2)
        fail("%s: has too many lines", path);
    wordpiece->table = table_make(wordpiece->size);
    const char *line = wordpiece->vocabulary;
    for (int32_t token = 0; token < wordpiece->size; token++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        const size_t length = (size_t)(stop - line) - (stop > line && stop[-1] == '\r');
        table_add(&wordpiece->table, line, length, token);
        line = stop + 1;
    }
}

static void find_special(struct wordpiece *wordpiece, const struct settings *settings, const char *path) {
    static const char *const fields[] = {"unk_token", "cls_token", "sep_token", "pad_token", "mask_token"};
    static const char *const names[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
    for (int i = 0; i < SPECIAL; i++) {
        const char *name = settings_string(settings, fields[i], names[i]);
        const int32_t token = table_find(&wordpiece->table, name, strlen(name));
        const bool there = token >= 0 && *name; /* nothing would be found everywhere in a text */
        wordpiece->special[i] = (struct special){there ? name : NULL, strlen(name), token};
        if (!there && i <= SEP)
            fail("%s: has no \"%s\", the %s", path, name, fields[i]);
    }
}

struct wordpiece *wordpiece_open(const char *folder) {
    struct wordpiece *wordpiece = allocate(1, sizeof *wordpiece);
    struct settings tokenizer = settings_open(folder, "tokenizer_config.json");
    struct settings sentence = settings_open(folder, "sentence_bert_config.json");
    char path[sizeof tokenizer.path];
    snprintf(path, sizeof path, "%s/vocab.txt", folder); /* shorter than the one that settings_open has found short enough */
    *wordpiece = (struct wordpiece){.lower = settings_flag(&tokenizer, "do_lower_case", true)};
    wordpiece->strip = settings_flag(&tokenizer, "strip_accents", wordpiece->lower);
    wordpiece->lower |= settings_flag(&sentence, "do_lower_case", false);
    wordpiece->ideographs = settings_flag(&tokenizer, "tokenize_chinese_chars", true);
    const double none = 1e300, most = settings_number(&tokenizer, "model_max_length", 2, none, none);
    const double sentence_most = settings_number(&sentence, "max_seq_length", 2, none, none);
    wordpiece->most_tokens = (int64_t)fmin(fmin(most, sentence_most), INT32_MAX);
    read_vocabulary(wordpiece, path);
    find_special(wordpiece, &tokenizer, path);
    return wordpiece;
}
