/* heed_attention in parts: over some of the keys, merged again; for some of the queries; the bits are those of the whole. */
#include "harness_options.h"
#include "internal.h"
#include "suites.h"

#include <stdlib.h>

static int64_t work(void) { return test_quick() ? 400000 : 3000000; }

/* A random request, of kinds that have several chunks of keys, more often than not. */
static struct attention_case random_whole(struct rng *rng) {
    static const int shapes[] = {SHAPE_DECODE, SHAPE_DRAFTS, SHAPE_LONG_KEYS, SHAPE_CHUNK_EDGES, SHAPE_SMALL};
    struct choice choice = random_choice(rng);
    choice.level[OPT_SHAPE] = shapes[rng_range(rng, 0, 4)];
    struct attention_case c = case_of(&choice, work(), rng);
    for (int part = 0; part < MASS; part++)
        c.wants[part] = true;
    return c;
}

static struct attention_way random_way(struct rng *rng) {
    struct choice choice = random_choice(rng);
    return way_of(&choice);
}

/* --- Parts of the keys --- */

enum { MOST_PARTS = 8 };

/* The keys of one sequence in parts that end at multiples of 256, some of them empty, and the states that came of each. */
struct split {
    int64_t parts;
    struct attention_case part[MOST_PARTS];
    struct tensor states[MOST_PARTS][3];
    struct heed_states_part merged[MOST_PARTS];
};

static struct heed_input as_input(const struct tensor *t) {
    return (struct heed_input){t->data, t->stride[0], t->stride[1], t->stride[2], HEED_F32};
}

static void run_part(struct split *split, const struct attention_case *whole, const struct slice *slice, struct rng *rng) {
    const int64_t n = split->parts++;
    const struct attention_way way = random_way(rng);
    struct attention_case *part = &split->part[n];
    *part = attention_slice(whole, slice);
    for (int p = 0; p < RESULT_PARTS; p++)
        part->wants[p] = p == STATE_OUTPUT || p == STATE_MAX || p == STATE_SUM;
    struct attention_result result = new_attention_result(part);
    describe_attention(part, "a part of the keys", &way.exec);
    run_attention_way(part, &way, rng, &result);
    for (int p = 0; p < 3; p++) {
        int64_t size[4];
        result_size(&part->request, (enum result_part)(STATE_OUTPUT + p), size);
        split->states[n][p] =
            tensor_input(size, (enum layout)rng_range(rng, 0, LAYOUTS - 1), any_placement(rng), result.part[STATE_OUTPUT + p]);
    }
    split->merged[n] = (struct heed_states_part){chunks_of(&part->request), as_input(&split->states[n][0]),
                                                 as_input(&split->states[n][1]), as_input(&split->states[n][2])};
    free_attention_result(&result);
}

static void split_keys(struct split *split, const struct attention_case *whole, int64_t b, struct rng *rng) {
    const struct ref_sequence s = ref_sequence_of(&whole->request, b);
    int64_t key = 0;
    split->parts = 0;
    while (split->parts < MOST_PARTS - 1 && rng_range(rng, 0, 3)) {
        int64_t keys = min_i64(HEED_CHUNK * rng_range(rng, 0, 2), s.keys - key);
        if (keys % HEED_CHUNK)
            break;
        run_part(split, whole, &(struct slice){b, 0, s.queries, key, keys}, rng);
        key += keys;
    }
    run_part(split, whole, &(struct slice){b, 0, s.queries, key, s.keys - key}, rng);
}

static void free_split(struct split *split) {
    for (int64_t n = 0; n < split->parts; n++) {
        free_attention_case(&split->part[n]);
        for (int p = 0; p < 3; p++) {
            must(tensor_unchanged(&split->states[n][p]));
            tensor_free(&split->states[n][p]);
        }
    }
}

static struct heed_output as_output(const struct tensor *t) {
    return (struct heed_output){t->data, t->stride[0], t->stride[1], t->stride[2], HEED_F32};
}

