/* Many prompts go on at once: as many as there are slots are in a batch, in pages of one cache, and a new one begins where another
 * has ended.  Prompts that begin alike share the pages of what they have in common. */
#ifndef HEED_EXAMPLES_SEQUENCES_H
#define HEED_EXAMPLES_SEQUENCES_H

#include "model.h"
#include "sampling.h"

struct prompt {
    int32_t *tokens;
    int64_t count; /* at least 1 */
};

struct generation {
    struct model *model, *draft; /* draft: proposes what comes next, and the model looks at many proposals at once; NULL: none */
    int64_t tokens;              /* at most, for each prompt */
    int64_t slots, chunk;        /* sequences in a batch; tokens of prompts in a batch */
    int64_t proposals;           /* of the draft, for each batch */
    enum heed_compute prompts;   /* in which the tokens of prompts are computed, but for the last ones, */
    enum heed_compute steps;     /* and in which all others are */
    enum heed_type cache;        /* of the keys and values of both models */
    int64_t page_seed;           /* the order in which pages are handed out is drawn with it; 0: they come one after another */
    struct sampling sampling;
    struct heed_exec exec;
    /* Told of each token, with the logits that it was chosen by, and after the last one of a prompt. */
    void *context;
    void (*token)(void *context, int64_t prompt, int32_t token, const float *logits);
    void (*end)(void *context, int64_t prompt);
};
/* No token depends on the other prompts, the slots, the chunk or the pages.  With temperature 0 none depends on the draft either;
 * else drafts change what is drawn, but not how likely it is. */
void generate(const struct generation *generation, const struct prompt *prompts, int64_t count);

#endif
