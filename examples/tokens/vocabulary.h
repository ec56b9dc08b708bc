/* The tokens of a model, and how text becomes them, from tokenizer.json or the metadata of a GGUF file. */
#ifndef HEED_EXAMPLES_VOCABULARY_H
#define HEED_EXAMPLES_VOCABULARY_H

#include "../checkpoint/checkpoint.h"
#include "../shared/table.h"
#include "split.h"

/* Bytes, without a 0 after them. */
struct text {
    const char *data;
    size_t bytes;
};

enum { BYTES = 256, CHARACTERS = 324, MOST_FIRST = 4 }; /* characters: those that bytes are written as have smaller numbers */

/* Two kinds: byte-level, where text is split into words, and the bytes of each are merged in the order of `pairs` (Radford et al.
 * 2019); and SentencePiece's, where the characters of all of it are, by the scores of what they give. */
struct vocabulary {
    const char *path;
    int64_t size;
    struct text *piece; /* [size]: the bytes that a token stands for; data NULL: none */
    struct table tokens, pairs;
    int32_t (*pair)[2];           /* what may be merged, in this order; NULL: by score */
    int32_t *merged;              /* [pairs] */
    double *score;                /* [size] */
    bool byte_level, whole_words; /* whole_words: a word that is a token is not merged together */
    bool spaced;                  /* a blank is put before text, each between special tokens */
    enum split split;
    unsigned char byte_of[CHARACTERS]; /* what a character stands for, if it is known */
    bool known[CHARACTERS];
    int32_t byte[BYTES], unknown; /* tokens of single bytes, of what is none; -1: there is none */
    int32_t *special;             /* tokens that are recognised in text as they are */
    int64_t specials;
    bool *hidden; /* [size]: not to be printed */
    int32_t first[MOST_FIRST];
    int firsts; /* tokens that every text begins with */
};
/* path is that of the checkpoint, size what config.h has. */
struct vocabulary *vocabulary_open(const char *path, const struct checkpoint *checkpoint, int64_t size);

#endif
