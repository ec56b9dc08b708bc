/* Model and search of examples/translate for a race in Python's process: what translations.py loads. */
#include "checkpoint/checkpoint.h"
#include "translate/search.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Batches of one size, all translations of which have `steps` tokens. */
struct translations {
    struct search *search;
    int64_t steps, *starts;
    int32_t *said; /* of the batch at work: [lines, steps] */
};

EXPORT const char *translations_isa(void);
EXPORT struct model *translations_model(const char *folder, int weights, int threads);
EXPORT struct translations *translations_open(struct model *model, int threads, int64_t lines, int64_t beams, int64_t steps);
EXPORT void translations_run(struct translations *translations, const int32_t *tokens, int64_t lines, int64_t length,
                             int32_t *said);

const char *translations_isa(void) {
    struct heed_info info;
    heed_info(&info);
    return info.isa;
}

/* What is wrong with the checkpoint ends the program. */
struct model *translations_model(const char *folder, int weights, int threads) {
    return model_open(folder, (enum heed_type)weights, &(struct heed_exec){.threads = threads});
}

static void receive(void *context, int64_t line, const int32_t *tokens, int64_t count) {
    const struct translations *translations = context;
    memcpy(translations->said + line * translations->steps, tokens, (size_t)count * sizeof *tokens);
}

/* No token ends a translation, so that all sides do the same work. */
struct translations *translations_open(struct model *model, int threads, int64_t lines, int64_t beams, int64_t steps) {
    enum { NONE = -1 };
    struct translations *translations = allocate(1, sizeof *translations);
    const struct search_settings settings = {.beams = beams,
                                             .most_tokens = steps,
                                             .length_penalty = 1,
                                             .stopping = STOP_EARLY,
                                             .end = NONE,
                                             .done = receive,
                                             .context = translations};
    *translations = (struct translations){.steps = steps, .starts = allocate(lines + 1, sizeof *translations->starts)};
    translations->search = search_open(&settings, model, lines, &(struct heed_exec){.threads = threads});
    return translations;
}

/* tokens: [lines, length]; said: [lines, steps]. */
void translations_run(struct translations *translations, const int32_t *tokens, int64_t lines, int64_t length, int32_t *said) {
    for (int64_t i = 0; i <= lines; i++)
        translations->starts[i] = i * length;
    translations->said = said;
    search_batch(translations->search, tokens, translations->starts, lines);
}
