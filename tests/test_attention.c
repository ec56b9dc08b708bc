/* heed_attention: the bits of a row depend on its query and on the keys and values that it may see, and on nothing else. */
#include "harness_attention.h"
#include "internal.h"
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORK = 6000000, WORK_QUICK = 1500000 };

static int64_t work(void) { return test_quick() ? WORK_QUICK : WORK; }

static const struct heed_exec any_way = {0};

/* Scalar, serial and contiguous against every table, any number of threads, any layout. */
START_TEST(test_attention_same_bits) {
    struct rng rng = rng_for("attention", _i);
    for (int64_t repeat = 0; repeat < test_count(60); repeat++) {
        struct attention_case c = random_attention_case(&rng, work());
        struct attention_result want = new_attention_result(&c), got = new_attention_result(&c);
        const struct heed_exec plain = {.threads = 1, .isa = "scalar"};
        describe_attention(&c, "attention", &plain);
        run_attention(&c, &plain, NULL, &want);
        for (int i = 0; heed_kernels_usable(i); i++) {
            const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(&rng)};
            c.wants[WEIGHTS] = rng_range(&rng, 0, 1);
            c.wants[LSE] = rng_range(&rng, 0, 1);
            describe_attention(&c, "attention", &exec);
            run_attention(&c, &exec, &rng, &got);
            must_equal_attention(&c, &got, &want);
        }
        free_attention_case(&c);
        free_attention_result(&want);
        free_attention_result(&got);
    }
}
END_TEST

/* A run of queries over the keys that its last query sees, which is all that they may see: as a chunk of a prefill, or, if there is
 * but one, as a decode. */
static void check_part(const struct attention_case *c, const struct attention_result *whole, struct rng *rng) {
    const struct heed_attention *r = &c->request;
    int64_t batch = rng_range(rng, 0, r->batch - 1), last = rng_range(rng, 0, r->query_tokens - 1);
    int64_t first = rng_range(rng, 0, 1) ? last : rng_range(rng, 0, last);
    const struct slice slice = {batch, first, last - first + 1, 0, keys_seen(r, last)};
    const struct heed_exec exec = {.threads = any_threads(rng), .isa = heed_kernels_usable(0)->name};
    struct attention_case part = attention_slice(c, &slice);
    struct attention_result got = new_attention_result(&part);
    describe_attention(c, "attention in parts", &exec);
    run_attention(&part, &exec, rng, &got);
    for (int64_t h = 0; h < r->num_heads; h++)
        for (int64_t i = 0; i < slice.queries; i++)
            must_equal_row(&part, &got, ref_row(&part.request, 0, h, i), c, whole, ref_row(r, batch, h, first + i));
    free_attention_case(&part);
    free_attention_result(&got);
}

START_TEST(test_attention_whole_or_in_parts) {
    struct rng rng = rng_for("attention parts", _i);
    for (int64_t repeat = 0; repeat < test_count(60); repeat++) {
        struct attention_case c = random_attention_case(&rng, work());
        struct attention_result whole = new_attention_result(&c);
        describe_attention(&c, "attention", &any_way);
        run_attention(&c, &any_way, &rng, &whole);
        for (int i = 0; i < 8 && ref_rows(&c.request) > 0; i++)
            check_part(&c, &whole, &rng);
        free_attention_case(&c);
        free_attention_result(&whole);
    }
}
END_TEST

static bool all_are_nan(const float *x, int64_t n) {
    bool all = true;
    for (int64_t i = 0; i < n; i++)
        all &= isnan(x[i]);
    return all;
}

static void spoil_keys_from(struct attention_case *c, int64_t first, float with) {
    const struct heed_attention *s = &c->request;
    float *key = values_of(&s->key), *value = values_of(&s->value);
    for (int64_t row = 0; row < s->batch * s->num_kv_heads * s->key_tokens; row++) {
        for (int64_t d = 0; d < s->head_dim && row % s->key_tokens >= first; d++)
            key[row * s->head_dim + d] = with;
        for (int64_t d = 0; d < s->value_dim && row % s->key_tokens >= first; d++)
            value[row * s->value_dim + d] = with;
    }
}

/* Keys and values from some position on become NaN or Inf: rows that do not see them keep every bit, rows that see a NaN become
 * NaN. */
