/* What functions have in common that treat each row of a matrix by itself: softmax, normalisation, activation, rotary
 * embedding, rows of tables, conversion. */
#ifndef HEED_ROWS_H
#define HEED_ROWS_H

#include <stdint.h>

#include "kernels.h"
#include "region.h"

struct heed_rows {
    int64_t rows, columns;
    double flops_per_element; /* operations of a product that take as much time as one element */
    void (*run)(const void *request, const struct heed_kernels *kernels, int64_t row);
    const void *request;
    /* In place of run, where so many rows from `row` on are better taken together. */
    void (*run_rows)(const void *request, const struct heed_kernels *kernels, int64_t row, int64_t rows);
};

/* Rows over workers.  The request has been checked, exec has not. */
enum heed_status heed_rows_run(const struct heed_rows *rows, const struct heed_exec *exec);

/* A row of a view of the request, from element `column` on; nothing, of floats, where data is NULL. */
struct heed_source heed_rows_source(const struct heed_input *input, int64_t row, int64_t column);
struct heed_target heed_rows_target(const struct heed_output *output, int64_t row, int64_t column);

/* A view of any type; nothing, if data is NULL and it is optional. */
struct heed_region heed_rows_view(const char *name, const struct heed_input *view, int64_t rows, int64_t columns);
struct heed_region heed_rows_optional_view(const char *name, const struct heed_input *view, int64_t rows, int64_t columns);
struct heed_region heed_rows_output(const char *name, const struct heed_output *view, int64_t rows, int64_t columns);
/* A matrix of floats; nothing, if data is NULL and it is optional. */
struct heed_region heed_rows_region(const char *name, const float *data, int64_t rows, int64_t columns, int64_t stride);
struct heed_region heed_rows_optional(const char *name, const float *data, int64_t rows, int64_t columns, int64_t stride);
/* Each row is read before it is written, so an output may be exactly an input; else nothing of it may be there. */
enum heed_status heed_rows_check_apart(const struct heed_region *output, const struct heed_region *input);

#endif
