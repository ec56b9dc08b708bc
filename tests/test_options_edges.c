/* heed_attention at its edges: nothing to compute, nothing to see, work that is cancelled, plans and their workspaces. */
#include "harness_bounds.h"
#include "harness_options.h"
#include "internal.h"
#include "suites.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

/* --- No tokens, no keys, no sequences --- */

static void run_and_check(const struct attention_case *c, const struct attention_way *way, const char *name, struct rng *rng) {
    struct attention_accuracy accuracy = {.part = {{0}}};
    struct attention_result got = new_attention_result(c);
    describe_attention(c, name, &way->exec);
    run_attention_way(c, way, rng, &got);
    check_attention(c, &got, &accuracy);
    free_attention_result(&got);
}

static struct choice finite_choice(struct rng *rng) {
    struct choice choice = random_choice(rng);
    choice.level[OPT_FILL] = (int)rng_range(rng, FILLS_NORMAL, FILLS_FINITE);
    return choice;
}

START_TEST(test_options_of_nothing) {
    struct rng rng = rng_for("options of nothing", 0);
    for (int64_t repeat = 0; repeat < test_count(200); repeat++) {
        struct choice choice = finite_choice(&rng);
        struct attention_case c = case_of(&choice, 400000, &rng);
        const struct attention_way way = way_of(&choice);
        const struct ref_sequence s = ref_sequence_of(&c.request, 0);
        const struct slice slices[] = {{0, 0, 0, 0, s.keys}, {0, 0, s.queries, 0, 0}, {0, 0, 0, 0, 0}};
        for (int i = 0; i < 3; i++) {
            struct attention_case part = attention_slice(&c, &slices[i]);
            part.wants[OUTPUT] = true;
            run_and_check(&part, &way, "attention of nothing", &rng);
            free_attention_case(&part);
        }
        c.request.batch = 0;
        run_and_check(&c, &way, "attention of no sequences", &rng);
        free_attention_case(&c);
    }
}
END_TEST

/* --- Keys, all of which are hidden, by each means --- */

enum means { BY_MASK, BY_BIAS, BY_TREE, BY_LENGTH, BY_CAUSAL, BY_WINDOW, MEANS };

static void hide_all(struct attention_case *c, enum means means) {
    struct heed_attention *r = &c->request;
    const int64_t words = ceil_div(ref_columns(r), 64);
    int64_t *numbers = case_memory(c, r->batch, sizeof *numbers);
    float *bias = case_memory(c, 1, sizeof *bias);
    *bias = -INFINITY;
    for (int64_t b = 0; b < r->batch; b++)
        numbers[b] = means == BY_LENGTH ? 0 : r->key_position - r->query_tokens - 1000;
    switch (means) {
    case BY_MASK:
        r->mask = (struct heed_mask){case_memory(c, 1, 1), 0, 0, 0, 0};
        break;
    case BY_BIAS:
        r->bias = (struct heed_bias){bias, 0, 0, 0, 0};
        break;
    case BY_TREE:
        r->tree = (struct heed_tree){case_memory(c, words, sizeof(uint64_t)), 0, 0, ref_columns(r)};
        break;
    case BY_LENGTH:
        r->key_lengths = numbers;
        break;
    default:
        r->causal = means == BY_CAUSAL;
        r->window = means == BY_WINDOW ? (struct heed_window){true, 5, 900} : r->window;
        r->alignment = HEED_ALIGN_OFFSETS;
        r->query_offsets = numbers;
    }
}

/* Exactly 0, and a log-sum-exp of -inf, or of the sink. */
START_TEST(test_options_that_hide_all) {
    struct rng rng = rng_for("options that hide all", 0);
    for (int64_t repeat = 0; repeat < test_count(150); repeat++) {
        struct choice choice = finite_choice(&rng);
        struct attention_case c = case_of(&choice, 400000, &rng);
        const struct attention_way way = way_of(&choice);
        hide_all(&c, (enum means)(repeat % MEANS));
        c.wants[OUTPUT] = c.wants[LSE] = c.wants[WEIGHTS] = true;
        run_and_check(&c, &way, "attention with all keys hidden", &rng);
        free_attention_case(&c);
    }
}
END_TEST

/* --- Cancelling --- */

struct patience {
    atomic_int polls_left;
};

static bool loses_patience(void *context) {
    struct patience *patience = context;
    return atomic_fetch_sub(&patience->polls_left, 1) <= 0;
}

/* Whether the call ended early, as it must if it asked more than `polls` times. */
static void check_cancelled(enum heed_status status, const struct patience *patience, int polls) {
    const bool was_told = atomic_load(&patience->polls_left) < 0;
    must(status == (was_told ? HEED_CANCELLED : HEED_OK) ? NULL : "wrong status of a call that was to be cancelled");
    must(polls > 3 || was_told ? NULL : "a long call did not ask whether it is cancelled");
}

