/* heed_kv_append: every byte that it writes and none that it must not, in all ways to cut the work; refusals. */
#include "harness_kv.h"
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float *new_poison(int64_t n) {
    const uint32_t bits = POISON;
    float *x = new_floats(n);
    for (int64_t i = 0; i < n; i++)
        memcpy(x + i, &bits, sizeof bits);
    return x;
}

START_TEST(test_kv_append_bytes) {
    const char *isa = heed_kernels_usable(_i)->name;
    struct rng rng = rng_for("kv_append", 0);
    for (int64_t repeat = 0; repeat < test_count(250); repeat++) {
        struct append_case c = any_append_case(&rng);
        const int64_t floats = kv_cache_floats(&c.cache);
        float *got = new_floats(floats), *want = new_poison(floats);
        describe_append(&c, isa);
        ck_assert_int_eq(heed_kv_page_bytes(&c.cache) * c.cache.num_pages, 4 * floats);
        run_append(&c, &(struct heed_exec){.isa = isa, .threads = any_threads(&rng)}, &rng, got);
        append_plainly(&c, want);
        must(compare(SAME_BITS, got, want, 1, floats));
        free(got);
        free(want);
        free_append_case(&c);
    }
}
END_TEST

/* The tokens of each sequence in pieces of random size, one after another. */
static void append_in_pieces(struct rng *rng, struct append_case *c, int64_t most, float *data) {
    struct heed_kv_append append = c->append;
    struct heed_kv_cache cache = c->cache;
    const int64_t heads = cache.num_kv_heads, tokens = append.tokens;
    cache.data = data;
    append.cache = &cache;
    append.rope.cos = c->cos;
    append.rope.sin = c->sin;
    for (int64_t t = 0; t < tokens; t += append.tokens) {
        int64_t *positions = malloc((size_t)(append.batch + 1) * sizeof *positions);
        ck_assert_ptr_nonnull(positions);
        for (int64_t b = 0; b < append.batch; b++)
            positions[b] = t + (c->append.positions ? c->append.positions[b] : 0);
        append.positions = positions;
        append.tokens = rng_range(rng, 1, most < tokens - t ? most : tokens - t);
        append.key = (struct heed_input){c->key + t * cache.head_dim, heads * tokens * cache.head_dim, tokens * cache.head_dim,
                                         cache.head_dim, HEED_F32};
        append.value = (struct heed_input){c->value + t * cache.value_dim, heads * tokens * cache.value_dim,
                                           tokens * cache.value_dim, cache.value_dim, HEED_F32};
        ck_assert_msg(heed_kv_append(&append, NULL) == HEED_OK, "%s", heed_error_message());
        free(positions);
    }
}

START_TEST(test_kv_append_in_pieces) {
    struct rng rng = rng_for("kv_pieces", 0);
    for (int64_t repeat = 0; repeat < test_count(150); repeat++) {
        struct append_case c = any_append_case(&rng);
        if (!c.append.starts) {
            const int64_t floats = kv_cache_floats(&c.cache), most = rng_range(&rng, 0, 1) ? 1 : 40;
            float *got = new_poison(floats), *want = new_poison(floats);
            describe_append(&c, "pieces");
            append_in_pieces(&rng, &c, most, got);
            append_plainly(&c, want);
            must(compare(SAME_BITS, got, want, 1, floats));
            free(got);
            free(want);
        }
        free_append_case(&c);
    }
}
END_TEST

