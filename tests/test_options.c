/* heed_attention with all its options: every pair of them against the oracle, within derived bounds, and against the scalar table,
 * serial and in plain memory, bit for bit; then sequence by sequence, as requests of their own. */
#include "harness_bounds.h"
#include "harness_options.h"
#include "suites.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct heed_exec plain = {.isa = "scalar", .threads = 1};

static int64_t work(void) { return test_quick() ? 400000 : 3000000; }

/* Sequence b alone, unpacked, with rows of its own: packing and the other sequences change nothing. */
static void check_sequence(const struct attention_case *c, const struct attention_result *whole, int64_t b,
                           const struct heed_exec *exec, struct rng *rng) {
    const struct ref_sequence s = ref_sequence_of(&c->request, b);
    struct attention_case alone = attention_slice(c, &(struct slice){b, 0, s.queries, 0, s.keys});
    struct attention_result got = new_attention_result(&alone);
    alone.wants[OUTPUT] = true; /* for there must be one, and mass is not */
    describe_attention(c, "one sequence", exec);
    run_attention(&alone, exec, rng, &got);
    for (int64_t h = 0; h < c->request.num_heads; h++)
        for (int64_t i = 0; i < s.queries; i++)
            must_equal_row(&alone, &got, ref_row(&alone.request, 0, h, i), c, whole, ref_row(&c->request, b, h, i));
    free_attention_result(&got);
    free_attention_case(&alone);
}

static void check_choice(const struct choice *choice, struct attention_accuracy *accuracy, struct rng *rng) {
    struct attention_case c = case_of(choice, work(), rng);
    const struct attention_way way = way_of(choice);
    struct attention_result want = new_attention_result(&c), got = new_attention_result(&c);
    describe_attention(&c, "plain", &plain);
    run_attention(&c, &plain, NULL, &want);
    if (choice->level[OPT_FILL] != FILLS_ANY)
        check_attention(&c, &want, accuracy);
    round_output(&c, &want);
    describe_attention(&c, "attention", &way.exec);
    run_attention_way(&c, &way, rng, &got);
    must_equal_attention(&c, &got, &want);
    check_sequence(&c, &want, rng_range(rng, 0, c.request.batch - 1), &way.exec, rng);
    free_attention_case(&c);
    free_attention_result(&want);
    free_attention_result(&got);
}

START_TEST(test_options_pairwise) {
    struct rng rng = rng_for("options", _i);
    struct attention_accuracy accuracy = {.part = {{0}}};
    int64_t rows, pairs;
    struct choice *array = covering_array(&rng, &rows, &pairs);
    for (int64_t i = 0; i < rows; i++)
        check_choice(&array[i], &accuracy, &rng);
    printf("  options: %" PRId64 " requests hold all %" PRId64 " pairs of %d options\n", rows, pairs, OPTIONS);
    free(array);
}
END_TEST

/* Each level of each option with all others at their first: where a pair fails, this says whether one of the two does. */
START_TEST(test_options_alone) {
    struct rng rng = rng_for("options alone", _i);
    struct attention_accuracy accuracy = {.part = {{0}}};
    for (int level = 0; level < option_levels((enum option)_i); level++) {
        struct choice choice = {{0}};
        choice.level[_i] = level;
        for (int64_t repeat = 0; repeat < test_count(4); repeat++)
            check_choice(&choice, &accuracy, &rng);
    }
}
END_TEST

Suite *options_suite(void) {
    Suite *suite = suite_create("options");
    TCase *tests = tcase_create("options");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_options_alone, 0, OPTIONS);
    tcase_add_loop_test(tests, test_options_pairwise, 0, test_quick() ? 1 : 4);
    suite_add_tcase(suite, tests);
    return suite;
}
