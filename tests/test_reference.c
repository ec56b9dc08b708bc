/* The oracle itself, against closed forms and, on small sizes, long double. */
#include "harness_attention.h"
#include "reference/reference.h"
#include "suites.h"

#include <math.h>
#include <stdlib.h>

static void must_be_near(double got, long double want) {
    ck_assert_msg(fabsl((long double)got - want) <= 1e-13L * (1 + fabsl(want)), "got %.17g, want %.17Lg", got, want);
}

START_TEST(test_reference_exp2) {
    for (int n = 0; n <= 126; n++)
        ck_assert(ref_exp2((float)-n) == ldexp(1, -n));
    for (float x = -126; x < 0; x += 0.37f)
        ck_assert(fabsl((long double)ref_exp2(x) / exp2l((long double)x) - 1) < 1e-15L);
    ck_assert(ref_exp2(-INFINITY) == 0 && isnan(ref_exp2(NAN)));
}
END_TEST

/* [1 2; 3 4] times the identity, transposed or not, and with itself. */
START_TEST(test_reference_gemm) {
    const float a[] = {1, 2, 3, 4}, identity[] = {1, 0, 0, 1}, c_before[] = {100, 200, 300, 400};
    float c[4];
    double got[4];
    struct heed_gemm g = {
        .m = 2, .n = 2, .k = 2, .alpha = 2, .beta = 0.5f, .a = a, .lda = 2, .b = identity, .ldb = 2, .c = c, .ldc = 2};
    for (int i = 0; i < 4; i++)
        c[i] = c_before[i];
    ref_gemm(&g, got);
    ck_assert(got[0] == 52 && got[1] == 104 && got[2] == 156 && got[3] == 208);
    g.transpose_a = true;
    g.beta = 0;
    ref_gemm(&g, got);
    ck_assert(got[0] == 2 && got[1] == 6 && got[2] == 4 && got[3] == 8);
    g.b = a;
    g.transpose_b = true;
    ref_gemm(&g, got); /* a^T a^T = (a a)^T */
    ck_assert(got[0] == 14 && got[1] == 30 && got[2] == 20 && got[3] == 44);
    g.k = 0;
    ref_gemm(&g, got);
    ck_assert(got[0] == 0 && got[3] == 0);
}
END_TEST

START_TEST(test_reference_softmax) {
    const float x[] = {1, 1, 1, 1, 0, (float)0.6931471805599453, -INFINITY, 9};
    const int64_t lengths[] = {4, 3};
    double got[8];
    struct heed_softmax s = {.rows = 2, .columns = 4, .lengths = lengths, .input = x, .input_stride = 4};
    ref_softmax(&s, got);
    for (int i = 0; i < 4; i++)
        ck_assert(got[i] == 0.25);
    ck_assert(fabs(got[4] - 1.0 / 3) < 1e-8 && fabs(got[5] - 2.0 / 3) < 1e-8 && got[6] == 0 && got[7] == 0);
    s.scale = -1;
    s.lengths = NULL;
    ref_softmax(&s, got);
    ck_assert(isnan(got[4])); /* -1 * -inf is the maximum */
    s.scale = 2;
    ref_softmax(&s, got);
    must_be_near(got[4] / got[5], expl(-2 * (long double)x[5]));
}
END_TEST

static void contiguous(struct heed_attention *a, const float *query, const float *key, const float *value) {
    a->query = (struct heed_input){query, a->num_heads * a->query_tokens * a->head_dim, a->query_tokens * a->head_dim, a->head_dim,
                                   HEED_F32};
    a->key =
        (struct heed_input){key, a->num_kv_heads * a->key_tokens * a->head_dim, a->key_tokens * a->head_dim, a->head_dim, HEED_F32};
    a->value = (struct heed_input){value, a->num_kv_heads * a->key_tokens * a->value_dim, a->key_tokens * a->value_dim,
                                   a->value_dim, HEED_F32};
}

