/* heed_gemm: which part of c each task computes, and the loops around the tile.
 *
 * A task goes through column panels of 64; for each, through blocks of k, so that 64 columns of b x 256 stay near L1 while all row
 * tiles use them, straight from the rows of a.  Sums between blocks of k wait in scratch: c is written once, at the end. */
#include "gemm.h"

#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "internal.h"
#include "schedule.h"
#include "workspace.h"

enum {
    BLOCK_K = 256,    /* of one panel: 64 KiB */
    BLOCK_ROWS = 480, /* rows between which a panel is packed anew: their part of a is 480 KiB, their sums are 120 KiB */
    DIRECT_ROWS = 24, /* up to so many rows, packing b costs more than reading it in place */
    TASKS_PER_WORKER = 4
};

struct gemm_run {
    const struct heed_gemm *request;
    const struct heed_exec *exec;
    const struct heed_kernels *kernels;
    int64_t k, block_k;
    int64_t task_rows, task_columns;
    int64_t column_tasks;
    int64_t block_rows;
    int64_t worker_floats, sums_at, a_at; /* a worker's workspace: a block of b, of sums, of a if it is transposed */
    float *workspace;
};

/* What is the same for all tiles of a block: rows [row, row + rows), columns [column, ...) of c, p in [start, start + k). */
struct gemm_block {
    const struct gemm_run *run;
    int64_t row, rows, column, columns, start, k;
    const float *a, *b;
    int64_t lda, ldb;
    float *sums;
};

/* b in place needs whole vectors: its last columns may not reach to the end of one. */
static bool reads_b_in_place(const struct gemm_run *run, int64_t rows, int64_t columns) {
    return !run->request->transpose_b && rows <= DIRECT_ROWS && columns % run->kernels->lanes == 0;
}

static void load_b(struct gemm_block *block, float *scratch) {
    const struct heed_gemm *request = block->run->request;
    const int columns = (int)block->columns;
    block->ldb = HEED_PANEL;
    if (request->packed_b) {
        block->b = request->packed_b + block->column * request->k + block->start * HEED_PANEL;
    } else if (reads_b_in_place(block->run, block->rows, block->columns)) {
        block->b = request->b + block->start * request->ldb + block->column;
        block->ldb = request->ldb;
    } else if (request->transpose_b) {
        block->run->kernels->pack_transposed(request->b + block->column * request->ldb + block->start, request->ldb, block->k,
                                             columns, scratch);
        block->b = scratch;
    } else {
        block->run->kernels->pack(request->b + block->start * request->ldb + block->column, request->ldb, block->k, columns,
                                  scratch);
        block->b = scratch;
    }
}

/* A transposed a becomes rows of 64: block_k is 64 then. */
static void load_a(struct gemm_block *block, float *scratch) {
    const struct heed_gemm *request = block->run->request;
    if (request->transpose_a) {
        block->run->kernels->pack_transposed(request->a + block->start * request->lda + block->row, request->lda, block->rows,
                                             (int)block->k, scratch);
        block->a = scratch;
        block->lda = HEED_PANEL;
    } else {
        block->a = request->a + block->row * request->lda + block->start;
        block->lda = request->lda;
    }
}

static void multiply_tile(const struct gemm_block *block, int64_t i, int64_t j) {
    const struct gemm_run *run = block->run;
    const struct heed_gemm *request = run->request;
    const bool last = block->start + block->k == run->k;
    float *sums = block->sums + i * HEED_PANEL + j;
    run->kernels->gemm_tile(&(struct heed_gemm_tile){
        .rows = (int)min_i64(run->kernels->tile_rows, block->rows - i),
        .columns = (int)min_i64(run->kernels->tile_columns, block->columns - j),
        .k = block->k,
        .a = block->a + i * block->lda,
        .lda = block->lda,
        .b = block->b + j,
        .ldb = block->ldb,
        .acc = block->start > 0 ? sums : NULL,
        .ldacc = HEED_PANEL,
        .alpha = last ? request->alpha : 1.0f,
        .beta = last ? request->beta : 0.0f,
        .c = last ? request->c + (block->row + i) * request->ldc + block->column + j : sums,
        .ldc = last ? request->ldc : HEED_PANEL,
    });
}

/* At least one pass, so that k = 0 writes c too. */
static void multiply_block(struct gemm_block *block, float *workspace) {
    const struct gemm_run *run = block->run;
    block->start = 0;
    do {
        block->k = min_i64(run->block_k, run->k - block->start);
        if (block->k > 0) {
            load_a(block, workspace + run->a_at);
            load_b(block, workspace);
        }
        for (int64_t i = 0; i < block->rows; i += run->kernels->tile_rows)
            for (int64_t j = 0; j < block->columns; j += run->kernels->tile_columns)
                multiply_tile(block, i, j);
        block->start += block->k;
    } while (block->start < run->k);
}

