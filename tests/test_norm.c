/* heed_layer_norm and heed_rms_norm: the same bits on every table, in any types, in place or not; errors within a derived bound;
 * what zeros, Inf and NaN do. */
#include "harness_bounds.h"
#include "internal.h"
#include "stored.h"
#include "stored_matrix.h"
#include "suites.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where an output goes. */
enum place { APART, OVER_INPUT, OVER_RESIDUAL, PLACES };
enum { AT_INPUT, AT_RESIDUAL, AT_OUTPUT, AT_SUM, VIEWS };

struct norm_case {
    struct heed_norm request; /* over contiguous floats of its own, without outputs */
    enum heed_type type[VIEWS];
    bool centers, sums;
    enum place output, sum;
};

static struct heed_input floats(const float *data, int64_t columns) {
    return (struct heed_input){.data = data, .token_stride = columns};
}

/* An output that goes where an input is has its type. */
static enum place any_place(struct rng *rng, struct norm_case *c, int output) {
    const enum place place = (enum place)rng_range(rng, APART, c->request.residual.data ? OVER_RESIDUAL : OVER_INPUT);
    if (place != APART)
        c->type[output] = c->type[place == OVER_INPUT ? AT_INPUT : AT_RESIDUAL];
    return place;
}

static struct norm_case new_case(struct rng *rng, enum fill mode, int64_t rows, int64_t columns) {
    static const float epsilons[] = {0, 1e-5f, 1e-12f, 1};
    struct norm_case c = {.request = {.rows = rows, .columns = columns, .epsilon = epsilons[rng_range(rng, 0, 3)]},
                          .centers = rng_range(rng, 0, 1),
                          .sums = rng_range(rng, 0, 1)};
    const enum heed_type most = rng_range(rng, 0, 1) ? HEED_F16 : HEED_F32;
    struct heed_norm *r = &c.request;
    float *values[2] = {new_filled(rng, mode, rows * columns), rng_range(rng, 0, 1) ? new_filled(rng, mode, rows * columns) : NULL};
    for (int i = 0; i < VIEWS; i++)
        c.type[i] = (enum heed_type)rng_range(rng, HEED_F32, most);
    for (int i = AT_INPUT; i <= AT_RESIDUAL; i++)
        round_floats(c.type[i], values[i], values[i] ? rows * columns : 0);
    r->input = floats(values[AT_INPUT], columns);
    r->residual = floats(values[AT_RESIDUAL], columns);
    r->gain = rng_range(rng, 0, 2) ? new_filled(rng, FILL_NORMAL, columns) : NULL;
    r->bias = rng_range(rng, 0, 2) ? new_filled(rng, FILL_NORMAL, columns) : NULL;
    c.output = any_place(rng, &c, AT_OUTPUT);
    c.sum = any_place(rng, &c, AT_SUM);
    if (c.sum == c.output)
        c.sum = APART;
    return c;
}

