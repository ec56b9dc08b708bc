/* The only part of heed that knows threads: tasks are drawn as tickets by workers of OpenMP or of the caller's pool. */
#ifndef HEED_SCHEDULE_H
#define HEED_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "heed.h"

enum { HEED_MAX_WORKERS = 1024 };

/* One of many independent tasks; worker < the number of workers, and no two tasks run at once with the same worker.  False: it was
 * cancelled, and no other task need run. */
typedef bool heed_task_fn(void *context, int64_t task, int worker);

enum heed_status heed_exec_check(const struct heed_exec *exec);
/* Workers that a call may use: exec's wish, or all that OpenMP or the pool offers. */
int heed_schedule_threads(const struct heed_exec *exec);
/* The same exec, but threads asked for once: steps of a call must not have more workers than it has memory for. */
struct heed_exec heed_exec_once(const struct heed_exec *exec);
/* The operations that a core does while it reads so many bytes, from a shared cache at best, if that takes longer than its flops.
 */
double heed_schedule_work(double flops, double bytes);
/* Workers for `tasks` tasks of `flops` operations in all: 1 where waking a thread costs more than it saves. */
int heed_schedule_workers(const struct heed_exec *exec, int64_t tasks, double flops);
/* Runs fn(context, task, worker) for all tasks, and waits.  A worker begins with a share of its own, of tasks one after another,
 * and goes on with those of others.  HEED_CANCELLED if exec or a task said so before all had run. */
enum heed_status heed_schedule_run(const struct heed_exec *exec, int workers, int64_t tasks, heed_task_fn *fn, void *context);
/* Whether the caller wants no more of the call: to be asked by tasks that take longer than some tens of microseconds. */
bool heed_exec_cancelled(const struct heed_exec *exec);
bool heed_schedule_has_openmp(void);

#endif
