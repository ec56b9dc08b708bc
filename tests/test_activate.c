/* heed_activate: the same bits on every table, in place or not, for floats of all sizes; errors within a derived bound; what zeros,
 * Inf and NaN do. */
#include "harness_bounds.h"
#include "internal.h"
#include "suites.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AT_INPUT, AT_GATE, AT_RESIDUAL, AT_BIAS, AT_OUTPUT, TENSORS };

struct activate_case {
    struct heed_activate request; /* over contiguous tensors of its own; its output is not used */
    int over;                     /* the tensor that the output is, or AT_OUTPUT */
};

/* Of all sizes: what activations do depends on it. */
static void fill_sizes(struct rng *rng, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = ldexpf((float)rng_range(rng, -(1 << 23), 1 << 23), (int)rng_range(rng, -35, -16));
}

static struct activate_case new_case(struct rng *rng, enum fill mode, int64_t rows, int64_t columns) {
    struct activate_case c = {.request = {.rows = rows, .columns = columns}, .over = (int)rng_range(rng, AT_INPUT, AT_OUTPUT)};
    struct heed_activate *r = &c.request;
    float *input = new_filled(rng, mode, rows * columns);
    if (rng_range(rng, 0, 1))
        fill_sizes(rng, input, rows * columns);
    r->activation = (enum heed_activation)rng_range(rng, HEED_IDENTITY, HEED_SILU);
    r->input = input;
    r->gate = rng_range(rng, 0, 1) ? new_filled(rng, mode, rows * columns) : NULL;
    r->residual = rng_range(rng, 0, 1) ? new_filled(rng, mode, rows * columns) : NULL;
    r->bias = rng_range(rng, 0, 1) ? new_filled(rng, FILL_NORMAL, columns) : NULL;
    r->input_stride = r->gate_stride = r->residual_stride = r->output_stride = columns;
    if (c.over == AT_BIAS || (c.over == AT_GATE && !r->gate) || (c.over == AT_RESIDUAL && !r->residual))
        c.over = AT_OUTPUT;
    return c;
}

static void free_case(struct activate_case *c) {
    const float *const all[] = {c->request.input, c->request.gate, c->request.residual, c->request.bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free((void *)(uintptr_t)all[i]);
}

static void run(const struct activate_case *c, const struct heed_exec *exec, struct rng *rng, float *output) {
    struct heed_activate r = c->request;
    const float *const values[TENSORS] = {r.input, r.gate, r.residual, r.bias, NULL};
    struct tensor t[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        const int64_t rows = i == AT_BIAS ? 1 : r.rows;
        t[i] = matrix(rows, r.columns, r.columns + (i == AT_BIAS ? 0 : rng_range(rng, 0, 5)), any_placement(rng), values[i]);
    }
    const struct tensor *to = &t[c->over];
    r.input = t[AT_INPUT].data, r.input_stride = t[AT_INPUT].stride[2];
    r.gate = r.gate ? t[AT_GATE].data : NULL, r.gate_stride = t[AT_GATE].stride[2];
    r.residual = r.residual ? t[AT_RESIDUAL].data : NULL, r.residual_stride = t[AT_RESIDUAL].stride[2];
    r.bias = r.bias ? t[AT_BIAS].data : NULL;
    r.output = to->data, r.output_stride = to->stride[2];
    ck_assert_msg(heed_activate(&r, exec) == HEED_OK, "%s", heed_error_message());
    for (int i = 0; i < TENSORS; i++) {
        must(i == c->over ? tensor_take(&t[i], output) : tensor_unchanged(&t[i]));
        tensor_free(&t[i]);
    }
}

static void check_case(struct rng *rng) {
    const enum fill mode = any_fill(rng);
    const int64_t rows = rng_range(rng, 0, 9), columns = rng_range(rng, 0, 3) ? rng_range(rng, 0, 80) : rng_range(rng, 81, 3000);
    struct activate_case c = new_case(rng, mode, rows, columns), plain = c;
    float *want = new_floats(rows * columns), *got = new_floats(rows * columns);
    plain.over = AT_OUTPUT;
    describe("activate", "scalar", "%lld x %lld", (long long)rows, (long long)columns);
    run(&plain, &(struct heed_exec){.threads = 1, .isa = "scalar"}, rng, want);
    for (int i = 0; heed_kernels_usable(i); i++) {
        const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(rng)};
        describe("activate", exec.isa, "%lld x %lld, activation %d, %s%s%s%s, place %d, %d threads", (long long)rows,
                 (long long)columns, (int)c.request.activation, fill_name(mode), c.request.gate ? ", gate" : "",
                 c.request.residual ? ", residual" : "", c.request.bias ? ", bias" : "", c.over, exec.threads);
        run(&c, &exec, rng, got);
        must(compare(SAME_BITS, got, want, rows, columns));
    }
    free(want);
    free(got);
    free_case(&c);
}

START_TEST(test_activate_same_bits) {
    struct rng rng = rng_for("activate", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++)
        check_case(&rng);
}
END_TEST

