/* From logits to a token: the likeliest one, or drawn. */
#ifndef HEED_EXAMPLES_SAMPLING_H
#define HEED_EXAMPLES_SAMPLING_H

#include <heed.h>
#include <stdbool.h>
#include <stdint.h>

struct sampling {
    double temperature; /* 0: the likeliest token, of equals the first */
    int64_t top_k;      /* only the likeliest k are drawn from; 0: all */
    double top_p;       /* and only the likeliest whose probabilities come to p; 1: all */
    int64_t seed;
};

/* A generator of numbers for each sequence, so that none depends on the others. */
struct random {
    uint64_t state;
};
struct random random_of(int64_t seed, int64_t sequence);
/* The next one, in [0, 1). */
double random_number(struct random *random);

/* probabilities[i] = that of token i; 0 for those that are not to be drawn.  order: room for `count` numbers. */
void sampling_distribution(const struct sampling *sampling, const float *logits, int64_t count, float *probabilities,
                           int32_t *order, const struct heed_exec *exec);
/* Draws a token. */
int32_t sampling_draw(const float *probabilities, int64_t count, struct random *random);
/* Speculative sampling (Leviathan et al. 2023): whether a token drawn from `proposed` may stand for one drawn from `probabilities`.
 * If not, these become what the token is to be drawn from instead. */
bool sampling_accepts(float *probabilities, const float *proposed, int64_t count, int32_t token, struct random *random);

#endif
