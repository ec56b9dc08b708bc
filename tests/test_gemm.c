/* heed_gemm: every usable table, however the matrices lie in memory and whoever computes, gives the scalar table's bits. */
#include "gemm.h"
#include "gemm_small.h"
#include "harness.h"
#include "internal.h"
#include "suites.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A product to compute: a and b as stored, without gaps. */
struct product {
    struct heed_gemm request; /* pointers and leading dimensions are filled in by run() */
    float *a, *b, *c;
};

static int64_t a_rows(const struct heed_gemm *g) { return g->transpose_a ? g->k : g->m; }
static int64_t a_columns(const struct heed_gemm *g) { return g->transpose_a ? g->m : g->k; }
static int64_t b_rows(const struct heed_gemm *g) { return g->transpose_b ? g->n : g->k; }
static int64_t b_columns(const struct heed_gemm *g) { return g->transpose_b ? g->k : g->n; }

static struct tensor pack(const struct heed_gemm *request, const struct heed_exec *exec, struct rng *rng) {
    int64_t floats = heed_gemm_packed_bytes(request) / (int64_t)sizeof(float);
    ck_assert_int_eq(floats, ceil_div(request->n, HEED_PANEL) * HEED_PANEL * request->k);
    struct tensor packed = matrix(1, floats, floats, any_placement(rng), NULL);
    ck_assert_msg(heed_gemm_pack_b(request, packed.data, exec) == HEED_OK, "%s", heed_error_message());
    float *values = new_floats(floats);
    must(tensor_take(&packed, values));
    tensor_put(&packed, values);
    free(values);
    return packed;
}

static void run(const struct product *product, struct heed_exec exec, bool packed, struct rng *rng, float *result) {
    struct heed_gemm g = product->request;
    struct tensor a = matrix(a_rows(&g), a_columns(&g), a_columns(&g) + rng_range(rng, 0, 5), any_placement(rng), product->a);
    struct tensor b = matrix(b_rows(&g), b_columns(&g), b_columns(&g) + rng_range(rng, 0, 5), any_placement(rng), product->b);
    struct tensor c = matrix(g.m, g.n, g.n + rng_range(rng, 0, 5), any_placement(rng), NULL), panels = {.size = {0}};
    g.a = a.data, g.lda = a.stride[2];
    g.b = b.data, g.ldb = b.stride[2];
    g.c = c.data, g.ldc = c.stride[2];
    if (g.beta != 0)
        tensor_put(&c, product->c);
    if (packed) {
        panels = pack(&g, &exec, rng);
        g.packed_b = panels.data;
        g.b = NULL;
    }
    ck_assert_msg(heed_gemm(&g, &exec) == HEED_OK, "%s", heed_error_message());
    must(tensor_take(&c, result));
    must(tensor_unchanged(&a));
    must(tensor_unchanged(&b));
    if (packed)
        must(tensor_unchanged(&panels));
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&c);
    tensor_free(&panels);
}

/* Mostly small, some around the blocks' edges, some large enough that threads are woken, some of more rows than a cache holds,
 * some of as many columns as are worth strips of a. */
static void choose_sizes(struct rng *rng, struct heed_gemm *g) {
    static const int64_t edges[] = {0, 1, 63, 64, 65, 127, 129, 255, 256, 257, 513};
    int64_t *const sizes[] = {&g->m, &g->n, &g->k};
    do {
        const int64_t kind = rng_range(rng, 0, 9);
        const int64_t deep[] = {rng_range(rng, 120, 300), rng_range(rng, 1, 6), rng_range(rng, 900, 2400)};
        const int64_t wide[] = {rng_range(rng, 32, 80), rng_range(rng, 384, 460), rng_range(rng, 1, 120)};
        for (int i = 0; i < 3; i++)
            *sizes[i] = kind == 0   ? rng_range(rng, 90, 180)
                        : kind <= 3 ? edges[rng_range(rng, 0, 10)]
                        : kind == 4 ? deep[i]
                        : kind == 5 ? wide[i]
                                    : rng_range(rng, 1, 40);
    } while (g->m * g->n * g->k > (test_quick() ? 1200000 : 4000000));
}

