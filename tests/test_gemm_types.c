/* heed_gemm with factors and results of all types: the bits of the same product of floats, made of the widened factors by the
 * scalar kernels and finished here, rounded to the type of c; whatever the instruction set, packed or not, in guarded memory.  And
 * of factors rounded to bf16, in pairs and as AMX has them, and of rows rounded to bytes: the bits of plain loops. */
#include "cache_sizes.h"
#include "cpu.h"
#include "gemm.h"
#include "harness_attention.h"
#include "i8_products.h"
#include "internal.h"
#include "reference/reference.h"
#include "stored_matrix.h"
#include "suites.h"
#include "types.h"
#include "weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum heed_type weight_types[] = {HEED_I8,    HEED_Q8_0, HEED_Q4_0, HEED_Q5_0, HEED_IQ4_NL,
                                              HEED_MXFP4, HEED_Q4_K, HEED_Q5_K, HEED_Q6_K};
enum { WEIGHT_TYPES = sizeof weight_types / sizeof *weight_types };

/* Factors as floats that their types hold, as stored without gaps. */
struct product {
    struct heed_gemm request;
    float *a, *b, *c, *want, *scales;
    char *bytes; /* of b, where it has a type that values are not rounded to */
};

static bool is_of_bytes(enum heed_type type) { return type > HEED_F16; }

/* Scales of columns that are bytes, and of blocks, are numbers as a rule. */
static void make_bytes(struct rng *rng, struct product *p, int64_t n) {
    const enum heed_type type = p->request.b_type;
    p->bytes = new_weights(rng, type, n, f16_ignores_flushing() && rng_range(rng, 0, 7) == 0);
    keep_scales_normal(p->bytes, type, n);
    p->b = weights_as_floats(p->bytes, type, n);
    if (type == HEED_I8)
        p->scales = new_filled(rng, rng_range(rng, 0, 3) ? FILL_NORMAL : any_fill(rng), p->request.n);
}

static float *new_values(struct rng *rng, enum heed_type type, int64_t n) {
    float *x = new_filled(rng, rng_range(rng, 0, 2) ? FILL_NORMAL : any_fill(rng), n);
    round_floats(type, x, n);
    return x;
}

static void choose_sizes(struct rng *rng, struct heed_gemm *g) {
    static const int64_t edges[] = {0, 1, 63, 64, 65, 127, 129, 257, 513};
    int64_t *const sizes[] = {&g->m, &g->n, &g->k};
    const int64_t kind = rng_range(rng, 0, 5);
    for (int i = 0; i < 3; i++)
        *sizes[i] = kind == 0 ? edges[rng_range(rng, 0, 8)] : rng_range(rng, 1, kind == 1 ? 160 : 70);
    if (kind == 1 && rng_range(rng, 0, 1)) /* those without a plan */
        g->m = rng_range(rng, 1, 20), g->n = rng_range(rng, 1, 64), g->k = rng_range(rng, 1, 32);
    if (kind >= 3) /* few rows */
        g->m = rng_range(rng, 1, 34), g->k = rng_range(rng, 1, 400);
    if (kind == 2 && rng_range(rng, 0, 1)) /* strips of a */
        g->m = rng_range(rng, 32, 70), g->n = rng_range(rng, 384, 430), g->k = rng_range(rng, 1, 70);
    if (kind == 5 && rng_range(rng, 0, 3) == 0) /* several blocks of k, in any kind of arithmetic */
        g->m = rng_range(rng, 1, 3), g->n = rng_range(rng, 1, 70), g->k = rng_range(rng, 2000, 5000);
    if (g->m * g->n * g->k > 3000000)
        g->m = 1;
}

static void finish_sums(const struct heed_gemm *g, const float *old, const float *scales, float *sums) {
    for (int64_t i = 0; i < g->m * g->n; i++) {
        const float x = scales ? sums[i] * scales[i % g->n] : sums[i];
        const float y = g->alpha * x, c = g->beta != 0 ? fmaf(g->beta, old[i], y) : y;
        sums[i] = isnan(c) ? __builtin_nanf("") : c;
    }
}

