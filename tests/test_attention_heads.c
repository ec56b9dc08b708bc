/* Heads whose rows lie side by side in tokens, as projections leave them: few rows take them together, chunk by chunk, with the
 * bits that each head has alone. */
#include "cache_sizes.h"
#include "harness.h"
#include "suites.h"

#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 2,
    KEYS = 700,
    MOST_WIDTH = 48,
    MOST_HEADS = 2 * 19,
    MOST_QUERIES = 3,
    MOST_ROWS = BATCH * MOST_HEADS * MOST_QUERIES
};

struct heads {
    int64_t kv_heads, group, queries, width;
    enum heed_type type;
};

/* More heads than are taken at once, fewer than there are threads, and numbers that threads do not divide; and such as take turns
 * where caches are small. */
static const struct heads shapes[] = {{2, 1, 1, 40, HEED_F32},  {2, 4, 3, 48, HEED_BF16}, {5, 2, 2, 40, HEED_F16},
                                      {16, 1, 2, 48, HEED_F32}, {17, 2, 1, 40, HEED_F16}, {19, 2, 3, 40, HEED_F32},
                                      {2, 4, 1, 48, HEED_F32},  {17, 2, 1, 48, HEED_F32}, {16, 1, 1, 32, HEED_F32}};
static const struct heed_cache_sizes believed[] = {{0, 0}, {1, 1}}; /* the machine's; keys lie beyond them */

static const int64_t lengths[BATCH] = {KEYS, 300};

static struct heed_attention request_of(const struct heads *heads, const float *query, const void *stored, float *output,
                                        float *lse) {
    const int64_t kv = heads->kv_heads, all = kv * heads->group, queries = heads->queries, width = heads->width;
    const struct heed_input rows = {stored, KEYS * kv * width, width, kv * width, heads->type};
    return (struct heed_attention){.batch = BATCH,
                                   .num_heads = all,
                                   .num_kv_heads = kv,
                                   .query_tokens = queries,
                                   .key_tokens = KEYS,
                                   .head_dim = width,
                                   .value_dim = width,
                                   .causal = true,
                                   .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                                   .window = {.on = true, .left = 500, .right = -1},
                                   .key_lengths = lengths,
                                   .query = {query, queries * all * width, width, all * width, HEED_F32},
                                   .key = rows,
                                   .value = rows,
                                   .output = {output, queries * all * width, width, all * width, HEED_F32},
                                   .lse = {lse, queries * all, 1, all, HEED_F32}};
}

/* Key/value head `head`, and its query heads. */
static struct heed_attention alone(const struct heed_attention *request, int64_t head) {
    const int64_t group = request->num_heads / request->num_kv_heads, width = request->head_dim,
                  element = request->key.type == HEED_F32 ? 4 : 2;
    struct heed_attention one = *request;
    one.num_heads = group;
    one.num_kv_heads = 1;
    one.query.data = (const float *)request->query.data + head * group * width;
    one.key.data = one.value.data = (const char *)request->key.data + head * width * element;
    one.output.data = (float *)request->output.data + head * group * width;
    one.lse.data = (float *)request->lse.data + head * group;
    return one;
}

static void check_heads(const struct heads *heads, const float *query, const void *stored, const char *isa) {
    enum { FLOATS = MOST_ROWS * (MOST_WIDTH + 1) };
    const int64_t rows = BATCH * heads->queries * heads->kv_heads * heads->group, outputs = rows * heads->width;
    float *want = new_floats(FLOATS), *got = new_floats(FLOATS);
    const struct heed_attention apart = request_of(heads, query, stored, want, want + outputs);
    const struct heed_attention beside = request_of(heads, query, stored, got, got + outputs);
    for (int64_t head = 0; head < heads->kv_heads; head++) {
        const struct heed_attention one = alone(&apart, head);
        ck_assert_int_eq(heed_attention(&one, &(struct heed_exec){.isa = isa, .threads = 1}), HEED_OK);
    }
    for (int threads = 1; threads <= 7; threads += 2) {
        describe("attention", isa, "%d heads of %d rows side by side, %d threads", (int)heads->kv_heads,
                 (int)(heads->group * heads->queries), threads);
        memset(got, 0xff, FLOATS * sizeof *got);
        ck_assert_int_eq(heed_attention(&beside, &(struct heed_exec){.isa = isa, .threads = threads}), HEED_OK);
        must(compare(SAME_BITS, got, want, rows, heads->width));
        must(compare(SAME_BITS, got + outputs, want + outputs, rows, 1));
    }
    free(want);
    free(got);
}

START_TEST(test_heads_side_by_side_are_as_each_alone) {
    struct rng rng = rng_for("heads side by side", _i);
    const int64_t most = (int64_t)BATCH * KEYS * MOST_HEADS * MOST_WIDTH;
    float *query = new_filled(&rng, FILL_NORMAL, MOST_ROWS * MOST_WIDTH), *floats = new_filled(&rng, FILL_NORMAL, most);
    void *stored = new_floats(most);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ck_assert_int_eq(heed_convert(&(struct heed_convert){.rows = 1,
                                                             .columns = BATCH * KEYS * shapes[i].kv_heads * shapes[i].width,
                                                             .input = {floats, 0, 0, most, HEED_F32},
                                                             .output = {stored, 0, 0, most, shapes[i].type}},
                                      NULL),
                         HEED_OK);
        for (size_t belief = 0; belief < sizeof believed / sizeof *believed; belief++) {
            heed_cache_sizes_set(believed[belief], 0);
            check_heads(&shapes[i], query, stored, heed_kernels_usable(_i)->name);
        }
        heed_cache_sizes_set(believed[0], 0);
    }
    free(query);
    free(floats);
    free(stored);
}
END_TEST

START_TEST(test_heads_side_by_side_are_one_task) {
    const struct heads heads = {17, 2, 1, 40, HEED_F32};
    float *x = new_floats((int64_t)BATCH * KEYS * 17 * MOST_WIDTH), *y = new_floats(MOST_ROWS * (MOST_WIDTH + 1));
    struct heed_attention request = request_of(&heads, y, x, y, y + MOST_ROWS * MOST_WIDTH);
    request.query.data = x;
    struct heed_plan beside, apart;
    ck_assert_int_eq(heed_attention_plan(&request, &(struct heed_exec){.threads = 1}, &beside), HEED_OK);
    request.key.head_stride = KEYS * heads.width;
    request.key.token_stride = heads.width;
    request.value = request.key;
    ck_assert_int_eq(heed_attention_plan(&request, &(struct heed_exec){.threads = 1}, &apart), HEED_OK);
    ck_assert_int_eq(beside.tasks, 2 * BATCH);
    ck_assert_int_eq(apart.tasks, 17 * BATCH);
    ck_assert_int_eq(beside.workspace_bytes, apart.workspace_bytes); /* a plan serves any strides */
    free(x);
    free(y);
}
END_TEST

Suite *attention_heads_suite(void) {
    Suite *suite = suite_create("attention_heads");
    TCase *tests = tcase_create("attention_heads");
    tcase_add_test(tests, test_heads_side_by_side_are_one_task);
    tcase_add_loop_test(tests, test_heads_side_by_side_are_as_each_alone, 0, usable_tables());
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}
