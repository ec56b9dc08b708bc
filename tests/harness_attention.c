/* Attention requests for tests; harness_attention.h says what they are for. */
#include "harness_attention.h"

#include "internal.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const result_part_names[RESULT_PARTS] = {"output",       "weights",   "lse",       "scores",
                                                     "state output", "state max", "state sum", "mass"};

void *case_memory(struct attention_case *c, int64_t n, size_t size) {
    void *memory = calloc((size_t)n + 1, size);
    ck_assert(memory && c->owned_count < (int)(sizeof c->owned / sizeof *c->owned));
    return c->owned[c->owned_count++] = memory;
}

void free_attention_case(struct attention_case *c) {
    while (c->owned_count > 0)
        free(c->owned[--c->owned_count]);
}

float *values_of(const struct heed_input *input) { return (float *)(uintptr_t)input->data; }

/* --- Results --- */

int64_t chunks_of(const struct heed_attention *request) { return ceil_div(ref_columns(request), HEED_CHUNK); }

void result_size(const struct heed_attention *request, enum result_part part, int64_t size[4]) {
    const int64_t columns[RESULT_PARTS] = {request->value_dim,
                                           ref_columns(request),
                                           1,
                                           ref_columns(request),
                                           chunks_of(request) * request->value_dim,
                                           chunks_of(request),
                                           chunks_of(request),
                                           ref_columns(request)};
    size[0] = request->query_starts && part != MASS ? 1 : request->batch;
    size[1] = request->num_heads;
    size[2] = part == MASS ? 1 : request->query_tokens;
    size[3] = columns[part];
}

int64_t result_count(const struct heed_attention *request, enum result_part part) {
    int64_t size[4];
    result_size(request, part, size);
    return size[0] * size[1] * size[2] * size[3];
}

struct attention_result new_attention_result(const struct attention_case *c) {
    struct attention_result result;
    for (int part = 0; part < RESULT_PARTS; part++)
        result.part[part] = new_floats(result_count(&c->request, (enum result_part)part));
    return result;
}

void free_attention_result(struct attention_result *result) {
    for (int part = 0; part < RESULT_PARTS; part++)
        free(result->part[part]);
}

static void must_equal_part(enum result_part part, const float *got, const float *want, int64_t rows, int64_t columns) {
    const char *problem = compare(SAME_BITS, got, want, rows, columns);
    if (problem) {
        char text[2200];
        snprintf(text, sizeof text, "%s: %s", result_part_names[part], problem);
        must(text);
    }
}

void must_equal_attention(const struct attention_case *c, const struct attention_result *got, const struct attention_result *want) {
    for (int part = 0; part < RESULT_PARTS; part++) {
        int64_t size[4];
        result_size(&c->request, (enum result_part)part, size);
        if (c->wants[part])
            must_equal_part((enum result_part)part, got->part[part], want->part[part], size[0] * size[1] * size[2], size[3]);
    }
}

/* A row of the whole has as many columns or more. */
void must_equal_row(const struct attention_case *c, const struct attention_result *got, int64_t got_row,
                    const struct attention_case *whole, const struct attention_result *want, int64_t want_row) {
    for (int part = 0; part < MASS; part++) {
        int64_t size[4], whole_size[4];
        result_size(&c->request, (enum result_part)part, size);
        result_size(&whole->request, (enum result_part)part, whole_size);
        if (c->wants[part] && whole->wants[part])
            must_equal_part((enum result_part)part, got->part[part] + got_row * size[3],
                            want->part[part] + want_row * whole_size[3], 1, size[3]);
    }
}

/* --- Cases --- */

static int64_t pick(struct rng *rng, const int64_t *from, int64_t count) { return from[rng_range(rng, 0, count - 1)]; }

struct heed_attention random_attention_sizes(struct rng *rng, int64_t work) {
    static const int64_t widths[] = {16, 32, 64, 80, 96, 128, 256, 300},
                         edges[] = {63, 64, 65, 255, 256, 257, 384, 385, 511, 513, 700};
    static const float scales[] = {0, 0, 0.125f, 1, -0.3f, 1e-30f, 40};
    struct heed_attention s;
    do {
        s = (struct heed_attention){.batch = rng_range(rng, 0, 9) ? rng_range(rng, 1, 3) : 0,
                                    .num_kv_heads = rng_range(rng, 1, 3),
                                    .query_tokens = rng_range(rng, 0, 40),
                                    .key_tokens = rng_range(rng, 0, 40),
                                    .head_dim = rng_range(rng, 1, 20),
                                    .value_dim = rng_range(rng, 1, 20),
                                    .scale = scales[rng_range(rng, 0, 6)],
                                    .causal = rng_range(rng, 0, 2) > 0,
                                    .alignment = rng_range(rng, 0, 1) ? HEED_ALIGN_TOP_LEFT : HEED_ALIGN_BOTTOM_RIGHT};
        s.num_heads = s.num_kv_heads * rng_range(rng, 1, 4);
        if (rng_range(rng, 0, 3) == 0)
            s.head_dim = pick(rng, widths, 8);
        if (rng_range(rng, 0, 3) == 0)
            s.value_dim = rng_range(rng, 0, 1) ? s.head_dim : pick(rng, widths, 8);
        if (rng_range(rng, 0, 2) == 0)
            s.key_tokens = pick(rng, edges, 11);
        if (rng_range(rng, 0, 4) == 0)
            s.query_tokens = rng_range(rng, 0, 1) ? s.key_tokens : pick(rng, edges, 11);
    } while (s.batch * s.num_heads * s.query_tokens * s.key_tokens * (s.head_dim + s.value_dim) > work);
    return s;
}

