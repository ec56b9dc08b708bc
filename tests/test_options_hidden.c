/* What a query does not see cannot reach it: NaN and Inf in keys that are hidden from it, and memory that may not even be read. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "harness_options.h"
#include "internal.h"
#include "suites.h"
#include "types.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int64_t work(void) { return test_quick() ? 400000 : 3000000; }

/* A random request of ordinary values in which causal, window or lengths hide something. */
static struct choice choice_that_hides(struct rng *rng) {
    struct choice choice = random_choice(rng);
    choice.level[OPT_FILL] = FILLS_NORMAL;
    choice.level[OPT_WINDOW] = (int)rng_range(rng, 1, 4);
    return choice;
}

/* --- NaN and Inf --- */

/* Keys [begin, end) of each sequence and head, and their values, become x. */
static void spoil(const struct heed_attention *r, const struct key_range *range, float x) {
    for (int64_t b = 0; b < r->batch; b++) {
        const struct ref_sequence s = ref_sequence_of(r, b);
        for (int64_t h = 0; h < r->num_kv_heads; h++) {
            float *keys = values_of(&r->key) + (r->key_starts ? 0 : b * r->key.batch_stride) + h * r->key.head_stride;
            float *values = values_of(&r->value) + (r->key_starts ? 0 : b * r->value.batch_stride) + h * r->value.head_stride;
            for (int64_t j = range->begin; j < min_i64(range->end, s.keys); j++) {
                for (int64_t d = 0; d < r->head_dim; d++)
                    keys[(s.first_key + j) * r->key.token_stride + d] = x;
                for (int64_t d = 0; d < r->value_dim; d++)
                    values[(s.first_key + j) * r->value.token_stride + d] = x;
            }
        }
    }
}

enum sight { SEES_NONE, SEES_HIDDEN, SEES_SOME };

static enum sight sight_of(const struct heed_attention *r, int64_t b, int64_t h, int64_t i, const struct key_range *range) {
    enum sight sight = SEES_NONE;
    for (int64_t j = range->begin; j < range->end; j++)
        if (ref_sees(r, b, i, j))
            sight = ref_hides(r, b, h, i, j) && sight != SEES_SOME ? SEES_HIDDEN : SEES_SOME;
    return sight;
}

/* Rows that see none of the spoilt keys keep all bits; those that see a NaN become NaN. */
static void check_spoilt_row(const struct attention_case *c, const struct attention_result *got,
                             const struct attention_result *want, int64_t row, enum sight sight, float x) {
    const int64_t value_dim = c->request.value_dim;
    if (sight == SEES_NONE)
        must_equal_row(c, got, row, c, want, row);
    for (int64_t d = 0; d < value_dim && sight == SEES_SOME && isnan(x); d++)
        must(isnan(got->part[OUTPUT][row * value_dim + d]) && isnan(got->part[LSE][row]) ? NULL : "a NaN was lost");
}

START_TEST(test_options_spoilt_keys) {
    struct rng rng = rng_for("spoilt keys", _i);
    for (int64_t repeat = 0; repeat < test_count(150); repeat++) {
        const struct choice choice = choice_that_hides(&rng);
        struct attention_case c = case_of(&choice, work(), &rng);
        const struct heed_attention *r = &c.request;
        const struct attention_way way = way_of(&choice);
        struct attention_result want = new_attention_result(&c), got = new_attention_result(&c);
        const struct key_range range = {rng_range(&rng, 0, ref_columns(r)), rng_range(&rng, 0, ref_columns(r))};
        const float x = rng_range(&rng, 0, 1) ? NAN : INFINITY;
        c.wants[OUTPUT] = c.wants[LSE] = true;
        describe_attention(&c, "before keys are spoilt", &way.exec);
        run_attention_way(&c, &way, &rng, &want);
        spoil(r, &range, x);
        describe_attention(&c, "with spoilt keys", &way.exec);
        run_attention_way(&c, &way, &rng, &got);
        for (int64_t b = 0; b < r->batch; b++)
            for (int64_t h = 0; h < r->num_heads; h++)
                for (int64_t i = 0; i < ref_sequence_of(r, b).queries; i++)
                    check_spoilt_row(&c, &got, &want, ref_row(r, b, h, i), sight_of(r, b, h, i, &range), x);
        free_attention_case(&c);
        free_attention_result(&want);
        free_attention_result(&got);
    }
}
END_TEST

