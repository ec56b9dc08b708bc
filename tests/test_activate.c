/* heed_activate: the same bits on every table, in any types, in place or not, for floats of all sizes; errors within a derived
 * bound; what zeros, Inf and NaN do. */
#include "harness_bounds.h"
#include "internal.h"
#include "stored.h"
#include "stored_matrix.h"
#include "suites.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AT_INPUT, AT_GATE, AT_RESIDUAL, AT_OUTPUT, VIEWS };

struct activate_case {
    struct heed_activate request; /* over contiguous floats of its own, without output */
    enum heed_type type[VIEWS];
    int over; /* the view that the output is, or AT_OUTPUT */
};

static struct heed_input floats(const float *data, int64_t columns) {
    return (struct heed_input){.data = data, .token_stride = columns};
}

/* Of all sizes: what activations do depends on it. */
static void fill_sizes(struct rng *rng, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = ldexpf((float)rng_range(rng, -(1 << 23), 1 << 23), (int)rng_range(rng, -35, -16));
}

static struct activate_case new_case(struct rng *rng, enum fill mode, int64_t rows, int64_t columns) {
    struct activate_case c = {.request = {.rows = rows, .columns = columns}, .over = (int)rng_range(rng, AT_INPUT, AT_OUTPUT)};
    const enum heed_type most = rng_range(rng, 0, 1) ? HEED_F16 : HEED_F32;
    struct heed_activate *r = &c.request;
    float *values[AT_OUTPUT] = {new_filled(rng, mode, rows * columns)};
    if (rng_range(rng, 0, 1))
        fill_sizes(rng, values[AT_INPUT], rows * columns);
    r->activation = (enum heed_activation)rng_range(rng, HEED_IDENTITY, HEED_SILU);
    for (int i = AT_GATE; i <= AT_RESIDUAL; i++)
        values[i] = rng_range(rng, 0, 1) ? new_filled(rng, mode, rows * columns) : NULL;
    if (c.over != AT_OUTPUT && !values[c.over])
        c.over = AT_OUTPUT;
    for (int i = 0; i < VIEWS; i++) {
        c.type[i] = (enum heed_type)rng_range(rng, HEED_F32, most);
        if (i < AT_OUTPUT && values[i])
            round_floats(c.type[i], values[i], rows * columns);
    }
    c.type[AT_OUTPUT] = c.type[c.over];
    r->input = floats(values[AT_INPUT], columns);
    r->gate = floats(values[AT_GATE], columns);
    r->residual = floats(values[AT_RESIDUAL], columns);
    r->bias = rng_range(rng, 0, 1) ? new_filled(rng, FILL_NORMAL, columns) : NULL;
    return c;
}

static void free_case(struct activate_case *c) {
    const void *const all[] = {c->request.input.data, c->request.gate.data, c->request.residual.data, c->request.bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free((void *)(uintptr_t)all[i]);
}

/* output as floats: [rows][columns] */
static void run_floats(const struct activate_case *c, const struct heed_exec *exec, float *output) {
    struct heed_activate r = c->request;
    r.output = (struct heed_output){.data = output, .token_stride = r.columns};
    ck_assert_msg(heed_activate(&r, exec) == HEED_OK, "%s", heed_error_message());
}

/* In any types, in place or not, the output is the floats, rounded, and inputs stay as they are. */
static void check_stored(const struct activate_case *c, const struct heed_exec *exec, struct rng *rng, const float *output) {
    struct heed_activate r = c->request;
    struct heed_input *const inputs[AT_OUTPUT] = {&r.input, &r.gate, &r.residual};
    const float *const values[AT_OUTPUT] = {r.input.data, r.gate.data, r.residual.data};
    struct stored_matrix at[VIEWS];
    for (int i = 0; i < VIEWS; i++) {
        at[i] = stored_matrix_new(rng, c->type[i], r.rows, r.columns);
        if (i == AT_OUTPUT || !values[i])
            continue;
        stored_matrix_put(&at[i], values[i]);
        *inputs[i] = (struct heed_input){.data = at[i].data, .token_stride = at[i].ld, .type = at[i].type};
    }
    const struct stored_matrix *to = &at[c->over];
    r.output = (struct heed_output){.data = to->data, .token_stride = to->ld, .type = to->type};
    ck_assert_msg(heed_activate(&r, exec) == HEED_OK, "%s", heed_error_message());
    must_hold(to, output);
    for (int i = 0; i < VIEWS; i++) {
        if (i != c->over && i != AT_OUTPUT && values[i])
            must_hold(&at[i], values[i]);
        buffer_free(&at[i].memory);
    }
}

static void check_case(struct rng *rng) {
    const enum fill mode = any_fill(rng);
    const int64_t rows = rng_range(rng, 0, 9), columns = rng_range(rng, 0, 3) ? rng_range(rng, 0, 80) : rng_range(rng, 81, 3000);
    struct activate_case c = new_case(rng, mode, rows, columns);
    float *want = new_floats(rows * columns);
    describe("activate", "scalar", "%lld x %lld", (long long)rows, (long long)columns);
    run_floats(&c, &(struct heed_exec){.threads = 1, .isa = "scalar"}, want);
    for (int i = 0; heed_kernels_usable(i); i++) {
        const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(rng)};
        describe("activate", exec.isa, "%lld x %lld, activation %d, %s%s%s%s, types %d %d %d %d, place %d, %d threads",
                 (long long)rows, (long long)columns, (int)c.request.activation, fill_name(mode),
                 c.request.gate.data ? ", gate" : "", c.request.residual.data ? ", residual" : "", c.request.bias ? ", bias" : "",
                 (int)c.type[AT_INPUT], (int)c.type[AT_GATE], (int)c.type[AT_RESIDUAL], (int)c.type[AT_OUTPUT], c.over,
                 exec.threads);
        check_stored(&c, &exec, rng, want);
    }
    free(want);
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
    const float *input = r->input.data, *gates = r->gate.data, *residuals = r->residual.data;
    for (int64_t j = 0; j < r->columns; j++) {
        const double x = (double)(float)(input[j] + (r->bias ? r->bias[j] : 0)), gate = gates ? fabs((double)gates[j]) : 1;
        const double y = fabs(ref_activation(r->activation, x)), off = activation_error(r->activation, x);
        const double product = (y + off) * gate, residual = residuals ? fabs((double)residuals[j]) : 0;
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
        run_floats(&c, &exec, got);
        ref_activate(&c.request, want);
        accuracy.typical = !c.request.residual.data;
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
            ck_assert_int_eq(heed_activate(&(struct heed_activate){.rows = 1,
                                                                   .columns = VALUES,
                                                                   .activation = (enum heed_activation)a,
                                                                   .input = floats(x, 0),
                                                                   .output = {.data = got}},
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
