/* How much of a request's data the caches hold: what plans cut their blocks by, and nothing else.  No result depends on it. */
#ifndef HEED_CACHE_SIZES_H
#define HEED_CACHE_SIZES_H

#include <stdint.h>

/* Bytes of the data caches that one core works with; never 0. */
struct heed_cache_sizes {
    int64_t l1, l2; /* of a core */
    int64_t l3;     /* shared by cores; that of l2 where there is none */
};

/* Asked of the system once; typical sizes where it does not tell or tells nonsense. */
struct heed_cache_sizes heed_cache_sizes(void);
/* Makes them others for all calls from now on, for tests; all 0: the system's again. */
void heed_cache_sizes_set(struct heed_cache_sizes sizes);

#endif
