/* Bad requests of attention with options: every field that is not a plain tensor, and every output over every input. */
#include "api_common.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct heed_attention full_attention(void) {
    struct heed_attention a = legal_attention();
    a.key_lengths = numbers.key_lengths;
    a.causal = true;
    a.alignment = HEED_ALIGN_OFFSETS;
    a.query_offsets = numbers.query_offsets;
    a.window = (struct heed_window){true, 3, 1};
    a.mask = (struct heed_mask){numbers.mask, 60, 15, 5, 1};
    a.tree = (struct heed_tree){numbers.tree, 3, 1, 2};
    a.softcap = 3;
    a.bias = (struct heed_bias){memory + BIAS, 60, 15, 5, 1};
    a.alibi_slopes = memory + SLOPES;
    a.relative = (struct heed_relative){memory + BUCKETS, 8, 1, 8, 16, true};
    a.sinks = memory + SINKS;
    a.scores = (struct heed_output){memory + SCORES, 60, 15, 5, HEED_F32};
    a.score_stage = HEED_SCORES_BIASED;
    a.states.output = (struct heed_output){memory + STATES, 72, 18, 6, HEED_F32};
    a.states.max = (struct heed_output){memory + MAXIMA, 12, 3, 1, HEED_F32};
    a.states.sum = (struct heed_output){memory + SUMS, 12, 3, 1, HEED_F32};
    a.mass = (struct heed_output){memory + MASS, 20, 5, 0, HEED_F32};
    a.mass_queries = 2;
    return a;
}

struct heed_attention cached_attention(void) {
    struct heed_attention a = full_attention();
    a.key = a.value = (struct heed_input){0};
    a.cache = &cache;
    return a;
}

/* Both sequences of one packed row of tokens. */
static struct heed_attention packed_attention(void) {
    struct heed_attention a = full_attention();
    a.query_starts = numbers.query_starts;
    a.key_starts = numbers.key_starts;
    return a;
}

static const int64_t *misaligned_numbers(void) { return (const int64_t *)(const void *)misaligned(numbers.key_lengths); }

START_TEST(test_api_option_numbers) {
    prepare();
    REFUSED_FROM(full_attention, r.key_position = -256, "key_position", "-256");
    REFUSED_FROM(full_attention, r.key_position = 255, "key_position", "255");
    REFUSED_FROM(full_attention, r.key_position = INT64_MAX - 255, "key_position", "9223372036854775552");
    REFUSED_FROM(full_attention, r.key_position = INT64_MIN, "key_position", "-9223372036854775808");
    REFUSED_FROM(full_attention, r.mass_queries = -1, "mass_queries", "-1");
    REFUSED_FROM(full_attention, r.score_stage = (enum heed_score_stage)3, "score_stage", "3");
    REFUSED_FROM(full_attention, memset(&r.score_stage, 0xff, sizeof r.score_stage), "score_stage", "-1");
    REFUSED_FROM(full_attention, r.softcap = NAN, "softcap", "nan");
    REFUSED_FROM(full_attention, r.softcap = INFINITY, "softcap", "inf");
    REFUSED_FROM(full_attention, r.softcap = -0.5f, "softcap", "-0.5");
    REFUSED_FROM(full_attention, r.window.left = -2, "window.left", "-2");
    REFUSED_FROM(full_attention, r.window.right = -2, "window.right", "-2");
    REFUSED_FROM(full_attention, r.window.left = INT64_MIN, "window.left", "-9223372036854775808");
    REFUSED_FROM(full_attention, r.window.right = INT64_MIN, "window.right", "-9223372036854775808");
    REFUSED_FROM(full_attention, r.tree.keys = -1, "tree.keys", "-1");
    REFUSED_FROM(full_attention, r.tree.keys = INT64_MAX, "tree.keys", "9223372036854775807");
    REFUSED_FROM(full_attention, (r.relative.bidirectional = false, r.relative.num_buckets = 1), "relative.num_buckets", "1");
    REFUSED_FROM(full_attention, r.relative.num_buckets = 2, "relative.num_buckets", "2");
    REFUSED_FROM(full_attention, r.relative.num_buckets = 7, "relative.num_buckets", "7");
    REFUSED_FROM(full_attention, r.relative.num_buckets = 514, "relative.num_buckets", "514");
    REFUSED_FROM(full_attention, r.relative.num_buckets = INT64_MIN, "relative.num_buckets", "-9223372036854775808");
    REFUSED_FROM(full_attention, r.relative.max_distance = 2, "relative.max_distance", "2");
    REFUSED_FROM(full_attention, (r.relative.bidirectional = false, r.relative.max_distance = 4), "relative.max_distance", "4");
    REFUSED_FROM(full_attention, r.relative.max_distance = -16, "relative.max_distance", "-16");
    REFUSED_FROM(full_attention, r.relative.max_distance = 65537, "relative.max_distance", "65537");
    REFUSED_FROM(full_attention, r.relative.max_distance = INT64_MAX, "relative.max_distance", "9223372036854775807");
}
END_TEST

