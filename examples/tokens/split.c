/* See split.h.  The alternatives of the expressions are tried in their order, as regular expressions do it. */
#include "split.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define SINCE_LLAMA3(digits)                                                                                                       \
    "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const char *const split_expressions[SPLITS] = {
    [SPLIT_GPT2] = CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    [SPLIT_LLAMA3] = SINCE_LLAMA3("\\p{N}{1,3}"),
    [SPLIT_QWEN2] = SINCE_LLAMA3("\\p{N}"),
};

enum kind { END, LETTER = 1, NUMBER = 2, NEWLINE = 4, BLANK = 8, OTHER = 16, SPACE = NEWLINE | BLANK }; /* bits */

/* Of the character at the beginning; what is no UTF-8 is taken byte by byte. */
static enum kind kind_of(const char *text, int64_t bytes, int64_t *size) {
    utf8proc_int32_t point;
    const int64_t read = utf8proc_iterate((const utf8proc_uint8_t *)text, bytes, &point);
    *size = read > 0 ? read : bytes > 0;
    if (read <= 0)
        return bytes > 0 ? OTHER : END;
    const utf8proc_category_t category = utf8proc_category(point);
    if (point == '\r' || point == '\n')
        return NEWLINE;
    if ((point >= '\t' && point <= '\r') || point == 0x85 || (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP))
        return BLANK;
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
        return LETTER;
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO ? NUMBER : OTHER;
}

/* Where characters of these kinds end, of which there are `most` at most; *last: where the last one of them begins. */
static int64_t run(const char *text, int64_t bytes, int64_t at, enum kind kinds, int64_t most, int64_t *last) {
    int64_t size = 0;
    for (; most > 0 && (kind_of(text + at, bytes - at, &size) & kinds) != 0; most--) {
        *last = at;
        at += size;
    }
    return at;
}

static int64_t contraction(const char *text, int64_t bytes, bool any_case) {
    static const char *const known[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t size = strlen(known[i]);
        if ((size_t)bytes >= size && (any_case ? strncasecmp(text, known[i], size) : strncmp(text, known[i], size)) == 0)
            return (int64_t)size;
    }
    return 0;
}

int64_t split_next(const char *text, int64_t bytes, enum split split) {
    const bool old = split == SPLIT_GPT2;
    int64_t size, next, last = 0, end = contraction(text, bytes, !old);
    if (end > 0)
        return end;
    const enum kind first = kind_of(text, bytes, &size);
    const int64_t blank = *text == ' ', lead = old ? blank : (first & (BLANK | OTHER)) != 0 ? size : 0;
    const enum kind after_blank = blank ? kind_of(text + 1, bytes - 1, &next) : first;
    const enum kind after_lead = lead ? kind_of(text + lead, bytes - lead, &next) : first;
    if (after_lead == LETTER)
        return run(text, bytes, lead, LETTER, bytes, &last);
    if ((old ? after_blank : first) == NUMBER)
        return run(text, bytes, old ? blank : 0, NUMBER, old ? bytes : split == SPLIT_LLAMA3 ? 3 : 1, &last);
    if (after_blank == OTHER) {
        end = run(text, bytes, blank, OTHER, bytes, &last);
        return old ? end : run(text, bytes, end, NEWLINE, bytes, &last);
    }
    end = run(text, bytes, 0, SPACE, bytes, &last);
    for (int64_t i = end; i > 0 && !old; i--)
        if (text[i - 1] == '\r' || text[i - 1] == '\n')
            return i;
    return end < bytes && last > 0 ? last : end; /* the last one belongs to the next word */
}
