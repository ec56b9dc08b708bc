/* heed_layer_norm and heed_rms_norm: the same bits on every table, in place or not; errors within a derived bound; what zeros, Inf
 * and NaN do. */
#include "harness_bounds.h"
#include "internal.h"
#include "suites.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where an output goes. */
enum place { APART, OVER_INPUT, OVER_RESIDUAL, PLACES };

struct norm_case {
    struct heed_norm request; /* over contiguous tensors of its own; its outputs are not used */
    bool centers;
    enum place output, sum; /* sum NULL in request: not wanted */
};

static struct norm_case new_case(struct rng *rng, enum fill mode, int64_t rows, int64_t columns) {
    static const float epsilons[] = {0, 1e-5f, 1e-12f, 1};
    struct norm_case c = {.request = {.rows = rows, .columns = columns, .epsilon = epsilons[rng_range(rng, 0, 3)]},
                          .centers = rng_range(rng, 0, 1),
                          .output = (enum place)rng_range(rng, 0, PLACES - 1),
                          .sum = (enum place)rng_range(rng, 0, PLACES - 1)};
    struct heed_norm *r = &c.request;
    r->input = new_filled(rng, mode, rows * columns);
    r->residual = rng_range(rng, 0, 1) ? new_filled(rng, mode, rows * columns) : NULL;
    r->gain = rng_range(rng, 0, 2) ? new_filled(rng, FILL_NORMAL, columns) : NULL;
    r->bias = rng_range(rng, 0, 2) ? new_filled(rng, FILL_NORMAL, columns) : NULL;
    r->sum = rng_range(rng, 0, 1) ? new_floats(rows * columns) : NULL;
    r->input_stride = r->residual_stride = r->output_stride = r->sum_stride = columns;
    if (c.output == OVER_RESIDUAL && !r->residual)
        c.output = APART;
    if (c.sum == c.output || (c.sum == OVER_RESIDUAL && !r->residual))
        c.sum = APART;
    return c;
}