/* Equal keys: a mean of the visible values.  One key that wins by 200 in the exponent: its value.  No visible key: 0. */
START_TEST(test_reference_attention_closed_forms) {
    const float query[] = {20, 20, 20}, same[] = {3, 3, 3, 3}, winner[] = {0, 0, 10, 0}, value[] = {1, 2, 6, 100};
    double output[3], weights[12], lse[3];
    const struct ref_attention_result result = {.output = output, .weights = weights, .lse = lse};
    struct heed_attention a = {
        .batch = 1, .num_heads = 1, .num_kv_heads = 1, .query_tokens = 3, .key_tokens = 4, .head_dim = 1, .value_dim = 1};
    a.causal = true;
    contiguous(&a, query, same, value);
    ck_assert(ref_attention(&a, &result));
    ck_assert(output[0] == 1 && output[1] == 1.5 && weights[4] == 0.5 && weights[6] == 0);
    must_be_near(output[2], 3);
    must_be_near(lse[2], 60 + logl(3));
    a.causal = false;
    contiguous(&a, query, winner, value);
    ck_assert(ref_attention(&a, &result));
    ck_assert(output[0] == 6 && output[2] == 6);
    a.causal = true;
    a.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    a.key_tokens = 2;
    contiguous(&a, query, same, value);
    ck_assert(ref_attention(&a, &result));
    ck_assert(output[0] == 0 && lse[0] == -(double)INFINITY && weights[0] == 0 && output[1] == 1 && output[2] == 1.5);
}
END_TEST

/* One output of one row in long double, with nothing shared but the definition. */
static long double output_of(const struct heed_attention *a, int64_t batch, int64_t head, int64_t i, int64_t d) {
    int64_t kv_head = head / (a->num_heads / a->num_kv_heads);
    const float *q =
        (const float *)a->query.data + batch * a->query.batch_stride + head * a->query.head_stride + i * a->query.token_stride;
    long double top = 0, bottom = 0, scale = a->scale != 0 ? (long double)a->scale : 1 / sqrtl((long double)a->head_dim);
    for (int64_t j = 0; j < a->key_tokens; j++) {
        int64_t shift = a->alignment == HEED_ALIGN_BOTTOM_RIGHT ? a->key_tokens - a->query_tokens : 0;
        if (a->causal && j > i + shift)
            continue;
        const float *k =
            (const float *)a->key.data + batch * a->key.batch_stride + kv_head * a->key.head_stride + j * a->key.token_stride;
        long double score = 0;
        for (int64_t e = 0; e < a->head_dim; e++)
            score += (long double)q[e] * (long double)k[e];
        bottom += expl(scale * score);
        top += expl(scale * score) *
               (long double)((const float *)a->value.data)[batch * a->value.batch_stride + kv_head * a->value.head_stride +
                                                           j * a->value.token_stride + d];
    }
    return bottom > 0 ? top / bottom : 0;
}

START_TEST(test_reference_attention_in_long_double) {
    struct rng rng = rng_for("reference", 0);
    for (int64_t repeat = 0; repeat < test_count(100); repeat++) {
        struct heed_attention a = random_attention_sizes(&rng, 20000);
        a.scale = a.scale > 1 ? 1 : a.scale; /* without a running maximum, exponentials must not overflow */
        struct attention_case c = new_attention_case(&a, FILL_NORMAL, FILL_NORMAL, FILL_NORMAL, &rng);
        double *output = new_doubles(ref_rows(&a) * a.value_dim);
        const struct ref_attention_result result = {.output = output};
        a = c.request;
        ck_assert(ref_attention(&a, &result));
        for (int64_t n = 0; n < ref_rows(&a) * a.value_dim; n++) {
            int64_t row = n / a.value_dim, head = row / a.query_tokens;
            must_be_near(output[n], output_of(&a, head / a.num_heads, head % a.num_heads, row % a.query_tokens, n % a.value_dim));
        }
        free_attention_case(&c);
        free(output);
    }
}
END_TEST

/* --- Each option of attention, by numbers worked out by hand --- */

/* One query or more against keys of 0, so that scores are 0 until an option changes them, and values 1, 2, 4, 8. */
struct tiny {
    struct heed_attention request;
    double output[4], weights[16], lse[4], scores[16], mass[4];
};

static struct tiny tiny(int64_t queries) {
    static const float zero[4] = {0}, value[] = {1, 2, 4, 8};
    struct tiny t = {.request = {.batch = 1,
                                 .num_heads = 1,
                                 .num_kv_heads = 1,
                                 .query_tokens = queries,
                                 .key_tokens = 4,
                                 .head_dim = 1,
                                 .value_dim = 1,
                                 .score_stage = HEED_SCORES_BIASED}};
    contiguous(&t.request, zero, zero, value);
    return t;
}

static void attend(struct tiny *t) {
    ck_assert(ref_attention(&t->request, &(struct ref_attention_result){t->output, t->weights, t->lse, t->scores, t->mass}));
}

