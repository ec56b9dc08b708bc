/* Bad requests of heed_activate. */
#include "api_common.h"

static struct heed_activate legal_activate(void) {
    return (struct heed_activate){.rows = 3,
                                  .columns = 5,
                                  .activation = HEED_SILU,
                                  .input = memory,
                                  .input_stride = 5,
                                  .bias = memory + 20,
                                  .gate = memory + 40,
                                  .gate_stride = 5,
                                  .residual = memory + 60,
                                  .residual_stride = 5,
                                  .output = memory + 100,
                                  .output_stride = 5};
}

#define REFUSED_ACTIVATE(change, field, value)                                                                                     \
    do {                                                                                                                           \
        struct heed_activate r = legal_activate();                                                                                 \
        change;                                                                                                                    \
        must_refuse(heed_activate(&r, NULL), HEED_INVALID_ARGUMENT, field, value, "activate with " #change);                       \
    } while (0)
#define ACCEPTED_ACTIVATE(change)                                                                                                  \
    do {                                                                                                                           \
        struct heed_activate r = legal_activate();                                                                                 \
        change;                                                                                                                    \
        ck_assert_msg(heed_activate(&r, NULL) == HEED_OK, "activate with " #change ": %s", heed_error_message());                  \
    } while (0)

START_TEST(test_api_activate_refuses) {
    prepare();
    must_refuse(heed_activate(NULL, NULL), HEED_INVALID_ARGUMENT, "activate", "NULL", "NULL");
    must_refuse(heed_activate(&(struct heed_activate){0}, &(struct heed_exec){.isa = "mmx"}), HEED_UNSUPPORTED_ISA, "isa", "mmx",
                "isa");
    REFUSED_ACTIVATE(r.rows = -1, "rows", "-1");
    REFUSED_ACTIVATE(r.columns = -5, "columns", "-5");
    REFUSED_ACTIVATE(r.activation = (enum heed_activation)5, "activation", "5");
    REFUSED_ACTIVATE(r.activation = (enum heed_activation) - 1, "activation", "");
    REFUSED_ACTIVATE(r.input = NULL, "input", "NULL");
    REFUSED_ACTIVATE(r.output = NULL, "output", "NULL");
    REFUSED_ACTIVATE(r.gate = misaligned(memory), "gate", "align");
    REFUSED_ACTIVATE(r.residual = misaligned(memory), "residual", "align");
    REFUSED_ACTIVATE(r.bias = misaligned(memory), "bias", "align");
    REFUSED_ACTIVATE(r.gate_stride = -1, "gate_stride", "-1");
    REFUSED_ACTIVATE(r.output_stride = 4, "output_stride", "4");
    REFUSED_ACTIVATE(r.output = memory + 1, "output", "overlap");
    REFUSED_ACTIVATE((r.output = memory, r.output_stride = 6), "output", "overlap");
    REFUSED_ACTIVATE(r.output = memory + 41, "output", "gate");
    REFUSED_ACTIVATE(r.output = memory + 22, "output", "bias");
    REFUSED_ACTIVATE((r.rows = 1, r.output = memory + 20, r.output_stride = 0), "output", "bias");
    REFUSED_ACTIVATE((r.rows = (int64_t)1 << 58, r.output_stride = 16), "output", "288230376151711744");
}
END_TEST

START_TEST(test_api_activate_accepts) {
    prepare();
    ACCEPTED_ACTIVATE((void)0);
    ACCEPTED_ACTIVATE((r.gate = NULL, r.residual = NULL, r.bias = NULL));
    ACCEPTED_ACTIVATE(r.output = memory);
    ACCEPTED_ACTIVATE(r.output = memory + 40);
    ACCEPTED_ACTIVATE(r.output = memory + 60);
    ACCEPTED_ACTIVATE((r.rows = 0, r.input = NULL, r.output = NULL));
    ACCEPTED_ACTIVATE((r.columns = 0, r.input = NULL, r.output = NULL));
    ACCEPTED_ACTIVATE((r.input_stride = r.gate_stride = 10, r.gate = memory + 5, r.bias = NULL, r.residual = NULL));
}
END_TEST

void add_activate_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_activate_refuses);
    tcase_add_test(tests, test_api_activate_accepts);
}
