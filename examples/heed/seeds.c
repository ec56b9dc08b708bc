/* The five notebooks in the order of their numbers. */
#include "seed_calls.h"

const struct seed seeds[SEED_COUNT] = {
    {"000", "Seven steps: three inputs, scores without scaling; 8 heads side by side", seed_run_steps},
    {"001", "Four words: seeded projections, scale 1/sqrt(3)", seed_run_words},
    {"002", "The same seven steps in a second notebook", seed_run_steps},
    {"003", "Five words with positional embeddings, no scaling", seed_run_positions},
    {"004", "A sentence: five words of width 4, scale 1/2; then ten tokens of width 64", seed_run_sentence},
};
