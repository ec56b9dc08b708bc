/* See pages.h. */
#include "pages.h"
#include "../checkpoint/checkpoint.h"

#include <inttypes.h>
#include <string.h>

void store_begin(struct store *store, int64_t pages, int64_t pages_per_sequence) {
    struct heed_kv_cache *kv = &store->kv;
    kv->pages_per_sequence = kv->table_stride = pages_per_sequence;
    kv->num_pages = pages;
    store->page_bytes = heed_kv_page_bytes(kv);
    if (store->page_bytes < 0 || pages > INT32_MAX)
        fail("out of memory for %" PRId64 " pages of keys and values", pages);
    kv->data = renew(kv->data, store->layers * pages, (size_t)store->page_bytes);
}

struct heed_kv_cache store_layer(const struct store *store, int64_t layer, const int32_t *table) {
    struct heed_kv_cache kv = store->kv;
    kv.data = (char *)kv.data + layer * kv.num_pages * store->page_bytes;
    kv.page_table = table;
    return kv;
}

int64_t pages_for(const struct store *store, int64_t tokens) {
    return (tokens + store->kv.page_tokens - 1) / store->kv.page_tokens;
}

void pool_begin(struct pool *pool) {
    const int64_t pages = pool->store[0]->kv.num_pages;
    pool->users = renew(pool->users, pages, sizeof *pool->users);
    pool->spare = renew(pool->spare, pages, sizeof *pool->spare);
    for (int64_t i = 0; i < pages; i++)
        pool->spare[i] = (int32_t)(pages - 1 - i); /* taken from the end: low numbers first */
    pool->spares = pages;
}

static int32_t take(struct pool *pool) {
    const int32_t page = pool->spare[--pool->spares];
    pool->users[page] = 1;
    return page;
}

void pages_share(struct pool *pool, int32_t *row, const int32_t *other, int64_t pages) {
    for (int64_t i = 0; i < pages; i++)
        pool->users[row[i] = other[i]]++;
}

void pages_leave(struct pool *pool, const int32_t *row, int64_t pages) {
    for (int64_t i = 0; i < pages; i++)
        if (--pool->users[row[i]] == 0)
            pool->spare[pool->spares++] = row[i];
}

/* What is in all layers of a page, in another one as well. */
static void copy(const struct store *store, int32_t from, int32_t to) {
    for (int64_t i = 0; i < store->layers; i++) {
        char *data = store_layer(store, i, NULL).data;
        memcpy(data + to * store->page_bytes, data + from * store->page_bytes, (size_t)store->page_bytes);
    }
}

static int32_t take_copy(struct pool *pool, int32_t page) {
    const int32_t own = take(pool);
    for (int i = 0; i < MOST_STORES && pool->store[i]; i++)
        copy(pool->store[i], page, own);
    return own;
}

int64_t pages_extend(struct pool *pool, int32_t *row, int64_t pages, int64_t begin, int64_t end) {
    const int64_t first = begin / pool->store[0]->kv.page_tokens, needed = pages_for(pool->store[0], end);
    if (first < pages && pool->users[row[first]] > 1) {
        pages_leave(pool, row + first, 1);
        row[first] = take_copy(pool, row[first]);
    }
    for (; pages < needed; pages++)
        row[pages] = take(pool);
    return pages;
}
