/* Attention over caches of bytes in HEED_COMPUTE_I8, bit for bit against plain loops of what src/arithmetic.md has: scores, and
 * each chunk's outputs.  The other suites know only that all tables agree, and how far they may be from the double oracle. */
#include "harness.h"
#include "i8_products.h"
#include "suites.h"

#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "types.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WIDTH = 70, MOST_DEPTH = 96 /* in whole blocks */ };

struct i8_case {
    struct heed_attention request;
    struct heed_kv_cache cache;
    float *query, *scores, *outputs, *max, *sum, *slopes;
    /* What the cache holds, in rows: integers and their scales. */
    int8_t *key, *value;
    float *key_scales, *value_scales;
    int64_t chunks;
};

static int8_t *new_bytes(const float *x, int64_t rows, int64_t columns, float **scales) {
    int8_t *bytes = malloc((size_t)(rows * columns + 1));
    *scales = new_floats(rows);
    const struct heed_convert convert = {.rows = rows,
                                         .columns = columns,
                                         .input = {.data = x, .token_stride = columns},
                                         .output = {.data = bytes, .token_stride = columns, .type = HEED_I8},
                                         .scales = *scales};
    ck_assert_msg(heed_convert(&convert, NULL) == HEED_OK, "%s", heed_error_message());
    return bytes;
}

static void fill_cache(struct rng *rng, struct i8_case *c) {
    const struct heed_attention *r = &c->request;
    const int64_t page_tokens = rng_range(rng, 0, 1) ? 16 * rng_range(rng, 1, 5) : round_up(r->key_tokens, 16);
    const int64_t rows = r->num_kv_heads * r->key_tokens;
    float *key = new_filled(rng, FILL_NORMAL, rows * r->head_dim), *value = new_filled(rng, FILL_NORMAL, rows * r->value_dim);
    for (int64_t i = rng_range(rng, 0, 2); i > 0; i--)
        value[rng_range(rng, 0, rows * r->value_dim - 1)] = __builtin_nanf("");
    c->cache = (struct heed_kv_cache){.key_type = HEED_I8,
                                      .value_type = HEED_I8,
                                      .num_pages = ceil_div(r->key_tokens, page_tokens),
                                      .page_tokens = page_tokens,
                                      .num_kv_heads = r->num_kv_heads,
                                      .head_dim = r->head_dim,
                                      .value_dim = r->value_dim,
                                      .pages_per_sequence = ceil_div(r->key_tokens, page_tokens)};
    c->cache.data = malloc((size_t)(c->cache.num_pages * heed_kv_page_bytes(&c->cache)));
    const struct heed_kv_append append = {.batch = 1,
                                          .tokens = r->key_tokens,
                                          .key = {key, 0, r->key_tokens * r->head_dim, r->head_dim, HEED_F32},
                                          .value = {value, 0, r->key_tokens * r->value_dim, r->value_dim, HEED_F32},
                                          .cache = &c->cache};
    ck_assert_msg(heed_kv_append(&append, NULL) == HEED_OK, "%s", heed_error_message());
    c->key = new_bytes(key, rows, r->head_dim, &c->key_scales);
    c->value = new_bytes(value, rows, r->value_dim, &c->value_scales);
    free(key);
    free(value);
}

/* ALiBi, so that scores are natural ones: they are sums as they are. */
static struct i8_case new_case(struct rng *rng) {
    struct i8_case c = {.request = {.batch = 1,
                                    .num_kv_heads = rng_range(rng, 1, 2),
                                    .query_tokens = rng_range(rng, 1, 40),
                                    .key_tokens = rng_range(rng, 1, 400),
                                    .head_dim = rng_range(rng, 1, MOST_WIDTH),
                                    .value_dim = rng_range(rng, 1, MOST_WIDTH),
                                    .compute = HEED_COMPUTE_I8,
                                    .causal = rng_range(rng, 0, 2),
                                    .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                                    .scale = 0.3f}};
    struct heed_attention *r = &c.request;
    r->num_heads = r->num_kv_heads * rng_range(rng, 1, 2);
    r->window = (struct heed_window){rng_range(rng, 0, 1), 0, -1};
    r->window.left = r->window.on ? rng_range(rng, 0, 300) : 0;
    r->window.right = r->window.on ? -1 : 0;
    c.chunks = ceil_div(r->key_tokens, HEED_CHUNK);
    const int64_t rows = r->num_heads * r->query_tokens;
    c.query = new_filled(rng, FILL_NORMAL, rows * r->head_dim);
    if (rng_range(rng, 0, 3) == 0)
        c.query[rng_range(rng, 0, rows * r->head_dim - 1)] = INFINITY;
    fill_cache(rng, &c);
    c.scores = new_floats(rows * r->key_tokens);
    c.outputs = new_floats(rows * c.chunks * r->value_dim);
    c.max = new_floats(rows * c.chunks);
    c.sum = new_floats(rows * c.chunks);
    c.slopes = calloc((size_t)r->num_heads, sizeof *c.slopes);
    r->query = (struct heed_input){c.query, 0, r->query_tokens * r->head_dim, r->head_dim, HEED_F32};
    r->scores = (struct heed_output){c.scores, 0, r->query_tokens * r->key_tokens, r->key_tokens, HEED_F32};
    r->states.output =
        (struct heed_output){c.outputs, 0, r->query_tokens * c.chunks * r->value_dim, c.chunks * r->value_dim, HEED_F32};
    r->states.max = (struct heed_output){c.max, 0, r->query_tokens * c.chunks, c.chunks, HEED_F32};
    r->states.sum = (struct heed_output){c.sum, 0, r->query_tokens * c.chunks, c.chunks, HEED_F32};
    r->alibi_slopes = c.slopes;
    return c;
}

