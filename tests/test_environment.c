/* The caller's floating-point environment: whatever rounding mode, flushing and traps it has, results have the same bits, and it
 * finds its environment again, on its own thread and on those of its pool. */
#define _GNU_SOURCE /* FE_* exceptions that trap */
#include "harness_attention.h"
#include "suites.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>

/* The control register: MXCSR, or FPCR. */
#if defined(__x86_64__)
#include <xmmintrin.h>
static uint64_t get_control(void) { return _mm_getcsr(); }
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

/* The three functions on fixed data, in an environment; the results go to `results`. */
struct computation {
    struct heed_gemm gemm;
    struct heed_softmax softmax;
    struct heed_attention attention;
};

static void compute_in(int environment, const struct computation *c, const struct heed_exec *exec) {
    uint64_t outside = get_control();
    enter(environment);
    uint64_t before = get_control();
    enum heed_status status = heed_gemm(&c->gemm, exec);
    status = status ? status : heed_softmax(&c->softmax, exec);
    status = status ? status : heed_attention(&c->attention, exec);
    uint64_t after = get_control();
    set_control(outside);
    ck_assert_msg(status == HEED_OK, "%s", heed_error_message());
    ck_assert_msg(after == before, "control register 0x%llx, was 0x%llx", (unsigned long long)after, (unsigned long long)before);
}

/* All the same width and depth, so that one array of values serves as any operand. */
enum { SIZE = 110, VALUES = SIZE * SIZE, LSE = 3 * VALUES, RESULTS = LSE + SIZE };

static struct computation computation_on(const float *x, float *y) {
    const struct heed_input input = {x, 0, 0, SIZE};
    return (struct computation){
        .gemm = {.m = SIZE, .n = SIZE, .k = SIZE, .alpha = 1, .a = x, .lda = SIZE, .b = x, .ldb = SIZE, .c = y, .ldc = SIZE},
        .softmax = {.rows = SIZE, .columns = SIZE, .input = x, .input_stride = SIZE, .output = y + VALUES, .output_stride = SIZE},
        .attention = {.batch = 1,
                      .num_heads = 1,
                      .num_kv_heads = 1,
                      .query_tokens = SIZE,
                      .key_tokens = SIZE,
                      .head_dim = SIZE,
                      .value_dim = SIZE,
                      .query = input,
                      .key = input,
                      .value = input,
                      .output = {y + 2 * (ptrdiff_t)VALUES, 0, 0, SIZE},
                      .lse = {y + LSE, 0, 0, 1}},
    };
}

START_TEST(test_environment_changes_nothing) {
    static const enum fill modes[] = {FILL_CANCEL, FILL_DENORMAL, FILL_EXP_LIMIT, FILL_NAN};
    struct rng rng = rng_for("environment", 0);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        float *x = new_filled(&rng, modes[m], VALUES), *want = new_floats(RESULTS), *got = new_floats(RESULTS);
        struct computation c = computation_on(x, want);
        struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name, .threads = 1};
        compute_in(0, &c, &exec);
        for (int environment = 1; environment < ENVIRONMENTS; environment++) {
            /* the caller's thread, OpenMP's threads, the caller's pool */
            for (int kind = 0; kind < (environment % 5 == 1 ? 3 : 1); kind++) {
                c = computation_on(x, got);
                exec.threads = kind == 0 ? 1 : 3;
                exec.run = kind == 2 ? run_in_environment : NULL;
                exec.num_threads = kind == 2 ? pool_of_three : NULL;
                exec.pool = &environment;
                compute_in(environment, &c, &exec);
                describe("all", exec.isa, "environment %d, kind %d, %s", environment, kind, fill_name(modes[m]));
                must(compare(SAME_BITS, got, want, 1, RESULTS));
            }
        }
        free(x);
        free(want);
        free(got);
    }
}
END_TEST

Suite *environment_suite(void) {
    Suite *suite = suite_create("environment");
    TCase *tests = tcase_create("environment");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_environment_changes_nothing, 0, usable_tables());
    suite_add_tcase(suite, tests);
    return suite;
}
