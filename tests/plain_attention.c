#include "plain_attention.h"

#include "internal.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#define PLAIN_SCALE 0.3f

static void want_all(struct plain_attention *c) {
    struct heed_attention *r = &c->request;
    const int64_t rows = r->num_heads * r->query_tokens;
    c->chunks = ceil_div(r->key_tokens, HEED_CHUNK);
    c->scores = new_floats(rows * r->key_tokens);
    c->outputs = new_floats(rows * c->chunks * r->value_dim);
    c->max = new_floats(rows * c->chunks);
    c->sum = new_floats(rows * c->chunks);
    r->scores = (struct heed_output){c->scores, 0, r->query_tokens * r->key_tokens, r->key_tokens, HEED_F32};
    r->states.output =
        (struct heed_output){c->outputs, 0, r->query_tokens * c->chunks * r->value_dim, c->chunks * r->value_dim, HEED_F32};
    r->states.max = (struct heed_output){c->max, 0, r->query_tokens * c->chunks, c->chunks, HEED_F32};
    r->states.sum = (struct heed_output){c->sum, 0, r->query_tokens * c->chunks, c->chunks, HEED_F32};
}

struct plain_attention plain_attention_new(struct rng *rng, enum heed_compute compute) {
    struct plain_attention c = {.request = {.batch = 1,
                                            .num_kv_heads = rng_range(rng, 1, 2),
                                            .query_tokens = rng_range(rng, 1, 40),
                                            .key_tokens = rng_range(rng, 1, 400),
                                            .head_dim = rng_range(rng, 1, PLAIN_MOST_WIDTH),
                                            .value_dim = rng_range(rng, 1, PLAIN_MOST_WIDTH),
                                            .compute = compute,
                                            .causal = rng_range(rng, 0, 2),
                                            .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                                            .scale = PLAIN_SCALE}};
    struct heed_attention *r = &c.request;
    r->num_heads = r->num_kv_heads * rng_range(rng, 1, 2);
    r->window = (struct heed_window){rng_range(rng, 0, 1), 0, -1};
    r->window.left = r->window.on ? rng_range(rng, 0, 300) : 0;
    r->window.right = r->window.on ? -1 : 0;
    c.query = new_filled(rng, FILL_NORMAL, r->num_heads * r->query_tokens * r->head_dim);
    r->query = (struct heed_input){c.query, 0, r->query_tokens * r->head_dim, r->head_dim, HEED_F32};
    r->alibi_slopes = c.slopes = calloc((size_t)r->num_heads, sizeof *c.slopes);
    want_all(&c);
    return c;
}

void plain_attention_free(struct plain_attention *c) {
    float *const all[] = {c->query, c->scores, c->outputs, c->max, c->sum, c->slopes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

void plain_attention_run(const struct plain_attention *c, const char *what, const struct heed_kernels *table) {
    const struct heed_attention *r = &c->request;
    describe(what, table->name,
             "%lld queries, %lld keys, pages of %lld, %lld x %lld wide, %lld heads on %lld, %scausal, window %lld",
             (long long)r->query_tokens, (long long)r->key_tokens, r->cache ? (long long)r->cache->page_tokens : 0,
             (long long)r->head_dim, (long long)r->value_dim, (long long)r->num_heads, (long long)r->num_kv_heads,
             r->causal ? "" : "not ", r->window.on ? (long long)r->window.left : -1);
    ck_assert_msg(heed_attention(r, &(struct heed_exec){.isa = table->name}) == HEED_OK, "%s", heed_error_message());
}

int64_t plain_first_key(const struct plain_attention *c, int64_t row) {
    const struct heed_attention *r = &c->request;
    return row / r->query_tokens * r->num_kv_heads / r->num_heads * r->key_tokens;
}

void plain_query(const struct plain_attention *c, int64_t row, float *query) {
    for (int64_t d = 0; d < c->request.head_dim; d++)
        query[d] = c->query[row * c->request.head_dim + d] * PLAIN_SCALE;
}

void plain_weights(const struct heed_kernels *table, float *z, int64_t n) {
    const float log2e = 0x1.715476p+0f;
    float max = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        z[j] *= log2e;
        max = z[j] > max ? z[j] : max;
    }
    for (int64_t j = 0; j < n; j++)
        z[j] -= max;
    table->exp2(z, n, z);
}

/* Keys [*begin, *end) are what a query sees. */
static void find_range(const struct heed_attention *r, int64_t token, int64_t *begin, int64_t *end) {
    const int64_t position = token + r->key_tokens - r->query_tokens;
    *begin = r->window.on && position - r->window.left > 0 ? position - r->window.left : 0;
    *end = r->causal && position + 1 < r->key_tokens ? position + 1 : r->key_tokens;
}

void plain_attention_each(const struct plain_attention *c, void (*check)(const void *context, const struct plain_chunk *chunk),
                          const void *context) {
    const struct heed_attention *r = &c->request;
    for (int64_t row = 0; row < r->num_heads * r->query_tokens; row++) {
        int64_t begin, end;
        find_range(r, row % r->query_tokens, &begin, &end);
        for (int64_t number = 0; number < c->chunks; number++) {
            const int64_t start = number * HEED_CHUNK;
            const struct plain_chunk chunk = {row, number, max_i64(begin, start), min_i64(end, start + HEED_CHUNK)};
            if (chunk.begin < chunk.end)
                check(context, &chunk);
        }
    }
}