/* --- Memory that may not be read --- */

/* Tokens [begin, end) of a [1, heads, tokens, width] tensor, token by token; all others are in pages that may not be read, and
 * those next to a page's edge exactly so: before the first token, or after the last. */
struct island {
    unsigned char *pages;
    size_t bytes;
    struct heed_input view;
};

static struct island new_island(const struct heed_input *from, enum heed_type type, int64_t heads, int64_t tokens, int64_t width,
                                const struct key_range *range, bool before) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), token = (size_t)(heads * width * type_bytes(type));
    const size_t edge = (size_t)(before ? range->begin : range->end) * token;
    struct island island = {.bytes = ((size_t)tokens * token / page + 5) * page};
    island.pages = mmap(NULL, island.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(island.pages != MAP_FAILED);
    unsigned char *start = island.pages + page + (page - edge % page) % page; /* puts the edge at the start of a page */
    unsigned char *first = start + (size_t)range->begin * token, *last = start + (size_t)range->end * token;
    unsigned char *from_page = first - (size_t)(first - island.pages) % page;
    size_t readable = ((size_t)(last - from_page) + guard_delay() + page - 1) / page * page;
    ck_assert(range->begin == range->end || mprotect(from_page, readable, PROT_READ | PROT_WRITE) == 0);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t t = range->begin; t < range->end; t++)
            for (int64_t d = 0; d < width; d++) {
                const float x = values_of(from)[h * from->head_stride + t * from->token_stride + d];
                const uint16_t half = type == HEED_F32 ? 0 : half_of(type, x);
                memcpy(type_at_output(type, start, (t * heads + h) * width + d), type == HEED_F32 ? (const void *)&x : &half,
                       (size_t)type_bytes(type));
            }
    island.view = (struct heed_input){start, 0, width, heads * width, type};
    return island;
}

START_TEST(test_options_keys_out_of_reach) {
    struct rng rng = rng_for("out of reach", _i);
    for (int64_t repeat = 0; repeat < test_count(150); repeat++) {
        struct choice choice = choice_that_hides(&rng);
        for (int type = OPT_KEY_TYPE; type <= OPT_VALUE_TYPE; type++)
            choice.level[type] %= HEED_I8; /* of which there are no rows */
        struct attention_case whole = case_of(&choice, work(), &rng);
        const struct ref_sequence s = ref_sequence_of(&whole.request, 0);
        struct attention_case c = attention_slice(&whole, &(struct slice){0, 0, s.queries, 0, s.keys});
        struct attention_result want = new_attention_result(&c);
        const struct attention_way way = way_of(&choice);
        const struct key_range reach = keys_in_reach(&c.request, 0);
        const bool before = !masked_loads_are_exact() || rng_range(&rng, 0, 1);
        for (int part = 0; part < RESULT_PARTS; part++)
            c.wants[part] = part == OUTPUT;
        describe_attention(&c, "attention with all keys readable", &way.exec);
        run_attention(&c, &way.exec, NULL, &want);
        struct heed_attention r = c.request;
        struct island key = new_island(&r.key, whole.types.key, r.num_kv_heads, s.keys, r.head_dim, &reach, before);
        struct island value = new_island(&r.value, whole.types.value, r.num_kv_heads, s.keys, r.value_dim, &reach, before);
        float *output = new_floats(result_count(&r, OUTPUT));
        r.key = key.view;
        r.value = value.view;
        r.output = (struct heed_output){output, 0, r.query_tokens * r.value_dim, r.value_dim, HEED_F32};
        describe_attention(&c, "attention with keys that may not be read", &way.exec);
        if (heed_attention(&r, &way.exec) != HEED_OK)
            must(heed_error_message());
        must(compare(SAME_BITS, output, want.part[OUTPUT], ref_rows(&r), r.value_dim));
        munmap(key.pages, key.bytes);
        munmap(value.pages, value.bytes);
        free(output);
        free_attention_result(&want);
        free_attention_case(&c);
        free_attention_case(&whole);
    }
}
END_TEST

Suite *options_hidden_suite(void) {
    Suite *suite = suite_create("options hidden");
    TCase *tests = tcase_create("options hidden");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_options_spoilt_keys, 0, 2);
    tcase_add_loop_test(tests, test_options_keys_out_of_reach, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}