/* op(a) op(b) of factors rounded to bf16, two p at a time, the odd one first; where there is none, 0. */
static void multiply_pairs(const struct heed_gemm *g, const float *a, const float *b, bool reads, float *sums) {
    const int64_t a_step = g->transpose_a ? g->m : 1, b_step = g->transpose_b ? 1 : g->n;
    for (int64_t at = 0; at < g->m * g->n; at++) {
        const float *x = a + at / g->n * (g->transpose_a ? 1 : g->k), *y = b + at % g->n * (g->transpose_b ? g->k : 1);
        float chain = 0;
        for (int64_t p = 0; reads && p < g->k; p += 2) {
            const bool odd = p + 1 < g->k;
            chain = fmaf(odd ? x[(p + 1) * a_step] : 0, odd ? y[(p + 1) * b_step] : 0, chain);
            chain = fmaf(x[p * a_step], y[p * b_step], chain);
        }
        sums[at] = chain;
    }
}

/* The same by sums that take in 32 p at a time: those at even places, and at odd ones, apart. */
static void multiply_dots(const struct heed_gemm *g, const float *a, const float *b, bool reads, float *sums) {
    const int64_t a_step = g->transpose_a ? g->m : 1, b_step = g->transpose_b ? 1 : g->n;
    for (int64_t at = 0; at < g->m * g->n; at++) {
        const float *x = a + at / g->n * (g->transpose_a ? 1 : g->k), *y = b + at % g->n * (g->transpose_b ? g->k : 1);
        sums[at] = 0;
        for (int64_t from = 0; reads && from < g->k; from += 32) {
            float chain[2] = {0, 0};
            for (int64_t p = from; p < from + 32; p++)
                chain[p % 2] = fmaf(p < g->k ? x[p * a_step] : 0, p < g->k ? y[p * b_step] : 0, chain[p % 2]);
            sums[at] += chain[0] + chain[1];
        }
    }
}

/* What a product with 1 makes of a, before it is rounded: of the largest denormals rounding would make 2^-126. */
static void flush(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (fabsf(x[i]) < 0x1p-126f)
            x[i] = copysignf(0, x[i]);
}

static void want_rounded(const struct product *p) {
    const struct heed_gemm *g = &p->request;
    float *a = new_floats(g->m * g->k), *b = new_floats(g->k * g->n);
    memcpy(a, p->a, (size_t)(g->m * g->k) * sizeof *a);
    memcpy(b, p->b, (size_t)(g->k * g->n) * sizeof *b);
    flush(a, g->m * g->k);
    if (g->compute == HEED_COMPUTE_BF16_AMX)
        flush(b, g->k * g->n);
    round_floats(HEED_BF16, a, g->m * g->k);
    round_floats(HEED_BF16, b, g->k * g->n);
    const bool reads = heed_gemm_reads_ab(g); /* by bits: gcc compares later, where denormals are 0 */
    const uint64_t callers = heed_fp_begin();
    heed_fp_flush(true);
    (g->compute == HEED_COMPUTE_BF16 ? multiply_pairs : multiply_dots)(g, a, b, reads, p->want);
    finish_sums(g, p->c, reads ? p->scales : NULL, p->want);
    heed_fp_flush(false);
    heed_fp_end(callers);
    free(a);
    free(b);
}

static void want_i8(const struct product *p) {
    const struct heed_gemm *g = &p->request;
    const bool reads = heed_gemm_reads_ab(g);
    for (int64_t at = 0; at < g->m * g->n; at++) {
        const float *row = p->a + at / g->n * (g->transpose_a ? 1 : g->k);
        const char *column = p->bytes + type_span(g->b_type, at % g->n * g->k);
        p->want[at] = reads ? i8_chain(row, g->transpose_a ? g->m : 1, g->b_type, column, g->k / TYPE_BLOCK) : 0;
    }
    finish_sums(g, p->c, NULL, p->want);
}

static void want_floats(const struct product *p) {
    struct heed_gemm g = p->request;
    g.a_type = g.b_type = g.c_type = HEED_F32;
    g.alpha = g.alpha != 0, g.beta = 0;
    g.a = p->a, g.lda = g.transpose_a ? g.m : g.k;
    g.b = p->b, g.ldb = g.transpose_b ? g.k : g.n;
    g.c = p->want, g.ldc = g.n;
    ck_assert_msg(heed_gemm(&g, &(struct heed_exec){.isa = "scalar", .threads = 1}) == HEED_OK, "%s", heed_error_message());
    finish_sums(&p->request, p->c, heed_gemm_reads_ab(&p->request) ? p->scales : NULL, p->want);
}

static bool rounds_to_bf16(enum heed_compute compute) { return compute == HEED_COMPUTE_BF16 || compute == HEED_COMPUTE_BF16_AMX; }

