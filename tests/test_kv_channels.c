/* Scales of the channels of keys: attention over a cache that has them is that over one filled with divided keys, its queries
 * multiplied, bit for bit; near the oracle's; and with powers of two, that over a cache without.  That heed_kv_append divides is
 * tested with all else that it stores. */
#include "harness_bounds.h"
#include "harness_kv.h"
#include "harness_options.h"
#include "internal.h"
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a query or of keys, one at a time. */
static void change_rows(const struct heed_input *view, bool packed, const int64_t size[3],
                        void (*change)(float *row, int64_t head, const void *context), const void *context) {
    for (int64_t b = 0; b < (packed ? 1 : size[0]); b++)
        for (int64_t h = 0; h < size[1]; h++)
            for (int64_t t = 0; t < size[2]; t++)
                change(values_of(view) + b * view->batch_stride + h * view->head_stride + t * view->token_stride, h, context);
}

struct channels {
    const struct heed_attention *request;
    const float *scales;
};

static void divide_key(float *row, int64_t head, const void *context) {
    const struct channels *c = context;
    for (int64_t d = 0; d < c->request->head_dim; d++)
        row[d] /= c->scales[head * c->request->head_dim + d];
}

/* Where products are of bf16, denormals are 0 before anything is done to them. */
static void multiply_query(float *row, int64_t head, const void *context) {
    const struct channels *c = context;
    const struct heed_attention *r = c->request;
    const float *scales = c->scales + head / (r->num_heads / r->num_kv_heads) * r->head_dim;
    for (int64_t d = 0; d < r->head_dim; d++) {
        const bool is_zero = rounds_to_bf16(r->compute) && fabsf(row[d]) < 0x1p-126f;
        row[d] = is_zero ? 0.0f : row[d] * scales[d];
    }
}

/* The case as one without scales; its query is then one of floats. */
static void apply_scales(struct attention_case *c, const float *scales) {
    const struct heed_attention *r = &c->request;
    const struct channels channels = {r, scales};
    change_rows(&r->key, r->key_starts, (int64_t[]){r->batch, r->num_kv_heads, r->key_tokens}, divide_key, &channels);
    change_rows(&r->query, r->query_starts, (int64_t[]){r->batch, r->num_heads, r->query_tokens}, multiply_query, &channels);
    c->types.query = HEED_F32;
}

static struct attention_way any_cached_way(const struct choice *choice) {
    struct attention_way way = way_of(choice);
    if (way.cache == CACHE_NONE)
        way.cache = CACHE_LINEAR;
    return way;
}

static struct attention_result run_with(const struct attention_case *c, struct attention_way way, const float *scales,
                                        struct rng *rng) {
    struct attention_result result = new_attention_result(c);
    way.key_channel_scales = scales;
    describe_attention(c, scales ? "scales of channels" : "without scales of channels", &way.exec);
    run_attention_way(c, &way, rng, &result);
    return result;
}

static void must_be_same(const struct attention_case *c, struct attention_result got, struct attention_result want) {
    describe_attention(c, "scales of channels, with and without", &(struct heed_exec){0});
    must_equal_attention(c, &got, &want);
    free_attention_result(&got);
    free_attention_result(&want);
}

START_TEST(test_channels_as_if_divided) {
    struct rng rng = rng_for("channels as if divided", _i);
    for (int64_t repeat = 0; repeat < test_count(60); repeat++) {
        struct choice choice = random_choice(&rng), other = random_choice(&rng);
        choice.level[OPT_ISA] = _i;
        struct attention_case c = case_of(&choice, 400000, &rng);
        float *scales = new_channel_scales(&rng, c.request.num_kv_heads * c.request.head_dim, false);
        const struct attention_result got = run_with(&c, any_cached_way(&choice), scales, &rng);
        apply_scales(&c, scales);
        must_be_same(&c, got, run_with(&c, any_cached_way(&other), NULL, &rng));
        free(scales);
        free_attention_case(&c);
    }
}
END_TEST