enum call { CALL_ATTENTION, CALL_PLAN, CALL_GEMM, CALL_SOFTMAX, CALL_MERGE, CALLS };

static enum heed_status call_attention(const struct heed_exec *exec, const float *in, float *out, bool planned) {
    enum { Q = 200, K = 1100, D = 32 };
    const struct heed_attention a = {.batch = 1,
                                     .num_heads = 4,
                                     .num_kv_heads = 2,
                                     .query_tokens = Q,
                                     .key_tokens = K,
                                     .head_dim = D,
                                     .value_dim = D,
                                     .softcap = 20,
                                     .query = {in, 0, Q * D, D, HEED_F32},
                                     .key = {in, 0, K * D, D, HEED_F32},
                                     .value = {in, 0, K * D, D, HEED_F32},
                                     .output = {out, 0, Q * D, D, HEED_F32}};
    struct heed_plan plan;
    if (!planned)
        return heed_attention(&a, exec);
    must(heed_attention_plan(&a, exec, &plan) == HEED_OK ? NULL : heed_error_message());
    struct buffer workspace = buffer_new(plan.workspace_bytes / (int64_t)sizeof(float), AT_START);
    enum heed_status status = heed_attention_run(&plan, NULL, workspace.data);
    buffer_free(&workspace);
    return status;
}

/* in and out have that many floats: of a softmax six tasks for one worker, between which it asks. */
enum { CALL_FLOATS = 1600000 };

static enum heed_status make_call(enum call call, const struct heed_exec *exec, const float *in, float *out) {
    const struct heed_states_part part = {20, {in, 0, 2000, 2000, HEED_F32}, {in, 0, 20, 20, HEED_F32}, {in, 0, 20, 20, HEED_F32}};
    switch (call) {
    case CALL_GEMM:
        return heed_gemm(
            &(struct heed_gemm){
                .m = 500, .n = 300, .k = 200, .alpha = 1, .a = in, .lda = 200, .b = in, .ldb = 300, .c = out, .ldc = 300},
            exec);
    case CALL_SOFTMAX:
        return heed_softmax(
            &(struct heed_softmax){
                .rows = 1600, .columns = 1000, .input = in, .input_stride = 1000, .output = out, .output_stride = 1000},
            exec);
    case CALL_MERGE:
        return heed_merge_states(&(struct heed_merge){.batch = 1,
                                                      .num_heads = 1,
                                                      .query_tokens = 200,
                                                      .value_dim = 100,
                                                      .parts = 1,
                                                      .part = &part,
                                                      .output = {out, 0, 0, 100, HEED_F32}},
                                 exec);
    default:
        return call_attention(exec, in, out, call == CALL_PLAN);
    }
}

/* A query of zeros has scores of 0 with any scale and softcap, and weighs all keys alike. */
START_TEST(test_options_of_extreme_factors) {
    enum { TOKENS = 40, WIDTH = 24 };
    float query[TOKENS * WIDTH] = {0}, key[TOKENS * WIDTH], value[TOKENS * WIDTH], output[TOKENS * WIDTH];
    for (int i = 0; i < TOKENS * WIDTH; i++)
        key[i] = (float)(i % 7) - 3, value[i] = 1;
    for (int i = 0; heed_kernels_usable(i); i++)
        for (int tokens = 1; tokens <= TOKENS; tokens += TOKENS - 1)
            for (int capped = 0; capped < 2; capped++) {
                struct heed_attention a = {.batch = 1, .num_heads = 1, .num_kv_heads = 1, .query_tokens = tokens};
                a.key_tokens = TOKENS, a.head_dim = a.value_dim = WIDTH;
                a.query = (struct heed_input){query, 0, 0, WIDTH, HEED_F32};
                a.key = (struct heed_input){key, 0, 0, WIDTH, HEED_F32};
                a.value = (struct heed_input){value, 0, 0, WIDTH, HEED_F32};
                a.output = (struct heed_output){output, 0, 0, WIDTH, HEED_F32};
                a.scale = capped ? 1 : 3e38f;
                a.softcap = capped ? 1e-39f : 0;
                ck_assert_int_eq(heed_attention(&a, &(struct heed_exec){.isa = heed_kernels_usable(i)->name}), HEED_OK);
                must(compare(SAME_BITS, output, value, tokens, WIDTH));
            }
}
END_TEST

START_TEST(test_options_cancelled) {
    static const char *const names[CALLS] = {"attention", "plan", "gemm", "softmax", "merge"};
    struct rng rng = rng_for("cancelled", _i);
    float *in = new_filled(&rng, FILL_NORMAL, CALL_FLOATS), *out = new_floats(CALL_FLOATS);
    for (int polls = 0; polls < 100; polls = polls * 2 + 1) {
        struct patience patience = {polls};
        const struct heed_exec exec = {
            .isa = any_isa(&rng), .threads = any_threads(&rng), .cancelled = loses_patience, .cancel_context = &patience};
        describe(names[_i], exec.isa, "cancelled after %d polls, %d threads", polls, exec.threads);
        check_cancelled(make_call((enum call)_i, &exec, in, out), &patience, polls);
    }
    free(in);
    free(out);
}
END_TEST

