/* A plain implementation of the layout in heed.h, which shares nothing with the library, and random appends. */
#include "harness_kv.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static float *copy_floats(const float *x, int64_t n) {
    float *copy = new_floats(n);
    memcpy(copy, x, (size_t)n * sizeof *x);
    return copy;
}

static int64_t *new_integers(int64_t n) {
    int64_t *x = calloc((size_t)n + 1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

/* --- The layout, from heed.h alone --- */

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static int64_t padded_values(const struct heed_kv_cache *c) { return (c->value_dim + 15) / 16 * 16; }

static int64_t element_bytes(enum heed_type type) { return type == HEED_F32 ? 4 : type == HEED_I8 ? 1 : 2; }

/* Where parts of a head begin, and where it ends. */
struct parts {
    int64_t key_scales, values, value_scales, end;
};

static struct parts parts_of(const struct heed_kv_cache *c) {
    const int64_t keys = c->page_tokens * c->head_dim * element_bytes(c->key_type);
    const int64_t values = c->page_tokens * padded_values(c) * element_bytes(c->value_type);
    struct parts p;
    p.key_scales = (keys + 63) / 64 * 64;
    p.values = p.key_scales + (c->key_type == HEED_I8 ? 4 * c->page_tokens : 0);
    p.value_scales = p.values + (values + 63) / 64 * 64;
    p.end = p.value_scales + (c->value_type == HEED_I8 ? 4 * c->page_tokens : 0);
    return p;
}

static int64_t page_bytes(const struct heed_kv_cache *c) { return c->num_kv_heads * parts_of(c).end; }

int64_t kv_cache_floats(const struct heed_kv_cache *c) { return c->num_pages * page_bytes(c) / (int64_t)sizeof(float); }

static char *head_at(const struct heed_kv_cache *c, int64_t b, int64_t h, int64_t position) {
    const int64_t number = position / c->page_tokens % c->pages_per_sequence;
    const int64_t p = c->page_table ? c->page_table[b * c->table_stride + number] : b * c->pages_per_sequence + number;
    return (char *)c->data + p * page_bytes(c) + h * parts_of(c).end;
}

void *kv_key_at(const struct heed_kv_cache *c, int64_t b, int64_t h, int64_t position, int64_t d) {
    const int64_t width = gcd(c->page_tokens, 64), t = position % c->page_tokens;
    return head_at(c, b, h, position) + (t / width * width * c->head_dim + d * width + t % width) * element_bytes(c->key_type);
}

void *kv_value_at(const struct heed_kv_cache *c, int64_t b, int64_t h, int64_t position, int64_t d) {
    const int64_t element = position % c->page_tokens * padded_values(c) + d;
    return head_at(c, b, h, position) + parts_of(c).values + element * element_bytes(c->value_type);
}

float *kv_key_scale_at(const struct heed_kv_cache *c, int64_t b, int64_t h, int64_t position) {
    return (float *)(void *)(head_at(c, b, h, position) + parts_of(c).key_scales) + position % c->page_tokens;
}

float *kv_value_scale_at(const struct heed_kv_cache *c, int64_t b, int64_t h, int64_t position) {
    return (float *)(void *)(head_at(c, b, h, position) + parts_of(c).value_scales) + position % c->page_tokens;
}

float kv_get(const void *at) {
    float x;
    memcpy(&x, at, sizeof x);
    return x;
}

const float *kv_channels_at(const struct heed_kv_cache *c, int64_t h) {
    return c->key_channel_scales ? c->key_channel_scales + h * c->head_dim : NULL;
}

float *new_channel_scales(struct rng *rng, int64_t n, bool powers) {
    const int most = rng_range(rng, 0, 9) ? 6 : 126;
    float *x = new_floats(n);
    for (int64_t i = 0; i < n; i++) {
        const float mantissa = powers ? 1 : 1 + (float)rng_range(rng, 0, 0xffff) * 0x1p-16f;
        x[i] = ldexpf(mantissa, (int)rng_range(rng, -most, most));
    }
    return x;
}

/* scale: of HEED_I8. */
static void put(enum heed_type type, void *at, float x, float scale) {
    const int8_t byte = type == HEED_I8 && !isnan(scale) ? (int8_t)nearbyintf(x * (1.0f / scale)) : 0;
    const uint16_t half = type == HEED_BF16 || type == HEED_F16 ? half_of(type, x) : 0;
    memcpy(at,
           type == HEED_F32  ? (const void *)&x
           : type == HEED_I8 ? (const void *)&byte
                             : (const void *)&half,
           (size_t)element_bytes(type));
}

static float without_payload(float x) { return isnan(x) ? NAN : x; }

void kv_put_key(const struct heed_kv_cache *c, int64_t b, int64_t h, int64_t position, const float *key) {
    const float *channels = kv_channels_at(c, h);
    float *divided = copy_floats(key, c->head_dim);
    for (int64_t d = 0; channels && d < c->head_dim; d++)
        divided[d] = without_payload(key[d] / channels[d]);
    const float scale = scale_of_bytes(divided, c->head_dim);
    if (c->key_type == HEED_I8)
        *kv_key_scale_at(c, b, h, position) = scale;
    for (int64_t d = 0; d < c->head_dim; d++)
        put(c->key_type, kv_key_at(c, b, h, position, d), divided[d], scale);
    free(divided);
}

void kv_put_value(const struct heed_kv_cache *c, int64_t b, int64_t h, int64_t position, const float *value) {
    const float scale = scale_of_bytes(value, c->value_dim);
    if (c->value_type == HEED_I8)
        *kv_value_scale_at(c, b, h, position) = scale;
    for (int64_t d = 0; d < padded_values(c); d++)
        put(c->value_type, kv_value_at(c, b, h, position, d), d < c->value_dim ? value[d] : 0.0f, scale);
}

void turn_plainly(const struct heed_rope_tables *rope, int64_t position, float *x) {
    for (int64_t i = 0; i < rope->pairs; i++) {
        float *a = rope->interleaved ? x + 2 * i : x + i, *b = rope->interleaved ? a + 1 : a + rope->pairs;
        const float c = rope->cos[position * rope->table_stride + i], s = rope->sin[position * rope->table_stride + i];
        const float turned_a = fmaf(*a, c, -(*b * s)), turned_b = fmaf(*b, c, *a * s);
        *a = without_payload(turned_a);
        *b = without_payload(turned_b);
    }
}

/* Token t of sequence b, which is row `row` of its batch entry (packed: of all). */
static void append_token(const struct append_case *c, const struct heed_kv_cache *cache, int64_t b, int64_t t, int64_t row) {
    const int64_t position = (c->append.positions ? c->append.positions[b] : 0) + t, batch = c->append.starts ? 0 : b;
    for (int64_t h = 0; h < cache->num_kv_heads; h++) {
        const int64_t from = (batch * cache->num_kv_heads + h) * c->append.tokens + row;
        float *x = copy_floats(c->key + from * cache->head_dim, cache->head_dim);
        struct heed_rope_tables rope = c->append.rope;
        rope.cos = c->cos;
        rope.sin = c->sin;
        turn_plainly(&rope, position, x);
        kv_put_key(cache, b, h, position, x);
        kv_put_value(cache, b, h, position, c->value + from * cache->value_dim);
        free(x);
    }
}

void append_plainly(const struct append_case *c, float *data) {
    struct heed_kv_cache cache = c->cache;
    cache.data = data;
    for (int64_t b = 0; b < c->append.batch; b++) {
        const int64_t begin = c->append.starts ? c->append.starts[b] : 0;
        const int64_t end = c->append.starts ? c->append.starts[b + 1] : c->append.tokens;
        for (int64_t row = begin; row < end; row++)
            append_token(c, &cache, b, row - begin, row);
    }
}

/* --- Cases --- */

static int64_t any_of(struct rng *rng, const int64_t *values, int64_t n) { return values[rng_range(rng, 0, n - 1)]; }

void any_cache(struct rng *rng, int64_t batch, struct heed_kv_cache *cache) {
    static const int64_t pages[] = {16, 32, 48, 64, 80, 96, 128, 192, 256, 320};
    static const int64_t widths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 40, 64, 65, 96, 128, 130, 200, 256, 300};
    *cache = (struct heed_kv_cache){.key_type = (enum heed_type)rng_range(rng, HEED_F32, HEED_I8),
                                    .value_type = (enum heed_type)rng_range(rng, HEED_F32, HEED_I8),
                                    .page_tokens = any_of(rng, pages, 10),
                                    .num_kv_heads = rng_range(rng, 1, 3),
                                    .head_dim = any_of(rng, widths, 19),
                                    .value_dim = any_of(rng, widths, 19),
                                    .pages_per_sequence = rng_range(rng, 1, 4)};
    const int64_t used = batch * cache->pages_per_sequence;
    cache->num_pages = used + rng_range(rng, 0, 2);
    if (rng_range(rng, 0, 3) == 0)
        return;
    cache->table_stride = cache->pages_per_sequence + rng_range(rng, 0, 2);
    int32_t *table = malloc((size_t)(batch * cache->table_stride + 1) * sizeof *table);
    int32_t *shuffled = malloc((size_t)(cache->num_pages + 1) * sizeof *shuffled);
    ck_assert(table && shuffled);
    for (int32_t i = 0; i < cache->num_pages; i++) {
        const int64_t j = rng_range(rng, 0, i);
        shuffled[i] = shuffled[j];
        shuffled[j] = i;
    }
    for (int64_t i = 0; i < batch * cache->table_stride; i++) {
        const int64_t page = i % cache->table_stride;
        table[i] = page < cache->pages_per_sequence ? shuffled[i / cache->table_stride * cache->pages_per_sequence + page] : -1;
    }
    cache->page_table = table;
    free(shuffled);
}

/* `most` tokens or fewer for each sequence. */
static int64_t *any_starts(struct rng *rng, int64_t batch, int64_t most, int64_t *tokens) {
    int64_t *starts = new_integers(batch + 1);
    starts[0] = rng_range(rng, 0, 3);
    for (int64_t b = 0; b < batch; b++)
        starts[b + 1] = starts[b] + rng_range(rng, 0, 1) * rng_range(rng, 0, most);
    *tokens = starts[batch] + rng_range(rng, 0, 3);
    return starts;
}

static void any_rope(struct rng *rng, int64_t positions, struct append_case *c) {
    struct heed_rope_tables *rope = &c->append.rope;
    if (rng_range(rng, 0, 3) == 0)
        return;
    rope->pairs = rng_range(rng, 0, 2) ? c->cache.head_dim / 2 : rng_range(rng, 0, c->cache.head_dim / 2);
    rope->interleaved = rng_range(rng, 0, 1);
    rope->positions = positions + rng_range(rng, 0, 2);
    rope->table_stride = rope->pairs + rng_range(rng, 0, 2);
    c->cos = new_filled(rng, rng_range(rng, 0, 3) ? FILL_NORMAL : any_fill(rng), rope->positions * rope->table_stride);
    c->sin = new_filled(rng, FILL_NORMAL, rope->positions * rope->table_stride);
}

struct append_case any_append_case(struct rng *rng) {
    struct append_case c = {.fill = any_fill(rng)};
    c.append.batch = rng_range(rng, 0, 4);
    any_cache(rng, c.append.batch, &c.cache);
    const int64_t batch = c.append.batch, capacity = c.cache.pages_per_sequence * c.cache.page_tokens;
    const int64_t most = rng_range(rng, 0, 2) ? 20 : capacity + capacity / 2;
    c.append.tokens = rng_range(rng, 0, 2) ? rng_range(rng, 0, most) : 1;
    if (rng_range(rng, 0, 1))
        c.append.starts = any_starts(rng, batch, most, &c.append.tokens);
    int64_t *positions = rng_range(rng, 0, 3) ? new_integers(batch) : NULL;
    for (int64_t b = 0; positions && b < batch; b++)
        positions[b] = rng_range(rng, 0, 2 * capacity);
    c.append.positions = positions;
    any_rope(rng, 2 * capacity + c.append.tokens, &c);
    const int64_t rows = (c.append.starts ? 1 : batch) * c.cache.num_kv_heads * c.append.tokens;
    c.key = new_filled(rng, c.fill, rows * c.cache.head_dim);
    c.value = new_filled(rng, c.fill, rows * c.cache.value_dim);
    c.key_type = any_type(rng);
    c.value_type = any_type(rng);
    round_floats(c.key_type, c.key, rows * c.cache.head_dim);
    round_floats(c.value_type, c.value, rows * c.cache.value_dim);
    if (rng_range(rng, 0, 2) == 0)
        c.cache.key_channel_scales = new_channel_scales(rng, c.cache.num_kv_heads * c.cache.head_dim, rng_range(rng, 0, 1));
    return c;
}

void free_append_case(struct append_case *c) {
    free((void *)(uintptr_t)c->append.starts);
    free((void *)(uintptr_t)c->append.positions);
    free((void *)(uintptr_t)c->cache.page_table);
    free((void *)(uintptr_t)c->cache.key_channel_scales);
    free(c->key);
    free(c->value);
    free(c->cos);
    free(c->sin);
}

void describe_append(const struct append_case *c, const char *isa) {
    const struct heed_kv_cache *cache = &c->cache;
    describe("kv_append", isa,
             "B%" PRId64 " H%" PRId64 " T%" PRId64 "%s D%" PRId64 " V%" PRId64 ", pages of %" PRId64 " x %" PRId64
             "%s%s, rope %" PRId64 "%s, %s, types %d and %d into %d and %d",
             c->append.batch, cache->num_kv_heads, c->append.tokens, c->append.starts ? " packed" : "", cache->head_dim,
             cache->value_dim, cache->page_tokens, cache->pages_per_sequence, cache->page_table ? " by table" : "",
             cache->key_channel_scales ? ", scales of channels" : "", c->append.rope.pairs,
             c->append.rope.interleaved ? " interleaved" : "", fill_name(c->fill), (int)c->key_type, (int)c->value_type,
             (int)cache->key_type, (int)cache->value_type);
}

/* A [size[0]]...[size[3]] tensor between guard pages; one of halves has no gaps. */
static struct heed_input place_rows(struct rng *rng, enum heed_type type, const int64_t size[4], const float *values,
                                    struct tensor *memory) {
    const int64_t n = size[0] * size[1] * size[2] * size[3], floats = ceil_div(n, 2);
    const enum placement placement = any_placement(rng);
    if (type == HEED_F32) {
        *memory = tensor_input(size, (enum layout)rng_range(rng, 0, LAYOUTS - 1), placement, values);
        return (struct heed_input){memory->data, memory->stride[0], memory->stride[1], memory->stride[2], HEED_F32};
    }
    const int64_t late = placement == AT_END ? 2 * floats - n : 0;
    float *packed = new_floats(floats);
    uint16_t *halves = (uint16_t *)(void *)packed;
    memset(packed, 0, (size_t)floats * sizeof *packed);
    for (int64_t i = 0; i < n; i++)
        halves[late + i] = half_of(type, values[i]);
    *memory = matrix(1, floats, floats, placement, packed);
    free(packed);
    return (struct heed_input){(const uint16_t *)(const void *)memory->data + late, size[1] * size[2] * size[3], size[2] * size[3],
                               size[3], type};
}

void run_append(const struct append_case *c, const struct heed_exec *exec, struct rng *rng, float *result) {
    struct heed_kv_append append = c->append;
    struct heed_kv_cache cache = c->cache;
    const int64_t floats = kv_cache_floats(&cache), batch = append.starts ? 1 : append.batch;
    const int64_t table = append.rope.positions * append.rope.table_stride;
    const int64_t channels = cache.key_channel_scales ? cache.num_kv_heads * cache.head_dim : 0;
    struct tensor memory = matrix(1, floats, floats, any_placement(rng), NULL), inputs[5];
    cache.data = memory.data;
    append.cache = &cache;
    append.key =
        place_rows(rng, c->key_type, (int64_t[]){batch, cache.num_kv_heads, append.tokens, cache.head_dim}, c->key, &inputs[0]);
    append.value = place_rows(rng, c->value_type, (int64_t[]){batch, cache.num_kv_heads, append.tokens, cache.value_dim}, c->value,
                              &inputs[1]);
    if (append.starts)
        append.key.batch_stride = append.value.batch_stride = -1;
    inputs[2] = matrix(1, table, table, any_placement(rng), c->cos);
    inputs[3] = matrix(1, table, table, any_placement(rng), c->sin);
    append.rope.cos = inputs[2].data;
    append.rope.sin = inputs[3].data;
    inputs[4] = matrix(1, channels, channels, any_placement(rng), cache.key_channel_scales);
    if (channels > 0)
        cache.key_channel_scales = inputs[4].data;
    float *poison = copy_floats(memory.data, floats);
    ck_assert_msg(heed_kv_append(&append, exec) == HEED_OK, "%s", heed_error_message());
    memcpy(result, memory.data, (size_t)floats * sizeof *result);
    memcpy(memory.data, poison, (size_t)floats * sizeof *poison);
    must(tensor_unchanged(&memory));
    for (int i = 0; i < 5; i++) {
        must(tensor_unchanged(&inputs[i]));
        tensor_free(&inputs[i]);
    }
    tensor_free(&memory);
    free(poison);
}
