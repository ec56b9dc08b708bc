/* The oracle in double; reference.h says why it exists. */
#include "reference/reference.h"

#include <math.h>

double ref_exp2(float x) { return exp2((double)x); }

static double gemm_element(const struct heed_gemm *gemm, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t p = 0; p < gemm->k; p++)
        sum += ref_gemm_a(gemm, i, p) * ref_gemm_b(gemm, p, j);
    return sum;
}

double ref_gemm_a(const struct heed_gemm *gemm, int64_t i, int64_t p) {
    return ref_element(gemm->a, gemm->a_type, gemm->transpose_a ? p * gemm->lda + i : i * gemm->lda + p);
}

double ref_gemm_b(const struct heed_gemm *gemm, int64_t p, int64_t j) {
    const double b = ref_element(gemm->b, gemm->b_type, gemm->transpose_b ? j * gemm->ldb + p : p * gemm->ldb + j);
    return gemm->b_scales ? b * (double)gemm->b_scales[j] : b;
}

void ref_gemm(const struct heed_gemm *gemm, double *c) {
    for (int64_t i = 0; i < gemm->m; i++) {
        for (int64_t j = 0; j < gemm->n; j++) {
            double product = gemm->alpha == 0 ? 0 : (double)gemm->alpha * gemm_element(gemm, i, j);
            double old = gemm->beta == 0 ? 0 : (double)gemm->beta * ref_element(gemm->c, gemm->c_type, i * gemm->ldc + j);
            c[i * gemm->n + j] = product + old;
        }
    }
}

static double view_element(const struct heed_input *view, int64_t i, int64_t j) {
    return ref_element(view->data, view->type, i * view->token_stride + j);
}

void ref_norm(const struct heed_norm *norm, bool centers, double *output) {
    const int64_t n = norm->columns;
    for (int64_t i = 0; i < norm->rows; i++, output += n) {
        double mean = 0, squares = 0;
        for (int64_t j = 0; j < n; j++) {
            output[j] = view_element(&norm->input, i, j) + (norm->residual.data ? view_element(&norm->residual, i, j) : 0);
            mean += centers ? output[j] / (double)n : 0;
        }
        for (int64_t j = 0; j < n; j++)
            squares += (output[j] - mean) * (output[j] - mean);
        for (int64_t j = 0; j < n; j++)
            output[j] =
                (output[j] - mean) / sqrt(squares / (double)n + (double)norm->epsilon) * (norm->gain ? (double)norm->gain[j] : 1) +
                (norm->bias ? (double)norm->bias[j] : 0);
    }
}

double ref_activation(enum heed_activation activation, double x) {
    switch (activation) {
    case HEED_RELU:
        return x <= 0 ? 0 : x;
    case HEED_GELU:
        return x / 2 * erfc(-x / sqrt(2));
    case HEED_GELU_TANH: /* 1 + tanh(y) = 2 / (1 + exp(-2 y)) */
        return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case HEED_SILU:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

void ref_activate(const struct heed_activate *activate, double *output) {
    for (int64_t i = 0; i < activate->rows; i++)
        for (int64_t j = 0; j < activate->columns; j++) {
            const float x = (float)view_element(&activate->input, i, j) + (activate->bias ? activate->bias[j] : 0);
            const double gate = activate->gate.data ? view_element(&activate->gate, i, j) : 1;
            const double residual = activate->residual.data ? view_element(&activate->residual, i, j) : 0;
            output[i * activate->columns + j] = ref_activation(activate->activation, (double)x) * gate + residual;
        }
}

double ref_softmax_row(double *scores, int64_t n) {
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
        ref_softmax_row(row, length);
    }
}
