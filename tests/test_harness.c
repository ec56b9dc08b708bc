/* The harness itself: kernels with planted faults must be caught, or the other tests prove nothing. */
#include "harness.h"
#include "suites.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 5, COLUMNS = 7, LD = 11 };

/* y = 2 x, for [ROWS][COLUMNS] matrices of leading dimension LD: first as it should be, then in wrong ways. */
typedef void kernel(float *x, float *y);

static void right(float *x, float *y) {
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            y[i * LD + j] = 2 * x[i * LD + j];
}

static void idle(float *x, float *y) {
    (void)x;
    (void)y;
}

static void leaves_one_out(float *x, float *y) {
    uint32_t untouched;
    memcpy(&untouched, y + LD + 3, sizeof untouched);
    right(x, y);
    memcpy(y + LD + 3, &untouched, sizeof untouched);
}

static void writes_left(float *x, float *y) {
    right(x, y);
    y[-1] = 0;
}

static void writes_right(float *x, float *y) {
    right(x, y);
    y[(ROWS - 1) * LD + COLUMNS] = 0;
}

static void writes_in_gap(float *x, float *y) {
    right(x, y);
    y[2 * LD + COLUMNS] = 0;
}

static void is_off_by_one_ulp(float *x, float *y) {
    right(x, y);
    y[3 * LD + 2] = nextafterf(y[3 * LD + 2], INFINITY);
}

static void loses_a_sign_of_zero(float *x, float *y) {
    right(x, y);
    y[0] = -y[0];
}

static void writes_to_its_input(float *x, float *y) {
    right(x, y);
    x[LD + 1] += 1;
}

static void writes_beside_its_input(float *x, float *y) {
    right(x, y);
    x[COLUMNS] = 0;
}

static void reads_on(float *x, float *y) {
    right(x, y);
    y[0] = 2 * x[0] + 0 * ((volatile float *)x)[(ROWS - 1) * LD + COLUMNS];
}

static void reads_back(float *x, float *y) {
    right(x, y);
    y[0] = 2 * x[0] + 0 * ((volatile float *)x)[-1];
}

