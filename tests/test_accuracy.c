/* Errors against the oracle in double, within the bounds of harness_bounds.h. */
#include "harness_bounds.h"
#include "internal.h"
#include "suites.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static enum fill finite_fill(struct rng *rng, bool typical) {
    return typical ? FILL_NORMAL : (enum fill)rng_range(rng, 0, FILL_FINITE_COUNT - 1);
}

/* c = alpha * chain + beta * c: k roundings in the chain, one of alpha's product, one of the final fma.  So
 * |error| <= gamma(k + 2) (|alpha| sum |a| |b| + |beta c|), and TINY for each of them.
 *
 * In bf16 factors are rounded first, which makes of each product one within (1 + B)^2 of it; a factor, c or a result that becomes
 * 0 was less than 2^-126, and meets the other factor, or alpha or beta; doubled for the factors that come after, and the two
 * sums of each 32 products that AMX has. A product is in no more roundings then: 16 of its chain at most, and one for each 32. */
static void check_gemm(struct rng *rng, const struct heed_exec *exec, enum heed_compute compute, struct accuracy *accuracy) {
    const bool rounds = compute != HEED_COMPUTE_F32;
    int64_t m = rng_range(rng, 1, 20), n = rng_range(rng, 1, 70),
            k = rng_range(rng, 0, 1) ? rng_range(rng, 0, 600) : rng_range(rng, 0, 9);
    bool typical = accuracy->typical = rng_range(rng, 0, 1);
    enum fill mode_a = finite_fill(rng, typical), mode_b = finite_fill(rng, typical);
    float *a = new_filled(rng, mode_a, m * k), *b = new_filled(rng, mode_b, k * n), *c = new_filled(rng, FILL_NORMAL, m * n);
    double *want = new_doubles(m * n);
    struct heed_gemm g = {
        .m = m, .n = n, .k = k, .alpha = 1.7f, .compute = compute, .a = a, .lda = k, .b = b, .ldb = n, .c = c, .ldc = n};
    g.beta = rng_range(rng, 0, 1) ? -0.3f : 0.0f;
    float *before = new_floats(m * n);
    for (int64_t i = 0; i < m * n; i++)
        before[i] = c[i];
    ref_gemm(&g, want);
    describe("gemm", exec->isa, "%lld x %lld x %lld, %s times %s", (long long)m, (long long)n, (long long)k, fill_name(mode_a),
             fill_name(mode_b));
    ck_assert_int_eq(heed_gemm(&g, exec), HEED_OK);
    for (int64_t i = 0; i < m * n; i++) {
        const double beta_term = fabs((double)g.beta * (double)before[i]), alpha = fabs((double)g.alpha);
        double products = 0, factors = 0;
        for (int64_t p = 0; p < k; p++) {
            const double x = fabs((double)a[i / n * k + p]), y = fabs((double)b[p * n + i % n]);
            products += alpha * x * y;
            factors += x + y;
        }
        const double rounded = rounds ? (2 * B + B * B) * products : 0, terms = beta_term + products + rounded;
        const double flushed = rounds ? 0x1p-125 * (alpha * (factors + (double)k + 1) + fabs((double)g.beta) + 2) : 0;
        must(accuracy_add(accuracy, c[i], want[i], rounded + flushed + gamma_of(k + 3) * terms + (double)(2 * k + 2) * TINY,
                          beta_term + products));
    }
    free(a);
    free(b);
    free(c);
    free(before);
    free(want);
}

/* A weight is exp2(t1) exp2(t2), t1 = (s x - m_c) |f|, t2 = (m_c - m) |f|, neither above 0: what |t| = |t1| + |t2| is.  Each
 * argument has four roundings: log2(e), f, the difference and the product; exp2 is within 1 ULP, which is at most 2 u of its
 * result: 3 u in the logarithm.  So e = gamma(4) |t| + 6 u + TINY.  The sum is a chain of 16 in a lane, of 4 over these, of 4 in
 * the fold and of n / 1024 over chunks, then come 1 / sum and two products: gamma(16 + 4 + 4 + ceil(n / 1024) + 3). */
