/* Errors of stored types do not grow with the number of keys: their root mean square is within what independent roundings give
 * (Higham and Mary 2019, A New Approach to Probabilistic Rounding Error Analysis), derived below, whatever the length. */
#include "formats.h"
#include "harness_bounds.h"
#include "internal.h"
#include "suites.h"
#include "types.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUERIES = 8 };

/* The largest error of storing x, in a row whose largest is `most`; int8 is off by half a scale, which itself is rounded twice. */
static double storing(enum heed_type type, double x, double most) {
    switch (type) {
    case HEED_BF16:
        return 0x1p-8 * fabs(x) + 0x1p-134;
    case HEED_F16:
        return 0x1p-11 * fabs(x) + 0x1p-25;
    case HEED_I8:
        return most / 254 + gamma_of(4) * fabs(x);
    default:
        return 0;
    }
}

/* Divided by the scales of channels. */
static double largest(const float *row, const float *scales) {
    double most = 0;
    for (int64_t d = 0; d < FORMAT_DIM; d++)
        most = larger_of(most, fabs((double)row[d] / (double)scales[d]));
    return most;
}

/* How far each element of the query, times its channel's scale, is from what it is as a byte. */
static void query_bytes(const float *query, const float *scales, double *error) {
    for (int64_t d = 0; d < FORMAT_DIM; d += TYPE_BLOCK) {
        double most = 0;
        for (int64_t i = d; i < d + TYPE_BLOCK; i++)
            most = larger_of(most, fabs((double)query[i] * (double)scales[i]));
        for (int64_t i = d; i < d + TYPE_BLOCK; i++)
            error[i] = byte_error(most);
    }
}

/* The same of each key's weight, p[j] times the scale of its value, whose largest is most[j]: of a value of 1. */
static void weight_bytes(const struct format_case *c, const double *p, const double *most, double *error) {
    for (int64_t block = 0; block < c->keys; block += TYPE_BLOCK) {
        const int64_t end = min_i64(c->keys, block + TYPE_BLOCK);
        double largest = 0;
        for (int64_t j = block; j < end; j++)
            largest = larger_of(largest, p[j] * most[j]);
        for (int64_t j = block; j < end; j++)
            error[j] = byte_error(largest) / most[j];
    }
}

/* A rounding of x moves it by at most u |x|, to either side: the mean square of what many do to a sum is at most the sum of their
 * squares.  (It is a third of that where errors are spread evenly; that leaves the room for terms of second order, and for the
 * finite sample.)  The score scale q k: what storing each q[d] and k[d] does, and the D + 10 roundings of harness_bounds.c, each of
 * a partial sum.  In pairs the scaled query is rounded too, and as integers it becomes bytes; keys and values are as they are. */
static double score_variance(const struct format_case *c, const struct format *format, const float *scales, const double *q_bytes,
                             int64_t i, int64_t j) {
    const float *q = c->query + i * FORMAT_DIM, *k = c->key + j * FORMAT_DIM;
    const double most_k = largest(k, scales);
    double stored = 0, terms = 0;
    for (int64_t d = 0; d < FORMAT_DIM; d++) {
        const double of_q = storing(format->query, (double)q[d], 0) * (double)k[d];
        const double scale = (double)scales[d];
        const double of_k = scale * storing(format->key, (double)k[d] / scale, most_k) * (double)q[d];
        const double of_pair = rounds_to_bf16(format->compute)      ? B * (double)q[d] * (double)k[d]
                               : format->compute == HEED_COMPUTE_I8 ? q_bytes[d] * (double)k[d] / scale
                                                                    : 0;
        stored += of_q * of_q + of_k * of_k + of_pair * of_pair;
        terms += fabs((double)q[d] * (double)k[d]);
    }
    return (stored + (FORMAT_DIM + 10) * U * U * terms * terms) / FORMAT_DIM;
}

/* The variances of weights, relative: of their scores; of the logarithm, whose argument log2(max / p) is rounded; and of exp2,
 * which is off by 2 u.  The argument is taken from the weights themselves.  A weight that a scale of its value multiplies rounds
 * once more. */
static void weight_variances(const struct format_case *c, const struct format *format, const float *scales, int64_t i,
                             double *variance) {
    const double *p = c->weights + i * c->keys;
    double max = 0, q_bytes[FORMAT_DIM];
    query_bytes(c->query + i * FORMAT_DIM, scales, q_bytes);
    for (int64_t j = 0; j < c->keys; j++)
        max = larger_of(max, p[j]);
    for (int64_t j = 0; j < c->keys; j++) {
        const double argument = p[j] > 0 ? log(max / p[j]) : 0;
        variance[j] = score_variance(c, format, scales, q_bytes, i, j) + U * U * (argument * argument + 5);
    }
}