/* --- Plans --- */

/* One plan, two layers: other tensors and lengths, the same strides; the workspace holds anything. */
START_TEST(test_options_plan_of_two_layers) {
    enum { Q = 9, K = 300, D = 16 };
    struct rng rng = rng_for("plan of two layers", 0);
    float *tensors = new_filled(&rng, FILL_NORMAL, 4 * K * D), want[Q * D], got[Q * D], first[Q * D];
    const int64_t all = K, some = K / 3;
    struct heed_attention a = {.batch = 1,
                               .num_heads = 1,
                               .num_kv_heads = 1,
                               .query_tokens = Q,
                               .key_tokens = K,
                               .head_dim = D,
                               .value_dim = D,
                               .key_lengths = &all,
                               .softcap = 5,
                               .query = {tensors, 0, 0, D, HEED_F32},
                               .key = {tensors, 0, 0, D, HEED_F32},
                               .value = {tensors, 0, 0, D, HEED_F32},
                               .output = {first, 0, 0, D, HEED_F32}};
    struct heed_attention b = a;
    struct heed_plan plan;
    describe("plan", "default", "of two layers");
    ck_assert_int_eq(heed_attention_plan(&a, NULL, &plan), HEED_OK);
    struct buffer workspace = buffer_new(plan.workspace_bytes / (int64_t)sizeof(float), AT_START);
    b.key_lengths = &some;
    b.query.data = b.key.data = b.value.data = tensors + 2 * K * D;
    b.output.data = want;
    ck_assert_int_eq(heed_attention(&b, NULL), HEED_OK);
    b.output.data = got;
    ck_assert_int_eq(heed_attention_run(&plan, NULL, workspace.data), HEED_OK);
    ck_assert_int_eq(heed_attention_run(&plan, &b, workspace.data), HEED_OK);
    must(compare(SAME_BITS, got, want, Q, D));
    a.output.data = got;
    ck_assert_int_eq(heed_attention(&a, NULL), HEED_OK);
    must(compare(SAME_BITS, first, got, Q, D));

    /* misuse */
    ck_assert_int_eq(heed_attention_plan(&a, NULL, NULL), HEED_INVALID_ARGUMENT);
    ck_assert_int_eq(heed_attention_plan(NULL, NULL, &plan), HEED_INVALID_ARGUMENT);
    ck_assert_int_eq(heed_attention_run(NULL, &a, workspace.data), HEED_INVALID_ARGUMENT);
    ck_assert_int_eq(heed_attention_run(&plan, &a, NULL), HEED_INVALID_ARGUMENT);
    ck_assert_int_eq(heed_attention_run(&plan, &a, (char *)workspace.data + 4), HEED_INVALID_ARGUMENT);
    buffer_free(&workspace);
    free(tensors);
}
END_TEST

/* A request that needs more than was planned is refused. */
START_TEST(test_options_plan_of_another_request) {
    enum { Q = 64, K = 64, D = 64 };
    float *tensors = calloc(40 * K * D, sizeof *tensors);
    struct heed_plan plan;
    ck_assert(tensors);
    struct heed_attention a = {.batch = 1,
                               .num_heads = 1,
                               .num_kv_heads = 1,
                               .query_tokens = 1,
                               .key_tokens = K,
                               .head_dim = 1,
                               .value_dim = 1,
                               .query = {tensors, 0, 0, D, HEED_F32},
                               .key = {tensors, 0, 0, D, HEED_F32},
                               .value = {tensors, 0, 0, D, HEED_F32},
                               .output = {tensors + 20 * K * D, 0, 0, D, HEED_F32}};
    ck_assert_int_eq(heed_attention_plan(&a, NULL, &plan), HEED_OK);
    struct buffer workspace = buffer_new(plan.workspace_bytes / (int64_t)sizeof(float), AT_START);
    a.query_tokens = Q;
    a.head_dim = a.value_dim = D;
    ck_assert_int_eq(heed_attention_run(&plan, &a, workspace.data), HEED_INVALID_ARGUMENT);
    buffer_free(&workspace);
    free(tensors);
}
END_TEST

Suite *options_edges_suite(void) {
    Suite *suite = suite_create("options edges");
    TCase *tests = tcase_create("options edges");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_options_of_nothing);
    tcase_add_test(tests, test_options_of_extreme_factors);
    tcase_add_test(tests, test_options_that_hide_all);
    tcase_add_loop_test(tests, test_options_cancelled, 0, CALLS);
    tcase_add_test(tests, test_options_plan_of_two_layers);
    tcase_add_test(tests, test_options_plan_of_another_request);
    suite_add_tcase(suite, tests);
    return suite;
}
