/* The model of examples/embed for a race in Python's process: what sentences.py loads. */
#include "embed/model.h"

#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* Tokens in a call of the model, or one sentence, if that is longer: as many as embed gives it. */
enum { BATCH = 512 };

EXPORT const char *sentences_isa(void);
EXPORT struct model *sentences_open(const char *folder, int threads, int64_t length);
EXPORT int64_t sentences_width(const struct model *model);
EXPORT void sentences_encode(const struct model *model, const int32_t *tokens, int64_t sentences, int64_t length, float *vectors);

const char *sentences_isa(void) {
    struct heed_info info;
    heed_info(&info);
    return info.isa;
}

/* For sentences of up to so many tokens.  What is wrong with the checkpoint ends the program. */
struct model *sentences_open(const char *folder, int threads, int64_t length) {
    struct model *model = model_open(folder, HEED_F32, &(struct heed_exec){.threads = threads});
    model_make_room(model, length > BATCH ? length : BATCH);
    return model;
}

int64_t sentences_width(const struct model *model) { return model_sizes(model).width; }

/* tokens: [sentences, length]; vectors: [sentences, width]. */
void sentences_encode(const struct model *model, const int32_t *tokens, int64_t sentences, int64_t length, float *vectors) {
    const int64_t width = model_sizes(model).width, most = length < BATCH ? BATCH / length : 1;
    int64_t starts[BATCH + 1];
    for (int64_t done = 0; done < sentences; done += most) {
        const int64_t count = sentences - done < most ? sentences - done : most;
        for (int64_t i = 0; i <= count; i++)
            starts[i] = i * length;
        model_encode(model, tokens + done * length, starts, count, vectors + done * width);
    }
}
