/* A model of SentencePiece, before its library gets it.  What the file says of the normalisation of text has a trie in it, of
 * Darts-clone (https://github.com/s-yata/darts-clone), and versions of the library that are in use go wherever that leads.  See
 * checkpoint.h.
 *
 * The file is a message of Protocol Buffers: fields, each of them a key, which is 8 times the field's number and how it is stored,
 * and the content.  Nothing that parsers of these might read in different ways is let through. */
#include "checkpoint.h"

#include <inttypes.h>

enum { NORMALIZER_SPEC = 3, DENORMALIZER_SPEC = 5, CHARSMAP = 2 }; /* numbers of fields; the last: in both of the others */
enum { VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 5 };               /* how a field is stored */
enum { UNIT_BYTES = 4, LAST_LABEL = 255 };

struct span {
    const char *path;
    const unsigned char *at, *end;
};

static uint64_t left(const struct span *span) { return (uint64_t)(span->end - span->at); }

__attribute__((noreturn)) static void refuse(const struct span *span) { fail("%s: is not a model of SentencePiece", span->path); }

static struct span take(struct span *span, uint64_t bytes) {
    if (bytes > left(span))
        refuse(span);
    const struct span taken = {span->path, span->at, span->at + bytes};
    span->at += bytes;
    return taken;
}

static uint64_t take_varint(struct span *span) {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const unsigned char byte = *take(span, 1).at;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
    refuse(span);
}

/* The next field that is stored as bytes; false: there are no more. */
static bool take_field(struct span *span, uint64_t *number, struct span *content) {
    while (left(span) > 0) {
        const uint64_t key = take_varint(span), stored = key % 8;
        *number = key / 8;
        if (key > UINT32_MAX || *number == 0)
            refuse(span);
        if (stored == VARINT)
            take_varint(span);
        else if (stored == EIGHT_BYTES || stored == FOUR_BYTES)
            take(span, stored == EIGHT_BYTES ? 8 : 4);
        else if (stored != BYTES)
            refuse(span);
        else {
            *content = take(span, take_varint(span));
            return true;
        }
    }
    return false;
}

static uint32_t word(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* A label leads from unit i to unit i ^ offset ^ label; label 0 to a value.  No label leads on from units with the highest bit,
 * which are values, but unit 0 is where it begins, whatever it is. */
static void check_unit(const struct span *trie, uint32_t i, uint64_t most_value) {
    const uint32_t units = (uint32_t)(left(trie) / UNIT_BYTES), unit = word(trie->at + (uint64_t)i * UNIT_BYTES);
    const uint32_t offset = unit >> 10 << ((unit & 1 << 9) >> 6), next = i ^ offset;
    if (unit >> 31 != 0 && i > 0)
        return;
    if ((next | LAST_LABEL) >= units)
        fail("%s: precompiled_charsmap: unit %" PRIu32 " leads out of the trie, which has %" PRIu32, trie->path, i, units);
    const uint32_t value = word(trie->at + (uint64_t)next * UNIT_BYTES) & INT32_MAX;
    if ((unit >> 8 & 1) != 0 && value >= most_value)
        fail("%s: precompiled_charsmap: unit %" PRIu32 " has the value %" PRIu32 ", must be less than %" PRIu64, trie->path, i,
             value, most_value);
}

/* The bytes of the trie, the trie, and what its values point into. */
static void check_charsmap(struct span span) {
    if (left(&span) == 0)
        return;
    const struct span trie = take(&span, word(take(&span, UNIT_BYTES).at));
    if (left(&trie) < UNIT_BYTES)
        refuse(&span);
    for (uint32_t i = 0; i < left(&trie) / UNIT_BYTES; i++)
        check_unit(&trie, i, left(&span));
}

void spiece_check(const char *path, const char *file, size_t bytes) {
    struct span whole = {path, (const unsigned char *)file, (const unsigned char *)file + bytes}, spec, content;
    for (uint64_t number; take_field(&whole, &number, &spec);)
        if (number == NORMALIZER_SPEC || number == DENORMALIZER_SPEC)
            while (take_field(&spec, &number, &content))
                if (number == CHARSMAP)
                    check_charsmap(content);
}
