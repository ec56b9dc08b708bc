/* The suite "conformance": public test sets of attention.  conformance.c checks a request against the oracle. */
#ifndef HEED_TESTS_CONFORMANCE_H
#define HEED_TESTS_CONFORMANCE_H

#include "harness.h"

#include <check.h>

/* A test set as it goes. */
struct conformance {
    const char *name;
    struct accuracy accuracy;
    int64_t requests, compared; /* compared: with the scalar table, bit for bit */
    int64_t rows, checked;      /* checked: against the oracle */
};

/* Runs a request, whose outputs are not set, on the best table with some threads and checks output and lse: some of its rows, or
 * all of a small one, against the oracle, within a tenth of PyTorch's tolerance for float, |error| <= 1e-5 + 5e-6 |value|, which is
 * the strictest of the public sets'; and all of them, if it is small, against the scalar table. */
void check_conformance(const struct heed_attention *request, struct conformance *set);
/* A quick run leaves out requests of so many multiplications. */
bool conformance_skips(int64_t work);
/* Says what was done. */
void print_conformance(const struct conformance *set);

TCase *conformance_onnx(void);
TCase *conformance_pytorch(void);
TCase *conformance_engines(void);

#endif
