/* heed_kv_append: what is written, and that nothing else is, by the formulas of heed.h. */
#include "fuzz.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum heed_status call_append(const void *request, const struct heed_exec *exec) { return heed_kv_append(request, exec); }

static void print_append(FILE *file, const void *request) {
    const struct heed_kv_append *r = request;
    const struct heed_kv_cache *c = r->cache;
    fprintf(file, "append: batch %" PRId64 ", tokens %" PRId64 "%s%s, rope %" PRId64 "%s of %" PRId64 " positions\n", r->batch,
            r->tokens, r->starts ? ", starts" : "", r->positions ? ", positions" : "", r->rope.pairs,
            r->rope.interleaved ? " interleaved" : "", r->rope.positions);
    if (c)
        fprintf(file,
                "  cache: %" PRId64 " pages of %" PRId64 " tokens, %" PRId64 " heads, dims %" PRId64 "/%" PRId64 ", %" PRId64
                " pages of each sequence%s%s, types %d/%d into %d/%d\n",
                c->num_pages, c->page_tokens, c->num_kv_heads, c->head_dim, c->value_dim, c->pages_per_sequence,
                c->page_table ? ", table" : "", c->key_channel_scales ? ", scales of channels" : "", (int)r->key.type,
                (int)r->value.type, (int)c->key_type, (int)c->value_type);
}

/* One token of one head, and where it goes. */
struct token {
    const char *key, *value;
    const float *cos, *sin; /* its rows of the tables */
    const float *channels;  /* scales of the head's; NULL: none */
    char *keys, *values;    /* element 0; elements of a key are `width` apart */
    char *key_scale, *value_scale;
    int64_t width, padded; /* padded: elements of a stored value */
};

static int64_t tokens_of(const struct heed_kv_append *r, int64_t b) {
    return r->starts ? r->starts[b + 1] - r->starts[b] : r->tokens;
}

static int64_t bytes_of(enum heed_type type) { return type == HEED_F32 ? 4 : type == HEED_I8 ? 1 : 2; }

static int64_t scale_bytes(enum heed_type type) { return type == HEED_I8 ? 4 : 0; }

/* Of a part of a page. */
static int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Row (b, h, t), without strides that its index does not ask for. */
static const char *row_at(const struct heed_input *view, int64_t b, int64_t h, int64_t t) {
    return (const char *)view->data +
           ((b > 0 ? b * view->batch_stride : 0) + (h > 0 ? h * view->head_stride : 0) + (t > 0 ? t * view->token_stride : 0)) *
               bytes_of(view->type);
}

static struct token token_at(const struct heed_kv_append *r, int64_t b, int64_t h, int64_t t) {
    const struct heed_kv_cache *c = r->cache;
    const int64_t position = (r->positions ? r->positions[b] : 0) + t, row = (r->starts ? r->starts[b] : 0) + t;
    const int64_t slot = position / c->page_tokens % c->pages_per_sequence, in_page = position % c->page_tokens;
    const int64_t page = c->page_table ? c->page_table[b * c->table_stride + slot] : b * c->pages_per_sequence + slot;
    struct token token = {.width = c->page_tokens & -c->page_tokens, .padded = (c->value_dim + 15) / 16 * 16};
    token.width = token.width > 64 ? 64 : token.width;
    token.channels = c->key_channel_scales ? c->key_channel_scales + h * c->head_dim : NULL;
    const int64_t keys = whole_lines(c->page_tokens * c->head_dim * bytes_of(c->key_type)),
                  values = whole_lines(c->page_tokens * token.padded * bytes_of(c->value_type));
    const int64_t head_bytes = keys + values + c->page_tokens * (scale_bytes(c->key_type) + scale_bytes(c->value_type));
    char *head = (char *)c->data + page * heed_kv_page_bytes(c) + h * head_bytes;
    token.keys = head + (in_page / token.width * token.width * c->head_dim + in_page % token.width) * bytes_of(c->key_type);
    token.key_scale = head + keys + 4 * in_page;
    token.values = head + keys + c->page_tokens * scale_bytes(c->key_type) + in_page * token.padded * bytes_of(c->value_type);
    token.value_scale = head + head_bytes - 4 * c->page_tokens + 4 * in_page;
    token.key = row_at(&r->key, r->starts ? 0 : b, h, row);
    token.value = row_at(&r->value, r->starts ? 0 : b, h, row);
    if (r->rope.pairs > 0) {
        token.cos = r->rope.cos + (position > 0 ? position * r->rope.table_stride : 0);
        token.sin = r->rope.sin + (position > 0 ? position * r->rope.table_stride : 0);
    }
    return token;
}

