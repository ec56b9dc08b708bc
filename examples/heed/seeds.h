/* Five published notebooks that explain attention with small numbers, computed by heed and compared with the numbers that they
 * print. `heed demo` shows them; tests/test_seeds.c asks that every number agrees to its last printed digit, on every instruction
 * set. */
#ifndef HEED_EXAMPLES_SEEDS_H
#define HEED_EXAMPLES_SEEDS_H

#include <heed.h>

enum { SEED_COUNT = 5, SEED_MAX_NUMBERS = 25, SEED_MAX_CHECKS = 12, SEED_MAX_CLAIMS = 3 };

/* A matrix that heed computed beside what the notebook says. */
struct seed_check {
    const char *name;
    int rows, columns;
    bool printed; /* false: the notebook's text is cut off here, `expected` is computed by plain loops in double */
    float computed[SEED_MAX_NUMBERS];
    double expected[SEED_MAX_NUMBERS];
    double tolerance[SEED_MAX_NUMBERS]; /* largest difference that rounding explains; derived in seed_bounds.h */
};

/* Something that holds or not, such as "row by row gives the same bits". */
struct seed_claim {
    const char *text;
    bool holds;
};

struct seed_result {
    enum heed_status status;  /* of the first call of heed that failed */
    const char *const *words; /* names of the tokens, one for each */
    int tokens, width;
    float weights[SEED_MAX_NUMBERS]; /* [tokens][tokens] */
    float output[SEED_MAX_NUMBERS];  /* [tokens][width] */
    int checks, claims;
    struct seed_check check[SEED_MAX_CHECKS];
    struct seed_claim claim[SEED_MAX_CLAIMS];
};

struct seed {
    const char *name;
    const char *title;
    void (*run)(const struct heed_exec *exec, struct seed_result *result);
};
extern const struct seed seeds[SEED_COUNT];

/* Largest |computed - expected| of the check, and whether every difference is within its tolerance. */
double seed_difference(const struct seed_check *check);
bool seed_agrees(const struct seed_check *check);

/* count numbers spread evenly over [low, high), a function of start (not 0) alone. */
void seed_random(uint32_t start, float low, float high, float *numbers, int64_t count);

#endif
