/* The caller's floating-point environment: whatever rounding mode, flushing and traps it has, results have the same bits, and it
 * finds its environment again, on its own thread and on those of its pool. */
#define _GNU_SOURCE /* FE_* exceptions that trap */
#include "config.h"
#include "cpu.h"
#include "dispatch.h"
#include "harness_attention.h"
#include "suites.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>

/* The control bits: of MXCSR, whose lowest six are flags of exceptions, or FPCR. */
#if defined(__x86_64__)
#include <xmmintrin.h>
static uint64_t get_control(void) { return _mm_getcsr() & ~(unsigned)_MM_EXCEPT_MASK; }
static void set_control(uint64_t control) { _mm_setcsr((unsigned)control); }
enum { ROUND_SHIFT = 13, FLUSH = 1 << 15 | 1 << 6, ALL_TRAPS = 0x1f80, TRAPS_WHEN_SET = 0 };
#elif defined(__aarch64__)
static uint64_t get_control(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}
static void set_control(uint64_t control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }
enum { ROUND_SHIFT = 22, FLUSH = 1 << 24, ALL_TRAPS = 0x1f00, TRAPS_WHEN_SET = 1 };
#else
#error "no floating-point control register known for this architecture"
#endif

enum { ENVIRONMENTS = 16 };

/* Bits 0 and 1: rounding; 2: flush to zero and denormals are zero; 3: traps, where the processor has them. */
static void enter(int environment) {
    uint64_t control = get_control() & ~((uint64_t)3 << ROUND_SHIFT);
    control |= (uint64_t)(environment & 3) << ROUND_SHIFT;
    if (environment & 4)
        control |= FLUSH;
    if (environment & 8)
        control = TRAPS_WHEN_SET ? control | ALL_TRAPS : control & ~(uint64_t)ALL_TRAPS;
    set_control(control);
}

static int pool_of_three(void *pool) {
    (void)pool;
    return 3;
}

/* A pool whose threads are in the environment *pool, and must still be when a task returns. */
static void run_in_environment(void *pool, int count, void (*task)(void *context, int index), void *context) {
    uint64_t outside = get_control();
    for (int i = 0; i < count; i++) {
        enter(*(int *)pool);
        uint64_t before = get_control();
        task(context, i);
        uint64_t after = get_control();
        set_control(outside);
        ck_assert_msg(after == before, "control register 0x%llx, was 0x%llx", (unsigned long long)after,
                      (unsigned long long)before);
    }
}

/* The functions, products and attention in all kinds of arithmetic, on fixed data, in an environment; the results go to `results`.
 */
struct computation {
    struct heed_gemm gemm, gemm_pairs, gemm_dots, gemm_i8;
    struct heed_softmax softmax;
    struct heed_norm norm;
    struct heed_attention attention, pairs, dots;
};

static void compute_in(int environment, const struct computation *c, const struct heed_exec *exec) {
    uint64_t outside = get_control();
    enter(environment);
    uint64_t before = get_control();
    enum heed_status status = heed_gemm(&c->gemm, exec);
    status = status ? status : heed_gemm(&c->gemm_pairs, exec);
    status = status ? status : heed_gemm(&c->gemm_dots, exec);
    status = status ? status : heed_gemm(&c->gemm_i8, exec);
    status = status ? status : heed_softmax(&c->softmax, exec);
    status = status ? status : heed_layer_norm(&c->norm, exec);
    status = status ? status : heed_attention(&c->attention, exec);
    status = status ? status : heed_attention(&c->pairs, exec);
    status = status ? status : heed_attention(&c->dots, exec);
    uint64_t after = get_control();
    set_control(outside);
    ck_assert_msg(status == HEED_OK, "%s", heed_error_message());
    ck_assert_msg(after == before, "control register 0x%llx, was 0x%llx", (unsigned long long)after, (unsigned long long)before);
}

/* All the same width and depth, so that one array of values serves as any operand; SIZE is worth several threads. */
enum { SIZE = 110, SMALL = 20 };

/* Of the product of bytes: whole blocks, and as many rows as there are then. */
static int64_t i8_depth_of(int64_t size) { return size < TYPE_BLOCK ? TYPE_BLOCK : size / TYPE_BLOCK * TYPE_BLOCK; }
static int64_t i8_rows_of(int64_t size) { return min_i64(size, size * size / i8_depth_of(size)); }

static int64_t results_of(int64_t size) { return size * (8 * size + 3 + i8_rows_of(size)); }

