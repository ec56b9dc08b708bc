/* Attention in HEED_COMPUTE_BF16_AMX, bit for bit against plain loops of the sums that src/arithmetic.md has: scores, and each
 * chunk's outputs.  The other suites know only that all tables agree, and how far they may be from the double oracle. */
#include "harness.h"
#include "suites.h"

#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "stored.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WIDTH = 70 };

struct dots_case {
    struct heed_attention request;
    float *query, *key, *value, *rounded_key, *rounded_value, *scores, *outputs, *max, *sum, *slopes;
    int64_t chunks;
};

/* x as bf16; below 2^-126 it is 0. */
static void round_all(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = fabsf(x[i]) < 0x1p-126f ? copysignf(0, x[i]) : x[i];
    round_floats(HEED_BF16, x, n);
}

static float *new_rounded(const float *x, int64_t n) {
    float *rounded = new_floats(n);
    memcpy(rounded, x, (size_t)n * sizeof *x);
    round_all(rounded, n);
    return rounded;
}

/* Not where valgrind runs it. */
static bool denormals_become_zeros(void) {
    const uint64_t callers = heed_fp_begin();
    heed_fp_flush(true);
    volatile float x = 0x1p-130f;
    x *= 1;
    heed_fp_flush(false);
    heed_fp_end(callers);
    return x == 0;
}

static struct dots_case new_case(struct rng *rng) {
    struct dots_case c = {.request = {.batch = 1,
                                      .num_kv_heads = rng_range(rng, 1, 2),
                                      .query_tokens = rng_range(rng, 1, 40),
                                      .key_tokens = rng_range(rng, 1, 400),
                                      .head_dim = rng_range(rng, 1, MOST_WIDTH),
                                      .value_dim = rng_range(rng, 1, MOST_WIDTH),
                                      .compute = HEED_COMPUTE_BF16_AMX,
                                      .causal = rng_range(rng, 0, 2),
                                      .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                                      .scale = 0.3f}};
    struct heed_attention *r = &c.request;
    r->num_heads = r->num_kv_heads * rng_range(rng, 1, 2);
    r->window = (struct heed_window){rng_range(rng, 0, 1), 0, -1};
    r->window.left = r->window.on ? rng_range(rng, 0, 300) : 0;
    r->window.right = r->window.on ? -1 : 0;
    c.chunks = ceil_div(r->key_tokens, HEED_CHUNK);
    const int64_t rows = r->num_heads * r->query_tokens, keys = r->num_kv_heads * r->key_tokens;
    c.query = new_filled(rng, FILL_NORMAL, rows * r->head_dim);
    const enum fill small = denormals_become_zeros() ? FILL_DENORMAL : FILL_NORMAL;
    c.key = new_filled(rng, rng_range(rng, 0, 3) ? FILL_NORMAL : small, keys * r->head_dim);
    c.value = new_filled(rng, FILL_NORMAL, keys * r->value_dim);
    for (int64_t i = rng_range(rng, 0, 3); i > 0; i--) /* of bf16, the second one is infinite */
        c.value[rng_range(rng, 0, keys * r->value_dim - 1)] = rng_range(rng, 0, 1) ? __builtin_nanf("") : 3.4e38f;
    c.rounded_key = new_rounded(c.key, keys * r->head_dim);
    c.rounded_value = new_rounded(c.value, keys * r->value_dim);
    c.scores = new_floats(rows * r->key_tokens);
    c.outputs = new_floats(rows * c.chunks * r->value_dim);
    c.max = new_floats(rows * c.chunks);
    c.sum = new_floats(rows * c.chunks);
    c.slopes =
        calloc((size_t)r->num_heads, sizeof *c.slopes); /* terms, so that scores are natural ones: they are sums as they are */
    r->query = (struct heed_input){c.query, 0, r->query_tokens * r->head_dim, r->head_dim, HEED_F32};
    r->key = (struct heed_input){c.key, 0, r->key_tokens * r->head_dim, r->head_dim, HEED_F32};
    r->value = (struct heed_input){c.value, 0, r->key_tokens * r->value_dim, r->value_dim, HEED_F32};
    r->scores = (struct heed_output){c.scores, 0, r->query_tokens * r->key_tokens, r->key_tokens, HEED_F32};
    r->states.output =
        (struct heed_output){c.outputs, 0, r->query_tokens * c.chunks * r->value_dim, c.chunks * r->value_dim, HEED_F32};
    r->states.max = (struct heed_output){c.max, 0, r->query_tokens * c.chunks, c.chunks, HEED_F32};
    r->states.sum = (struct heed_output){c.sum, 0, r->query_tokens * c.chunks, c.chunks, HEED_F32};
    r->alibi_slopes = c.slopes;
    return c;
}