/* Against the definition in double: two roundings, of x * s and of the sum. */
START_TEST(test_kv_append_rope_accuracy) {
    enum { PAIRS = 24, DIM = 2 * PAIRS + 5, TOKENS = 32 };
    static float key[TOKENS * DIM], value[TOKENS], cos[TOKENS * PAIRS], sin[TOKENS * PAIRS];
    struct rng rng = rng_for("kv_rope", 0);
    fill(&rng, FILL_NORMAL, key, TOKENS * DIM);
    for (int i = 0; i < TOKENS * PAIRS; i++) {
        const double angle = i / PAIRS * pow(10000, -(double)(i % PAIRS) / PAIRS);
        cos[i] = (float)__builtin_cos(angle);
        sin[i] = (float)__builtin_sin(angle);
    }
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct heed_kv_cache cache = {
            .num_pages = 1, .page_tokens = TOKENS, .num_kv_heads = 1, .head_dim = DIM, .value_dim = 1, .pages_per_sequence = 1};
        const struct heed_kv_append append = {.batch = 1,
                                              .tokens = TOKENS,
                                              .rope = {PAIRS, cos, sin, PAIRS, TOKENS, interleaved},
                                              .key = {key, 0, 0, DIM, HEED_F32},
                                              .value = {value, 0, 0, 1, HEED_F32},
                                              .cache = &cache};
        struct accuracy accuracy = {0};
        cache.data = new_floats(kv_cache_floats(&cache));
        describe("rope", "best", "%s", interleaved ? "interleaved" : "half-split");
        ck_assert_msg(heed_kv_append(&append, NULL) == HEED_OK, "%s", heed_error_message());
        for (int t = 0; t < TOKENS; t++)
            for (int i = 0; i < PAIRS; i++) {
                const int a = interleaved ? 2 * i : i, b = interleaved ? a + 1 : a + PAIRS;
                const double x = key[t * DIM + a], y = key[t * DIM + b], c = cos[t * PAIRS + i], s = sin[t * PAIRS + i];
                const double want[] = {x * c - y * s, y * c + x * s}, inner[] = {fabs(y * s), fabs(x * s)};
                const float got[] = {kv_get(kv_key_at(&cache, 0, 0, t, a)), kv_get(kv_key_at(&cache, 0, 0, t, b))};
                for (int j = 0; j < 2; j++)
                    must(accuracy_add(&accuracy, got[j], want[j], 0x1.01p-24 * (inner[j] + fabs(want[j])) + 0x1p-149, 0));
            }
        free(cache.data);
    }
}
END_TEST

static int three(void *pool) {
    (void)pool;
    return 3;
}

static void run_backwards(void *pool, int count, void (*task)(void *context, int index), void *context) {
    *(int *)pool += count;
    while (count-- > 0)
        task(context, count);
}

START_TEST(test_kv_append_threads) {
    struct rng rng = rng_for("kv_threads", 0);
    int64_t starts[] = {0, 100, 100, 101, 700}, positions[] = {5, 0, 700, 1000};
    struct append_case c = {.append = {.batch = 4, .tokens = 700, .starts = starts, .positions = positions}};
    c.cache = (struct heed_kv_cache){
        .num_pages = 32, .page_tokens = 48, .num_kv_heads = 3, .head_dim = 64, .value_dim = 48, .pages_per_sequence = 8};
    const int64_t floats = kv_cache_floats(&c.cache);
    float *want = new_poison(floats), *got = new_floats(floats);
    c.key = new_filled(&rng, FILL_NORMAL, 700 * 3 * c.cache.head_dim);
    c.value = new_filled(&rng, FILL_NORMAL, 700 * 3 * c.cache.value_dim);
    append_plainly(&c, want);
    for (int threads = 1; threads <= 8; threads++) {
        describe_append(&c, "threads");
        run_append(&c, &(struct heed_exec){.threads = threads}, &rng, got);
        must(compare(SAME_BITS, got, want, 1, floats));
    }
    int used = 0;
    run_append(&c, &(struct heed_exec){.pool = &used, .num_threads = three, .run = run_backwards}, &rng, got);
    must(compare(SAME_BITS, got, want, 1, floats));
    ck_assert_int_eq(used, 3);
    free(c.key);
    free(c.value);
    free(want);
    free(got);
}
END_TEST

