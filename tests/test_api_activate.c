/* Bad requests of heed_activate. */
#include "api_common.h"

static struct heed_activate legal_activate(void) {
    return (struct heed_activate){.rows = 3,
                                  .columns = 5,
                                  .activation = HEED_SILU,
                                  .input = {.data = memory, .token_stride = 5},
                                  .bias = memory + 20,
                                  .gate = {.data = memory + 40, .token_stride = 5},
                                  .residual = {.data = memory + 60, .token_stride = 5},
                                  .output = {.data = memory + 100, .token_stride = 5}};
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
    REFUSED_ACTIVATE(r.input.data = NULL, "input", "NULL");
    REFUSED_ACTIVATE(r.output.data = NULL, "output", "NULL");
    REFUSED_ACTIVATE(r.gate.data = misaligned(memory), "gate", "align");
    REFUSED_ACTIVATE(r.residual.data = misaligned(memory), "residual", "align");
    REFUSED_ACTIVATE(r.bias = misaligned(memory), "bias", "align");
    REFUSED_ACTIVATE(r.input.type = HEED_I8, "input.type", "3");
    REFUSED_ACTIVATE(r.gate.type = HEED_Q4_0, "gate.type", "5");
    REFUSED_ACTIVATE(r.output.type = (enum heed_type)12, "output.type", "12");
    REFUSED_ACTIVATE((r.output.data = memory, r.output.type = HEED_F16), "output", "overlap");
    REFUSED_ACTIVATE(r.gate.token_stride = -1, "gate.token_stride", "-1");
    REFUSED_ACTIVATE(r.output.token_stride = 4, "output.token_stride", "4");
    REFUSED_ACTIVATE(r.output.data = memory + 1, "output", "overlap");
    REFUSED_ACTIVATE((r.output.data = memory, r.output.token_stride = 6), "output", "overlap");
    REFUSED_ACTIVATE(r.output.data = memory + 41, "output", "gate");
    REFUSED_ACTIVATE(r.output.data = memory + 22, "output", "bias");
    REFUSED_ACTIVATE((r.rows = 1, r.output.data = memory + 20, r.output.token_stride = 0), "output", "bias");
    REFUSED_ACTIVATE((r.rows = (int64_t)1 << 58, r.output.token_stride = 16), "output", "288230376151711744");
}
END_TEST

START_TEST(test_api_activate_accepts) {
    prepare();
    ACCEPTED_ACTIVATE((void)0);
    ACCEPTED_ACTIVATE((r.gate.data = NULL, r.residual.data = NULL, r.bias = NULL));
    ACCEPTED_ACTIVATE(r.output.data = memory);
    ACCEPTED_ACTIVATE((r.gate.type = r.output.type = HEED_BF16, r.residual.type = HEED_F16, r.output.data = memory + 40));
    ACCEPTED_ACTIVATE(r.output.data = memory + 40);
    ACCEPTED_ACTIVATE(r.output.data = memory + 60);
    ACCEPTED_ACTIVATE((r.rows = 0, r.input.data = NULL, r.output.data = NULL));
    ACCEPTED_ACTIVATE((r.columns = 0, r.input.data = NULL, r.output.data = NULL));
    ACCEPTED_ACTIVATE(
        (r.input.token_stride = r.gate.token_stride = 10, r.gate.data = memory + 5, r.bias = NULL, r.residual.data = NULL));
}
END_TEST

void add_activate_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_activate_refuses);
    tcase_add_test(tests, test_api_activate_accepts);
}
