/* Cache sizes, and what is quicker on which processor: plans follow them, bits do not. */
#include "cache_sizes.h"
#include "cpu.h"
#include "cpu_policy.h"
#include "harness.h"
#include "internal.h"
#include "stored.h"
#include "suites.h"
#include "types.h"
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a plan is made for: caches, of which 0 are the machine's; or a processor, by its family and model. */
static const struct belief {
    struct heed_cache_sizes sizes;
    unsigned family, model;
} believed[] = {
    {.sizes = {1, 1}},                               /* each block as small as can be */
    {.sizes = {32 << 10, 256 << 10}},                /* a laptop of 2013 */
    {.sizes = {48 << 10, 512 << 10}},                /* spans of k for groups of columns, of the many rows of products */
    {.sizes = {4 << 10, 64 << 10}},                  /* and of 20 rows */
    {.sizes = {INT64_C(1) << 40, INT64_C(1) << 40}}, /* one block for all */
    {.family = 25, .model = 1},                      /* Zen 3 */
    {.family = 25, .model = 17},                     /* Zen 4 */
    {.sizes = {1, 1}, .family = 25, .model = 17},    /* the same, from which all is far */
    {.family = 26, .model = 2},                      /* Zen 5 */
    {.family = 6, .model = 143},                     /* Sapphire Rapids */
    {.family = 1},                                   /* any other */
};
enum { BELIEFS = sizeof believed / sizeof *believed, SMALLEST = 0, LARGEST = 4 };

/* Emulators, and scalar kernels that call a function for each fma, have every other one, Zen 4 and 5 among them, whose plans are
 * the most unlike others; emulators also a few of the sizes below alone, for of all tests these took them longest. */
static int belief_step(const char *isa) { return test_quick() || strcmp(isa, "scalar") == 0 ? 2 : 1; }

static void believe(const struct belief *belief, int64_t shared) {
    heed_cache_sizes_set(belief->sizes, shared);
    heed_cpu_set_traits(belief->family ? heed_x86_traits(belief->family, belief->model) : HEED_TRAITS_OWN);
}

static void believe_the_machine(void) { believe(&(struct belief){.family = 0}, 0); }

START_TEST(test_cache_sizes_are_sane) {
    const struct heed_cache_sizes sizes = heed_cache_sizes(), again = heed_cache_sizes();
    ck_assert_int_ge(sizes.l1, 8 << 10);
    ck_assert_int_ge(sizes.l2, 64 << 10);
    ck_assert_int_gt(heed_cache_shared(), 0);
    ck_assert_int_eq(heed_cache_shared(), heed_cache_shared());
    ck_assert_mem_eq(&sizes, &again, sizeof sizes);
    believe(&believed[SMALLEST], 1);
    ck_assert_int_eq(heed_cache_sizes().l2, 1);
    ck_assert_int_eq(heed_cache_shared(), 1);
    believe_the_machine();
    ck_assert_int_eq(heed_cache_sizes().l2, sizes.l2);
}
END_TEST

START_TEST(test_cache_crowded) {
    heed_cache_sizes_set((struct heed_cache_sizes){32 << 10, 512 << 10}, 0);
    ck_assert(heed_cache_crowded(4096) && heed_cache_crowded(12288));
    ck_assert(!heed_cache_crowded(2048) && !heed_cache_crowded(4096 + 64));
    heed_cache_sizes_set((struct heed_cache_sizes){48 << 10, 512 << 10}, 0);
    ck_assert(!heed_cache_crowded(4096));
    believe_the_machine();
}
END_TEST

/* Larger than the smallest blocks in every direction; and as few rows as meet b in place, or wait for it if it is not in L2. */
enum {
    QUERIES = 210,
    FEW_QUERIES = 14,
    MORE_QUERIES = 32,
    KEYS = 560,
    WIDTH = 72,
    M = 170,
    MORE_ROWS = 20,
    FEW_ROWS = 15,
    FEWER_ROWS = 9,
    N = 330,
    K = 700
};

