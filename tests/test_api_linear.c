/* Bad requests of heed_linear, heed_pack_weights, heed_convert and heed_attention_layer, and workspaces that do not do. */
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
    REFUSED(linear, r.compute = (enum heed_compute)3, "compute", "3");
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
    REFUSED(linear, r.output.token_stride = 0, "output.token_stride", "0");
    REFUSED(linear, r.output.type = HEED_I8, "output.type", "3");
    REFUSED(linear, r.output.data = memory + 11, "output", "overlap");
    REFUSED(linear, r.rows = (int64_t)1 << 61, "output", "2305843009213693952");
}
END_TEST

/* The second of three is wrong, alone or beside others. */
static void must_refuse_group(struct heed_linear second, const char *field, const char *value) {
    struct heed_linear linears[] = {legal_linear(), second, legal_linear()};
    linears[0].output.data = memory + 120, linears[2].output.data = memory + 140;
    must_refuse(heed_linear_group(linears, 3, NULL), HEED_INVALID_ARGUMENT, "linears[1]", field, value);
    ck_assert_int_eq(heed_linear_group_workspace_bytes(linears, 3, NULL), -1);
}

START_TEST(test_api_linear_group) {
    prepare();
    struct heed_linear bad = legal_linear();
    must_refuse(heed_linear_group(NULL, 1, NULL), HEED_INVALID_ARGUMENT, "linears", "NULL", "count is 1");
    must_refuse(heed_linear_group(&bad, -2, NULL), HEED_INVALID_ARGUMENT, "count", "-2", "at least 0");
    ck_assert_int_eq(heed_linear_group(NULL, 0, NULL), HEED_OK);
    bad.rows = -1;
    must_refuse_group(bad, "rows", "-1");
    bad = legal_linear(), bad.weights.data = NULL;
    must_refuse_group(bad, "weights.data", "NULL");
    bad = legal_linear(), bad.output.data = memory + 121;
    must_refuse_group(bad, "output", "overlaps output");
    bad = legal_linear(), bad.input.data = memory + 150;
    must_refuse_group(bad, "overlaps input", "linears[2]");
    bad = legal_linear(), bad.gate.data = memory + 120;
    must_refuse_group(bad, "overlaps gate", "linears[0]");
    bad = legal_linear(), bad.weights.bias = memory + 119, bad.output.data = memory + 100;
    must_refuse_group(bad, "overlaps weights.bias", "linears[0]");
    bad = legal_linear(), bad.weights.data = memory + 110, bad.output.data = memory + 160;
    must_refuse_group(bad, "overlaps weights.data", "linears[0]");
    struct heed_linear columns[] = {legal_linear(), legal_linear()}; /* of one matrix of outputs */
    columns[0].output.token_stride = columns[1].output.token_stride = 10;
    columns[1].output.data = memory + 105;
    ck_assert_msg(heed_linear_group(columns, 2, NULL) == HEED_OK, "%s", heed_error_message());
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
    ACCEPTED(linear, (r.rows = 1, r.input.token_stride = 0, r.output.token_stride = 0));
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
    must_refuse(heed_pack_weights(&w, NULL, NULL), HEED_INVALID_ARGUMENT, "packed", "NULL", "pack to NULL");
    must_refuse(heed_pack_weights(&w, memory, NULL), HEED_INVALID_ARGUMENT, "packed", "overlap", "pack onto itself");
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

/* Two sequences of 3 tokens, 2 heads on 1, from 6 columns to 6. */
static struct heed_attention_layer legal_attention_layer(void) {
    struct heed_attention_layer r = {
        .qkv = {.outputs = 2 * 4 + 4 + 3, .inputs = 6, .data = memory, .stride = 6, .bias = memory + 340},
        .out = {.outputs = 6, .inputs = 6, .data = memory + 96, .stride = 6},
        .input = {.data = memory + 140, .token_stride = 6},
        .residual = {.data = memory + 180, .token_stride = 6},
        .output = {.data = memory + 220, .token_stride = 6}};
    r.attention.batch = 2, r.attention.query_tokens = 3;
    r.attention.num_heads = 2, r.attention.num_kv_heads = 1;
    r.attention.head_dim = 4, r.attention.value_dim = 3;
    return r;
}

static struct heed_attention_layer cached_attention_layer(void) {
    struct heed_attention_layer r = legal_attention_layer();
    cache.num_kv_heads = 1, cache.value_dim = 3;
    r.attention.cache = &cache;
    r.attention.key_tokens = 3;
    return r;
}
static const int64_t seconds[] = {1, 1};
#define legal_cached_layer cached_attention_layer
#define heed_cached_layer  heed_attention_layer

START_TEST(test_api_attention_layer_refuses) {
    prepare();
    must_refuse(heed_attention_layer(NULL, NULL), HEED_INVALID_ARGUMENT, "layer", "NULL", "NULL");
    ck_assert_int_eq(heed_attention_layer_workspace_bytes(NULL, NULL), -1);
    must_refuse(heed_attention_layer(&(struct heed_attention_layer){0}, &(struct heed_exec){.threads = -1}), HEED_INVALID_ARGUMENT,
                "exec.threads", "-1", "exec");
    REFUSED(attention_layer, r.attention.batch = -1, "attention: batch", "-1");
    REFUSED(attention_layer, r.attention.head_dim = 0, "attention: head_dim", "0");
    REFUSED(attention_layer, r.attention.query_tokens = INT64_MAX / 2, "query_tokens", "4611686018427387903");
    REFUSED(attention_layer, r.attention.softcap = -1, "attention: softcap", "-1");
    REFUSED(attention_layer, r.attention.lse = ((struct heed_output){memory + 400, 6, 3, 1, HEED_F32}), "attention: weights, lse",
            "NULL");
    REFUSED(attention_layer, (r.attention.query_starts = numbers.key_starts, r.attention.query_tokens = 6),
            "attention: query_starts go", "5");
    REFUSED(attention_layer, r.rope.pairs = 3, "rope.pairs", "3");
    REFUSED(attention_layer, (r.head_norm.query_gain = memory + 400, r.head_norm.epsilon = -1), "head_norm: epsilon", "-1");
    REFUSED(attention_layer, r.head_norm.key_gain = misaligned(memory), "head_norm: gain", "align");
    REFUSED(attention_layer, r.head_norm.key_gain = memory + 222, "output", "head_norm.key_gain");
    REFUSED(attention_layer, r.qkv.outputs = 16, "qkv.outputs", "15");
    REFUSED(attention_layer, r.out.inputs = 5, "out.inputs", "6");
    REFUSED(attention_layer, r.value.outputs = 3, "qkv.outputs", "12");
    REFUSED(attention_layer, (r.qkv.outputs = 12, r.value.outputs = -1), "value.outputs", "3");
    REFUSED(attention_layer, (r.qkv.outputs = 12, r.value.outputs = 3, r.value.inputs = 5), "value.inputs", "6");
    REFUSED(attention_layer, (r.qkv.outputs = 12, r.value.outputs = 3, r.value.inputs = 6), "value: weights.stride", "6");
    REFUSED(attention_layer,
            (r.qkv.outputs = 12, r.value = (struct heed_weights){.outputs = 3, .inputs = 6, .data = memory + 225, .stride = 6}),
            "output", "weights.data");
    REFUSED(attention_layer, r.qkv.stride = 5, "qkv: weights.stride", "5");
    REFUSED(attention_layer, r.out.data = NULL, "out: weights.data", "NULL");
    REFUSED(attention_layer, r.input.data = NULL, "qkv: input", "NULL");
    REFUSED(attention_layer, r.output.token_stride = 5, "out: output.token_stride", "5");
    REFUSED(attention_layer, r.residual.data = memory + 219, "out: output", "residual");
    REFUSED(attention_layer, r.attention.batch = 8, "out: ", "overlap");
    REFUSED(attention_layer,
            (r.rope = (struct heed_rope_tables){1, memory + 230, memory + 400, 1, 3, false}, r.output.data = memory + 220),
            "output", "rope.cos");
    REFUSED(attention_layer, r.output.data = memory + 60, "output", "weights.data");
    REFUSED(attention_layer, r.output.data = memory + 330, "output", "weights.bias");
    REFUSED(attention_layer, r.attention.mask.data = (const uint8_t *)(memory + 221), "output", "mask");
    REFUSED(attention_layer, r.attention.alibi_slopes = memory + 250, "output", "alibi_slopes");
    REFUSED(cached_layer, r.attention.key_tokens = 2, "attention: key_tokens", "2");
    REFUSED(cached_layer, (r.attention.causal = true, r.positions = seconds, r.attention.key_tokens = 4), "attention: alignment",
            "positions say 1");
    REFUSED(cached_layer, (r.attention.causal = true, r.attention.alignment = HEED_ALIGN_BOTTOM_RIGHT, r.attention.key_tokens = 4),
            "attention: alignment", "position 1");
    REFUSED(cached_layer, cache.num_kv_heads = 2, "attention: cache.num_kv_heads", "2");
    REFUSED(cached_layer, r.input.data = cache.data, "cache", "input");
    REFUSED(cached_layer, r.output.data = cache.data, "cache", "output");
    REFUSED(cached_layer, r.attention.sinks = cache.data, "cache.data", "sinks");
    REFUSED(cached_layer, r.out.data = cache.data, "cache.data", "weights.data");
}
END_TEST

START_TEST(test_api_attention_layer_accepts) {
    prepare();
    ACCEPTED(attention_layer, (void)0);
    ACCEPTED(attention_layer, r.output.data = memory + 140);
    ACCEPTED(attention_layer, (r.attention.batch = 0, r.output.data = NULL, r.input.data = NULL));
    ACCEPTED(attention_layer, r.attention.query_tokens = 0);
    ACCEPTED(cached_layer, (void)0);
    ACCEPTED(cached_layer, r.attention.key_tokens = 4);
    ACCEPTED(cached_layer, (r.attention.causal = true, r.attention.key_tokens = 4, r.positions = seconds,
                            r.attention.alignment = HEED_ALIGN_BOTTOM_RIGHT));
}
END_TEST

static float row_scales[3];
static struct heed_convert legal_convert(void) {
    return (struct heed_convert){.rows = 3,
                                 .columns = 32,
                                 .input = {.data = memory, .token_stride = 32},
                                 .output = {.data = memory + 96, .token_stride = 32, .type = HEED_I8},
                                 .scales = row_scales};
}

START_TEST(test_api_type_bytes) {
    static const int64_t bytes_of_256[] = {1024, 512, 512, 256, 272, 144, 144, 176, 210, 176, 144, 136};
    for (int type = HEED_F32; type <= HEED_MXFP4; type++) {
        ck_assert_int_eq(heed_type_bytes((enum heed_type)type, 256), bytes_of_256[type]);
        ck_assert_int_eq(heed_type_bytes((enum heed_type)type, 0), 0);
        ck_assert_int_eq(heed_type_bytes((enum heed_type)type, -256), -1);
        ck_assert_int_eq(heed_type_bytes((enum heed_type)type, INT64_MAX - 255), -1);
    }
    ck_assert_int_eq(heed_type_bytes(HEED_Q4_K, 32), -1);
    ck_assert_ptr_nonnull(strstr(heed_error_message(), "elements is 32, must be a multiple of 256"));
    ck_assert_int_eq(heed_type_bytes((enum heed_type)12, 32), -1);
    ck_assert_ptr_nonnull(strstr(heed_error_message(), "type is 12"));
}
END_TEST

START_TEST(test_api_convert) {
    prepare();
    must_refuse(heed_convert(NULL, NULL), HEED_INVALID_ARGUMENT, "convert", "NULL", "NULL");
    REFUSED(convert, r.rows = -1, "rows", "-1");
    REFUSED(convert, r.columns = -1, "columns", "-1");
    REFUSED(convert, r.input.type = HEED_I8, "input.type", "3");
    REFUSED(convert, r.input.type = (enum heed_type)12, "input.type", "12");
    REFUSED(convert, r.input.type = HEED_Q4_K, "columns", "256");
    REFUSED(convert, (r.input.type = HEED_Q8_0, r.columns = 31), "columns", "input.type q8_0");
    REFUSED(convert, (r.input.type = HEED_Q4_0, r.input.token_stride = 33), "input.token_stride", "33");
    REFUSED(convert, (r.input.type = HEED_Q5_0, r.columns = 31), "columns", "input.type q5_0");
    REFUSED(convert, r.output.type = HEED_Q4_K, "output.type", "6");
    REFUSED(convert, r.scales = NULL, "scales", "NULL");
    REFUSED(convert, r.output.type = HEED_BF16, "scales", "bf16");
    REFUSED(convert, (r.output.type = HEED_Q8_0, r.scales = NULL, r.columns = 31), "columns", "31");
    REFUSED(convert, (r.output.type = HEED_Q4_0, r.scales = NULL, r.output.token_stride = 33), "output.token_stride", "33");
    REFUSED(convert, r.output.token_stride = 31, "output.token_stride", "31");
    REFUSED(convert, r.input.token_stride = -1, "input.token_stride", "-1");
    REFUSED(convert, r.input.data = NULL, "input", "NULL");
    REFUSED(convert, r.output.data = NULL, "output", "NULL");
    REFUSED(convert, r.output.data = memory + 95, "output", "overlap");
    REFUSED(convert, r.scales = memory + 95, "scales", "overlap");
    REFUSED(convert, r.scales = memory + 96, "scales", "overlap");
    REFUSED(convert, r.input.data = misaligned(memory), "input", "align");
    REFUSED(convert, r.rows = (int64_t)1 << 58, "input", "288230376151711744");
    ACCEPTED(convert, (void)0);
    ACCEPTED(convert, (r.rows = 0, r.input.data = NULL, r.output.data = NULL, r.scales = NULL));
    ACCEPTED(convert, (r.rows = 1, r.output.token_stride = 0));
    ACCEPTED(convert, r.input.type = HEED_Q8_0);
    ACCEPTED(convert, (r.input.type = HEED_Q4_0, r.rows = 1, r.input.token_stride = 1));
    ACCEPTED(convert, (r.output.type = HEED_Q8_0, r.scales = NULL, r.rows = 1, r.output.token_stride = 1));
    ACCEPTED(convert, (r.output.type = HEED_Q5_0, r.scales = NULL, r.rows = 1, r.output.token_stride = 1));
}
END_TEST

void add_linear_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_type_bytes);
    tcase_add_test(tests, test_api_convert);
    tcase_add_test(tests, test_api_linear_refuses);
    tcase_add_test(tests, test_api_linear_group);
    tcase_add_test(tests, test_api_linear_accepts);
    tcase_add_test(tests, test_api_pack_weights);
    tcase_add_test(tests, test_api_workspace);
    tcase_add_test(tests, test_api_attention_layer_refuses);
    tcase_add_test(tests, test_api_attention_layer_accepts);
}
