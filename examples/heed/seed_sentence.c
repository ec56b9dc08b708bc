/* Notebook 004: the sentence "The cat chased the mouse" with words of width 4, and ten random tokens of width 64.
 *
 * The words are the first twenty numbers of NumPy's generator seeded with 0, so they are known beyond the 4 printed decimals.  The
 * weights are not seeded; the printed queries, keys and values give them by least squares (5 equations per column for query and
 * key, 4 for value, rounded to 6 decimals).  The text of the notebook breaks off before the value of "mouse" and everything after
 * it: that value comes from the projection, and weights and output are compared with plain loops in double. */
#include "seed_calls.h"

#include <math.h>

enum { TOKENS = 5, WIDTH = 4, PRINTED_VALUES = 4 };

static const char *const words[] = {"The", "cat", "chased", "the", "mouse"};
static const float x[] = {0.54881350f, 0.71518937f, 0.60276338f, 0.54488318f, 0.42365480f, 0.64589411f, 0.43758721f,
                          0.89177300f, 0.96366276f, 0.38344152f, 0.79172504f, 0.52889492f, 0.56804456f, 0.92559664f,
                          0.07103606f, 0.08712930f, 0.02021840f, 0.83261985f, 0.77815675f, 0.87001215f};
static const float query_weights[] = {0.480702f, 0.757819f, 0.097858f, 0.327876f, 0.343483f, 0.774262f, 0.238121f, 0.946614f,
                                      0.974863f, 0.126375f, 0.520174f, 0.020594f, 0.83273f,  0.059494f, 0.777799f, 0.734683f};
static const float key_weights[] = {0.394238f, 0.026315f, 0.33325f,  0.247834f, 0.822027f, 0.115887f, 0.209456f, 0.695351f,
                                    0.685637f, 0.987584f, 0.600243f, 0.01874f,  0.360306f, 0.109272f, 0.050318f, 0.608989f};
static const float value_weights[] = {0.189938f, 0.27084f,  0.248133f, 0.6743f,   0.907413f, 0.270798f, 0.086656f, 0.433253f,
                                      0.736711f, 0.151128f, 0.524384f, 0.858384f, 0.098415f, 0.33015f,  0.236319f, 0.119062f};

static const double printed_query[] = {1.5508, 1.0782, 0.9614, 1.2697, 1.5947, 0.9295, 1.1165, 1.4145, 1.8072, 1.1587,
                                       1.0088, 1.0838, 0.7328, 1.1613, 0.3807, 1.1279, 1.7788, 0.8101, 1.2817, 1.45};
static const double printed_key[] = {1.4139, 0.7521, 0.7219, 0.9764, 1.3193, 0.6156, 0.584,  1.1054, 1.4285, 0.9095,
                                     0.9033, 0.8424, 1.0649, 0.2019, 0.4302, 0.8388, 1.5394, 0.9606, 0.692,  1.1284};
static const double printed_value[] = {1.2509, 0.6133, 0.643,  1.2622, 1.0767, 0.6502, 0.6013, 1.0473,
                                       1.1663, 0.6591, 0.8125, 1.5585, 1.0087, 0.444,  0.279,  0.8554};
static const struct seed_print print_query = {TOKENS, WIDTH, printed_query, 4, false};
static const struct seed_print print_key = {TOKENS, WIDTH, printed_key, 4, false};
static const struct seed_print print_value = {PRINTED_VALUES, WIDTH, printed_value, 4, false};

static void to_float(const double *numbers, int count, float *floats) {
    for (int i = 0; i < count; i++)
        floats[i] = (float)numbers[i];
}

/* value (TOKENS x WIDTH): the printed ones, and the projection for the word whose value is cut off. */
static void complete_values(struct seed_run *run, float *value) {
    double bounds[TOKENS * WIDTH];
    seed_multiply(run, TOKENS, WIDTH, WIDTH, x, value_weights, 0, value);
    seed_bound_product(TOKENS, WIDTH, WIDTH, x, 0, value_weights, bounds);
    seed_compare(run->result, "value, as far as printed", value, &print_value, bounds);
    to_float(printed_value, PRINTED_VALUES * WIDTH, value);
}