/* Pages of 16: the prefix of sequence 0 is 24 tokens, page 3 and half of page 1; heed.h says how to fork and how to truncate. */
START_TEST(test_kv_cache_fork_and_truncate) {
    enum { DIM = 5, TOKENS = 24 };
    int32_t table[2][2] = {{3, 1}, {-1, -1}};
    int64_t positions[] = {0, TOKENS};
    float x[2 * TOKENS * DIM];
    struct rng rng = rng_for("kv_fork", 0);
    fill(&rng, FILL_NORMAL, x, 2 * TOKENS * DIM);
    struct heed_kv_cache cache = {.num_pages = 4,
                                  .page_tokens = 16,
                                  .num_kv_heads = 1,
                                  .head_dim = DIM,
                                  .value_dim = DIM,
                                  .pages_per_sequence = 2,
                                  .page_table = table[0],
                                  .table_stride = 2};
    struct heed_kv_append append = {.batch = 1,
                                    .tokens = TOKENS,
                                    .positions = positions,
                                    .key = {x, 0, 0, DIM, HEED_F32},
                                    .value = {x, 0, 0, DIM, HEED_F32},
                                    .cache = &cache};
    const int64_t page = heed_kv_page_bytes(&cache) / (int64_t)sizeof(float);
    float *data = new_poison(4 * page);
    cache.data = data;
    ck_assert_int_eq(heed_kv_append(&append, NULL), HEED_OK);
    table[1][0] = table[0][0];
    table[1][1] = 2;
    memcpy(data + 2 * page, data + page, (size_t)page * sizeof *data);
    const uint64_t shared = hash_floats(data + 3 * page, page), unused = hash_floats(data, page);
    /* sequence 0 is truncated to 20 tokens; both go on with the four tokens at 30 and 34 */
    positions[0] = 20;
    append.batch = 2;
    append.tokens = 4;
    append.key = append.value = (struct heed_input){x + 30 * DIM, 4 * DIM, 0, DIM, HEED_F32};
    ck_assert_int_eq(heed_kv_append(&append, NULL), HEED_OK);
    ck_assert(hash_floats(data + 3 * page, page) == shared && hash_floats(data, page) == unused);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t t = 0; t < positions[b] + 4; t++)
            for (int64_t d = 0; d < DIM; d++) {
                const float want = x[(t < positions[b] ? t : 30 + 4 * b + t - positions[b]) * DIM + d];
                ck_assert_float_eq(kv_get(kv_key_at(&cache, b, 0, t, d)), want);
                ck_assert_float_eq(kv_get(kv_value_at(&cache, b, 0, t, d)), want);
            }
    free(data);
}
END_TEST

START_TEST(test_kv_page_bytes) {
    struct heed_kv_cache c = {.page_tokens = 48, .num_kv_heads = 3, .head_dim = 5, .value_dim = 17};
    ck_assert_int_eq(heed_kv_page_bytes(&c), 3 * 48 * (5 + 32) * 4);
    c.key_type = HEED_BF16;
    ck_assert_int_eq(heed_kv_page_bytes(&c), 3 * (8 * 64 + 48 * 32 * 4)); /* 480 bytes of keys are 8 lines */
    c.value_type = HEED_F16;
    ck_assert_int_eq(heed_kv_page_bytes(&c), 3 * (8 * 64 + 48 * 32 * 2));
    c.key_type = HEED_I8;
    ck_assert_int_eq(heed_kv_page_bytes(&c), 3 * (4 * 64 + 48 * 4 + 48 * 32 * 2)); /* and 240 are 4 */
    c.value_type = HEED_I8;
    ck_assert_int_eq(heed_kv_page_bytes(&c), 3 * (4 * 64 + 48 * 4 + 48 * 32 + 48 * 4));
    ck_assert_int_eq(heed_kv_page_bytes(NULL), -1);
    c.key_type = c.value_type = HEED_F32;
    struct heed_kv_cache bad[] = {c, c, c, c, c, c, c, c, c};
    bad[0].page_tokens = 0;
    bad[1].page_tokens = 40;
    bad[2].num_kv_heads = -1;
    bad[3].head_dim = 0;
    bad[4].value_dim = (int64_t)INT32_MAX + 1;
    bad[5].page_tokens = INT64_MAX - 15;
    bad[6].num_kv_heads = INT64_MAX / 48 / 37 / 4 + 1;
    bad[7].key_type = (enum heed_type) - 1;
    bad[8].value_type = (enum heed_type)99;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(heed_kv_page_bytes(&bad[i]) == -1, "cache %zu", i);
    c.num_kv_heads = 0;
    ck_assert_int_eq(heed_kv_page_bytes(&c), 0);
}
END_TEST

