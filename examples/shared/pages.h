/* Keys and values of several sequences in pages, which have the same numbers in all layers; sequences that begin alike share them.
 */
#ifndef HEED_EXAMPLES_PAGES_H
#define HEED_EXAMPLES_PAGES_H

#include <heed.h>

/* What is in the pages. */
struct store {
    struct heed_kv_cache kv; /* of layer 0; sizes, types and page_tokens are set before store_begin, like layers */
    int64_t layers, page_bytes;
};
/* Room for so many pages, of which a sequence has up to pages_per_sequence.  The memory of a page is used when it is. */
void store_begin(struct store *store, int64_t pages, int64_t pages_per_sequence);
/* The table has the numbers of the pages of each sequence. */
struct heed_kv_cache store_layer(const struct store *store, int64_t layer, const int32_t *table);
int64_t pages_for(const struct store *store, int64_t tokens);

/* Who has a page is counted, and only pages with one user are written to.  Begins as zero, but for the stores. */
enum { MOST_STORES = 2 };
struct pool {
    struct store *store[MOST_STORES]; /* where pages of these numbers are; NULL: none */
    int32_t *users;                   /* of each page */
    int32_t *spare;                   /* the first `spares` are the pages that nobody has */
    int64_t spares;
};
/* From now on nobody has any of the pages that the stores, which have begun, have room for. */
void pool_begin(struct pool *pool);

/* The pages of a sequence, which are its row of the table, begin as the first of another's: both have them now. */
void pages_share(struct pool *pool, int32_t *row, const int32_t *other, int64_t pages);
void pages_leave(struct pool *pool, const int32_t *row, int64_t pages);
/* A sequence that has so many pages is about to write its tokens begin ... end - 1: takes what it has no page for, and a copy in
 * place of a page that others have too.  Returns how many pages it has then. */
int64_t pages_extend(struct pool *pool, int32_t *row, int64_t pages, int64_t begin, int64_t end);

#endif
