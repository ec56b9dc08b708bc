/* Greedy and beam search (Graves 2012), which stop, count and prefer as generate() of Hugging Face's transformers does. */
#ifndef HEED_EXAMPLES_SEARCH_H
#define HEED_EXAMPLES_SEARCH_H

#include "model.h"

#include <stdbool.h>

enum { MOST_BEAMS = 256, MOST_TOKENS = 1 << 20 };

/* When a line that has as many translations as it has beams is done. */
enum stopping {
    STOP_HEURISTIC, /* when the best beam, as long as it is, is no better than the worst of them */
    STOP_EARLY,     /* at once */
    STOP_NEVER      /* when the best beam could not be better even if it became as long as it may */
};

struct search_settings {
    int64_t beams;       /* 1: greedy search */
    int64_t most_tokens; /* of a translation, its end included */
    double length_penalty;
    enum stopping stopping;
    int32_t start, end; /* tokens */
    bool print_logits;  /* of every row and step of greedy search */
    /* Gets the translation of a line of the batch, without start, when it is there. */
    void (*done)(void *context, int64_t line, const int32_t *tokens, int64_t count);
    void *context;
};

/* For batches of up to so many lines; lives as long as the program. */
struct search *search_open(const struct search_settings *settings, struct model *model, int64_t lines,
                           const struct heed_exec *exec);
/* Line i has tokens starts[i] ... starts[i + 1] - 1, at least one. */
void search_batch(struct search *search, const int32_t *tokens, const int64_t *starts, int64_t lines);

#endif
