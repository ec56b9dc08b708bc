/* Notebook 003: five words with positional embeddings, attention without scaling, word by word and as matrices.
 *
 * Its cells were run in two sessions with different random numbers.  The first printed two words and their sums with the positions;
 * the second the five sums X, queries, keys, weights and outputs, which belong together.  The projections were not printed: the
 * ones here are solved from X and the printed queries, keys and outputs by least squares and rounded to 6 decimals.  Each column
 * has 4 unknowns for 5 equations: that the fifth holds as well is no accident of the fit. */
#include "seed_calls.h"

enum { TOKENS = 5, DEPTH = 4, WIDTH = 3 };

static const double digit = 5e-5; /* half a unit of the 4 decimals that everything is printed with */

static const char *const words[] = {"me", "gusta", "estudiar", "inteligencia", "artificial"};
static const float first_words[] = {0.4417f, 1.1289f, -1.8381f, -0.9388f, -0.2018f, 1.0454f, 0.5382f, 0.8121f};
static const float positions[] = {0.3f, -0.9f, -0.6f, 0.8f, -0.6f, 0.8f, -0.9f, 0.15f};
static const float x[] = {0.967f,   -0.8742f, -1.3776f, 1.7486f, 0.1017f, -0.2511f, -1.2675f, -0.9875f, 1.4181f, -0.0881f,
                          -0.8975f, 1.384f,   -0.0651f, 0.5004f, 0.1896f, 0.0784f,  1.7951f,  0.2251f,  0.4947f, -0.6621f};
static const float query_weights[] = {0.044195f, 0.112885f, -0.183804f, -0.093868f, -0.020167f, 0.104549f,
                                      0.053826f, 0.081193f, 0.024076f,  -0.09525f,  -0.013638f, 0.126723f};
static const float key_weights[] = {0.017346f,  -0.122311f, 0.141542f,  0.045767f, 0.072875f, 0.196874f,
                                    -0.054784f, -0.067931f, -0.250653f, 0.014693f, 0.060622f, -0.002266f};
static const float value_weights[] = {-0.005123f, 0.095653f, 0.037686f,  0.020717f,  0.005529f, -0.013401f,
                                      0.074673f,  0.003469f, -0.057273f, -0.098053f, 0.009809f, 0.00022f};
static const float query[] = {-0.1159f, -0.0089f, -0.0807f, 0.0539f, -0.0729f, -0.2006f, -0.1092f, 0.0701f,
                              -0.1161f, -0.0471f, -0.0031f, 0.0788f, 0.1479f,  0.2473f,  -0.3784f};
static const float key[] = {0.0779f, 0.0176f, 0.3061f, 0.0452f, -0.0045f, 0.2849f,  0.0901f, -0.035f,
                            0.4052f, 0.0125f, 0.0363f, 0.0416f, 0.0046f,  -0.2769f, 0.1759f};

static const struct seed_print print_first_words = {
    2, DEPTH, (const double[]){0.7417, 0.2289, -2.4381, -0.1388, -0.8018, 1.8454, -0.3618, 0.9621}, 4, false};
static const struct seed_print print_query = {TOKENS, WIDTH,
                                              (const double[]){-0.1159, -0.0089, -0.0807, 0.0539, -0.0729, -0.2006, -0.1092, 0.0701,
                                                               -0.1161, -0.0471, -0.0031, 0.0788, 0.1479, 0.2473, -0.3784},
                                              4, false};
static const struct seed_print print_key = {TOKENS, WIDTH,
                                            (const double[]){0.0779, 0.0176, 0.3061, 0.0452, -0.0045, 0.2849, 0.0901, -0.035,
                                                             0.4052, 0.0125, 0.0363, 0.0416, 0.0046, -0.2769, 0.1759},
                                            4, false};
static const struct seed_print print_weights = {
    TOKENS, TOKENS,
    (const double[]){0.1981, 0.1992, 0.1963, 0.2039, 0.2024, 0.1967, 0.1976, 0.1937, 0.2065, 0.2055, 0.1988, 0.1997, 0.1955,
                     0.2067, 0.1993, 0.2006, 0.2006, 0.2021, 0.1971, 0.1995, 0.1994, 0.1989, 0.1899, 0.2192, 0.1926},
    4, false};
static const struct seed_print print_output = {TOKENS, WIDTH,
                                               (const double[]){-0.078, 0.0809, 0.0652, -0.0767, 0.0809, 0.0647, -0.0783, 0.0803,
                                                                0.0651, -0.0804, 0.0815, 0.0663, -0.0777, 0.0784, 0.064},
                                               4, false};

/* word + position, as the identity times the words, added to the positions. */
static void add_positions(struct seed_run *run) {
    static const float identity[] = {1, 0, 0, 1};
    float sums[2 * DEPTH];
    double bounds[2 * DEPTH];
    for (int i = 0; i < COUNT(sums); i++) {
        sums[i] = positions[i];
        bounds[i] = digit + 0x1p-22; /* the word's last digit; sum and inputs, all below 4, rounded to float */
    }
    seed_multiply(run, 2, DEPTH, 2, identity, first_words, 1, sums);
    seed_compare(run->result, "word plus position", sums, &print_first_words, bounds);
}

void seed_run_positions(const struct heed_exec *exec, struct seed_result *result) {
    struct seed_run run = seed_start(exec, result, words, TOKENS, WIDTH);
    float q[TOKENS * WIDTH] = {0}, k[TOKENS * WIDTH] = {0}, v[TOKENS * WIDTH] = {0};
    double weight_bounds[TOKENS * TOKENS], output_bounds[TOKENS * WIDTH];
    add_positions(&run);
    seed_project(&run, "query", x, digit, DEPTH, query_weights, &print_query, q);
    seed_project(&run, "key", x, digit, DEPTH, key_weights, &print_key, k);
    seed_multiply(&run, TOKENS, WIDTH, DEPTH, x, value_weights, 0, v);
    seed_claim(result, "projections word by word and as matrices: same bits",
               seed_projects_by_token(&run, x, DEPTH, query_weights, q) && seed_projects_by_token(&run, x, DEPTH, key_weights, k) &&
                   seed_projects_by_token(&run, x, DEPTH, value_weights, v));

    struct seed_attention self = {
        .tokens = TOKENS, .width = WIDTH, .scale = 1, .query = query, .key = key, .value = v, .score_error = digit};
    bool same = seed_attend_both_ways(&run, &self);
    seed_bound_weights(&self, weight_bounds);
    seed_bound_output(&self, output_bounds);
    seed_compare(result, "weights", result->weights, &print_weights, weight_bounds);
    seed_compare(result, "output", result->output, &print_output, output_bounds);
    seed_claim(result, "attention word by word and as matrices: same bits", same);
}
