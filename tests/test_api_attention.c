/* Bad requests of attention: sizes, tensors and overlaps of a request without options. */
#include "api_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct heed_attention legal_attention(void) {
    return (struct heed_attention){.batch = 2,
                                   .num_heads = 4,
                                   .num_kv_heads = 2,
                                   .query_tokens = 3,
                                   .key_tokens = 5,
                                   .head_dim = 4,
                                   .value_dim = 6,
                                   .query = {memory + QUERY, 48, 12, 4, HEED_F32},
                                   .key = {memory + KEY, 40, 20, 4, HEED_F32},
                                   .value = {memory + VALUE, 60, 30, 6, HEED_F32},
                                   .output = {memory + OUTPUT, 72, 18, 6, HEED_F32},
                                   .weights = {memory + WEIGHTS, 60, 15, 5, HEED_F32},
                                   .lse = {memory + LSE, 12, 3, 1, HEED_F32}};
}

static struct heed_plan legal_plan(void) {
    struct heed_plan plan;
    const struct heed_attention request = legal_attention();
    ck_assert_int_eq(heed_attention_plan(&request, NULL, &plan), HEED_OK);
    return plan;
}

void *new_workspace(const struct heed_plan *plan) {
    void *workspace = aligned_alloc(64, (size_t)round_up(plan->workspace_bytes + 1, 64));
    ck_assert_ptr_nonnull(workspace);
    return workspace;
}

void must_refuse_attention(const struct heed_attention *request, const char *field, const char *value, const char *what) {
    struct heed_plan plan = legal_plan(), before;
    void *workspace = new_workspace(&plan);
    memcpy(&before, &plan, sizeof plan);
    must_refuse(heed_attention(request, NULL), HEED_INVALID_ARGUMENT, field, value, what);
    must_refuse(heed_attention_plan(request, NULL, &plan), HEED_INVALID_ARGUMENT, field, value, what);
    ck_assert_msg(memcmp(&before, &plan, sizeof plan) == 0, "%s: touched the plan", what);
    must_refuse(heed_attention_run(&plan, request, workspace), HEED_INVALID_ARGUMENT, field, value, what);
    free(workspace);
}

void must_accept_attention(const struct heed_attention *request, const char *what) {
    struct heed_plan plan;
    ck_assert_msg(heed_attention(request, NULL) == HEED_OK, "%s: %s", what, heed_error_message());
    ck_assert_msg(heed_attention_plan(request, NULL, &plan) == HEED_OK, "plan of %s: %s", what, heed_error_message());
    void *workspace = new_workspace(&plan);
    ck_assert_msg(heed_attention_run(&plan, NULL, workspace) == HEED_OK, "run of %s: %s", what, heed_error_message());
    free(workspace);
    prepare();
}

START_TEST(test_api_attention_sizes) {
    prepare();
    must_refuse(heed_attention(NULL, NULL), HEED_INVALID_ARGUMENT, "attention", "NULL", "NULL");
    REFUSED_FROM(legal_attention, r.batch = -1, "batch", "-1");
    REFUSED_FROM(legal_attention, r.num_heads = -4, "num_heads", "-4");
    REFUSED_FROM(legal_attention, r.num_kv_heads = -2, "num_kv_heads", "-2");
    REFUSED_FROM(legal_attention, r.num_kv_heads = 0, "num_kv_heads", "0");
    REFUSED_FROM(legal_attention, r.num_kv_heads = 3, "num_kv_heads", "3");
    REFUSED_FROM(legal_attention, r.num_kv_heads = 8, "num_kv_heads", "8");
    REFUSED_FROM(legal_attention, r.query_tokens = -3, "query_tokens", "-3");
    REFUSED_FROM(legal_attention, r.key_tokens = INT64_MIN, "key_tokens", "-9223372036854775808");
    REFUSED_FROM(legal_attention, r.head_dim = 0, "head_dim", "0");
    REFUSED_FROM(legal_attention, r.head_dim = -1, "head_dim", "-1");
    REFUSED_FROM(legal_attention, r.value_dim = 0, "value_dim", "0");
    REFUSED_FROM(legal_attention, r.value_dim = -6, "value_dim", "-6");
    REFUSED_FROM(legal_attention, r.batch = INT64_MAX - 1, "query", "9223372036854775806");
    REFUSED_FROM(legal_attention, (r.batch = INT64_MAX, r.num_heads = r.num_kv_heads = 0), "batch", "9223372036854775807");
    REFUSED_FROM(legal_attention, r.query_tokens = INT64_MAX, "query_tokens", "9223372036854775807");
    REFUSED_FROM(legal_attention, r.key_tokens = INT64_MAX / 4, "key_tokens", "2305843009213693951");
    REFUSED_FROM(legal_attention, r.head_dim = INT64_MAX, "head_dim", "9223372036854775807");
    REFUSED_FROM(legal_attention, r.value_dim = INT64_MAX, "value_dim", "9223372036854775807");
    REFUSED_FROM(legal_attention, r.scale = NAN, "scale", "nan");
    REFUSED_FROM(legal_attention, r.scale = -INFINITY, "scale", "-inf");
    REFUSED_FROM(legal_attention, r.compute = (enum heed_compute)4, "compute", "4");
    REFUSED_FROM(legal_attention, memset(&r.compute, 0xff, sizeof r.compute), "compute", "-1");
    REFUSED_FROM(legal_attention, r.alignment = (enum heed_alignment)3, "alignment", "3");
    REFUSED_FROM(legal_attention, memset(&r.alignment, 0xff, sizeof r.alignment), "alignment", "-1");
}
END_TEST

