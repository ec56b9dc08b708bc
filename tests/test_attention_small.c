/* Small calls of attention, which go a way of their own: the bits of the planned way, and no request that the planned way refuses.
 */
#include "attention.h"
#include "attention_small.h"
#include "harness_attention.h"
#include "suites.h"

#include <stdlib.h>

static struct heed_attention any_small_sizes(struct rng *rng) {
    const int64_t group = rng_range(rng, 1, 3), kv_heads = rng_range(rng, 1, 3);
    return (struct heed_attention){.batch = rng_range(rng, 1, 3),
                                   .num_heads = group * kv_heads,
                                   .num_kv_heads = kv_heads,
                                   .query_tokens = rng_range(rng, 1, 16 / group),
                                   .key_tokens = rng_range(rng, 1, 32),
                                   .head_dim = rng_range(rng, 1, 64),
                                   .value_dim = rng_range(rng, 1, 64),
                                   .scale = rng_range(rng, 0, 1) ? 0.0f : -0.7f,
                                   .causal = rng_range(rng, 0, 1),
                                   .alignment = rng_range(rng, 0, 1) ? HEED_ALIGN_BOTTOM_RIGHT : HEED_ALIGN_TOP_LEFT};
}

static void check_bits(const struct heed_kernels *table, struct rng *rng) {
    const struct heed_attention sizes = any_small_sizes(rng);
    struct attention_case c = new_attention_case(&sizes, any_fill(rng), any_fill(rng), any_fill(rng), rng);
    struct attention_result got = new_attention_result(&c), want = new_attention_result(&c);
    const struct heed_exec exec = {.isa = table->name, .threads = 1};
    use_types(&c, (struct attention_types){any_type(rng), any_type(rng), any_type(rng), any_type(rng)});
    for (int part = 0; part < RESULT_PARTS; part++)
        c.wants[part] = part == OUTPUT;
    describe_attention(&c, "small attention", &exec);
    run_attention_way(&c, &(struct attention_way){.exec = exec, .planned = true}, NULL, &want);
    round_output(&c, &want);
    run_attention(&c, &exec, rng, &got);
    must_equal_attention(&c, &got, &want);
    free_attention_case(&c);
    free_attention_result(&got);
    free_attention_result(&want);
}

START_TEST(test_small_bits) {
    struct rng rng = rng_for("attention_small", _i);
    for (int64_t i = test_count(400); i > 0; i--)
        check_bits(heed_kernels_usable(_i), &rng);
}
END_TEST

/* Of tensors that are never touched: one array each, or one for all. */
static float memory[4][1 << 15];

static struct heed_attention any_small_request(struct rng *rng) {
    struct heed_attention r = any_small_sizes(rng);
    const int64_t tokens = r.query_tokens, keys = r.key_tokens, dim = r.head_dim, value_dim = r.value_dim;
    r.query = (struct heed_input){memory[0], r.num_heads * tokens * dim, tokens * dim, dim, any_type(rng)};
    r.key = (struct heed_input){memory[1], r.num_kv_heads * keys * dim, keys * dim, dim, any_type(rng)};
    r.value =
        (struct heed_input){memory[2], keys * r.num_kv_heads * value_dim, value_dim, r.num_kv_heads * value_dim, any_type(rng)};
    r.output = (struct heed_output){memory[3], r.num_heads * tokens * value_dim, tokens * value_dim, value_dim, any_type(rng)};
    if (rng_range(rng, 0, 1))
        r.output =
            (struct heed_output){memory[3], tokens * r.num_heads * value_dim, value_dim, r.num_heads * value_dim, any_type(rng)};
    return r;
}

/* Changes one thing that matters to memory or sizes, a little or a lot. */
static void change_something(struct rng *rng, struct heed_attention *r) {
    static const int64_t values[] = {0, -1, 1, 2, 3, 17, 33, 65, 1025, INT64_C(1) << 30, INT64_MAX, INT64_MIN};
    int64_t *const numbers[] = {&r->batch,
                                &r->num_heads,
                                &r->num_kv_heads,
                                &r->query_tokens,
                                &r->key_tokens,
                                &r->head_dim,
                                &r->value_dim,
                                &r->key_position,
                                &r->mass_queries,
                                &r->window.left,
                                &r->window.right,
                                &r->query.batch_stride,
                                &r->query.head_stride,
                                &r->query.token_stride,
                                &r->key.batch_stride,
                                &r->key.head_stride,
                                &r->key.token_stride,
                                &r->value.batch_stride,
                                &r->value.head_stride,
                                &r->value.token_stride,
                                &r->output.batch_stride,
                                &r->output.head_stride,
                                &r->output.token_stride};
    const void **const inputs[] = {&r->query.data, &r->key.data, &r->value.data};
    const int64_t value = values[rng_range(rng, 0, sizeof values / sizeof *values - 1)];
    int64_t *number = numbers[rng_range(rng, 0, sizeof numbers / sizeof *numbers - 1)];
    enum heed_type *const types[] = {&r->query.type, &r->key.type, &r->value.type, &r->output.type};
    switch (rng_range(rng, 0, 5)) {
    case 0:
        *inputs[rng_range(rng, 0, 2)] = rng_range(rng, 0, 3) ? memory[3] + rng_range(rng, -200, 9000) : NULL;
        break;
    case 1:
        r->output.data = rng_range(rng, 0, 3) ? memory[rng_range(rng, 0, 3)] + rng_range(rng, 0, 9000) : NULL;
        break;
    case 2:
        *number = (int64_t)((uint64_t)*number + (uint64_t)rng_range(rng, -2, 2));
        break;
    case 3:
        *types[rng_range(rng, 0, 3)] = (enum heed_type)rng_range(rng, -1, 4);
        break;
    default:
        *number = value;
    }
}