/* The mean of the values whose bits are set: a row that sees these keys alone. */
static void must_see(struct tiny *t, int64_t row, int keys) {
    int count = 0;
    for (int j = 0; j < 4; j++)
        count += keys >> j & 1;
    attend(t);
    must_be_near(t->output[row], count ? (long double)keys / count : 0);
    ck_assert(count ? t->lse[row] == log(count) : t->lse[row] == -(double)INFINITY);
    for (int j = 0; j < 4; j++)
        must_be_near(t->weights[row * 4 + j], keys >> j & 1 ? 1.0L / count : 0);
}

START_TEST(test_reference_sight) {
    static const int64_t length = 2, offset = 2, before_all = -2;
    static const uint8_t mask[] = {1, 0, 0, 7};
    static const uint64_t tree = 2; /* of three keys, the middle one */
    static const float bias[] = {0, -INFINITY, 0, 0};
    struct tiny t = tiny(2);
    must_see(&t, 1, 15);
    t.request.causal = true;
    must_see(&t, 0, 1);
    must_see(&t, 1, 3);
    t.request.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    must_see(&t, 0, 7);
    t.request.alignment = HEED_ALIGN_OFFSETS;
    t.request.query_offsets = &offset;
    must_see(&t, 0, 7);
    t.request.query_offsets = &before_all;
    must_see(&t, 1, 0);
    t.request.query_offsets = &offset;
    t.request.window = (struct heed_window){true, 1, 1};
    must_see(&t, 0, 6);
    t.request.causal = false;
    must_see(&t, 0, 14);
    t.request.window.right = -1;
    must_see(&t, 1, 12);
    t.request.window = (struct heed_window){true, -1, 0};
    must_see(&t, 0, 7);
    t.request.window.on = false;
    t.request.key_lengths = &length;
    must_see(&t, 0, 3);
    t.request.causal = true;
    t.request.alignment = HEED_ALIGN_BOTTOM_RIGHT; /* of the length */
    must_see(&t, 0, 1);
    t = tiny(1);
    t.request.mask = (struct heed_mask){.data = mask, .key_stride = 1};
    must_see(&t, 0, 9);
    t.request.bias = (struct heed_bias){.data = bias, .key_stride = 1};
    must_see(&t, 0, 9);
    t.request.mask.data = NULL;
    must_see(&t, 0, 13);
    t.request.bias.data = NULL;
    t.request.tree = (struct heed_tree){.words = &tree, .keys = 3};
    must_see(&t, 0, 5);
    t.request.tree.keys = 5; /* more than there are: bit 1 is key 0 */
    must_see(&t, 0, 1);
}
END_TEST

/* Keys 256 ... 259 of a sequence: a query at position 257 sees two of them. */
START_TEST(test_reference_key_position) {
    static const int64_t offset = 257;
    struct tiny t = tiny(1);
    t.request.key_position = 256;
    t.request.causal = true;
    must_see(&t, 0, 0);
    t.request.alignment = HEED_ALIGN_OFFSETS;
    t.request.query_offsets = &offset;
    must_see(&t, 0, 3);
    t.request.alignment = HEED_ALIGN_BOTTOM_RIGHT; /* 256 + 4 - 1 */
    must_see(&t, 0, 15);
}
END_TEST

START_TEST(test_reference_terms) {
    static const float one[] = {1}, keys[] = {1, 2, 3, 4}, bias[] = {0.5f, 0, 0, -1}, slope[] = {0.25f}, value[] = {1, 2, 4, 8},
                       table[] = {10, 20, 30, 40};
    struct tiny t = tiny(1);
    contiguous(&t.request, one, keys, value);
    t.request.scale = 3;
    t.request.softcap = 6;
    t.request.bias = (struct heed_bias){.data = bias, .key_stride = 1};
    t.request.alibi_slopes = slope;
    t.request.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    t.request.relative = (struct heed_relative){table, 0, 1, 4, 8, false}; /* distances 0; 1; 2; 4 and more */
    static const long double terms[] = {0.5L - 0.75L + 30, -0.5L + 30, -0.25L + 20, -1 + 10};
    for (int stage = 0; stage < 3; stage++) {
        t.request.score_stage = (enum heed_score_stage)stage;
        attend(&t);
        for (int j = 0; j < 4; j++)
            must_be_near(t.scores[j], stage == 0 ? 3 * (j + 1) : 6 * tanhl(0.5L * (j + 1)) + (stage == 2 ? terms[j] : 0));
    }
}
END_TEST