static struct heed_attention attention_of(int64_t queries, const float *x, float *y) {
    const struct heed_input input = {x, 0, (int64_t)KEYS * WIDTH, WIDTH, HEED_F32};
    return (struct heed_attention){.batch = 1,
                                   .num_heads = 2,
                                   .num_kv_heads = 1,
                                   .query_tokens = queries,
                                   .key_tokens = KEYS,
                                   .head_dim = WIDTH,
                                   .value_dim = WIDTH,
                                   .causal = true,
                                   .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                                   .query = input,
                                   .key = input,
                                   .value = input,
                                   .output = {y, 0, queries * WIDTH, WIDTH, HEED_F32}};
}

static void must_be_same(const char *what, const struct heed_exec *exec, const struct belief *belief, const float *got,
                         const float *want, int64_t rows, int64_t columns) {
    describe(what, exec->isa, "%d threads, caches of %lld, %lld bytes, family %u, model %u", exec->threads,
             (long long)belief->sizes.l1, (long long)belief->sizes.l2, belief->family, belief->model);
    must(compare(SAME_BITS, got, want, rows, columns));
}

static void check_attention(struct heed_attention request, const struct heed_exec *exec) {
    const int64_t queries = request.query_tokens;
    float *want = new_floats(2 * queries * WIDTH), *got = new_floats(2 * queries * WIDTH);
    request.output.data = want;
    ck_assert_int_eq(heed_attention(&request, exec), HEED_OK);
    request.output.data = got;
    for (int i = 0; i < BELIEFS; i += belief_step(exec->isa)) {
        believe(&believed[i], believed[i].sizes.l2);
        memset(got, 0xff, (size_t)(2 * queries * WIDTH) * sizeof *got); /* NaNs, not the results of other sizes */
        ck_assert_int_eq(heed_attention(&request, exec), HEED_OK);
        must_be_same("attention", exec, &believed[i], got, want, 2 * queries, WIDTH);
    }
    believe_the_machine();
    free(want);
    free(got);
}

/* A bias and a mask for each row, which are fetched where no cache holds them. */
static void check_terms(const float *x, enum heed_compute compute, const struct heed_exec *exec) {
    struct heed_attention request = attention_of(test_quick() ? MORE_QUERIES : QUERIES, x, NULL);
    request.compute = compute;
    request.bias = (struct heed_bias){x, 0, 1, KEYS, 1};
    request.mask = (struct heed_mask){(const uint8_t *)x, 0, 1, KEYS, 1};
    check_attention(request, exec);
}

static void check_gemm(int64_t m, const float *x, const struct heed_exec *exec, bool transpose_a, bool transpose_b, bool packed) {
    float *want = new_floats(m * N), *got = new_floats(m * N), *panels = new_floats((int64_t)round_up(N, HEED_PANEL) * K);
    struct heed_gemm gemm = {.m = m, .n = N, .k = K, .alpha = 1, .transpose_a = transpose_a, .transpose_b = transpose_b};
    gemm.a = x, gemm.lda = transpose_a ? m : K;
    gemm.b = x + 1, gemm.ldb = transpose_b ? K : N;
    gemm.c = want, gemm.ldc = N;
    ck_assert_int_eq(heed_gemm_pack_b(&gemm, panels, exec), HEED_OK);
    gemm.packed_b = packed ? panels : NULL;
    ck_assert_int_eq(heed_gemm(&gemm, exec), HEED_OK);
    gemm.c = got;
    for (int i = 0; i < BELIEFS; i += belief_step(exec->isa)) {
        believe(&believed[i], 0);
        memset(got, 0xff, (size_t)(m * N) * sizeof *got);
        ck_assert_int_eq(heed_gemm(&gemm, exec), HEED_OK);
        must_be_same("gemm", exec, &believed[i], got, want, m, N);
    }
    believe_the_machine();
    free(want);
    free(got);
    free(panels);
}

enum { FEW_N = 4 * HEED_PANEL + 1, FEW_K = 601 };