START_TEST(test_api_option_sequences) {
    static const int64_t descending[] = {0, 2, 1}, negative[] = {-1, 1, 3}, beyond[] = {0, 1, 6}, far[] = {0, INT64_MAX, INT64_MAX};
    static const int64_t long_one[] = {5, 6}, negative_one[] = {5, -1}, longer_than_its_keys[] = {2, 4};
    static const int64_t too_late[] = {0, INT64_MAX}, too_early[] = {INT64_MIN, 0};
    prepare();
    REFUSED_FROM(packed_attention, r.query_starts = descending, "query_starts[2]", "1");
    REFUSED_FROM(packed_attention, r.query_starts = negative, "query_starts[0]", "-1");
    REFUSED_FROM(packed_attention, r.query_starts = beyond, "query_starts[2]", "6");
    REFUSED_FROM(packed_attention, r.query_starts = far, "query_starts[1]", "9223372036854775807");
    REFUSED_FROM(packed_attention, r.query_starts = misaligned_numbers(), "query_starts", "align");
    REFUSED_FROM(packed_attention, r.key_starts = descending, "key_starts[2]", "1");
    REFUSED_FROM(packed_attention, r.key_starts = negative, "key_starts[0]", "-1");
    REFUSED_FROM(packed_attention, r.key_starts = beyond, "key_starts[2]", "6");
    REFUSED_FROM(packed_attention, r.key_starts = misaligned_numbers(), "key_starts", "align");
    REFUSED_FROM(packed_attention, r.key_lengths = longer_than_its_keys, "key_lengths[1]", "4");
    REFUSED_FROM(full_attention, r.key_lengths = long_one, "key_lengths[1]", "6");
    REFUSED_FROM(full_attention, r.key_lengths = negative_one, "key_lengths[1]", "-1");
    REFUSED_FROM(full_attention, r.key_lengths = misaligned_numbers(), "key_lengths", "align");
    REFUSED_FROM(full_attention, r.query_offsets = NULL, "query_offsets", "NULL");
    REFUSED_FROM(full_attention, r.query_offsets = too_late, "query_offsets[1]", "9223372036854775807");
    REFUSED_FROM(full_attention, r.query_offsets = too_early, "query_offsets[0]", "-9223372036854775808");
    REFUSED_FROM(full_attention, r.query_offsets = misaligned_numbers(), "query_offsets", "align");
    REFUSED_FROM(full_attention, r.alignment = HEED_ALIGN_BOTTOM_RIGHT, "query_offsets", "HEED_ALIGN_OFFSETS");
}
END_TEST