static struct product new_product(struct rng *rng, const char *name, void (*choose)(struct rng *, struct heed_gemm *)) {
    static const float factors[] = {1, 1, 0, -2.5f, 0x1.555556p-2f, INFINITY};
    enum fill mode_a = any_fill(rng), mode_b = rng_range(rng, 0, 1) ? FILL_NORMAL : any_fill(rng);
    struct product p = {.request = {.alpha = factors[rng_range(rng, 0, 5)],
                                    .beta = factors[rng_range(rng, 0, 5)],
                                    .transpose_a = rng_range(rng, 0, 1),
                                    .transpose_b = rng_range(rng, 0, 1)}};
    const struct heed_gemm *g = &p.request;
    choose(rng, &p.request);
    p.a = new_filled(rng, mode_a, g->m * g->k);
    p.b = new_filled(rng, mode_b, g->k * g->n);
    p.c = new_filled(rng, any_fill(rng), g->m * g->n);
    describe(name, "all", "%lld x %lld x %lld, alpha %g, beta %g, transpose %d %d, %s times %s", (long long)g->m, (long long)g->n,
             (long long)g->k, (double)g->alpha, (double)g->beta, g->transpose_a, g->transpose_b, fill_name(mode_a),
             fill_name(mode_b));
    return p;
}

static void free_product(struct product *p) {
    free(p->a);
    free(p->b);
    free(p->c);
}

static bool never(void *context) {
    (void)context;
    return false;
}

/* Calls that may be cancelled are never small ones: the planned way. */
static const struct heed_exec scalar_alone = {.threads = 1, .isa = "scalar", .cancelled = never};

static void check_product(struct product *p, const char *case_name, struct rng *rng) {
    const int64_t m = p->request.m, n = p->request.n;
    float *want = new_floats(m * n), *got = new_floats(m * n);
    run(p, scalar_alone, false, rng, want);
    for (int i = 0; heed_kernels_usable(i); i++) {
        struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(rng)};
        for (int packed = 0; packed < 2; packed++) {
            run(p, exec, packed, rng, got);
            const char *problem = compare(SAME_BITS, got, want, m, n);
            ck_assert_msg(!problem, "%s with %d threads%s differs from scalar: %s of seed %llu: %s", exec.isa, exec.threads,
                          packed ? ", packed" : "", case_name, (unsigned long long)test_seed(), problem);
        }
    }
    free(want);
    free(got);
}

START_TEST(test_gemm_same_bits) {
    struct rng rng = rng_for("gemm", _i);
    for (int64_t repeat = 0; repeat < test_count(50); repeat++) {
        struct product p = new_product(&rng, "gemm", choose_sizes);
        char case_name[40];
        snprintf(case_name, sizeof case_name, "case %d.%lld", _i, (long long)repeat);
        check_product(&p, case_name, &rng);
        free_product(&p);
    }
}
END_TEST

/* A row of c has the same bits when it is computed alone. */
START_TEST(test_gemm_rows_are_independent) {
    struct rng rng = rng_for("gemm rows", 0);
    for (int64_t repeat = 0; repeat < test_count(60); repeat++) {
        struct product p = new_product(&rng, "gemm by rows", choose_sizes);
        p.request.transpose_a = false;
        int64_t m = p.request.m, n = p.request.n, k = p.request.k;
        float *whole = new_floats(m * n), *row = new_floats(n);
        run(&p, (struct heed_exec){0}, false, &rng, whole);
        for (int64_t i = 0; i < m; i += rng_range(&rng, 1, 1 + m / 4)) {
            struct product one = {.request = p.request, .a = p.a + i * k, .b = p.b, .c = p.c + i * n};
            one.request.m = 1;
            run(&one, (struct heed_exec){0}, rng_range(&rng, 0, 1), &rng, row);
            must(compare(SAME_BITS, row, whole + i * n, 1, n));
        }
        free_product(&p);
        free(whole);
        free(row);
    }
}
END_TEST

/* Around the edges of all tiles of small calls: 16 rows of one vector, 12 of two, and so on. */
static void choose_small_sizes(struct rng *rng, struct heed_gemm *g) {
    g->m = rng_range(rng, 1, rng_range(rng, 0, 1) ? 18 : 50);
    g->n = rng_range(rng, 1, rng_range(rng, 0, 1) ? 40 : 128);
    g->k = rng_range(rng, 1, rng_range(rng, 0, 3) ? 20 : 128);
}

START_TEST(test_gemm_small_same_bits) {
    struct rng rng = rng_for("gemm small", _i);
    for (int64_t repeat = 0; repeat < test_count(300); repeat++) {
        struct product p = new_product(&rng, "small gemm", choose_small_sizes);
        char case_name[40];
        snprintf(case_name, sizeof case_name, "case %d.%lld", _i, (long long)repeat);
        check_product(&p, case_name, &rng);
        free_product(&p);
    }
}
END_TEST