/* The numbers that the notebook's text has lost, from loops in double. */
static void compare_with_double(struct seed_run *run, const struct seed_attention *self) {
    struct seed_result *result = run->result;
    double weights[TOKENS * TOKENS], output[TOKENS * WIDTH], weight_bounds[TOKENS * TOKENS], output_bounds[TOKENS * WIDTH];
    seed_reference(self, weights, output);
    seed_bound_weights(self, weight_bounds);
    seed_bound_output(self, output_bounds);
    seed_compare(result, "weights", result->weights, &(struct seed_print){TOKENS, TOKENS, weights, SEED_EXACT, false},
                 weight_bounds);
    result->check[result->checks - 1].printed = false;
    seed_compare(result, "output", result->output, &(struct seed_print){TOKENS, WIDTH, output, SEED_EXACT, false}, output_bounds);
    result->check[result->checks - 1].printed = false;
}

static void attend_to_sentence(struct seed_run *run) {
    float q[TOKENS * WIDTH], k[TOKENS * WIDTH], value[TOKENS * WIDTH] = {0}, projected[TOKENS * WIDTH] = {0};
    seed_project(run, "query", x, 0, WIDTH, query_weights, &print_query, projected);
    seed_project(run, "key", x, 0, WIDTH, key_weights, &print_key, projected);
    complete_values(run, value);
    to_float(printed_query, COUNT(q), q);
    to_float(printed_key, COUNT(k), k);
    struct seed_attention self = {.tokens = TOKENS, .width = WIDTH, .query = q, .key = k, .value = value};
    bool same = seed_attend_both_ways(run, &self);
    compare_with_double(run, &self);
    seed_claim(run->result, "one word at a time and the whole sentence: same bits", same);
}

/* The notebook's first part, of which it prints the shapes: random tokens and weights in [0, 1), query = x Wq and so on. */
enum { PART_TOKENS = 10, PART_WIDTH = 64 };

struct part {
    float x[PART_TOKENS * PART_WIDTH], projection[PART_WIDTH * PART_WIDTH];
    float query[PART_TOKENS * PART_WIDTH], key[PART_TOKENS * PART_WIDTH], value[PART_TOKENS * PART_WIDTH];
    float weights[PART_TOKENS * PART_TOKENS], output[PART_TOKENS * PART_WIDTH];
};

static void compute_part(struct seed_run *run, struct part *part) {
    float *products[] = {part->query, part->key, part->value};
    seed_random(4, 0, 1, part->x, COUNT(part->x));
    for (int i = 0; i < COUNT(products); i++) {
        seed_random(5 + (uint32_t)i, 0, 1, part->projection, COUNT(part->projection));
        seed_multiply(run, PART_TOKENS, PART_WIDTH, PART_WIDTH, part->x, part->projection, 0, products[i]);
    }
    struct heed_attention attention = {
        .batch = 1,
        .num_heads = 1,
        .num_kv_heads = 1,
        .query_tokens = PART_TOKENS,
        .key_tokens = PART_TOKENS,
        .head_dim = PART_WIDTH,
        .value_dim = PART_WIDTH,
        .query = {.data = part->query, .token_stride = PART_WIDTH},
        .key = {.data = part->key, .token_stride = PART_WIDTH},
        .value = {.data = part->value, .token_stride = PART_WIDTH},
        .output = {.data = part->output, .token_stride = PART_WIDTH},
        .weights = {.data = part->weights, .token_stride = PART_TOKENS},
    };
    seed_attend(run, &attention);
}

static bool all_within(const float *computed, const double *expected, const double *bounds, int count) {
    for (int i = 0; i < count; i++)
        if (!(fabs((double)computed[i] - expected[i]) <= bounds[i]))
            return false;
    return true;
}

static void attend_to_part(struct seed_run *run) {
    struct part part = {.x = {0}};
    double weights[COUNT(part.weights)], output[COUNT(part.output)], weight_bounds[COUNT(weights)], output_bounds[COUNT(output)];
    compute_part(run, &part);
    struct seed_attention self = {
        .tokens = PART_TOKENS, .width = PART_WIDTH, .query = part.query, .key = part.key, .value = part.value};
    seed_reference(&self, weights, output);
    seed_bound_weights(&self, weight_bounds);
    seed_bound_output(&self, output_bounds);
    seed_claim(run->result, "10 tokens x 64: weights and output as by loops in double, within rounding",
               all_within(part.weights, weights, weight_bounds, COUNT(weights)) &&
                   all_within(part.output, output, output_bounds, COUNT(output)));
}

void seed_run_sentence(const struct heed_exec *exec, struct seed_result *result) {
    struct seed_run run = seed_start(exec, result, words, TOKENS, WIDTH);
    attend_to_sentence(&run);
    attend_to_part(&run);
}