/* Rows, some of which wait for packed bf16, with work for several threads from 12 of them on; of floats, or of pairs. */
static void check_bf16(int64_t m, enum heed_compute compute, const float *x, const struct heed_exec *exec) {
    float *want = new_floats(m * FEW_N), *got = new_floats(m * FEW_N);
    uint16_t *b = malloc(sizeof *b * FEW_K * FEW_N),
             *panels = malloc(sizeof *b * (FEW_K + 1) * (size_t)round_up(FEW_N, HEED_PANEL));
    for (int64_t i = 0; i < FEW_K * FEW_N; i++)
        b[i] = half_of(HEED_BF16, x[i]);
    struct heed_gemm gemm = {.m = m, .n = FEW_N, .k = FEW_K, .alpha = 1, .b_type = HEED_BF16, .compute = compute};
    gemm.a = x, gemm.lda = FEW_K;
    if (m % 3 == 0) /* rows that are words as they are */
        gemm.a = b, gemm.a_type = HEED_BF16, gemm.k = gemm.lda = FEW_K - 1;
    gemm.b = b, gemm.ldb = FEW_N;
    gemm.c = want, gemm.ldc = FEW_N;
    ck_assert_int_eq(heed_gemm(&gemm, &(struct heed_exec){.isa = "scalar", .threads = 1}), HEED_OK);
    ck_assert_int_eq(heed_gemm_pack_b(&gemm, panels, exec), HEED_OK);
    gemm.packed_b = panels;
    gemm.c = got;
    for (int i = 0; i < BELIEFS; i += belief_step(exec->isa)) {
        believe(&believed[i], 0);
        memset(got, 0xff, (size_t)(m * FEW_N) * sizeof *got);
        ck_assert_int_eq(heed_gemm(&gemm, exec), HEED_OK);
        must_be_same(compute == HEED_COMPUTE_BF16 ? "gemm in pairs" : "gemm times bf16", exec, &believed[i], got, want, m, FEW_N);
    }
    believe_the_machine();
    free(want);
    free(got);
    free(b);
    free(panels);
}

START_TEST(test_cache_sizes_and_bf16) {
    static const int64_t rows[] = {1, 12, 13, 26, 27, 48, 51, 64, 255};
    const size_t row_counts = test_quick() ? 6 : sizeof rows / sizeof *rows;
    struct rng rng = rng_for("cache_sizes_and_bf16", _i);
    float *x = new_filled(&rng, FILL_NORMAL, (int64_t)FEW_N * FEW_K);
    for (int threads = test_quick() ? 8 : 1; threads <= 8; threads += 7)
        for (size_t i = test_quick() ? (size_t)_i % 2 : 0; i < row_counts; i += test_quick() ? 3 : 1)
            for (int pairs = 0; pairs < 2; pairs++)
                check_bf16(rows[i], pairs ? HEED_COMPUTE_BF16 : HEED_COMPUTE_F32, x,
                           &(struct heed_exec){.isa = heed_kernels_usable(_i)->name, .threads = threads});
    free(x);
}
END_TEST

/* Weights as they are, which become words in registers or a panel, by what is near; some rows. */
static void check_blocks(struct rng *rng, enum heed_type type, enum heed_compute compute, const struct heed_exec *exec) {
    enum { BLOCKS_N = HEED_PANEL + 3, BLOCKS_K = 2 * K_BLOCK, BLOCKS_M = 13 };
    const int64_t m = rng_range(rng, 1, BLOCKS_M);
    float *a = new_filled(rng, FILL_NORMAL, m * BLOCKS_K), *want = new_floats(m * BLOCKS_N), *got = new_floats(m * BLOCKS_N);
    char *b = new_weights(rng, type, (int64_t)BLOCKS_N * BLOCKS_K, false);
    struct heed_gemm gemm = {.m = m, .n = BLOCKS_N, .k = BLOCKS_K, .alpha = 1, .transpose_b = true, .compute = compute};
    gemm.a = a, gemm.lda = BLOCKS_K;
    gemm.b = b, gemm.b_type = type, gemm.ldb = BLOCKS_K;
    gemm.c = want, gemm.ldc = BLOCKS_N;
    ck_assert_int_eq(heed_gemm(&gemm, &(struct heed_exec){.isa = "scalar", .threads = 1}), HEED_OK);
    gemm.c = got;
    for (int i = 0; i < BELIEFS; i += belief_step(exec->isa)) {
        believe(&believed[i], 0);
        memset(got, 0xff, (size_t)(m * BLOCKS_N) * sizeof *got);
        ck_assert_int_eq(heed_gemm(&gemm, exec), HEED_OK);
        must_be_same(type_name(type), exec, &believed[i], got, want, m, BLOCKS_N);
    }
    believe_the_machine();
    free(a);
    free(b);
    free(want);
    free(got);
}

