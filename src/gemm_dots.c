/* heed_gemm in HEED_COMPUTE_BF16_AMX: by dots, of AMX or of what stands in for it.
 *
 * AMX multiplies 16 times as fast as fma but reads memory no faster, so factors are to be arranged once and used often: of a as
 * many rows as take some MiB, by all workers together; then each task goes through blocks of b of 256 columns, which half of L2
 * holds, and multiplies each with one strip of rows after another. */
#include "gemm_dots.h"

#include "cache_sizes.h"
#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"
#include "workspace.h"

enum {
    BLOCK_COLUMNS = 4 * HEED_PANEL,
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
};

/* Columns are cut first, as many panels at a time as a block has if there are enough: each task arranges its own b. */
static void plan_tasks(struct dots_run *run) {
    const int64_t panels = ceil_div(run->request->n, HEED_PANEL), wanted = run->workers > 1 ? run->workers * TASKS_PER_WORKER : 1;
    const int64_t least = panels >= wanted * (BLOCK_COLUMNS / HEED_PANEL) ? BLOCK_COLUMNS / HEED_PANEL : 1;
    run->task_columns = round_up(ceil_div(panels, wanted), least) * HEED_PANEL;
    run->column_tasks = ceil_div(run->request->n, run->task_columns);
    const int64_t row_tasks = ceil_div(wanted, run->column_tasks);
    run->task_rows = round_up(max_i64(TASK_ROWS_LEAST, ceil_div(run->block_rows, row_tasks)), run->dots->tile_rows);
}

static void plan_workspace(struct dots_run *run) {
    const struct heed_gemm *request = run->request;
    const int64_t sum_rows = run->k > run->block_k ? round_up(run->task_rows, run->dots->tile_rows) : run->dots->tile_rows;
    const bool has_source = type_has_blocks(request->b_type);
    const int64_t strip = request->transpose_a ? LOAD_ROWS * HEED_PANEL : 0, source = has_source ? run->block_k * HEED_PANEL : 0;
    run->panel_floats = HEED_PANEL / run->dots->elements * run->block_k;
    run->sums_at = run->panel_floats * run->block_columns / HEED_PANEL;
    run->ld_sums = run->block_columns + HEED_LINE;
    run->source_at = run->sums_at + run->ld_sums * sum_rows;
    run->worker_floats = run->source_at + max_i64(source, strip);
}

static int64_t row_floats(const struct dots_run *run) { return run->k / run->dots->elements; }

static int64_t a_floats(const struct dots_run *run) { return round_up(run->block_rows, LOAD_ROWS) * row_floats(run); }

static void plan_blocks(struct dots_run *run) {
    const struct heed_gemm *request = run->request;
    const bool few = request->m <= run->dots->tile_rows;
    const int64_t in_cache = heed_cache_sizes().l2 / 2 / BLOCK_COLUMNS / (int64_t)sizeof(float) * run->dots->elements;
    const int64_t most = few ? FEW_ROWS_K : max_i64(BLOCK_K_LEAST, min_i64(BLOCK_K_MOST, in_cache));
    run->block_k = round_up(ceil_div(run->k, ceil_div(run->k, most)), HEED_DOT);
    run->block_columns = few ? HEED_PANEL : min_i64(BLOCK_COLUMNS, round_up(request->n, HEED_PANEL));
    run->block_rows = min_i64(request->m, max_i64(BLOCK_ROWS_LEAST, round_up(A_FLOATS / row_floats(run), LOAD_ROWS)));
}

struct dots_run heed_gemm_dots_plan(const struct heed_gemm *request, const struct heed_epilogue *epilogue,
                                    const struct heed_exec *exec, const struct heed_kernels *kernels) {
    struct dots_run run = {.request = request,
                           .epilogue = epilogue,
                           .exec = exec,
                           .kernels = kernels,
                           .dots = heed_kernels_dots(kernels, request->compute)};
    run.k = round_up(request->k, HEED_DOT);
    plan_blocks(&run);
    const double flops = 2.0 * (double)request->m * (double)request->n * (double)run.k / run.dots->elements;
    const double work = heed_schedule_work(flops, (double)request->n * (double)type_span(request->b_type, run.k));
    run.workers = heed_schedule_workers(exec, INT64_MAX, work);
    plan_tasks(&run);
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
        run->dots->load_a(scratch, HEED_F32, HEED_PANEL, rows, k, to + p / HEED_DOT * run->dots->a_dot, row_floats(run));
    }
}

