/* What heed_linear and heed_linear_group have in common: a layer as a product with an epilogue, and the memory that it reads. */
#ifndef HEED_LINEAR_H
#define HEED_LINEAR_H

#include "gemm.h"

/* Whether a layer may be run; the product that it is. */
enum heed_status heed_linear_check(const struct heed_linear *linear, struct heed_gemm *product);
struct heed_gemm heed_linear_product(const struct heed_linear *linear);
/* NULL: the product is all. */
const struct heed_epilogue *heed_linear_epilogue(const struct heed_linear *linear, struct heed_epilogue *epilogue);

enum {
    HEED_LINEAR_OUTPUT,
    HEED_LINEAR_INPUT,
    HEED_LINEAR_GATE,
    HEED_LINEAR_RESIDUAL,
    HEED_LINEAR_BIAS,
    HEED_LINEAR_WEIGHTS, /* and their scales */
    HEED_LINEAR_REGIONS = HEED_LINEAR_WEIGHTS + 2
};
/* The memory of a layer that has been checked: the output, and what it reads; what there is none of is empty. */
void heed_linear_regions(const struct heed_linear *checked, struct heed_region regions[HEED_LINEAR_REGIONS]);

#endif