/* Of output d of query i, o = sum p v.  A weight off by a factor 1 + e moves o by p e (v - o), for all weights are divided by their
 * sum; a value stored with an error e moves it by p e, and a weight rounded after it was summed by e v.  Each fma of a chunk rounds
 * the sum so far.  At a chunk's end two exp2, off by 3 u each, weigh what it adds and what was there before, and two roundings
 * follow: no more than 10 u^2 of the squares of both, and of o, as far as sums of weights are concerned.  The sum of weights rounds
 * 24 times and twice a chunk; then o may be stored.
 */
static double output_variance(const struct format_case *c, const struct format *format, int64_t i, int64_t d,
                              const double *variance, const double *most, const double *bytes) {
    const double *p = c->weights + i * c->keys, o = c->output[i * FORMAT_DIM + d];
    const int64_t chunks = ceil_div(c->keys, HEED_CHUNK);
    double sum = 0, chunk = 0, total = 0;
    for (int64_t j = 0; j < c->keys; j++) {
        const double v = (double)c->value[j * FORMAT_DIM + d], stored = storing(format->key, v, most[j]);
        const double of_pair = rounds_to_bf16(format->compute)      ? B * p[j] * v
                               : format->compute == HEED_COMPUTE_I8 ? bytes[j] * v
                                                                    : 0;
        chunk += p[j] * v;
        sum += of_pair * of_pair;
        sum += p[j] * p[j] * (variance[j] * (v - o) * (v - o) + stored * stored) + U * U * chunk * chunk;
        if ((j + 1) % HEED_CHUNK == 0 || j + 1 == c->keys) {
            total += chunk;
            sum += 10 * U * U * (chunk * chunk + total * total + o * o);
            chunk = 0;
        }
    }
    return sum + (double)(24 + 2 * chunks) * U * U * o * o + storing(format->output, o, 0) * storing(format->output, o, 0);
}

/* In the units of format_error. */
static double rms_bound(const struct format_case *c, const struct format *format, const float *scales) {
    float ones[FORMAT_DIM];
    double *variance = new_doubles(c->keys), *most = new_doubles(c->keys), *bytes = new_doubles(c->keys);
    double sum = 0;
    for (int64_t d = 0; d < FORMAT_DIM; d++)
        ones[d] = 1;
    for (int64_t j = 0; j < c->keys; j++)
        most[j] = largest(c->value + j * FORMAT_DIM, ones);
    for (int64_t i = 0; i < c->queries; i++) {
        weight_variances(c, format, scales, i, variance);
        weight_bytes(c, c->weights + i * c->keys, most, bytes);
        for (int64_t d = 0; d < FORMAT_DIM; d++)
            sum += output_variance(c, format, i, d, variance, most, bytes) / (c->column[d] * c->column[d]);
    }
    free(variance);
    free(most);
    free(bytes);
    return sqrt(sum / (double)(c->queries * FORMAT_DIM));
}

/* The share of its bound that an error has. */
static double check_error(const struct format_run *run, const struct format_case *against, const struct format *format) {
    const double rms = format_error(run, against).rms, bound = rms_bound(against, format, run->scales);
    char problem[128];
    snprintf(problem, sizeof problem, "the root mean square of the errors is %.2e, but roundings explain %.2e", rms, bound);
    must(rms <= bound ? NULL : problem);
    return rms / bound;
}

START_TEST(test_format_does_not_drift) {
    const struct format *format = &formats[_i / FORMAT_INPUTS];
    const enum format_inputs inputs = (enum format_inputs)(_i % FORMAT_INPUTS);
    const struct format plain = {format->name, HEED_F32, HEED_F32, format->output, format->compute, false};
    const int64_t lengths[] = {128, test_quick() ? 512 : 32768};
    for (int length = 0; length < 2; length++) {
        struct format_case c;
        struct format_run run;
        describe("attention", "best", "%s, %s, %lld keys", format->name, format_input_names[inputs], (long long)lengths[length]);
        ck_assert(format_case_make(&c, inputs, QUERIES, lengths[length]) && format_run_make(&run, format, &c));
        const double original = check_error(&run, &c, format), stored = check_error(&run, &run.stored, &plain);
        printf("%-16s %5lld keys, %s: errors %.2f and, against what is stored, %.2f of their bounds\n", format->name,
               (long long)lengths[length], format_input_names[inputs], original, stored);
        format_case_free(&c);
        format_run_free(&run);
    }
}
END_TEST

Suite *formats_suite(void) {
    Suite *suite = suite_create("formats");
    TCase *tests = tcase_create("formats");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_format_does_not_drift, 0, format_count * FORMAT_INPUTS);
    suite_add_tcase(suite, tests);
    return suite;
}