static enum heed_type type_of_product(struct rng *rng, enum heed_compute compute) {
    const enum heed_type type = any_type(rng);
    return type == HEED_F16 && rounds_to_bf16(compute) && !f16_ignores_flushing() ? HEED_BF16 : type;
}

static enum heed_type type_of_b(struct rng *rng, enum heed_compute compute) {
    if (compute == HEED_COMPUTE_I8)
        return weight_types[rng_range(rng, 1, WEIGHT_TYPES - 1)];
    return rng_range(rng, 0, 1) ? type_of_product(rng, compute) : weight_types[rng_range(rng, 0, WEIGHT_TYPES - 1)];
}

/* Factors and what is wanted of them. */
static void fill_product(struct rng *rng, struct product *p) {
    const struct heed_gemm *g = &p->request;
    p->a = new_values(rng, g->a_type, g->m * g->k);
    if (is_of_bytes(g->b_type))
        make_bytes(rng, p, g->k * g->n);
    else
        p->b = new_values(rng, g->b_type, g->k * g->n);
    p->c = new_values(rng, g->c_type, g->m * g->n);
    p->want = new_floats(g->m * g->n);
    (g->compute == HEED_COMPUTE_I8 ? want_i8 : rounds_to_bf16(g->compute) ? want_rounded : want_floats)(p);
}

static void free_product(struct product *p) {
    float *const all[] = {p->a, p->b, p->c, p->want, p->scales};
    for (int i = 0; i < 5; i++)
        free(all[i]);
    free(p->bytes);
}

static struct product new_product(struct rng *rng) {
    static const float factors[] = {1, 1, 0, -2.5f, 0x1.555556p-2f, INFINITY, -0x1p-130f};
    const enum heed_compute compute = (enum heed_compute)rng_range(rng, HEED_COMPUTE_F32, HEED_COMPUTE_I8);
    struct product p = {.request = {.compute = compute,
                                    .alpha = factors[rng_range(rng, 0, 6)],
                                    .beta = factors[rng_range(rng, 0, 6)],
                                    .transpose_a = rng_range(rng, 0, 3) == 0,
                                    .transpose_b = rng_range(rng, 0, 1),
                                    .a_type = type_of_product(rng, compute),
                                    .b_type = type_of_b(rng, compute),
                                    .c_type = type_of_product(rng, compute)}};
    struct heed_gemm *g = &p.request;
    choose_sizes(rng, g);
    if (type_has_blocks(g->b_type)) {
        g->transpose_b = true;
        g->k = round_up(g->k, type_block(g->b_type));
    }
    fill_product(rng, &p);
    return p;
}

static void run(const struct product *p, struct heed_exec exec, bool packed, struct rng *rng) {
    struct heed_gemm g = p->request;
    struct stored_matrix a =
        g.transpose_a ? stored_matrix_new(rng, g.a_type, g.k, g.m) : stored_matrix_new(rng, g.a_type, g.m, g.k);
    struct stored_matrix b =
        g.transpose_b ? stored_matrix_new(rng, g.b_type, g.n, g.k) : stored_matrix_new(rng, g.b_type, g.k, g.n);
    struct stored_matrix c = stored_matrix_new(rng, g.c_type, g.m, g.n), panels = {.memory = {0}};
    stored_matrix_put(&a, p->a);
    g.b_scales = p->scales;
    if (p->bytes)
        stored_matrix_put_bytes(&b, p->bytes);
    else
        stored_matrix_put(&b, p->b);
    if (g.beta != 0)
        stored_matrix_put(&c, p->c);
    g.a = a.data, g.lda = a.ld;
    g.b = b.data, g.ldb = b.ld;
    g.c = c.data, g.ldc = c.ld;
    if (packed) {
        const enum heed_type unit = g.b_type == HEED_F32 || g.b_type == HEED_I8 ? g.b_type : HEED_F16;
        panels = stored_matrix_new(rng, unit, 1, heed_gemm_packed_bytes(&g) / type_bytes(unit));
        ck_assert_msg(heed_gemm_pack_b(&g, panels.data, &exec) == HEED_OK, "%s", heed_error_message());
        g.packed_b = panels.data;
        g.b = NULL;
    }
    describe("gemm of types", exec.isa, "%lld x %lld x %lld, %s x %s to %s%s, alpha %g, beta %g, transpose %d %d%s, %d threads",
             (long long)g.m, (long long)g.n, (long long)g.k, type_name(g.a_type), type_name(g.b_type), type_name(g.c_type),
             compute_name(g.compute), (double)g.alpha, (double)g.beta, g.transpose_a, g.transpose_b, packed ? ", packed" : "",
             exec.threads);
    /* With a small L2, packed weights are far: more rows then wait for them. */
    heed_cache_sizes_set((struct heed_cache_sizes){0, rng_range(rng, 0, 1) ? 1 << 10 : 0}, 0);
    const enum heed_status status = heed_gemm(&g, &exec);
    heed_cache_sizes_set((struct heed_cache_sizes){0, 0}, 0);
    ck_assert_msg(status == HEED_OK, "%s", heed_error_message());
    must_hold(&c, p->want);
    must_hold(&a, p->a);
    if (!p->bytes)
        must_hold(&b, p->b);
    struct stored_matrix *const all[] = {&a, &b, &c, &panels};
    for (int i = 0; i < 3 + packed; i++)
        buffer_free(&all[i]->memory);
}

