/* The model of examples/generate for a race in Python's process: what generations.py loads. */
#include "checkpoint/checkpoint.h"
#include "generate/model.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Tokens in a call of the model: as many as generate gives it. */
enum { CHUNK = 256 };

/* One sequence. */
struct generation {
    struct model *model;
    struct batch batch;
    enum heed_compute prompts, steps; /* prompts: where there is more than one token */
};

EXPORT const char *generations_isa(void);
EXPORT struct generation *generations_open(const char *path, int threads, int64_t tokens, int rounds, int as_i8);
EXPORT const float *generations_run(struct generation *generation, const int32_t *tokens, int64_t position, int64_t count);

const char *generations_isa(void) {
    struct heed_info info;
    heed_info(&info);
    return info.isa;
}

/* In the bf16 that this machine multiplies by instructions of its own, if there is one. */
static enum heed_compute prompts_rounded(void) {
    const char *isa = generations_isa();
    return strcmp(isa, "amx") == 0 ? HEED_COMPUTE_BF16_AMX : strcmp(isa, "avx512bf16") == 0 ? HEED_COMPUTE_BF16 : HEED_COMPUTE_F32;
}

/* For up to so many tokens; rounds: prompts, if that is quicker; as_i8: all tokens, as bytes.  What is wrong with the checkpoint
 * ends the program. */
struct generation *generations_open(const char *path, int threads, int64_t tokens, int rounds, int as_i8) {
    struct generation *generation = allocate(1, sizeof *generation);
    struct batch *batch = &generation->batch;
    const int64_t pages = (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    generation->steps = as_i8 ? HEED_COMPUTE_I8 : HEED_COMPUTE_F32;
    generation->prompts = rounds ? prompts_rounded() : generation->steps;
    generation->model = model_open(path, NULL, &(struct heed_exec){.threads = threads});
    model_make_room(generation->model, &(struct room){CHUNK, 1, pages, pages, HEED_F32});
    *batch = (struct batch){.sequences = 1,
                            .starts = allocate(2, sizeof *batch->starts),
                            .positions = allocate(1, sizeof *batch->positions),
                            .tokens = allocate(CHUNK, sizeof *batch->tokens),
                            .page = allocate(pages, sizeof *batch->page),
                            .row = allocate(1, sizeof *batch->row)};
    for (int64_t i = 0; i < pages; i++)
        batch->page[i] = (int32_t)i;
    return generation;
}

/* Tokens from a position on, behind those that earlier calls had.  Returns the logits of the last one, until the next call. */
const float *generations_run(struct generation *generation, const int32_t *tokens, int64_t position, int64_t count) {
    struct batch *batch = &generation->batch;
    const float *logits = NULL;
    batch->compute = count > 1 ? generation->prompts : generation->steps;
    for (int64_t done = 0; done < count; done += batch->starts[1]) {
        const int64_t taken = count - done < CHUNK ? count - done : CHUNK;
        memcpy(batch->tokens, tokens + done, (size_t)taken * sizeof *tokens);
        batch->positions[0] = position + done;
        batch->starts[0] = 0;
        batch->starts[1] = taken;
        batch->rows = done + taken == count;
        batch->row[0] = (int32_t)(taken - 1);
        logits = model_run(generation->model, batch);
    }
    return logits;
}
