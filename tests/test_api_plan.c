/* Plan, run and explain: what they refuse, and what an explanation says. */
#include "api_common.h"
#include "reference/reference.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct heed_plan plan_of(struct heed_attention request, const struct heed_exec *exec) {
    struct heed_plan plan;
    ck_assert_msg(heed_attention_plan(&request, exec, &plan) == HEED_OK, "%s", heed_error_message());
    return plan;
}

START_TEST(test_api_plan_refusals) {
    prepare();
    const struct heed_attention request = full_attention();
    struct heed_plan plan, before;
    memset(&plan, 0x5a, sizeof plan);
    memcpy(&before, &plan, sizeof plan);
    must_refuse(heed_attention_plan(&request, NULL, NULL), HEED_INVALID_ARGUMENT, "plan", "NULL", "no plan");
    must_refuse(heed_attention_plan(NULL, NULL, &plan), HEED_INVALID_ARGUMENT, "attention", "NULL", "plan of nothing");
    must_refuse(heed_attention_plan(&request, &(struct heed_exec){.threads = 1025}, &plan), HEED_INVALID_ARGUMENT, "exec.threads",
                "1025", "plan for 1025 threads");
    must_refuse(heed_attention_plan(&request, &(struct heed_exec){.isa = "mmx"}, &plan), HEED_UNSUPPORTED_ISA, "exec.isa", "mmx",
                "plan for mmx");
    ck_assert(memcmp(&before, &plan, sizeof plan) == 0);
}
END_TEST

static void must_need_too_much(const struct heed_attention *request, int threads) {
    struct heed_plan plan, before;
    memset(&plan, 0x5a, sizeof plan);
    memcpy(&before, &plan, sizeof plan);
    ck_assert_int_eq(heed_attention_plan(request, &(struct heed_exec){.threads = threads}, &plan), HEED_OUT_OF_MEMORY);
    ck_assert_int_eq(heed_attention(request, &(struct heed_exec){.threads = threads}), HEED_OUT_OF_MEMORY);
    ck_assert(memcmp(&before, &plan, sizeof plan) == 0);
}

/* Views that repeat one row for very many heads are legal, but what such calls need is not there.  Nothing is read of the data. */
START_TEST(test_api_plan_too_large) {
    struct heed_attention request = {
        .batch = 1, .num_kv_heads = 1, .query_tokens = 1, .key_tokens = 3, .head_dim = 1, .value_dim = 1};
    request.query.data = (const void *)(uintptr_t)(UINT64_C(1) << 40);
    request.key.data = (const void *)(uintptr_t)(UINT64_C(2) << 40);
    request.value.data = (const void *)(uintptr_t)(UINT64_C(3) << 40);
    request.output = (struct heed_output){(void *)(uintptr_t)(UINT64_C(1) << 60), 0, 1, 1, HEED_F32};
    request.num_heads = INT64_C(1) << 52;
    request.relative = (struct heed_relative){(const float *)(uintptr_t)4096, 0, 1, 32, 65536, false};
    must_need_too_much(&request, 1);
    request.num_heads = INT64_C(1) << 54;
    request.relative.table = NULL;
    request.mass = (struct heed_output){(void *)(uintptr_t)(UINT64_C(1) << 62), 0, 3, 0, HEED_F32};
    must_need_too_much(&request, 8);
}
END_TEST

