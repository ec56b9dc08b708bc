/* What a key/value cache may be, and how large its pages are. */
#include "kv_cache.h"

#include <math.h>
#include <stdbool.h>

#include "error.h"
#include "kernels.h"

enum { PAGE_UNIT = 16, VALUE_UNIT = 16, PART_UNIT = 64 /* bytes */ };

static int64_t panel_width(int64_t page_tokens) { return min_i64(HEED_PANEL, page_tokens & -page_tokens); }

/* Where a part of `tokens` rows that begins at `begin` ends, in whole lines; false if it overflows. */
static bool find_end(int64_t begin, int64_t tokens, int64_t row_bytes, int64_t *end) {
    if (__builtin_mul_overflow(tokens, row_bytes, end) || *end > INT64_MAX - PART_UNIT)
        return false;
    return !__builtin_add_overflow(begin, round_up(*end, PART_UNIT), end);
}

static int64_t scale_bytes(enum heed_type type) { return type == HEED_I8 ? (int64_t)sizeof(float) : 0; }

bool heed_kv_layout(const struct heed_kv_cache *cache, struct kv_layout *layout) {
    const int64_t tokens = cache->page_tokens;
    layout->width = panel_width(tokens);
    layout->value_ld = round_up(cache->value_dim, VALUE_UNIT);
    return find_end(0, tokens, cache->head_dim * type_bytes(cache->key_type), &layout->key_scales) &&
           find_end(layout->key_scales, tokens, scale_bytes(cache->key_type), &layout->values) &&
           find_end(layout->values, tokens, layout->value_ld * type_bytes(cache->value_type), &layout->value_scales) &&
           find_end(layout->value_scales, tokens, scale_bytes(cache->value_type), &layout->head) &&
           !__builtin_mul_overflow(cache->num_kv_heads, layout->head, &layout->page);
}