/* --- Refusals: a legal append to a paged cache of two sequences, all of it in `memory` --- */

enum {
    KEY = 0,
    VALUE = KEY + 2 * 2 * 3 * 4,
    COS = VALUE + 2 * 2 * 3 * 6,
    SIN = COS + 66,
    DATA = SIN + 66,
    PAGE = 2 * 16 * (4 + 16)
};
static float memory[DATA + 4 * PAGE];
static const int64_t positions[] = {30, 7}, starts[] = {0, 1, 3};
static const int32_t page_table[] = {3, 0, 99, 2, 1, 99};
static struct heed_kv_cache legal_cache;

static struct heed_kv_append legal_append(void) {
    legal_cache = (struct heed_kv_cache){memory + DATA, HEED_F32, HEED_F32, 4, 16, 2, 4, 6, 2, page_table, 3, NULL};
    return (struct heed_kv_append){.batch = 2,
                                   .tokens = 3,
                                   .positions = positions,
                                   .rope = {2, memory + COS, memory + SIN, 2, 33, false},
                                   .key = {memory + KEY, 24, 12, 4, HEED_F32},
                                   .value = {memory + VALUE, 36, 18, 6, HEED_F32},
                                   .cache = &legal_cache};
}

static uint64_t hash_before;

static void must_refuse(const struct heed_kv_append *r, const char *message, const char *request) {
    ck_assert_msg(heed_kv_append(r, NULL) == HEED_INVALID_ARGUMENT, "%s: not refused", request);
    ck_assert_msg(strncmp(heed_error_message(), message, strlen(message)) == 0, "%s: \"%s\"", request, heed_error_message());
    ck_assert_msg(hash_floats(memory, DATA + 4 * PAGE) == hash_before, "%s: touched memory", request);
}