START_TEST(test_api_run_refusals) {
    prepare();
    struct heed_plan plan = plan_of(full_attention(), NULL);
    struct heed_attention wider = legal_attention();
    static float row[2000];
    unsigned char *workspace = new_workspace(&plan);
    ck_assert_int_gt(plan.workspace_bytes, 0);
    must_refuse(heed_attention_run(NULL, NULL, workspace), HEED_INVALID_ARGUMENT, "plan", "NULL", "run of nothing");
    must_refuse(heed_attention_run(&(struct heed_plan){0}, NULL, workspace), HEED_INVALID_ARGUMENT, "plan.isa", "NULL",
                "run of a plan of zeros");
    must_refuse(heed_attention_run(&plan, NULL, NULL), HEED_INVALID_ARGUMENT, "workspace", "NULL", "run without workspace");
    must_refuse(heed_attention_run(&plan, NULL, workspace + 4), HEED_INVALID_ARGUMENT, "workspace", "align",
                "misaligned workspace");
    wider.head_dim = 2000;
    wider.query = wider.key = (struct heed_input){row, 0, 0, 0, HEED_F32};
    must_refuse(heed_attention_run(&plan, &wider, workspace), HEED_INVALID_ARGUMENT, "workspace", "bytes",
                "run of a wider request");
    plan.workspace_bytes = 64;
    must_refuse(heed_attention_run(&plan, NULL, workspace), HEED_INVALID_ARGUMENT, "workspace", "64", "run in 64 bytes");
    free(workspace);
}
END_TEST

/* A run may have other pointers, and a plan without elements needs nothing. */
START_TEST(test_api_run_legal) {
    prepare();
    struct heed_attention request = full_attention();
    const struct heed_plan plan = plan_of(request, NULL);
    float output[144], lse[24];
    void *workspace = new_workspace(&plan);
    request.output.data = output;
    request.lse.data = lse;
    request.weights.data = NULL;
    ck_assert_msg(heed_attention_run(&plan, &request, workspace) == HEED_OK, "%s", heed_error_message());
    ck_assert(hash_floats(output, 144) != hash_floats(memory + OUTPUT, 144));
    ck_assert_int_eq(heed_attention_run(&plan, NULL, workspace), HEED_OK);
    must(compare(SAME_BITS, memory + OUTPUT, output, 1, 144));
    must(compare(SAME_BITS, memory + LSE, lse, 1, 24));
    request.batch = 0;
    const struct heed_plan nothing = plan_of(request, NULL);
    ck_assert_int_eq(nothing.workspace_bytes, 0);
    ck_assert_int_eq(nothing.tasks, 0);
    ck_assert_int_eq(heed_attention_run(&nothing, NULL, NULL), HEED_OK);
    free(workspace);
}
END_TEST

/* --- JSON (RFC 8259), without what heed never writes: escapes, exponents, true, false and null --- */

static const char *skip_space(const char *p) { return p + strspn(p, " \t\r\n"); }

static const char *skip_string(const char *p) {
    if (*p++ != '"')
        return NULL;
    while (*p && *p != '"' && *p != '\\' && !iscntrl((unsigned char)*p))
        p++;
    return *p == '"' ? p + 1 : NULL;
}

static const char *skip_number(const char *p) {
    p += *p == '-';
    const size_t digits = strspn(p, "0123456789");
    if (digits == 0 || (digits > 1 && *p == '0'))
        return NULL;
    p += digits;
    if (*p != '.')
        return p;
    const size_t decimals = strspn(p + 1, "0123456789");
    return decimals ? p + 1 + decimals : NULL;
}

/* Returns what follows the value at p, NULL if there is none. */
static const char *skip_value(const char *p) {
    const char open = *p, close = open == '{' ? '}' : ']';
    if (open == '"')
        return skip_string(p);
    if (open != '{' && open != '[')
        return skip_number(p);
    p = skip_space(p + 1);
    if (*p == close)
        return p + 1;
    for (;; p = skip_space(p + 1)) {
        if (open == '{') {
            p = skip_string(p);
            if (!p || *(p = skip_space(p)) != ':')
                return NULL;
            p = skip_space(p + 1);
        }
        p = skip_value(p);
        if (!p)
            return NULL;
        p = skip_space(p);
        if (*p == close)
            return p + 1;
        if (*p != ',')
            return NULL;
    }
}

static bool is_json(const char *text) {
    const char *end = skip_value(skip_space(text));
    return end && !*skip_space(end);
}

