/* heed_kv_append: what is written, and that nothing else is, by the formulas of heed.h. */
#include "fuzz.h"

#include <inttypes.h>
#include <math.h>
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
                " pages of each sequence%s\n",
                c->num_pages, c->page_tokens, c->num_kv_heads, c->head_dim, c->value_dim, c->pages_per_sequence,
                c->page_table ? ", table" : "");
}

/* One token of one head, and where it goes. */
struct token {
    const float *key, *value;
    const float *cos, *sin; /* its rows of the tables */
    float *keys, *values;   /* element 0; elements of a key are `width` apart */
    int64_t width, padded;  /* padded: elements of a stored value */
};

static int64_t tokens_of(const struct heed_kv_append *r, int64_t b) {
    return r->starts ? r->starts[b + 1] - r->starts[b] : r->tokens;
}

static struct token token_at(const struct heed_kv_append *r, int64_t b, int64_t h, int64_t t) {
    const struct heed_kv_cache *c = r->cache;
    const int64_t position = (r->positions ? r->positions[b] : 0) + t, row = (r->starts ? r->starts[b] : 0) + t;
    const int64_t slot = position / c->page_tokens % c->pages_per_sequence, in_page = position % c->page_tokens;
    const int64_t page = c->page_table ? c->page_table[b * c->table_stride + slot] : b * c->pages_per_sequence + slot;
    struct token token = {.width = c->page_tokens & -c->page_tokens, .padded = (c->value_dim + 15) / 16 * 16};
    token.width = token.width > 64 ? 64 : token.width;
    float *head = c->data + page * heed_kv_page_floats(c) + h * c->page_tokens * (c->head_dim + token.padded);
    token.keys = head + in_page / token.width * token.width * c->head_dim + in_page % token.width;
    token.values = head + c->page_tokens * c->head_dim + in_page * token.padded;
    token.key = (const float *)r->key.data + (b > 0 && !r->starts ? b * r->key.batch_stride : 0) +
                (h > 0 ? h * r->key.head_stride : 0) + (row > 0 ? row * r->key.token_stride : 0);
    token.value = (const float *)r->value.data + (b > 0 && !r->starts ? b * r->value.batch_stride : 0) +
                  (h > 0 ? h * r->value.head_stride : 0) + (row > 0 ? row * r->value.token_stride : 0);
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

static enum marked mark_floats(struct memory *memory, const float *data, int64_t n, int64_t stride, enum role role) {
    const int64_t bytes = sizeof *data;
    return memory_mark(
        memory, &(struct rows){data, {1, 1, stride > 1 ? n : 1}, {0, 0, stride * bytes}, stride > 1 ? bytes : n * bytes}, role);
}

static enum marked mark_read(const struct heed_kv_append *r, struct memory *memory, const struct token *token) {
    enum marked marked = mark_floats(memory, token->key, r->cache->head_dim, 1, ROLE_INPUT);
    if (marked == MARKED)
        marked = mark_floats(memory, token->value, r->cache->value_dim, 1, ROLE_INPUT);
    if (marked == MARKED && r->rope.pairs > 0)
        marked = mark_floats(memory, token->cos, r->rope.pairs, 1, ROLE_INPUT);
    if (marked == MARKED && r->rope.pairs > 0)
        marked = mark_floats(memory, token->sin, r->rope.pairs, 1, ROLE_INPUT);
    return marked;
}

static enum marked mark_written(const struct heed_kv_append *r, struct memory *memory, const struct token *token) {
    const enum marked marked = mark_floats(memory, token->keys, r->cache->head_dim, token->width, ROLE_OUTPUT);
    return marked == MARKED ? mark_floats(memory, token->values, token->padded, 1, ROLE_OUTPUT) : marked;
}

/* What is read whatever the tokens are; validation has seen that it is there. */
static enum marked mark_arrays(struct memory *memory, const struct heed_kv_append *r) {
    const struct heed_kv_cache *c = r->cache;
    const int64_t word = sizeof(int64_t), entry = sizeof *c->page_table;
    const struct rows arrays[] = {{r->starts, {1, 1, 1}, {0, 0, 0}, r->starts ? (r->batch + 1) * word : 0},
                                  {r->positions, {1, 1, 1}, {0, 0, 0}, r->positions ? r->batch * word : 0},
                                  {c->page_table,
                                   {1, 1, c->page_table ? r->batch : 0},
                                   {0, 0, stride_bytes(c->table_stride, r->batch, sizeof *c->page_table)},
                                   c->pages_per_sequence * entry}};
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
    if ((uintptr_t)c % _Alignof(struct heed_kv_cache) || !memory_has(memory, c, sizeof *c))
        return false;
    if (r->batch > 1000 && r->tokens > 0 && c->num_kv_heads > 0)
        return false; /* legal, but long: each sequence is looked at */
    const __int128 bytes = ((batch - 1) * c->table_stride + c->pages_per_sequence) * (__int128)sizeof(int32_t);
    return bytes > PTRDIFF_MAX || memory_has(memory, c->page_table, bytes);
}

/* --- What is stored --- */

/* Bit by bit, but for a NaN that was computed. */
static void must_be(float got, float want, bool computed, const char *what, int64_t d) {
    if (memcmp(&got, &want, sizeof got) != 0 && !(computed && isnan(got) && isnan(want)))
        fuzz_fail("element %" PRId64 " of a %s is %.9g, not %.9g", d, what, (double)got, (double)want);
}

static enum marked check_token(const struct heed_kv_append *r, struct memory *memory, const struct token *token) {
    const struct heed_kv_cache *c = r->cache;
    const struct heed_rope *rope = &r->rope;
    (void)memory;
    for (int64_t d = 0; d < c->head_dim; d++) {
        const float *x = token->key;
        float want = x[d];
        if (d < 2 * rope->pairs) {
            const int64_t i = rope->interleaved ? d / 2 : d % rope->pairs;
            const float a = x[rope->interleaved ? 2 * i : i], b = x[rope->interleaved ? 2 * i + 1 : i + rope->pairs];
            const bool is_first = rope->interleaved ? d % 2 == 0 : d < rope->pairs;
            const float rounded = is_first ? b * token->sin[i] : a * token->sin[i];
            want = is_first ? fmaf(a, token->cos[i], -rounded) : fmaf(b, token->cos[i], rounded);
        }
        must_be(token->keys[d * token->width], want, d < 2 * rope->pairs, "key", d);
    }
    for (int64_t d = 0; d < token->padded; d++)
        must_be(token->values[d], d < c->value_dim ? token->value[d] : 0.0f, false, "value", d);
    return MARKED;
}

static void check_append(const struct memory *memory, const void *request) {
    (void)memory;
    const struct heed_kv_append *r = request;
    if (r->cache->num_kv_heads > 0 && r->cache->pages_per_sequence > 0)
        for_tokens(r, NULL, check_token);
}

/* --- Requests --- */

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
    float *data = memory_new(memory, name, n, sizeof *data, in);
    struct rng rng = rng_seeded(take(in, 2));
    fill(&rng, take_fill(in, false), data, n);
    view.data = data;
    if (r->starts)
        view.batch_stride = take_hostile(in);
    return view;
}