static bool is_size(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

static bool is_type(enum heed_type type) { return is_size((int)type, HEED_F32, HEED_I8); }

HEED_API int64_t heed_kv_page_bytes(const struct heed_kv_cache *cache) {
    struct kv_layout layout;
    if (!cache || !is_size(cache->page_tokens, PAGE_UNIT, INT64_MAX) || cache->page_tokens % PAGE_UNIT ||
        !is_size(cache->num_kv_heads, 0, INT64_MAX) || !is_size(cache->head_dim, 1, INT32_MAX) ||
        !is_size(cache->value_dim, 1, INT32_MAX) || !is_type(cache->key_type) || !is_type(cache->value_type))
        return -1;
    return heed_kv_layout(cache, &layout) ? layout.page : -1;
}

static enum heed_status check_type(const char *name, enum heed_type type) {
    return heed_check_type(name, type, is_type(type), "HEED_F32, HEED_BF16, HEED_F16 or HEED_I8");
}

static enum heed_status check_sizes(const struct heed_kv_cache *cache) {
    const struct heed_limit sizes[] = {
        {"cache.num_pages", cache->num_pages, 0, INT64_MAX},
        {"cache.page_tokens", cache->page_tokens, PAGE_UNIT, INT64_MAX},
        {"cache.num_kv_heads", cache->num_kv_heads, 0, INT64_MAX},
        {"cache.head_dim", cache->head_dim, 1, INT32_MAX},
        {"cache.value_dim", cache->value_dim, 1, INT32_MAX},
        {"cache.pages_per_sequence", cache->pages_per_sequence, 0, INT64_MAX},
        {"cache.table_stride", cache->table_stride, 0, INT64_MAX},
    };
    if (check_type("cache.key_type", cache->key_type) || check_type("cache.value_type", cache->value_type) ||
        heed_check_limits(sizes, sizeof sizes / sizeof *sizes))
        return HEED_INVALID_ARGUMENT;
    if (cache->page_tokens % PAGE_UNIT)
        return heed_fail(HEED_INVALID_ARGUMENT, "cache.page_tokens is %lld, must be a multiple of %d",
                         (long long)cache->page_tokens, PAGE_UNIT);
    if (cache->pages_per_sequence > INT64_MAX / cache->page_tokens)
        return heed_fail(HEED_INVALID_ARGUMENT, "cache.pages_per_sequence is %lld, times page_tokens it overflows",
                         (long long)cache->pages_per_sequence);
    if (heed_kv_page_bytes(cache) < 0)
        return heed_fail(HEED_INVALID_ARGUMENT, "cache.page_tokens is %lld, a page does not fit into the address space",
                         (long long)cache->page_tokens);
    return HEED_OK;
}

/* Without a table, sequences have their pages one after another. */
static enum heed_status check_pages(const struct heed_kv_cache *cache, int64_t batch) {
    int64_t pages;
    if (cache->page_table || (!__builtin_mul_overflow(batch, cache->pages_per_sequence, &pages) && pages <= cache->num_pages))
        return HEED_OK;
    return heed_fail(HEED_INVALID_ARGUMENT,
                     "cache.num_pages is %lld, must be at least %lld x %lld, batch x cache.pages_per_sequence, without page_table",
                     (long long)cache->num_pages, (long long)batch, (long long)cache->pages_per_sequence);
}

/* On every call, as tables of pages are. */
static enum heed_status check_channels(const struct heed_kv_cache *cache) {
    const int64_t count = cache->key_channel_scales ? cache->num_kv_heads * cache->head_dim : 0;
    for (int64_t i = 0; i < count; i++)
        if (!(cache->key_channel_scales[i] > 0.0f && cache->key_channel_scales[i] < INFINITY))
            return heed_fail(HEED_INVALID_ARGUMENT, "cache.key_channel_scales[%lld] is %g, must be finite and more than 0",
                             (long long)i, (double)cache->key_channel_scales[i]);
    return HEED_OK;
}

enum heed_status heed_kv_cache_check(const struct heed_kv_cache *cache, int64_t batch,
                                     struct heed_region regions[HEED_KV_REGIONS]) {
    if (!cache)
        return heed_fail(HEED_INVALID_ARGUMENT, "cache is NULL");
    if (check_sizes(cache) || check_pages(cache, batch))
        return HEED_INVALID_ARGUMENT;
    const int64_t page = heed_kv_page_bytes(cache) / (int64_t)sizeof(float); /* the alignment that data must have */
    regions[HEED_KV_DATA] = (struct heed_region){.name = "cache.data",
                                                 .data = cache->data,
                                                 .width = page,
                                                 .count = {1, 1, cache->num_pages},
                                                 .stride = {0, 0, page},
                                                 .stride_name = {"", "", ""}};
    regions[HEED_KV_TABLE] = (struct heed_region){.name = "cache.page_table",
                                                  .data = cache->page_table,
                                                  .element_bytes = sizeof *cache->page_table,
                                                  .width = cache->pages_per_sequence,
                                                  .count = {1, 1, cache->page_table ? batch : 0},
                                                  .stride = {0, 0, cache->table_stride},
                                                  .stride_name = {"", "", ""}};
    regions[HEED_KV_CHANNELS] = (struct heed_region){.name = "cache.key_channel_scales",
                                                     .data = cache->key_channel_scales,
                                                     .width = cache->head_dim,
                                                     .count = {1, 1, cache->key_channel_scales ? cache->num_kv_heads : 0},
                                                     .stride = {0, 0, cache->head_dim},
                                                     .stride_name = {"", "", ""}};
    for (int i = 0; i < HEED_KV_REGIONS; i++)
        if (heed_region_check(&regions[i]))
            return HEED_INVALID_ARGUMENT;
    return check_channels(cache);
}

enum heed_status heed_kv_pages_check(const struct heed_kv_cache *cache, int64_t sequence, int64_t from, int64_t to) {
    if (to <= from)
        return HEED_OK;
    if (to - from > kv_capacity(cache))
        return heed_fail(HEED_INVALID_ARGUMENT,
                         "cache.pages_per_sequence is %lld, too few for positions %lld ... %lld of sequence %lld",
                         (long long)cache->pages_per_sequence, (long long)from, (long long)to - 1, (long long)sequence);
    if (!cache->page_table)
        return HEED_OK;
    const int64_t last = (to - 1) / cache->page_tokens;
    for (int64_t page = from / cache->page_tokens; page <= last; page++) {
        const int64_t slot = page % cache->pages_per_sequence;
        const int32_t number = cache->page_table[sequence * cache->table_stride + slot];
        if (number < 0 || number >= cache->num_pages)
            return heed_fail(HEED_INVALID_ARGUMENT, "cache.page_table[%lld][%lld] is %d, must be in [0, %lld)", (long long)sequence,
                             (long long)slot, (int)number, (long long)cache->num_pages);
    }
    return HEED_OK;
}
