/* Errors against the oracle in double, within bounds derived from src/arithmetic.md; the analysis is Higham's (Accuracy and
 * Stability of Numerical Algorithms, 2002, chapter 3).
 *
 * u = 2^-24.  n roundings in a row are a factor 1 + theta, |theta| <= gamma(n) = n u / (1 - n u); one more than counted covers the
 * oracle's own error, as n 2^-53 < u.  A result below 2^-126 is instead off by at most 2^-150 for each rounding: TINY, doubled for
 * the factors that come after. */
#include "harness_attention.h"
#include "internal.h"
#include "reference/reference.h"
#include "suites.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define U    0x1p-24
#define TINY 0x1p-149
/* exp2 is 0 below -126, so a weight is off by up to 2^-126, in units of the largest one; with room for the factors that come after.
 */
#define FLUSH 0x1p-124
#define LOG2E 1.4426950408889634

static double gamma_of(int64_t n) { return (double)n * U / (1 - (double)n * U); }

static enum fill finite_fill(struct rng *rng, bool typical) {
    return typical ? FILL_NORMAL : (enum fill)rng_range(rng, 0, FILL_FINITE_COUNT - 1);
}

/* c = alpha * chain + beta * c: k roundings in the chain, one of alpha's product, one of the final fma.  So
 * |error| <= gamma(k + 2) (|alpha| sum |a| |b| + |beta c|), and TINY for each of them. */
static void check_gemm(struct rng *rng, const struct heed_exec *exec, struct accuracy *accuracy) {
    int64_t m = rng_range(rng, 1, 20), n = rng_range(rng, 1, 70),
            k = rng_range(rng, 0, 1) ? rng_range(rng, 0, 600) : rng_range(rng, 0, 9);
    bool typical = accuracy->typical = rng_range(rng, 0, 1);
    enum fill mode_a = finite_fill(rng, typical), mode_b = finite_fill(rng, typical);
    float *a = new_filled(rng, mode_a, m * k), *b = new_filled(rng, mode_b, k * n), *c = new_filled(rng, FILL_NORMAL, m * n);
    double *want = new_doubles(m * n);
    struct heed_gemm g = {.m = m, .n = n, .k = k, .alpha = 1.7f, .a = a, .lda = k, .b = b, .ldb = n, .c = c, .ldc = n};
    g.beta = rng_range(rng, 0, 1) ? -0.3f : 0.0f;
    float *before = new_floats(m * n);
    for (int64_t i = 0; i < m * n; i++)
        before[i] = c[i];
    ref_gemm(&g, want);
    describe("gemm", exec->isa, "%lld x %lld x %lld, %s times %s", (long long)m, (long long)n, (long long)k, fill_name(mode_a),
             fill_name(mode_b));
    ck_assert_int_eq(heed_gemm(&g, exec), HEED_OK);
    for (int64_t i = 0; i < m * n; i++) {
        double terms = fabs((double)g.beta * (double)before[i]);
        for (int64_t p = 0; p < k; p++)
            terms += fabs((double)g.alpha * (double)a[i / n * k + p] * (double)b[p * n + i % n]);
        must(accuracy_add(accuracy, c[i], want[i], gamma_of(k + 3) * terms + (double)(2 * k + 2) * TINY, terms));
    }
    free(a);
    free(b);
    free(c);
    free(before);
    free(want);
}

/* Softmax weights p[j] whose unnormalised logarithms, to base 2, are each off by at most e[j]: what their sum, 1, may be instead.
 */
struct spread {
    double low, high;
};

static struct spread spread_of(const double *p, const double *e, int64_t n) {
    struct spread sum = {.low = -(double)n * FLUSH, .high = (double)n * FLUSH};
    for (int64_t j = 0; j < n; j++) {
        sum.low += p[j] * exp2(-e[j]);
        sum.high += p[j] > 0 ? p[j] * exp2(e[j]) : 0;
    }
    sum.low = fmax(sum.low, 0);
    return sum;
}

/* How far such a weight may then be off: it lies between p 2^-e / high and p 2^e / low. */
static double weight_error(double p, double e, struct spread sum) {
    double above = p > 0 ? p * (exp2(e) / sum.low - 1) : 0, below = p > 0 ? p * (1 - exp2(-e) / sum.high) : 0;
    return fmax(above, below) + FLUSH / sum.low;
}

