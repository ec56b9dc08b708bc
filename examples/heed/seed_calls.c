/* The calls of heed behind the notebooks, as an engine would write them. */
#include "seed_calls.h"

#include <string.h>

struct seed_run seed_start(const struct heed_exec *exec, struct seed_result *result, const char *const *words, int tokens,
                           int width) {
    *result = (struct seed_result){.words = words, .tokens = tokens, .width = width};
    return (struct seed_run){exec, result};
}

static void gemm(struct seed_run *run, const struct heed_gemm *gemm) {
    if (run->result->status == HEED_OK)
        run->result->status = heed_gemm(gemm, run->exec);
}

void seed_multiply(struct seed_run *run, int m, int n, int k, const float *a, const float *b, float beta, float *c) {
    gemm(run, &(struct heed_gemm){
                  .m = m, .n = n, .k = k, .alpha = 1, .beta = beta, .a = a, .lda = k, .b = b, .ldb = n, .c = c, .ldc = n});
}

void seed_multiply_keys(struct seed_run *run, int tokens, int width, const float *query, const float *key, float *scores) {
    gemm(run, &(struct heed_gemm){.m = tokens,
                                  .n = tokens,
                                  .k = width,
                                  .alpha = 1,
                                  .transpose_b = true,
                                  .a = query,
                                  .lda = width,
                                  .b = key,
                                  .ldb = width,
                                  .c = scores,
                                  .ldc = tokens});
}

void seed_softmax(struct seed_run *run, int tokens, float scale, const float *scores, float *weights) {
    struct heed_softmax softmax = {.rows = tokens,
                                   .columns = tokens,
                                   .scale = scale,
                                   .input = scores,
                                   .input_stride = tokens,
                                   .output = weights,
                                   .output_stride = tokens};
    if (run->result->status == HEED_OK)
        run->result->status = heed_softmax(&softmax, run->exec);
}

void seed_attend(struct seed_run *run, const struct heed_attention *attention) {
    if (run->result->status == HEED_OK)
        run->result->status = heed_attention(attention, run->exec);
}

void seed_project(struct seed_run *run, const char *name, const float *x, double e, int depth, const float *weights,
                  const struct seed_print *print, float *product) {
    double bounds[SEED_MAX_NUMBERS];
    int tokens = run->result->tokens, width = run->result->width;
    seed_multiply(run, tokens, width, depth, x, weights, 0, product);
    seed_bound_product(tokens, width, depth, x, e, weights, bounds);
    seed_compare(run->result, name, product, print, print->decimals == SEED_EXACT ? NULL : bounds);
}

bool seed_projects_by_token(struct seed_run *run, const float *x, int depth, const float *weights, const float *product) {
    float rows[SEED_MAX_NUMBERS] = {0};
    int tokens = run->result->tokens, width = run->result->width;
    for (int i = 0; i < tokens; i++)
        seed_multiply(run, 1, width, depth, x + i * depth, weights, 0, rows + i * width);
    return memcmp(rows, product, (size_t)(tokens * width) * sizeof *rows) == 0;
}

/* Queries first .. first + count - 1 against all keys. */
static void attend_some(struct seed_run *run, const struct seed_attention *self, int first, int count, float *weights,
                        float *output) {
    int tokens = self->tokens, width = self->width;
    struct heed_attention attention = {
        .batch = 1,
        .num_heads = 1,
        .num_kv_heads = 1,
        .query_tokens = count,
        .key_tokens = tokens,
        .head_dim = width,
        .value_dim = width,
        .scale = self->scale,
        .query = {.data = self->query + first * width, .token_stride = width},
        .key = {.data = self->key, .token_stride = width},
        .value = {.data = self->value, .token_stride = width},
        .output = {.data = output + first * width, .token_stride = width},
        .weights = {.data = weights + first * tokens, .token_stride = tokens},
    };
    seed_attend(run, &attention);
}

bool seed_attend_both_ways(struct seed_run *run, const struct seed_attention *self) {
    struct seed_result *result = run->result;
    float weights[SEED_MAX_NUMBERS] = {0}, output[SEED_MAX_NUMBERS] = {0};
    attend_some(run, self, 0, self->tokens, result->weights, result->output);
    for (int i = 0; i < self->tokens; i++)
        attend_some(run, self, i, 1, weights, output);
    return memcmp(weights, result->weights, sizeof weights) == 0 && memcmp(output, result->output, sizeof output) == 0;
}