/* What the harness says of a kernel, with input and output at either end of their pages. */
static const char *examine(kernel *run, enum placement in, enum placement out) {
    float values[ROWS * COLUMNS], want[ROWS * COLUMNS], got[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        want[i] = 2 * (values[i] = (float)i * 0.37f);
    struct tensor x = matrix(ROWS, COLUMNS, LD, in, values), y = matrix(ROWS, COLUMNS, LD, out, NULL);
    run(x.data, y.data);
    const char *problem = tensor_take(&y, got);
    if (!problem)
        problem = tensor_unchanged(&x);
    if (!problem)
        problem = compare(SAME_BITS, got, want, ROWS, COLUMNS);
    tensor_free(&x);
    tensor_free(&y);
    return problem;
}

START_TEST(test_harness_accepts_the_right_kernel) {
    for (int in = AT_START; in < PLACEMENTS; in++)
        for (int out = AT_START; out < PLACEMENTS; out++)
            ck_assert_ptr_null(examine(right, (enum placement)in, (enum placement)out));
}
END_TEST

static void must_catch(kernel *run, enum placement out, const char *words) {
    for (int in = 0; in < PLACEMENTS; in++) {
        const char *problem = examine(run, (enum placement)in, out);
        ck_assert_msg(problem && strstr(problem, words), "said \"%s\" instead of \"%s\"", problem ? problem : "fine", words);
    }
}

START_TEST(test_harness_catches_wrong_kernels) {
    must_catch(idle, AT_START, "was not written");
    must_catch(leaves_one_out, AT_END, "element 10 of 35 was not written");
    must_catch(writes_left, AT_END, "before the output");
    must_catch(writes_right, AT_START, "after the output");
    for (int i = 0; i < PLACEMENTS; i++) {
        enum placement out = (enum placement)i;
        must_catch(writes_in_gap, out, "in a gap of the output");
        must_catch(is_off_by_one_ulp, out, "1 ULP apart");
        must_catch(loses_a_sign_of_zero, out, "0 ULP apart");
        must_catch(writes_to_its_input, out, "must not change");
        must_catch(writes_beside_its_input, out, "must not change");
    }
}
END_TEST

static void leave(int number) { _exit(number); }

/* The signal that ended a child in which the kernel was examined, 0 if none did. */
static int signal_of(kernel *run, enum placement in, enum placement out) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        signal(SIGSEGV, leave);
        signal(SIGBUS, leave);
        examine(run, in, out);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(test_harness_guards_both_sides) {
    ck_assert_int_eq(signal_of(right, AT_START, AT_END), 0);
    if (masked_loads_are_exact())
        ck_assert_int_eq(signal_of(reads_on, AT_END, AT_END), SIGSEGV);
    ck_assert_int_eq(signal_of(reads_back, AT_START, AT_END), SIGSEGV);
    if (masked_loads_are_exact())
        ck_assert_int_eq(signal_of(writes_right, AT_END, AT_END), SIGSEGV);
    ck_assert_int_eq(signal_of(writes_left, AT_END, AT_START), SIGSEGV);
}
END_TEST

START_TEST(test_harness_tells_numbers_from_bits) {
    const float one_zero[] = {0.0f, NAN}, other_zero[] = {-0.0f, -NAN};
    ck_assert_ptr_nonnull(compare(SAME_BITS, one_zero, other_zero, 1, 2));
    ck_assert_ptr_null(compare(SAME_NUMBER, one_zero, other_zero, 1, 2));
    ck_assert_int_eq(ulps_between(1.0f, nextafterf(1.0f, 2.0f)), 1);
    ck_assert_int_eq(ulps_between(-0x1p-149f, 0x1p-149f), 2);
    ck_assert(ulps_between(1.0f, NAN) == INT64_MAX);
}
END_TEST

START_TEST(test_harness_bounds_errors) {
    struct accuracy accuracy = {.typical = true};
    ck_assert_ptr_null(accuracy_add(&accuracy, 1.5f, 1.25, 0.25, 1));
    ck_assert_ptr_nonnull(accuracy_add(&accuracy, 1.5f, 1.25, 0.2, 1));
    ck_assert_ptr_nonnull(accuracy_add(&accuracy, NAN, 1.25, 100, 1));
    ck_assert_ptr_null(accuracy_add(&accuracy, -INFINITY, -(double)INFINITY, 0, 1));
    ck_assert(accuracy.results == 2 && accuracy.worst_of_bound == 1 && accuracy.worst_relative == 0.25);
}
END_TEST

/* Random numbers and values must be the same on every machine, or tests/bits.txt means nothing. */
START_TEST(test_harness_values_are_the_same_everywhere) {
    struct rng rng = rng_fixed("values");
    uint64_t hash = 0;
    for (int mode = 0; mode < FILL_COUNT; mode++) {
        float *x = new_filled(&rng, (enum fill)mode, 1000);
        hash = hash * 31 + hash_floats(x, 1000);
        free(x);
    }
    ck_assert_msg(hash == 0xb66636e22feae78au, "hash is 0x%016llx", (unsigned long long)hash);
}
END_TEST

Suite *harness_suite(void) {
    Suite *suite = suite_create("harness");
    TCase *tests = tcase_create("harness");
    tcase_add_test(tests, test_harness_accepts_the_right_kernel);
    tcase_add_test(tests, test_harness_catches_wrong_kernels);
    tcase_add_test(tests, test_harness_guards_both_sides);
    tcase_add_test(tests, test_harness_tells_numbers_from_bits);
    tcase_add_test(tests, test_harness_bounds_errors);
    tcase_add_test(tests, test_harness_values_are_the_same_everywhere);
    suite_add_tcase(suite, tests);
    return suite;
}