/* Calls fn for all tokens that a cache keeps, until one says no. */
static enum marked for_tokens(const struct heed_kv_append *r, struct memory *memory,
                              enum marked (*fn)(const struct heed_kv_append *r, struct memory *memory, const struct token *token)) {
    const struct heed_kv_cache *c = r->cache;
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t t = 0, tokens = tokens_of(r, b); t < tokens; t++)
            for (int64_t h = 0; h < c->num_kv_heads && tokens - t <= c->pages_per_sequence * c->page_tokens; h++) {
                const struct token token = token_at(r, b, h, t);
                const enum marked marked = fn(r, memory, &token);
                if (marked != MARKED)
                    return marked;
            }
    return MARKED;
}

static enum marked mark_elements(struct memory *memory, enum heed_type type, const void *data, int64_t n, int64_t stride,
                                 enum role role) {
    const int64_t bytes = bytes_of(type);
    return memory_mark(
        memory, &(struct rows){data, {1, 1, stride > 1 ? n : 1}, {0, 0, stride * bytes}, stride > 1 ? bytes : n * bytes}, role);
}

static enum marked mark_read(const struct heed_kv_append *r, struct memory *memory, const struct token *token) {
    enum marked marked = mark_elements(memory, r->key.type, token->key, r->cache->head_dim, 1, ROLE_INPUT);
    if (marked == MARKED)
        marked = mark_elements(memory, r->value.type, token->value, r->cache->value_dim, 1, ROLE_INPUT);
    if (marked == MARKED && r->rope.pairs > 0)
        marked = mark_elements(memory, HEED_F32, token->cos, r->rope.pairs, 1, ROLE_INPUT);
    if (marked == MARKED && r->rope.pairs > 0)
        marked = mark_elements(memory, HEED_F32, token->sin, r->rope.pairs, 1, ROLE_INPUT);
    return marked;
}

static enum marked mark_written(const struct heed_kv_append *r, struct memory *memory, const struct token *token) {
    const struct heed_kv_cache *c = r->cache;
    enum marked marked = mark_elements(memory, c->key_type, token->keys, c->head_dim, token->width, ROLE_OUTPUT);
    if (marked == MARKED && c->key_type == HEED_I8)
        marked = mark_elements(memory, HEED_F32, token->key_scale, 1, 1, ROLE_OUTPUT);
    if (marked == MARKED && c->value_type == HEED_I8)
        marked = mark_elements(memory, HEED_F32, token->value_scale, 1, 1, ROLE_OUTPUT);
    return marked == MARKED ? mark_elements(memory, c->value_type, token->values, token->padded, 1, ROLE_OUTPUT) : marked;
}

/* What is read whatever the tokens are; validation has seen that it is there. */
static enum marked mark_arrays(struct memory *memory, const struct heed_kv_append *r) {
    const struct heed_kv_cache *c = r->cache;
    const int64_t word = sizeof(int64_t), entry = sizeof *c->page_table;
    const int64_t channels = c->key_channel_scales ? c->num_kv_heads * c->head_dim : 0;
    const struct rows arrays[] = {{r->starts, {1, 1, 1}, {0, 0, 0}, r->starts ? (r->batch + 1) * word : 0},
                                  {r->positions, {1, 1, 1}, {0, 0, 0}, r->positions ? r->batch * word : 0},
                                  {c->page_table,
                                   {1, 1, c->page_table ? r->batch : 0},
                                   {0, 0, stride_bytes(c->table_stride, r->batch, sizeof *c->page_table)},
                                   c->pages_per_sequence * entry},
                                  {c->key_channel_scales, {1, 1, 1}, {0, 0, 0}, channels * (int64_t)sizeof(float)}};
    enum marked marked = memory_mark(memory, &(struct rows){c, {1, 1, 1}, {0, 0, 0}, sizeof *c}, ROLE_DESCRIPTOR);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && marked == MARKED; i++)
        marked = memory_mark(memory, &arrays[i], ROLE_INPUT);
    return marked;
}