/* The merged output and lse of one sequence. */
static void merge_split(const struct split *split, const struct heed_attention *r, int64_t queries, struct rng *rng,
                        struct attention_result *result) {
    const struct heed_exec exec = {.isa = any_isa(rng), .threads = any_threads(rng)};
    struct tensor output = tensor_output((int64_t[]){1, r->num_heads, queries, r->value_dim},
                                         (enum layout)rng_range(rng, 0, LAYOUTS - 1), any_placement(rng));
    struct tensor lse =
        tensor_output((int64_t[]){1, r->num_heads, queries, 1}, (enum layout)rng_range(rng, 0, LAYOUTS - 1), any_placement(rng));
    struct heed_merge merge = {.batch = 1,
                               .num_heads = r->num_heads,
                               .query_tokens = queries,
                               .value_dim = r->value_dim,
                               .parts = split->parts,
                               .part = split->merged,
                               .sinks = r->sinks,
                               .compute = r->compute,
                               .output = as_output(&output),
                               .lse = as_output(&lse)};
    if (heed_merge_states(&merge, &exec) != HEED_OK)
        must(heed_error_message());
    must(tensor_take(&output, result->part[OUTPUT]));
    must(tensor_take(&lse, result->part[LSE]));
    tensor_free(&output);
    tensor_free(&lse);
}

/* Any split of the keys at multiples of 256, each part with strides, caches and threads of its own, merges to the unsplit result.
 */
START_TEST(test_options_split_keys) {
    struct rng rng = rng_for("split keys", _i);
    for (int64_t repeat = 0; repeat < test_count(100); repeat++) {
        struct attention_case c = random_whole(&rng);
        struct attention_result whole = new_attention_result(&c);
        const struct attention_way way = random_way(&rng);
        describe_attention(&c, "attention before its split", &way.exec);
        run_attention_way(&c, &way, &rng, &whole);
        const int64_t b = rng_range(&rng, 0, c.request.batch - 1), queries = ref_sequence_of(&c.request, b).queries;
        struct split split;
        split_keys(&split, &c, b, &rng);
        struct attention_case merged = attention_slice(&c, &(struct slice){b, 0, queries, 0, 0});
        struct attention_result got = new_attention_result(&merged);
        for (int part = 0; part < RESULT_PARTS; part++)
            merged.wants[part] = part == OUTPUT || part == LSE;
        describe_attention(&c, "merged states", &way.exec);
        merge_split(&split, &c.request, queries, &rng, &got);
        round_output(&merged, &got);
        for (int64_t h = 0; h < c.request.num_heads; h++)
            for (int64_t i = 0; i < queries; i++)
                must_equal_row(&merged, &got, ref_row(&merged.request, 0, h, i), &c, &whole, ref_row(&c.request, b, h, i));
        free_split(&split);
        free_attention_case(&merged);
        free_attention_case(&c);
        free_attention_result(&got);
        free_attention_result(&whole);
    }
}
END_TEST

/* --- Parts of the queries --- */

/* One query, as in decoding, or a run of them, as in chunked prefill. */
START_TEST(test_options_split_queries) {
    struct rng rng = rng_for("split queries", _i);
    for (int64_t repeat = 0; repeat < test_count(100); repeat++) {
        struct attention_case c = random_whole(&rng);
        struct attention_result whole = new_attention_result(&c);
        const struct attention_way way = random_way(&rng);
        describe_attention(&c, "attention before its split", &way.exec);
        run_attention_way(&c, &way, &rng, &whole);
        for (int64_t b = 0; b < c.request.batch; b++) {
            const struct ref_sequence s = ref_sequence_of(&c.request, b);
            if (s.queries == 0)
                continue;
            const int64_t first = rng_range(&rng, 0, s.queries - 1);
            const struct slice slice = {b, first, rng_range(&rng, 0, 1) ? 1 : rng_range(&rng, 1, s.queries - first), 0, s.keys};
            const struct attention_way other = random_way(&rng);
            struct attention_case part = attention_slice(&c, &slice);
            struct attention_result got = new_attention_result(&part);
            describe_attention(&part, "a part of the queries", &other.exec);
            run_attention_way(&part, &other, &rng, &got);
            for (int64_t h = 0; h < c.request.num_heads; h++)
                for (int64_t i = 0; i < slice.queries; i++)
                    must_equal_row(&part, &got, ref_row(&part.request, 0, h, i), &c, &whole, ref_row(&c.request, b, h, first + i));
            free_attention_case(&part);
            free_attention_result(&got);
        }
        free_attention_case(&c);
        free_attention_result(&whole);
    }
}
END_TEST

Suite *options_parts_suite(void) {
    Suite *suite = suite_create("options parts");
    TCase *tests = tcase_create("options parts");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_options_split_keys, 0, 2);
    tcase_add_loop_test(tests, test_options_split_queries, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}
