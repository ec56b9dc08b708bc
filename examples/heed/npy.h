/* NumPy's .npy files (NumPy Enhancement Proposal 1), as far as a tensor of floats needs them, so that anyone can check heed against
 * NumPy.  Read: format 1.0 and 2.0, little-endian float32 or float64 (rounded to float32), C order, 2 to 4 dimensions.  Everything
 * else, and every file that is damaged or lies about its size, is an error that names the file, the field and its value. */
#ifndef HEED_EXAMPLES_NPY_H
#define HEED_EXAMPLES_NPY_H

#include <stdbool.h>
#include <stdint.h>

enum { NPY_MAX_RANK = 4 };

struct npy {
    int rank;
    int64_t shape[NPY_MAX_RANK];
    float *data; /* C order; owned by whoever called npy_read or npy_allocate */
};

struct npy_error {
    char text[512]; /* one line, with the file's name */
};

/* On failure: false, error->text set, array->data NULL. */
bool npy_read(const char *path, struct npy *array, struct npy_error *error);

/* Writes format 1.0, float32, 1 to 4 dimensions. */
bool npy_write(const char *path, const struct npy *array, struct npy_error *error);

/* Memory for array->rank dimensions of array->shape; `name` is what the error calls it. */
bool npy_allocate(const char *name, struct npy *array, struct npy_error *error);

void npy_free(struct npy *array);

#endif
