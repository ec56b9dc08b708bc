/* Bad requests of heed_merge_states, and what a cancelled call of any kind returns. */
#include "api_common.h"

#include <math.h>
#include <string.h>

/* Two parts of one chunk each, B2 H4 Q3 V6; inputs may be the same. */
static struct heed_states_part parts[2];

static struct heed_merge legal_merge(void) {
    for (int i = 0; i < 2; i++)
        parts[i] = (struct heed_states_part){
            1, {memory + STATES, 72, 18, 6, HEED_F32}, {memory + MAXIMA, 12, 3, 1, HEED_F32}, {memory + SUMS, 12, 3, 1, HEED_F32}};
    return (struct heed_merge){.batch = 2,
                               .num_heads = 4,
                               .query_tokens = 3,
                               .value_dim = 6,
                               .parts = 2,
                               .part = parts,
                               .sinks = memory + SINKS,
                               .output = {memory + OUTPUT, 72, 18, 6, HEED_F32},
                               .lse = {memory + LSE, 12, 3, 1, HEED_F32}};
}
#define heed_merge(request, exec) heed_merge_states(request, exec)

START_TEST(test_api_merge_fields) {
    prepare();
    must_refuse(heed_merge_states(NULL, NULL), HEED_INVALID_ARGUMENT, "merge", "NULL", "merge of nothing");
    REFUSED(merge, r.batch = -1, "batch", "-1");
    REFUSED(merge, r.num_heads = -4, "num_heads", "-4");
    REFUSED(merge, r.query_tokens = INT64_MIN, "query_tokens", "-9223372036854775808");
    REFUSED(merge, r.value_dim = 0, "value_dim", "0");
    REFUSED(merge, r.value_dim = INT64_MAX, "value_dim", "9223372036854775807");
    REFUSED(merge, r.parts = -1, "parts", "-1");
    REFUSED(merge, r.part = NULL, "part", "2");
    REFUSED(merge, r.compute = (enum heed_compute)4, "compute", "4");
    REFUSED(merge, parts[1].chunks = -1, "part[1].chunks", "-1");
    REFUSED(merge, parts[1].chunks = INT64_MAX, "part[1].output", "too large");
    REFUSED(merge, parts[0].chunks = INT64_MAX / 6 + 1, "part[0].output", "too large");
    REFUSED(merge, parts[0].output.data = NULL, "part[0].output", "NULL");
    REFUSED(merge, parts[1].max.data = NULL, "part[1].max", "NULL");
    REFUSED(merge, parts[1].sum.data = NULL, "part[1].sum", "NULL");
    REFUSED(merge, parts[1].output.data = misaligned(memory + STATES), "part[1].output", "align");
    REFUSED(merge, parts[0].max.data = misaligned(memory + MAXIMA), "part[0].max", "align");
    REFUSED(merge, parts[0].output.batch_stride = -72, "part[0].output.batch_stride", "-72");
    REFUSED(merge, parts[1].max.head_stride = -3, "part[1].max.head_stride", "-3");
    REFUSED(merge, parts[1].sum.token_stride = INT64_MIN, "part[1].sum.token_stride", "-9223372036854775808");
    REFUSED(merge, parts[1].sum.token_stride = INT64_MAX / 2, "part[1].sum", "4611686018427387903");
    REFUSED(merge, parts[1].max.type = HEED_F16, "part[1].max.type", "2");
    REFUSED(merge, r.output.type = HEED_BF16, "output.type", "1");
    REFUSED(merge, r.lse.type = HEED_BF16, "lse.type", "1");
    REFUSED(merge, r.sinks = misaligned(memory + SINKS), "sinks", "align");
    REFUSED(merge, r.output.token_stride = 5, "output.token_stride", "5");
    REFUSED(merge, r.output.batch_stride = -72, "output.batch_stride", "-72");
    REFUSED(merge, r.output.data = misaligned(memory + OUTPUT), "output", "align");
    REFUSED(merge, r.lse.head_stride = 2, "lse.head_stride", "2");
    REFUSED(merge, r.lse.token_stride = 0, "lse.token_stride", "0");
    REFUSED(merge, r.batch = INT64_MAX, "output", "9223372036854775807");
    REFUSED(merge, (r.batch = INT64_MAX / 64, r.output.batch_stride = 1 << 20), "output", "144115188075855871");
}
END_TEST

