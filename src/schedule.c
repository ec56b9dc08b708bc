/* Tasks over workers.  Each worker draws tickets of its own share, then of others', so unequal cores and unequal tasks balance;
 * which worker runs a task never changes its result. */
#include "schedule.h"

#include <stdatomic.h>
#include <stddef.h>

#include "config.h"
#include "cpu.h"
#include "error.h"
#include "internal.h"
#include "region.h"

#if HEED_HAVE_OPENMP
#include <omp.h>
#endif

/* Work below which one thread is as quick: waking a second one takes 5 to 10 us, some 10^6 operations of one core. */
#define FLOPS_WORTH_A_THREAD 2e6
/* A row times weights is reading: 12 to 25 GB/s from memory and L3 where 150 * 10^9 operations could be done.  So 250 kB are worth
 * a thread: from memory 256 x 256 floats take 24 us on one and 17 on two. */
#define FLOPS_PER_BYTE 8.0

/* Tasks one after another, which their own worker begins with, and others go on with once theirs are done: from one function to
 * the next, rows stay with the worker in whose caches they are. */
struct share {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
};
enum { MOST_SHARES = 32 /* more workers begin with the same */ };

struct run {
    struct share shares[MOST_SHARES];
    int count;
    atomic_bool cancelled;
    const struct heed_exec *exec;
    heed_task_fn *fn;
    void *context;
};

enum heed_status heed_exec_check(const struct heed_exec *exec) {
    if (!exec)
        return HEED_OK;
    if (exec->run && !exec->num_threads)
        return heed_fail(HEED_INVALID_ARGUMENT, "exec.num_threads is NULL, but exec.run is set");
    if (!exec->run && (exec->num_threads || exec->pool))
        return heed_fail(HEED_INVALID_ARGUMENT, "exec.run is NULL, but exec.%s is set", exec->num_threads ? "num_threads" : "pool");
    return heed_check_range("exec.threads", exec->threads, 0, HEED_MAX_WORKERS);
}

bool heed_exec_cancelled(const struct heed_exec *exec) { return exec && exec->cancelled && exec->cancelled(exec->cancel_context); }

bool heed_schedule_has_openmp(void) { return HEED_HAVE_OPENMP; }

static int offered_threads(const struct heed_exec *exec) {
    if (exec && exec->run)
        return exec->num_threads(exec->pool);
#if HEED_HAVE_OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

int heed_schedule_threads(const struct heed_exec *exec) {
    const bool has_pool = exec && exec->run;
    const int wish = exec ? exec->threads : 0;
    if (wish > 0 && !has_pool)
        return wish;
    const int64_t offered = max_i64(1, min_i64(offered_threads(exec), HEED_MAX_WORKERS));
    return (int)(wish > 0 ? min_i64(wish, offered) : offered);
}

/* What was on offer is now the wish. */
static int any_number(void *pool) {
    (void)pool;
    return HEED_MAX_WORKERS;
}

struct heed_exec heed_exec_once(const struct heed_exec *exec) {
    struct heed_exec once = exec ? *exec : (struct heed_exec){0};
    once.threads = heed_schedule_threads(exec);
    once.num_threads = once.run ? any_number : NULL;
    return once;
}

double heed_schedule_work(double flops, double bytes) { return flops > bytes * FLOPS_PER_BYTE ? flops : bytes * FLOPS_PER_BYTE; }

int heed_schedule_workers(const struct heed_exec *exec, int64_t tasks, double flops) {
    if (tasks <= 1 || flops < FLOPS_WORTH_A_THREAD)
        return 1;
    return (int)min_i64(heed_schedule_threads(exec), tasks);
}

static void work_on(struct run *run, struct share *share, int worker) {
    int64_t task;
    while ((task = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed)) < share->end) {
        if (atomic_load_explicit(&run->cancelled, memory_order_relaxed))
            break;
        if (heed_exec_cancelled(run->exec) || !run->fn(run->context, task, worker))
            atomic_store_explicit(&run->cancelled, true, memory_order_relaxed);
    }
}

static void work(void *context, int worker) {
    struct run *run = context;
    const uint64_t callers = heed_fp_begin();
    for (int i = 0; i < run->count; i++)
        work_on(run, &run->shares[(worker + i) % run->count], worker);
    heed_fp_end(callers);
}

static void divide(struct run *run, int workers, int64_t tasks) {
    run->count = (int)min_i64(workers, MOST_SHARES);
    for (int64_t i = 0, begin = 0; i < run->count; i++) {
        struct share *share = &run->shares[i];
        atomic_init(&share->next, begin);
        share->end = begin += tasks / run->count + (i < tasks % run->count);
    }
}

static void run_workers(const struct heed_exec *exec, int workers, struct run *run) {
    if (workers > 1 && exec && exec->run) {
        exec->run(exec->pool, workers, work, run);
        return;
    }
#if HEED_HAVE_OPENMP
    if (workers > 1) {
#pragma omp parallel num_threads(workers)
        work(run, omp_get_thread_num());
        return;
    }
#endif
    work(run, 0);
}

enum heed_status heed_schedule_run(const struct heed_exec *exec, int workers, int64_t tasks, heed_task_fn *fn, void *context) {
    struct run run;
    run.exec = exec, run.fn = fn, run.context = context;
    divide(&run, workers, tasks);
    atomic_init(&run.cancelled, false);
    run_workers(exec, workers, &run);
    if (atomic_load_explicit(&run.cancelled, memory_order_relaxed))
        return heed_fail(HEED_CANCELLED, "exec.cancelled was true");
    return HEED_OK;
}