static void check_softmax(struct rng *rng, const struct heed_exec *exec, struct accuracy *accuracy) {
    int64_t n = rng_range(rng, 0, 1) ? rng_range(rng, 1, 5000) : rng_range(rng, 1, 40);
    bool typical = accuracy->typical = rng_range(rng, 0, 1);
    enum fill mode = finite_fill(rng, typical);
    float *x = new_filled(rng, mode, n), *y = new_floats(n), max = -INFINITY;
    double *want = new_doubles(n), *e = new_doubles(n);
    struct heed_softmax s = {.rows = 1, .columns = n, .scale = rng_range(rng, 0, 1) ? 0.25f : -1.3f, .input = x, .input_stride = n};
    s.output = y, s.output_stride = n;
    ref_softmax(&s, want);
    describe("softmax", exec->isa, "%lld columns, scale %g, %s", (long long)n, (double)s.scale, fill_name(mode));
    ck_assert_int_eq(heed_softmax(&s, exec), HEED_OK);
    for (int64_t j = 0; j < n; j++)
        max = fmaxf(max, s.scale < 0 ? -x[j] : x[j]);
    for (int64_t j = 0; j < n; j++) {
        double t = fabs((double)(s.scale < 0 ? -x[j] : x[j]) - (double)max) * fabs((double)s.scale) * LOG2E;
        e[j] = gamma_of(5) * t + 6 * U + TINY;
    }
    struct spread sum = spread_of(want, e, n);
    for (int64_t j = 0; j < n; j++) {
        double off = weight_error(want[j], e[j], sum);
        must(accuracy_add(accuracy, y[j], want[j], off + gamma_of(28 + ceil_div(n, HEED_SOFTMAX_CHUNK)) * (want[j] + off) + TINY,
                          want[j]));
    }
    free(x);
    free(y);
    free(want);
    free(e);
}

START_TEST(test_gemm_accuracy) {
    struct rng rng = rng_for("gemm accuracy", _i);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name};
    struct accuracy accuracy = {0}, of_pairs = {0}, of_dots = {0};
    for (int64_t i = 0; i < test_count(200); i++)
        check_gemm(&rng, &exec, HEED_COMPUTE_F32, &accuracy);
    for (int64_t i = 0; i < test_count(200); i++)
        check_gemm(&rng, &exec, HEED_COMPUTE_BF16, &of_pairs);
    for (int64_t i = 0; i < test_count(200); i++)
        check_gemm(&rng, &exec, HEED_COMPUTE_BF16_AMX, &of_dots);
    accuracy_print(&accuracy, "gemm", exec.isa);
    accuracy_print(&of_pairs, "bf16 gemm", exec.isa);
    accuracy_print(&of_dots, "AMX's bf16 gemm", exec.isa);
}
END_TEST

START_TEST(test_softmax_accuracy) {
    struct rng rng = rng_for("softmax accuracy", _i);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name};
    struct accuracy accuracy = {0};
    for (int64_t i = 0; i < test_count(400); i++)
        check_softmax(&rng, &exec, &accuracy);
    accuracy_print(&accuracy, "softmax", exec.isa);
}
END_TEST

START_TEST(test_attention_accuracy) {
    struct rng rng = rng_for("attention accuracy", _i);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name};
    struct attention_accuracy accuracy = {.part = {{0}}};
    for (int64_t i = 0; i < test_count(150); i++) {
        struct heed_attention sizes = random_attention_sizes(&rng, test_quick() ? 200000 : 1000000);
        bool typical = accuracy.part[OUTPUT].typical = accuracy.part[WEIGHTS].typical = accuracy.part[LSE].typical =
            rng_range(&rng, 0, 1);
        enum fill query = finite_fill(&rng, typical), key = finite_fill(&rng, typical), value = finite_fill(&rng, typical);
        sizes.scale = typical ? 0 : sizes.scale;
        struct attention_case c = new_attention_case(&sizes, query, key, value, &rng);
        struct attention_result got = new_attention_result(&c);
        describe_attention(&c, "attention", &exec);
        run_attention(&c, &exec, NULL, &got);
        check_attention(&c, &got, &accuracy);
        free_attention_case(&c);
        free_attention_result(&got);
    }
    accuracy_print(&accuracy.part[OUTPUT], "attention", exec.isa);
    accuracy_print(&accuracy.part[WEIGHTS], "weights", exec.isa);
    accuracy_print(&accuracy.part[LSE], "lse", exec.isa);
}
END_TEST

Suite *accuracy_suite(void) {
    Suite *suite = suite_create("accuracy");
    TCase *tests = tcase_create("accuracy");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_gemm_accuracy, 0, usable_tables());
    tcase_add_loop_test(tests, test_softmax_accuracy, 0, usable_tables());
    tcase_add_loop_test(tests, test_attention_accuracy, 0, usable_tables());
    suite_add_tcase(suite, tests);
    return suite;
}
