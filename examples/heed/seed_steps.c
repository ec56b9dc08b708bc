/* Notebooks 000 and 002: attention in seven steps with the same small whole numbers, then 8 heads of width 64 side by side. */
#include "seed_calls.h"

#include <string.h>

static const char *const words[] = {"input 1", "input 2", "input 3"};
static const float x[] = {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1};
static const float query_weights[] = {1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1};
static const float key_weights[] = {0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0};
static const float value_weights[] = {0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0};

static const struct seed_print print_query = {3, 3, (const double[]){1, 0, 2, 2, 2, 2, 2, 1, 3}, SEED_EXACT, false};
static const struct seed_print print_key = {3, 3, (const double[]){0, 1, 1, 4, 4, 0, 2, 3, 1}, SEED_EXACT, false};
static const struct seed_print print_value = {3, 3, (const double[]){1, 2, 3, 2, 8, 0, 2, 6, 3}, SEED_EXACT, false};
static const struct seed_print print_scores = {3, 3, (const double[]){2, 4, 4, 4, 16, 12, 4, 12, 10}, SEED_EXACT, false};
/* NumPy shows the first row of weights with 8 decimals, the others, which reach further down, in scientific notation. */
static const struct seed_print print_weights_1 = {1, 3, (const double[]){0.06337894, 0.46831053, 0.46831053}, 8, false};
static const struct seed_print print_weights_23 = {
    2, 3, (const double[]){6.03366485e-06, 9.82007865e-01, 1.79861014e-02, 2.95387223e-04, 8.80536902e-01, 1.19167711e-01}, 8,
    true};
static const struct seed_print print_terms = {
    3, 3, (const double[]){0.06337894, 0.12675788, 0.19013681, 0.93662106, 3.74648425, 0, 0.93662106, 2.80986319, 1.40493159}, 8,
    false};
static const struct seed_print print_output_1 = {1, 3, (const double[]){1.93662106, 6.68310531, 1.59506841}, 8, false};

/* Step 6: the weights of input 1 times the values, before step 7 adds the three products up. */
static void weigh_values(struct seed_run *run, const float *value, const double *weight_bounds) {
    float diagonal[9] = {0}, terms[9] = {0};
    double bounds[9];
    for (int i = 0; i < 3; i++)
        diagonal[4 * i] = run->result->weights[i];
    seed_multiply(run, 3, 3, 3, diagonal, value, 0, terms);
    seed_bound_product(3, 3, 3, diagonal, 0, value, bounds);
    for (int i = 0; i < 9; i++)
        bounds[i] += weight_bounds[i / 3] * (double)value[i];
    seed_compare(run->result, "step 6: weights times values", terms, &print_terms, bounds);
}

/* Steps 5 to 7, twice: softmax of the printed scores, and attention in one call. */
static void weigh_and_sum(struct seed_run *run, const struct seed_attention *self, const float *scores) {
    struct seed_result *result = run->result;
    float weights[9] = {0};
    double weight_bounds[9], output_bounds[9];
    seed_bound_weights(self, weight_bounds);
    seed_bound_output(self, output_bounds);
    seed_softmax(run, 3, 1, scores, weights);
    seed_compare(result, "step 5: softmax of input 1", weights, &print_weights_1, weight_bounds);
    seed_compare(result, "step 5: softmax of inputs 2, 3", weights + 3, &print_weights_23, weight_bounds + 3);
    bool same = seed_attend_both_ways(run, self);
    seed_compare(result, "weights of input 1, one call", result->weights, &print_weights_1, weight_bounds);
    seed_compare(result, "weights of inputs 2, 3, one call", result->weights + 3, &print_weights_23, weight_bounds + 3);
    weigh_values(run, self->value, weight_bounds);
    seed_compare(result, "step 7: output of input 1", result->output, &print_output_1, output_bounds);
    seed_claim(result, "one input at a time and all at once: same bits", same);
}

enum { HEADS = 8, TOKENS = 3, DIM = 64, ROW = HEADS * DIM, HEAD = TOKENS * DIM };

static void attend_heads(struct seed_run *run, int heads, const float *query, const float *key, const float *value,
                         struct heed_output output) {
    struct heed_attention attention = {
        .batch = 1,
        .num_heads = heads,
        .num_kv_heads = heads,
        .query_tokens = TOKENS,
        .key_tokens = TOKENS,
        .head_dim = DIM,
        .value_dim = DIM,
        .query = {query, 0, HEAD, DIM, HEED_F32},
        .key = {key, 0, HEAD, DIM, HEED_F32},
        .value = {value, 0, HEAD, DIM, HEED_F32},
        .output = output,
    };
    seed_attend(run, &attention);
}

/* Steps 8 to 10: the outputs of 8 heads side by side in rows of 512.  The notebooks stack copies, of random numbers that cannot be
 * compared; here one call writes every head where it belongs. */
static void stack_heads(struct seed_run *run) {
    float q[HEADS * HEAD], k[HEADS * HEAD], v[HEADS * HEAD], head[TOKENS][DIM] = {{0}};
    float side_by_side[TOKENS][ROW] = {{0}}, copied[TOKENS][ROW];
    seed_random(1, -1, 1, q, COUNT(q));
    seed_random(2, -1, 1, k, COUNT(k));
    seed_random(3, -1, 1, v, COUNT(v));
    attend_heads(run, HEADS, q, k, v, (struct heed_output){.data = side_by_side[0], .head_stride = DIM, .token_stride = ROW});
    for (int h = 0; h < HEADS; h++) {
        attend_heads(run, 1, q + h * HEAD, k + h * HEAD, v + h * HEAD, (struct heed_output){.data = head[0], .token_stride = DIM});
        for (int i = 0; i < TOKENS; i++)
            memcpy(copied[i] + h * DIM, head[i], sizeof head[i]);
    }
    seed_claim(run->result, "8 heads x 64 written side by side and copied there: same bits",
               memcmp(side_by_side, copied, sizeof copied) == 0);
}

void seed_run_steps(const struct heed_exec *exec, struct seed_result *result) {
    struct seed_run run = seed_start(exec, result, words, 3, 3);
    float q[9] = {0}, k[9] = {0}, v[9] = {0}, scores[9] = {0};
    seed_project(&run, "step 3: query", x, 0, 4, query_weights, &print_query, q);
    seed_project(&run, "step 3: key", x, 0, 4, key_weights, &print_key, k);
    seed_project(&run, "step 3: value", x, 0, 4, value_weights, &print_value, v);
    seed_multiply_keys(&run, 3, 3, q, k, scores);
    seed_compare(result, "step 4: scores", scores, &print_scores, NULL);
    weigh_and_sum(&run, &(struct seed_attention){.tokens = 3, .width = 3, .scale = 1, .query = q, .key = k, .value = v}, scores);
    stack_heads(&run);
}
