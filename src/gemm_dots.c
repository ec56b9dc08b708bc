/* heed_gemm in HEED_COMPUTE_BF16_AMX: by dots, of AMX or of what stands in for it.
 *
 * AMX multiplies 16 times as fast as fma but reads memory no faster, so what is there in its form is read where it is, rows of bf16
 * and packed words.  The rest is arranged once and used often: of a as many rows as take some MiB, by all workers together; then
 * each task goes through blocks of b, as many columns as stay in L2, and multiplies each with one strip of rows after another. */
#include "gemm_dots.h"

#include "cache_sizes.h"
#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"
#include "workspace.h"

enum {
    TASK_PANELS = 4, /* of a task, if there are enough of them */
    BLOCK_K_LEAST = 512,
    BLOCK_K_MOST = 2048,
    FEW_ROWS_K = 256,   /* where b is used once or twice, a panel of it is arranged in L1 */
    A_FLOATS = 1 << 21, /* of a, arranged at a time, if that is rows enough */
    BLOCK_ROWS_LEAST = 512,
    TASKS_PER_WORKER = 3,
    TASK_ROWS_LEAST = 128, /* fewer are multiplied as quickly as b is arranged */
    LOAD_ROWS = 32
};

/* Columns [column, column + columns), p in [start, start + k), where b is arranged; sums are those of `rows` rows from `row` on. */
struct dots_block {
    const struct dots_run *run;
    int64_t row, rows, column, columns, start, k;
    float *b, *sums, *source;
    struct heed_finish_products left;
};

/* Columns are cut first, TASK_PANELS at a time if there are enough: each task arranges its own b. */
static void plan_tasks(struct dots_run *run) {
    const int64_t panels = ceil_div(run->request->n, HEED_PANEL), wanted = run->workers > 1 ? run->workers * TASKS_PER_WORKER : 1;
    const int64_t least = panels >= wanted * TASK_PANELS ? TASK_PANELS : 1;
    run->task_columns = round_up(ceil_div(panels, wanted), least) * HEED_PANEL;
    run->column_tasks = ceil_div(run->request->n, run->task_columns);
    const int64_t row_tasks = ceil_div(wanted, run->column_tasks);
    run->task_rows = round_up(max_i64(TASK_ROWS_LEAST, ceil_div(run->block_rows, row_tasks)), run->dots->tile_rows);
}

static void plan_workspace(struct dots_run *run) {
    const struct heed_gemm *request = run->request;
    const bool one = run->k == run->block_k, has_source = type_has_blocks(request->b_type);
    const int64_t strip = request->transpose_a ? LOAD_ROWS * HEED_PANEL : 0, source = has_source ? run->block_k * HEED_PANEL : 0;
    run->panel_floats = HEED_PANEL / run->dots->elements * run->block_k;
    run->sums_at = run->b_is_ready ? 0 : run->panel_floats * run->block_columns / HEED_PANEL;
    run->ld_sums = one ? HEED_PANEL : run->block_columns + HEED_LINE; /* rows of sums in different sets of L1 */
    run->source_at = run->sums_at + run->ld_sums * (one ? run->dots->tile_rows : round_up(run->task_rows, run->dots->tile_rows));
    run->worker_floats = run->source_at + max_i64(source, strip);
}

static int64_t row_floats(const struct dots_run *run) { return run->k / run->dots->elements; }

static int64_t a_floats(const struct dots_run *run) {
    return round_up(min_i64(run->block_rows, run->request->m - run->ready_rows), LOAD_ROWS) * run->lda;
}

/* Whether rows of a are words where they are, all of k. */
static bool rows_are_ready(const struct dots_run *run) {
    const struct heed_gemm *request = run->request;
    return run->dots->elements == 2 && request->a_type == HEED_BF16 && !request->transpose_a && request->k == run->k &&
           request->lda % 2 == 0;
}