/* Too long for small calls, and of few rows. */
static void choose_thin_sizes(struct rng *rng, struct heed_gemm *g) {
    g->m = rng_range(rng, 1, 14);
    g->n = rng_range(rng, 1, 300);
    g->k = rng_range(rng, 129, rng_range(rng, 0, 1) ? 140 : 600);
    g->transpose_a = rng_range(rng, 0, 7) == 0;
}

START_TEST(test_gemm_few_rows_same_bits) {
    struct rng rng = rng_for("gemm few rows", _i);
    for (int64_t repeat = 0; repeat < test_count(60); repeat++) {
        struct product p = new_product(&rng, "gemm of few rows", choose_thin_sizes);
        char case_name[40];
        snprintf(case_name, sizeof case_name, "case %d.%lld", _i, (long long)repeat);
        check_product(&p, case_name, &rng);
        free_product(&p);
    }
}
END_TEST

/* Matrices that are never touched: one array each, or parts of one. */
static float memory[4][1 << 15];

static struct heed_gemm any_small_request(struct rng *rng) {
    struct heed_gemm g = {
        .alpha = -2, .beta = 0.5f, .transpose_a = rng_range(rng, 0, 1), .transpose_b = rng_range(rng, 0, 1), .a = memory[0]};
    choose_small_sizes(rng, &g);
    g.lda = a_columns(&g) + rng_range(rng, 0, 2);
    g.b = memory[1], g.ldb = b_columns(&g) + rng_range(rng, 0, 2);
    g.c = memory[2], g.ldc = g.n + rng_range(rng, 0, 2);
    if (rng_range(rng, 0, 3) == 0)
        g.packed_b = memory[3];
    return g;
}

/* Changes one thing that matters to memory or sizes, a little or a lot. */
static void change_something(struct rng *rng, struct heed_gemm *g) {
    static const int64_t values[] = {0, -1, 1, 2, 17, 65, 128, 129, INT64_C(1) << 30, INT64_C(1) << 62, INT64_MAX, INT64_MIN};
    int64_t *const numbers[] = {&g->m, &g->n, &g->k, &g->lda, &g->ldb, &g->ldc};
    const void **const inputs[] = {&g->a, &g->b, &g->packed_b};
    int64_t *number = numbers[rng_range(rng, 0, 5)];
    switch (rng_range(rng, 0, 4)) {
    case 0:
        *inputs[rng_range(rng, 0, 2)] = rng_range(rng, 0, 3) ? memory[2] + rng_range(rng, -200, 9000) : NULL;
        break;
    case 1:
        g->c = rng_range(rng, 0, 3) ? memory[rng_range(rng, 0, 3)] + rng_range(rng, 0, 9000) : NULL;
        break;
    case 2:
        *number = (int64_t)((uint64_t)*number + (uint64_t)rng_range(rng, -3, 3)); /* it may wrap around */
        break;
    case 3:
        g->a = (const void *)((uintptr_t)g->a + (uintptr_t)rng_range(rng, 0, 7));
        break;
    default:
        *number = values[rng_range(rng, 0, sizeof values / sizeof *values - 1)];
    }
}

/* Whatever is small is legal; what is legal and of small sizes is small. */
START_TEST(test_gemm_small_is_sure) {
    struct rng rng = rng_for("gemm small checks", 0);
    int64_t small = 0;
    for (int64_t i = test_count(100000); i > 0; i--) {
        struct heed_gemm g = any_small_request(&rng);
        ck_assert(heed_gemm_check(&g, &heed_gemm_names) == HEED_OK && heed_gemm_is_small(&g, NULL));
        for (int64_t changes = rng_range(&rng, 1, 2); changes > 0; changes--)
            change_something(&rng, &g);
        if (!heed_gemm_is_small(&g, NULL))
            continue;
        small++;
        ck_assert_msg(heed_gemm_check(&g, &heed_gemm_names) == HEED_OK, "%s", heed_error_message());
        ck_assert(g.m * g.n * g.k < 1000 * 1000 && g.k > 0);
    }
    ck_assert_int_gt(small, test_count(100000) / 10);
}
END_TEST

static int three_threads(void *pool) {
    (void)pool;
    return 3;
}

static void run_nothing(void *pool, int count, void (*task)(void *context, int index), void *context) {
    (void)pool, (void)count, (void)task, (void)context;
}

