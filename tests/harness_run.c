/* Runs a request of harness_attention.h on guarded memory: every array that it points to is copied to pages of its own, with
 * strides, order and gaps of its own, and compared afterwards. */
#include "harness_attention.h"
#include "cache_sizes.h"
#include "harness_kv.h"

#include "internal.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* One run's memory. */
struct laid_out {
    struct heed_attention request;
    struct heed_kv_cache cache;
    struct tensor inputs[24]; /* nothing of them may change */
    int input_count;
    struct tensor outputs[RESULT_PARTS];
    struct attention_types types;
    struct rng *rng; /* NULL: plain layout */
};

static enum placement placement_of(const struct laid_out *l) { return l->rng ? any_placement(l->rng) : AT_END; }

static enum layout layout_of(const struct laid_out *l) {
    return l->rng ? (enum layout)rng_range(l->rng, 0, LAYOUTS - 1) : LAYOUT_BHSD;
}

static struct tensor *keep(struct laid_out *l, struct tensor tensor) {
    ck_assert_int_lt(l->input_count, (int)(sizeof l->inputs / sizeof *l->inputs));
    l->inputs[l->input_count] = tensor;
    return &l->inputs[l->input_count++];
}

/* Bytes at the very end, or start, of their pages. */
static void *lay_bytes(struct laid_out *l, const void *bytes, size_t n) {
    enum placement placement = placement_of(l);
    int64_t floats = ceil_div((int64_t)n, (int64_t)sizeof(float));
    size_t late = placement == AT_END ? (size_t)floats * sizeof(float) - n : 0;
    float *padded = new_floats(floats);
    memset(padded, 0xaa, (size_t)floats * sizeof *padded);
    memcpy((char *)padded + late, bytes, n);
    struct tensor *tensor = keep(l, matrix(1, floats, floats, placement, padded));
    free(padded);
    return (char *)tensor->data + late;
}

static const int64_t *lay_numbers(struct laid_out *l, const int64_t *numbers, int64_t n) {
    return numbers ? lay_bytes(l, numbers, (size_t)n * sizeof *numbers) : NULL;
}

static const float *lay_floats(struct laid_out *l, const float *floats, int64_t n) {
    return floats ? lay_bytes(l, floats, (size_t)n * sizeof *floats) : NULL;
}

/* Strides for dimensions in random order with random gaps; one that was broadcast remains so, or, seldom, is written out. */
static int64_t choose_strides(struct laid_out *l, const int64_t size[4], const int64_t from[4], bool keep_last, int64_t to[4]) {
    int order[4] = {3, 2, 1, 0}, first = keep_last ? 1 : 0;
    for (int i = 3; l->rng && i > first; i--) {
        int other = (int)rng_range(l->rng, first, i), swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
    int64_t extent = 1, stride = 1;
    for (int i = 0; i < 4; i++) {
        int d = order[i];
        bool broadcast = from[d] == 0 && !(l->rng && rng_range(l->rng, 0, 3) == 0);
        to[d] = broadcast ? 0 : stride;
        if (broadcast || size[d] == 0)
            continue;
        extent += (size[d] - 1) * stride;
        stride = size[d] * stride + (l->rng && !(keep_last && i == 0) ? rng_range(l->rng, 0, 2) : 0);
    }
    return extent;
}

/* A [size[0]]...[size[3]] tensor of elements of any type; strides are changed to the new ones. */
static void *lay_strided(struct laid_out *l, const void *data, size_t bytes, const int64_t size[4], int64_t stride[4],
                         bool keep_last) {
    int64_t to[4], extent = choose_strides(l, size, stride, keep_last, to);
    char *copy = malloc((size_t)(extent + 1) * bytes);
    ck_assert(copy);
    memset(copy, 0xff, (size_t)extent * bytes);
    for (int64_t b = 0; b < size[0]; b++)
        for (int64_t h = 0; h < size[1]; h++)
            for (int64_t i = 0; i < size[2]; i++)
                for (int64_t j = 0; j < size[3]; j++)
                    memcpy(copy + (size_t)(b * to[0] + h * to[1] + i * to[2] + j * to[3]) * bytes,
                           (const char *)data + (size_t)(b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]) * bytes,
                           bytes);
    void *laid = lay_bytes(l, copy, (size_t)extent * bytes);
    free(copy);
    memcpy(stride, to, sizeof to);
    return laid;
}