static void make_cache_of(struct input *in, struct memory *memory, int64_t batch, struct heed_kv_cache *c) {
    *c = (struct heed_kv_cache){.page_tokens = TAKE_OF(in, 16, 32, 48, 64, 80, 128),
                                .num_kv_heads = take_range(in, 0, 3),
                                .head_dim = take_range(in, 1, 40),
                                .value_dim = take_range(in, 1, 40),
                                .pages_per_sequence = take_range(in, 1, 3)};
    c->num_pages = batch * c->pages_per_sequence + take_range(in, 0, 1);
    c->data = memory_new(memory, "cache.data", c->num_pages * heed_kv_page_floats(c), sizeof *c->data, in);
    if (!take_chance(in, 2))
        return;
    const int64_t entries = batch * c->pages_per_sequence;
    int32_t *table = memory_new(memory, "cache.page_table", entries, sizeof *table, in);
    for (int32_t i = 0; i < entries; i++)
        table[i] = (int32_t)entries - 1 - i;
    c->page_table = table;
    c->table_stride = c->pages_per_sequence;
}

static void make_tokens(struct input *in, struct memory *memory, struct heed_kv_append *r) {
    r->tokens = take_chance(in, 4) ? take_range(in, 0, 200) : take_range(in, 0, 20);
    if (take_chance(in, 2)) {
        int64_t *starts = memory_new(memory, "starts", r->batch + 1, sizeof *starts, in);
        starts[0] = 0;
        for (int64_t b = 0; b < r->batch; b++)
            starts[b + 1] = starts[b] + take_range(in, 0, r->tokens - starts[b]);
        r->starts = starts;
    }
    if (take_chance(in, 4))
        return;
    int64_t *positions = memory_new(memory, "positions", r->batch, sizeof *positions, in);
    for (int64_t b = 0; b < r->batch; b++)
        positions[b] = take_range(in, 0, 400);
    r->positions = positions;
}

static void make_rope(struct input *in, struct memory *memory, struct heed_kv_append *r) {
    struct heed_rope *rope = &r->rope;
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
