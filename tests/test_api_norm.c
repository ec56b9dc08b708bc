/* Bad requests of heed_layer_norm and heed_rms_norm, which check alike. */
#include "api_common.h"

#include <math.h>

static struct heed_norm legal_norm(void) {
    return (struct heed_norm){.rows = 3,
                              .columns = 5,
                              .epsilon = 1e-5f,
                              .input = {.data = memory, .token_stride = 5},
                              .residual = {.data = memory + 20, .token_stride = 5},
                              .gain = memory + 40,
                              .bias = memory + 50,
                              .output = {.data = memory + 100, .token_stride = 5},
                              .sum = {.data = memory + 120, .token_stride = 5}};
}

#define REFUSED_NORM(change, field, value)                                                                                         \
    do {                                                                                                                           \
        struct heed_norm r = legal_norm();                                                                                         \
        change;                                                                                                                    \
        must_refuse(heed_layer_norm(&r, NULL), HEED_INVALID_ARGUMENT, field, value, "layer_norm with " #change);                   \
        must_refuse(heed_rms_norm(&r, NULL), HEED_INVALID_ARGUMENT, field, value, "rms_norm with " #change);                       \
    } while (0)
#define ACCEPTED_NORM(change)                                                                                                      \
    do {                                                                                                                           \
        struct heed_norm r = legal_norm();                                                                                         \
        change;                                                                                                                    \
        ck_assert_msg(heed_layer_norm(&r, NULL) == HEED_OK, "layer_norm with " #change ": %s", heed_error_message());              \
        ck_assert_msg(heed_rms_norm(&r, NULL) == HEED_OK, "rms_norm with " #change ": %s", heed_error_message());                  \
    } while (0)

START_TEST(test_api_norm_refuses) {
    prepare();
    must_refuse(heed_layer_norm(NULL, NULL), HEED_INVALID_ARGUMENT, "norm", "NULL", "NULL");
    must_refuse(heed_rms_norm(NULL, NULL), HEED_INVALID_ARGUMENT, "norm", "NULL", "NULL");
    must_refuse(heed_rms_norm(&(struct heed_norm){0}, &(struct heed_exec){.isa = "mmx"}), HEED_UNSUPPORTED_ISA, "isa", "mmx",
                "isa");
    REFUSED_NORM(r.rows = -1, "rows", "-1");
    REFUSED_NORM(r.columns = -5, "columns", "-5");
    REFUSED_NORM(r.heads = -1, "heads", "-1");
    REFUSED_NORM(r.heads = INT64_MAX / 2, "heads", "4611686018427387903");
    REFUSED_NORM((r.heads = 2, r.input.head_stride = -1), "input.head_stride", "-1");
    REFUSED_NORM((r.heads = 2, r.output.token_stride = 10, r.output.head_stride = 4), "output.head_stride", "4");
    REFUSED_NORM(r.epsilon = -1, "epsilon", "-1");
    REFUSED_NORM(r.epsilon = INFINITY, "epsilon", "inf");
    REFUSED_NORM(r.epsilon = NAN, "epsilon", "nan");
    REFUSED_NORM(r.input.data = NULL, "input", "NULL");
    REFUSED_NORM(r.output.data = NULL, "output", "NULL");
    REFUSED_NORM(r.input.data = misaligned(memory), "input", "align");
    REFUSED_NORM(r.residual.data = misaligned(memory), "residual", "align");
    REFUSED_NORM(r.gain = misaligned(memory), "gain", "align");
    REFUSED_NORM(r.bias = misaligned(memory), "bias", "align");
    REFUSED_NORM(r.sum.data = misaligned(memory), "sum", "align");
    REFUSED_NORM(r.input.type = HEED_I8, "input.type", "3");
    REFUSED_NORM(r.residual.type = HEED_Q8_0, "residual.type", "4");
    REFUSED_NORM(r.output.type = (enum heed_type)12, "output.type", "12");
    REFUSED_NORM(r.sum.type = HEED_I8, "sum.type", "3");
    REFUSED_NORM(r.input.token_stride = -5, "input.token_stride", "-5");
    REFUSED_NORM(r.output.token_stride = 4, "output.token_stride", "4");
    REFUSED_NORM(r.sum.token_stride = 4, "sum.token_stride", "4");
    REFUSED_NORM((r.rows = (int64_t)1 << 58, r.output.token_stride = 16), "output", "288230376151711744");
}
END_TEST

START_TEST(test_api_norm_overlaps) {
    prepare();
    REFUSED_NORM(r.output.data = memory + 1, "output", "overlap");
    REFUSED_NORM((r.rows = r.heads = 2, r.input.head_stride = 5, r.input.token_stride = r.output.token_stride = 20,
                  r.output.head_stride = 6, r.output.data = memory, r.residual.data = NULL, r.gain = r.bias = NULL,
                  r.sum.data = NULL),
                 "output", "overlap");
    REFUSED_NORM((r.output.data = memory, r.output.type = HEED_BF16), "output", "overlap");
    REFUSED_NORM((r.output.data = memory, r.output.token_stride = 6), "output", "overlap");
    REFUSED_NORM(r.output.data = memory + 41, "output", "overlap");
    REFUSED_NORM(r.output.data = memory + 45, "output", "bias");
    REFUSED_NORM(r.sum.data = r.output.data, "output", "sum");
    REFUSED_NORM(r.sum.data = memory + 21, "sum", "overlap");
    REFUSED_NORM((r.output.data = memory, r.sum.data = memory), "output", "sum");
    prepare();
    ACCEPTED_NORM((void)0);
    ACCEPTED_NORM((r.sum.data = NULL, r.residual.data = NULL, r.gain = NULL, r.bias = NULL));
    ACCEPTED_NORM((r.input.type = r.output.type = HEED_BF16, r.residual.type = r.sum.type = HEED_F16));
    ACCEPTED_NORM((r.input.type = r.output.type = HEED_BF16, r.output.data = memory));
    ACCEPTED_NORM((r.output.data = memory, r.sum.data = memory + 20));
    ACCEPTED_NORM((r.output.data = memory + 20, r.sum.data = memory));
    ACCEPTED_NORM((r.input = r.residual, r.output.data = memory + 20));
    ACCEPTED_NORM((r.rows = 1, r.heads = 2, r.output.head_stride = r.sum.head_stride = 5));
    ACCEPTED_NORM((r.heads = 1, r.output.head_stride = -7));
    ACCEPTED_NORM((r.rows = 0, r.input.data = NULL, r.output.data = NULL));
    ACCEPTED_NORM((r.columns = 0, r.input.data = NULL, r.output.data = NULL));
    ACCEPTED_NORM(
        (r.input.token_stride = r.output.token_stride = 10, r.output.data = memory + 5, r.residual.data = NULL, r.sum.data = NULL));
}
END_TEST

void add_norm_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_norm_refuses);
    tcase_add_test(tests, test_api_norm_overlaps);
}