static void free_case(struct norm_case *c) {
    const float *const all[] = {c->request.input, c->request.residual, c->request.gain, c->request.bias, c->request.sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free((void *)(uintptr_t)all[i]);
}

enum { AT_INPUT, AT_RESIDUAL, AT_GAIN, AT_BIAS, AT_OUTPUT, AT_SUM, TENSORS };

static struct tensor lay(struct rng *rng, int64_t rows, int64_t columns, const float *values) {
    return matrix(rows, columns, columns + rng_range(rng, 0, 5), any_placement(rng), values);
}

/* An output that is to be an input too starts as that. */
static void place(struct tensor *output, enum place where, const struct heed_norm *values) {
    if (where != APART)
        tensor_put(output, where == OVER_INPUT ? values->input : values->residual);
}

static const struct tensor *source(const struct norm_case *c, const struct tensor t[TENSORS], enum place where, int apart) {
    return c->output == where ? &t[AT_OUTPUT] : c->request.sum && c->sum == where ? &t[AT_SUM] : &t[apart];
}

/* output and sum: [rows][columns] */
static void run(const struct norm_case *c, const struct heed_exec *exec, struct rng *rng, float *output, float *sum) {
    struct heed_norm r = c->request;
    const float *values[] = {r.input, r.residual, r.gain, r.bias, NULL, NULL};
    struct tensor t[TENSORS];
    for (int i = 0; i < TENSORS; i++)
        t[i] = i == AT_GAIN || i == AT_BIAS ? matrix(1, r.columns, r.columns, any_placement(rng), values[i])
                                            : lay(rng, r.rows, r.columns, values[i]);
    place(&t[AT_OUTPUT], c->output, &c->request);
    if (r.sum)
        place(&t[AT_SUM], c->sum, &c->request);
    const struct tensor *input = source(c, t, OVER_INPUT, AT_INPUT), *residual = source(c, t, OVER_RESIDUAL, AT_RESIDUAL);
    r.input = input->data, r.input_stride = input->stride[2];
    if (r.residual)
        r.residual = residual->data, r.residual_stride = residual->stride[2];
    r.gain = r.gain ? t[AT_GAIN].data : NULL, r.bias = r.bias ? t[AT_BIAS].data : NULL;
    r.output = t[AT_OUTPUT].data, r.output_stride = t[AT_OUTPUT].stride[2];
    if (r.sum)
        r.sum = t[AT_SUM].data, r.sum_stride = t[AT_SUM].stride[2];
    ck_assert_msg((c->centers ? heed_layer_norm : heed_rms_norm)(&r, exec) == HEED_OK, "%s", heed_error_message());
    must(tensor_take(&t[AT_OUTPUT], output));
    must(c->request.sum ? tensor_take(&t[AT_SUM], sum) : tensor_unchanged(&t[AT_SUM]));
    for (int i = 0; i < TENSORS; i++) {
        if (i < AT_OUTPUT)
            must(tensor_unchanged(&t[i]));
        tensor_free(&t[i]);
    }
}

static void check_case(struct rng *rng) {
    static const int64_t long_rows[] = {255, 256, 257, 384, 513, 1000, 5000};
    const enum fill mode = any_fill(rng);
    const int64_t columns = rng_range(rng, 0, 3) ? rng_range(rng, 0, 80) : long_rows[rng_range(rng, 0, 6)];
    struct norm_case c = new_case(rng, mode, rng_range(rng, 0, 9), columns), plain = c;
    const int64_t n = c.request.rows * columns;
    float *want = new_floats(n), *got = new_floats(n), *want_sum = new_floats(n), *got_sum = new_floats(n);
    plain.output = plain.sum = APART;
    describe("norm", "scalar", "%lld x %lld", (long long)c.request.rows, (long long)columns);
    run(&plain, &(struct heed_exec){.threads = 1, .isa = "scalar"}, rng, want, want_sum);
    for (int i = 0; heed_kernels_usable(i); i++) {
        const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(rng)};
        describe("norm", exec.isa, "%lld x %lld, %s, epsilon %g, %s%s%s%s, places %d %d, %d threads", (long long)c.request.rows,
                 (long long)columns, c.centers ? "layer" : "RMS", (double)c.request.epsilon, fill_name(mode),
                 c.request.residual ? ", residual" : "", c.request.gain ? ", gain" : "", c.request.bias ? ", bias" : "",
                 (int)c.output, (int)c.sum, exec.threads);
        run(&c, &exec, rng, got, got_sum);
        must(compare(SAME_BITS, got, want, c.request.rows, columns));
        if (c.request.sum)
            must(compare(SAME_BITS, got_sum, want_sum, c.request.rows, columns));
    }
    float *const all[] = {want, got, want_sum, got_sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free_case(&c);
}

START_TEST(test_norm_same_bits) {
    struct rng rng = rng_for("norm", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++)
        check_case(&rng);
}
END_TEST

/* Of one row, what the bound of its elements is made of. */
struct row_bound {
    double mean;        /* of x, or 0 */
    double magnitude;   /* of the mean's terms */
    double center;      /* how far d is off, but for its own rounding and that of x */
    double r, relative; /* 1 / sqrt, and how far off */
};

/* Sums have gamma(16 + ceil(n / 256) + 4), quotients one more.  With e[j] the error of d[j], the mean of squares is off by
 * mean(2 |d| e + e^2), and relatively by the sum's roundings, of the square itself, and of the quotient.  Adding epsilon, the root
 * and its reciprocal round once each; the root halves what came in, which for w = relative error below 1 is at most w / (2 - 2 w).
 */
static struct row_bound bound_of(const struct norm_case *c, const double *x, double *e) {
    const int64_t n = c->request.columns;
    const double sums = gamma_of(16 + ceil_div(n, 256) + 4 + 1);
    struct row_bound b = {0};
    double squares = 0, off = 0;
    for (int64_t j = 0; j < n; j++) {
        b.mean += c->centers ? x[j] / (double)n : 0;
        b.magnitude += c->centers ? fabs(x[j]) / (double)n : 0;
    }
    b.center = sums * b.magnitude * (1 + U) + U * b.magnitude;
    for (int64_t j = 0; j < n; j++) {
        const double d = fabs(x[j] - b.mean);
        e[j] = b.center + (c->request.residual ? U * fabs(x[j]) : 0);
        e[j] += c->centers ? U * (d + e[j]) : 0;
        squares += d * d / (double)n;
        off += (2 * d * e[j] + e[j] * e[j]) / (double)n;
    }
    const double w =
        (off + gamma_of(16 + ceil_div(n, 256) + 4 + 3) * (squares + off)) / (squares + (double)c->request.epsilon) + 2 * U;
    b.r = 1 / sqrt(squares + (double)c->request.epsilon);
    b.relative = w / (2 - 2 * w) + 3 * U;
    b.relative = w < 0.5 ? b.relative : INFINITY;
    return b;
}

static void check_row(const struct norm_case *c, int64_t i, const float *got, const double *want, struct accuracy *accuracy) {
    const struct heed_norm *r = &c->request;
    const int64_t n = r->columns;
    double *x = new_doubles(n), *e = new_doubles(n);
    for (int64_t j = 0; j < n; j++)
        x[j] = (double)r->input[i * n + j] + (r->residual ? (double)r->residual[i * n + j] : 0);
    const struct row_bound b = bound_of(c, x, e);
    for (int64_t j = 0; j < n; j++) {
        const double d = fabs(x[j] - b.mean), gain = r->gain ? fabs((double)r->gain[j]) : 1, y = fabs(want[j]);
        const double term = (d + e[j]) * b.r * (1 + b.relative) * (1 + U);
        const double bound = gain * (term - d * b.r) + U * (y + gain * (term - d * b.r)) + 4 * TINY;
        const double terms = gain * (fabs(x[j]) + b.magnitude) * b.r + (r->bias ? fabs((double)r->bias[j]) : 0);
        must(accuracy_add(accuracy, got[j], want[j], bound, terms));
    }
    free(x);
    free(e);
}

START_TEST(test_norm_accuracy) {
    struct rng rng = rng_for("norm accuracy", 0);
    struct accuracy accuracy = {0};
    for (int64_t repeat = 0; repeat < test_count(300); repeat++) {
        struct norm_case c = new_case(&rng, FILL_NORMAL, 3, rng_range(&rng, 1, 1500));
        const int64_t n = c.request.columns;
        float *got = new_floats(3 * n), *sum = new_floats(3 * n);
        double *want = new_doubles(3 * n);
        const struct heed_exec exec = {.isa = any_isa(&rng)};
        c.request.epsilon = c.request.epsilon > 0 ? c.request.epsilon : 1e-6f;
        accuracy.typical = n >= 64; /* of few elements alike the difference from the mean cancels */
        describe("norm", exec.isa, "%lld columns, %s", (long long)n, c.centers ? "layer" : "RMS");
        run(&c, &exec, &rng, got, sum);
        ref_norm(&c.request, c.centers, want);
        for (int64_t i = 0; i < 3; i++)
            check_row(&c, i, got + i * n, want + i * n, &accuracy);
        free(got);
        free(sum);
        free(want);
        free_case(&c);
    }
    accuracy_print(&accuracy, "norm", "any");
}
END_TEST

/* What is exact, or said in the header. */
START_TEST(test_norm_special_rows) {
    enum { ROWS = 6, COLUMNS = 4 };
    const float inf = INFINITY, nan = NAN;
    const float values[ROWS * COLUMNS] = {1, 1, -1, -1, 3, 3, 1, 1, 7, 7, 7, 7, 0, 0, -0.0f, 0, 1, nan, 2, 3, 1, -2, inf, 0};
    const float layer[ROWS * COLUMNS] = {1,   1,   -1,  -1,  1,   1,   -1,  -1,  nan, nan, nan, nan,
                                         nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan};
    const float rms[ROWS * COLUMNS] = {1, 1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, nan, nan, nan, nan, nan, nan, nan, nan, 0, 0, nan, 0};
    for (int i = 0; heed_kernels_usable(i); i++) {
        const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name};
        float got[ROWS * COLUMNS];
        struct heed_norm r = {
            .rows = ROWS, .columns = COLUMNS, .input = values, .input_stride = COLUMNS, .output = got, .output_stride = COLUMNS};
        describe("norm", exec.isa, "special rows");
        ck_assert_int_eq(heed_layer_norm(&r, &exec), HEED_OK);
        must(compare(SAME_BITS, got, layer, ROWS, COLUMNS));
        ck_assert_int_eq(heed_rms_norm(&r, &exec), HEED_OK);
        memcpy(got + COLUMNS, rms + COLUMNS, COLUMNS * sizeof *got); /* 3 / sqrt(5) is no number to write down */
        must(compare(SAME_BITS, got, rms, ROWS, COLUMNS));
        r.epsilon = 1;
        r.rows = 4;
        ck_assert_int_eq(heed_layer_norm(&r, &exec), HEED_OK);
        for (int j = 2 * COLUMNS; j < 4 * COLUMNS; j++)
            ck_assert_msg(got[j] == 0 && !signbit(got[j]), "element %d is %g", j, (double)got[j]);
    }
}
END_TEST

Suite *norm_suite(void) {
    Suite *suite = suite_create("norm");
    TCase *tests = tcase_create("norm");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_norm_same_bits);
    tcase_add_test(tests, test_norm_accuracy);
    tcase_add_test(tests, test_norm_special_rows);
    suite_add_tcase(suite, tests);
    return suite;
}