static bool run_task(void *context, int64_t task, int worker) {
    const struct gemm_run *run = context;
    const struct heed_gemm *request = run->request;
    float *workspace = run->workspace + worker * run->worker_floats;
    const int64_t row = task / run->column_tasks * run->task_rows, column = task % run->column_tasks * run->task_columns;
    const int64_t row_end = min_i64(request->m, row + run->task_rows), column_end = min_i64(request->n, column + run->task_columns);
    /* Without factors (k or alpha 0) nothing is read of a and b, but an offset from NULL would be undefined. */
    struct gemm_block block = {.run = run, .sums = workspace + run->sums_at, .a = workspace, .b = workspace};
    for (block.column = column; block.column < column_end; block.column += HEED_PANEL) {
        block.columns = min_i64(HEED_PANEL, column_end - block.column);
        for (block.row = row; block.row < row_end; block.row += run->block_rows) {
            block.rows = min_i64(run->block_rows, row_end - block.row);
            if (heed_exec_cancelled(run->exec))
                return false;
            multiply_block(&block, workspace);
        }
    }
    return true;
}

/* Columns are cut first: each task then packs its own part of b once.  Rows are cut where there are too few columns. */
static int64_t plan_tasks(struct gemm_run *run, int threads) {
    const int64_t m = run->request->m, n = run->request->n;
    const int64_t panels = ceil_div(n, HEED_PANEL), wanted = threads > 1 ? (int64_t)threads * TASKS_PER_WORKER : 1;
    const int64_t task_panels = ceil_div(panels, wanted);
    run->task_columns = task_panels * HEED_PANEL;
    run->column_tasks = ceil_div(panels, task_panels);
    const int64_t row_tasks = ceil_div(wanted, run->column_tasks);
    run->task_rows = min_i64(m, round_up(max_i64(ceil_div(m, row_tasks), row_tasks > 1 ? 48 : 1), run->kernels->tile_rows));
    return ceil_div(m, run->task_rows) * run->column_tasks;
}

static int64_t plan_workspace(struct gemm_run *run) {
    const bool blocked = run->k > run->block_k;
    const int64_t block_k = min_i64(run->k, run->block_k);
    run->block_rows = min_i64(run->task_rows, BLOCK_ROWS);
    run->sums_at = run->request->packed_b ? 0 : workspace_round(block_k * HEED_PANEL);
    run->a_at = run->sums_at + (blocked ? workspace_round(run->block_rows * HEED_PANEL) : 0);
    return run->a_at + (run->request->transpose_a ? workspace_round(run->block_rows * HEED_PANEL) : 0);
}

static enum heed_status plan_and_run(const struct heed_gemm *request, const struct heed_exec *exec,
                                     const struct heed_kernels *kernels) {
    struct gemm_run run = {.request = request, .exec = exec, .kernels = kernels, .k = heed_gemm_reads_ab(request) ? request->k : 0};
    struct heed_workspace workspace;
    run.block_k = request->transpose_a ? HEED_PANEL : BLOCK_K;
    const double flops = 2.0 * (double)request->m * (double)request->n * (double)max_i64(run.k, 1);
    const int64_t tasks = plan_tasks(&run, heed_schedule_workers(exec, INT64_MAX, flops));
    const int workers = heed_schedule_workers(exec, tasks, flops);
    run.worker_floats = plan_workspace(&run);
    enum heed_status status = workspace_open(&workspace, workers * run.worker_floats);
    if (status)
        return status;
    run.workspace = workspace.data;
    status = heed_schedule_run(exec, workers, tasks, run_task, &run);
    workspace_close(&workspace);
    return status;
}

HEED_API enum heed_status heed_gemm(const struct heed_gemm *gemm, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    enum heed_status status = heed_gemm_check(gemm);
    if (status == HEED_OK)
        status = heed_exec_check(exec);
    if (status == HEED_OK)
        status = heed_kernels_for(exec, &kernels);
    if (status || gemm->m == 0 || gemm->n == 0)
        return status;
    const uint64_t callers = heed_fp_begin();
    status = plan_and_run(gemm, exec, kernels);
    heed_fp_end(callers);
    return status;
}

struct pack_run {
    const struct heed_gemm *request;
    const struct heed_kernels *kernels;
    float *packed;
};

static bool pack_task(void *context, int64_t task, int worker) {
    const struct pack_run *run = context;
    const struct heed_gemm *request = run->request;
    const int64_t column = task * HEED_PANEL;
    const int columns = (int)min_i64(HEED_PANEL, request->n - column);
    float *panel = run->packed + column * request->k;
    (void)worker;
    if (request->transpose_b)
        run->kernels->pack_transposed(request->b + column * request->ldb, request->ldb, request->k, columns, panel);
    else
        run->kernels->pack(request->b + column, request->ldb, request->k, columns, panel);
    return true;
}

HEED_API enum heed_status heed_gemm_pack_b(const struct heed_gemm *gemm, float *packed_b, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    enum heed_status status = heed_gemm_check_pack(gemm, packed_b);
    if (status == HEED_OK)
        status = heed_exec_check(exec);
    if (status == HEED_OK)
        status = heed_kernels_for(exec, &kernels);
    if (status || gemm->n == 0 || gemm->k == 0)
        return status;
    struct pack_run run = {gemm, kernels, packed_b};
    const int64_t panels = ceil_div(gemm->n, HEED_PANEL);
    const double bytes = 8.0 * (double)gemm->n * (double)gemm->k;
    return heed_schedule_run(exec, heed_schedule_workers(exec, panels, bytes), panels, pack_task, &run);
}
