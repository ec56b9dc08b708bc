/* The caller's threads: pools of any kind give the bits of a single thread, and so do calls from several threads at once.  Free of
 * OpenMP and forks where it can be, so that the thread sanitizer can watch it. */
#include "harness_attention.h"
#include "schedule.h"
#include "suites.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 8 };

struct pool {
    int threads;
    _Atomic int calls; /* of run */
    bool out_of_bounds;
};

struct job {
    void (*task)(void *context, int index);
    void *context;
    int index;
};

static void *run_job(void *argument) {
    const struct job *job = argument;
    job->task(job->context, job->index);
    return NULL;
}

static int pool_size(void *pool) { return ((struct pool *)pool)->threads; }

static void run_on_threads(void *argument, int count, void (*task)(void *context, int index), void *context) {
    struct pool *pool = argument;
    pthread_t threads[MAX_THREADS];
    struct job jobs[MAX_THREADS];
    pool->calls++;
    pool->out_of_bounds |= count < 1 || count > pool->threads;
    for (int i = 0; i < count; i++) {
        jobs[i] = (struct job){task, context, i};
        if (pthread_create(&threads[i], NULL, run_job, &jobs[i]))
            abort();
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* On one thread, last task first. */
static void run_in_turn(void *argument, int count, void (*task)(void *context, int index), void *context) {
    struct pool *pool = argument;
    pool->calls++;
    pool->out_of_bounds |= count < 1 || count > pool->threads;
    while (count-- > 0)
        task(context, count);
}

/* Large enough for every function to want its threads. */
struct problem {
    float *x, *want, *got;
};
enum { SIZE = 104, SQUARE = SIZE * SIZE, ROWS = 256, INPUTS = ROWS * ROWS };
enum { SOFTMAX = 2 * SQUARE, GROUP = SOFTMAX + INPUTS, PACKED = GROUP + 3 * SQUARE, FLOATS = PACKED + 128 * SIZE };

static enum heed_status compute_group(const float *x, float *y, const struct heed_exec *exec) {
    struct heed_linear linears[3];
    for (int i = 0; i < 3; i++)
        linears[i] = (struct heed_linear){.rows = SIZE,
                                          .weights = {.outputs = SIZE, .inputs = SIZE, .data = x + i * SQUARE, .stride = SIZE},
                                          .input = {.data = x, .token_stride = SIZE},
                                          .output = {.data = y + i * SQUARE, .token_stride = SIZE}};
    return heed_linear_group(linears, 3, exec);
}

/* gemm, softmax, attention, a group of layers and packing; returns the first failure. */
static enum heed_status compute(const float *x, float *y, const struct heed_exec *exec) {
    const struct heed_input input = {x, 0, SIZE, 2 * (int64_t)SIZE, HEED_F32};
    struct heed_gemm gemm = {
        .m = SIZE, .n = SIZE, .k = SIZE, .alpha = 1, .a = x, .lda = SIZE, .b = x, .ldb = SIZE, .c = y, .ldc = SIZE};
    struct heed_softmax softmax = {.rows = ROWS, .columns = ROWS, .input = x, .input_stride = ROWS, .output = y + SOFTMAX};
    softmax.output_stride = ROWS;
    struct heed_attention attention = {.batch = 1,
                                       .num_heads = 2,
                                       .num_kv_heads = 2,
                                       .query_tokens = SIZE / 2,
                                       .key_tokens = SIZE / 2,
                                       .head_dim = SIZE,
                                       .value_dim = SIZE,
                                       .causal = true,
                                       .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                                       .query = input,
                                       .key = input,
                                       .value = input,
                                       .output = {y + SQUARE, 0, SIZE, 2 * (int64_t)SIZE, HEED_F32}};
    enum heed_status status = heed_gemm(&gemm, exec);
    status = status ? status : heed_softmax(&softmax, exec);
    status = status ? status : heed_attention(&attention, exec);
    status = status ? status : compute_group(x, y + GROUP, exec);
    return status ? status : heed_gemm_pack_b(&gemm, y + PACKED, exec);
}

static struct problem new_problem(const char *name, const char *isa) {
    struct rng rng = rng_for(name, 0);
    struct problem p = {new_filled(&rng, FILL_NORMAL, INPUTS), new_floats(FLOATS), new_floats(FLOATS)};
    memset(p.want, 0, FLOATS * sizeof *p.want);
    memset(p.got, 0, FLOATS * sizeof *p.got);
    const struct heed_gemm packed = {.n = SIZE, .k = SIZE};
    ck_assert_int_eq(heed_gemm_packed_bytes(&packed), (FLOATS - PACKED) * (int64_t)sizeof(float));
    ck_assert_int_eq(compute(p.x, p.want, &(struct heed_exec){.threads = 1, .isa = isa}), HEED_OK);
    return p;
}

static void free_problem(struct problem *p) {
    free(p->x);
    free(p->want);
    free(p->got);
}

START_TEST(test_threads_of_the_callers_pool) {
    const char *isa = heed_kernels_usable(_i)->name;
    struct problem p = new_problem("pool", isa);
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        /* a pool of 0 counts as 1 */
        for (int threads = 0; threads <= MAX_THREADS; threads += test_quick() ? 3 : 1) {
            struct pool pool = {.threads = threads};
            struct heed_exec exec = {
                .isa = isa, .pool = &pool, .num_threads = pool_size, .run = in_turn ? run_in_turn : run_on_threads};
            describe("all", isa, "pool of %d%s", threads, in_turn ? ", in turn" : "");
            memset(p.got, 0, FLOATS * sizeof *p.got);
            ck_assert_int_eq(compute(p.x, p.got, &exec), HEED_OK);
            must(compare(SAME_BITS, p.got, p.want, 1, FLOATS));
            ck_assert(!pool.out_of_bounds);
            ck_assert_msg(threads < 2 || pool.calls >= 4, "a pool of %d was used by %d of 5 calls", threads, pool.calls);
        }
    }
    free_problem(&p);
}
END_TEST

static bool always(void *context) {
    (void)context;
    return true;
}

START_TEST(test_threads_of_a_group_may_be_cancelled) {
    struct problem p = new_problem("cancelled group", NULL);
    for (int threads = 1; threads <= 3; threads++)
        ck_assert_int_eq(compute_group(p.x, p.got, &(struct heed_exec){.threads = threads, .cancelled = always}), HEED_CANCELLED);
    free_problem(&p);
}
END_TEST

START_TEST(test_threads_wish_is_limited_by_the_pool) {
    struct problem p = new_problem("wish", NULL);
    for (int wish = 1; wish <= 16; wish *= 4) {
        struct pool pool = {.threads = 3};
        struct heed_exec exec = {.threads = wish, .pool = &pool, .num_threads = pool_size, .run = run_in_turn};
        ck_assert_int_eq(compute(p.x, p.got, &exec), HEED_OK);
        must(compare(SAME_BITS, p.got, p.want, 1, FLOATS));
        ck_assert(!pool.out_of_bounds);
    }
    free_problem(&p);
}
END_TEST

/* A plan's workspace is for the workers of that moment. */
START_TEST(test_threads_of_a_plan_stay) {
    enum { TOKENS = 128, WIDTH = 32, HEADS = 8 };
    static const int counts[] = {1, 2, 3, MAX_THREADS};
    const int64_t floats = (int64_t)TOKENS * HEADS * WIDTH;
    float *x = new_floats(floats), *output = new_floats(floats), *want = new_floats(floats);
    for (int64_t i = 0; i < floats; i++)
        x[i] = (float)(i % 17) / 17;
    struct heed_attention a = {.batch = 1, .num_heads = HEADS, .num_kv_heads = HEADS, .query_tokens = TOKENS, .key_tokens = TOKENS};
    a.head_dim = a.value_dim = WIDTH;
    a.query = a.key = a.value = (struct heed_input){x, 0, WIDTH, (int64_t)HEADS * WIDTH, HEED_F32};
    a.output = (struct heed_output){want, 0, WIDTH, (int64_t)HEADS * WIDTH, HEED_F32};
    ck_assert_int_eq(heed_attention(&a, &(struct heed_exec){.threads = 1, .isa = "scalar"}), HEED_OK);
    a.output.data = output;
    for (int i = 0; i < 4; i++) {
        struct pool pool = {.threads = counts[i]};
        struct heed_plan plan;
        const struct heed_exec exec = {.pool = &pool, .num_threads = pool_size, .run = run_in_turn};
        ck_assert_int_eq(heed_attention_plan(&a, &exec, &plan), HEED_OK);
        char *workspace = aligned_alloc(64, (size_t)plan.workspace_bytes + 64);
        ck_assert_int_eq(plan.workers, counts[i]);
        for (int j = 0; j < 4; j++) {
            pool.threads = counts[j];
            memset(output, 0xff, (size_t)floats * sizeof *output);
            ck_assert_msg(heed_attention_run(&plan, NULL, workspace) == HEED_OK, "%d workers, planned for %d: %s", counts[j],
                          counts[i], heed_error_message());
            must(compare(SAME_BITS, output, want, (int64_t)TOKENS * HEADS, WIDTH));
        }
        ck_assert(!pool.out_of_bounds);
        free(workspace);
    }
    free(x);
    free(output);
    free(want);
}
END_TEST

enum { MOST_TASKS = 100 };

static bool count_task(void *context, int64_t task, int worker) {
    (void)worker;
    ((int *)context)[task]++;
    return true;
}

/* Each task once, whoever does it and in whatever order workers come. */
START_TEST(test_threads_do_each_task_once) {
    for (int workers = 1; workers <= 70; workers++) {
        struct pool pool = {.threads = workers};
        const struct heed_exec exec = {.pool = &pool, .num_threads = pool_size, .run = run_in_turn};
        for (int64_t tasks = 0; tasks <= MOST_TASKS; tasks++) {
            int times[MOST_TASKS + 1] = {0};
            ck_assert_int_eq(heed_schedule_run(&exec, workers, tasks, count_task, times), HEED_OK);
            for (int64_t task = 0; task <= MOST_TASKS; task++)
                ck_assert_msg(times[task] == (task < tasks), "task %d of %d: %d times by %d workers", (int)task, (int)tasks,
                              times[task], workers);
        }
    }
}
END_TEST

/* A small problem wakes nobody. */
START_TEST(test_threads_are_spared_for_small_problems) {
    struct pool pool = {.threads = 4};
    struct heed_exec exec = {.pool = &pool, .num_threads = pool_size, .run = run_on_threads};
    const float x[] = {1, 2, 3, 4};
    float y[4];
    struct heed_gemm gemm = {.m = 2, .n = 2, .k = 2, .alpha = 1, .a = x, .lda = 2, .b = x, .ldb = 2, .c = y, .ldc = 2};
    struct heed_softmax softmax = {.rows = 2, .columns = 2, .input = x, .input_stride = 2, .output = y, .output_stride = 2};
    ck_assert_int_eq(heed_gemm(&gemm, &exec), HEED_OK);
    ck_assert_int_eq(heed_softmax(&softmax, &exec), HEED_OK);
    ck_assert_int_eq(pool.calls, 0);
}
END_TEST

struct caller {
    struct problem problem;
    bool serial; /* with its own thread only, else with a pool of its own */
    bool failed;
};

static void *call_often(void *argument) {
    struct caller *caller = argument;
    struct problem *p = &caller->problem;
    struct pool pool = {.threads = 2};
    struct heed_exec exec = {.threads = 1};
    if (!caller->serial)
        exec = (struct heed_exec){.pool = &pool, .num_threads = pool_size, .run = run_on_threads};
    for (int i = 0; i < (test_quick() ? 1 : 5); i++) {
        char message[64];
        snprintf(message, sizeof message, "exec.threads is %d", -1 - i);
        caller->failed |= compute(p->x, p->got, &exec) != HEED_OK || compare(SAME_BITS, p->got, p->want, 1, FLOATS);
        /* messages are each thread's own */
        caller->failed |= compute(p->x, p->got, &(struct heed_exec){.threads = -1 - i}) != HEED_INVALID_ARGUMENT;
        caller->failed |= !strstr(heed_error_message(), message);
    }
    return NULL;
}

START_TEST(test_threads_may_call_at_once) {
    enum { CALLERS = 6 };
    static const char *const names[CALLERS] = {"a", "b", "c", "d", "e", "f"};
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        callers[i] = (struct caller){.problem = new_problem(names[i], NULL), .serial = i % 2};
    for (int i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    for (int i = 0; i < CALLERS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_msg(!callers[i].failed, "caller %d", i);
        free_problem(&callers[i].problem);
    }
}
END_TEST

Suite *threads_suite(void) {
    Suite *suite = suite_create("threads");
    TCase *tests = tcase_create("threads");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_threads_of_the_callers_pool, 0, usable_tables());
    tcase_add_test(tests, test_threads_of_a_group_may_be_cancelled);
    tcase_add_test(tests, test_threads_wish_is_limited_by_the_pool);
    tcase_add_test(tests, test_threads_of_a_plan_stay);
    tcase_add_test(tests, test_threads_do_each_task_once);
    tcase_add_test(tests, test_threads_are_spared_for_small_problems);
    tcase_add_test(tests, test_threads_may_call_at_once);
    suite_add_tcase(suite, tests);
    return suite;
}
