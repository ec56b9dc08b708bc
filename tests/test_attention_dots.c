/* Attention in HEED_COMPUTE_BF16_AMX, bit for bit against plain loops of the sums that src/arithmetic.md has: scores, and each
 * chunk's outputs.  The other suites know only that all tables agree, and how far they may be from the double oracle. */
#include "plain_attention.h"
#include "suites.h"

#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "stored.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct dots_case {
    struct plain_attention plain;
    const struct heed_kernels *table;
    float *key, *value, *rounded_key, *rounded_value;
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
    struct dots_case c = {.plain = plain_attention_new(rng, HEED_COMPUTE_BF16_AMX)};
    struct heed_attention *r = &c.plain.request;
    const int64_t keys = r->num_kv_heads * r->key_tokens;
    const enum fill small = denormals_become_zeros() ? FILL_DENORMAL : FILL_NORMAL;
    c.key = new_filled(rng, rng_range(rng, 0, 3) ? FILL_NORMAL : small, keys * r->head_dim);
    c.value = new_filled(rng, FILL_NORMAL, keys * r->value_dim);
    for (int64_t i = rng_range(rng, 0, 3); i > 0; i--) /* of bf16, the second one is infinite */
        c.value[rng_range(rng, 0, keys * r->value_dim - 1)] = rng_range(rng, 0, 1) ? __builtin_nanf("") : 3.4e38f;
    c.rounded_key = new_rounded(c.key, keys * r->head_dim);
    c.rounded_value = new_rounded(c.value, keys * r->value_dim);
    r->key = (struct heed_input){c.key, 0, r->key_tokens * r->head_dim, r->head_dim, HEED_F32};
    r->value = (struct heed_input){c.value, 0, r->key_tokens * r->value_dim, r->value_dim, HEED_F32};
    return c;
}

static void free_case(struct dots_case *c) {
    float *const all[] = {c->key, c->value, c->rounded_key, c->rounded_value};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    plain_attention_free(&c->plain);
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

/* Scores; z[j] becomes the weight of key begin + j, as bf16. */
static void check_scores(const struct dots_case *c, const struct plain_chunk *chunk, float *z) {
    const struct heed_attention *r = &c->plain.request;
    const float *got = c->plain.scores + chunk->row * r->key_tokens,
                *keys = c->rounded_key + plain_first_key(&c->plain, chunk->row) * r->head_dim;
    const int64_t n = chunk->end - chunk->begin;
    float query[PLAIN_MOST_WIDTH];
    plain_query(&c->plain, chunk->row, query);
    round_all(query, r->head_dim);
    for (int64_t j = 0; j < n; j++) {
        z[j] = dot(query, keys + (chunk->begin + j) * r->head_dim, r->head_dim) + 0.0f;
        must(compare(SAME_BITS, got + chunk->begin + j, z + j, 1, 1));
    }
    plain_weights(c->table, z, n);
    round_all(z, n);
}

static void check_chunk(const void *context, const struct plain_chunk *chunk) {
    const struct dots_case *c = context;
    const int64_t start = chunk->chunk * HEED_CHUNK, n = c->plain.request.value_dim;
    const float *value = c->rounded_value + (plain_first_key(&c->plain, chunk->row) + start) * n;
    float z[HEED_CHUNK] = {0}, want[PLAIN_MOST_WIDTH];
    check_scores(c, chunk, z + chunk->begin - start);
    for (int64_t d = 0; d < n; d++) {
        float column[HEED_CHUNK] = {0};
        for (int64_t j = chunk->begin - start; j < chunk->end - start; j++)
            column[j] = value[j * n + d];
        want[d] = dot(z, column, chunk->end - start) + 0.0f;
        want[d] = isnan(want[d]) ? __builtin_nanf("") : want[d];
    }
    must(compare(SAME_BITS, c->plain.outputs + (chunk->row * c->plain.chunks + chunk->chunk) * n, want, 1, n));
}

START_TEST(test_attention_dots) {
    struct rng rng = rng_for("attention dots", _i);
    for (int64_t i = 0; i < test_count(40); i++) {
        struct dots_case c = new_case(&rng);
        c.table = heed_kernels_usable(_i);
        plain_attention_run(&c.plain, "attention as AMX", c.table);
        const uint64_t callers = heed_fp_begin();
        heed_fp_flush(true);
        plain_attention_each(&c.plain, check_chunk, &c);
        heed_fp_flush(false);
        heed_fp_end(callers);
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
