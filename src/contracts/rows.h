/* Functions of rows: softmax, normalisation, activation. */
#ifndef HEED_CONTRACTS_ROWS_H
#define HEED_CONTRACTS_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "contracts/common.h"

/* Elements of rows, of floats or of 16 bits; data may be NULL where there need be none. */
struct heed_source {
    const void *data;
    enum heed_type type;
};
struct heed_target {
    void *data;
    enum heed_type type;
};

/* y[i] = softmax(factor * x[i]), 0 beyond lengths[i] of its columns, if there are lengths; y may be x, with the same stride.
 * stream: past the caches.  Of rows longer than HEED_ROW_OF_STACK not the last one, which holds exponentials of the others before,
 * unless y is x. */
struct heed_softmax_rows {
    const float *x;
    int64_t ldx, rows, columns;
    const int64_t *lengths;
    float factor;
    float *y;
    int64_t ldy;
    bool stream;
};

/* x[i] = input[i] + residual[i], or input[i] if there is no residual; d = x - mean(x) if `centers`, else x; y[i] = fma(d[i] * r,
 * gain[i], bias[i]), r = 1 / sqrt(mean(d^2) + epsilon); gain NULL: 1, bias NULL: 0; sum, if there is one, receives x.  What is
 * stored is rounded to its type, NaNs become its one NaN.  y and sum may each be input or residual, of the same type, but not the
 * same.  n is at least 1. */
struct heed_norm_row {
    int64_t n;
    bool centers;
    float epsilon;
    struct heed_source input, residual;
    const float *gain, *bias;
    struct heed_target y, sum;
};

/* y[i] = activation(input[i] + bias[i]) * gate[i] + residual[i], each operation rounded; without those that are NULL.  What is
 * stored is rounded to its type, NaNs become its one NaN.  y may be input, gate or residual, of the same type. */
struct heed_activation_row {
    int64_t n;
    enum heed_activation activation;
    struct heed_source input;
    const float *bias;
    struct heed_source gate, residual;
    struct heed_target y;
};

#endif