/* What is changed in the legal request r or its cache c, and how the message begins. */
#define REFUSED(change, message)                                                                                                   \
    do {                                                                                                                           \
        struct heed_kv_append r = legal_append();                                                                                  \
        struct heed_kv_cache *c = &legal_cache;                                                                                    \
        change;                                                                                                                    \
        (void)c;                                                                                                                   \
        must_refuse(&r, message, #change);                                                                                         \
    } while (0)
#define ACCEPTED(change)                                                                                                           \
    do {                                                                                                                           \
        struct heed_kv_append r = legal_append();                                                                                  \
        struct heed_kv_cache *c = &legal_cache;                                                                                    \
        change;                                                                                                                    \
        (void)c;                                                                                                                   \
        ck_assert_msg(heed_kv_append(&r, NULL) == HEED_OK, #change ": %s", heed_error_message());                                  \
    } while (0)

static void *misaligned(const void *p) { return (void *)((uintptr_t)p + 1); }

START_TEST(test_kv_append_refuses_caches) {
    hash_before = hash_floats(memory, DATA + 4 * PAGE);
    must_refuse(NULL, "append is NULL", "NULL");
    REFUSED(r.cache = NULL, "cache is NULL");
    REFUSED(c->page_tokens = 0, "cache.page_tokens is 0, must be at least 16");
    REFUSED(c->page_tokens = 17, "cache.page_tokens is 17, must be a multiple of 16");
    REFUSED(c->page_tokens = INT64_MAX - 15, "cache.pages_per_sequence is 2, times page_tokens it overflows");
    REFUSED((c->page_tokens = INT64_MAX - 15, c->pages_per_sequence = 1), "cache.page_tokens is 9223372036854775792, a page");
    REFUSED(c->num_pages = -1, "cache.num_pages is -1");
    REFUSED(c->num_pages = INT64_MAX, "cache.data is too large");
    REFUSED(c->num_kv_heads = -2, "cache.num_kv_heads is -2");
    REFUSED(c->head_dim = 0, "cache.head_dim is 0");
    REFUSED(c->value_dim = (int64_t)1 << 31, "cache.value_dim is 2147483648");
    REFUSED(c->pages_per_sequence = -1, "cache.pages_per_sequence is -1");
    REFUSED(c->pages_per_sequence = 0, "cache.pages_per_sequence is 0, must be at least 1");
    REFUSED(c->table_stride = -3, "cache.table_stride is -3");
    REFUSED(c->table_stride = INT64_MAX, "cache.page_table is too large");
    REFUSED((c->page_table = NULL, c->num_pages = 3), "cache.num_pages is 3, must be at least 2 x 2");
    REFUSED(c->page_table = misaligned(page_table), "cache.page_table is");
    REFUSED(c->num_pages = 3, "cache.page_table[0][0] is 3, must be in [0, 3)");
    REFUSED(c->pages_per_sequence = 3, "cache.page_table[0][2] is 99");
    REFUSED(c->key_type = (enum heed_type)99, "cache.key_type is 99, must be HEED_F32, HEED_BF16, HEED_F16 or HEED_I8");
    REFUSED(c->value_type = (enum heed_type) - 3, "cache.value_type is -3, must be HEED_F32, HEED_BF16, HEED_F16 or HEED_I8");
    REFUSED(c->data = NULL, "cache.data is NULL");
    REFUSED(c->data = misaligned(memory + DATA), "cache.data is");
    REFUSED(c->data = memory + KEY, "cache.data (at");
    REFUSED(c->data = memory + DATA - 1, "cache.data (at");
    REFUSED(c->page_table = (int32_t *)(void *)(memory + DATA), "cache.data (at");
}
END_TEST

START_TEST(test_kv_append_refuses_tokens) {
    static const int64_t negative[] = {0, -1}, far[] = {0, INT64_MAX - 2}, falling[] = {2, 1, 3}, beyond[] = {0, 1, 4};
    hash_before = hash_floats(memory, DATA + 4 * PAGE);
    REFUSED(r.batch = -1, "batch is -1");
    REFUSED(r.batch = INT64_MAX, "batch is 9223372036854775807");
    REFUSED(r.tokens = -3, "tokens is -3");
    REFUSED(r.tokens = INT64_MAX / 3, "tokens is 3074457345618258602, times batch");
    REFUSED(r.positions = negative, "positions[1] is -1");
    REFUSED((r.positions = far, r.rope.pairs = 0), "positions[1] is 9223372036854775805");
    REFUSED(r.positions = misaligned(positions), "positions is");
    REFUSED(r.starts = misaligned(starts), "starts is");
    REFUSED(r.starts = falling, "starts[1] is 1, must be at least 2");
    REFUSED(r.starts = negative + 1, "starts[0] is -1");
    REFUSED(r.starts = beyond, "starts[2] is 4, must be at most 3");
    REFUSED(r.positions = (int64_t *)(void *)(memory + DATA), "cache.data (at");
    REFUSED(r.key.type = (enum heed_type)99, "key.type is 99, must be HEED_F32, HEED_BF16 or HEED_F16");
    REFUSED(r.value.type = HEED_I8, "value.type is 3 (i8), must be HEED_F32, HEED_BF16 or HEED_F16");
    REFUSED(r.key.data = NULL, "key is NULL");
    REFUSED(r.value.data = NULL, "value is NULL");
    REFUSED(r.key.data = misaligned(memory), "key is");
    REFUSED(r.key.token_stride = -4, "key.token_stride is -4");
    REFUSED(r.value.head_stride = INT64_MAX, "value is too large");
    REFUSED(r.value.data = memory + DATA + 4 * PAGE - 1, "cache.data (at");
    REFUSED(r.rope.pairs = -1, "rope.pairs is -1");
    REFUSED(r.rope.pairs = 3, "rope.pairs is 3, must be at most 2");
    REFUSED(r.rope.table_stride = 1, "rope.table_stride is 1, must be at least 2");
    REFUSED(r.rope.positions = -1, "rope.positions is -1");
    REFUSED(r.rope.positions = 32, "rope.positions is 32, must be at least 33 for sequence 0");
    REFUSED(r.rope.cos = NULL, "rope.cos is NULL");
    REFUSED(r.rope.sin = misaligned(memory + SIN), "rope.sin is");
    REFUSED(r.rope.sin = memory + DATA, "cache.data (at");
}
END_TEST

START_TEST(test_kv_append_legal) {
    ACCEPTED((void)0);
    ACCEPTED(r.key.data = r.value.data);
    ACCEPTED(r.starts = starts);
    ACCEPTED((r.key.type = HEED_BF16, r.value.type = HEED_F16, c->key_type = HEED_F16, c->value_type = HEED_BF16));
    ACCEPTED((c->key_type = HEED_I8, c->value_type = HEED_I8));
    ACCEPTED((r.batch = 0, r.key.data = r.value.data = NULL, r.rope.cos = NULL, c->data = NULL, c->num_pages = 0));
    ACCEPTED((r.tokens = 0, r.key.data = r.value.data = NULL, c->pages_per_sequence = 0));
    ACCEPTED((r.tokens = 0, r.batch = INT64_MAX - 1, c->table_stride = 0, r.positions = NULL));
    ACCEPTED((c->num_kv_heads = 0, r.key.data = r.value.data = NULL));
    ACCEPTED((r.rope = (struct heed_rope_tables){.positions = -1}, (void)0));
    ACCEPTED((r.positions = NULL, c->page_table = NULL));
}
END_TEST

static bool always(void *context) {
    (void)context;
    return true;
}

START_TEST(test_kv_append_cancelled) {
    const struct heed_kv_append r = legal_append();
    ck_assert_int_eq(heed_kv_append(&r, &(struct heed_exec){.cancelled = always}), HEED_CANCELLED);
    ck_assert_int_eq(heed_kv_append(&r, &(struct heed_exec){.threads = -1}), HEED_INVALID_ARGUMENT);
    ck_assert_int_eq(heed_kv_append(&r, &(struct heed_exec){.isa = "none"}), HEED_UNSUPPORTED_ISA);
}
END_TEST

Suite *kv_cache_suite(void) {
    Suite *suite = suite_create("kv_cache");
    TCase *tests = tcase_create("kv_cache");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_kv_append_bytes, 0, usable_tables());
    tcase_add_test(tests, test_kv_append_in_pieces);
    tcase_add_test(tests, test_kv_append_rope_accuracy);
    tcase_add_test(tests, test_kv_append_threads);
    tcase_add_test(tests, test_kv_cache_fork_and_truncate);
    tcase_add_test(tests, test_kv_page_bytes);
    tcase_add_test(tests, test_kv_append_refuses_caches);
    tcase_add_test(tests, test_kv_append_refuses_tokens);
    tcase_add_test(tests, test_kv_append_legal);
    tcase_add_test(tests, test_kv_append_cancelled);
    suite_add_tcase(suite, tests);
    return suite;
}
