/* Bad requests of attention over a cache: its sizes and memory, its pages, and what a ring no longer holds. */
#include "api_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A change of the cache; the next test finds it as it was. */
#define REFUSED_CACHE(change, field, value) REFUSED_FROM(cached_attention, (cache = legal_cache, change), field, value)
#define ACCEPTED_CACHE(change)              ACCEPTED_FROM(cached_attention, (cache = legal_cache, change))
static struct heed_kv_cache legal_cache;

static void prepare_cache(void) {
    prepare();
    legal_cache = cache;
}

START_TEST(test_api_cache_fields) {
    prepare_cache();
    REFUSED_CACHE(r.key.data = memory + KEY, "key", "NULL");
    REFUSED_CACHE(r.value.data = memory + VALUE, "value", "NULL");
    REFUSED_CACHE(r.key_starts = numbers.key_starts, "key_starts", "NULL");
    REFUSED_CACHE(cache.num_kv_heads = 4, "cache.num_kv_heads", "4");
    REFUSED_CACHE(cache.head_dim = 8, "cache.head_dim", "8");
    REFUSED_CACHE(cache.value_dim = 5, "cache.value_dim", "5");
    REFUSED_CACHE(cache.key_type = (enum heed_type)77, "cache.key_type", "77");
    REFUSED_CACHE(cache.value_type = (enum heed_type) - 1, "cache.value_type", "-1");
    REFUSED_CACHE(cache.page_tokens = 0, "cache.page_tokens", "0");
    REFUSED_CACHE(cache.page_tokens = 8, "cache.page_tokens", "8");
    REFUSED_CACHE(cache.page_tokens = 24, "cache.page_tokens", "24");
    REFUSED_CACHE(cache.page_tokens = -16, "cache.page_tokens", "-16");
    REFUSED_CACHE(cache.page_tokens = INT64_MAX / 16 * 16, "", "9223372036854775792");
    REFUSED_CACHE(cache.num_pages = -1, "cache.num_pages", "-1");
    REFUSED_CACHE(cache.num_pages = INT64_MAX, "cache.data", "9223372036854775807");
    REFUSED_CACHE((cache.page_table = NULL, cache.num_pages = 1), "cache.num_pages", "1");
    REFUSED_CACHE((cache.page_table = NULL, cache.pages_per_sequence = 2), "cache.num_pages", "2");
    REFUSED_CACHE(cache.pages_per_sequence = -1, "cache.pages_per_sequence", "-1");
    REFUSED_CACHE(cache.pages_per_sequence = 0, "cache.pages_per_sequence", "is 0");
    REFUSED_CACHE(cache.pages_per_sequence = INT64_MAX, "cache.pages_per_sequence", "9223372036854775807");
    REFUSED_CACHE(cache.table_stride = -1, "cache.table_stride", "-1");
    REFUSED_CACHE(cache.table_stride = INT64_MAX, "cache.page_table", "9223372036854775807");
    REFUSED_CACHE(cache.data = NULL, "cache.data", "NULL");
    REFUSED_CACHE(cache.data = misaligned(memory + PAGES), "cache.data", "align");
    REFUSED_CACHE(cache.page_table = (const int32_t *)(const void *)misaligned(numbers.page_table), "cache.page_table", "align");
}
END_TEST

/* The legal cache has 2 heads of 4 channels. */
START_TEST(test_api_cache_channels) {
    static const float zero[] = {1, 2, 3, 0, 5, 6, 7, 8}, negative[] = {1, 2, 3, 4, 5, 6, 7, -0.5f},
                       infinite[] = {INFINITY, 2, 3, 4, 5, 6, 7, 8}, none[] = {1, 2, 3, 4, 5, NAN, 7, 8},
                       extreme[] = {0x1p-149f, 0x1.fffffep127f, 3, 4, 5, 6, 7, 8};
    prepare_cache();
    REFUSED_CACHE(cache.key_channel_scales = zero, "cache.key_channel_scales[3]", "is 0,");
    REFUSED_CACHE(cache.key_channel_scales = negative, "cache.key_channel_scales[7]", "is -0.5,");
    REFUSED_CACHE(cache.key_channel_scales = infinite, "cache.key_channel_scales[0]", "is inf,");
    REFUSED_CACHE(cache.key_channel_scales = none, "cache.key_channel_scales[5]", "nan,");
    REFUSED_CACHE(cache.key_channel_scales = misaligned(memory), "cache.key_channel_scales", "align");
    REFUSED_CACHE((cache.key_channel_scales = extreme, r.output.data = (void *)(uintptr_t)extreme), "output",
                  "cache.key_channel_scales");
    ACCEPTED_CACHE(cache.key_channel_scales = extreme);
}
END_TEST

static const int32_t negative_page[] = {1, -1}, page_beyond[] = {2, 0}, far_page[] = {0, INT32_MAX};
static const int64_t one_key[] = {1, 0};