/* The argument t = (s x - m) |f| of exp2 has four roundings: log2(e), f, the difference and the product; exp2 is within 1 ULP,
 * which is at most 2 u of its result: 3 u in the logarithm.  So e = gamma(4) |t| + 3 u + TINY.  The sum is a chain of 16 in a lane,
 * of n / 256 over chunks and of 4 in the fold, then come 1 / sum and the product: gamma(16 + ceil(n / 256) + 4 + 2). */
static void check_softmax(struct rng *rng, const struct heed_exec *exec, struct accuracy *accuracy) {
    int64_t n = rng_range(rng, 0, 1) ? rng_range(rng, 1, 1500) : rng_range(rng, 1, 40);
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
        e[j] = gamma_of(5) * t + 3 * U + TINY;
    }
    struct spread sum = spread_of(want, e, n);
    for (int64_t j = 0; j < n; j++) {
        double off = weight_error(want[j], e[j], sum);
        must(accuracy_add(accuracy, y[j], want[j], off + gamma_of(23 + ceil_div(n, 256)) * (want[j] + off) + TINY, want[j]));
    }
    free(x);
    free(y);
    free(want);
    free(e);
}

/* One row of attention: what the oracle says, and how far its scores may be off. */
struct row {
    int64_t seen, chunks;
    const double *p, *output; /* the oracle's */
    double lse, *e;           /* e: see below */
    double max, terms;        /* of the scores to base 2, and of the absolute values that they are sums of, at most */
    struct spread sum;
};

/* A score, to base 2, is a chain of head_dim fmas over q' = q f.  f has at most four roundings (square root and quotient of the
 * scale, log2(e), their product), q' one more: |error| <= gamma(D + 5) sum |q k| |scale| log2(e) =: d, plus TINY for each fma and,
 * times |k|, for each q'.
 *
 * From scores to weights: a key's weight relative to the row's maximum M is the product of exp2(z - m_c), of exp2(m_c - m') and of
 * the exp2(m - m') of all later chunks; the arguments, each rounded once, add up to z - M, and each exp2 adds 3 u: so the logarithm
 * is off by e = d + u |z - M| + 3 u (chunks + 1).  As all keys of a chunk, and the sum l and the output o, use the same factors,
 * this is all that differs from the softmax of the rounded scores but for the roundings of the sums. */
static void bound_scores(const struct heed_attention *a, const float *query, const float *keys, struct row *row) {
    double scale = fabs(ref_scale(a)) * LOG2E, *z = new_doubles(row->seen);
    row->max = -INFINITY;
    row->terms = 0;
    for (int64_t j = 0; j < row->seen; j++) {
        double terms = 0, tiny = 0;
        z[j] = 0;
        for (int64_t d = 0; d < a->head_dim; d++) {
            double k = (double)keys[j * a->head_dim + d];
            z[j] += (double)query[d] * k * ref_scale(a) * LOG2E;
            terms += fabs((double)query[d] * k) * scale;
            tiny += (1 + fabs(k)) * TINY;
        }
        row->e[j] = gamma_of(a->head_dim + 6) * terms + tiny;
        row->max = fmax(row->max, z[j] + row->e[j]);
        row->terms = fmax(row->terms, terms);
    }
    for (int64_t j = 0; j < row->seen; j++)
        row->e[j] += U * (row->max - z[j] + row->e[j]) + 3 * U * (double)(row->chunks + 1);
    row->sum = spread_of(row->p, row->e, row->seen);
    free(z);
}

/* o: at most 256 fmas in the chunk, one product, one fma for each chunk; l: 20 additions, one product, one fma for each chunk; then
 * 1 / l and the product.  So an output is sum p' v (1 + theta), theta within gamma(min(n, 256) + 20 + 2 chunks + 4). */
static void check_output(const struct row *row, const struct heed_attention *a, const float *values, const float *got,
                         struct accuracy *accuracy) {
    double gamma = gamma_of(min_i64(row->seen, 256) + 25 + 2 * row->chunks);
    for (int64_t d = 0; d < a->value_dim; d++) {
        double bound = (double)(row->seen + 3 * row->chunks + 3) * TINY, terms = 0;
        for (int64_t j = 0; j < row->seen; j++) {
            double v = fabs((double)values[j * a->value_dim + d]), off = weight_error(row->p[j], row->e[j], row->sum);
            bound += v > 0 ? (off + gamma * (row->p[j] + off)) * v : 0;
            terms += row->p[j] * v;
        }
        must(accuracy_add(accuracy, got[d], row->output[d], bound, terms));
    }
}

