/* Matrix products from request to result: validate (gemm_check.c), choose a way (gemm.c), plan (gemm_plan.c) and run: tiles
 * (gemm_tiles.c), few rows (gemm_thin.c), dots (gemm_dots.c), bytes (gemm_i8.c), small ones without a plan (gemm_small.c); the
 * first factor (gemm_a.c) and the second (gemm_b.c), what becomes of products (gemm_finish.c).  heed_linear is one with an
 * epilogue. */
#ifndef HEED_GEMM_H
#define HEED_GEMM_H

#include <stdbool.h>
#include <string.h>

#include "heed.h"
#include "kernels.h"
#include "region.h"

/* What a request's fields are called in messages. */
struct heed_gemm_names {
    const char *request, *m, *n, *k;
    const char *a, *a_type, *lda;
    const char *b, *b_type, *ldb, *b_scales, *packed_b;
    const char *c, *c_type, *ldc;
};
extern const struct heed_gemm_names heed_gemm_names;

/* c = activation(product + bias) * gate + residual, as heed_activate has it, rounded to c's type then. */
struct heed_epilogue {
    enum heed_activation activation;
    const float *bias;                /* NULL, or [n] */
    struct heed_input gate, residual; /* [m, n], of any type; data NULL: none */
};

/* Whether a request may be run: sizes, leading dimensions, pointers, overlap. */
enum heed_status heed_gemm_check(const struct heed_gemm *request, const struct heed_gemm_names *names);
/* Of a legal request: what it reads of b, and of its scales; empty if it reads none. */
enum heed_status heed_gemm_b_regions(const struct heed_gemm *checked, const struct heed_gemm_names *names,
                                     struct heed_region regions[2]);
/* That nothing which a legal layer reads of its weights, bias and all, is in an output of somebody else. */
enum heed_status heed_linear_check_apart(const struct heed_linear *checked, const struct heed_region *output);
enum heed_status heed_gemm_check_pack(const struct heed_gemm *request, const struct heed_gemm_names *names, const void *packed_b);
/* Of requests that have been checked; exec has not.  Bytes of workspace; -1 if exec is not legal, or no memory has
 * room for them. */
enum heed_status heed_gemm_run(const struct heed_gemm *checked, const struct heed_epilogue *epilogue, const struct heed_exec *exec);
int64_t heed_gemm_workspace(const struct heed_gemm *checked, const struct heed_epilogue *epilogue, const struct heed_exec *exec);
enum heed_status heed_gemm_pack(const struct heed_gemm *checked, void *packed_b, const struct heed_exec *exec);
/* alpha by its bits: where denormals are 0, as in products of pairs or at the caller's, a comparison would find another answer than
 * elsewhere. */
static inline bool heed_gemm_reads_ab(const struct heed_gemm *request) {
    uint32_t bits;
    memcpy(&bits, &request->alpha, sizeof bits);
    return bits << 1 != 0 && request->k > 0;
}

enum {
    HEED_GEMM_FEW_ROWS = 12,      /* up to so many, a product waits for b */
    HEED_GEMM_THIN_FLOATS = 4096, /* of their sums, at least: half of an L1 */
};
/* The request with strides that may be multiplied: that of a single row may be any number, and is its length here. */
struct heed_gemm heed_gemm_safe(const struct heed_gemm *request);

/* Element (start, column) of op(b), packed or not; if it is packed, column is a multiple of HEED_PANEL, and start is even. */
const void *heed_gemm_packed_at(const struct heed_gemm *request, int64_t column, int64_t start);
const void *heed_gemm_b_at(const struct heed_gemm *request, int64_t column, int64_t start);
/* Whether packed panels are words: two elements of k that follow one another, column by column. */
static inline bool heed_gemm_packed_has_words(const struct heed_gemm *request) {
    return request->packed_b && request->b_type == HEED_BF16;
}
/* Rows [start, start + k) of `columns` columns as floats with leading dimension HEED_PANEL, or as pairs of them, k then rounded up
 * to even and start being even: in scratch, of as many floats, or where they are packed. */
const float *heed_gemm_load_b(const struct heed_gemm *request, const struct heed_kernels *kernels, int64_t column, int columns,
                              int64_t start, int64_t k, float *scratch);

/* The same as dots arrange them, in panel; source: k rows of HEED_PANEL floats, for blocks. */
void heed_gemm_load_dots(const struct heed_gemm *request, const struct heed_kernels *kernels, const struct heed_dots *dots,
                         int64_t column, int columns, int64_t start, int64_t k, float *source, float *panel);

/* What heed_gemm_finish will read or write of so many rows, `ld` bytes apart, from here on: to be fetched. */
struct heed_gemm_finish_place {
    const char *data;
    int64_t ld;
    enum heed_type type;
};
struct heed_gemm_finish_place heed_gemm_finish_at(const struct heed_gemm *request, const struct heed_epilogue *epilogue,
                                                  int64_t row, int64_t rows, int64_t column);
/* Sums of products: of rows and columns of c. */
struct heed_gemm_sums {
    int64_t row, rows, column, columns;
    float *data;
    int64_t ld;
};
/* What the table's finish_products takes of them, which is all but an epilogue. */
struct heed_finish_products heed_gemm_finish_products(const struct heed_gemm *request, const struct heed_gemm_sums *sums);
/* c = alpha * sums + beta * c, and the epilogue; the sums hold anything afterwards. */
void heed_gemm_finish(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_kernels *kernels,
                      const struct heed_gemm_sums *sums);

#endif