START_TEST(test_api_merge_overlaps) {
    prepare();
    REFUSED(merge, r.output.data = memory + STATES + 143, "output", "part[0].output");
    REFUSED(merge, (r.output.data = memory + MAXIMA, parts[0] = parts[1], parts[0].output.data = memory), "output", "part[0].max");
    REFUSED(merge, r.output.data = memory + SINKS - 100, "output", "sinks");
    REFUSED(merge, r.lse.data = memory + OUTPUT + 143, "lse", "output");
    REFUSED(merge, r.lse.data = memory + SUMS, "lse", "part[0].sum");
    REFUSED(merge, r.lse.data = memory + SINKS + 3, "lse", "sinks");
    REFUSED(merge, (parts[1].sum.data = memory + LSE), "lse", "part[1].sum");
}
END_TEST

START_TEST(test_api_merge_legal) {
    prepare();
    ACCEPTED(merge, (void)0);
    ACCEPTED(merge, r.sinks = NULL);
    ACCEPTED(merge, r.lse.data = NULL);
    ACCEPTED(merge, r.output.data = NULL);
    ACCEPTED(merge, (r.batch = 0, r.output.data = NULL, parts[0].max.data = NULL));
    ACCEPTED(merge, (r.query_tokens = 0, r.sinks = NULL));
    ACCEPTED(merge, (parts[1].chunks = 0, parts[1].output.data = parts[1].max.data = parts[1].sum.data = NULL));
    memory[OUTPUT] = 7;
    ACCEPTED(merge, (r.parts = 0, r.part = NULL, r.sinks = NULL)); /* of nothing: as rows that see no key */
    for (int i = 0; i < 144; i++)
        ck_assert(memory[OUTPUT + i] == 0);
    for (int i = 0; i < 24; i++)
        ck_assert(memory[LSE + i] == -INFINITY);
}
END_TEST

static bool always(void *context) {
    ++*(int *)context;
    return true;
}
static bool never(void *context) {
    ++*(int *)context;
    return false;
}

START_TEST(test_api_cancelled) {
    prepare();
    const struct heed_attention attention = full_attention();
    const struct heed_gemm gemm = legal_gemm();
    const struct heed_softmax softmax = legal_softmax();
    const struct heed_merge merge = legal_merge();
    const struct heed_kv_append append = {.batch = 2,
                                          .tokens = 3,
                                          .key = {memory, 24, 12, 4, HEED_F32},
                                          .value = {memory + 100, 36, 18, 6, HEED_F32},
                                          .cache = &cache};
    for (int cancel = 0; cancel < 2; cancel++) {
        int asked = 0;
        const enum heed_status want = cancel ? HEED_CANCELLED : HEED_OK;
        const struct heed_exec exec = {.cancelled = cancel ? always : never, .cancel_context = &asked};
        const enum heed_status got[] = {
            heed_attention(&attention, &exec), heed_gemm(&gemm, &exec),          heed_gemm_pack_b(&gemm, memory + STATES, &exec),
            heed_softmax(&softmax, &exec),     heed_merge_states(&merge, &exec), heed_kv_append(&append, &exec)};
        for (size_t i = 0; i < sizeof got / sizeof *got; i++)
            ck_assert_msg(got[i] == want, "function %zu: %s (%s)", i, heed_status_string(got[i]), heed_error_message());
        ck_assert_int_ge(asked, sizeof got / sizeof *got);
    }
    ck_assert_ptr_nonnull(strstr(heed_error_message(), "exec.cancelled"));
}
END_TEST

void add_merge_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_merge_fields);
    tcase_add_test(tests, test_api_merge_overlaps);
    tcase_add_test(tests, test_api_merge_legal);
    tcase_add_test(tests, test_api_cancelled);
}
