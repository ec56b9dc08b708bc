/* The float cases of PyTorch's CPU tests of scaled_dot_product_attention (test/test_transformers.py): their shapes, layouts and
 * masks.  PyTorch compares its fused with its plain attention; here heed's oracle stands for the plain one. */
#include "conformance.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Query, key and value of their own, all [batch, heads, tokens, width], the value as wide as the key. */
struct own {
    struct heed_attention request;
    float *query, *key, *value;
};

static struct own own_tensors(struct rng *rng, int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t width) {
    struct own own = {.query = new_filled(rng, FILL_NORMAL, batch * heads * queries * width),
                      .key = new_filled(rng, FILL_NORMAL, batch * heads * keys * width),
                      .value = new_filled(rng, FILL_NORMAL, batch * heads * keys * width)};
    own.request = (struct heed_attention){.batch = batch, .num_heads = heads, .num_kv_heads = heads, .query_tokens = queries};
    own.request.key_tokens = keys;
    own.request.head_dim = own.request.value_dim = width;
    own.request.query = (struct heed_input){own.query, heads * queries * width, queries * width, width, HEED_F32};
    own.request.key = (struct heed_input){own.key, heads * keys * width, keys * width, width, HEED_F32};
    own.request.value = (struct heed_input){own.value, heads * keys * width, keys * width, width, HEED_F32};
    return own;
}

static void own_free(struct own *own) {
    free(own->query);
    free(own->key);
    free(own->value);
}

/* test_scaled_dot_product_fused_attention_vs_math_cpu: one tensor [batch, tokens, 3 * heads * width] holds query, key and value. */
START_TEST(test_pytorch_packed) {
    static const int64_t batches[] = {2, 12}, lengths[] = {267, 1030}, heads[] = {1, 3}, widths[] = {8, 16};
    struct conformance set = {.name = "pytorch packed"};
    for (int i = 0; i < 32; i++) {
        int64_t batch = batches[i & 1], tokens = lengths[i >> 1 & 1], h = heads[i >> 2 & 1], width = widths[i >> 3 & 1],
                n = h * width;
        struct rng rng = rng_fixed("pytorch packed");
        float *qkv = new_filled(&rng, FILL_NORMAL, batch * tokens * 3 * n);
        struct heed_attention a = {.batch = batch, .num_heads = h, .num_kv_heads = h, .query_tokens = tokens, .key_tokens = tokens};
        a.head_dim = a.value_dim = width;
        a.causal = i >> 4 & 1;
        a.query = (struct heed_input){qkv, tokens * 3 * n, width, 3 * n, HEED_F32};
        a.key = (struct heed_input){qkv + n, tokens * 3 * n, width, 3 * n, HEED_F32};
        a.value = (struct heed_input){qkv + 2 * n, tokens * 3 * n, width, 3 * n, HEED_F32};
        describe("pytorch", "best", "packed B%d S%d H%d D%d%s", (int)batch, (int)tokens, (int)h, (int)width,
                 a.causal ? " causal" : "");
        check_conformance(&a, &set);
        free(qkv);
    }
    print_conformance(&set);
}
END_TEST

/* ..._mask_vs_math_cpu: masks of every shape {B, 1} x {H, 1} x {queries, 1} x {keys, 1}, which has those of rank 2 in it, boolean
 * and added; and, beyond PyTorch, together with causal, which PyTorch refuses. */
START_TEST(test_pytorch_masks) {
    enum { B = 2, H = 3, Q = 267, K = 514 };
    struct conformance set = {.name = "pytorch masks"};
    struct rng rng = rng_fixed("pytorch masks");
    struct own own = own_tensors(&rng, B, H, Q, K, 8);
    float *bias = new_filled(&rng, FILL_NORMAL, B * H * Q * K);
    uint8_t *mask = malloc(B * H * Q * K);
    for (int64_t i = 0; i < B * H * Q * K; i++)
        mask[i] = rng_next(&rng) & 1;
    for (int i = 0; i < 64; i += test_quick() ? 21 : 1) {
        const int64_t size[] = {i & 1 ? B : 1, i & 2 ? H : 1, i & 4 ? Q : 1, i & 8 ? K : 1};
        int64_t stride[4], step = 1;
        for (int d = 3; d >= 0; step *= size[d--])
            stride[d] = size[d] > 1 ? step : 0;
        struct heed_attention a = own.request;
        a.causal = i & 32;
        if (i & 16)
            a.mask = (struct heed_mask){mask, stride[0], stride[1], stride[2], stride[3]};
        else
            a.bias = (struct heed_bias){bias, stride[0], stride[1], stride[2], stride[3]};
        describe("pytorch", "best", "%s mask %d x %d x %d x %d%s", i & 16 ? "boolean" : "float", (int)size[0], (int)size[1],
                 (int)size[2], (int)size[3], a.causal ? ", causal" : "");
        check_conformance(&a, &set);
    }
    print_conformance(&set);
    own_free(&own);
    free(bias);
    free(mask);
}
END_TEST

/* ..._with_inf: a band of 10 keys before and at the query in an added mask, so that whole tiles of a row hold -inf only.  The same
 * band as a window. */
