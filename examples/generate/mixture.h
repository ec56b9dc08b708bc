/* A mixture of experts (Shazeer et al. 2017): a router sends each token to a few of many feed-forward layers. */
#ifndef HEED_EXAMPLES_MIXTURE_H
#define HEED_EXAMPLES_MIXTURE_H

#include "../shared/layers.h"
#include "config.h"

struct mixture {
    struct heed_weights router;   /* an output for each expert */
    struct feed_forward *experts; /* gated ones, all of the same width */
    enum heed_compute compute;    /* of the experts, as in linear_in; the router's is in floats */
};

/* Of a call, for up to so many tokens.  A visit is that of a token to an expert: those to one expert lie one behind the other. */
struct visits {
    float *scores, *shares;       /* [tokens, experts]; of each token's experts, the likeliest first, [tokens, chosen] */
    int32_t *expert, *place;      /* [tokens, chosen]: these experts, and which visits they are */
    int32_t *token;               /* [visits] */
    int64_t *starts;              /* [experts + 1]: the first visit of each, and where there are no more */
    float *input, *wide, *output; /* [visits, width], [visits, inner], [visits, width] */
    struct heed_linear *layers;   /* [experts] */
};
struct visits visits_begin(const struct config *config, int64_t tokens);

/* hidden += the sum of shares times what experts make of input.  A token's bits do not depend on other tokens. */
void mix(const struct heed_exec *exec, const struct config *config, int64_t tokens, const struct mixture *mixture,
         const float *input, struct visits *visits, float *hidden);

#endif
