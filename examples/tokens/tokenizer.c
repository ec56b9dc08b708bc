/* See tokenizer.h. */
#include "tokenizer.h"

#include <string.h>

/* A piece of a text, which ends where the next one begins: one of a list, whose last one has no text. */
struct symbol {
    int64_t start, before, after; /* before, after: in the list; NONE: none */
    int32_t token, merged;        /* -1: none; merged: what becomes of it and the next one */
    int32_t looks;                /* at the two */
};
enum { NONE = -1 };

/* Two neighbours that may become one, if nobody has looked at them again. */
struct candidate {
    double rank; /* the least first */
    int64_t symbol;
    int32_t looks;
};

/* A binary heap: parent i / 2 comes no later than i; 1 is the first. */
struct heap {
    struct candidate *at;
    int64_t count;
};

static int64_t bytes_of_character(const struct vocabulary *vocabulary, const char *text, int64_t bytes) {
    int64_t count = 1;
    while (!vocabulary->byte_level && count < bytes && ((unsigned char)text[count] & 0xc0) == 0x80)
        count++;
    return count;
}

static bool comes_before(const struct candidate *a, const struct candidate *b) {
    return a->rank < b->rank || (a->rank == b->rank && a->symbol < b->symbol);
}

static void push(struct heap *heap, struct candidate candidate) {
    int64_t i = ++heap->count;
    for (; i > 1 && comes_before(&candidate, &heap->at[i / 2]); i /= 2)
        heap->at[i] = heap->at[i / 2];
    heap->at[i] = candidate;
}

static struct candidate pop(struct heap *heap) {
    const struct candidate first = heap->at[1], last = heap->at[heap->count--];
    int64_t i = 1, child;
    for (; (child = 2 * i) <= heap->count; i = child) {
        child += child < heap->count && comes_before(&heap->at[child + 1], &heap->at[child]);
        if (!comes_before(&heap->at[child], &last))
            break;
        heap->at[i] = heap->at[child];
    }
    heap->at[i] = last;
    return first;
}

/* At a symbol and the next one, which is not the last. */
static void look_at(const struct vocabulary *vocabulary, const char *text, struct symbol *symbols, int64_t i, struct heap *heap) {
    struct symbol *symbol = &symbols[i];
    const struct symbol *next = &symbols[symbol->after];
    const int32_t pair[2] = {symbol->token, next->token};
    const int32_t rank = vocabulary->pair ? table_find(&vocabulary->pairs, pair, sizeof pair) : -1;
    symbol->merged = vocabulary->pair ? rank < 0 ? -1 : vocabulary->merged[rank]
                                      : table_find(&vocabulary->tokens, text + symbol->start,
                                                   (size_t)(symbols[next->after].start - symbol->start));
    symbol->looks++;
    if (symbol->merged >= 0)
        push(heap, (struct candidate){vocabulary->pair ? rank : -vocabulary->score[symbol->merged], i, symbol->looks});
}

/* A symbol and the next one become one. */
static void join(const struct vocabulary *vocabulary, const char *text, struct symbol *symbols, int64_t i, struct heap *heap) {
    struct symbol *symbol = &symbols[i], *next = &symbols[symbol->after];
    symbol->token = symbol->merged;
    symbol->looks++;
    next->looks++;
    symbol->after = next->after;
    symbols[symbol->after].before = i;
    if (symbols[symbol->after].after != NONE)
        look_at(vocabulary, text, symbols, i, heap);
    if (symbol->before != NONE)
        look_at(vocabulary, text, symbols, symbol->before, heap);
}

/* Of `count` characters, again and again the first two neighbours of the least rank become one. */
static void merge(const struct vocabulary *vocabulary, const char *text, struct symbol *symbols, int64_t count) {
    struct heap heap = {.at = allocate(3 * count + 1, sizeof *heap.at)};
    for (int64_t i = 0; i + 1 < count; i++)
        look_at(vocabulary, text, symbols, i, &heap);
    while (heap.count > 0) {
        const struct candidate best = pop(&heap);
        if (symbols[best.symbol].looks == best.looks)
            join(vocabulary, text, symbols, best.symbol, &heap);
    }
    release(heap.at);
}

static struct symbol symbol_at(int64_t start, int64_t i, int32_t token) {
    return (struct symbol){.start = start, .before = i - 1, .after = i + 1, .token = token, .merged = -1};
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
        symbol[count] = symbol_at(at, count, table_find(&vocabulary->tokens, text + at, (size_t)size));
        at += size;
    }
    symbol[count] = symbol_at(bytes, count, -1);
    symbol[count].after = NONE;
    merge(vocabulary, text, symbol, count);
    for (int64_t i = 0; i < count; i = symbol[i].after) {
        if (symbol[i].token >= 0)
            tokens[written++] = symbol[i].token;
        for (int64_t j = symbol[i].start; symbol[i].token < 0 && j < symbol[symbol[i].after].start; j++) {
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