static void check_weights(const struct row *row, const float *got, struct accuracy *accuracy) {
    for (int64_t j = 0; j < row->seen; j++) {
        double off = weight_error(row->p[j], row->e[j], row->sum);
        must(accuracy_add(accuracy, got[j], row->p[j], off + gamma_of(24 + row->chunks) * (row->p[j] + off) + TINY, row->p[j]));
    }
}

/* lse = fma(M, ln 2, ln l): the sum of the exponentials may be off as its spread and its 21 + chunks roundings say; ln by 2 u; ln 2
 * and the fma by u each. */
static void check_lse(const struct row *row, float got, struct accuracy *accuracy) {
    double spread = fmax(log(row->sum.high), -log(row->sum.low));
    double size = fabs(row->lse) + fabs(row->max) / LOG2E;
    must(accuracy_add(accuracy, got, row->lse, spread + gamma_of(22 + row->chunks) + 4 * U * size, size + row->terms));
}

struct attention_accuracy {
    struct accuracy output, weights, lse;
};

static void check_rows(const struct attention_case *c, const struct attention_result *got, struct attention_accuracy *accuracy) {
    const struct heed_attention *s = &c->sizes;
    int64_t rows = attention_rows(c), n = s->key_tokens;
    double *output = new_doubles(rows * s->value_dim), *weights = new_doubles(rows * n), *lse = new_doubles(rows),
           *e = new_doubles(n);
    struct heed_attention a = *s;
    a.query =
        (struct heed_input){c->query, s->num_heads * s->query_tokens * s->head_dim, s->query_tokens * s->head_dim, s->head_dim};
    a.key = (struct heed_input){c->key, s->num_kv_heads * n * s->head_dim, n * s->head_dim, s->head_dim};
    a.value = (struct heed_input){c->value, s->num_kv_heads * n * s->value_dim, n * s->value_dim, s->value_dim};
    ck_assert(ref_attention(&a, &(struct ref_attention_result){.output = output, .weights = weights, .lse = lse}));
    for (int64_t i = 0; i < rows; i++) {
        int64_t head = i / s->query_tokens, kv_head = head / (s->num_heads / s->num_kv_heads);
        struct row row = {.seen = keys_seen(s, i % s->query_tokens), .p = weights + i * n, .e = e, .lse = lse[i]};
        row.output = output + i * s->value_dim;
        row.chunks = ceil_div(row.seen, HEED_CHUNK);
        if (row.seen == 0)
            continue; /* exact, and tested in test_attention.c */
        bound_scores(s, c->query + i * s->head_dim, c->key + kv_head * n * s->head_dim, &row);
        check_output(&row, s, c->value + kv_head * n * s->value_dim, got->output + i * s->value_dim, &accuracy->output);
        check_weights(&row, got->weights + i * n, &accuracy->weights);
        check_lse(&row, got->lse[i], &accuracy->lse);
    }
    free(output);
    free(weights);
    free(lse);
    free(e);
}

START_TEST(test_gemm_accuracy) {
    struct rng rng = rng_for("gemm accuracy", _i);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name};
    struct accuracy accuracy = {0};
    for (int64_t i = 0; i < test_count(200); i++)
        check_gemm(&rng, &exec, &accuracy);
    accuracy_print(&accuracy, "gemm", exec.isa);
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
    struct attention_accuracy accuracy = {.output = {.results = 0}};
    for (int64_t i = 0; i < test_count(150); i++) {
        struct heed_attention sizes = random_attention_sizes(&rng, test_quick() ? 200000 : 1000000);
        bool typical = accuracy.output.typical = accuracy.weights.typical = accuracy.lse.typical = rng_range(&rng, 0, 1);
        enum fill query = finite_fill(&rng, typical), key = finite_fill(&rng, typical), value = finite_fill(&rng, typical);
        sizes.scale = typical ? 0 : sizes.scale;
        struct attention_case c = new_attention_case(&sizes, query, key, value, &rng);
        struct attention_result got = new_attention_result(&c);
        describe_attention(&c, "attention", &exec);
        run_attention(&c, &exec, NULL, &got);
        check_rows(&c, &got, &accuracy);
        free_attention_case(&c);
        free_attention_result(&got);
    }
    accuracy_print(&accuracy.output, "attention", exec.isa);
    accuracy_print(&accuracy.weights, "weights", exec.isa);
    accuracy_print(&accuracy.lse, "lse", exec.isa);
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