static void plan_factors(struct dots_run *run) {
    const struct heed_gemm *request = run->request;
    const int64_t tile_rows = run->dots->tile_rows, lines = row_floats(run) / HEED_LINE;
    run->ready_rows = rows_are_ready(run) ? request->m / tile_rows * tile_rows : 0; /* whole tiles alone end with a */
    run->lda = (lines | 1) * HEED_LINE;                                             /* rows in different sets of L1 */
    run->b_is_ready = run->dots->elements == 2 && heed_gemm_packed_has_words(request) && request->k == run->k;
}

/* Elements of b that stay in L2 beside what else comes through, half of it: with 5/8 of it 512 x 4096 x 4096 takes 1.1 times as
 * long, with 3/4 1.3 times (a Xeon with AMX). */
static int64_t cached_elements(const struct dots_run *run) {
    return heed_cache_sizes().l2 / 2 / (int64_t)sizeof(float) * run->dots->elements;
}

static bool has_few_rows(const struct dots_run *run) { return run->request->m <= run->dots->tile_rows; }

static void plan_blocks(struct dots_run *run) {
    const int64_t in_cache = cached_elements(run) / HEED_PANEL;
    const int64_t most =
        has_few_rows(run) && !run->b_is_ready ? FEW_ROWS_K : max_i64(BLOCK_K_LEAST, min_i64(BLOCK_K_MOST, in_cache));
    run->block_k = round_up(ceil_div(run->k, ceil_div(run->k, most)), max_i64(HEED_DOT, type_block(run->request->b_type)));
    run->block_rows = min_i64(run->request->m, max_i64(BLOCK_ROWS_LEAST, round_up(A_FLOATS / run->lda, LOAD_ROWS)));
}

/* Of a task.  Where b is arranged, what it is made of comes through L2 too.  All columns are one block if a quarter more makes it
 * so. */
static void plan_columns(struct dots_run *run) {
    const int64_t panels = ceil_div(min_i64(run->request->n, run->task_columns), HEED_PANEL);
    const int64_t stay = cached_elements(run) / HEED_PANEL / run->block_k / (run->b_is_ready ? 1 : 2);
    const int64_t wanted = has_few_rows(run) ? 1 : max_i64(1, stay);
    run->block_columns = (panels <= wanted + wanted / 4 ? panels : wanted) * HEED_PANEL;
}

struct dots_run heed_gemm_dots_plan(const struct heed_gemm *request, const struct heed_epilogue *epilogue,
                                    const struct heed_exec *exec, const struct heed_kernels *kernels) {
    struct dots_run run = {.request = request,
                           .epilogue = epilogue,
                           .exec = exec,
                           .kernels = kernels,
                           .dots = heed_kernels_dots(kernels, request->compute)};
    run.k = round_up(request->k, HEED_DOT);
    plan_factors(&run);
    plan_blocks(&run);
    const double flops = 2.0 * (double)request->m * (double)request->n * (double)run.k / run.dots->elements;
    const double work = heed_schedule_work(flops, (double)request->n * (double)type_span(request->b_type, run.k));
    run.workers = heed_schedule_workers(exec, INT64_MAX, work);
    plan_tasks(&run);
    plan_columns(&run);
    plan_workspace(&run);
    return run;
}

/* A transposed a, HEED_PANEL of p at a time. */
static void load_transposed(const struct dots_run *run, int64_t row, int64_t rows, float *scratch, float *to) {
    const struct heed_gemm *request = run->request;
    for (int64_t p = 0; p < request->k; p += HEED_PANEL) {
        const int64_t k = min_i64(HEED_PANEL, request->k - p);
        run->kernels->pack_transposed(type_at(request->a_type, request->a, p * request->lda + row), request->a_type, request->lda,
                                      rows, (int)k, scratch);
        run->dots->load_a(scratch, HEED_F32, HEED_PANEL, rows, k, to + p / run->dots->elements, run->lda);
    }
}

/* The first of the block's rows that are in the workspace. */
static int64_t first_arranged(const struct dots_run *run) { return max_i64(run->row, run->ready_rows); }

