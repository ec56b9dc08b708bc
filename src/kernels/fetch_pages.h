/* What is left to fetch where bytes are read in order, and processors' prefetchers do the rest: pages, with which these end. */
#ifndef HEED_KERNELS_FETCH_PAGES_H
#define HEED_KERNELS_FETCH_PAGES_H

enum { PAGES_AHEAD = 8192 }; /* bytes from where they are read to where they are fetched */

/* A line of each page, into L2.  By address, since what follows may be no memory: prefetching is no access. */
INLINE void fetch_pages(uintptr_t from, int64_t bytes) {
    NO_UNROLL for (int64_t at = 0; at < bytes; at += PAGE_BYTES) __builtin_prefetch((const void *)(from + (uintptr_t)at), 0, 2);
}

#endif
