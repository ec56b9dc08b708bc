/* What inference engines test their attention with: the parameters of ggml's test_flash_attn_ext (tests/test-backend-ops.cpp) and
 * the graphs of oneDNN's benchdnn (tests/benchdnn/inputs/graph/complex_fusion/mha), as far as they are of floats, against heed's
 * oracle. */
#include "conformance.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>

/* One point of ggml's grid, with its names. */
struct flash_case {
    int64_t hsk, hsv, nh, nr2, nr3, kv, nb;
    bool mask, sinks, permuted, value_is_key;
    float max_bias, softcap;
};

static int64_t any_of(struct rng *rng, const int64_t *from, int64_t count) { return from[rng_range(rng, 0, count - 1)]; }

/* ggml's grid has tens of thousands of points; each of its values comes up in some of those drawn here.  Sinks and max_bias come
 * with a mask, softcap with a head size of 128. */
static struct flash_case any_flash_case(struct rng *rng, int64_t most_work) {
    static const int64_t sizes[][2] = {{40, 40},   {64, 64},   {72, 72},   {80, 80},   {96, 96},   {128, 128}, {192, 192},
                                       {192, 128}, {256, 256}, {320, 256}, {512, 512}, {576, 512}, {576, 512}};
    static const int64_t lengths[] = {113, 512, 1024}, queries[] = {1, 3, 32, 75}, groups[] = {1, 4, 8, 12, 16, 20, 32};
    struct flash_case c;
    do {
        const int64_t *size = sizes[rng_range(rng, 0, 12)];
        c = (struct flash_case){.hsk = size[0], .hsv = size[1], .kv = any_of(rng, lengths, 3), .nb = any_of(rng, queries, 4)};
        c.nh = rng_range(rng, 0, 1) ? 4 : 1;
        c.nr2 = any_of(rng, groups, 7);
        c.nr3 = rng_range(rng, 0, 1) ? 3 : 1;
        c.mask = rng_range(rng, 0, 4) > 0;
        c.sinks = c.mask && rng_range(rng, 0, 1);
        c.max_bias = c.mask && rng_range(rng, 0, 1) ? 8 : 0;
        c.softcap = c.hsk == 128 && rng_range(rng, 0, 1) ? 10 : 0;
        c.permuted = rng_range(rng, 0, 1);
        c.value_is_key = c.hsk == 576;
    } while (c.nh * c.nr2 * c.nr3 * c.nb * c.kv * (c.hsk + c.hsv) > most_work);
    return c;
}

static void fill_uniform(struct rng *rng, float *x, int64_t n, int64_t most) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_range(rng, -most * 0x100000, most * 0x100000) * 0x1p-20f;
}

/* Uniform in [-1, 1], with blocks of 64 queries x 128 keys of -inf or 0 over about a tenth of it. */
static void fill_mask(struct rng *rng, float *mask, int64_t rows, int64_t keys) {
    fill_uniform(rng, mask, rows * keys, 1);
    for (int64_t block = rows * keys / (64 * 128 * 10) + 1; block > 0; block--) {
        const int64_t row = rng_range(rng, 0, rows - 1), key = rng_range(rng, 0, keys - 1);
        const float value = rng_range(rng, 0, 1) ? 0 : -INFINITY;
        for (int64_t i = row; i < min_i64(rows, row + 64); i++)
            for (int64_t j = key; j < min_i64(keys, key + 128); j++)
                mask[i * keys + j] = value;
    }
}

/* ggml's ALiBi slopes, for any number of heads. */
static float slope(int64_t head, int64_t heads, float max_bias) {
    int64_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    return head < n ? exp2f(-max_bias / (float)n * (float)(head + 1))
                    : exp2f(-max_bias / 2 / (float)n * (float)(2 * (head - n) + 1));
}

/* [batch, heads, tokens, width] in this order, or permuted {0, 2, 1, 3}: [batch, tokens, heads, width]. */
static struct heed_input layout(const float *data, bool permuted, int64_t heads, int64_t tokens, int64_t width) {
    return permuted ? (struct heed_input){data, tokens * heads * width, width, heads * width, HEED_F32}
                    : (struct heed_input){data, heads * tokens * width, tokens * width, width, HEED_F32};
}

/* ggml multiplies the mask by a head's slope and adds that; heed is given the product as a bias, and, in a second request,
 * distances as slopes.  Keys and values of 576 and 512 are the same memory, as in multi-head latent attention. */