/* A contiguous [batch, heads, tokens, width] tensor, or [heads, tokens, width] if packed. */
static struct heed_input new_input(struct attention_case *c, bool packed, int64_t heads, int64_t tokens, int64_t width,
                                   enum fill mode, struct rng *rng) {
    int64_t n = (packed ? 1 : c->request.batch) * heads * tokens * width;
    float *data = case_memory(c, n, sizeof *data);
    fill(rng, mode, data, n);
    return (struct heed_input){data, heads * tokens * width, tokens * width, width, HEED_F32};
}

struct attention_case new_attention_case(const struct heed_attention *sizes, enum fill query, enum fill key, enum fill value,
                                         struct rng *rng) {
    struct attention_case c = {.request = *sizes,
                               .wants = {[OUTPUT] = true, [WEIGHTS] = true, [LSE] = true},
                               .query_fill = query,
                               .key_fill = key,
                               .value_fill = value};
    c.request.query = new_input(&c, sizes->query_starts, sizes->num_heads, sizes->query_tokens, sizes->head_dim, query, rng);
    c.request.key = new_input(&c, sizes->key_starts, sizes->num_kv_heads, sizes->key_tokens, sizes->head_dim, key, rng);
    c.request.value = new_input(&c, sizes->key_starts, sizes->num_kv_heads, sizes->key_tokens, sizes->value_dim, value, rng);
    return c;
}

static enum fill often_normal(struct rng *rng) { return rng_range(rng, 0, 1) ? FILL_NORMAL : any_fill(rng); }

struct attention_case random_attention_case(struct rng *rng, int64_t work) {
    struct heed_attention sizes = random_attention_sizes(rng, work);
    enum fill query = often_normal(rng), key = often_normal(rng), value = often_normal(rng);
    return new_attention_case(&sizes, query, key, value, rng);
}

/* --- Slices --- */

static void slice_input(struct heed_input *input, bool packed, int64_t b, int64_t token) {
    input->data = (const float *)input->data + (packed ? 0 : b * input->batch_stride) + token * input->token_stride;
}

static int64_t element(int64_t b, int64_t i, int64_t j, int64_t batch_stride, int64_t query_stride, int64_t key_stride) {
    return b * batch_stride + i * query_stride + j * key_stride;
}

struct attention_case attention_slice(const struct attention_case *c, const struct slice *slice) {
    const struct heed_attention *whole = &c->request;
    const struct ref_sequence s = ref_sequence_of(whole, slice->b);
    const int64_t b = slice->b, i = slice->first_query, j = slice->first_key, keys_after = s.keys - (j + slice->keys);
    struct attention_case part = *c;
    struct heed_attention *r = &part.request;
    part.owned_count = 0;
    int64_t *offset = case_memory(&part, 1, sizeof *offset);
    *offset = s.offset + i;
    r->alignment = HEED_ALIGN_OFFSETS;
    r->query_offsets = offset;
    r->batch = 1;
    r->query_tokens = slice->queries;
    r->key_tokens = slice->keys;
    r->key_position += j;
    r->query_starts = r->key_starts = r->key_lengths = NULL;
    slice_input(&r->query, whole->query_starts, b, s.first_query + i);
    slice_input(&r->key, whole->key_starts, b, s.first_key + j);
    slice_input(&r->value, whole->key_starts, b, s.first_key + j);
    if (r->mask.data)
        r->mask.data += element(b, i, j, r->mask.batch_stride, r->mask.query_stride, r->mask.key_stride);
    if (r->bias.data)
        r->bias.data += element(b, i, j, r->bias.batch_stride, r->bias.query_stride, r->bias.key_stride);
    r->tree.words = r->tree.words && r->tree.keys > keys_after
                        ? r->tree.words + element(b, i, 0, r->tree.batch_stride, r->tree.query_stride, 0)
                        : NULL;
    r->tree.keys -= keys_after;
    part.wants[MASS] = false;
    return part;
}

struct key_range keys_in_reach(const struct heed_attention *request, int64_t b) {
    const struct ref_sequence s = ref_sequence_of(request, b);
    struct key_range range = {s.keys, 0};
    for (int64_t i = 0; i < s.queries; i++) {
        for (int64_t j = 0; j < s.keys; j++) {
            if (ref_sees(request, b, i, j)) {
                range.begin = min_i64(range.begin, j);
                range.end = max_i64(range.end, j + 1);
            }
        }
    }
    return range.end ? range : (struct key_range){0, 0};
}

int64_t keys_seen(const struct heed_attention *request, int64_t query) {
    int64_t seen = 0;
    while (seen < request->key_tokens && ref_sees(request, 0, query, seen))
        seen++;
    return seen;
}

void describe_attention(const struct attention_case *c, const char *name, const struct heed_exec *exec) {
    static const char *const kinds[] = {"full", "top-left", "bottom-right", "offsets"};
    const struct heed_attention *r = &c->request;
    describe(name, exec->isa ? exec->isa : "default",
             "B%lld H%lld KV%lld Q%lld K%lld D%lld V%lld %s, scale %g, %d threads, query %s, key %s, value %s%s%s%s",
             (long long)r->batch, (long long)r->num_heads, (long long)r->num_kv_heads, (long long)r->query_tokens,
             (long long)r->key_tokens, (long long)r->head_dim, (long long)r->value_dim,
             kinds[r->causal ? 1 + (int)r->alignment : 0], (double)r->scale, exec->threads, fill_name(c->query_fill),
             fill_name(c->key_fill), fill_name(c->value_fill), c->wants[WEIGHTS] ? ", weights" : "", c->wants[LSE] ? ", lse" : "",
             c->name);
}