static bool load_rows(void *context, int64_t task, int worker) {
    const struct dots_run *run = context;
    const struct heed_gemm *request = run->request;
    const int64_t first = task * LOAD_ROWS, row = first_arranged(run) + first;
    const int64_t rows = min_i64(LOAD_ROWS, run->row + run->rows - row);
    float *to = run->a + first * run->lda;
    heed_fp_flush(true);
    if (request->transpose_a)
        load_transposed(run, row, rows, run->workspace + worker * run->worker_floats + run->source_at, to);
    else
        run->dots->load_a(type_at(request->a_type, request->a, row * request->lda), request->a_type, request->lda, rows, request->k,
                          to, run->lda);
    heed_fp_flush(false);
    return true;
}

static void load_b(const struct dots_block *block) {
    const struct dots_run *run = block->run;
    if (run->b_is_ready)
        return;
    const int64_t k = min_i64(block->k, run->request->k - block->start);
    float *panel = block->b;
    for (int64_t j = 0; j < block->columns; j += HEED_PANEL, panel += run->panel_floats)
        heed_gemm_load_dots(run->request, run->kernels, run->dots, block->column + j, (int)min_i64(HEED_PANEL, block->columns - j),
                            block->start, k, block->source, panel);
}

/* Columns from the j-th of the block on. */
static const float *b_at(const struct dots_block *block, int64_t j) {
    if (block->run->b_is_ready)
        return heed_gemm_packed_at(block->run->request, block->column + j, block->start);
    return block->b + j / HEED_PANEL * block->run->panel_floats;
}

/* Rows of a from the i-th of the block on. */
static void find_rows(const struct dots_block *block, int64_t i, struct heed_dot_tile *tile) {
    const struct dots_run *run = block->run;
    const int64_t row = run->row + block->row + i;
    const bool ready = row < run->ready_rows;
    tile->lda = ready ? run->request->lda / run->dots->elements : run->lda;
    tile->a = ready ? type_at(run->request->a_type, run->request->a, row * run->request->lda)
                    : run->a + (row - first_arranged(run)) * run->lda;
    tile->a += block->start / run->dots->elements;
}

/* What is read for what a tile's sums become is fetched while they are made. */
static void find_c(const struct dots_block *block, int64_t i, int64_t j, struct heed_dot_tile *tile) {
    const struct dots_run *run = block->run;
    const struct heed_gemm_finish_place place =
        heed_gemm_finish_at(run->request, run->epilogue, run->row + block->row + i, tile->rows, block->column + j);
    tile->c = place.data;
    tile->ldc = place.ld;
    tile->c_lines = (int)ceil_div(type_span(place.type, run->dots->tile_columns), HEED_LINE * (int64_t)sizeof(float));
}

/* The last of k. */
static void multiply_last(struct dots_block *block, int64_t i, int64_t j, struct heed_dot_tile *tile) {
    const struct dots_run *run = block->run;
    const struct heed_gemm_sums sums = {.row = run->row + block->row + i,
                                        .rows = tile->rows,
                                        .column = block->column + j,
                                        .columns = tile->columns,
                                        .data = tile->sums,
                                        .ld = tile->ldsums};
    const struct heed_finish_products becomes = heed_gemm_finish_products(run->request, &sums);
    if (run->epilogue || run->request->beta != 0.0f)
        find_c(block, i, j, tile);
    tile->becomes = run->epilogue ? NULL : &becomes;
    tile->left = &block->left;
    run->dots->tile(tile);
    tile->becomes = NULL;
    if (run->epilogue)
        heed_gemm_finish(run->request, run->epilogue, run->kernels, &sums);
}