static void check_flash(const struct flash_case *c, struct rng *rng, struct conformance *set) {
    const int64_t heads = c->nh * c->nr2, bias_heads = c->max_bias > 0 ? heads : 1, rows = c->nb * c->kv;
    const int64_t sizes[] = {c->nr3 * heads * c->nb * c->hsk, c->nr3 * c->nh * c->kv * c->hsk, c->nr3 * c->nh * c->kv * c->hsv};
    float *query = new_floats(sizes[0]), *key = new_floats(sizes[1]), *value = new_floats(sizes[2]), *mask = new_floats(rows),
          *bias = new_floats(bias_heads * rows), *slopes = new_floats(heads), *sinks = new_floats(heads);
    fill_uniform(rng, query, sizes[0], 1);
    fill_uniform(rng, key, sizes[1], 1);
    fill_uniform(rng, value, sizes[2], 1);
    fill_uniform(rng, sinks, heads, 10);
    fill_mask(rng, mask, c->nb, c->kv);
    for (int64_t h = 0; h < heads; h++)
        slopes[h] = slope(h, heads, c->max_bias);
    for (int64_t i = 0; i < bias_heads * rows; i++)
        bias[i] = (c->max_bias > 0 ? slopes[i / rows] : 1) * mask[i % rows];
    struct heed_attention a = {
        .batch = c->nr3, .num_heads = heads, .num_kv_heads = c->nh, .query_tokens = c->nb, .softcap = c->softcap};
    a.key_tokens = c->kv;
    a.head_dim = c->hsk;
    a.value_dim = c->hsv;
    a.query = layout(query, c->permuted, heads, c->nb, c->hsk);
    a.key = layout(key, c->permuted, c->nh, c->kv, c->hsk);
    a.value = c->value_is_key ? a.key : layout(value, c->permuted, c->nh, c->kv, c->hsv);
    a.sinks = c->sinks ? sinks : NULL;
    if (c->mask)
        a.bias = (struct heed_bias){bias, 0, c->max_bias > 0 ? rows : 0, c->kv, 1};
    describe("ggml", "best", "hsk %d hsv %d nh %d nr2 %d nr3 %d kv %d nb %d mask %d sinks %d max_bias %g softcap %g permuted %d",
             (int)c->hsk, (int)c->hsv, (int)c->nh, (int)c->nr2, (int)c->nr3, (int)c->kv, (int)c->nb, c->mask, c->sinks,
             (double)c->max_bias, (double)c->softcap, c->permuted);
    check_conformance(&a, set);
    if (c->max_bias > 0) {
        a.bias = (struct heed_bias){.data = NULL};
        a.alibi_slopes = slopes;
        a.causal = true;
        a.alignment = HEED_ALIGN_BOTTOM_RIGHT;
        check_conformance(&a, set);
    }
    float *const all[] = {query, key, value, mask, bias, slopes, sinks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(test_ggml) {
    struct conformance set = {.name = "ggml"};
    struct rng rng = rng_fixed("ggml");
    for (int64_t i = 0; i < (test_quick() ? 6 : 120); i++) {
        const struct flash_case c = any_flash_case(&rng, test_quick() ? 10000000 : 400000000);
        check_flash(&c, &rng, &set);
    }
    print_conformance(&set);
}
END_TEST

/* A benchdnn graph.  Scores are multiplied by a factor or divided by one: the same to heed. */
struct graph {
    const char *name;
    int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
    enum { PLAIN, SELECT, ADD, CAUSAL } mask;
    int mask_rank; /* sizes of the mask: 1 keys, 2 queries x keys, 3 heads x queries x keys; each batch's own if negative */
};

/* Batches of 32 and 56 are cut down to 2. */
static const struct graph graphs[] = {
    {"GPT", 1, 16, 16, 32, 33, 256, 256, SELECT, 2},
    {"GPT, added", 1, 16, 16, 32, 33, 256, 256, ADD, -2},
    {"LLaMa", 1, 32, 32, 32, 33, 128, 128, ADD, -2},
    {"bert_large", 1, 16, 16, 384, 384, 64, 64, ADD, -1},
    {"distill_bert", 1, 12, 12, 128, 128, 64, 64, SELECT, -1},
    {"stable_diffusion, itself", 2, 8, 8, 1024, 1024, 80, 80, PLAIN, 0},
    {"stable_diffusion, text", 2, 8, 8, 1024, 77, 80, 80, PLAIN, 0},
    {"starcoder", 1, 48, 1, 117, 117, 128, 128, SELECT, -2},
    {"GQA", 2, 16, 2, 384, 384, 64, 64, ADD, -2},
    {"JAX MHA", 2, 16, 16, 384, 384, 64, 64, PLAIN, 0},
    {"JAX MQA", 2, 16, 1, 384, 384, 64, 64, ADD, 2},
    {"sdpa-plain, mask 384", 1, 16, 16, 384, 384, 64, 64, ADD, 1},
    {"sdpa-plain, mask 384x384", 1, 16, 16, 384, 384, 64, 64, ADD, 2},
    {"sdpa-plain, mask 1x16x384x384", 1, 16, 16, 384, 384, 64, 64, ADD, 3},
    {"sdpa-plain-wo-mask", 1, 16, 16, 384, 384, 64, 64, PLAIN, 0},
    {"sdpa-plain-implicit-causal", 1, 16, 16, 384, 384, 64, 64, CAUSAL, 0},
    {"value 32 wide", 1, 16, 16, 384, 384, 64, 32, PLAIN, 0},
    {"value 128 wide", 1, 16, 16, 384, 384, 64, 128, PLAIN, 0},
    {"phi3, 384 keys", 1, 32, 32, 1, 384, 96, 96, ADD, -2},
    {"phi3, 513 keys", 1, 32, 32, 1, 513, 96, 96, ADD, -2},
    {"phi3, 1025 keys", 1, 32, 32, 1, 1025, 96, 96, ADD, -2},
    {"llama2, 385 keys", 1, 32, 32, 1, 385, 128, 128, ADD, -2},
    {"llama2, 512 keys", 1, 32, 32, 1, 512, 128, 128, ADD, -2},
    {"llama2, 1024 keys", 1, 32, 32, 1, 1024, 128, 128, ADD, -2},
    {"llama2, prefill", 1, 32, 32, 385, 385, 128, 128, CAUSAL, 0},
};

static void check_graph(const struct graph *g, struct conformance *set) {
    struct rng rng = rng_fixed(g->name);
    const int64_t q = g->batch * g->heads * g->queries * g->head_dim, k = g->batch * g->kv_heads * g->keys;
    const int rank = g->mask_rank < 0 ? -g->mask_rank : g->mask_rank;
    const int64_t row = rank > 1 ? g->keys : 0, head = rank > 2 ? g->queries * g->keys : 0;
    const int64_t batch = g->mask_rank < 0 ? (rank > 1 ? g->queries : 1) * g->keys : 0;
    const int64_t n = g->batch * g->heads * g->queries * g->keys;
    if (conformance_skips(n * (g->head_dim + g->value_dim)))
        return;
    float *query = new_filled(&rng, FILL_NORMAL, q), *key = new_filled(&rng, FILL_NORMAL, k * g->head_dim),
          *value = new_filled(&rng, FILL_NORMAL, k * g->value_dim), *bias = new_filled(&rng, FILL_NORMAL, n);
    uint8_t *mask = malloc((size_t)n);
    for (int64_t i = 0; i < n; i++)
        mask[i] = rng_range(&rng, 0, 3) > 0;
    struct heed_attention a = {.batch = g->batch, .num_heads = g->heads, .num_kv_heads = g->kv_heads, .query_tokens = g->queries};
    a.key_tokens = g->keys;
    a.head_dim = g->head_dim;
    a.value_dim = g->value_dim;
    a.query = layout(query, false, g->heads, g->queries, g->head_dim);
    a.key = layout(key, false, g->kv_heads, g->keys, g->head_dim);
    a.value = layout(value, false, g->kv_heads, g->keys, g->value_dim);
    a.causal = g->mask == CAUSAL;
    if (g->mask == SELECT)
        a.mask = (struct heed_mask){mask, batch, head, row, 1};
    if (g->mask == ADD)
        a.bias = (struct heed_bias){bias, batch, head, row, 1};
    describe("benchdnn", "best", "%s", g->name);
    check_conformance(&a, set);
    free(query);
    free(key);
    free(value);
    free(bias);
    free(mask);
}

START_TEST(test_benchdnn) {
    struct conformance set = {.name = "benchdnn"};
    const size_t count = sizeof graphs / sizeof *graphs;
    for (size_t i = 0; i < count; i++)
        check_graph(&graphs[i], &set);
    print_conformance(&set);
}
END_TEST

TCase *conformance_engines(void) {
    TCase *tests = tcase_create("engines");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_ggml);
    tcase_add_test(tests, test_benchdnn);
    return tests;
}