START_TEST(test_attention_of_hidden_keys) {
    struct rng rng = rng_for("attention hidden", 0);
    for (int64_t repeat = 0; repeat < test_count(200); repeat++) {
        struct heed_attention s = random_attention_sizes(&rng, work());
        s.causal = true;
        struct attention_case c = new_attention_case(&s, FILL_NORMAL, FILL_NORMAL, FILL_NORMAL, &rng);
        struct attention_result want = new_attention_result(&c), got = new_attention_result(&c);
        const struct heed_exec exec = {.threads = any_threads(&rng), .isa = any_isa(&rng)};
        int64_t first = rng_range(&rng, 0, s.key_tokens);
        float with = rng_range(&rng, 0, 1) ? NAN : INFINITY;
        describe_attention(&c, "attention with hidden keys", &exec);
        run_attention(&c, &exec, &rng, &want);
        spoil_keys_from(&c, first, with);
        run_attention(&c, &exec, &rng, &got);
        for (int64_t row = 0; row < ref_rows(&c.request); row++) {
            if (keys_seen(&s, row % s.query_tokens) <= first)
                must_equal_row(&c, &got, row, &c, &want, row);
            else if (isnan(with))
                must(all_are_nan(got.part[OUTPUT] + row * s.value_dim, s.value_dim) && isnan(got.part[LSE][row])
                         ? NULL
                         : "a NaN was lost");
        }
        free_attention_case(&c);
        free_attention_result(&want);
        free_attention_result(&got);
    }
}
END_TEST

/* A query that sees no key: exactly +0 and -inf, because there are no keys or because all scores are -inf. */
START_TEST(test_attention_that_sees_nothing) {
    const float inf[] = {INFINITY, INFINITY}, minus_inf[] = {-INFINITY, -INFINITY}, value[] = {3, 4}, zero[2] = {0};
    for (int i = 0; heed_kernels_usable(i); i++) {
        for (int kind = 0; kind < 3; kind++) {
            float output[2], weights[2] = {0}, lse[2];
            struct heed_attention a = {.batch = 1,
                                       .num_heads = 1,
                                       .num_kv_heads = 1,
                                       .query_tokens = kind == 2 ? 2 : 1,
                                       .key_tokens = kind == 0 ? 0 : 1,
                                       .head_dim = 1,
                                       .value_dim = 1,
                                       .causal = kind == 2,
                                       .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                                       .query = {inf, 0, 0, 1, HEED_F32},
                                       .key = {kind == 2 ? value : minus_inf, 0, 0, 1, HEED_F32},
                                       .value = {value, 0, 0, 1, HEED_F32},
                                       .output = {output, 2, 2, 1, HEED_F32},
                                       .weights = {weights, 2, 2, 1, HEED_F32},
                                       .lse = {lse, 2, 2, 1, HEED_F32}};
            describe("attention", heed_kernels_usable(i)->name, "of nothing, kind %d", kind);
            ck_assert_int_eq(heed_attention(&a, &(struct heed_exec){.isa = heed_kernels_usable(i)->name}), HEED_OK);
            must(compare(SAME_BITS, output, zero, 1, 1));
            must(compare(SAME_BITS, weights, zero, 1, 1));
            must(compare(SAME_BITS, lse, minus_inf, 1, 1));
        }
    }
}
END_TEST

/* A third of the smallest negative number rounds to -0, whose sign the arithmetic removes. */
START_TEST(test_attention_has_no_negative_zero) {
    const float query[] = {0}, key[] = {1, 2, 3}, value[] = {-0x1p-149f, -0.0f, -0.0f}, zero[] = {0};
    for (int i = 0; heed_kernels_usable(i); i++) {
        float output[1];
        struct heed_attention a = {
            .batch = 1, .num_heads = 1, .num_kv_heads = 1, .query_tokens = 1, .key_tokens = 3, .head_dim = 1};
        a.value_dim = 1;
        a.query = (struct heed_input){query, 0, 0, 1, HEED_F32};
        a.key = (struct heed_input){key, 0, 0, 1, HEED_F32};
        a.value = (struct heed_input){value, 0, 0, 1, HEED_F32};
        a.output = (struct heed_output){output, 0, 0, 1, HEED_F32};
        describe("attention", heed_kernels_usable(i)->name, "of the smallest negative number");
        ck_assert_int_eq(heed_attention(&a, &(struct heed_exec){.isa = heed_kernels_usable(i)->name}), HEED_OK);
        must(compare(SAME_BITS, output, zero, 1, 1));
    }
}
END_TEST

/* Packed [tokens][query heads | key heads | value heads | output heads]: one buffer, the output between its inputs, in any order.
 */
