/* Notebook 001: four words with seeded whole-number weights, computed word by word and as matrices. */
#include "seed_calls.h"

#include <math.h>
#include <stddef.h>

static const char *const words[] = {"word 1", "word 2", "word 3", "word 4"};
static const float x[] = {1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1};
/* Words 1, 2 and 4 are the rows of the identity, so the key and value weights are rows 1, 2 and 4 of the printed K and V. */
static const float query_weights[] = {2, 0, 2, 2, 0, 0, 2, 1, 2};
static const float key_weights[] = {2, 2, 2, 0, 2, 1, 0, 1, 1};
static const float value_weights[] = {1, 1, 0, 0, 1, 1, 0, 0, 0};

static const struct seed_print print_query = {4, 3, (const double[]){2, 0, 2, 2, 0, 0, 4, 0, 2, 2, 1, 2}, SEED_EXACT, false};
static const struct seed_print print_key = {4, 3, (const double[]){2, 2, 2, 0, 2, 1, 2, 4, 3, 0, 1, 1}, SEED_EXACT, false};
static const struct seed_print print_value = {4, 3, (const double[]){1, 1, 0, 0, 1, 1, 1, 2, 1, 0, 0, 0}, SEED_EXACT, false};
static const struct seed_print print_scores = {4, 4, (const double[]){8, 2, 10, 2, 4, 0, 4, 0, 12, 2, 14, 2, 10, 4, 14, 3},
                                               SEED_EXACT, false};
static const struct seed_print print_weights_1 = {1, 4, (const double[]){0.23608986, 0.00738988, 0.74913039, 0.00738988}, 8, false};
static const struct seed_print print_weights = {4, 4,
                                                (const double[]){2.36089863e-01, 7.38987555e-03, 7.49130386e-01, 7.38987555e-03,
                                                                 4.54826323e-01, 4.51736775e-02, 4.54826323e-01, 4.51736775e-02,
                                                                 2.39275049e-01, 7.43870015e-04, 7.59237211e-01, 7.43870015e-04,
                                                                 8.99501754e-02, 2.81554063e-03, 9.05653685e-01, 1.58059922e-03},
                                                8, true};
static const struct seed_print print_output = {4, 3,
                                               (const double[]){0.98522025, 1.74174051, 0.75652026, 0.90965265, 1.40965265, 0.5,
                                                                0.99851226, 1.75849334, 0.75998108, 0.99560386, 1.90407309,
                                                                0.90846923},
                                               8, false};

/* scores, softmax and weighted sum as three calls, then as one. */
static void weigh_and_sum(struct seed_run *run, const struct seed_attention *self) {
    struct seed_result *result = run->result;
    float scores[16] = {0}, weights[16] = {0}, output[12] = {0};
    double weight_bounds[16], output_bounds[12];
    seed_bound_weights(self, weight_bounds);
    seed_bound_output(self, output_bounds);
    seed_multiply_keys(run, 4, 3, self->query, self->key, scores);
    seed_compare(result, "scores", scores, &print_scores, NULL);
    seed_softmax(run, 4, 1 / sqrtf(3), scores, weights);
    seed_compare(result, "softmax of word 1", weights, &print_weights_1, weight_bounds);
    seed_compare(result, "softmax of all words", weights, &print_weights, weight_bounds);
    seed_multiply(run, 4, 3, 4, weights, self->value, 0, output);
    seed_compare(result, "softmax times value", output, &print_output, output_bounds);
    bool same = seed_attend_both_ways(run, self);
    seed_compare(result, "weights, one call", result->weights, &print_weights, weight_bounds);
    seed_compare(result, "output, one call", result->output, &print_output, output_bounds);
    seed_claim(result, "attention word by word and as matrices: same bits", same);
}

void seed_run_words(const struct heed_exec *exec, struct seed_result *result) {
    struct seed_run run = seed_start(exec, result, words, 4, 3);
    float q[12] = {0}, k[12] = {0}, v[12] = {0};
    seed_project(&run, "query", x, 0, 3, query_weights, &print_query, q);
    seed_project(&run, "key", x, 0, 3, key_weights, &print_key, k);
    seed_project(&run, "value", x, 0, 3, value_weights, &print_value, v);
    seed_claim(result, "projections word by word and as matrices: same bits",
               seed_projects_by_token(&run, x, 3, query_weights, q) && seed_projects_by_token(&run, x, 3, key_weights, k) &&
                   seed_projects_by_token(&run, x, 3, value_weights, v));
    weigh_and_sum(&run, &(struct seed_attention){.tokens = 4, .width = 3, .query = q, .key = k, .value = v});
}