START_TEST(test_gemm_types_same_bits) {
    struct rng rng = rng_for("gemm types", _i);
    for (int64_t repeat = 0; repeat < test_count(200); repeat++) {
        struct product p = new_product(&rng);
        for (int i = 0; heed_kernels_usable(i); i++)
            for (int packed = 0; packed < 2; packed++)
                run(&p, (struct heed_exec){.isa = heed_kernels_usable(i)->name, .threads = any_threads(&rng)}, packed, &rng);
        free_product(&p);
    }
}
END_TEST

/* So long rows of a that all of them are not arranged at a time. */
START_TEST(test_gemm_types_many_rows) {
    struct rng rng = rng_for("gemm types many rows", 0);
    struct product p = {
        .request = {.m = 530, .n = 3, .k = 8190, .alpha = 1, .b_type = HEED_BF16, .compute = HEED_COMPUTE_BF16_AMX}};
    struct product i8 = {.request = {.m = 530, .n = 3, .k = 8192, .alpha = 1, .compute = HEED_COMPUTE_I8}};
    struct product words = {.request = {.m = 550, .n = 66, .k = 8192, .alpha = 1, .compute = HEED_COMPUTE_BF16_AMX}};
    i8.request.b_type = HEED_Q4_0, i8.request.transpose_b = true;
    words.request.a_type = words.request.b_type = HEED_BF16;
    fill_product(&rng, &p);
    fill_product(&rng, &i8);
    fill_product(&rng, &words);
    for (int repeat = 0; repeat < 6; repeat++)
        run(&words, (struct heed_exec){.isa = heed_kernels_usable(0)->name, .threads = 1 + repeat}, repeat < 5, &rng);
    for (int i = 0; heed_kernels_usable(i); i++) {
        run(&p, (struct heed_exec){.isa = heed_kernels_usable(i)->name, .threads = i + 1}, i % 2, &rng);
        run(&i8, (struct heed_exec){.isa = heed_kernels_usable(i)->name, .threads = i + 1}, i % 2, &rng);
    }
    free_product(&p);
    free_product(&i8);
    free_product(&words);
}
END_TEST

/* So long columns of a that strips of all of them would be too much memory. */
START_TEST(test_gemm_types_long_columns) {
    struct rng rng = rng_for("gemm types long columns", 0);
    struct product p = {.request = {.m = 7, .n = 3, .k = 700001, .alpha = 1, .transpose_a = true, .a_type = HEED_BF16}};
    fill_product(&rng, &p);
    for (int i = 0; heed_kernels_usable(i); i++)
        run(&p, (struct heed_exec){.isa = heed_kernels_usable(i)->name, .threads = i + 1}, i % 2, &rng);
    free_product(&p);
}
END_TEST

/* So much of a, and of b, that strips come in spans of k, each for a group of columns: a few rows alone have other ways. */
START_TEST(test_gemm_types_spans_of_strips) {
    enum { ROWS = 256, COLUMNS = 520, STEPS = 16500, FEW = 3 };
    struct rng rng = rng_for("gemm spans of strips", 0);
    float *a = new_filled(&rng, FILL_NORMAL, ROWS * STEPS), *b = new_filled(&rng, FILL_NORMAL, STEPS * COLUMNS);
    float *got = new_floats(ROWS * COLUMNS), *want = new_floats(FEW * COLUMNS);
    const struct heed_exec alone = {.threads = 1};
    struct heed_gemm g = {.m = ROWS, .n = COLUMNS, .k = STEPS, .alpha = 1, .lda = STEPS, .ldb = COLUMNS, .ldc = COLUMNS};
    g.a = a, g.b = b, g.c = got;
    describe("gemm", heed_kernels_usable(0)->name, "%d x %d x %d", ROWS, COLUMNS, STEPS);
    ck_assert_int_eq(heed_gemm(&g, &alone), HEED_OK);
    g.m = FEW, g.c = want;
    for (int row = 0; row + FEW <= ROWS; row += 23) {
        g.a = a + row * STEPS;
        ck_assert_int_eq(heed_gemm(&g, &alone), HEED_OK);
        must(compare(SAME_BITS, got + row * COLUMNS, want, FEW, COLUMNS));
    }
    float *const all[] = {a, b, got, want};
    for (int i = 0; i < 4; i++)
        free(all[i]);
}
END_TEST

