/* Random numbers and values, which the fuzzer uses too: nothing here knows the test program. */
#include "harness.h"

#include <math.h>
#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014) spreads one number over the state; xoshiro256** (Blackman, Vigna 2018) goes on from it. */
struct rng rng_seeded(uint64_t seed) {
    struct rng rng;
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng.state[i] = z ^ (z >> 31);
    }
    return rng;
}

uint64_t rng_next(struct rng *rng) {
    uint64_t *s = rng->state, x5 = s[1] * 5, result = ((x5 << 7) | (x5 >> 57)) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

int64_t rng_range(struct rng *rng, int64_t low, int64_t high) {
    return low + (int64_t)((rng_next(rng) >> 1) % (uint64_t)(high - low + 1));
}

enum fill any_fill(struct rng *rng) { return (enum fill)rng_range(rng, 0, FILL_COUNT - 1); }

/* The sum of four uniform variables, of standard deviation 0.58: at most 24 bits, so the conversion is exact. */
static float bell(struct rng *rng) {
    int64_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += rng_range(rng, -(1 << 21), (1 << 21) - 1);
    return (float)sum * 0x1p-22f;
}

static float from_bits(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
}

static float fill_one(struct rng *rng, enum fill mode, float common) {
    uint64_t bits = rng_next(rng);
    bool rare = bits % 61 == 0, negative = (bits >> 40) & 1;
    float x = bell(rng);
    switch (mode) {
    case FILL_CANCEL:
        return (negative ? -1024.0f : 1024.0f) + x;
    case FILL_EQUAL:
        return common;
    case FILL_EXP_LIMIT:
        return (float)rng_range(rng, -(110 << 10), 100 << 10) * 0x1p-10f;
    case FILL_DENORMAL:
        return from_bits(bits & 0x807fffffu);
    case FILL_ZEROS:
        return rare ? 1.0f : negative ? -0.0f : 0.0f;
    case FILL_MINUS_INF:
        return rare ? -INFINITY : x;
    case FILL_ALL_MINUS_INF:
        return -INFINITY;
    case FILL_PLUS_INF:
        return rare ? INFINITY : x;
    case FILL_OVERFLOW:
        return x * 0x1p127f;
    case FILL_NAN:
        return rare ? from_bits((bits >> 8) | 0x7f800001u) : x;
    default:
        return x;
    }
}

static const char *const fill_names[FILL_COUNT] = {
    [FILL_NORMAL] = "normal",     [FILL_CANCEL] = "cancel",       [FILL_EQUAL] = "equal",
    [FILL_SPIKE] = "spike",       [FILL_EXP_LIMIT] = "exp-limit", [FILL_DENORMAL] = "denormal",
    [FILL_ZEROS] = "zeros",       [FILL_MINUS_INF] = "minus-inf", [FILL_ALL_MINUS_INF] = "all-minus-inf",
    [FILL_PLUS_INF] = "plus-inf", [FILL_OVERFLOW] = "overflow",   [FILL_NAN] = "nan",
};

const char *fill_name(enum fill mode) { return fill_names[mode]; }

void fill(struct rng *rng, enum fill mode, float *x, int64_t n) {
    float common = bell(rng);
    for (int64_t i = 0; i < n; i++) {
        float value = fill_one(rng, mode, common);
        memcpy(x + i, &value, sizeof value); /* a plain store of a signalling NaN could quieten it on some machines */
    }
    if (mode == FILL_SPIKE && n > 0)
        x[rng_range(rng, 0, n - 1)] = 0x1p40f;
}
