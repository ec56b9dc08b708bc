/* See cache.h.  Who has a page is counted, and only those of one user are written to.  One row in six got a copy in beam search of
 * four beams with t5-base's shape: of 16 tokens at most, which is little beside the weights that each step reads. */
#include "cache.h"
#include "../checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void *renew(void *memory, int64_t count, size_t size) {
    free(memory);
    return allocate(count, size);
}

void cache_begin(struct cache *cache, int64_t rows, int64_t tokens) {
    struct heed_kv_cache *kv = &cache->kv;
    kv->pages_per_sequence = kv->table_stride = (tokens + kv->page_tokens - 1) / kv->page_tokens;
    kv->num_pages = rows * kv->pages_per_sequence;
    cache->page_bytes = heed_kv_page_bytes(kv);
    if (cache->page_bytes < 0 || kv->num_pages > INT32_MAX)
        fail("out of memory for %" PRId64 " tokens of %" PRId64 " rows", tokens, rows);
    kv->data = renew(kv->data, cache->layers * kv->num_pages, (size_t)cache->page_bytes);
    kv->page_table = cache->table = renew(cache->table, kv->num_pages, sizeof *cache->table);
    cache->before = renew(cache->before, kv->num_pages, sizeof *cache->before);
    cache->users = renew(cache->users, kv->num_pages, sizeof *cache->users);
    cache->spare = renew(cache->spare, kv->num_pages, sizeof *cache->spare);
    for (int64_t i = 0; i < kv->num_pages; i++)
        cache->spare[i] = (int32_t)(kv->num_pages - 1 - i); /* taken from the end: low numbers first */
    cache->spares = kv->num_pages;
    cache->rows = cache->tokens = 0;
}

struct heed_kv_cache cache_layer(const struct cache *cache, int64_t layer) {
    struct heed_kv_cache kv = cache->kv;
    kv.data = (char *)kv.data + layer * kv.num_pages * cache->page_bytes;
    return kv;
}

static int32_t take(struct cache *cache) {
    const int32_t page = cache->spare[--cache->spares];
    cache->users[page] = 1;
    return page;
}

static void leave(struct cache *cache, int32_t page) {
    if (--cache->users[page] == 0)
        cache->spare[cache->spares++] = page;
}

static int32_t take_copy(struct cache *cache, int32_t page) {
    const int32_t copy = take(cache);
    for (int64_t layer = 0; layer < cache->layers; layer++) {
        char *data = cache_layer(cache, layer).data;
        memcpy(data + copy * cache->page_bytes, data + page * cache->page_bytes, (size_t)cache->page_bytes);
    }
    return copy;
}

/* New rows have the pages of their parents, and those that no row has any more are spare. */
static void follow(struct cache *cache, int64_t rows, const int32_t *parents) {
    const int64_t stride = cache->kv.table_stride, pages = (cache->tokens + cache->kv.page_tokens - 1) / cache->kv.page_tokens;
    int32_t *before = cache->table;
    cache->kv.page_table = cache->table = cache->before;
    cache->before = before;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < pages; j++)
            cache->users[cache->table[i * stride + j] = before[parents[i] * stride + j]]++;
    for (int64_t i = 0; i < cache->rows; i++)
        for (int64_t j = 0; j < pages; j++)
            leave(cache, before[i * stride + j]);
}

void cache_step(struct cache *cache, int64_t rows, const int32_t *parents) {
    const int64_t last = cache->tokens / cache->kv.page_tokens;
    if (parents)
        follow(cache, rows, parents);
    for (int64_t i = 0; i < rows; i++) {
        int32_t *page = &cache->table[i * cache->kv.table_stride + last];
        if (cache->tokens % cache->kv.page_tokens == 0)
            *page = take(cache);
        else if (cache->users[*page] > 1) {
            leave(cache, *page);
            *page = take_copy(cache, *page);
        }
    }
    cache->rows = rows;
    cache->tokens++;
}
