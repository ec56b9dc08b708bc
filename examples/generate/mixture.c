/* See mixture.h.  The layers of all experts that have visits are computed as one group, so that threads share all of them out: a
 * token's few experts have one row each. */
#include "mixture.h"

#include <string.h>

struct visits visits_begin(const struct config *config, int64_t tokens) {
    const int64_t count = tokens * config->chosen;
    return (struct visits){.scores = allocate(tokens * config->experts, sizeof(float)),
                           .shares = allocate(count, sizeof(float)),
                           .expert = allocate(count, sizeof(int32_t)),
                           .place = allocate(count, sizeof(int32_t)),
                           .token = allocate(count, sizeof(int32_t)),
                           .starts = allocate(config->experts + 1, sizeof(int64_t)),
                           .input = allocate(count * config->width, sizeof(float)),
                           .wide = allocate(count * config->inner, sizeof(float)),
                           .output = allocate(count * config->width, sizeof(float)),
                           .layers = allocate(config->experts, sizeof(struct heed_linear))};
}

/* Which experts a token goes to, and with which shares.  Scores become those of the experts that are left. */
static void choose(const struct config *config, float *scores, int32_t *expert, float *shares) {
    float sum = 0;
    for (int64_t i = 0; i < config->chosen; i++) {
        expert[i] = likeliest(scores, config->experts);
        shares[i] = scores[expert[i]];
        sum += shares[i];
        scores[expert[i]] = -1; /* less than any probability */
    }
    for (int64_t i = 0; config->shares_sum_to_1 && i < config->chosen; i++)
        shares[i] /= sum;
}

/* Visits in the order of experts, and to each in that of tokens. */
static void sort(const struct config *config, int64_t tokens, struct visits *visits) {
    const int64_t count = tokens * config->chosen;
    int64_t *next = visits->starts; /* where the next visit to each expert goes */
    memset(next, 0, (size_t)(config->experts + 1) * sizeof *next);
    for (int64_t i = 0; i < count; i++)
        next[visits->expert[i] + 1]++;
    for (int64_t e = 0; e < config->experts; e++)
        next[e + 1] += next[e];
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = next[visits->expert[i]]++;
        visits->place[i] = (int32_t)place;
        visits->token[place] = (int32_t)(i / config->chosen);
    }
    memmove(next + 1, next, (size_t)config->experts * sizeof *next); /* all are now where the next expert's begin */
    next[0] = 0;
}

static void route(const struct heed_exec *exec, const struct config *config, int64_t tokens, const struct mixture *mixture,
                  const float *input, struct visits *visits) {
    linear(exec, tokens, &mixture->router, input, NULL, visits->scores);
    softmax(exec, tokens, config->experts, 1, visits->scores, visits->scores);
    for (int64_t t = 0; t < tokens; t++)
        choose(config, visits->scores + t * config->experts, visits->expert + t * config->chosen,
               visits->shares + t * config->chosen);
    sort(config, tokens, visits);
}

/* One of the layers of each expert, in the order in which feed_forward has them. */
enum step { GATE, UP, DOWN, STEPS };
static struct heed_linear layer_of(enum step step, int64_t rows, const struct feed_forward *expert, const float *input, float *wide,
                                   float *output) {
    return step == GATE ? linear_of(expert->compute, rows, &expert->gate, input, NULL, wide)
           : step == UP ? activated_of(rows, expert, input, wide)
                        : linear_of(expert->compute, rows, &expert->down, wide, NULL, output);
}

static void visit(const struct heed_exec *exec, const struct config *config, const struct mixture *mixture, struct visits *visits) {
    for (enum step step = GATE; step < STEPS; step++) {
        int64_t count = 0;
        for (int64_t e = 0; e < config->experts; e++) {
            const int64_t first = visits->starts[e], rows = visits->starts[e + 1] - first;
            struct feed_forward expert = mixture->experts[e];
            expert.compute = mixture->compute;
            if (rows > 0)
                visits->layers[count++] = layer_of(step, rows, &expert, visits->input + first * config->width,
                                                   visits->wide + first * config->inner, visits->output + first * config->width);
        }
        check(heed_linear_group(visits->layers, count, exec));
    }
}

/* The likeliest expert first, whatever the order of visits. */
static void add_shares(const struct config *config, int64_t tokens, const struct visits *visits, float *hidden) {
    for (int64_t i = 0; i < tokens * config->chosen; i++) {
        const float *output = visits->output + visits->place[i] * config->width;
        float *token = hidden + i / config->chosen * config->width;
        for (int64_t j = 0; j < config->width; j++)
            token[j] += visits->shares[i] * output[j];
    }
}

void mix(const struct heed_exec *exec, const struct config *config, int64_t tokens, const struct mixture *mixture,
         const float *input, struct visits *visits, float *hidden) {
    const struct tensor rows = {input, tokens, config->width, HEED_F32};
    route(exec, config, tokens, mixture, input, visits);
    look_up(exec, &rows, visits->token, tokens * config->chosen, visits->input);
    visit(exec, config, mixture, visits);
    add_shares(config, tokens, visits, hidden);
}
