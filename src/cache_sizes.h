/* How much of a request's data the caches hold: what plans cut their blocks by, and nothing else.  No result depends on it. */
#ifndef HEED_CACHE_SIZES_H
#define HEED_CACHE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of a core's data caches; never 0. */
struct heed_cache_sizes {
    int64_t l1, l2;
};

/* Asked of the system once; typical sizes where it does not tell or tells nonsense. */
struct heed_cache_sizes heed_cache_sizes(void);
/* Of the cache that some cores share, or L2 where there is none.  Apart, for to ask for it takes as long as all of a first call. */
int64_t heed_cache_shared(void);
/* Whether lines so many bytes apart share one set of an L1 that has 8 places in it (Intel's and AMD's of 32 KB; of 48 KB, 12). */
bool heed_cache_crowded(int64_t step);
/* Makes them others for all calls from now on, for tests; 0: the system's again. */
void heed_cache_sizes_set(struct heed_cache_sizes sizes, int64_t shared);

#endif