/* Of x / (1 + exp(-y)), where y and its exponential are off by some factors of 1 + a little: the function is monotone in both, so
 * that the ends of their intervals tell how far.  The sum, the quotient and, for negative x, fma round once each; what is below
 * e^-87 may become 0. */
static double logistic_error(double x, double y, double relative, double e_relative) {
    const double at = x / (1 + exp(-y)), factor = exp(fabs(y) * relative) * (1 + e_relative);
    const double off = fmax(fabs(x / (1 + exp(-y) * factor) - at), fabs(x / (1 + exp(-y) / factor) - at));
    return off + gamma_of(3) * (fabs(at) + off) + 0x1p-118;
}

/* exp2 is off by 1 ULP, 2 U, its correction rounds once more, and what that leaves is below 2^-33. */
static const double exp_relative = 4 * U;

/* a P(-a), relatively: the exponential; r, whose polynomial is off by 2^-25, its Horner scheme by at most 29 U (the sum over k of
 * (2 k + 1) |c[k] q^k|, by r, is 28.3 where a = 13.2), and q, with 3 roundings, by 3 U times |q r'(q) / r(q)|, at most 2.1; two
 * products. */
static double normal_error(double x) {
    const double at = ref_activation(HEED_GELU, x), tail = fabs(x) / 2 * erfc(fabs(x) / sqrt(2));
    const double off = tail * (exp_relative + 0x1p-25 + (29 + 7 + 2) * U);
    return off + U * (fabs(at) + off) + 0x1p-120;
}

/* y of GELU by tanh has 6 roundings. */
static double activation_error(enum heed_activation activation, double x) {
    switch (activation) {
    case HEED_GELU:
        return normal_error(x);
    case HEED_GELU_TANH:
        return logistic_error(x, 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x), gamma_of(6), exp_relative);
    case HEED_SILU:
        return logistic_error(x, x, 0, exp_relative);
    default:
        return 0;
    }
}

static void check_row(const struct heed_activate *r, const float *got, const double *want, struct accuracy *accuracy) {
    for (int64_t j = 0; j < r->columns; j++) {
        const double x = (double)(float)(r->input[j] + (r->bias ? r->bias[j] : 0)), gate = r->gate ? fabs((double)r->gate[j]) : 1;
        const double y = fabs(ref_activation(r->activation, x)), off = activation_error(r->activation, x);
        const double product = (y + off) * gate, residual = r->residual ? fabs((double)r->residual[j]) : 0;
        const double bound = off * gate + 2 * U * (product + residual) + TINY;
        must(accuracy_add(accuracy, got[j], want[j], bound, y * gate + residual + 0x1p-100));
    }
}

START_TEST(test_activate_accuracy) {
    struct rng rng = rng_for("activate accuracy", 0);
    struct accuracy accuracy = {0};
    for (int64_t repeat = 0; repeat < test_count(400); repeat++) {
        struct activate_case c = new_case(&rng, FILL_NORMAL, 1, rng_range(&rng, 1, 2000));
        float *got = new_floats(c.request.columns);
        double *want = new_doubles(c.request.columns);
        const struct heed_exec exec = {.isa = any_isa(&rng)};
        describe("activate", exec.isa, "%lld columns, activation %d", (long long)c.request.columns, (int)c.request.activation);
        run(&c, &exec, &rng, got);
        ref_activate(&c.request, want);
        accuracy.typical = !c.request.residual;
        check_row(&c.request, got, want, &accuracy);
        free(got);
        free(want);
        free_case(&c);
    }
    accuracy_print(&accuracy, "activate", "any");
}
END_TEST

START_TEST(test_activate_special_values) {
    enum { VALUES = 8, ACTIVATIONS = 5 };
    const float inf = INFINITY, nan = NAN, most = 0x1.fffffep127f;
    const float x[VALUES] = {0, -0.0f, inf, -inf, nan, most, -most, 100};
    const float want[ACTIVATIONS][VALUES] = {{0, -0.0f, inf, -inf, nan, most, -most, 100},
                                             {0, 0, inf, 0, nan, most, 0, 100},
                                             {0, 0, inf, 0, nan, most, 0, 100},
                                             {0, 0, inf, 0, nan, most, 0, 100},
                                             {0, 0, inf, 0, nan, most, 0, 100}};
    for (int i = 0; heed_kernels_usable(i); i++)
        for (int a = 0; a < ACTIVATIONS; a++) {
            const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name};
            float got[VALUES];
            describe("activate", exec.isa, "special values, activation %d", a);
            ck_assert_int_eq(
                heed_activate(
                    &(struct heed_activate){
                        .rows = 1, .columns = VALUES, .activation = (enum heed_activation)a, .input = x, .output = got},
                    &exec),
                HEED_OK);
            must(compare(SAME_BITS, got, want[a], 1, VALUES));
        }
}
END_TEST

Suite *activate_suite(void) {
    Suite *suite = suite_create("activate");
    TCase *tests = tcase_create("activate");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_activate_same_bits);
    tcase_add_test(tests, test_activate_accuracy);
    tcase_add_test(tests, test_activate_special_values);
    suite_add_tcase(suite, tests);
    return suite;
}