static struct heed_input lay_halves(struct laid_out *l, const float *values, const int64_t size[4], enum heed_type type) {
    const int64_t n = size[0] * size[1] * size[2] * size[3];
    int64_t stride[4] = {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1};
    uint16_t *halves = malloc((size_t)(n + 1) * sizeof *halves);
    ck_assert(halves);
    for (int64_t i = 0; i < n; i++)
        halves[i] = half_of(type, values[i]);
    const void *laid = lay_strided(l, halves, sizeof *halves, size, stride, true);
    free(halves);
    return (struct heed_input){laid, stride[0], stride[1], stride[2], type};
}

static struct heed_input lay_input(struct laid_out *l, const struct heed_input *from, int64_t batch, int64_t heads, int64_t tokens,
                                   int64_t width, enum heed_type type) {
    const int64_t size[4] = {batch, heads, tokens, width};
    float *values = new_floats(batch * heads * tokens * width), *to = values;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < tokens; t++, to += width)
                memcpy(to, (const float *)from->data + b * from->batch_stride + h * from->head_stride + t * from->token_stride,
                       (size_t)width * sizeof *to);
    if (type != HEED_F32) {
        const struct heed_input halves = lay_halves(l, values, size, type);
        free(values);
        return halves;
    }
    struct tensor *tensor = keep(l, tensor_input(size, layout_of(l), placement_of(l), values));
    free(values);
    return (struct heed_input){tensor->data, tensor->stride[0], tensor->stride[1], tensor->stride[2], HEED_F32};
}

/* --- The parts of a request --- */

/* Queries of the longest sequence: as many rows have masks and biases. */
static int64_t longest_queries(const struct heed_attention *request) {
    int64_t longest = 0;
    for (int64_t b = 0; b < request->batch; b++)
        longest = max_i64(longest, ref_sequence_of(request, b).queries);
    return longest;
}

static void lay_options(struct laid_out *l, const struct heed_attention *from) {
    struct heed_attention *r = &l->request;
    const int64_t size[4] = {r->batch, r->num_heads, longest_queries(from), ref_columns(from)};
    r->query_starts = lay_numbers(l, r->query_starts, r->batch + 1);
    r->key_starts = lay_numbers(l, r->key_starts, r->batch + 1);
    r->key_lengths = lay_numbers(l, r->key_lengths, r->batch);
    r->query_offsets = lay_numbers(l, r->query_offsets, r->batch);
    r->alibi_slopes = lay_floats(l, r->alibi_slopes, r->num_heads);
    r->sinks = lay_floats(l, r->sinks, r->num_heads);
    if (r->mask.data) {
        int64_t stride[4] = {r->mask.batch_stride, r->mask.head_stride, r->mask.query_stride, r->mask.key_stride};
        const uint8_t *data = lay_strided(l, r->mask.data, 1, size, stride, false);
        r->mask = (struct heed_mask){data, stride[0], stride[1], stride[2], stride[3]};
    }
    if (r->bias.data) {
        int64_t stride[4] = {r->bias.batch_stride, r->bias.head_stride, r->bias.query_stride, r->bias.key_stride};
        const float *data = lay_strided(l, r->bias.data, sizeof *data, size, stride, false);
        r->bias = (struct heed_bias){data, stride[0], stride[1], stride[2], stride[3]};
    }
    if (r->tree.words) {
        int64_t stride[4] = {0, r->tree.batch_stride, r->tree.query_stride, 1}, words = ceil_div(r->tree.keys, 64);
        const int64_t tree_size[4] = {1, size[0], size[2], words};
        r->tree.words = lay_strided(l, r->tree.words, sizeof *r->tree.words, tree_size, stride, true);
        r->tree.batch_stride = stride[1], r->tree.query_stride = stride[2];
    }
    if (r->relative.table) {
        int64_t stride[4] = {0, 0, r->relative.head_stride, r->relative.bucket_stride};
        const int64_t table_size[4] = {1, 1, r->num_heads, r->relative.num_buckets};
        r->relative.table = lay_strided(l, r->relative.table, sizeof *r->relative.table, table_size, stride, false);
        r->relative.head_stride = stride[2], r->relative.bucket_stride = stride[3];
    }
}

