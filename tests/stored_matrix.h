/* Matrices of any type in guarded memory, for tests of functions that take several types. */
#ifndef HEED_TESTS_STORED_MATRIX_H
#define HEED_TESTS_STORED_MATRIX_H

#include "harness.h"

/* Rows `ld` elements apart, of bytes 0xff, which are NaNs, before something is put there. */
struct stored_matrix {
    enum heed_type type;
    int64_t rows, columns, ld;
    struct buffer memory;
    char *data;
};
struct stored_matrix stored_matrix_new(struct rng *rng, enum heed_type type, int64_t rows, int64_t columns);
/* Contiguous values, rounded to the type; or the bytes of a type that values are not rounded to. */
void stored_matrix_put(const struct stored_matrix *s, const float *values);
void stored_matrix_put_bytes(const struct stored_matrix *s, const char *bytes);
/* That it holds these values, rounded, and gaps of 0xff. */
void must_hold(const struct stored_matrix *s, const float *values);
/* The same of contiguous bytes. */
void must_hold_bytes(const struct stored_matrix *s, const char *bytes);

#endif