START_TEST(test_api_option_tensors) {
    prepare();
    REFUSED_FROM(full_attention, r.mask.batch_stride = -60, "mask.batch_stride", "-60");
    REFUSED_FROM(full_attention, r.mask.head_stride = -15, "mask.head_stride", "-15");
    REFUSED_FROM(full_attention, r.mask.query_stride = -5, "mask.query_stride", "-5");
    REFUSED_FROM(full_attention, r.mask.key_stride = -1, "mask.key_stride", "-1");
    REFUSED_FROM(full_attention, r.mask = ((struct heed_mask){numbers.mask, 0, 0, 0, INT64_MAX}), "mask", "too large");
    REFUSED_FROM(full_attention, r.mask.batch_stride = INT64_MAX, "mask", "9223372036854775807");
    REFUSED_FROM(full_attention, r.mask.head_stride = INT64_MAX / 2, "mask", "4611686018427387903");
    REFUSED_FROM(full_attention, r.mask.query_stride = INT64_MAX, "mask", "9223372036854775807");
    REFUSED_FROM(full_attention, r.bias.batch_stride = -60, "bias.batch_stride", "-60");
    REFUSED_FROM(full_attention, r.bias.head_stride = INT64_MIN, "bias.head_stride", "-9223372036854775808");
    REFUSED_FROM(full_attention, r.bias.query_stride = -5, "bias.query_stride", "-5");
    REFUSED_FROM(full_attention, r.bias.key_stride = -1, "bias.key_stride", "-1");
    REFUSED_FROM(full_attention, r.bias = ((struct heed_bias){memory + BIAS, 0, 0, 0, INT64_MAX / 4}), "bias", "too large");
    REFUSED_FROM(full_attention, r.bias.key_stride = INT64_MAX, "bias", "too large");
    REFUSED_FROM(full_attention, r.bias.head_stride = INT64_MAX / 8, "bias", "1152921504606846975");
    REFUSED_FROM(full_attention, r.bias.data = misaligned(r.bias.data), "bias", "align");
    REFUSED_FROM(full_attention, r.tree.batch_stride = -3, "tree.batch_stride", "-3");
    REFUSED_FROM(full_attention, r.tree.query_stride = -1, "tree.query_stride", "-1");
    REFUSED_FROM(full_attention, r.tree.query_stride = INT64_MAX / 8, "tree", "1152921504606846975");
    REFUSED_FROM(full_attention, r.tree.words = (const uint64_t *)(const void *)(numbers.page_table + 1), "tree", "align");
    REFUSED_FROM(full_attention, r.relative.table = misaligned(r.relative.table), "relative", "align");
    REFUSED_FROM(full_attention, r.relative.head_stride = -8, "relative.head_stride", "-8");
    REFUSED_FROM(full_attention, r.relative.bucket_stride = -1, "relative.bucket_stride", "-1");
    REFUSED_FROM(full_attention, r.relative.bucket_stride = INT64_MAX / 8, "relative", "1152921504606846975");
    REFUSED_FROM(full_attention, r.alibi_slopes = misaligned(r.alibi_slopes), "alibi_slopes", "align");
    REFUSED_FROM(full_attention, r.sinks = misaligned(r.sinks), "sinks", "align");
    REFUSED_FROM(full_attention, r.scores.token_stride = 4, "scores.token_stride", "4");
    REFUSED_FROM(full_attention, r.scores.head_stride = -15, "scores.head_stride", "-15");
    REFUSED_FROM(full_attention, r.states.output.data = NULL, "states.output", "NULL");
    REFUSED_FROM(full_attention, r.states.max.data = NULL, "states.max", "NULL");
    REFUSED_FROM(full_attention, r.states.sum.data = NULL, "states.sum", "NULL");
    REFUSED_FROM(full_attention, r.states.output.token_stride = 5, "states.output.token_stride", "5");
    REFUSED_FROM(full_attention, r.states.max.head_stride = 2, "states.max.head_stride", "2");
    REFUSED_FROM(full_attention, r.states.sum.data = misaligned(r.states.sum.data), "states.sum", "align");
    REFUSED_FROM(full_attention, r.mass.head_stride = 4, "mass.head_stride", "4");
    REFUSED_FROM(full_attention, r.mass.batch_stride = -20, "mass.batch_stride", "-20");
    REFUSED_FROM(full_attention, r.mass.data = misaligned(r.mass.data), "mass", "align");
}
END_TEST

/* States of 2^40 chunks: their rows overflow, whatever the strides. */
START_TEST(test_api_option_sizes) {
    prepare();
    REFUSED_FROM(full_attention, (r.key_tokens = (int64_t)1 << 48, r.value_dim = INT32_MAX), "states.output", "too large");
    REFUSED_FROM(full_attention, (r.batch = (int64_t)1 << 40, r.num_heads = (int64_t)1 << 20, r.num_kv_heads = 1), "batch",
                 "1099511627776");
    REFUSED_FROM(full_attention, r.query_tokens = ((int64_t)1 << 48) + 1, "query_tokens", "281474976710657");
    REFUSED_FROM(full_attention, r.key_tokens = ((int64_t)1 << 48) + 1, "key_tokens", "281474976710657");
}
END_TEST