START_TEST(test_pytorch_band) {
    enum { N = 600 };
    struct conformance set = {.name = "pytorch band"};
    struct rng rng = rng_fixed("pytorch band");
    struct own own = own_tensors(&rng, 1, 2, N, N, 8);
    float *bias = new_floats(N * N);
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++)
            bias[i * N + j] = j > i || j < i - 9 ? -INFINITY : 0;
    describe("pytorch", "best", "band of a mask");
    struct heed_attention masked = own.request, windowed = own.request;
    masked.bias = (struct heed_bias){bias, 0, 0, N, 1};
    check_conformance(&masked, &set);
    describe("pytorch", "best", "band of a window");
    windowed.window = (struct heed_window){true, 9, 0};
    check_conformance(&windowed, &set);
    print_conformance(&set);
    own_free(&own);
    free(bias);
}
END_TEST

/* ..._math_with_negative_scale: a softmax that is all but one-hot, at the smallest score. */
START_TEST(test_pytorch_negative_scale) {
    struct conformance set = {.name = "pytorch negative scale"};
    struct rng rng = rng_fixed("pytorch negative scale");
    struct own own = own_tensors(&rng, 1, 3, 64, 64, 64);
    static const float scales[] = {-1.0f / 0.0001f, -0.0001f, -0.125f};
    memcpy(own.key, own.query, sizeof(float) * 3 * 64 * 64);
    memcpy(own.value, own.query, sizeof(float) * 3 * 64 * 64);
    for (int i = 0; i < 3; i++) {
        own.request.scale = scales[i];
        describe("pytorch", "best", "scale %g", (double)scales[i]);
        check_conformance(&own.request, &set);
    }
    print_conformance(&set);
    own_free(&own);
}
END_TEST

/* test_fully_masked_out_rows: every fourth query sees nothing, the others the keys of their number modulo 5. */
START_TEST(test_pytorch_masked_rows) {
    struct conformance set = {.name = "pytorch masked rows"};
    for (int repeat = 0; repeat < 4; repeat++) {
        const int64_t n = repeat & 1 ? 300 : 64, width = repeat & 2 ? 64 : 8;
        struct rng rng = rng_fixed("pytorch masked rows");
        struct own own = own_tensors(&rng, 1, 1, n, n, width);
        uint8_t *mask = malloc((size_t)(n * n));
        for (int64_t i = 0; i < n * n; i++)
            mask[i] = i / n % 4 != 0 && i / n % 5 == i % n % 5;
        own.request.mask = (struct heed_mask){mask, 0, 0, n, 1};
        describe("pytorch", "best", "masked rows, %d tokens of width %d", (int)n, (int)width);
        check_conformance(&own.request, &set);
        free(mask);
        own_free(&own);
    }
    print_conformance(&set);
}
END_TEST

/* TestAttnMasks: causal from the upper left and to the lower right; where queries outnumber keys, the latter leaves rows empty. */
START_TEST(test_pytorch_causal_variants) {
    static const int64_t shapes[][5] = {{16, 16, 128, 128, 16}, {16, 16, 128, 256, 32}, {16, 16, 256, 128, 32}, {1, 1, 23, 56, 15}};
    struct conformance set = {.name = "pytorch causal"};
    for (int i = 0; i < 8; i++) {
        const int64_t *s = shapes[i / 2];
        struct rng rng = rng_fixed("pytorch causal");
        struct own own = own_tensors(&rng, s[0], s[1], s[2], s[3], s[4]);
        own.request.causal = true;
        own.request.alignment = i % 2 ? HEED_ALIGN_BOTTOM_RIGHT : HEED_ALIGN_TOP_LEFT;
        describe("pytorch", "best", "causal to the %s, %d x %d", i % 2 ? "lower right" : "upper left", (int)s[2], (int)s[3]);
        check_conformance(&own.request, &set);
        own_free(&own);
    }
    print_conformance(&set);
}
END_TEST

/* test_mem_eff_attention_non_contig_mask_bug: 16 heads share keys and values through strides of 0, in one tensor, and a mask per
 * batch; and the same as multi-query attention. */
START_TEST(test_pytorch_strides) {
    struct conformance set = {.name = "pytorch strides"};
    struct rng rng = rng_fixed("pytorch strides");
    float *query = new_filled(&rng, FILL_NORMAL, 3 * 2304), *kv = new_filled(&rng, FILL_NORMAL, 3 * 3584);
    float *bias = new_filled(&rng, FILL_NORMAL, 3 * 14);
    struct heed_attention a = {
        .batch = 3, .num_heads = 16, .num_kv_heads = 16, .query_tokens = 1, .key_tokens = 14, .head_dim = 128};
    a.value_dim = 128;
    a.query = (struct heed_input){query, 2304, 128, 2048, HEED_F32};
    a.key = (struct heed_input){kv, 3584, 0, 256, HEED_F32};
    a.value = (struct heed_input){kv + 128, 3584, 0, 256, HEED_F32};
    a.bias = (struct heed_bias){bias, 14, 0, 0, 1};
    describe("pytorch", "best", "heads that share keys by strides");
    check_conformance(&a, &set);
    describe("pytorch", "best", "heads that share keys by number");
    a.num_kv_heads = 1;
    check_conformance(&a, &set);
    print_conformance(&set);
    free(query);
    free(kv);
    free(bias);
}
END_TEST

TCase *conformance_pytorch(void) {
    TCase *tests = tcase_create("pytorch");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_pytorch_packed);
    tcase_add_test(tests, test_pytorch_masks);
    tcase_add_test(tests, test_pytorch_band);
    tcase_add_test(tests, test_pytorch_negative_scale);
    tcase_add_test(tests, test_pytorch_masked_rows);
    tcase_add_test(tests, test_pytorch_causal_variants);
    tcase_add_test(tests, test_pytorch_strides);
    return tests;
}