static void lay_outputs(struct laid_out *l, const struct heed_attention *from, const bool wants[RESULT_PARTS]) {
    struct heed_attention *r = &l->request;
    struct heed_output *const views[RESULT_PARTS] = {&r->output,        &r->weights,    &r->lse,        &r->scores,
                                                     &r->states.output, &r->states.max, &r->states.sum, &r->mass};
    for (int part = 0; part < RESULT_PARTS; part++) {
        int64_t size[4];
        result_size(from, (enum result_part)part, size);
        if (part == OUTPUT && l->types.output != HEED_F32)
            size[3] = ceil_div(size[3], 2);
        struct tensor *t = &l->outputs[part];
        *t = tensor_output(size, layout_of(l), placement_of(l));
        if (wants[part])
            *views[part] = (struct heed_output){t->data, t->stride[0], t->stride[1], t->stride[2], HEED_F32};
    }
    if (wants[OUTPUT] && l->types.output != HEED_F32) {
        const struct heed_output floats = r->output;
        r->output = (struct heed_output){floats.data, 2 * floats.batch_stride, 2 * floats.head_stride, 2 * floats.token_stride,
                                         l->types.output};
    }
}

/* --- A cache, written by the layout that heed.h gives --- */

/* Pages for `positions` of each sequence: numbers are dealt at random, and there are more than needed. */
static void choose_pages(struct laid_out *l, const struct attention_way *way, int64_t positions, int64_t ring) {
    struct heed_kv_cache *cache = &l->cache;
    const bool paged = way->cache == CACHE_PAGED;
    cache->page_tokens = paged ? way->page_tokens : round_up(max_i64(1, way->cache == CACHE_RING ? ring : positions), 16);
    cache->pages_per_sequence = paged ? ceil_div(max_i64(1, positions), cache->page_tokens) : 1;
    cache->table_stride = cache->pages_per_sequence + (paged ? 1 : 0);
    cache->num_pages = l->request.batch * cache->pages_per_sequence + (paged ? 2 : 0);
}

static int32_t *deal_pages(struct laid_out *l) {
    const struct heed_kv_cache *cache = &l->cache;
    int32_t *numbers = malloc((size_t)(cache->num_pages + 1) * sizeof *numbers);
    ck_assert(numbers);
    for (int64_t i = 0; i < cache->num_pages; i++)
        numbers[i] = (int32_t)i;
    for (int64_t i = cache->num_pages - 1; l->rng && i > 0; i--) {
        int64_t other = rng_range(l->rng, 0, i);
        int32_t swap = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = swap;
    }
    return numbers;
}

/* Writes the keys in reach of sequence b; pages without any have no legal number in the table. */
static void fill_sequence(const struct heed_kv_cache *cache, const struct heed_attention *from, int64_t b, int32_t *table) {
    const struct ref_sequence s = ref_sequence_of(from, b);
    const struct key_range reach = keys_in_reach(from, b);
    bool *used = calloc((size_t)cache->pages_per_sequence, sizeof *used);
    ck_assert(used);
    for (int64_t j = reach.begin; j < reach.end; j++) {
        const int64_t position = from->key_position + j;
        used[position / cache->page_tokens % cache->pages_per_sequence] = true;
        for (int64_t h = 0; h < cache->num_kv_heads; h++) {
            kv_put_key(cache, b, h, position,
                       (const float *)from->key.data + (from->key_starts ? 0 : b * from->key.batch_stride) +
                           h * from->key.head_stride + (s.first_key + j) * from->key.token_stride);
            kv_put_value(cache, b, h, position,
                         (const float *)from->value.data + (from->key_starts ? 0 : b * from->value.batch_stride) +
                             h * from->value.head_stride + (s.first_key + j) * from->value.token_stride);
        }
    }
    for (int64_t page = 0; page < cache->pages_per_sequence; page++)
        table[page] = used[page] ? table[page] : page % 2 ? -1 : INT32_MAX;
    free(used);
}