static struct computation computation_on(const float *x, float *y, int64_t size) {
    const struct heed_input input = {x, 0, 0, size, HEED_F32};
    struct computation c = {
        .gemm = {.m = size, .n = size, .k = size, .alpha = 1, .a = x, .lda = size, .b = x, .ldb = size, .c = y, .ldc = size},
        .softmax =
            {.rows = size, .columns = size, .input = x, .input_stride = size, .output = y + size * size, .output_stride = size},
        .norm = {.rows = size,
                 .columns = size,
                 .input = {.data = x, .token_stride = size},
                 .gain = x,
                 .bias = x + size,
                 .output = {.data = y + size * (3 * size + 1), .token_stride = size}},
        .attention = {.batch = 1,
                      .num_heads = 1,
                      .num_kv_heads = 1,
                      .query_tokens = size,
                      .key_tokens = size,
                      .head_dim = size,
                      .value_dim = size,
                      .query = input,
                      .key = input,
                      .value = input,
                      .output = {y + 2 * size * size, 0, 0, size, HEED_F32},
                      .lse = {y + 3 * size * size, 0, 0, 1, HEED_F32}},
    };
    c.gemm_pairs = c.gemm;
    c.gemm_pairs.compute = HEED_COMPUTE_BF16;
    c.gemm_pairs.c = y + size * (5 * size + 2);
    c.gemm_dots = c.gemm;
    c.gemm_dots.compute = HEED_COMPUTE_BF16_AMX;
    c.gemm_dots.c = y + size * (6 * size + 2);
    c.gemm_i8 = c.gemm;
    c.gemm_i8.compute = HEED_COMPUTE_I8;
    c.gemm_i8.k = c.gemm_i8.lda = c.gemm_i8.ldb = i8_depth_of(size);
    c.gemm_i8.m = i8_rows_of(size);
    c.gemm_i8.b_type = HEED_Q4_0, c.gemm_i8.transpose_b = true;
    c.gemm_i8.c = y + size * (8 * size + 3);
    c.pairs = c.attention;
    c.pairs.compute = HEED_COMPUTE_BF16;
    c.pairs.output.data = y + size * (4 * size + 1);
    c.pairs.lse.data = y + size * (5 * size + 1);
    c.dots = c.attention;
    c.dots.compute = HEED_COMPUTE_BF16_AMX;
    c.dots.output.data = y + size * (7 * size + 2);
    c.dots.lse.data = y + size * (8 * size + 2);
    return c;
}

static void check_environment(int environment, bool threads, enum fill mode, const char *isa) {
    struct rng rng = rng_for("environment", mode);
    int64_t size = threads ? SIZE : SMALL, results = results_of(size);
    float *x = new_filled(&rng, mode, size * size), *want = new_floats(results), *got = new_floats(results);
    struct computation c = computation_on(x, want, size);
    compute_in(0, &c, &(struct heed_exec){.isa = isa, .threads = 1});
    const struct heed_exec ways[] = {{.isa = isa, .threads = 1},
                                     {.isa = isa, .threads = 3},
                                     {.isa = isa, .pool = &environment, .num_threads = pool_of_three, .run = run_in_environment}};
    for (int way = 0; way < (threads ? 3 : 1); way++) {
        c = computation_on(x, got, size);
        compute_in(environment, &c, &ways[way]);
        describe("all", isa, "environment %d, way %d, %s", environment, way, fill_name(mode));
        must(compare(SAME_BITS, got, want, 1, results));
    }
    free(x);
    free(want);
    free(got);
}

START_TEST(test_environment_changes_nothing) {
    static const enum fill modes[] = {FILL_NORMAL, FILL_CANCEL, FILL_DENORMAL, FILL_EXP_LIMIT, FILL_MINUS_INF, FILL_NAN};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (int environment = 1; environment < ENVIRONMENTS; environment++)
            check_environment(environment, false, modes[m], heed_kernels_usable(_i)->name);
}
END_TEST

START_TEST(test_environment_of_threads_changes_nothing) {
    static const int environments[] = {6, 9, 15};
    for (int i = 0; i < (test_quick() ? 1 : 3); i++)
        check_environment(environments[i], true, FILL_CANCEL, heed_kernels_usable(_i)->name);
}
END_TEST

#if HEED_HAVE_AMX
static const struct tile_configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} callers_tiles = {.palette = 1, .row_bytes = {64, 8, 4}, .rows = {3, 16, 1}}, no_tiles;

static void set_tiles(const struct tile_configuration *tiles) {
    if (tiles->palette)
        __asm__ volatile("ldtilecfg %0" ::"m"(*tiles));
    else
        __asm__ volatile("tilerelease");
}

static void check_tiles(const struct computation *c, const struct tile_configuration *tiles) {
    const struct heed_exec exec = {.isa = "amx", .threads = 1};
    struct tile_configuration after;
    set_tiles(tiles);
    const enum heed_status product = heed_gemm(&c->gemm_dots, &exec), attention = heed_attention(&c->dots, &exec);
    const enum heed_status integers = heed_gemm(&c->gemm_i8, &exec);
    __asm__ volatile("sttilecfg %0" : "=m"(after));
    set_tiles(&no_tiles);
    ck_assert(product == HEED_OK && attention == HEED_OK && integers == HEED_OK);
    ck_assert_mem_eq(&after, tiles, sizeof after);
}

/* ggml sets its tile registers once for each thread, and would end by an illegal instruction. */
START_TEST(test_environment_of_tiles_stays) {
    if ((heed_cpu_features() & HEED_CPU_AMX) != HEED_CPU_AMX || !heed_kernels_usable(0)->dots->permitted ||
        !heed_kernels_usable(0)->dots->permitted())
        return;
    struct rng rng = rng_for("tiles", 0);
    float *x = new_filled(&rng, FILL_NORMAL, SIZE * SIZE), *y = new_floats(results_of(SIZE));
    const struct computation c = computation_on(x, y, SIZE);
    check_tiles(&c, &callers_tiles);
    check_tiles(&c, &no_tiles);
    free(x);
    free(y);
}
END_TEST
#endif

Suite *environment_suite(void) {
    Suite *suite = suite_create("environment");
    TCase *tests = tcase_create("environment");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_environment_changes_nothing, 0, usable_tables());
    tcase_add_loop_test(tests, test_environment_of_threads_changes_nothing, 0, usable_tables());
#if HEED_HAVE_AMX
    tcase_add_test(tests, test_environment_of_tiles_stays);
#endif
    suite_add_tcase(suite, tests);
    return suite;
}