enum { MOST_TENSORS = 24 };
struct named {
    const char *name;
    const void *data;
    int64_t bytes;
};

static int outputs_of(struct heed_attention *r, struct heed_output *views[MOST_TENSORS], struct named *names) {
    struct heed_output *const all[] = {&r->output,        &r->weights,    &r->lse,        &r->scores,
                                       &r->states.output, &r->states.max, &r->states.sum, &r->mass};
    const struct named named[] = {{"output", memory + OUTPUT, 144 * 4},
                                  {"weights", memory + WEIGHTS, 120 * 4},
                                  {"lse", memory + LSE, 24 * 4},
                                  {"scores", memory + SCORES, 120 * 4},
                                  {"states.output", memory + STATES, 144 * 4},
                                  {"states.max", memory + MAXIMA, 24 * 4},
                                  {"states.sum", memory + SUMS, 24 * 4},
                                  {"mass", memory + MASS, 40 * 4}};
    memcpy(views, all, sizeof all);
    memcpy(names, named, sizeof named);
    return sizeof all / sizeof *all;
}

/* What a request reads: all options' memory, with keys and values of its own or from a cache. */
static int inputs_of(const struct heed_attention *r, struct named *names) {
    const struct named options[] = {{"query", memory + QUERY, 96 * 4},
                                    {"mask", numbers.mask, 120},
                                    {"bias", memory + BIAS, 120 * 4},
                                    {"tree", numbers.tree, 6 * 8},
                                    {"relative", memory + BUCKETS, 32 * 4},
                                    {"alibi_slopes", memory + SLOPES, 4 * 4},
                                    {"sinks", memory + SINKS, 4 * 4},
                                    {"key_lengths", numbers.key_lengths, 2 * 8},
                                    {"query_offsets", numbers.query_offsets, 2 * 8}};
    int count = sizeof options / sizeof *options;
    memcpy(names, options, sizeof options);
    if (r->query_starts) {
        names[count++] = (struct named){"query_starts", numbers.query_starts, 3 * 8};
        names[count++] = (struct named){"key_starts", numbers.key_starts, 3 * 8};
    }
    names[count++] =
        r->cache ? (struct named){"cache.data", memory + PAGES, 2 * PAGE * 4} : (struct named){"key", memory + KEY, 80 * 4};
    names[count++] =
        r->cache ? (struct named){"cache.page_table", numbers.page_table, 2 * 4} : (struct named){"value", memory + VALUE, 120 * 4};
    return count;
}

/* Each output, with its first element in the first or, unless packed, the last of another tensor. */
static void check_overlaps(struct heed_attention (*legal)(void)) {
    struct heed_output *views[MOST_TENSORS];
    struct named outputs[MOST_TENSORS], others[2 * MOST_TENSORS];
    struct heed_attention r = legal();
    const int wanted = outputs_of(&r, views, outputs), inputs = inputs_of(&r, others), ends = r.query_starts ? 1 : 2;
    memcpy(others + inputs, outputs, (size_t)wanted * sizeof *outputs);
    for (int i = 0; i < wanted * (inputs + wanted) * ends; i++) {
        const int out = i % wanted, end = i / wanted % ends;
        const struct named *other = &others[i / wanted / ends];
        char what[96];
        if (other->data == outputs[out].data)
            continue;
        r = legal();
        views[out]->data = (float *)((uintptr_t)other->data + (uintptr_t)(end ? (other->bytes - 4) / 4 * 4 : 0));
        snprintf(what, sizeof what, "%s over the %s of %s", outputs[out].name, end ? "end" : "begin", other->name);
        must_refuse_attention(&r, "overlaps", outputs[out].name, what);
    }
}

START_TEST(test_api_option_overlaps) {
    prepare();
    check_overlaps(full_attention);
    check_overlaps(packed_attention);
    check_overlaps(cached_attention);
}
END_TEST