/* Packed keys have no place in a cache: their number in each sequence becomes its length. */
static void lay_lengths(struct laid_out *l, const struct heed_attention *from) {
    struct heed_attention *r = &l->request;
    int64_t *lengths = malloc((size_t)(r->batch + 1) * sizeof *lengths);
    ck_assert(lengths);
    for (int64_t b = 0; b < r->batch; b++)
        lengths[b] = ref_sequence_of(from, b).keys;
    r->key_lengths = from->key_starts || from->key_lengths ? lengths : NULL;
    r->key_lengths = lay_numbers(l, r->key_lengths, r->batch);
    r->key_tokens = ref_columns(from);
    r->key_starts = NULL;
    r->key = r->value = (struct heed_input){0};
    free(lengths);
}

static float *new_poison(int64_t n) {
    const uint32_t bits = POISON;
    float *x = new_floats(n);
    for (int64_t i = 0; i < n; i++)
        memcpy(x + i, &bits, sizeof bits);
    return x;
}

static void lay_cache(struct laid_out *l, const struct attention_way *way, const struct heed_attention *from) {
    struct heed_attention *r = &l->request;
    int64_t ring = 0;
    l->cache = (struct heed_kv_cache){.key_type = l->types.key,
                                      .value_type = l->types.value,
                                      .num_kv_heads = r->num_kv_heads,
                                      .head_dim = r->head_dim,
                                      .value_dim = r->value_dim,
                                      .key_channel_scales = way->key_channel_scales};
    for (int64_t b = 0; b < r->batch; b++)
        ring = max_i64(ring, ref_sequence_of(from, b).keys - keys_in_reach(from, b).begin);
    choose_pages(l, way, from->key_position + ref_columns(from), ring);
    const int64_t page = heed_kv_page_bytes(&l->cache) / (int64_t)sizeof(float), per_sequence = l->cache.pages_per_sequence;
    int32_t *numbers = deal_pages(l), *table = calloc((size_t)(r->batch * l->cache.table_stride + 1), sizeof *table);
    float *data = new_poison(l->cache.num_pages * page);
    struct heed_kv_cache filled = l->cache;
    filled.data = data;
    filled.page_table = table;
    ck_assert(table && page > 0);
    for (int64_t b = 0; b < r->batch; b++) {
        for (int64_t p = 0; p < per_sequence; p++)
            table[b * l->cache.table_stride + p] =
                way->cache == CACHE_PAGED ? numbers[b * per_sequence + p] : (int32_t)(b * per_sequence + p);
        fill_sequence(&filled, from, b, table + b * l->cache.table_stride);
    }
    l->cache.data = keep(l, matrix(l->cache.num_pages, page, page, placement_of(l), data))->data;
    if (way->cache == CACHE_PAGED)
        l->cache.page_table = lay_bytes(l, table, (size_t)(r->batch * l->cache.table_stride) * sizeof *table);
    l->cache.key_channel_scales = lay_floats(l, way->key_channel_scales, r->num_kv_heads * r->head_dim);
    r->cache = &l->cache;
    free(numbers);
    free(table);
    free(data);
}

/* --- The run --- */

static enum heed_type bytes_only(enum heed_type type) { return type == HEED_I8 ? HEED_I8 : HEED_F32; }

