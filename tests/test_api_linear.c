/* Bad requests of heed_linear and heed_pack_weights, and workspaces that do not do. */
#include "api_common.h"

#include <stdlib.h>

static struct heed_linear legal_linear(void) {
    return (struct heed_linear){.rows = 3,
                                .weights = {.outputs = 5, .inputs = 4, .data = memory + 20, .stride = 4, .bias = memory + 40},
                                .activation = HEED_GELU,
                                .input = {.data = memory, .token_stride = 4},
                                .gate = {.data = memory + 50, .token_stride = 5},
                                .residual = {.data = memory + 70, .token_stride = 5},
                                .output = {.data = memory + 100, .token_stride = 5}};
}

START_TEST(test_api_linear_refuses) {
    prepare();
    must_refuse(heed_linear(NULL, NULL), HEED_INVALID_ARGUMENT, "linear", "NULL", "NULL");
    ck_assert_int_eq(heed_linear_workspace_bytes(NULL, NULL), -1);
    REFUSED(linear, r.rows = -1, "rows", "-1");
    REFUSED(linear, r.weights.outputs = -1, "weights.outputs", "-1");
    REFUSED(linear, r.weights.inputs = -1, "weights.inputs", "-1");
    REFUSED(linear, r.weights.stride = 3, "weights.stride", "3");
    REFUSED(linear, r.weights.data = NULL, "weights.data", "NULL");
    REFUSED(linear, r.weights.type = (enum heed_type)6, "weights.type", "6");
    REFUSED(linear, r.weights.type = HEED_I8, "weights.scales", "NULL");
    REFUSED(linear, r.weights.scales = memory, "weights.scales", "NULL");
    REFUSED(linear, r.weights.type = HEED_Q8_0, "weights.inputs", "4");
    REFUSED(linear, r.weights.packed = misaligned(memory), "weights.packed", "align");
    REFUSED(linear, r.weights.bias = misaligned(memory), "weights.bias", "align");
    REFUSED(linear, r.weights.bias = memory + 114, "weights.bias", "overlap");
    REFUSED(linear, r.compute = (enum heed_compute)2, "compute", "2");
    REFUSED(linear, r.activation = (enum heed_activation)5, "activation", "5");
    REFUSED(linear, r.input.data = NULL, "input", "NULL");
    REFUSED(linear, r.input.token_stride = 3, "input.token_stride", "3");
    REFUSED(linear, r.input.type = HEED_I8, "input.type", "3");
    REFUSED(linear, r.gate.token_stride = -1, "gate.token_stride", "-1");
    REFUSED(linear, r.gate.type = HEED_Q4_0, "gate.type", "5");
    REFUSED(linear, r.gate.data = misaligned(memory), "gate", "align");
    REFUSED(linear, r.residual.data = memory + 96, "residual", "overlap");
    REFUSED(linear, (r.residual.data = memory + 100, r.residual.token_stride = 6), "residual", "overlap");
    REFUSED(linear, (r.residual.data = memory + 100, r.residual.type = HEED_BF16), "residual", "overlap");
    REFUSED(linear, r.output.data = NULL, "output", "NULL");
    REFUSED(linear, r.output.token_stride = 4, "output.token_stride", "4");
    REFUSED(linear, r.output.type = HEED_I8, "output.type", "3");
    REFUSED(linear, r.output.data = memory + 11, "output", "overlap");
    REFUSED(linear, r.rows = (int64_t)1 << 61, "output", "2305843009213693952");
}
END_TEST

START_TEST(test_api_linear_accepts) {
    prepare();
    ACCEPTED(linear, (void)0);
    ACCEPTED(linear, (r.weights.bias = NULL, r.gate.data = NULL, r.residual.data = NULL));
    ACCEPTED(linear, r.output.data = memory + 50);
    ACCEPTED(linear, r.output.data = memory + 70);
    ACCEPTED(linear, r.gate = r.residual);
    ACCEPTED(linear, r.residual.token_stride = 0);
    ACCEPTED(linear, (r.rows = 0, r.input.data = NULL, r.output.data = NULL));
    ACCEPTED(linear, (r.weights.outputs = 0, r.output.data = NULL, r.weights.data = NULL));
    ACCEPTED(linear, (r.weights.inputs = 0, r.input.data = NULL, r.weights.data = NULL));
}
END_TEST

START_TEST(test_api_pack_weights) {
    prepare();
    struct heed_weights w = legal_linear().weights;
    ck_assert_int_eq(heed_packed_bytes(NULL), -1);
    ck_assert_int_eq(heed_packed_bytes(&w), 64 * 4 * 4);
    must_refuse(heed_pack_weights(NULL, memory, NULL), HEED_INVALID_ARGUMENT, "weights", "NULL", "pack of NULL");
    must_refuse(heed_pack_weights(&w, NULL, NULL), HEED_INVALID_ARGUMENT, "weights.packed", "NULL", "pack to NULL");
    must_refuse(heed_pack_weights(&w, memory, NULL), HEED_INVALID_ARGUMENT, "weights.packed", "overlap", "pack onto itself");
    w.inputs = -1;
    ck_assert_int_eq(heed_packed_bytes(&w), -1);
    must_refuse(heed_pack_weights(&w, memory + 100, NULL), HEED_INVALID_ARGUMENT, "weights.inputs", "-1", "pack of -1 inputs");
}
END_TEST

/* A call that needs more than the stack has. */
START_TEST(test_api_workspace) {
    enum { SIZE = 200 };
    prepare();
    float *tensors = new_floats(3 * SIZE * SIZE);
    for (int i = 0; i < 3 * SIZE * SIZE; i++)
        tensors[i] = 1;
    struct heed_gemm gemm = {.m = SIZE, .n = SIZE, .k = SIZE, .alpha = 1, .transpose_a = true, .a = tensors, .lda = SIZE};
    gemm.b = tensors + SIZE * SIZE, gemm.ldb = SIZE;
    gemm.c = tensors + 2 * SIZE * SIZE, gemm.ldc = SIZE;
    const int64_t bytes = heed_gemm_workspace_bytes(&gemm, NULL);
    ck_assert_int_gt(bytes, 0);
    char *workspace = aligned_alloc(64, (size_t)(bytes + 64));
    struct heed_exec exec = {.workspace = workspace, .workspace_bytes = bytes};
    ck_assert_int_eq(heed_gemm(&gemm, &exec), HEED_OK);
    exec.workspace_bytes = bytes - 1;
    must_refuse(heed_gemm(&gemm, &exec), HEED_INVALID_ARGUMENT, "exec.workspace", "bytes", "one byte too few");
    exec = (struct heed_exec){.workspace = workspace + 4, .workspace_bytes = bytes};
    must_refuse(heed_gemm(&gemm, &exec), HEED_INVALID_ARGUMENT, "exec.workspace", "align", "misaligned workspace");
    gemm.m = -1;
    ck_assert_int_eq(heed_gemm_workspace_bytes(&gemm, NULL), -1);
    free(workspace);
    free(tensors);
}
END_TEST

void add_linear_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_linear_refuses);
    tcase_add_test(tests, test_api_linear_accepts);
    tcase_add_test(tests, test_api_pack_weights);
    tcase_add_test(tests, test_api_workspace);
}