START_TEST(test_api_attention_tensors) {
    prepare();
    REFUSED_FROM(legal_attention, r.query.data = NULL, "query", "NULL");
    REFUSED_FROM(legal_attention, r.key.data = NULL, "key", "NULL");
    REFUSED_FROM(legal_attention, r.value.data = NULL, "value", "NULL");
    REFUSED_FROM(legal_attention, r.output.data = r.weights.data = r.lse.data = NULL, "output", "NULL");
    REFUSED_FROM(legal_attention, r.query.data = misaligned(memory + QUERY), "query", "align");
    REFUSED_FROM(legal_attention, r.output.data = misaligned(memory + OUTPUT), "output", "align");
    REFUSED_FROM(legal_attention, r.query.token_stride = -4, "query.token_stride", "-4");
    REFUSED_FROM(legal_attention, r.key.head_stride = -20, "key.head_stride", "-20");
    REFUSED_FROM(legal_attention, r.value.batch_stride = INT64_MIN, "value.batch_stride", "-9223372036854775808");
    REFUSED_FROM(legal_attention, r.output.token_stride = -6, "output.token_stride", "-6");
    REFUSED_FROM(legal_attention, r.lse.head_stride = -3, "lse.head_stride", "-3");
    REFUSED_FROM(legal_attention, r.key.token_stride = INT64_MAX, "key", "9223372036854775807");
    REFUSED_FROM(legal_attention, r.output.batch_stride = INT64_MAX / 2, "output", "4611686018427387903");
    REFUSED_FROM(legal_attention, r.weights.head_stride = INT64_MAX / 8, "weights", "1152921504606846975");
}
END_TEST

/* One head of 5 queries and keys, keys and outputs in rows of one buffer. */
static void interleave(struct heed_attention *a, int64_t row) {
    a->batch = a->num_heads = a->num_kv_heads = 1;
    a->query_tokens = 5;
    a->query = (struct heed_input){memory + OUTPUT, 0, 0, 4, HEED_F32};
    a->value = (struct heed_input){memory, 0, 0, 6, HEED_F32};
    a->key.token_stride = a->output.token_stride = row;
    a->weights.data = a->lse.data = NULL;
}

START_TEST(test_api_attention_overlaps) {
    prepare();
    REFUSED_FROM(legal_attention, r.output.token_stride = 5, "output.token_stride", "5");
    REFUSED_FROM(legal_attention, r.output.head_stride = 17, "output.head_stride", "17");
    REFUSED_FROM(legal_attention, r.output.batch_stride = 0, "output.batch_stride", "0");
    REFUSED_FROM(legal_attention, r.weights.token_stride = 4, "weights.token_stride", "4");
    REFUSED_FROM(legal_attention, r.lse.token_stride = 0, "lse.token_stride", "0");
    REFUSED_FROM(legal_attention, r.output.data = memory + QUERY, "output", "query");
    REFUSED_FROM(legal_attention, r.output.data = memory + KEY + 79, "output", "key");
    REFUSED_FROM(legal_attention, r.output.data = memory + OUTPUT - 1, "output", "value");
    REFUSED_FROM(legal_attention, r.weights.data = memory + OUTPUT + 143, "weights", "output");
    REFUSED_FROM(legal_attention, r.lse.data = memory + WEIGHTS + 119, "lse", "weights");
    REFUSED_FROM(legal_attention, r.lse.data = memory + QUERY, "lse", "query");
    /* interleaved, but by one column too little: rows [k0..3 o0..5], then [o0..5 k0..3], of 9 instead of 10 */
    REFUSED_FROM(legal_attention, (interleave(&r, 9), r.output.data = memory + KEY + 4), "output", "key");
    REFUSED_FROM(legal_attention, (interleave(&r, 9), r.output.data = memory + KEY, r.key.data = memory + KEY + 6), "output",
                 "key");
}
END_TEST