static bool load_rows(void *context, int64_t task, int worker) {
    const struct dots_run *run = context;
    const struct heed_gemm *request = run->request;
    const int64_t first = task * LOAD_ROWS, rows = min_i64(LOAD_ROWS, run->rows - first), row = run->row + first;
    float *to = run->a + first * row_floats(run);
    heed_fp_flush(true);
    if (request->transpose_a)
        load_transposed(run, row, rows, run->workspace + worker * run->worker_floats + run->source_at, to);
    else
        run->dots->load_a(type_at(request->a_type, request->a, row * request->lda), request->a_type, request->lda, rows, request->k,
                          to, row_floats(run));
    heed_fp_flush(false);
    return true;
}

static void load_b(const struct dots_block *block) {
    const struct dots_run *run = block->run;
    const int64_t k = min_i64(block->k, run->request->k - block->start);
    float *panel = block->b;
    for (int64_t j = 0; j < block->columns; j += HEED_PANEL, panel += run->panel_floats)
        heed_gemm_load_dots(run->request, run->kernels, run->dots, block->column + j, (int)min_i64(HEED_PANEL, block->columns - j),
                            block->start, k, block->source, panel);
}

/* Tiles of a strip fetch the next one, each a part of it, and what becomes of their sums. */
static void fetch_with_tiles(const struct dots_block *block, int64_t i, int64_t rows, struct heed_dot_tile *tile) {
    const struct dots_run *run = block->run;
    const int64_t dots = block->k / HEED_DOT, strip = run->dots->tile_rows * row_floats(run);
    const int64_t tiles = ceil_div(block->columns, run->dots->tile_columns);
    if (i + rows < block->rows) {
        tile->next = (const char *)(tile->a + strip);
        tile->next_lines = (int)ceil_div(strip / HEED_LINE, tiles * dots);
    }
    if (block->start + block->k == run->k) {
        const struct heed_gemm_finish_place place =
            heed_gemm_finish_at(run->request, run->epilogue, run->row + block->row + i, rows, block->column);
        tile->next_c = place.data;
        tile->ldnext_c = place.ld;
        tile->next_c_rows = (int)ceil_div(rows, dots);
    }
}

/* Rows [i, i + rows) of the block. */
static void multiply_strip(const struct dots_block *block, int64_t i, int64_t rows, float *sums) {
    const struct dots_run *run = block->run;
    const struct heed_dots *dots = run->dots;
    struct heed_dot_tile tile = {.rows = (int)rows,
                                 .k = min_i64(block->k, round_up(run->request->k, dots->depth) - block->start),
                                 .a = run->a + (block->row + i) * row_floats(run) + block->start / HEED_DOT * dots->a_dot,
                                 .lda = row_floats(run),
                                 .continues = block->start > 0,
                                 .ldsums = run->ld_sums};
    fetch_with_tiles(block, i, rows, &tile);
    for (int64_t j = 0; j < block->columns; j += dots->tile_columns) {
        tile.columns = (int)min_i64(dots->tile_columns, block->columns - j);
        tile.b = block->b + j / HEED_PANEL * run->panel_floats + j % HEED_PANEL * dots->b_step;
        tile.sums = sums + j;
        dots->tile(&tile);
        if (tile.next)
            tile.next += tile.next_lines * (block->k / HEED_DOT) * HEED_LINE * (int64_t)sizeof(float);
        if (tile.next_c)
            tile.next_c += type_span(run->request->c_type, dots->tile_columns);
    }
}

static void multiply_block(const struct dots_block *block) {
    const struct dots_run *run = block->run;
    const bool one = run->k == run->block_k, last = block->start + block->k == run->k;
    const int64_t each = run->dots->tile_rows;
    for (int64_t i = 0; i < block->rows; i += each) {
        const int64_t rows = min_i64(each, block->rows - i);
        float *sums = block->sums + (one ? 0 : i * run->ld_sums);
        multiply_strip(block, i, rows, sums);
        if (last)
            heed_gemm_finish(
                run->request, run->epilogue, run->kernels,
                &(struct heed_gemm_sums){run->row + block->row + i, rows, block->column, block->columns, sums, run->ld_sums});
    }
}

/* Nothing of the caller's runs meanwhile, which may have other uses for what dots need. */
static void load_and_multiply(const struct dots_block *block) {
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
        status = heed_schedule_run(run->exec, run->workers, ceil_div(run->rows, LOAD_ROWS), load_rows, run);
        if (status == HEED_OK)
            status =
                heed_schedule_run(run->exec, run->workers, ceil_div(run->rows, run->task_rows) * run->column_tasks, multiply, run);
    }
    return status;
}
