/* NumPy's .npy files (NumPy Enhancement Proposal 1), as far as heed's tensors need them, so that anyone can check heed against
 * NumPy. Read: format 1.0 and 2.0, C order, up to 4 dimensions, little-endian float32 or float64 (rounded to float32), float16 and
 * bfloat16 (as they are), bool or uint8, int64.  NumPy has no bfloat16: ml_dtypes, whose arrays JAX and others use, saves it as
 * "<V2", which NumPy reads as two bytes without a meaning, "|V2".  Everything else, and every file that is damaged or lies about
 * its size, is an error that names the file, the field and its value. */
#ifndef HEED_EXAMPLES_NPY_H
#define HEED_EXAMPLES_NPY_H

#include <stdbool.h>
#include <stdint.h>

enum { NPY_MAX_RANK = 4 };

enum npy_type { NPY_FLOATS = 0, NPY_BF16, NPY_F16, NPY_FLAGS, NPY_INTEGERS };

struct npy {
    enum npy_type type;
    int rank;
    int64_t shape[NPY_MAX_RANK];
    union { /* C order; owned by whoever called npy_read or npy_allocate */
        float *data;
        uint16_t *halves; /* of NPY_BF16 and NPY_F16 */
        uint8_t *flags;
        int64_t *integers;
        void *memory;
    };
};

/* What a file must hold. */
struct npy_wanted {
    enum npy_type type;
    bool halves; /* of NPY_FLOATS: NPY_BF16 and NPY_F16 will do, too */
    int least_rank, most_rank;
};

struct npy_error {
    char text[512]; /* one line, with the file's name */
};

/* On failure: false, error->text set, array->memory NULL. */
bool npy_read(const char *path, const struct npy_wanted *wanted, struct npy *array, struct npy_error *error);

/* Writes floats, bf16 or f16: format 1.0, 1 to 4 dimensions. */
bool npy_write(const char *path, const struct npy *array, struct npy_error *error);

/* Memory for array->rank dimensions of array->shape, of array->type; `name` is what the error calls it. */
bool npy_allocate(const char *name, struct npy *array, struct npy_error *error);

void npy_free(struct npy *array);

#endif
