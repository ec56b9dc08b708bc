/* Packed sequences, of which those of few rows are computed apart: each has the bits that it has alone, and the memory of a plan is
 * enough for any lengths. */
#include "cache_sizes.h"
#include "harness.h"
#include "internal.h"
#include "suites.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 5, TOKENS = 48, KEYS = 700, WIDTH = 40, KV_HEADS = 2, GROUP = 3, HEADS = KV_HEADS * GROUP, ROW = HEADS * WIDTH };

/* Queries of each sequence, and whose workspace they take, of as many in all: few rows beside many, all in one sequence; and so few
 * in all that there are no others. */
static const struct {
    int64_t queries[BATCH];
    int planned;
} packed[] = {{{1, 43, 0, 3, 1}, 1},  {{10, 10, 10, 10, 8}, 2}, {{0, 0, 48, 0, 0}, 3}, {{1, 8, 9, 21, 9}, 4},
              {{22, 1, 1, 1, 23}, 0}, {{1, 2, 1, 0, 3}, 6},     {{0, 7, 0, 0, 0}, 7},  {{1, 1, 2, 2, 1}, 5}};
enum { LENGTHS = sizeof packed / sizeof *packed };
static const int64_t lengths[BATCH] = {700, 300, 17, 512, 650};

struct format {
    enum heed_type type;
    enum heed_compute compute;
};
static const struct format formats[] = {
    {HEED_F32, HEED_COMPUTE_F32}, {HEED_BF16, HEED_COMPUTE_F32},  {HEED_I8, HEED_COMPUTE_F32},       {HEED_F16, HEED_COMPUTE_BF16},
    {HEED_I8, HEED_COMPUTE_BF16}, {HEED_BF16, HEED_COMPUTE_BF16}, {HEED_BF16, HEED_COMPUTE_BF16_AMX}};
enum { FORMATS = sizeof formats / sizeof *formats };

static const struct heed_cache_sizes believed[] = {{0, 0}, {1, 1}}; /* the machine's; keys lie beyond them */

static struct heed_kv_cache new_cache(struct rng *rng, enum heed_type type) {
    struct heed_kv_cache cache = {.key_type = type,
                                  .value_type = type,
                                  .num_pages = BATCH,
                                  .page_tokens = round_up(KEYS, 16),
                                  .num_kv_heads = KV_HEADS,
                                  .head_dim = WIDTH,
                                  .value_dim = WIDTH,
                                  .pages_per_sequence = 1};
    const size_t bytes = (size_t)(BATCH * round_up(heed_kv_page_bytes(&cache), 64));
    cache.data = memset(aligned_alloc(64, bytes), 0xff, bytes); /* NaNs where nothing is appended */
    float *rows = new_filled(rng, FILL_NORMAL, (int64_t)BATCH * KEYS * KV_HEADS * WIDTH);
    const struct heed_input input = {rows, KEYS * KV_HEADS * WIDTH, WIDTH, KV_HEADS * WIDTH, HEED_F32};
    const int64_t positions[BATCH] = {0};
    const struct heed_kv_append append = {
        .cache = &cache, .batch = BATCH, .tokens = KEYS, .positions = positions, .key = input, .value = input};
    ck_assert_int_eq(heed_kv_append(&append, NULL), HEED_OK);
    free(rows);
    return cache;
}

static struct heed_attention request_of(const struct heed_kv_cache *cache, const float *query, const int64_t *starts,
                                        enum heed_compute compute, float *output) {
    return (struct heed_attention){.batch = BATCH,
                                   .num_heads = HEADS,
                                   .num_kv_heads = KV_HEADS,
                                   .query_tokens = starts ? starts[BATCH] : 1,
                                   .key_tokens = KEYS,
                                   .head_dim = WIDTH,
                                   .value_dim = WIDTH,
                                   .causal = true,
                                   .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                                   .compute = compute,
                                   .cache = cache,
                                   .query_starts = starts,
                                   .key_lengths = lengths,
                                   .query = {query, 0, WIDTH, ROW, HEED_F32},
                                   .output = {output, 0, WIDTH, ROW, HEED_F32},
                                   .lse = {output + TOKENS * ROW, 0, 1, HEADS, HEED_F32}};
}