/* What else a call may ask for is not for the small way, or does not matter to it. */
START_TEST(test_gemm_small_is_plain) {
    struct rng rng = rng_for("gemm small options", 0);
    struct heed_gemm g = any_small_request(&rng);
    ck_assert(!heed_gemm_is_small(NULL, NULL));
    ck_assert(!heed_gemm_is_small(&g, &(struct heed_exec){.cancelled = never}));
    ck_assert(!heed_gemm_is_small(&g, &(struct heed_exec){.run = run_nothing}));
    ck_assert(!heed_gemm_is_small(&g, &(struct heed_exec){.run = run_nothing, .num_threads = three_threads}));
    ck_assert(!heed_gemm_is_small(&g, &(struct heed_exec){.threads = -1}));
    ck_assert(!heed_gemm_is_small(&g, &(struct heed_exec){.threads = 1025}));
    ck_assert(heed_gemm_is_small(&g, &(struct heed_exec){.threads = 1024, .isa = "no such"}));
    ck_assert_int_eq(heed_gemm(&g, &(struct heed_exec){.isa = "no such"}), HEED_UNSUPPORTED_ISA);
    g.alpha = 0;
    ck_assert(!heed_gemm_is_small(&g, NULL));
}
END_TEST

/* beta 0 does not read c (outputs begin as NaN in all tests); alpha 0 and k 0 read neither a nor b, and give beta * c. */
START_TEST(test_gemm_without_a_product) {
    struct rng rng = rng_for("gemm alpha 0", 0);
    const float c_before[] = {1, -2, 3, 4, -0.0f, 6}, twice[] = {2, -4, 6, 8, 0, 12}, zeros[6] = {0};
    for (int i = 0; heed_kernels_usable(i); i++) {
        for (int kind = 0; kind < 4; kind++) {
            float beta = kind % 2 ? 2.0f : 0.0f;
            struct tensor c = matrix(2, 3, 5, any_placement(&rng), NULL);
            float nans[] = {NAN, NAN, NAN, NAN, NAN, NAN}, got[6];
            struct heed_gemm g = {
                .m = 2, .n = 3, .k = kind / 2 ? 0 : 2, .alpha = kind / 2 ? 1 : 0, .beta = beta, .a = nans, .lda = 2};
            g.b = nans, g.ldb = 3, g.c = c.data, g.ldc = 5;
            describe("gemm", heed_kernels_usable(i)->name, "alpha %g, beta %g, k %lld", (double)g.alpha, (double)beta,
                     (long long)g.k);
            if (beta != 0)
                tensor_put(&c, c_before);
            ck_assert_int_eq(heed_gemm(&g, &(struct heed_exec){.isa = heed_kernels_usable(i)->name}), HEED_OK);
            must(tensor_take(&c, got));
            must(compare(SAME_BITS, got, beta != 0 ? twice : zeros, 2, 3));
            tensor_free(&c);
        }
    }
}
END_TEST

static int64_t packed_bytes(int64_t n, int64_t k, enum heed_type type) {
    return heed_gemm_packed_bytes(&(struct heed_gemm){.n = n, .k = k, .b_type = type});
}