static enum marked mark_append(struct memory *memory, const void *request) {
    const struct heed_kv_append *r = request;
    const struct heed_kv_cache *c = r->cache;
    if (r->batch > 1000 || (r->batch > 0 && r->tokens > 100000))
        return MARKED_OUTSIDE;
    enum marked marked = mark_arrays(memory, r);
    if (marked != MARKED || r->batch == 0 || r->tokens == 0 || c->num_kv_heads == 0 || c->pages_per_sequence == 0)
        return marked;
    if ((double)r->batch * (double)r->tokens * (double)c->num_kv_heads * (double)(c->head_dim + c->value_dim) > 1e6)
        return MARKED_OUTSIDE;
    marked = for_tokens(r, memory, mark_read);
    if (marked == MARKED)
        marked = for_tokens(r, memory, mark_written);
    if (marked != MARKED_TWICE)
        return marked;
    /* Pages that sequences share although they write to them are the caller's fault; what overlaps an input is ours to refuse. */
    memory_unmark(memory);
    return for_tokens(r, memory, mark_written) == MARKED_TWICE ? MARKED_OUTSIDE : MARKED_TWICE;
}

static bool append_may_be_validated(const struct memory *memory, const void *request) {
    const struct heed_kv_append *r = request;
    const struct heed_kv_cache *c = r->cache;
    const __int128 word = sizeof(int64_t), batch = r->batch;
    if (!memory_has(memory, r->starts, (batch + 1) * word) || !memory_has(memory, r->positions, batch * word))
        return false;
    if (!c)
        return true;
    if ((uintptr_t)c % _Alignof(struct heed_kv_cache) || !memory_has(memory, c, sizeof *c) || !fuzz_has_channels(memory, c))
        return false;
    if (r->batch > 1000 && r->tokens > 0 && c->num_kv_heads > 0)
        return false; /* legal, but long: each sequence is looked at */
    const __int128 bytes = ((batch - 1) * c->table_stride + c->pages_per_sequence) * (__int128)sizeof(int32_t);
    return bytes > PTRDIFF_MAX || memory_has(memory, c->page_table, bytes);
}

/* --- What is stored --- */

/* Bit by bit, but for a NaN that was computed, or was one of halves: those the oracle widens to the one NaN. */
static void must_be(enum heed_type type, const char *stored, float want, bool computed, const char *what, int64_t d) {
    const uint16_t half = type == HEED_F32 ? 0 : half_of(type, want);
    const float got = fuzz_value(type, stored, 0);
    if (memcmp(stored, type == HEED_F32 ? (const void *)&want : (const void *)&half, (size_t)bytes_of(type)) != 0 &&
        !(computed && isnan(got) && isnan(want)))
        fuzz_fail("element %" PRId64 " of a %s is %.9g, not %.9g", d, what, (double)got, (double)want);
}

/* Elements of a key or a value, `apart` from each other, and the scale of those of HEED_I8. */
static void must_be_row(enum heed_type type, const char *stored, int64_t apart, const char *scale, const float *want, int64_t n,
                        int64_t computed, const char *what) {
    const float exact = scale_of_bytes(want, n);
    if (type == HEED_I8)
        must_be(HEED_F32, scale, exact, true, what, -1);
    for (int64_t d = 0; d < n; d++) {
        const char *at = stored + d * apart * bytes_of(type);
        const int byte = isnan(exact) ? 0 : (int)nearbyintf(want[d] * (1.0f / exact));
        if (type != HEED_I8)
            must_be(type, at, want[d], d < computed, what, d);
        else if (*(const int8_t *)at != byte)
            fuzz_fail("element %" PRId64 " of a %s is %d, not %d", d, what, *(const int8_t *)at, byte);
    }
}

