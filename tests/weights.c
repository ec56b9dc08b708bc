/* See weights.h. */
#include "weights.h"

#include "reference/reference.h"
#include "stored.h"

#include <stdlib.h>
#include <string.h>

char *new_weights(struct rng *rng, enum heed_type type, int64_t n, bool any_scales) {
    const int64_t bytes = type_span(type, n);
    char *weights = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++)
        weights[i] = (char)rng_next(rng);
    for (int64_t i = 0; type_has_blocks(type) && !any_scales && i < n; i += TYPE_BLOCK) {
        const uint16_t scale = half_of(HEED_F16, (float)rng_range(rng, -1000, 1000) / 8192);
        memcpy(weights + type_span(type, i), &scale, sizeof scale);
    }
    return weights;
}

float *weights_as_floats(const char *weights, enum heed_type type, int64_t n) {
    float *floats = new_floats(n);
    for (int64_t i = 0; i < n; i++)
        floats[i] = (float)ref_element(weights, type, i);
    return floats;
}
