/* Attention requests for tests; harness_attention.h says what they are for. */
#include "harness_attention.h"

#include "reference/reference.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

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

struct attention_case new_attention_case(const struct heed_attention *sizes, enum fill query, enum fill key, enum fill value,
                                         struct rng *rng) {
    int64_t queries = sizes->batch * sizes->num_heads * sizes->query_tokens,
            keys = sizes->batch * sizes->num_kv_heads * sizes->key_tokens;
    return (struct attention_case){.sizes = *sizes,
                                   .query = new_filled(rng, query, queries * sizes->head_dim),
                                   .key = new_filled(rng, key, keys * sizes->head_dim),
                                   .value = new_filled(rng, value, keys * sizes->value_dim),
                                   .query_fill = query,
                                   .key_fill = key,
                                   .value_fill = value,
                                   .wants_weights = true,
                                   .wants_lse = true};
}

static enum fill often_normal(struct rng *rng) { return rng_range(rng, 0, 1) ? FILL_NORMAL : any_fill(rng); }

struct attention_case random_attention_case(struct rng *rng, int64_t work) {
    struct heed_attention sizes = random_attention_sizes(rng, work);
    enum fill query = often_normal(rng), key = often_normal(rng), value = often_normal(rng);
    return new_attention_case(&sizes, query, key, value, rng);
}

void free_attention_case(struct attention_case *c) {
    free(c->query);
    free(c->key);
    free(c->value);
}

void describe_attention(const struct attention_case *c, const char *name, const struct heed_exec *exec) {
    static const char *const kinds[] = {"full", "top-left", "bottom-right"};
    const struct heed_attention *s = &c->sizes;
    describe(name, exec->isa ? exec->isa : "default",
             "B%lld H%lld KV%lld Q%lld K%lld D%lld V%lld %s, scale %g, %d threads, query %s, key %s, value %s%s%s",
             (long long)s->batch, (long long)s->num_heads, (long long)s->num_kv_heads, (long long)s->query_tokens,
             (long long)s->key_tokens, (long long)s->head_dim, (long long)s->value_dim,
             kinds[s->causal ? 1 + (int)s->alignment : 0], (double)s->scale, exec->threads, fill_name(c->query_fill),
             fill_name(c->key_fill), fill_name(c->value_fill), c->wants_weights ? ", weights" : "", c->wants_lse ? ", lse" : "");
}

int64_t keys_seen(const struct heed_attention *sizes, int64_t query) {
    int64_t seen = 0;
    while (seen < sizes->key_tokens && ref_sees(sizes, 0, query, seen))
        seen++;
    return seen;
}

int64_t attention_rows(const struct attention_case *c) { return c->sizes.batch * c->sizes.num_heads * c->sizes.query_tokens; }

struct attention_result new_attention_result(const struct attention_case *c) {
    int64_t rows = attention_rows(c);
    return (struct attention_result){new_floats(rows * c->sizes.value_dim), new_floats(rows * c->sizes.key_tokens),
                                     new_floats(rows)};
}

void free_attention_result(struct attention_result *result) {
    free(result->output);
    free(result->weights);
    free(result->lse);
}

static struct tensor input_tensor(struct rng *rng, int64_t batch, int64_t heads, int64_t rows, int64_t columns,
                                  const float *values) {
    enum layout layout = rng ? (enum layout)rng_range(rng, 0, LAYOUTS - 1) : LAYOUT_BHSD;
    return tensor_input((int64_t[]){batch, heads, rows, columns}, layout, rng ? any_placement(rng) : AT_END, values);
}

static struct tensor output_tensor(struct rng *rng, int64_t batch, int64_t heads, int64_t rows, int64_t columns) {
    enum layout layout = rng ? (enum layout)rng_range(rng, 0, LAYOUTS - 1) : LAYOUT_BHSD;
    return tensor_output((int64_t[]){batch, heads, rows, columns}, layout, rng ? any_placement(rng) : AT_END);
}

static struct heed_input as_input(const struct tensor *t) {
    return (struct heed_input){t->data, t->stride[0], t->stride[1], t->stride[2]};
}

static struct heed_output as_output(const struct tensor *t) {
    return (struct heed_output){t->data, t->stride[0], t->stride[1], t->stride[2]};
}

void run_attention(const struct attention_case *c, const struct heed_exec *exec, struct rng *rng, struct attention_result *result) {
    struct heed_attention a = c->sizes;
    struct tensor query = input_tensor(rng, a.batch, a.num_heads, a.query_tokens, a.head_dim, c->query);
    struct tensor key = input_tensor(rng, a.batch, a.num_kv_heads, a.key_tokens, a.head_dim, c->key);
    struct tensor value = input_tensor(rng, a.batch, a.num_kv_heads, a.key_tokens, a.value_dim, c->value);
    struct tensor output = output_tensor(rng, a.batch, a.num_heads, a.query_tokens, a.value_dim);
    struct tensor weights = output_tensor(rng, a.batch, a.num_heads, a.query_tokens, a.key_tokens);
    struct tensor lse = output_tensor(rng, a.batch, a.num_heads, a.query_tokens, 1);
    a.query = as_input(&query);
    a.key = as_input(&key);
    a.value = as_input(&value);
    a.output = as_output(&output);
    if (c->wants_weights)
        a.weights = as_output(&weights);
    if (c->wants_lse)
        a.lse = as_output(&lse);
    if (heed_attention(&a, exec) != HEED_OK)
        must(heed_error_message());
    must(tensor_take(&output, result->output));
    must(c->wants_weights ? tensor_take(&weights, result->weights) : tensor_unchanged(&weights));
    must(c->wants_lse ? tensor_take(&lse, result->lse) : tensor_unchanged(&lse));
    must(tensor_unchanged(&query));
    must(tensor_unchanged(&key));
    must(tensor_unchanged(&value));
    struct tensor *const all[] = {&query, &key, &value, &output, &weights, &lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

void must_equal_attention(const struct attention_case *c, const struct attention_result *got, const struct attention_result *want) {
    int64_t rows = attention_rows(c);
    must(compare(SAME_BITS, got->output, want->output, rows, c->sizes.value_dim));
    if (c->wants_weights)
        must(compare(SAME_BITS, got->weights, want->weights, rows, c->sizes.key_tokens));
    if (c->wants_lse)
        must(compare(SAME_BITS, got->lse, want->lse, rows, 1));
}