static void free_case(struct i8_case *c) {
    void *const all[] = {c->query, c->scores, c->outputs,    c->max,          c->sum,       c->slopes,
                         c->key,   c->value,  c->key_scales, c->value_scales, c->cache.data};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* The chain of x[0 ... n - 1], in whole blocks, with bytes `step` apart, of which those from `end` on are not there. */
static float chain_of(const float *x, int64_t n, const int8_t *bytes, int64_t step, int64_t begin, int64_t end) {
    float chain = 0;
    for (int64_t from = begin / TYPE_BLOCK * TYPE_BLOCK; from < end && from < n; from += TYPE_BLOCK) {
        int q[TYPE_BLOCK], sum = 0;
        const float scale = i8_round_block(x + from, 1, q);
        for (int64_t p = max_i64(from, begin); p < min_i64(from + TYPE_BLOCK, end); p++)
            sum += q[p - from] * bytes[p * step];
        chain = fmaf((float)sum, scale, chain);
    }
    return chain;
}

/* Keys [*begin, *end) are what a query sees. */
static void find_range(const struct heed_attention *r, int64_t token, int64_t *begin, int64_t *end) {
    const int64_t position = token + r->key_tokens - r->query_tokens;
    *begin = r->window.on && position - r->window.left > 0 ? position - r->window.left : 0;
    *end = r->causal && position + 1 < r->key_tokens ? position + 1 : r->key_tokens;
    *end = *end > *begin ? *end : *begin;
}

static bool same(float got, float want) { return (isnan(got) && isnan(want)) || memcmp(&got, &want, sizeof got) == 0; }

/* Scores of a row with keys [begin, end); z[j - begin] becomes their weights. */
static void check_scores(const struct i8_case *c, const struct heed_kernels *table, int64_t row, int64_t begin, int64_t end,
                         float *z) {
    const struct heed_attention *r = &c->request;
    const int64_t kv_head = row / r->query_tokens * r->num_kv_heads / r->num_heads;
    const float *got = c->scores + row * r->key_tokens, log2e = 0x1.715476p+0f;
    float query[MOST_DEPTH] = {0}, max = -INFINITY;
    for (int64_t d = 0; d < r->head_dim; d++)
        query[d] = c->query[row * r->head_dim + d] * 0.3f;
    for (int64_t j = begin; j < end; j++) {
        const int64_t key = kv_head * r->key_tokens + j;
        const float chain = chain_of(query, MOST_DEPTH, c->key + key * r->head_dim, 1, 0, r->head_dim);
        const float score = chain * c->key_scales[key] + 0.0f;
        must(same(got[j], score) ? NULL : "another score");
        z[j - begin] = score * log2e;
        max = z[j - begin] > max ? z[j - begin] : max;
    }
    for (int64_t j = 0; j < end - begin; j++)
        z[j] -= max;
    table->exp2(z, end - begin, z);
}

/* One chunk of a row: its keys [begin, end), of which there are some. */
static void check_chunk(const struct i8_case *c, const struct heed_kernels *table, int64_t row, int64_t chunk, int64_t begin,
                        int64_t end) {
    const struct heed_attention *r = &c->request;
    const int64_t start = chunk * HEED_CHUNK, kv_head = row / r->query_tokens * r->num_kv_heads / r->num_heads;
    const int64_t first = kv_head * r->key_tokens + start, from = begin - start, to = end - start, n = r->value_dim;
    float weights[HEED_CHUNK] = {0};
    check_scores(c, table, row, begin, end, weights + from);
    for (int64_t j = from; j < to; j++)
        weights[j] *= c->value_scales[first + j];
    for (int64_t d = 0; d < n; d++) {
        const float want = chain_of(weights, HEED_CHUNK, c->value + first * n + d, n, from, to) + 0.0f;
        must(same(c->outputs[(row * c->chunks + chunk) * n + d], want) ? NULL : "another output");
    }
}

static void check_case(const struct i8_case *c, const struct heed_kernels *table) {
    const struct heed_attention *r = &c->request;
    for (int64_t row = 0; row < r->num_heads * r->query_tokens; row++) {
        int64_t begin, end;
        find_range(r, row % r->query_tokens, &begin, &end);
        for (int64_t chunk = 0; chunk < c->chunks; chunk++) {
            const int64_t start = chunk * HEED_CHUNK, from = max_i64(begin, start), to = min_i64(end, start + HEED_CHUNK);
            if (from < to)
                check_chunk(c, table, row, chunk, from, to);
        }
    }
}

START_TEST(test_attention_i8) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("attention i8", _i);
    for (int64_t i = 0; i < test_count(40); i++) {
        struct i8_case c = new_case(&rng);
        const struct heed_attention *r = &c.request;
        describe("attention as integers", table->name,
                 "%lld queries, %lld keys, pages of %lld, %lld x %lld wide, %lld heads on %lld, %scausal, window %lld",
                 (long long)r->query_tokens, (long long)r->key_tokens, (long long)c.cache.page_tokens, (long long)r->head_dim,
                 (long long)r->value_dim, (long long)r->num_heads, (long long)r->num_kv_heads, r->causal ? "" : "not ",
                 r->window.on ? (long long)r->window.left : -1);
        c.request.cache = &c.cache;
        ck_assert_msg(heed_attention(r, &(struct heed_exec){.isa = table->name}) == HEED_OK, "%s", heed_error_message());
        check_case(&c, table);
        free_case(&c);
    }
}
END_TEST

Suite *attention_i8_suite(void) {
    Suite *suite = suite_create("attention i8");
    TCase *tests = tcase_create("attention i8");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, test_attention_i8, 0, usable_tables());
    suite_add_tcase(suite, tests);
    return suite;
}