/* Whatever is small is legal; what is legal and plain is nearly always small. */
START_TEST(test_small_is_sure) {
    struct rng rng = rng_for("attention_small_checks", 0);
    int64_t small = 0;
    for (int64_t i = test_count(40000); i > 0; i--) {
        struct heed_attention r = any_small_request(&rng);
        ck_assert(heed_attention_check(&r) == HEED_OK && heed_attention_is_small(&r, NULL));
        for (int64_t changes = rng_range(&rng, 1, 2); changes > 0; changes--)
            change_something(&rng, &r);
        if (!heed_attention_is_small(&r, NULL))
            continue;
        small++;
        ck_assert_msg(heed_attention_check(&r) == HEED_OK, "%s", heed_error_message());
    }
    ck_assert_int_gt(small, test_count(40000) / 10);
}
END_TEST

static bool never(void *context) {
    (void)context;
    return false;
}

/* One request with each option set, none of which the small way knows. */
START_TEST(test_small_is_plain) {
    struct rng rng = rng_for("attention_small_options", 0);
    static float floats[1];
    static const int64_t numbers[3];
    static const uint64_t words[1];
    static const uint8_t bytes[1];
    static const struct heed_kv_cache cache;
    const struct heed_output output = {.data = floats};
#define NOT_SMALL(change)                                                                                                          \
    do {                                                                                                                           \
        struct heed_attention r = any_small_request(&rng);                                                                         \
        change;                                                                                                                    \
        ck_assert_msg(!heed_attention_is_small(&r, NULL), #change);                                                                \
    } while (0)
    NOT_SMALL(r.query_starts = numbers);
    NOT_SMALL(r.key_starts = numbers);
    NOT_SMALL(r.key_lengths = numbers);
    NOT_SMALL(r.key_position = HEED_CHUNK);
    NOT_SMALL(r.alignment = HEED_ALIGN_OFFSETS);
    NOT_SMALL(r.alignment = (enum heed_alignment)7);
    NOT_SMALL(r.window.on = true);
    NOT_SMALL(r.window.left = 1);
    NOT_SMALL(r.window.right = -1);
    NOT_SMALL(r.mask.data = bytes);
    NOT_SMALL(r.tree.words = words);
    NOT_SMALL(r.softcap = 1.0f);
    NOT_SMALL(r.softcap = __builtin_nanf(""));
    NOT_SMALL(r.scale = __builtin_inff());
    NOT_SMALL(r.bias.data = floats);
    NOT_SMALL(r.alibi_slopes = floats);
    NOT_SMALL(r.relative.table = floats);
    NOT_SMALL(r.sinks = floats);
    NOT_SMALL(r.cache = &cache);
    NOT_SMALL(r.weights = output);
    NOT_SMALL(r.lse = output);
    NOT_SMALL(r.scores = output);
    NOT_SMALL(r.score_stage = HEED_SCORES_BIASED);
    NOT_SMALL(r.states.output = output);
    NOT_SMALL(r.states.max = output);
    NOT_SMALL(r.states.sum = output);
    NOT_SMALL(r.mass = output);
    NOT_SMALL(r.mass_queries = 1);
#undef NOT_SMALL
    const struct heed_attention r = any_small_request(&rng);
    ck_assert(!heed_attention_is_small(NULL, NULL));
    ck_assert(!heed_attention_is_small(&r, &(struct heed_exec){.cancelled = never}));
    ck_assert(heed_attention_is_small(&r, &(struct heed_exec){.threads = 3}));
}
END_TEST

Suite *attention_small_suite(void) {
    Suite *suite = suite_create("attention_small");
    TCase *tests = tcase_create("attention_small");
    tcase_add_test(tests, test_small_is_sure);
    tcase_add_test(tests, test_small_is_plain);
    tcase_add_loop_test(tests, test_small_bits, 0, usable_tables());
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}
