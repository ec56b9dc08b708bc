/* Attention over caches of bytes in HEED_COMPUTE_I8, bit for bit against plain loops of what src/arithmetic.md has: scores, and
 * each chunk's outputs.  The other suites know only that all tables agree, and how far they may be from the double oracle. */
#include "i8_products.h"
#include "plain_attention.h"
#include "suites.h"

#include "dispatch.h"
#include "internal.h"
#include "kv_cache.h"
#include "types.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 96 /* PLAIN_MOST_WIDTH in whole blocks */ };

struct i8_case {
    struct plain_attention plain;
    const struct heed_kernels *table;
    struct heed_kv_cache cache;
    /* What it holds, in rows: integers and their scales. */
    int8_t *key, *value;
    float *key_scales, *value_scales;
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
    const struct heed_attention *r = &c->plain.request;
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
    const size_t bytes = (size_t)(c->cache.num_pages * heed_kv_page_bytes(&c->cache));
    c->cache.data = memset(malloc(bytes), 0xff, bytes); /* what is not written: scales of NaN, too */
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

/* As another's cache may have them: heed_kv_append writes none. */
static void make_scales_negative(struct rng *rng, const struct i8_case *c) {
    struct kv_layout layout;
    heed_kv_layout(&c->cache, &layout);
    for (int64_t i = 0; i < c->plain.request.num_kv_heads * c->plain.request.key_tokens; i++) {
        const int64_t head = i / c->plain.request.key_tokens, token = i % c->plain.request.key_tokens;
        if (rng_range(rng, 0, 9))
            continue;
        c->value_scales[i] = -c->value_scales[i];
        memcpy(kv_value_scale(&c->cache, &layout, 0, head, token), &c->value_scales[i], sizeof *c->value_scales);
    }
}

static struct i8_case new_case(struct rng *rng) {
    struct i8_case c = {.plain = plain_attention_new(rng, HEED_COMPUTE_I8)};
    const struct heed_attention *r = &c.plain.request;
    if (rng_range(rng, 0, 3) == 0)
        c.plain.query[rng_range(rng, 0, r->num_heads * r->query_tokens * r->head_dim - 1)] = INFINITY;
    fill_cache(rng, &c);
    if (rng_range(rng, 0, 3) == 0)
        make_scales_negative(rng, &c);
    return c;
}

static void free_case(struct i8_case *c) {
    void *const all[] = {c->key, c->value, c->key_scales, c->value_scales, c->cache.data};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    plain_attention_free(&c->plain);
}

/* The chain of x, in whole blocks, with bytes `step` apart, of which there are those from begin to end - 1. */
static float chain_of(const float *x, const int8_t *bytes, int64_t step, int64_t begin, int64_t end) {
    float chain = 0;
    for (int64_t from = begin / TYPE_BLOCK * TYPE_BLOCK; from < end; from += TYPE_BLOCK) {
        int q[TYPE_BLOCK], sum = 0;
        const float scale = i8_round_block(x + from, 1, q);
        for (int64_t p = max_i64(from, begin); p < min_i64(from + TYPE_BLOCK, end); p++)
            sum += q[p - from] * bytes[p * step];
        chain = fmaf((float)sum, scale, chain);
    }
    return chain;
}

/* Scores; z[j] becomes the weight of key begin + j. */
static void check_scores(const struct i8_case *c, const struct plain_chunk *chunk, float *z) {
    const struct heed_attention *r = &c->plain.request;
    const float *got = c->plain.scores + chunk->row * r->key_tokens;
    const int64_t first = plain_first_key(&c->plain, chunk->row) + chunk->begin, n = chunk->end - chunk->begin;
    float query[MOST_DEPTH] = {0};
    plain_query(&c->plain, chunk->row, query);
    for (int64_t j = 0; j < n; j++) {
        z[j] = chain_of(query, c->key + (first + j) * r->head_dim, 1, 0, r->head_dim) * c->key_scales[first + j] + 0.0f;
        must(compare(ANY_NAN, got + chunk->begin + j, z + j, 1, 1));
    }
    plain_weights(c->table, z, n);
}

static void check_chunk(const void *context, const struct plain_chunk *chunk) {
    const struct i8_case *c = context;
    const int64_t start = chunk->chunk * HEED_CHUNK, first = plain_first_key(&c->plain, chunk->row) + start,
                  from = chunk->begin - start, to = chunk->end - start, n = c->plain.request.value_dim;
    float weights[HEED_CHUNK] = {0};
    check_scores(c, chunk, weights + from);
    for (int64_t j = from; j < to; j++)
        weights[j] *= c->value_scales[first + j];
    for (int64_t d = 0; d < n; d++) {
        const float want = chain_of(weights, c->value + first * n + d, n, from, to) + 0.0f;
        must(compare(ANY_NAN, c->plain.outputs + (chunk->row * c->plain.chunks + chunk->chunk) * n + d, &want, 1, 1));
    }
}

START_TEST(test_attention_i8) {
    struct rng rng = rng_for("attention i8", _i);
    for (int64_t i = 0; i < test_count(40); i++) {
        struct i8_case c = new_case(&rng);
        c.table = heed_kernels_usable(_i);
        c.plain.request.cache = &c.cache;
        plain_attention_run(&c.plain, "attention as integers", c.table);
        plain_attention_each(&c.plain, check_chunk, &c);
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
