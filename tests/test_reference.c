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
    a->query = (struct heed_input){query, a->num_heads * a->query_tokens * a->head_dim, a->query_tokens * a->head_dim, a->head_dim};
    a->key = (struct heed_input){key, a->num_kv_heads * a->key_tokens * a->head_dim, a->key_tokens * a->head_dim, a->head_dim};
    a->value =
        (struct heed_input){value, a->num_kv_heads * a->key_tokens * a->value_dim, a->key_tokens * a->value_dim, a->value_dim};
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
    const float *q = a->query.data + batch * a->query.batch_stride + head * a->query.head_stride + i * a->query.token_stride;
    long double top = 0, bottom = 0, scale = a->scale != 0 ? (long double)a->scale : 1 / sqrtl((long double)a->head_dim);
    for (int64_t j = 0; j < a->key_tokens; j++) {
        int64_t shift = a->alignment == HEED_ALIGN_BOTTOM_RIGHT ? a->key_tokens - a->query_tokens : 0;
        if (a->causal && j > i + shift)
            continue;
        const float *k = a->key.data + batch * a->key.batch_stride + kv_head * a->key.head_stride + j * a->key.token_stride;
        long double score = 0;
        for (int64_t e = 0; e < a->head_dim; e++)
            score += (long double)q[e] * (long double)k[e];
        bottom += expl(scale * score);
        top += expl(scale * score) *
               (long double)
                   a->value.data[batch * a->value.batch_stride + kv_head * a->value.head_stride + j * a->value.token_stride + d];
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

Suite *reference_suite(void) {
    Suite *suite = suite_create("reference");
    TCase *tests = tcase_create("reference");
    tcase_add_test(tests, test_reference_exp2);
    tcase_add_test(tests, test_reference_gemm);
    tcase_add_test(tests, test_reference_softmax);
    tcase_add_test(tests, test_reference_attention_closed_forms);
    tcase_add_test(tests, test_reference_attention_in_long_double);
    suite_add_tcase(suite, tests);
    return suite;
}
