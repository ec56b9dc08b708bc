/* The five notebooks of examples/heed/seeds.h: every number that they print, to its last digit, on every table and thread count.
 * And the tolerances themselves: a number that is wrong by a few per cent must be noticed. */
#include "seeds.h"
#include "harness.h"
#include "suites.h"

#include <math.h>

static void check_numbers(const struct seed_check *check) {
    for (int i = 0; i < check->rows * check->columns; i++)
        ck_assert_msg(fabs((double)check->computed[i] - check->expected[i]) <= check->tolerance[i],
                      "%s, row %d, column %d: got %.9g, want %.9g within %.2g", check->name, i / check->columns, i % check->columns,
                      (double)check->computed[i], check->expected[i], check->tolerance[i]);
    ck_assert(seed_agrees(check));
}

static void check_seed(const struct seed *seed, const struct heed_exec *exec, struct seed_result *result) {
    seed->run(exec, result);
    ck_assert_msg(result->status == HEED_OK, "%s on %s: %s", seed->name, exec->isa, heed_error_message());
    ck_assert_int_gt(result->checks, 0);
    ck_assert_int_gt(result->claims, 0);
    for (int i = 0; i < result->checks; i++)
        check_numbers(&result->check[i]);
    for (int i = 0; i < result->claims; i++)
        ck_assert_msg(result->claim[i].holds, "%s on %s: not true: %s", seed->name, exec->isa, result->claim[i].text);
}

START_TEST(test_seed_numbers) {
    static const int threads[] = {1, 2, 3, 8};
    struct seed_result scalar, result;
    check_seed(&seeds[_i], &(struct heed_exec){.isa = "scalar", .threads = 1}, &scalar);
    for (int table = 0; heed_kernels_usable(table); table++)
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            check_seed(&seeds[_i], &(struct heed_exec){.isa = heed_kernels_usable(table)->name, .threads = threads[i]}, &result);
            for (int j = 0; j < scalar.checks; j++)
                ck_assert_mem_eq(result.check[j].computed, scalar.check[j].computed, sizeof scalar.check[j].computed);
            ck_assert_mem_eq(result.output, scalar.output, sizeof scalar.output);
        }
}
END_TEST

/* The seeds must not pass because their tolerances let everything through. */
START_TEST(test_seed_tolerances_notice) {
    struct seed_result result;
    seeds[_i].run(NULL, &result);
    for (int i = 0; i < result.checks; i++)
        for (int j = 0; j < result.check[i].rows * result.check[i].columns; j++) {
            struct seed_check wrong = result.check[i];
            wrong.computed[j] = wrong.expected[j] != 0 ? 1.05f * wrong.computed[j] : 1e-3f;
            ck_assert_msg(!seed_agrees(&wrong), "%s: number %d may be %g instead of %g", wrong.name, j, (double)wrong.computed[j],
                          wrong.expected[j]);
            wrong.computed[j] = NAN;
            ck_assert_msg(!seed_agrees(&wrong), "%s: number %d may be NaN", wrong.name, j);
        }
}
END_TEST

/* A notebook computed by a library that fails is not a notebook that agrees. */
START_TEST(test_seed_reports_failure) {
    struct seed_result result;
    seeds[_i].run(&(struct heed_exec){.isa = "no such table"}, &result);
    ck_assert_int_eq(result.status, HEED_UNSUPPORTED_ISA);
    bool good = true;
    for (int i = 0; i < result.checks; i++)
        good &= seed_agrees(&result.check[i]);
    ck_assert(!good);
}
END_TEST

Suite *seeds_suite(void) {
    Suite *suite = suite_create("seeds");
    TCase *tests = tcase_create("seeds");
    tcase_add_loop_test(tests, test_seed_numbers, 0, SEED_COUNT);
    tcase_add_loop_test(tests, test_seed_tolerances_notice, 0, SEED_COUNT);
    tcase_add_loop_test(tests, test_seed_reports_failure, 0, SEED_COUNT);
    suite_add_tcase(suite, tests);
    return suite;
}
