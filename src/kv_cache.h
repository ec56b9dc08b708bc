/* The one place that knows the layout of a key/value cache (heed.h): append writes through it, attention reads through it. */
#ifndef HEED_KV_CACHE_H
#define HEED_KV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heed.h"
#include "internal.h"
#include "region.h"
#include "types.h"

struct kv_layout {
    int64_t width;    /* W: keys of a panel, which is [head_dim][width]; 16, 32 or 64 */
    int64_t value_ld; /* V: elements from row to row of values */
    /* Bytes from the start of a head to its parts, from head to head, from page to page. */
    int64_t key_scales, values, value_scales;
    int64_t head, page;
};

/* Types and sizes have been checked one by one; false if a page overflows. */
bool heed_kv_layout(const struct heed_kv_cache *cache, struct kv_layout *layout);

/* Where a cache lies: its pages, the table, and the scales of channels. */
enum { HEED_KV_DATA, HEED_KV_TABLE, HEED_KV_CHANNELS, HEED_KV_REGIONS };

/* All but the contents of the table: sizes, memory, and room for `batch` sequences; sets regions, each checked. */
enum heed_status heed_kv_cache_check(const struct heed_kv_cache *cache, int64_t batch, struct heed_region regions[HEED_KV_REGIONS]);
/* The pages of positions [from, to) of a sequence exist, and no two of these positions share a slot; 0 <= from. */
enum heed_status heed_kv_pages_check(const struct heed_kv_cache *cache, int64_t sequence, int64_t from, int64_t to);

/* Positions of a sequence that the cache can hold at once. */
INLINE int64_t kv_capacity(const struct heed_kv_cache *cache) { return cache->pages_per_sequence * cache->page_tokens; }

/* The number of the page that holds a position of a sequence. */
INLINE int64_t kv_page(const struct heed_kv_cache *cache, int64_t sequence, int64_t position) {
    const int64_t page = position / cache->page_tokens % cache->pages_per_sequence;
    return cache->page_table ? cache->page_table[sequence * cache->table_stride + page]
                             : sequence * cache->pages_per_sequence + page;
}

INLINE char *kv_head(const struct heed_kv_cache *cache, const struct kv_layout *layout, int64_t sequence, int64_t head,
                     int64_t position) {
    return (char *)cache->data + kv_page(cache, sequence, position) * layout->page + head * layout->head;
}

/* The scales of a head's channels; NULL: none. */
INLINE const float *kv_channel_scales(const struct heed_kv_cache *cache, int64_t head) {
    return cache->key_channel_scales ? cache->key_channel_scales + head * cache->head_dim : NULL;
}

/* The panel of keys that holds a position, in its column position % width. */
INLINE void *kv_panel(const struct heed_kv_cache *cache, const struct kv_layout *layout, int64_t sequence, int64_t head,
                      int64_t position) {
    const int64_t token = position % cache->page_tokens;
    return type_at_output(cache->key_type, kv_head(cache, layout, sequence, head, position),
                          token / layout->width * layout->width * cache->head_dim);
}

/* The row of values of a position; the rows of a page follow one another, value_ld apart. */
INLINE void *kv_value(const struct heed_kv_cache *cache, const struct kv_layout *layout, int64_t sequence, int64_t head,
                      int64_t position) {
    const int64_t token = position % cache->page_tokens;
    return type_at_output(cache->value_type, kv_head(cache, layout, sequence, head, position) + layout->values,
                          token * layout->value_ld);
}

/* The scales of a position's key and value, where they have any; those of a page follow one another. */
INLINE float *kv_key_scale(const struct heed_kv_cache *cache, const struct kv_layout *layout, int64_t sequence, int64_t head,
                           int64_t position) {
    return (float *)(void *)(kv_head(cache, layout, sequence, head, position) + layout->key_scales) + position % cache->page_tokens;
}
INLINE float *kv_value_scale(const struct heed_kv_cache *cache, const struct kv_layout *layout, int64_t sequence, int64_t head,
                             int64_t position) {
    return (float *)(void *)(kv_head(cache, layout, sequence, head, position) + layout->value_scales) +
           position % cache->page_tokens;
}

#endif