/* Each sequence in a call of its own. */
static void attend_alone(const struct heed_attention *request, const char *isa) {
    for (int32_t b = 0; b < BATCH; b++) {
        struct heed_attention one = *request;
        struct heed_kv_cache cache = *request->cache;
        const int64_t first = request->query_starts[b];
        cache.page_table = &b;
        cache.table_stride = 1;
        one.cache = &cache;
        one.batch = 1;
        one.query_starts = NULL;
        one.query_tokens = request->query_starts[b + 1] - first;
        one.key_lengths = request->key_lengths + b;
        one.query.data = (const float *)request->query.data + first * ROW;
        one.output.data = (float *)request->output.data + first * ROW;
        one.lse.data = (float *)request->lse.data + first * HEADS;
        ck_assert_int_eq(heed_attention(&one, &(struct heed_exec){.isa = isa, .threads = 1}), HEED_OK);
    }
}

static void find_starts(int lengths_of, int64_t *starts) {
    starts[0] = 0;
    for (int b = 0; b < BATCH; b++)
        starts[b + 1] = starts[b] + packed[lengths_of].queries[b];
}

/* In the memory that other lengths were planned with. */
static void attend_planned(const struct heed_attention *request, const struct heed_exec *exec, int planned) {
    int64_t starts[BATCH + 1];
    struct heed_attention other = *request;
    struct heed_plan plan;
    find_starts(planned, starts);
    other.query_starts = starts;
    ck_assert_int_eq(heed_attention_plan(&other, exec, &plan), HEED_OK);
    void *workspace = aligned_alloc(64, (size_t)round_up(plan.workspace_bytes, 64));
    ck_assert_int_eq(heed_attention_run(&plan, request, workspace), HEED_OK);
    free(workspace);
}

/* In emulators each table has some of the formats, all tables together have all, and each format half of the lengths. */
static int quick_step(int step) { return test_quick() ? step : 1; }

static void check_packed(const struct heed_kv_cache *cache, const float *query, const struct format *format, const char *isa) {
    const int64_t floats = TOKENS * (ROW + HEADS);
    float *want = new_floats(floats), *got = new_floats(floats);
    int64_t starts[BATCH + 1];
    for (int i = (int)(format - formats) % quick_step(2); i < LENGTHS; i += quick_step(2)) {
        find_starts(i, starts);
        const struct heed_attention apart = request_of(cache, query, starts, format->compute, want);
        const struct heed_attention all = request_of(cache, query, starts, format->compute, got);
        attend_alone(&apart, isa);
        for (int threads = test_quick() ? 3 : 1; threads <= 3; threads += 2) {
            describe("attention", isa, "packed, lengths %d, type %d, compute %d, %d threads", i, (int)format->type,
                     (int)format->compute, threads);
            memset(got, 0xff, (size_t)floats * sizeof *got);
            attend_planned(&all, &(struct heed_exec){.isa = isa, .threads = threads}, packed[i].planned);
            must(compare(SAME_BITS, got, want, starts[BATCH], ROW));
            must(compare(SAME_BITS, got + TOKENS * ROW, want + TOKENS * ROW, starts[BATCH], HEADS));
        }
    }
    free(want);
    free(got);
}

START_TEST(test_packed_sequences_are_as_each_alone) {
    struct rng rng = rng_for("packed sequences", _i);
    float *query = new_filled(&rng, FILL_NORMAL, TOKENS * ROW);
    const int step = quick_step(smaller(usable_tables(), 3));
    for (int f = _i % step; f < FORMATS; f += step) {
        const struct heed_kv_cache cache = new_cache(&rng, formats[f].type);
        for (size_t i = test_quick() ? 1 : 0; i < sizeof believed / sizeof *believed; i++) {
            heed_cache_sizes_set(believed[i], 0);
            check_packed(&cache, query, &formats[f], heed_kernels_usable(_i)->name);
        }
        heed_cache_sizes_set(believed[0], 0);
        free(cache.data);
    }
    free(query);
}
END_TEST