static const int64_t late_starts[] = {1, 1, 3}, no_keys[] = {0, 0}, far_offsets[] = {(int64_t)1 << 48, -((int64_t)1 << 48)};

/* What a field may be at most, and what is not looked at. */
START_TEST(test_api_options_legal) {
    prepare();
    ACCEPTED_FROM(full_attention, (void)0);
    ACCEPTED_FROM(packed_attention, (void)0);
    ACCEPTED_FROM(packed_attention, (r.query_starts = late_starts, r.mass_queries = 0));
    ACCEPTED_FROM(packed_attention, (r.query.batch_stride = r.output.batch_stride = r.key.batch_stride = INT64_MIN));
    ACCEPTED_FROM(packed_attention, r.key_starts = NULL);
    ACCEPTED_FROM(packed_attention, r.query_starts = NULL);
    ACCEPTED_FROM(full_attention, r.key_position = 256);
    ACCEPTED_FROM(full_attention, r.key_position = (int64_t)1 << 48);
    ACCEPTED_FROM(full_attention, r.key_lengths = no_keys);
    ACCEPTED_FROM(full_attention, r.query_offsets = far_offsets);
    ACCEPTED_FROM(full_attention, r.window = ((struct heed_window){true, -1, -1}));
    ACCEPTED_FROM(full_attention, r.window = ((struct heed_window){true, (int64_t)1 << 48, (int64_t)1 << 48}));
    REFUSED_FROM(full_attention, r.window = ((struct heed_window){false, 5, 0}), "window.on", "5");
    REFUSED_FROM(full_attention, r.window = ((struct heed_window){false, 0, -1}), "window.on", "-1");
    ACCEPTED_FROM(full_attention, r.mask = ((struct heed_mask){numbers.mask, 0, 0, 0, 0}));
    ACCEPTED_FROM(full_attention, r.mask = ((struct heed_mask){NULL, -1, -1, -1, -1}));
    ACCEPTED_FROM(full_attention, r.bias = ((struct heed_bias){NULL, -1, -1, -1, -1}));
    ACCEPTED_FROM(full_attention, r.tree = ((struct heed_tree){NULL, -1, -1, -1}));
    ACCEPTED_FROM(full_attention, r.tree = ((struct heed_tree){numbers.tree, 0, 0, 64 * 6})); /* more than there are */
    ACCEPTED_FROM(full_attention, r.tree.keys = 0);
    ACCEPTED_FROM(full_attention, r.relative = ((struct heed_relative){NULL, -1, -1, -1, -1, true}));
    ACCEPTED_FROM(full_attention, r.relative = ((struct heed_relative){memory + BUCKETS, 0, 0, 512, 65536, true}));
    ACCEPTED_FROM(full_attention, r.relative = ((struct heed_relative){memory + BUCKETS, 2, 1, 2, 2, false}));
    ACCEPTED_FROM(full_attention, r.relative = ((struct heed_relative){memory + BUCKETS, 4, 1, 4, 2, true}));
    ACCEPTED_FROM(full_attention, (r.softcap = 0x1p-100f, r.scale = 0x1p100f));
    ACCEPTED_FROM(full_attention, r.softcap = 0x1.fffffep127f);
    ACCEPTED_FROM(full_attention, r.mass_queries = INT64_MAX);
    ACCEPTED_FROM(full_attention, r.mass.token_stride = -7);
    ACCEPTED_FROM(full_attention, r.query_tokens = 0);
    ACCEPTED_FROM(full_attention, (r.key_tokens = 0, r.key_lengths = no_keys));
    ACCEPTED_FROM(full_attention, (r.batch = 0, r.mask.data = numbers.mask + 1));
    ACCEPTED_FROM(full_attention, (r.output.data = r.weights.data = r.lse.data = NULL));
    ACCEPTED_FROM(full_attention, (r.alibi_slopes = r.sinks = r.bias.data)); /* inputs may overlap */
}
END_TEST

void add_option_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_option_numbers);
    tcase_add_test(tests, test_api_option_sequences);
    tcase_add_test(tests, test_api_option_tensors);
    tcase_add_test(tests, test_api_option_sizes);
    tcase_add_test(tests, test_api_option_overlaps);
    tcase_add_test(tests, test_api_options_legal);
}
