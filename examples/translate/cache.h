/* Keys and values of all layers of a decoder, in pages.  A page has the same number in every layer: one table serves all. */
#ifndef HEED_EXAMPLES_CACHE_H
#define HEED_EXAMPLES_CACHE_H

#include <heed.h>
#include <stddef.h>

/* Memory as allocate() gives it, in place of other memory, or of NULL. */
void *renew(void *memory, int64_t count, size_t size);

struct cache {
    struct heed_kv_cache kv; /* of layer 0; sizes, types and page_tokens are set by the caller, before cache_begin */
    int64_t layers, page_bytes;
    int64_t rows, tokens; /* of the table: its rows, and the tokens that each has */
    int32_t *table;       /* [rows, pages_per_sequence] */
    int32_t *before;      /* the same of the step before */
    int32_t *users;       /* [num_pages]: in how many rows a page is */
    int32_t *spare;       /* [num_pages]: the first `spares` are the pages that are in none */
    int64_t spares;
};

/* Room for so many rows of so many tokens each, of which there are none yet.  The memory of a page is used when it is. */
void cache_begin(struct cache *cache, int64_t rows, int64_t tokens);
struct heed_kv_cache cache_layer(const struct cache *cache, int64_t layer);

/* From now on row i is row parents[i] of those before, and has room for one token more; parents NULL: each was empty.  Rows share
 * pages, and nothing is copied but the last page of a row that goes on as several ones, if it is not full: once for each but one.
 */
void cache_step(struct cache *cache, int64_t rows, const int32_t *parents);

#endif
