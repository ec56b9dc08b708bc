/* See tokenizer.h. */
#include "tokenizer.h"

#include <math.h>
#include <string.h>

/* A piece of a text, which ends where the next one begins. */
struct symbol {
    int64_t start;
    int32_t token, merged; /* -1: none; merged: what becomes of it and the next one */
    double rank;           /* when: the least first; INFINITY: never */
};

static int64_t bytes_of_character(const struct vocabulary *vocabulary, const char *text, int64_t bytes) {
    int64_t count = 1;
    while (!vocabulary->byte_level && count < bytes && ((unsigned char)text[count] & 0xc0) == 0x80)
        count++;
    return count;
}

/* symbol[2] is there, if only for its start. */
static void look_at(const struct vocabulary *vocabulary, const char *text, struct symbol *symbol) {
    const int32_t pair[2] = {symbol[0].token, symbol[1].token};
    const int32_t rank = vocabulary->pair ? table_find(&vocabulary->pairs, pair, sizeof pair) : -1;
    symbol->merged = vocabulary->pair
                         ? rank < 0 ? -1 : vocabulary->merged[rank]
                         : table_find(&vocabulary->tokens, text + symbol->start, (size_t)(symbol[2].start - symbol->start));
    symbol->rank = symbol->merged < 0 ? INFINITY : vocabulary->pair ? rank : -vocabulary->score[symbol->merged];
}

/* Characters, of which there are `count`, and then again and again the first two neighbours of the least rank become one. */
static int64_t merge(const struct vocabulary *vocabulary, const char *text, struct symbol *symbol, int64_t count) {
    for (int64_t i = 0; i + 1 < count; i++)
        look_at(vocabulary, text, &symbol[i]);
    while (count > 1) {
        int64_t best = 0;
        for (int64_t i = 1; i + 1 < count; i++)
            if (symbol[i].rank < symbol[best].rank)
                best = i;
        if (symbol[best].rank == INFINITY)
            break;
        symbol[best].token = symbol[best].merged;
        memmove(&symbol[best + 1], &symbol[best + 2], (size_t)(count - best - 1) * sizeof *symbol); /* and the end of all */
        count--;
        if (best + 1 < count)
            look_at(vocabulary, text, &symbol[best]);
        if (best > 0)
            look_at(vocabulary, text, &symbol[best - 1]);
    }
    return count;
}

/* The tokens of a word, or of a text without special tokens; what has none becomes bytes. */
static int64_t encode_word(const struct vocabulary *vocabulary, const char *text, int64_t bytes, int32_t *tokens) {
    int64_t count = 0, written = 0;
    *tokens = vocabulary->whole_words ? table_find(&vocabulary->tokens, text, (size_t)bytes) : -1;
    if (*tokens >= 0)
        return 1;
    struct symbol *symbol = allocate(bytes + 1, sizeof *symbol);
    for (int64_t at = 0; at < bytes; count++) {
        const int64_t size = bytes_of_character(vocabulary, text + at, bytes - at);
        symbol[count] = (struct symbol){.start = at, .token = table_find(&vocabulary->tokens, text + at, (size_t)size)};
        at += size;
    }
    symbol[count] = (struct symbol){.start = bytes, .token = -1};
    count = merge(vocabulary, text, symbol, count);
    for (int64_t i = 0; i < count; i++) {
        if (symbol[i].token >= 0)
            tokens[written++] = symbol[i].token;
        for (int64_t j = symbol[i].start; symbol[i].token < 0 && j < symbol[i + 1].start; j++) {
            const int32_t byte = vocabulary->byte[(unsigned char)text[j]];
            if (byte < 0 && vocabulary->unknown < 0)
                fail("%s: has no token for byte %d", vocabulary->path, (unsigned char)text[j]);
            tokens[written++] = byte < 0 ? vocabulary->unknown : byte;
        }
    }
    release(symbol);
    return written;
}

static int64_t encode_text(const struct vocabulary *vocabulary, const char *text, int64_t bytes, int32_t *tokens) {
    int64_t count = 0;
    if (!vocabulary->byte_level && bytes > 0) {
        char *spaced = allocate(bytes + 1, 1);
        spaced[0] = ' ';
        memcpy(spaced + vocabulary->spaced, text, (size_t)bytes);
        count = encode_word(vocabulary, spaced, bytes + vocabulary->spaced, tokens);
        release(spaced);
        return count;
    }
    for (int64_t size; bytes > 0; text += size, bytes -= size) {
        size = split_next(text, bytes, vocabulary->split);
        count += encode_word(vocabulary, text, size, tokens + count);
    }
    return count;
}

/* The longest special token that a text begins with, -1 if it begins with none. */
static int32_t find_special(const struct vocabulary *vocabulary, const char *text, int64_t bytes) {
    int32_t found = -1;
    for (int64_t i = 0; i < vocabulary->specials; i++) {
        const int32_t token = vocabulary->special[i];
        const struct text *piece = &vocabulary->piece[token];
        if (piece->bytes <= (size_t)bytes && memcmp(piece->data, text, piece->bytes) == 0 &&
            (found < 0 || piece->bytes > vocabulary->piece[found].bytes))
            found = token;
    }
    return found;
}

int64_t tokenizer_encode(const struct vocabulary *vocabulary, const char *text, int64_t bytes, int32_t *tokens) {
    int64_t count = vocabulary->firsts, start = 0, at = 0;
    memcpy(tokens, vocabulary->first, (size_t)count * sizeof *tokens);
    while (at < bytes) {
        const int32_t special = find_special(vocabulary, text + at, bytes - at);
        if (special < 0) {
            at++;
            continue;
        }
        count += encode_text(vocabulary, text + start, at - start, tokens + count);
        tokens[count++] = special;
        start = at += (int64_t)vocabulary->piece[special].bytes;
    }
    return count + encode_text(vocabulary, text + start, bytes - start, tokens + count);
}
