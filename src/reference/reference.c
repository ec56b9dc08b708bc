/* The oracle in double; reference.h says why it exists. */
#include "reference/reference.h"

#include <math.h>
#include <stdlib.h>

double ref_exp2(float x) { return exp2((double)x); }

static double gemm_element(const struct heed_gemm *gemm, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t p = 0; p < gemm->k; p++) {
        double a = gemm->transpose_a ? gemm->a[p * gemm->lda + i] : gemm->a[i * gemm->lda + p];
        double b = gemm->transpose_b ? gemm->b[j * gemm->ldb + p] : gemm->b[p * gemm->ldb + j];
        sum += a * b;
    }
    return sum;
}

void ref_gemm(const struct heed_gemm *gemm, double *c) {
    for (int64_t i = 0; i < gemm->m; i++) {
        for (int64_t j = 0; j < gemm->n; j++) {
            double product = gemm->alpha == 0 ? 0 : (double)gemm->alpha * gemm_element(gemm, i, j);
            double old = gemm->beta == 0 ? 0 : (double)gemm->beta * (double)gemm->c[i * gemm->ldc + j];
            c[i * gemm->n + j] = product + old;
        }
    }
}

/* Turns n scores into their softmax and returns the logarithm of the sum of their exponentials. */
static double softmax_in_place(double *scores, int64_t n) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        max = scores[j] > max || isnan(scores[j]) ? scores[j] : max;
    if (max == -INFINITY) {
        for (int64_t j = 0; j < n; j++)
            scores[j] = 0;
        return -INFINITY;
    }
    for (int64_t j = 0; j < n; j++)
        sum += scores[j] = exp(scores[j] - max);
    for (int64_t j = 0; j < n; j++)
        scores[j] /= sum;
    return max + log(sum);
}

void ref_softmax(const struct heed_softmax *softmax, double *output) {
    double scale = softmax->scale == 0 ? 1 : (double)softmax->scale;
    for (int64_t i = 0; i < softmax->rows; i++) {
        double *row = output + i * softmax->columns;
        int64_t length = softmax->lengths ? softmax->lengths[i] : softmax->columns;
        for (int64_t j = 0; j < softmax->columns; j++)
            row[j] = j < length ? scale * (double)softmax->input[i * softmax->input_stride + j] : 0;
        softmax_in_place(row, length);
    }
}

double ref_scale(const struct heed_attention *attention) {
    return attention->scale == 0 ? 1 / sqrt((double)attention->head_dim) : (double)attention->scale;
}

int64_t ref_visible_keys(const struct heed_attention *attention, int64_t query) {
    int64_t seen = attention->key_tokens;
    if (attention->causal)
        seen = query + 1;
    if (attention->causal && attention->alignment == HEED_ALIGN_BOTTOM_RIGHT)
        seen = query + 1 + attention->key_tokens - attention->query_tokens;
    return seen < 0 ? 0 : seen > attention->key_tokens ? attention->key_tokens : seen;
}

/* Writes the attention weights of one query to scores, all key_tokens of them, and returns their log-sum-exp. */
static double attend(const struct heed_attention *attention, const float *query, const float *keys, int64_t seen, double *scores) {
    double scale = ref_scale(attention);
    for (int64_t j = 0; j < attention->key_tokens; j++) {
        double sum = 0;
        for (int64_t d = 0; j < seen && d < attention->head_dim; d++)
            sum += (double)query[d] * (double)keys[j * attention->key.token_stride + d];
        scores[j] = scale * sum;
    }
    return softmax_in_place(scores, seen);
}

static void weighted_sum(const struct heed_attention *attention, const double *weights, const float *values, int64_t seen,
                         double *output) {
    for (int64_t d = 0; d < attention->value_dim; d++) {
        output[d] = 0;
        for (int64_t j = 0; j < seen; j++)
            output[d] += weights[j] * (double)values[j * attention->value.token_stride + d];
    }
}

static const float *head_of(const struct heed_input *input, int64_t batch, int64_t head) {
    return input->data + batch * input->batch_stride + head * input->head_stride;
}

bool ref_attention(const struct heed_attention *attention, double *output, double *weights, double *lse) {
    double *one_row = malloc((size_t)(attention->key_tokens + 1) * sizeof *one_row);
    if (!one_row)
        return false;
    int64_t row = 0;
    for (int64_t b = 0; b < attention->batch; b++) {
        for (int64_t h = 0; h < attention->num_heads; h++) {
            int64_t kv_head = h / (attention->num_heads / attention->num_kv_heads);
            const float *queries = head_of(&attention->query, b, h);
            const float *keys = head_of(&attention->key, b, kv_head), *values = head_of(&attention->value, b, kv_head);
            for (int64_t i = 0; i < attention->query_tokens; i++, row++) {
                double *scores = weights ? weights + row * attention->key_tokens : one_row;
                int64_t seen = ref_visible_keys(attention, i);
                double log_sum = attend(attention, queries + i * attention->query.token_stride, keys, seen, scores);
                weighted_sum(attention, scores, values, seen, output + row * attention->value_dim);
                if (lse)
                    lse[row] = log_sum;
            }
        }
    }
    free(one_row);
    return true;
}