START_TEST(test_cache_sizes_and_blocks) {
    struct rng rng = rng_for("cache_sizes_and_blocks", _i);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name, .threads = 1};
    for (int64_t repeat = 0; repeat < test_count(8); repeat++)
        for (int type = HEED_Q8_0; type <= HEED_MXFP4; type++)
            check_blocks(&rng, (enum heed_type)type, repeat % 4 ? HEED_COMPUTE_I8 : HEED_COMPUTE_F32, &exec);
}
END_TEST

START_TEST(test_cache_sizes_do_not_change_bits) {
    struct rng rng = rng_for("cache_sizes", _i);
    float *x = new_filled(&rng, FILL_NORMAL, K * (int64_t)N + 1);
    for (int threads = test_quick() ? 3 : 1; threads <= 3; threads += 2) {
        const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name, .threads = threads};
        if (!test_quick())
            check_attention(attention_of(QUERIES, x, NULL), &exec);
        check_attention(attention_of(FEW_QUERIES, x, NULL), &exec);
        check_attention(attention_of(MORE_QUERIES, x, NULL), &exec);
        check_terms(x, HEED_COMPUTE_F32, &exec);
        check_terms(x, HEED_COMPUTE_BF16, &exec);
        for (int kind = 0; kind < (test_quick() ? 2 : 8); kind++) {
            if (!test_quick())
                check_gemm(M, x, &exec, kind & 4, kind & 2, kind & 1);
            check_gemm(MORE_ROWS, x, &exec, kind & 4, kind & 2, kind & 1);
            check_gemm(FEW_ROWS, x, &exec, kind & 4, kind & 2, kind & 1);
            check_gemm(FEWER_ROWS, x, &exec, kind & 4, kind & 2, kind & 1);
        }
    }
    free(x);
}
END_TEST

/* Few rows times floats along k, from caches and from far away: squares of b, rows that are lanes, in passes, and rows of a that
 * are copied since they share one set of L1. */
START_TEST(test_cache_sizes_and_few_rows) {
    enum { MOST_ROWS = 66, COLUMNS = 2 * HEED_PANEL + 5, DEPTH = 307, LDA = 1024 };
    struct rng rng = rng_for("few_rows", _i);
    float *x = new_filled(&rng, FILL_NORMAL, MOST_ROWS * LDA), *y = new_filled(&rng, FILL_NORMAL, COLUMNS * DEPTH);
    float *want = new_floats(MOST_ROWS * COLUMNS), *got = new_floats(MOST_ROWS * COLUMNS);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name, .threads = 2}, oracle = {.isa = "scalar"};
    struct heed_gemm gemm = {.m = MOST_ROWS, .n = COLUMNS, .k = DEPTH, .alpha = 1, .transpose_b = true};
    gemm.a = x, gemm.lda = LDA, gemm.b = y, gemm.ldb = DEPTH, gemm.c = want, gemm.ldc = COLUMNS;
    ck_assert_int_eq(heed_gemm(&gemm, &oracle), HEED_OK);
    gemm.c = got;
    for (gemm.m = 1; gemm.m <= MOST_ROWS; gemm.m += test_quick() ? 5 : 1)
        for (int i = 0; i < BELIEFS; i += BELIEFS - 1) {
            believe(&believed[i], 0);
            memset(got, 0xff, MOST_ROWS * COLUMNS * sizeof *got);
            ck_assert_int_eq(heed_gemm(&gemm, &exec), HEED_OK);
            must_be_same("few rows", &exec, &believed[i], got, want, gemm.m, COLUMNS);
        }
    believe_the_machine();
    float *const all[] = {x, y, want, got};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}
END_TEST

static void *new_elements(struct rng *rng, enum heed_type type, int64_t n) {
    if (type == HEED_F32)
        return new_filled(rng, FILL_NORMAL, n);
    uint16_t *halves = malloc(sizeof *halves * (size_t)n);
    int8_t *bytes = (int8_t *)halves;
    for (int64_t i = 0; i < n; i++)
        if (type == HEED_I8)
            bytes[i] = (int8_t)rng_range(rng, -127, 127);
        else
            halves[i] = half_of(type, (float)rng_range(rng, -1000, 1000) / 512);
    return halves;
}