/* Rows [i, i + rows) of the block. */
static void multiply_strip(struct dots_block *block, int64_t i, int64_t rows) {
    const struct dots_run *run = block->run;
    const struct heed_dots *dots = run->dots;
    const bool one = run->k == run->block_k, last = block->start + block->k == run->k;
    struct heed_dot_tile tile = {.rows = (int)rows,
                                 .k = min_i64(block->k, round_up(run->request->k, dots->depth) - block->start),
                                 .fetches_b = run->b_is_ready && i == 0,
                                 .continues = block->start > 0,
                                 .ldsums = run->ld_sums};
    find_rows(block, i, &tile);
    for (int64_t j = 0; j < block->columns; j += HEED_PANEL) {
        tile.columns = (int)min_i64(HEED_PANEL, block->columns - j);
        tile.b = b_at(block, j);
        tile.sums = block->sums + (one ? 0 : i * run->ld_sums + j);
        if (last)
            multiply_last(block, i, j, &tile);
        else
            dots->tile(&tile);
    }
}

static void multiply_block(struct dots_block *block) {
    const int64_t each = block->run->dots->tile_rows;
    for (int64_t i = 0; i < block->rows; i += each)
        multiply_strip(block, i, min_i64(each, block->rows - i));
    if (block->left.rows > 0) {
        block->run->kernels->finish_products(&block->left);
        block->left.rows = 0;
    }
}

/* exec.cancelled is not called in here: it is the caller's code and may use AMX itself, and the tile registers are not its own
 * meanwhile. */
static void load_and_multiply(struct dots_block *block) {
    const struct heed_dots *dots = block->run->dots;
    struct heed_dots_callers callers;
    heed_fp_flush(true);
    heed_dots_begin(dots, &callers);
    load_b(block);
    multiply_block(block);
    heed_dots_end(dots, &callers);
    heed_fp_flush(false);
}

/* False: cancelled. */
static bool multiply_columns(struct dots_block *block, int64_t end) {
    const struct dots_run *run = block->run;
    for (; block->column < end; block->column += block->columns) {
        block->columns = min_i64(run->block_columns, end - block->column);
        for (block->start = 0; block->start < run->k; block->start += block->k) {
            if (heed_exec_cancelled(run->exec))
                return false;
            block->k = min_i64(run->block_k, run->k - block->start);
            load_and_multiply(block);
        }
    }
    return true;
}

static bool multiply(void *context, int64_t task, int worker) {
    const struct dots_run *run = context;
    float *workspace = run->workspace + worker * run->worker_floats;
    const int64_t row = task / run->column_tasks * run->task_rows, column = task % run->column_tasks * run->task_columns;
    struct dots_block block = {.run = run,
                               .row = row,
                               .rows = min_i64(run->task_rows, run->rows - row),
                               .column = column,
                               .b = workspace,
                               .sums = workspace + run->sums_at,
                               .source = workspace + run->source_at};
    return multiply_columns(&block, min_i64(run->request->n, column + run->task_columns));
}

int64_t heed_gemm_dots_floats(const struct dots_run *run) {
    if (row_floats(run) > INT64_MAX >> 12) /* many of them might overflow, and no machine has the memory for one */
        return INT64_MAX / HEED_WORKSPACE_ALIGN;
    return a_floats(run) + run->workers * run->worker_floats;
}

enum heed_status heed_gemm_dots(struct dots_run *run, float *workspace) {
    const int64_t m = run->request->m;
    enum heed_status status = HEED_OK;
    run->a = workspace;
    run->workspace = workspace + a_floats(run);
    for (run->row = 0; run->row < m && status == HEED_OK; run->row += run->rows) {
        run->rows = min_i64(run->block_rows, m - run->row);
        const int64_t arranged = run->row + run->rows - first_arranged(run), strips = ceil_div(max_i64(0, arranged), LOAD_ROWS);
        const int64_t row_tasks = ceil_div(run->rows, run->task_rows);
        /* All workers or one: a team of another size would be made anew for the product. */
        if (strips > 0)
            status = heed_schedule_run(run->exec, strips > 1 ? run->workers : 1, strips, load_rows, run);
        if (status == HEED_OK)
            status = heed_schedule_run(run->exec, run->workers, row_tasks * run->column_tasks, multiply, run);
    }
    return status;
}