static float element_of_key(const struct heed_kv_append *r, const struct token *token, int64_t d) {
    const struct heed_rope_tables *rope = &r->rope;
    if (d >= 2 * rope->pairs)
        return fuzz_value(r->key.type, token->key, d);
    const int64_t i = rope->interleaved ? d / 2 : d % rope->pairs;
    const float a = fuzz_value(r->key.type, token->key, rope->interleaved ? 2 * i : i);
    const float b = fuzz_value(r->key.type, token->key, rope->interleaved ? 2 * i + 1 : i + rope->pairs);
    const bool is_first = rope->interleaved ? d % 2 == 0 : d < rope->pairs;
    const float rounded = is_first ? b * token->sin[i] : a * token->sin[i];
    return is_first ? fmaf(a, token->cos[i], -rounded) : fmaf(b, token->cos[i], rounded);
}

static float element_as_divided(const struct heed_kv_append *r, const struct token *token, int64_t d) {
    const float x = element_of_key(r, token, d);
    return token->channels ? x / token->channels[d] : x;
}

static enum marked check_token(const struct heed_kv_append *r, struct memory *memory, const struct token *token) {
    const struct heed_kv_cache *c = r->cache;
    float *key = malloc((size_t)c->head_dim * sizeof *key), *value = malloc((size_t)c->value_dim * sizeof *value);
    (void)memory;
    if (!key || !value)
        fuzz_fail("no memory");
    for (int64_t d = 0; d < c->head_dim; d++)
        key[d] = element_as_divided(r, token, d);
    for (int64_t d = 0; d < c->value_dim; d++)
        value[d] = fuzz_value(r->value.type, token->value, d);
    must_be_row(c->key_type, token->keys, token->width, token->key_scale, key, c->head_dim,
                token->channels || r->key.type != HEED_F32 ? c->head_dim : 2 * r->rope.pairs, "key");
    must_be_row(c->value_type, token->values, 1, token->value_scale, value, c->value_dim,
                r->value.type != HEED_F32 ? c->value_dim : 0, "value");
    for (int64_t i = c->value_dim * bytes_of(c->value_type); i < token->padded * bytes_of(c->value_type); i++)
        if (token->values[i] != 0)
            fuzz_fail("a value is not followed by zeros");
    free(key);
    free(value);
    return MARKED;
}

static void check_append(const struct memory *memory, const void *request) {
    (void)memory;
    const struct heed_kv_append *r = request;
    if (r->cache->num_kv_heads > 0 && r->cache->pages_per_sequence > 0)
        for_tokens(r, NULL, check_token);
}

/* --- Requests --- */

static void fill_elements(struct rng *rng, enum fill mode, enum heed_type type, void *data, int64_t n) {
    float *floats = malloc((size_t)(n + 1) * sizeof *floats);
    if (!floats)
        fuzz_fail("no memory");
    fill(rng, mode, floats, n);
    for (int64_t i = 0; i < n; i++) {
        const uint16_t half = type == HEED_F32 ? 0 : half_of(type, floats[i]);
        memcpy((char *)data + i * bytes_of(type), type == HEED_F32 ? (const void *)&floats[i] : (const void *)&half,
               (size_t)bytes_of(type));
    }
    free(floats);
}

static struct heed_input make_rows(struct input *in, struct memory *memory, const char *name, const struct heed_kv_append *r,
                                   int64_t width) {
    const int64_t heads = r->cache->num_kv_heads, batch = r->starts ? 1 : r->batch, gap = take_range(in, 0, 3);
    struct heed_input view = {.token_stride = width + gap, .head_stride = r->tokens * (width + gap)};
    if (take_chance(in, 2)) {
        view.head_stride = width + gap;
        view.token_stride = heads * (width + gap);
    }
    view.batch_stride = heads * r->tokens * (width + gap);
    const int64_t n = batch > 0 && heads > 0 && r->tokens > 0 ? (batch - 1) * view.batch_stride + (heads - 1) * view.head_stride +
                                                                    (r->tokens - 1) * view.token_stride + width
                                                              : 0;
    view.type = take_chance(in, 2) ? HEED_F32 : fuzz_take_type(in);
    void *data = memory_new(memory, name, n, (size_t)bytes_of(view.type), in);
    struct rng rng = rng_seeded(take(in, 2));
    fill_elements(&rng, take_fill(in, false), view.type, data, n);
    view.data = data;
    if (r->starts)
        view.batch_stride = take_hostile(in);
    return view;
}