START_TEST(test_api_cache_pages) {
    prepare_cache();
    REFUSED_CACHE(cache.page_table = negative_page, "cache.page_table[1][0]", "-1");
    REFUSED_CACHE(cache.page_table = page_beyond, "cache.page_table[0][0]", "2");
    REFUSED_CACHE(cache.page_table = far_page, "cache.page_table[1][0]", "2147483647");
    REFUSED_CACHE(cache.num_pages = 1, "cache.page_table[0][0]", "1");
    REFUSED_CACHE(cache.num_pages = 0, "cache.page_table", "");
    /* the pages of keys that no query sees are not looked at */
    ACCEPTED_CACHE((cache.page_table = far_page, r.key_lengths = one_key));
    ACCEPTED_CACHE((cache.page_table = negative_page, r.key_lengths = one_key));
    ACCEPTED_CACHE((cache.page_table = far_page, r.query_tokens = 0));
    ACCEPTED_CACHE((void)0);
    ACCEPTED_CACHE(cache.table_stride = 0);
    ACCEPTED_CACHE((cache.page_table = NULL, cache.table_stride = 0));
    ACCEPTED_CACHE((cache.key_type = HEED_BF16, cache.value_type = HEED_F16));
    ACCEPTED_CACHE((cache.key_type = HEED_I8, cache.value_type = HEED_I8));
    ACCEPTED_CACHE(r.key.type = r.value.type = (enum heed_type)77); /* not looked at */
}
END_TEST

/* 16 positions per sequence; a longer one has overwritten its first. */
static struct heed_attention ring_attention(int64_t keys, int64_t left) {
    struct heed_attention a = cached_attention();
    a.key_tokens = keys;
    a.key_lengths = NULL;
    a.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    a.query_offsets = NULL;
    a.window = (struct heed_window){true, left, -1};
    a.mask.data = NULL;
    a.bias.data = NULL;
    a.weights.data = a.scores.data = a.mass.data = NULL;
    a.states = (struct heed_states){0};
    return a;
}

START_TEST(test_api_cache_rings) {
    prepare_cache();
    REFUSED_CACHE(r = ring_attention(17, -1), "position 1 ", "position 0");
    REFUSED_CACHE(r = ring_attention(100, 14), "position 84", "position 83"); /* query 0 stands at 97 */
    REFUSED_CACHE(r = ring_attention((int64_t)1 << 48, -1), "cache", "281474976710640");
    ACCEPTED_CACHE(r = ring_attention(16, -1));
    ACCEPTED_CACHE(r = ring_attention(100, 13));
    ACCEPTED_CACHE((r = ring_attention(100, -1), r.key_position = 256, r.alignment = HEED_ALIGN_TOP_LEFT)); /* sees nothing */
    ACCEPTED_CACHE((r = ring_attention(100, 13), r.key_position = 512));
    ACCEPTED_CACHE(r = ring_attention((int64_t)1 << 40, 13));
}
END_TEST

/* What workers keep of a head's chunks is bounded by the window, not by how far a ring has come. */
START_TEST(test_api_cache_ring_memory) {
    enum { HEADS = 8, WIDTH = 64, CAPACITY = 2048 };
    struct heed_kv_cache ring = {.num_pages = 1, .page_tokens = CAPACITY, .num_kv_heads = HEADS, .head_dim = WIDTH};
    ring.value_dim = WIDTH, ring.pages_per_sequence = 1;
    float query[HEADS * WIDTH], output[HEADS * WIDTH], want[HEADS * WIDTH];
    const int64_t bytes = heed_kv_page_bytes(&ring);
    float *const data = ring.data = malloc((size_t)bytes);
    for (int64_t i = 0; i < bytes / (int64_t)sizeof *data; i++)
        data[i] = (float)(i % 13) - 6;
    for (int i = 0; i < HEADS * WIDTH; i++)
        query[i] = (float)(i % 7) / 7;
    struct heed_attention a = {.batch = 1, .num_heads = HEADS, .num_kv_heads = HEADS, .query_tokens = 1, .causal = true};
    a.head_dim = a.value_dim = WIDTH;
    a.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    a.window = (struct heed_window){true, 1023, 0};
    a.query = (struct heed_input){query, 0, WIDTH, HEADS * WIDTH, HEED_F32};
    a.output = (struct heed_output){output, 0, WIDTH, HEADS * WIDTH, HEED_F32};
    a.cache = &ring;
    for (int64_t keys = 1500; keys < (int64_t)1 << 47; keys *= 1000) {
        struct heed_plan plan;
        a.key_tokens = keys;
        ck_assert_int_eq(heed_attention_plan(&a, &(struct heed_exec){.threads = 8}, &plan), HEED_OK);
        ck_assert_int_lt(plan.workspace_bytes, 1 << 20);
        a.output.data = want;
        ck_assert_int_eq(heed_attention(&a, &(struct heed_exec){.threads = 1}), HEED_OK);
        a.output.data = output;
        memset(output, 0xff, sizeof output);
        ck_assert_msg(heed_attention(&a, &(struct heed_exec){.threads = 8}) == HEED_OK, "%s", heed_error_message());
        must(compare(SAME_BITS, output, want, HEADS, WIDTH));
    }
    free(ring.data);
}
END_TEST

void add_cache_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_cache_fields);
    tcase_add_test(tests, test_api_cache_channels);
    tcase_add_test(tests, test_api_cache_pages);
    tcase_add_test(tests, test_api_cache_rings);
    tcase_add_test(tests, test_api_cache_ring_memory);
}
