/* Whether memory is asked at a pace: as pieces of work took that were tried, of which some may have been interrupted.  Times are
 * made up, none is measured. */
#include "pace.h"
#include "suites.h"

enum { PIECES = 64, BYTES = 1 << 20, ENOUGH_TRIES = 9, SHORT_SECONDS = 1000, LONG_SECONDS = 4000 };

/* As many pieces as have one try each way, which took so long; whether those that were not tried were paced in the end. */
static bool pace_of_after(enum heed_pace_of of, int plain_seconds, int paced_seconds, int64_t bytes) {
    int tries[2] = {0};
    bool paced = false;
    for (int piece = 0; piece < PIECES; piece++) {
        struct heed_pace pace = heed_pace_begin(of);
        if (pace.is_tried)
            tries[pace.paced]++;
        else
            paced = pace.paced;
        pace.began.tv_sec -= pace.paced ? paced_seconds : plain_seconds;
        heed_pace_end(&pace, bytes);
    }
    ck_assert(tries[false] == 1 && tries[true] == 1);
    return paced;
}

static bool pace_after(int plain_seconds, int paced_seconds, int64_t bytes) {
    return pace_of_after(HEED_PACE_KEYS, plain_seconds, paced_seconds, bytes);
}

static bool pace_after_many(int plain_seconds, int paced_seconds, int64_t bytes) {
    bool paced = false;
    for (int i = 0; i < ENOUGH_TRIES; i++)
        paced = pace_after(plain_seconds, paced_seconds, bytes);
    return paced;
}

START_TEST(test_pace_is_what_was_quicker) {
    for (int i = 0; i < 3; i++) {
        ck_assert(pace_after_many(LONG_SECONDS, SHORT_SECONDS, BYTES));
        ck_assert(!pace_after_many(SHORT_SECONDS, LONG_SECONDS, BYTES));
    }
}
END_TEST

START_TEST(test_pace_outlives_an_interruption) {
    pace_after_many(LONG_SECONDS, SHORT_SECONDS, BYTES);
    ck_assert(pace_after(SHORT_SECONDS, LONG_SECONDS, BYTES));
    ck_assert(pace_after(LONG_SECONDS, SHORT_SECONDS, BYTES));
    pace_after_many(SHORT_SECONDS, LONG_SECONDS, BYTES);
    ck_assert(!pace_after(LONG_SECONDS, SHORT_SECONDS, BYTES));
}
END_TEST

START_TEST(test_pace_is_not_what_short_pieces_took) {
    pace_after_many(LONG_SECONDS, SHORT_SECONDS, BYTES);
    ck_assert(pace_after_many(SHORT_SECONDS, LONG_SECONDS, 0));
    ck_assert(pace_after_many(SHORT_SECONDS, LONG_SECONDS, 4096));
}
END_TEST

START_TEST(test_pace_of_keys_is_not_that_of_weights) {
    pace_after_many(LONG_SECONDS, SHORT_SECONDS, BYTES);
    for (int i = 0; i < ENOUGH_TRIES; i++)
        pace_of_after(HEED_PACE_WEIGHTS, SHORT_SECONDS, LONG_SECONDS, BYTES);
    ck_assert(heed_pace_begin(HEED_PACE_KEYS).paced);
    ck_assert(!heed_pace_begin(HEED_PACE_WEIGHTS).paced);
}
END_TEST

Suite *pace_suite(void) {
    Suite *suite = suite_create("pace");
    TCase *tests = tcase_create("pace");
    tcase_add_test(tests, test_pace_is_what_was_quicker);
    tcase_add_test(tests, test_pace_outlives_an_interruption);
    tcase_add_test(tests, test_pace_is_not_what_short_pieces_took);
    tcase_add_test(tests, test_pace_of_keys_is_not_that_of_weights);
    suite_add_tcase(suite, tests);
    return suite;
}