START_TEST(test_api_json_checker) {
    static const char *const good[] = {"{}", " [1, -2.5, \"a b\", {\"x\": [0]}]\n", "\"\""}, *const bad[] = {
                                                                                                 "",          "{",    "[1,]",
                                                                                                 "{\"a\" 1}", "[01]", "[1] 2",
                                                                                                 "{\"a\": }", "[1.]", "[nan]",
                                                                                                 "[-]",       "\"a"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(is_json(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!is_json(bad[i]), "%s", bad[i]);
}
END_TEST

/* The number that the text has for a name. */
static double number_of(const char *text, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *found = strstr(text, key);
    ck_assert_msg(found, "no %s in:\n%s", name, text);
    return atof(found + strlen(key));
}

enum { TEXT = 8192 };

/* The whole text is JSON with the plan's numbers; a shorter buffer has its beginning, and nothing beyond is touched. */
static void check_explanation(const struct heed_plan *plan) {
    static char whole[TEXT], part[TEXT];
    const int64_t length = heed_explain(plan, whole, TEXT);
    ck_assert_int_gt(length, 0);
    ck_assert_int_lt(length, TEXT);
    ck_assert_uint_eq(strlen(whole), (size_t)length);
    ck_assert_msg(is_json(whole), "not JSON:\n%s", whole);
    ck_assert_ptr_nonnull(strstr(whole, plan->isa));
    ck_assert_double_eq(number_of(whole, "tasks"), (double)plan->tasks);
    ck_assert_double_eq(number_of(whole, "workspace_bytes"), (double)plan->workspace_bytes);
    for (int64_t size = 0; size <= length + 2; size++) {
        memset(part, 'x', TEXT);
        ck_assert_int_eq(heed_explain(plan, part, size), length);
        const int64_t kept = size == 0 ? 0 : size <= length ? size - 1 : length;
        ck_assert_msg(memcmp(part, whole, (size_t)kept) == 0, "size %lld: another text", (long long)size);
        ck_assert_msg(size == 0 || part[kept] == '\0', "size %lld: no end", (long long)size);
        ck_assert_msg(part[size == 0 ? 0 : kept + 1] == 'x', "size %lld: wrote beyond", (long long)size);
    }
    ck_assert_int_eq(heed_explain(plan, NULL, 0), length);
    ck_assert_int_eq(heed_explain(plan, NULL, TEXT), length);
    ck_assert_int_eq(heed_explain(plan, part, -1), length);
}

START_TEST(test_api_explain) {
    prepare();
    struct heed_plan plan = plan_of(legal_attention(), NULL);
    static char text[TEXT];
    check_explanation(&plan);
    heed_explain(&plan, text, TEXT);
    ck_assert_double_eq(number_of(text, "flops"), 2.0 * 2 * 4 * 3 * 5 * (4 + 6)); /* batch, heads, queries, keys, widths */
    ck_assert_double_eq(number_of(text, "workers"), plan.workers);
    ck_assert_double_eq(number_of(text, "group"), 2);
    ck_assert_double_eq(number_of(text, "chunk"), HEED_CHUNK);
    for (int i = 0; heed_kernels_usable(i); i++) {
        plan = plan_of(full_attention(), &(struct heed_exec){.isa = heed_kernels_usable(i)->name});
        ck_assert_str_eq(plan.isa, heed_kernels_usable(i)->name);
        check_explanation(&plan);
        heed_explain(&plan, text, TEXT);
        ck_assert_double_eq(number_of(text, "lanes"), heed_kernels_usable(i)->lanes);
    }
    struct heed_attention pairs = full_attention();
    pairs.compute = HEED_COMPUTE_BF16;
    plan = plan_of(pairs, NULL);
    check_explanation(&plan);
    heed_explain(&plan, text, TEXT);
    ck_assert_ptr_nonnull(strstr(text, "\"compute\": \"bf16\""));
    pairs.compute = HEED_COMPUTE_BF16_AMX;
    plan = plan_of(pairs, NULL);
    check_explanation(&plan);
    heed_explain(&plan, text, TEXT);
    ck_assert_ptr_nonnull(strstr(text, "\"compute\": \"bf16-amx\""));
    plan = plan_of(cached_attention(), NULL);
    check_explanation(&plan);
    struct heed_attention empty = legal_attention();
    empty.batch = 0;
    plan = plan_of(empty, NULL);
    check_explanation(&plan);
    ck_assert_int_eq(heed_explain(NULL, text, TEXT), -1);
    ck_assert_int_eq(heed_explain(NULL, NULL, 0), -1);
}
END_TEST

static double explained(const struct heed_attention *request, const char *name) {
    static char text[TEXT];
    const struct heed_plan plan = plan_of(*request, NULL);
    heed_explain(&plan, text, TEXT);
    return number_of(text, name);
}

/* Work is counted in closed form; here one by one. */
START_TEST(test_api_explain_work) {
    prepare();
    struct rng rng = rng_for("explain_work", _i);
    struct heed_attention request = legal_attention();
    const int64_t lengths[] = {rng_range(&rng, 0, 5), rng_range(&rng, 0, 5)},
                  offsets[] = {rng_range(&rng, -4, 8), rng_range(&rng, -4, 8)};
    request.causal = rng_range(&rng, 0, 1);
    if (rng_range(&rng, 0, 1))
        request.window = (struct heed_window){true, rng_range(&rng, -1, 6), rng_range(&rng, -1, 6)};
    request.alignment = (enum heed_alignment)rng_range(&rng, HEED_ALIGN_TOP_LEFT, HEED_ALIGN_OFFSETS);
    request.key_lengths = rng_range(&rng, 0, 1) ? lengths : NULL;
    request.query_offsets = request.alignment == HEED_ALIGN_OFFSETS ? offsets : NULL;
    double pairs = 0;
    for (int64_t b = 0; b < request.batch; b++)
        for (int64_t i = 0; i < request.query_tokens; i++)
            for (int64_t j = 0; j < request.key_tokens; j++)
                pairs += ref_sees(&request, b, i, j);
    ck_assert_double_eq(explained(&request, "flops"), 2 * pairs * (double)(request.num_heads * (4 + 6)));
}
END_TEST

/* All that is wanted is counted, and nothing else: of a legal request weights and log-sum-exp too, of a full one everything. */
START_TEST(test_api_explain_written) {
    prepare();
    struct heed_attention request = legal_attention();
    const double rows = (double)(request.batch * request.num_heads * request.query_tokens);
    const double keys = (double)request.key_tokens, width = (double)request.value_dim;
    ck_assert_double_eq(explained(&request, "written_bytes"), rows * (4 * width + 4 * (keys + 1)));
    request.output.type = HEED_BF16;
    ck_assert_double_eq(explained(&request, "written_bytes"), rows * (2 * width + 4 * (keys + 1)));
    request = full_attention();
    const double mass = (double)(request.batch * request.num_heads) * keys;
    ck_assert_double_eq(explained(&request, "written_bytes"), 4 * (rows * (width + 2 * keys + 1 + width + 2) + mass));
    request.output.data = NULL;
    ck_assert_double_eq(explained(&request, "written_bytes"), 4 * (rows * (2 * keys + 1 + width + 2) + mass));
}
END_TEST

/* Of more queries than one could count; nothing is read or written. */
START_TEST(test_api_explain_large) {
    prepare();
    struct heed_attention request = legal_attention();
    request.batch = 1 << 10;
    request.query_tokens = INT64_C(1) << 32;
    request.query.batch_stride = request.query.head_stride = request.query.token_stride = 0;
    request.key.batch_stride = request.value.batch_stride = 0;
    const int64_t rows = request.num_heads * request.query_tokens;
    request.output = (struct heed_output){memory + LSE, rows * 6, request.query_tokens * 6, 6, HEED_F32};
    request.weights = request.lse = (struct heed_output){0};
    request.causal = true;
    ck_assert_double_gt(explained(&request, "flops"), 0x1p42);
}
END_TEST

void add_plan_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_plan_refusals);
    tcase_add_test(tests, test_api_plan_too_large);
    tcase_add_test(tests, test_api_run_refusals);
    tcase_add_test(tests, test_api_run_legal);
    tcase_add_test(tests, test_api_json_checker);
    tcase_add_test(tests, test_api_explain);
    tcase_add_loop_test(tests, test_api_explain_work, 0, 200);
    tcase_add_test(tests, test_api_explain_written);
    tcase_add_test(tests, test_api_explain_large);
}