START_TEST(test_gemm_packed_bytes) {
    ck_assert_int_eq(packed_bytes(0, 0, HEED_F32), 0);
    ck_assert_int_eq(packed_bytes(0, 7, HEED_F32), 0);
    ck_assert_int_eq(packed_bytes(7, 0, HEED_F32), 0);
    ck_assert_int_eq(packed_bytes(1, 3, HEED_F32), 3 * 64 * 4);
    ck_assert_int_eq(packed_bytes(65, 3, HEED_F32), 3 * 128 * 4);
    ck_assert_int_eq(packed_bytes(65, 3, HEED_BF16), 4 * 128 * 2); /* whole words */
    ck_assert_int_eq(packed_bytes(65, 3, HEED_F16), 3 * 128 * 2);
    ck_assert_int_eq(packed_bytes(65, 3, HEED_I8), 3 * 128);
    ck_assert_int_eq(packed_bytes(65, 96, HEED_Q8_0), 3 * 128 * 34);
    ck_assert_int_eq(packed_bytes(65, 96, HEED_Q4_0), 3 * 128 * 18);
    ck_assert_int_eq(packed_bytes(65, 95, HEED_Q4_0), -1);
    ck_assert_int_eq(packed_bytes(65, 96, HEED_Q5_0), 3 * 128 * 22);
    ck_assert_int_eq(packed_bytes(65, 512, HEED_Q4_K), 2 * 128 * 148); /* scales of 6 bits are bytes */
    ck_assert_int_eq(packed_bytes(65, 512, HEED_Q5_K), 2 * 128 * 180);
    ck_assert_int_eq(packed_bytes(65, 512, HEED_Q6_K), 2 * 128 * 210);
    ck_assert_int_eq(packed_bytes(65, 480, HEED_Q6_K), -1);
    ck_assert_int_eq(packed_bytes(64, INT64_MAX / 256 * 256, HEED_Q4_K), -1);
    ck_assert_int_eq(packed_bytes(64, INT64_MAX / 32 * 32, HEED_Q8_0), -1);
    ck_assert_int_eq(packed_bytes(-1, 3, HEED_F32), -1);
    ck_assert_int_eq(packed_bytes(3, -1, HEED_F32), -1);
    ck_assert_int_eq(packed_bytes(INT64_MAX, 1, HEED_F32), -1);
    ck_assert_int_eq(packed_bytes(1, INT64_MAX, HEED_F32), -1);
    ck_assert_int_eq(packed_bytes(INT64_MAX / 2, INT64_MAX / 2, HEED_F32), -1);
    ck_assert_int_eq(packed_bytes(64, INT64_MAX / 128, HEED_F32), -1); /* fits in floats, not in bytes */
    ck_assert_int_eq(packed_bytes(64, INT64_MAX / 128 - 1, HEED_BF16), (INT64_MAX / 128 - 1) * 128);
    ck_assert_int_eq(packed_bytes(64, INT64_MAX / 128, HEED_BF16), -1);
    ck_assert_int_eq(packed_bytes(64, INT64_MAX / 128, HEED_F16), INT64_MAX / 128 * 128);
    ck_assert_int_eq(packed_bytes(1, 1, (enum heed_type)99), -1);
    ck_assert_int_eq(heed_gemm_packed_bytes(NULL), -1);
}
END_TEST

/* The packed layout is documented, and the same on all instruction sets. */
START_TEST(test_gemm_packed_layout) {
    struct rng rng = rng_for("gemm layout", 0);
    for (int64_t repeat = 0; repeat < test_count(40); repeat++) {
        int64_t n = rng_range(&rng, 1, 200), k = rng_range(&rng, 1, 50), floats = ceil_div(n, HEED_PANEL) * HEED_PANEL * k;
        bool transposed = rng_range(&rng, 0, 1);
        float *b = new_filled(&rng, any_fill(&rng), k * n), *got = new_floats(floats), *want = new_floats(floats);
        for (int64_t i = 0; i < floats; i++) {
            int64_t p = i / HEED_PANEL % k, j = i / HEED_PANEL / k * HEED_PANEL + i % HEED_PANEL;
            const float zero = 0;
            memcpy(want + i, j >= n ? &zero : transposed ? b + j * k + p : b + p * n + j, sizeof *want);
        }
        struct heed_gemm g = {.n = n, .k = k, .transpose_b = transposed, .b = b, .ldb = transposed ? k : n};
        for (int i = 0; heed_kernels_usable(i); i++) {
            struct heed_exec exec = {.isa = heed_kernels_usable(i)->name};
            describe("gemm_pack_b", exec.isa, "n %lld, k %lld, transposed %d", (long long)n, (long long)k, transposed);
            struct tensor packed = pack(&g, &exec, &rng);
            must(tensor_take(&packed, got));
            must(compare(SAME_BITS, got, want, 1, floats));
            tensor_free(&packed);
        }
        free(b);
        free(got);
        free(want);
    }
}
END_TEST

Suite *gemm_suite(void) {
    Suite *suite = suite_create("gemm");
    TCase *tests = tcase_create("gemm");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_gemm_same_bits, 0, test_quick() ? 2 : 4);
    tcase_add_loop_test(tests, test_gemm_small_same_bits, 0, test_quick() ? 1 : 2);
    tcase_add_loop_test(tests, test_gemm_few_rows_same_bits, 0, test_quick() ? 1 : 2);
    tcase_add_test(tests, test_gemm_small_is_sure);
    tcase_add_test(tests, test_gemm_small_is_plain);
    tcase_add_test(tests, test_gemm_rows_are_independent);
    tcase_add_test(tests, test_gemm_without_a_product);
    tcase_add_test(tests, test_gemm_packed_bytes);
    tcase_add_test(tests, test_gemm_packed_layout);
    suite_add_tcase(suite, tests);
    return suite;
}