/* Some rows times rows of b as they are, of any type, 4 KB apart or not, from near and from far: windows, and tiles. */
static void check_plain(struct rng *rng, int64_t m, const float *x, const struct heed_exec *exec) {
    enum { COLUMNS = 5 * HEED_PANEL + 69, DEPTH = 83, LINE = 4096 };
    static const enum heed_type types[] = {HEED_F32, HEED_BF16, HEED_F16, HEED_I8};
    const enum heed_type type = types[rng_range(rng, 0, 3)];
    float *want = new_floats(m * COLUMNS), *got = new_floats(m * COLUMNS), *scales = new_filled(rng, FILL_NORMAL, COLUMNS);
    struct heed_gemm gemm = {.m = m, .n = COLUMNS, .k = DEPTH, .alpha = 1, .b_type = type};
    gemm.b_scales = type == HEED_I8 ? scales : NULL;
    gemm.a = x, gemm.lda = DEPTH;
    gemm.ldb = rng_range(rng, 0, 1) ? LINE / type_bytes(type) : COLUMNS + rng_range(rng, 0, 9);
    void *b = new_elements(rng, type, DEPTH * gemm.ldb);
    gemm.b = b;
    gemm.c = want, gemm.ldc = COLUMNS;
    ck_assert_int_eq(heed_gemm(&gemm, &(struct heed_exec){.isa = "scalar", .threads = 1}), HEED_OK);
    gemm.c = got;
    for (int i = 0; i < BELIEFS; i += belief_step(exec->isa)) {
        believe(&believed[i], 0);
        memset(got, 0xff, (size_t)(m * COLUMNS) * sizeof *got);
        ck_assert_int_eq(heed_gemm(&gemm, exec), HEED_OK);
        must_be_same(type_name(type), exec, &believed[i], got, want, m, COLUMNS);
    }
    believe_the_machine();
    free(b);
    free(scales);
    free(want);
    free(got);
}

START_TEST(test_cache_sizes_and_plain_rows) {
    static const int64_t rows[] = {1, 2, 3, 5, 7, 8, 9, 12, 13, 16, 17, 25, 32, 33, 48, 49, 64, 65};
    struct rng rng = rng_for("plain_rows", _i);
    float *x = new_filled(&rng, FILL_NORMAL, 65 * 83);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name, .threads = 1};
    for (int64_t repeat = 0; repeat < test_count(2); repeat++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i += test_quick() ? 3 : 1)
            check_plain(&rng, rows[i], x, &exec);
    free(x);
}
END_TEST

/* Blocks do follow them: small caches cut the work of one thread into more tasks. */
START_TEST(test_cache_sizes_decide_blocks) {
    float *x = new_floats(2 * KEYS * WIDTH), *y = new_floats(2 * QUERIES * WIDTH);
    const struct heed_attention request = attention_of(QUERIES, x, y);
    struct heed_plan plan[2];
    for (int i = 0; i < 2; i++) {
        believe(&believed[i ? LARGEST : SMALLEST], 0);
        ck_assert_int_eq(heed_attention_plan(&request, &(struct heed_exec){.threads = 1}, &plan[i]), HEED_OK);
    }
    believe_the_machine();
    ck_assert_int_eq(plan[0].tasks, 9);
    ck_assert_int_eq(plan[1].tasks, 1);
    free(x);
    free(y);
}
END_TEST

Suite *cache_sizes_suite(void) {
    Suite *suite = suite_create("cache_sizes");
    TCase *tests = tcase_create("cache_sizes");
    tcase_add_test(tests, test_cache_sizes_are_sane);
    tcase_add_test(tests, test_cache_crowded);
    tcase_add_test(tests, test_cache_sizes_decide_blocks);
    tcase_add_loop_test(tests, test_cache_sizes_do_not_change_bits, 0, usable_tables());
    tcase_add_loop_test(tests, test_cache_sizes_and_few_rows, 0, usable_tables());
    tcase_add_loop_test(tests, test_cache_sizes_and_plain_rows, 0, usable_tables());
    tcase_add_loop_test(tests, test_cache_sizes_and_bf16, 0, usable_tables());
    tcase_add_loop_test(tests, test_cache_sizes_and_blocks, 0, usable_tables());
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return suite;
}