static void free_case(struct norm_case *c) {
    const void *const all[] = {c->request.input.data, c->request.residual.data, c->request.gain, c->request.bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free((void *)(uintptr_t)all[i]);
}

static void call(const struct norm_case *c, const struct heed_norm *r, const struct heed_exec *exec) {
    ck_assert_msg((c->centers ? heed_layer_norm : heed_rms_norm)(r, exec) == HEED_OK, "%s", heed_error_message());
}

/* output and sum as floats: [rows][columns] */
static void run_floats(const struct norm_case *c, const struct heed_exec *exec, float *output, float *sum) {
    struct heed_norm r = c->request;
    r.output = (struct heed_output){.data = output, .token_stride = r.columns};
    r.sum = (struct heed_output){.data = c->sums ? sum : NULL, .token_stride = r.columns};
    call(c, &r, exec);
}

static struct heed_output output_at(const struct stored_matrix *s) {
    return (struct heed_output){.data = s->data, .token_stride = s->ld, .type = s->type};
}

/* Where the input is: in a matrix of its own, or where an output goes. */
static struct heed_input input_at(const struct norm_case *c, const struct stored_matrix at[VIEWS], enum place where, int apart) {
    const struct stored_matrix *s = c->output == where ? &at[AT_OUTPUT] : c->sums && c->sum == where ? &at[AT_SUM] : &at[apart];
    return (struct heed_input){.data = s->data, .token_stride = s->ld, .type = s->type};
}

/* Rows may be heads of fewer rows. */
static int64_t any_heads(struct rng *rng, int64_t rows) {
    const int64_t heads = rng_range(rng, 0, 4);
    return heads > 1 && rows % heads ? 0 : heads;
}

/* In any types and places, outputs are the floats, rounded, and inputs stay as they are. */
static void check_stored(const struct norm_case *c, const struct heed_exec *exec, struct rng *rng, const float *output,
                         const float *sum) {
    const float *const values[PLACES] = {NULL, c->request.input.data, c->request.residual.data};
    const enum place where[VIEWS] = {OVER_INPUT, OVER_RESIDUAL, c->output, c->sum};
    struct heed_norm r = c->request;
    struct stored_matrix at[VIEWS];
    r.heads = any_heads(rng, r.rows);
    r.rows /= max_i64(1, r.heads);
    for (int i = 0; i < VIEWS; i++) {
        at[i] = stored_matrix_new(rng, c->type[i], r.rows, max_i64(1, r.heads) * r.columns);
        if (values[where[i]])
            stored_matrix_put(&at[i], values[where[i]]);
    }
    r.input = input_at(c, at, OVER_INPUT, AT_INPUT);
    r.residual = r.residual.data ? input_at(c, at, OVER_RESIDUAL, AT_RESIDUAL) : r.residual;
    r.output = output_at(&at[AT_OUTPUT]);
    r.sum = c->sums ? output_at(&at[AT_SUM]) : r.sum;
    r.input.head_stride = r.residual.head_stride = r.output.head_stride = r.sum.head_stride = r.columns;
    call(c, &r, exec);
    must_hold(&at[AT_OUTPUT], output);
    if (c->sums)
        must_hold(&at[AT_SUM], sum);
    must_hold(&at[AT_INPUT], values[OVER_INPUT]);
    if (r.residual.data)
        must_hold(&at[AT_RESIDUAL], values[OVER_RESIDUAL]);
    for (int i = 0; i < VIEWS; i++)
        buffer_free(&at[i].memory);
}

static void check_case(struct rng *rng) {
    static const int64_t long_rows[] = {255, 256, 257, 384, 513, 1000, 5000};
    const enum fill mode = any_fill(rng);
    const int64_t columns = rng_range(rng, 0, 3) ? rng_range(rng, 0, 80) : long_rows[rng_range(rng, 0, 6)];
    struct norm_case c = new_case(rng, mode, rng_range(rng, 0, 9), columns);
    const int64_t n = c.request.rows * columns;
    float *want = new_floats(n), *sum = new_floats(n);
    describe("norm", "scalar", "%lld x %lld", (long long)c.request.rows, (long long)columns);
    run_floats(&c, &(struct heed_exec){.threads = 1, .isa = "scalar"}, want, sum);
    for (int i = 0; heed_kernels_usable(i); i++) {
        const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(rng)};
        describe("norm", exec.isa, "%lld x %lld, %s, epsilon %g, %s%s%s%s, types %d %d %d %d, places %d %d, %d threads",
                 (long long)c.request.rows, (long long)columns, c.centers ? "layer" : "RMS", (double)c.request.epsilon,
                 fill_name(mode), c.request.residual.data ? ", residual" : "", c.request.gain ? ", gain" : "",
                 c.request.bias ? ", bias" : "", (int)c.type[AT_INPUT], (int)c.type[AT_RESIDUAL], (int)c.type[AT_OUTPUT],
                 (int)c.type[AT_SUM], (int)c.output, c.sums ? (int)c.sum : -1, exec.threads);
        check_stored(&c, &exec, rng, want, sum);
    }
    free(want);
    free(sum);
    free_case(&c);
}

START_TEST(test_norm_same_bits) {
    struct rng rng = rng_for("norm", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++)
        check_case(&rng);
}
END_TEST

/* Heads anywhere in rows, in each view elsewhere, are as each alone; what lies between them stays. */
START_TEST(test_norm_of_heads) {
    enum { ROWS = 3, HEADS = 2, COLUMNS = 37, FLOATS = ROWS * 120 };
    struct rng rng = rng_for("heads", _i);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name, .threads = any_threads(&rng)};
    float *x = new_filled(&rng, FILL_NORMAL, FLOATS), *residual = new_filled(&rng, FILL_NORMAL, FLOATS);
    float *got = new_filled(&rng, FILL_NORMAL, FLOATS), *want = new_floats(FLOATS);
    memcpy(want, got, FLOATS * sizeof *got);
    struct heed_norm r = {.rows = ROWS,
                          .columns = COLUMNS,
                          .heads = HEADS,
                          .input = {x, 0, 40, 100, HEED_F32},
                          .residual = {residual, 0, 0, 50, HEED_F32},
                          .output = {got, 0, 45, 110, HEED_F32}};
    ck_assert_int_eq(heed_rms_norm(&r, &exec), HEED_OK);
    for (int head = 0; head < HEADS; head++) {
        const struct heed_norm one = {.rows = ROWS,
                                      .columns = COLUMNS,
                                      .input = {.data = x + head * 40, .token_stride = 100},
                                      .residual = {.data = residual, .token_stride = 50},
                                      .output = {.data = want + head * 45, .token_stride = 110}};
        ck_assert_int_eq(heed_rms_norm(&one, &exec), HEED_OK);
    }
    describe("norm", exec.isa, "heads apart");
    must(compare(SAME_BITS, got, want, 1, FLOATS));
    free(x);
    free(residual);
    free(got);
    free(want);
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
        e[j] = b.center + (c->request.residual.data ? U * fabs(x[j]) : 0);
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
        x[j] = ref_element(r->input.data, HEED_F32, i * n + j) +
               (r->residual.data ? ref_element(r->residual.data, HEED_F32, i * n + j) : 0);
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
        run_floats(&c, &exec, got, sum);
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
            .rows = ROWS, .columns = COLUMNS, .input = floats(values, COLUMNS), .output = {.data = got, .token_stride = COLUMNS}};
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
    tcase_add_loop_test(tests, test_norm_of_heads, 0, usable_tables());
    tcase_add_test(tests, test_norm_accuracy);
    tcase_add_test(tests, test_norm_special_rows);
    suite_add_tcase(suite, tests);
    return suite;
}