static void free_case(struct dots_case *c) {
    float *const all[] = {c->query,  c->key,     c->value, c->rounded_key, c->rounded_value,
                          c->scores, c->outputs, c->max,   c->sum,         c->slopes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Of x[i] and y[i] for i < n, 32 at a time: those at even places and at odd ones apart. */
static float dot(const float *x, const float *y, int64_t n) {
    float sum = 0;
    for (int64_t from = 0; from < n; from += 32) {
        float chain[2] = {0, 0};
        for (int64_t i = from; i < from + 32 && i < n; i++)
            chain[i % 2] = fmaf(x[i], y[i], chain[i % 2]);
        sum += chain[0] + chain[1];
    }
    return sum;
}

/* Keys [*begin, *end) are what a query sees. */
static void find_range(const struct heed_attention *r, int64_t token, int64_t *begin, int64_t *end) {
    const int64_t position = token + r->key_tokens - r->query_tokens;
    *begin = r->window.on && position - r->window.left > 0 ? position - r->window.left : 0;
    *end = r->causal && position + 1 < r->key_tokens ? position + 1 : r->key_tokens;
    *end = *end > *begin ? *end : *begin;
}

/* Its scores; z becomes the softmax's weights, as bf16. */
static void check_scores(const struct dots_case *c, const struct heed_kernels *table, int64_t row, int64_t begin, int64_t end,
                         float *z) {
    const struct heed_attention *r = &c->request;
    const int64_t kv_head = row / r->query_tokens * r->num_kv_heads / r->num_heads;
    const float *got = c->scores + row * r->key_tokens, log2e = 0x1.715476p+0f;
    float query[MOST_WIDTH], max = -INFINITY;
    for (int64_t d = 0; d < r->head_dim; d++)
        query[d] = c->query[row * r->head_dim + d] * 0.3f;
    round_all(query, r->head_dim);
    for (int64_t j = begin; j < end; j++) {
        const float score = dot(query, c->rounded_key + (kv_head * r->key_tokens + j) * r->head_dim, r->head_dim) + 0.0f;
        must(compare(SAME_BITS, got + j, &score, 1, 1));
        z[j - begin] = score * log2e;
        max = fmaxf(max, z[j - begin]);
    }
    for (int64_t j = 0; j < end - begin; j++)
        z[j] -= max;
    table->exp2(z, end - begin, z);
    round_all(z, end - begin);
}

/* One chunk of a row: its keys [begin, end), of which there are some. */
static void check_chunk(const struct dots_case *c, const struct heed_kernels *table, int64_t row, int64_t chunk, int64_t begin,
                        int64_t end) {
    const struct heed_attention *r = &c->request;
    const int64_t start = chunk * HEED_CHUNK, kv_head = row / r->query_tokens * r->num_kv_heads / r->num_heads, n = r->value_dim;
    const float *value = c->rounded_value + (kv_head * r->key_tokens + start) * n;
    float z[HEED_CHUNK] = {0}, want[MOST_WIDTH];
    check_scores(c, table, row, begin, end, z + begin - start);
    for (int64_t d = 0; d < n; d++) {
        float column[HEED_CHUNK] = {0};
        for (int64_t j = begin - start; j < end - start; j++)
            column[j] = value[j * n + d];
        want[d] = dot(z, column, end - start) + 0.0f;
        want[d] = isnan(want[d]) ? __builtin_nanf("") : want[d];
    }
    must(compare(SAME_BITS, c->outputs + (row * c->chunks + chunk) * n, want, 1, n));
}

static void check_case(const struct dots_case *c, const struct heed_kernels *table) {
    const struct heed_attention *r = &c->request;
    const uint64_t callers = heed_fp_begin();
    heed_fp_flush(true);
    for (int64_t row = 0; row < r->num_heads * r->query_tokens; row++) {
        int64_t begin, end;
        find_range(r, row % r->query_tokens, &begin, &end);
        for (int64_t chunk = 0; chunk < c->chunks; chunk++) {
            const int64_t start = chunk * HEED_CHUNK, from = max_i64(begin, start), to = min_i64(end, start + HEED_CHUNK);
            if (from < to)
                check_chunk(c, table, row, chunk, from, to);
        }
    }
    heed_fp_flush(false);
    heed_fp_end(callers);
}

START_TEST(test_attention_dots) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("attention dots", _i);
    for (int64_t i = 0; i < test_count(40); i++) {
        struct dots_case c = new_case(&rng);
        const struct heed_attention *r = &c.request;
        describe("attention as AMX", table->name,
                 "%lld queries, %lld keys, %lld x %lld wide, %lld heads on %lld, %scausal, window %lld", (long long)r->query_tokens,
                 (long long)r->key_tokens, (long long)r->head_dim, (long long)r->value_dim, (long long)r->num_heads,
                 (long long)r->num_kv_heads, r->causal ? "" : "not ", r->window.on ? (long long)r->window.left : -1);
        ck_assert_msg(heed_attention(r, &(struct heed_exec){.isa = table->name}) == HEED_OK, "%s", heed_error_message());
        check_case(&c, table);
        free_case(&c);
    }
}
END_TEST

Suite *attention_dots_suite(void) {
    Suite *suite = suite_create("attention dots");
    TCase *tests = tcase_create("attention dots");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, test_attention_dots, 0, usable_tables());
    suite_add_tcase(suite, tests);
    return suite;
}