/* A sink of ln 4 beside four scores of 0 takes half; where no key is seen it takes all, and has no value. */
START_TEST(test_reference_sinks) {
    static const float sink[] = {1.3862943611198906f}, none[] = {-INFINITY}, nan[] = {NAN};
    static const uint8_t mask[] = {0};
    struct tiny t = tiny(1);
    t.request.sinks = sink;
    attend(&t);
    ck_assert(fabs(t.output[0] - 15.0 / 8) < 1e-6 && fabs(t.weights[2] - 0.125) < 1e-6 && fabs(t.lse[0] - log(8)) < 1e-6);
    t.request.mask.data = mask;
    attend(&t);
    ck_assert(t.output[0] == 0 && t.weights[0] == 0 && t.lse[0] == (double)sink[0]);
    t.request.sinks = none;
    must_see(&t, 0, 0);
    t.request.sinks = nan;
    attend(&t);
    ck_assert(isnan(t.output[0]) && isnan(t.lse[0]));
}
END_TEST

/* Two packed sequences, of 1 and 2 queries, with 3 keys and 1: the mass of each key, of all queries and of the last. */
START_TEST(test_reference_packed) {
    static const int64_t queries[] = {1, 2, 4}, keys[] = {0, 3, 4};
    struct tiny t = tiny(4);
    double mass[6];
    t.request.batch = 2;
    t.request.query_starts = queries;
    t.request.key_starts = keys;
    ck_assert(ref_columns(&t.request) == 3 && ref_rows(&t.request) == 4 && ref_row(&t.request, 1, 0, 1) == 3);
    const struct ref_attention_result result = {.output = t.output, .mass = mass};
    for (t.request.mass_queries = 0; t.request.mass_queries < 2; t.request.mass_queries++) {
        t.output[0] = -1;
        ck_assert(ref_attention(&t.request, &result));
        must_be_near(t.output[1], 7.0L / 3);
        ck_assert(t.output[0] == -1 && t.output[2] == 8 && t.output[3] == 8);
        must_be_near(mass[2], 1.0L / 3);
        ck_assert(mass[3] == (t.request.mass_queries ? 1 : 2) && mass[4] == 0);
    }
}
END_TEST

/* Where buckets begin, from exact powers: 8 * 16^(k / 8) for T5's encoder, 16 * 8^(k / 16) for its decoder. */
START_TEST(test_reference_buckets) {
    static const int64_t encoder[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91, 1 << 20};
    static const int64_t decoder[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,  15,     16,
                                      19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113, 1 << 20};
    const struct heed_relative both = {.num_buckets = 32, .max_distance = 128, .bidirectional = true};
    const struct heed_relative back = {.num_buckets = 32, .max_distance = 128};
    for (int64_t k = 0; k < 16; k++) {
        for (int64_t distance = encoder[k]; distance < encoder[k + 1] && distance < 2000; distance++) {
            ck_assert_int_eq(ref_bucket(&both, -distance), k);
            ck_assert_int_eq(ref_bucket(&both, distance), distance ? 16 + k : 0);
        }
    }
    for (int64_t k = 0; k < 32; k++)
        for (int64_t distance = decoder[k]; distance < decoder[k + 1] && distance < 2000; distance++)
            ck_assert_int_eq(ref_bucket(&back, -distance), k);
    ck_assert_int_eq(ref_bucket(&back, 1), 0);
    ck_assert_int_eq(ref_bucket(&back, 1000), 0);
    ck_assert_int_eq(ref_bucket(&(struct heed_relative){.num_buckets = 2, .max_distance = 10}, -3), 1);
    ck_assert_int_eq(ref_bucket(&(struct heed_relative){.num_buckets = 6, .max_distance = 9, .bidirectional = true}, -2), 1);
    ck_assert_int_eq(ref_bucket(&(struct heed_relative){.num_buckets = 6, .max_distance = 9, .bidirectional = true}, -3), 2);
}
END_TEST

Suite *reference_suite(void) {
    Suite *suite = suite_create("reference");
    TCase *tests = tcase_create("reference");
    tcase_add_test(tests, test_reference_exp2);
    tcase_add_test(tests, test_reference_gemm);
    tcase_add_test(tests, test_reference_softmax);
    tcase_add_test(tests, test_reference_attention_closed_forms);
    tcase_add_test(tests, test_reference_attention_in_long_double);
    tcase_add_test(tests, test_reference_sight);
    tcase_add_test(tests, test_reference_key_position);
    tcase_add_test(tests, test_reference_terms);
    tcase_add_test(tests, test_reference_sinks);
    tcase_add_test(tests, test_reference_packed);
    tcase_add_test(tests, test_reference_buckets);
    suite_add_tcase(suite, tests);
    return suite;
}
