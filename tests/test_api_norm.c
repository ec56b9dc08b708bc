/* Bad requests of heed_layer_norm and heed_rms_norm, which check alike. */
#include "api_common.h"

#include <math.h>

static struct heed_norm legal_norm(void) {
    return (struct heed_norm){.rows = 3,
                              .columns = 5,
                              .epsilon = 1e-5f,
                              .input = memory,
                              .input_stride = 5,
                              .residual = memory + 20,
                              .residual_stride = 5,
                              .gain = memory + 40,
                              .bias = memory + 50,
                              .output = memory + 100,
                              .output_stride = 5,
                              .sum = memory + 120,
                              .sum_stride = 5};
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
    REFUSED_NORM(r.epsilon = -1, "epsilon", "-1");
    REFUSED_NORM(r.epsilon = INFINITY, "epsilon", "inf");
    REFUSED_NORM(r.epsilon = NAN, "epsilon", "nan");
    REFUSED_NORM(r.input = NULL, "input", "NULL");
    REFUSED_NORM(r.output = NULL, "output", "NULL");
    REFUSED_NORM(r.input = misaligned(memory), "input", "align");
    REFUSED_NORM(r.residual = misaligned(memory), "residual", "align");
    REFUSED_NORM(r.gain = misaligned(memory), "gain", "align");
    REFUSED_NORM(r.bias = misaligned(memory), "bias", "align");
    REFUSED_NORM(r.sum = misaligned(memory), "sum", "align");
    REFUSED_NORM(r.input_stride = -5, "input_stride", "-5");
    REFUSED_NORM(r.output_stride = 4, "output_stride", "4");
    REFUSED_NORM(r.sum_stride = 4, "sum_stride", "4");
    REFUSED_NORM((r.rows = (int64_t)1 << 58, r.output_stride = 16), "output", "288230376151711744");
}
END_TEST

START_TEST(test_api_norm_overlaps) {
    prepare();
    REFUSED_NORM(r.output = memory + 1, "output", "overlap");
    REFUSED_NORM((r.output = memory, r.output_stride = 6), "output", "overlap");
    REFUSED_NORM(r.output = memory + 41, "output", "overlap");
    REFUSED_NORM(r.output = memory + 45, "output", "bias");
    REFUSED_NORM(r.sum = r.output, "output", "sum");
    REFUSED_NORM(r.sum = memory + 21, "sum", "overlap");
    REFUSED_NORM((r.output = memory, r.sum = memory), "output", "sum");
    prepare();
    ACCEPTED_NORM((void)0);
    ACCEPTED_NORM((r.sum = NULL, r.residual = NULL, r.gain = NULL, r.bias = NULL));
    ACCEPTED_NORM((r.output = memory, r.sum = memory + 20));
    ACCEPTED_NORM((r.output = memory + 20, r.sum = memory));
    ACCEPTED_NORM((r.input = r.residual, r.output = memory + 20));
    ACCEPTED_NORM((r.rows = 0, r.input = NULL, r.output = NULL));
    ACCEPTED_NORM((r.columns = 0, r.input = NULL, r.output = NULL));
    ACCEPTED_NORM((r.input_stride = r.output_stride = 10, r.output = memory + 5, r.residual = NULL, r.sum = NULL));
}
END_TEST

void add_norm_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_norm_refuses);
    tcase_add_test(tests, test_api_norm_overlaps);
}