static void use_halves(struct heed_attention *a) { a->query.type = a->key.type = a->value.type = a->output.type = HEED_BF16; }

static uint16_t *halves(float *floats) { return (uint16_t *)(void *)floats; }

START_TEST(test_api_attention_types) {
    prepare();
    REFUSED_FROM(legal_attention, r.query.type = (enum heed_type)3, "query.type", "3");
    REFUSED_FROM(legal_attention, memset(&r.key.type, 0xff, sizeof r.key.type), "key.type", "-1");
    REFUSED_FROM(legal_attention, r.value.type = (enum heed_type)1000, "value.type", "1000");
    REFUSED_FROM(legal_attention, r.output.type = (enum heed_type)3, "output.type", "3");
    REFUSED_FROM(legal_attention, r.weights.type = HEED_BF16, "weights.type", "1");
    REFUSED_FROM(legal_attention, r.lse.type = HEED_F16, "lse.type", "2");
    REFUSED_FROM(legal_attention, (use_halves(&r), r.key.data = (char *)(memory + KEY) + 1), "key", "align");
    REFUSED_FROM(legal_attention, (use_halves(&r), r.output.data = (char *)(memory + OUTPUT) + 3), "output", "align");
    REFUSED_FROM(legal_attention, (use_halves(&r), r.value.type = HEED_F32, r.value.data = (char *)(memory + VALUE) + 2), "value",
                 "align");
    REFUSED_FROM(legal_attention, (use_halves(&r), r.output.data = halves(memory + KEY) + 79), "output", "key");
    REFUSED_FROM(legal_attention, (use_halves(&r), interleave(&r, 9), r.output.data = halves(memory + KEY) + 4), "output", "key");
    /* of unequal size, so not looked at closely */
    REFUSED_FROM(legal_attention, (interleave(&r, 10), r.key.type = HEED_F16, r.output.data = memory + KEY + 4), "output", "key");
    ACCEPTED_FROM(legal_attention, use_halves(&r));
    ACCEPTED_FROM(legal_attention, (r.key.type = HEED_F16, r.output.type = HEED_BF16));
    ACCEPTED_FROM(legal_attention, (use_halves(&r), r.key.data = halves(memory + KEY) + 1));
    ACCEPTED_FROM(legal_attention, (use_halves(&r), interleave(&r, 10), r.output.data = halves(memory + KEY) + 4));
    ACCEPTED_FROM(legal_attention, (r.weights = (struct heed_output){.type = HEED_BF16})); /* not wanted */
}
END_TEST

START_TEST(test_api_attention_legal) {
    prepare();
    ACCEPTED_FROM(legal_attention, (void)0);
    ACCEPTED_FROM(legal_attention, r.scale = -1);
    ACCEPTED_FROM(legal_attention, (r.query.batch_stride = 0, r.key.head_stride = 0, r.value.token_stride = 0));
    ACCEPTED_FROM(legal_attention, (r.weights.data = NULL, r.weights.token_stride = 0, r.lse.data = NULL));
    ACCEPTED_FROM(legal_attention,
                  (r.batch = 0, r.query.data = NULL, r.key.data = NULL, r.value.data = NULL, r.output.data = NULL));
    ACCEPTED_FROM(legal_attention, (r.num_heads = 0, r.num_kv_heads = 0, r.query.data = NULL, r.output.data = NULL));
    ACCEPTED_FROM(legal_attention, (r.num_heads = 0, r.num_kv_heads = 2));
    ACCEPTED_FROM(legal_attention, (r.query_tokens = 0, r.query.data = NULL, r.output.data = NULL));
    ACCEPTED_FROM(legal_attention, (r.key_tokens = 0, r.key.data = NULL, r.value.data = NULL));
    ACCEPTED_FROM(legal_attention, (r.key_tokens = 0, r.weights.head_stride = r.weights.token_stride = INT64_MAX / 2));
    ACCEPTED_FROM(legal_attention, (r.batch = 1, r.output.batch_stride = 0)); /* a stride that is never stepped over */
    ACCEPTED_FROM(legal_attention, (interleave(&r, 10), r.output.data = memory + KEY + 4));
    ACCEPTED_FROM(legal_attention, (interleave(&r, 10), r.output.data = memory + KEY, r.key.data = memory + KEY + 6));
}
END_TEST

void add_attention_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_attention_sizes);
    tcase_add_test(tests, test_api_attention_tensors);
    tcase_add_test(tests, test_api_attention_overlaps);
    tcase_add_test(tests, test_api_attention_types);
    tcase_add_test(tests, test_api_attention_legal);
}
