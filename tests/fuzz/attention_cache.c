/* The keys and values of a request once more, in a cache: linear, ring or paged, written by heed_kv_append. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Slots that the queries of the sequence that looks back farthest need. */
static int64_t slots_needed(const struct heed_attention *request, bool ring) {
    int64_t most = 0;
    for (int64_t b = 0; b < request->batch; b++) {
        const int64_t keys = ref_sequence_of(request, b).keys;
        int64_t first = 0;
        while (ring && first < keys && !key_is_seen(request, b, first))
            first++;
        most = keys - first > most ? keys - first : most;
    }
    return most;
}

static void take_pages(struct input *in, struct heed_kv_cache *cache, int64_t batch, int64_t slots) {
    const int64_t least = slots > 0 ? (slots + 15) / 16 : 1;
    const bool one = take_chance(in, 2);
    cache->page_tokens = one ? 16 * (least + take_range(in, 0, 3)) : TAKE_OF(in, 16, 32, 48, 64, 80, 128, 256);
    cache->pages_per_sequence = (16 * least + cache->page_tokens - 1) / cache->page_tokens + take_range(in, 0, 1);
    cache->num_pages = batch * cache->pages_per_sequence + take_range(in, 0, 2);
}

/* Any order; the table has room for more pages than a sequence has. */
static void make_table(struct input *in, struct attention_fuzz *f, int64_t batch) {
    struct heed_kv_cache *cache = f->cache;
    cache->table_stride = cache->pages_per_sequence + take_range(in, 0, 2);
    const int64_t entries = batch > 0 ? (batch - 1) * cache->table_stride + cache->pages_per_sequence : 0;
    int32_t *table = memory_new(&f->memory, "cache.page_table", entries, sizeof *table, in);
    int64_t left = cache->num_pages;
    struct rng rng = rng_seeded(take(in, 2));
    int32_t *free_pages = malloc((size_t)(left + 1) * sizeof *free_pages);
    if (!free_pages)
        fuzz_fail("no memory");
    for (int32_t i = 0; i < left; i++)
        free_pages[i] = i;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t page = 0; page < cache->pages_per_sequence; page++) {
            const int64_t at = rng_range(&rng, 0, left - 1);
            table[b * cache->table_stride + page] = free_pages[at];
            free_pages[at] = free_pages[--left];
        }
    free(free_pages);
    cache->page_table = table;
}

/* One sequence as a cache of its own. */
static struct heed_kv_cache cache_of_sequence(const struct heed_kv_cache *cache, int64_t b) {
    struct heed_kv_cache one = *cache;
    if (cache->page_table) {
        one.page_table += b * cache->table_stride;
        return one;
    }
    one.data = (char *)one.data + b * cache->pages_per_sequence * heed_kv_page_bytes(cache);
    one.num_pages = cache->pages_per_sequence;
    return one;
}

static void append(const struct attention_fuzz *f, int64_t b, int64_t from, int64_t tokens) {
    const struct heed_attention *r = &f->request;
    if (tokens == 0)
        return;
    const struct heed_kv_cache cache = cache_of_sequence(f->cache, b);
    const int64_t position = r->key_position + from;
    const struct heed_kv_append request = {
        .batch = 1,
        .tokens = tokens,
        .positions = &position,
        .key = {(const float *)r->key.data + (b ? b * r->key.batch_stride : 0) + (from ? from * r->key.token_stride : 0), 0,
                r->key.head_stride, r->key.token_stride, HEED_F32},
        .value = {(const float *)r->value.data + (b ? b * r->value.batch_stride : 0) + (from ? from * r->value.token_stride : 0), 0,
                  r->value.head_stride, r->value.token_stride, HEED_F32},
        .cache = &cache};
    if (heed_kv_append(&request, NULL) != HEED_OK)
        fuzz_fail("heed_kv_append: %s", heed_error_message());
}

enum heed_type fuzz_take_cache_type(struct input *in) {
    return (enum heed_type)TAKE_OF(in, HEED_F32, HEED_BF16, HEED_F16, HEED_I8);
}

