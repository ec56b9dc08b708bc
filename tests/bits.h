/* What the lists of cases share whose hashes are in bits.txt. */
#ifndef HEED_TESTS_BITS_H
#define HEED_TESTS_BITS_H

#include "harness.h"

#include <stdio.h>

/* One table's pass over all cases. */
struct pass {
    const struct heed_kernels *table;
    size_t index; /* of the next case */
    FILE *file;   /* where to write instead of comparing, or NULL */
};
/* Compares the hash of n floats with that of the case, or writes it. */
void take_in(struct pass *pass, const char *name, const float *result, int64_t n);

/* Functions of rows: test_bits_rows.c. */
void all_softmax_bits(struct pass *pass, const struct heed_exec *exec);
void all_norm_bits(struct pass *pass, const struct heed_exec *exec);
void all_activation_bits(struct pass *pass, const struct heed_exec *exec);
void all_embedding_bits(struct pass *pass, const struct heed_exec *exec);
void all_k_embedding_bits(struct pass *pass, const struct heed_exec *exec);
void all_rope_bits(struct pass *pass, const struct heed_exec *exec);

#endif