static void lay_out(struct laid_out *l, const struct attention_case *c, const struct attention_way *asked, struct rng *rng) {
    const struct heed_attention *from = &c->request;
    struct heed_attention *r = &l->request;
    const bool bytes = c->types.key == HEED_I8 || c->types.value == HEED_I8;
    const struct attention_way way = {.cache = bytes && asked->cache == CACHE_NONE ? CACHE_LINEAR : asked->cache,
                                      .page_tokens = asked->page_tokens,
                                      .key_channel_scales = asked->key_channel_scales};
    *l = (struct laid_out){.request = *from, .rng = rng};
    if (rng)
        l->types = c->types;
    else
        l->types = (struct attention_types){.key = bytes_only(c->types.key), .value = bytes_only(c->types.value)};
    lay_options(l, from);
    lay_outputs(l, from, c->wants);
    r->query =
        lay_input(l, &from->query, from->query_starts ? 1 : r->batch, r->num_heads, r->query_tokens, r->head_dim, l->types.query);
    if (way.cache == CACHE_NONE) {
        const int64_t batch = from->key_starts ? 1 : r->batch;
        r->key = lay_input(l, &from->key, batch, r->num_kv_heads, r->key_tokens, r->head_dim, l->types.key);
        r->value = lay_input(l, &from->value, batch, r->num_kv_heads, r->key_tokens, r->value_dim, l->types.value);
    } else {
        lay_lengths(l, from);
        lay_cache(l, &way, from);
    }
}

/* The workspace has no byte more than the plan says, and anything in it. */
static enum heed_status plan_and_run(const struct heed_attention *request, const struct heed_exec *exec) {
    struct heed_plan plan;
    if (heed_attention_plan(request, exec, &plan) != HEED_OK)
        return HEED_INVALID_ARGUMENT;
    struct buffer workspace =
        buffer_new(ceil_div(plan.workspace_bytes, (int64_t)sizeof(float)), plan.workspace_bytes % 64 ? AT_START : AT_END);
    enum heed_status status = heed_attention_run(&plan, NULL, workspace.data);
    buffer_free(&workspace);
    return status;
}

static bool belongs_to_a_sequence(const struct heed_attention *request, int64_t token) {
    bool belongs = !request->query_starts;
    for (int64_t b = 0; b < request->batch && !belongs; b++)
        belongs = token >= request->query_starts[b] && token < request->query_starts[b + 1];
    return belongs;
}

/* Packed rows that belong to no sequence must be as they were, and count as written. */
static const char *check_rows_between(const struct heed_attention *request, struct tensor *t) {
    const uint32_t poison = POISON;
    for (int64_t n = 0; n < t->size[1] * t->size[2]; n++) {
        float *row = t->data + n / t->size[2] * t->stride[1] + n % t->size[2] * t->stride[2];
        if (belongs_to_a_sequence(request, n % t->size[2]))
            continue;
        for (int64_t j = 0; j < t->size[3]; j++) {
            if (memcmp(row + j, &poison, sizeof poison) != 0)
                return "wrote a row that belongs to no sequence";
            row[j] = 0;
        }
    }
    return NULL;
}

static void take_results(struct laid_out *l, const struct attention_case *c, struct attention_result *result) {
    for (int part = 0; part < RESULT_PARTS; part++) {
        struct tensor *t = &l->outputs[part];
        const bool halves = c->wants[part] && part == OUTPUT && l->types.output != HEED_F32;
        if (halves)
            must(check_row_ends(t, c->request.value_dim));
        if (c->wants[part] && c->request.query_starts && part != MASS)
            must(check_rows_between(&c->request, t));
        if (halves)
            must(take_halves(t, l->types.output, c->request.value_dim, result->part[part]));
        else
            must(c->wants[part] ? tensor_take(t, result->part[part]) : tensor_unchanged(t));
        tensor_free(t);
    }
    for (int i = 0; i < l->input_count; i++) {
        must(tensor_unchanged(&l->inputs[i]));
        tensor_free(&l->inputs[i]);
    }
}

void run_attention_way(const struct attention_case *c, const struct attention_way *way, struct rng *rng,
                       struct attention_result *result) {
    struct laid_out l;
    lay_out(&l, c, way, rng);
    heed_cache_sizes_set((struct heed_cache_sizes){way->small_caches, way->small_caches}, way->small_caches);
    if ((way->planned ? plan_and_run(&l.request, &way->exec) : heed_attention(&l.request, &way->exec)) != HEED_OK)
        must(heed_error_message());
    heed_cache_sizes_set((struct heed_cache_sizes){0, 0}, 0);
    take_results(&l, c, result);
}

void run_attention(const struct attention_case *c, const struct heed_exec *exec, struct rng *rng, struct attention_result *result) {
    run_attention_way(c, &(struct attention_way){.exec = *exec}, rng, result);
}