/* As many tasks as there are heads, and as many again. */
START_TEST(test_few_rows_are_planned_apart) {
    struct rng rng = rng_for("few rows apart", 0);
    const struct heed_kv_cache cache = new_cache(&rng, HEED_BF16);
    float *query = new_floats(TOKENS * ROW), *output = new_floats(TOKENS * (ROW + HEADS));
    int64_t starts[BATCH + 1];
    struct heed_plan plan;
    char text[4096];
    find_starts(0, starts);
    const struct heed_attention request = request_of(&cache, query, starts, HEED_COMPUTE_F32, output);
    ck_assert_int_eq(heed_attention_plan(&request, &(struct heed_exec){.threads = 1}, &plan), HEED_OK);
    ck_assert_int_eq(plan.tasks, 2 * BATCH * KV_HEADS);
    ck_assert_int_lt(heed_explain(&plan, text, sizeof text), sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "rows: of sequences with few"));
    free(query);
    free(output);
    free(cache.data);
}
END_TEST

/* One long sequence among short ones, as a batch: workers share its keys, with memory that is enough for any lengths. */
START_TEST(test_long_sequence_is_shared) {
    struct rng rng = rng_for("long sequence", _i);
    const struct heed_kv_cache cache = new_cache(&rng, HEED_BF16);
    const char *isa = heed_kernels_usable(_i)->name;
    const int64_t alike[BATCH] = {300, 300, 300, 300, 300}, starts[BATCH + 1] = {0, 1, 2, 3, 4, 5};
    const int64_t unlike[][BATCH] = {{700, 17, 5, 0, 40}, {1, 1, 1, 1, 600}};
    float *query = new_filled(&rng, FILL_NORMAL, TOKENS * ROW);
    float *want = new_floats(TOKENS * (ROW + HEADS)), *got = new_floats(TOKENS * (ROW + HEADS));
    struct heed_attention apart = request_of(&cache, query, starts, HEED_COMPUTE_F32, want);
    struct heed_attention batch = request_of(&cache, query, NULL, HEED_COMPUTE_F32, got);
    batch.query.batch_stride = batch.output.batch_stride = ROW;
    batch.lse.batch_stride = HEADS;
    for (int i = 0; i < 2; i++) {
        apart.key_lengths = unlike[i];
        attend_alone(&apart, isa);
        for (int threads = 1; threads <= 8; threads++) {
            const struct heed_exec exec = {.isa = isa, .threads = threads};
            struct heed_plan even, uneven;
            describe("attention", isa, "lengths %d, %d threads", i, threads);
            batch.key_lengths = alike;
            ck_assert_int_eq(heed_attention_plan(&batch, &exec, &even), HEED_OK);
            batch.key_lengths = unlike[i];
            ck_assert_int_eq(heed_attention_plan(&batch, &exec, &uneven), HEED_OK);
            ck_assert_int_eq(uneven.workspace_bytes, even.workspace_bytes);
            ck_assert(threads != 2 || uneven.tasks == 2 * even.tasks);
            memset(got, 0xff, (size_t)(TOKENS * (ROW + HEADS)) * sizeof *got);
            void *workspace = aligned_alloc(64, (size_t)round_up(even.workspace_bytes, 64));
            ck_assert_int_eq(heed_attention_run(&even, &batch, workspace), HEED_OK);
            free(workspace);
            must(compare(SAME_BITS, got, want, BATCH, ROW));
            must(compare(SAME_BITS, got + TOKENS * ROW, want + TOKENS * ROW, BATCH, HEADS));
        }
    }
    free(query);
    free(want);
    free(got);
    free(cache.data);
}
END_TEST

Suite *attention_packed_suite(void) {
    Suite *suite = suite_create("attention_packed");
    TCase *tests = tcase_create("attention_packed");
    tcase_add_test(tests, test_few_rows_are_planned_apart);
    tcase_add_loop_test(tests, test_packed_sequences_are_as_each_alone, 0, usable_tables());
    tcase_add_loop_test(tests, test_long_sequence_is_shared, 0, usable_tables());
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}