static void make_cache_of(struct input *in, struct memory *memory, int64_t batch, struct heed_kv_cache *c) {
    *c = (struct heed_kv_cache){.key_type = fuzz_take_cache_type(in),
                                .value_type = fuzz_take_cache_type(in),
                                .page_tokens = TAKE_OF(in, 16, 32, 48, 64, 80, 128),
                                .num_kv_heads = take_range(in, 0, 3),
                                .head_dim = take_range(in, 1, 40),
                                .value_dim = take_range(in, 1, 40),
                                .pages_per_sequence = take_range(in, 1, 3)};
    c->num_pages = batch * c->pages_per_sequence + take_range(in, 0, 1);
    c->data = memory_new(memory, "cache.data", c->num_pages * heed_kv_page_bytes(c) / 4, sizeof(float), in);
    if (take_chance(in, 4))
        c->key_channel_scales = fuzz_make_channels(in, memory, c->num_kv_heads * c->head_dim, take_chance(in, 2));
    if (!take_chance(in, 2))
        return;
    const int64_t entries = batch * c->pages_per_sequence;
    int32_t *table = memory_new(memory, "cache.page_table", entries, sizeof *table, in);
    for (int32_t i = 0; i < entries; i++)
        table[i] = (int32_t)entries - 1 - i;
    c->page_table = table;
    c->table_stride = c->pages_per_sequence;
}

void fuzz_take_sequences(struct input *in, struct memory *memory, int64_t batch, int64_t tokens, int64_t most_position,
                         const int64_t **starts, const int64_t **positions) {
    if (take_chance(in, 2)) {
        int64_t *begins = memory_new(memory, "starts", batch + 1, sizeof *begins, in);
        begins[0] = 0;
        for (int64_t b = 0; b < batch; b++)
            begins[b + 1] = begins[b] + take_range(in, 0, tokens - begins[b]);
        *starts = begins;
    }
    if (take_chance(in, 4))
        return;
    int64_t *places = memory_new(memory, "positions", batch, sizeof *places, in);
    for (int64_t b = 0; b < batch; b++)
        places[b] = take_range(in, 0, most_position);
    *positions = places;
}

static void make_tokens(struct input *in, struct memory *memory, struct heed_kv_append *r) {
    r->tokens = take_chance(in, 4) ? take_range(in, 0, 200) : take_range(in, 0, 20);
    fuzz_take_sequences(in, memory, r->batch, r->tokens, 400, &r->starts, &r->positions);
}

static void make_rope(struct input *in, struct memory *memory, struct heed_kv_append *r) {
    struct heed_rope_tables *rope = &r->rope;
    if (take_chance(in, 2))
        return;
    rope->pairs = take_range(in, 0, r->cache->head_dim / 2);
    rope->interleaved = take_chance(in, 2);
    rope->positions = 600;
    rope->table_stride = rope->pairs + take_range(in, 0, 2);
    const int64_t n = rope->pairs > 0 ? (rope->positions - 1) * rope->table_stride + rope->pairs : 0;
    float *cos = memory_new(memory, "cos", n, sizeof *cos, in), *sin = memory_new(memory, "sin", n, sizeof *sin, in);
    struct rng rng = rng_seeded(take(in, 2));
    fill(&rng, FILL_NORMAL, cos, n);
    fill(&rng, take_fill(in, false), sin, n);
    rope->cos = cos;
    rope->sin = sin;
}

void fuzz_append(struct input *in) {
    static const struct function function = {call_append, print_append, mark_append, append_may_be_validated, check_append};
    struct memory memory = {.count = 0};
    struct heed_kv_append r = {.batch = take_range(in, 0, 3)};
    struct heed_kv_cache *cache = memory_new(&memory, "cache", 1, sizeof *cache, in);
    make_cache_of(in, &memory, r.batch, cache);
    r.cache = cache;
    make_tokens(in, &memory, &r);
    make_rope(in, &memory, &r);
    r.key = make_rows(in, &memory, "key", &r, cache->head_dim);
    r.value = make_rows(in, &memory, "value", &r, cache->value_dim);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++) {
        if (take_chance(in, 2))
            overwrite(in, &memory, cache, sizeof *cache);
        else
            overwrite(in, &memory, &r, sizeof r);
    }
    make_bool(&r.rope.interleaved);
    fuzz_request(in, &function, &memory, &r, changes == 0);
}