/* Rows of a that are widened, for each of many threads. */
START_TEST(test_gemm_types_workspace_has_no_room) {
    const int64_t m = 1 << 20, k = INT64_C(1) << 40;
    const struct heed_gemm g = {.m = m,
                                .n = 1,
                                .k = k,
                                .alpha = 1,
                                .a = (void *)64,
                                .a_type = HEED_BF16,
                                .lda = k,
                                .b = (void *)(UINT64_C(1) << 62),
                                .ldb = 1,
                                .c = (void *)(UINT64_C(5) << 61),
                                .ldc = 1};
    ck_assert_int_eq(heed_gemm_workspace_bytes(&g, &(struct heed_exec){.threads = 64}), -1);
    ck_assert_str_eq(heed_error_message(), "the call needs a workspace that no memory has room for");
}
END_TEST

/* Packed bytes are those of b, in panels of 64 columns. */
START_TEST(test_gemm_types_packed_layout) {
    struct rng rng = rng_for("gemm types layout", 0);
    for (int64_t repeat = 0; repeat < test_count(40); repeat++) {
        const enum heed_type type = any_type(&rng);
        const int64_t n = rng_range(&rng, 1, 200), k = rng_range(&rng, 1, 50), each = type_bytes(type);
        struct heed_gemm g = {.n = n, .k = k, .b_type = type, .transpose_b = rng_range(&rng, 0, 1)};
        struct stored_matrix b = g.transpose_b ? stored_matrix_new(&rng, type, n, k) : stored_matrix_new(&rng, type, k, n);
        for (int64_t i = 0; i < (b.rows - 1) * b.ld + b.columns; i++)
            memcpy(b.data + i * each, &(uint32_t){(uint32_t)rng_next(&rng)}, (size_t)each);
        g.b = b.data, g.ldb = b.ld;
        const int64_t bytes = heed_gemm_packed_bytes(&g);
        const int64_t side = type == HEED_BF16 ? 2 : 1, depth = round_up(k, side); /* rows side by side */
        ck_assert_int_eq(bytes, ceil_div(n, HEED_PANEL) * HEED_PANEL * depth * each);
        struct stored_matrix panels = stored_matrix_new(&rng, type, 1, bytes / each);
        ck_assert_int_eq(heed_gemm_pack_b(&g, panels.data, &(struct heed_exec){.isa = any_isa(&rng)}), HEED_OK);
        for (int64_t i = 0; i < bytes / each; i++) {
            const int64_t at = i % (HEED_PANEL * depth), p = at / (HEED_PANEL * side) * side + at % side;
            const int64_t j = i / (HEED_PANEL * depth) * HEED_PANEL + at / side % HEED_PANEL;
            const uint32_t zero = 0;
            const void *want =
                j >= n || p >= k ? (const void *)&zero : b.data + (g.transpose_b ? j * b.ld + p : p * b.ld + j) * each;
            ck_assert_msg(memcmp(panels.data + i * each, want, (size_t)each) == 0, "element %lld of %s", (long long)i,
                          type_name(type));
        }
        buffer_free(&b.memory);
        buffer_free(&panels.memory);
    }
}
END_TEST

Suite *gemm_types_suite(void) {
    Suite *suite = suite_create("gemm_types");
    TCase *tests = tcase_create("gemm types");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_gemm_types_same_bits, 0, test_quick() ? 1 : 3);
    tcase_add_test(tests, test_gemm_types_packed_layout);
    tcase_add_test(tests, test_gemm_types_workspace_has_no_room);
    if (!test_quick()) {
        tcase_add_test(tests, test_gemm_types_long_columns);
        tcase_add_test(tests, test_gemm_types_many_rows);
        tcase_add_test(tests, test_gemm_types_spans_of_strips);
    }
    suite_add_tcase(suite, tests);
    return suite;
}