float *fuzz_make_channels(struct input *in, struct memory *memory, int64_t count, bool powers) {
    float *scales = memory_new(memory, "cache.key_channel_scales", count, sizeof *scales, in);
    struct rng rng = rng_seeded(take(in, 2));
    for (int64_t i = 0; i < count; i++)
        scales[i] = ldexpf(powers ? 1 : 1 + (float)rng_range(&rng, 0, 0xffff) * 0x1p-16f, (int)rng_range(&rng, 0, 6));
    return scales;
}

bool fuzz_has_channels(const struct memory *memory, const struct heed_kv_cache *cache) {
    const __int128 bytes = (__int128)cache->num_kv_heads * cache->head_dim * (__int128)sizeof(float);
    return bytes > PTRDIFF_MAX || memory_has(memory, cache->key_channel_scales, bytes);
}

/* A row of floats becomes what the cache can hold of it, divided by scales where they are not NULL, which makes powers of two
 * exact.
 */
static void round_row(struct attention_fuzz *f, enum heed_type type, const float *scales, float *row, int64_t width) {
    for (int64_t d = 0; scales && d < width; d++)
        row[d] /= scales[d];
    fuzz_round(f, type, row, width);
    for (int64_t d = 0; scales && d < width; d++)
        row[d] *= scales[d];
}

/* Rows of keys, with scales of channels, or of values. */
static void round_rows(struct attention_fuzz *f, enum heed_type type, const float *scales, const struct heed_input *rows,
                       int64_t width) {
    const struct heed_attention *r = &f->request;
    for (int64_t b = 0; (type != HEED_F32 || scales) && b < r->batch; b++)
        for (int64_t h = 0; h < r->num_kv_heads; h++)
            for (int64_t t = 0; t < r->key_tokens; t++)
                round_row(f, type, scales ? scales + h * width : NULL,
                          (float *)(uintptr_t)rows->data + (b ? b * rows->batch_stride : 0) + (h ? h * rows->head_stride : 0) +
                              (t ? t * rows->token_stride : 0),
                          width);
}

/* Heads that share their rows share their scales: else no row would be what the scales of all heads make of it. */
static const float *make_channels(struct input *in, struct attention_fuzz *f) {
    const struct heed_attention *r = &f->request;
    float *scales = fuzz_make_channels(in, &f->memory, r->num_kv_heads * r->head_dim, true);
    for (int64_t h = 1; r->key.head_stride == 0 && h < r->num_kv_heads; h++)
        memcpy(scales + h * r->head_dim, scales, (size_t)r->head_dim * sizeof *scales);
    return scales;
}

void make_cache(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    if (r->key_starts)
        return;
    f->cache = memory_new(&f->memory, "cache", 1, sizeof *f->cache, in);
    *f->cache = (struct heed_kv_cache){.key_type = fuzz_take_cache_type(in),
                                       .value_type = fuzz_take_cache_type(in),
                                       .num_kv_heads = r->num_kv_heads,
                                       .head_dim = r->head_dim,
                                       .value_dim = r->value_dim};
    if (take_chance(in, 4))
        f->cache->key_channel_scales = make_channels(in, f);
    f->bytes = f->cache->key_type == HEED_I8 || f->cache->value_type == HEED_I8 || f->cache->key_channel_scales;
    round_rows(f, f->cache->key_type, f->cache->key_channel_scales, &r->key, r->head_dim);
    round_rows(f, f->cache->value_type, NULL, &r->value, r->value_dim);
    take_pages(in, f->cache, r->batch, slots_needed(r, take_chance(in, 2)));
    f->cache->data =
        memory_new(&f->memory, "cache.data", f->cache->num_pages * heed_kv_page_bytes(f->cache) / 4, sizeof(float), in);
    if (take_chance(in, 2))
        make_table(in, f, r->batch);
    for (int64_t b = 0; b < r->batch && r->num_kv_heads > 0; b++) {
        const int64_t keys = ref_sequence_of(r, b).keys, first = take_range(in, 0, keys);
        append(f, b, 0, first);
        append(f, b, first, keys - first);
    }
    r->cache = f->cache;
    r->key = r->value = (struct heed_input){0};
}