START_TEST(test_attention_in_one_packed_buffer) {
    struct rng rng = rng_for("attention packed", 0);
    for (int64_t repeat = 0; repeat < test_count(100); repeat++) {
        struct heed_attention s = random_attention_sizes(&rng, work());
        s.key_tokens = s.query_tokens = min_i64(s.query_tokens, 100);
        struct attention_case c = new_attention_case(&s, FILL_NORMAL, FILL_NORMAL, FILL_NORMAL, &rng);
        struct attention_result want = new_attention_result(&c);
        c.wants[WEIGHTS] = false;
        describe_attention(&c, "attention, packed", &any_way);
        run_attention(&c, &any_way, NULL, &want);
        int64_t heads[] = {s.num_heads, s.num_kv_heads, s.num_kv_heads, s.num_heads}, start[4], token = 0;
        int64_t width[] = {s.head_dim, s.head_dim, s.value_dim, s.value_dim}, rotation = rng_range(&rng, 0, 3);
        for (int64_t i = 0; i < 4; i++) {
            int64_t part = (i + rotation) % 4;
            start[part] = token;
            token += heads[part] * width[part];
        }
        const float *const values[] = {c.request.query.data, c.request.key.data, c.request.value.data};
        float *packed = new_filled(&rng, FILL_NAN, s.batch * s.query_tokens * token);
        for (int part = 0; part < 3; part++)
            for (int64_t i = 0; i < s.batch * heads[part] * s.query_tokens; i++)
                memcpy(packed + (i / s.query_tokens / heads[part] * s.query_tokens + i % s.query_tokens) * token + start[part] +
                           i / s.query_tokens % heads[part] * width[part],
                       values[part] + i * width[part], (size_t)width[part] * sizeof *packed);
        struct tensor buffer = matrix(s.batch * s.query_tokens, token, token, AT_END, packed);
        int64_t batch_stride = s.query_tokens * token;
        struct heed_attention a = s;
        a.query = (struct heed_input){buffer.data + start[0], batch_stride, width[0], token, HEED_F32};
        a.key = (struct heed_input){buffer.data + start[1], batch_stride, width[1], token, HEED_F32};
        a.value = (struct heed_input){buffer.data + start[2], batch_stride, width[2], token, HEED_F32};
        a.output = (struct heed_output){buffer.data + start[3], batch_stride, width[3], token, HEED_F32};
        if (heed_attention(&a, &any_way) != HEED_OK)
            must(heed_error_message());
        for (int64_t i = 0; i < ref_rows(&c.request); i++) {
            int64_t at = (i / s.query_tokens / s.num_heads * s.query_tokens + i % s.query_tokens) * token + start[3] +
                         i / s.query_tokens % s.num_heads * width[3];
            must(compare(SAME_BITS, buffer.data + at, want.part[OUTPUT] + i * s.value_dim, 1, s.value_dim));
        }
        tensor_free(&buffer);
        free(packed);
        free_attention_case(&c);
        free_attention_result(&want);
    }
}
END_TEST

/* An input may repeat itself by strides of 0: one key for all, one head for the whole batch. */
START_TEST(test_attention_with_strides_of_zero) {
    struct rng rng = rng_for("attention repeated", 0);
    for (int64_t repeat = 0; repeat < test_count(60); repeat++) {
        struct heed_attention s = random_attention_sizes(&rng, work());
        struct attention_case c = new_attention_case(&s, FILL_NORMAL, FILL_NORMAL, FILL_NORMAL, &rng);
        struct attention_result want = new_attention_result(&c), got = new_attention_result(&c);
        for (int64_t i = s.head_dim; i < s.batch * s.num_kv_heads * s.key_tokens * s.head_dim; i++)
            values_of(&c.request.key)[i] = values_of(&c.request.key)[i - s.head_dim];
        c.wants[WEIGHTS] = c.wants[LSE] = false;
        describe_attention(&c, "attention, one key repeated", &any_way);
        run_attention(&c, &any_way, &rng, &want);
        struct heed_attention a = c.request;
        a.key = (struct heed_input){a.key.data, 0, 0, 0, HEED_F32};
        a.output = (struct heed_output){got.part[OUTPUT], s.num_heads * s.query_tokens * s.value_dim, s.query_tokens * s.value_dim,
                                        s.value_dim, HEED_F32};
        if (heed_attention(&a, &any_way) != HEED_OK)
            must(heed_error_message());
        must_equal_attention(&c, &got, &want);
        free_attention_case(&c);
        free_attention_result(&want);
        free_attention_result(&got);
    }
}
END_TEST

Suite *attention_suite(void) {
    Suite *suite = suite_create("attention");
    TCase *tests = tcase_create("attention");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_attention_same_bits, 0, test_quick() ? 4 : 8);
    tcase_add_loop_test(tests, test_attention_whole_or_in_parts, 0, 2);
    tcase_add_test(tests, test_attention_of_hidden_keys);
    tcase_add_test(tests, test_attention_that_sees_nothing);
    tcase_add_test(tests, test_attention_has_no_negative_zero);
    tcase_add_test(tests, test_attention_in_one_packed_buffer);
    tcase_add_test(tests, test_attention_with_strides_of_zero);
    suite_add_tcase(suite, tests);
    return suite;
}