/* f16 holds fewer bits of what is small, and int8 other integers. */
START_TEST(test_channels_of_powers) {
    struct rng rng = rng_for("channels of powers", _i);
    for (int64_t repeat = 0; repeat < test_count(30); repeat++) {
        struct choice choice = random_choice(&rng);
        choice.level[OPT_ISA] = _i;
        choice.level[OPT_FILL] = FILLS_NORMAL;
        choice.level[OPT_KEY_TYPE] = (int)rng_range(&rng, HEED_F32, HEED_BF16);
        struct attention_case c = case_of(&choice, 400000, &rng);
        const int64_t n = c.request.num_kv_heads * c.request.head_dim;
        float *scales = new_floats(n);
        for (int64_t i = 0; i < n; i++)
            scales[i] = ldexpf(1, (int)rng_range(&rng, -20, 20));
        const struct attention_result got = run_with(&c, any_cached_way(&choice), scales, &rng);
        must_be_same(&c, got, run_with(&c, any_cached_way(&choice), NULL, &rng));
        free(scales);
        free_attention_case(&c);
    }
}
END_TEST

START_TEST(test_channels_accuracy) {
    struct rng rng = rng_for("channels accuracy", _i);
    struct attention_accuracy accuracy = {.part = {[OUTPUT] = {.typical = true}}};
    for (int64_t repeat = 0; repeat < test_count(30); repeat++) {
        struct choice choice = random_choice(&rng);
        choice.level[OPT_ISA] = _i;
        choice.level[OPT_FILL] = FILLS_NORMAL;
        choice.level[OPT_KEY_TYPE] = choice.level[OPT_OUTPUT_TYPE] = HEED_F32;
        choice.level[OPT_COMPUTE] = HEED_COMPUTE_F32;
        struct attention_case c = case_of(&choice, 400000, &rng);
        float *scales = new_channel_scales(&rng, c.request.num_kv_heads * c.request.head_dim, false);
        struct attention_result got = run_with(&c, any_cached_way(&choice), scales, &rng);
        accuracy.key_channel_scales = scales;
        check_attention(&c, &got, &accuracy);
        free_attention_result(&got);
        free(scales);
        free_attention_case(&c);
    }
    accuracy_print(&accuracy.part[OUTPUT], "channels", heed_kernels_usable(_i)->name);
}
END_TEST

/* An append of one token to a cache of one head, whose memory must stay as it is. */
static void must_refuse_append(const float *scales, float *data, const char *message) {
    static const float x[3] = {1, 2, 3};
    const struct heed_kv_cache cache = {.data = data,
                                        .num_pages = 1,
                                        .page_tokens = 16,
                                        .num_kv_heads = 1,
                                        .head_dim = 3,
                                        .value_dim = 3,
                                        .pages_per_sequence = 1,
                                        .key_channel_scales = scales};
    const struct heed_kv_append append = {.batch = 1, .tokens = 1, .key = {.data = x}, .value = {.data = x}, .cache = &cache};
    const uint64_t before = hash_floats(data, heed_kv_page_bytes(&cache) / 4);
    ck_assert_int_eq(heed_kv_append(&append, NULL), HEED_INVALID_ARGUMENT);
    ck_assert_msg(strncmp(heed_error_message(), message, strlen(message)) == 0, "%s", heed_error_message());
    ck_assert(hash_floats(data, heed_kv_page_bytes(&cache) / 4) == before);
}

START_TEST(test_channels_append_refuses) {
    static float data[16 * (3 + 16) + 3];
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = 1;
    must_refuse_append((const float[]){1, 0, 1}, data, "cache.key_channel_scales[1] is 0, must be finite and more than 0");
    must_refuse_append((const float[]){1, 1, NAN}, data, "cache.key_channel_scales[2] is nan");
    must_refuse_append((const float[]){-INFINITY, 1, 1}, data, "cache.key_channel_scales[0] is -inf");
    must_refuse_append((const float *)(const void *)((const char *)data + 1), data, "cache.key_channel_scales is");
    must_refuse_append(data + 16 * (3 + 16) - 1, data, "cache.data (at");
}
END_TEST

Suite *kv_channels_suite(void) {
    Suite *suite = suite_create("kv_channels");
    TCase *tests = tcase_create("kv_channels");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_channels_as_if_divided, 0, usable_tables());
    tcase_add_loop_test(tests, test_channels_of_powers, 0, usable_tables());
    tcase_add_loop_test(tests, test_channels_accuracy, 0, usable_tables());
    tcase_add_test(tests, test_channels_append_refuses);
    suite_add_tcase(suite, tests);
    return suite;
}
