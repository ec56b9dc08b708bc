/* heed_gemm: which part of c each task computes, and the loops around the tile.
 *
 * A task goes through column panels of 64; for each, through blocks of k, so long that their 64 columns of b take an eighth of L2,
 * from where all row tiles use them; a stays where it is, one strip of rows in L1 at a time.  What comes after a tile is fetched
 * during it.  Sums between blocks of k wait in scratch: c is written once, at the end.
 *
 * Factors of 16 bits are widened into scratch: blocks of b, and as many rows of a as a block has, over all of k.  So are factors
 * that become pairs, whatever their type; from there on an odd k is the even one after it, with zeros in both factors. */
#include <stddef.h>

#include "cpu.h"
#include "dispatch.h"
#include "gemm_dots.h"
#include "gemm_plan.h"
#include "gemm_small.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"
#include "workspace.h"

static const int64_t line_bytes = HEED_LINE * sizeof(float);

/* Where the b of the next block lies: `lines` cache lines, `rows` of them `ld` bytes apart in each of several columns, to be
 * fetched by `tiles` tiles. */
struct gemm_next {
    const char *b;
    int64_t ld, rows, lines, tiles;
};

/* What is the same for all tiles of a block: rows [row, row + rows), columns [column, ...) of c, p in [start, start + k). */
struct gemm_block {
    const struct gemm_run *run;
    int64_t row, rows, column, columns, start, k;
    const float *rows_of_a; /* op(a) from row `row` on, if it is not transposed, with leading dimension lda */
    const float *a, *b;
    int64_t lda, ldb;
    float *sums, *c; /* c: a tile of it, where it has another type */
    struct gemm_next next;
};

/* b in place needs whole vectors: its last columns may not reach to the end of one. */
static bool reads_b_in_place(const struct gemm_run *run, int64_t rows, int64_t columns) {
    const struct heed_gemm *request = run->request;
    return !request->transpose_b && request->b_type == HEED_F32 && !run->pairs && columns % run->kernels->lanes == 0 &&
           rows <= GEMM_DIRECT_ROWS;
}

/* Of a block's k, what the factors have. */
static int64_t k_of_factors(const struct gemm_block *block) { return min_i64(block->k, block->run->request->k - block->start); }

static void load_b(struct gemm_block *block, float *scratch) {
    const struct heed_gemm *request = block->run->request;
    if (!request->packed_b && reads_b_in_place(block->run, block->rows, block->columns)) {
        block->b = heed_gemm_b_at(request, block->column, block->start);
        block->ldb = request->ldb;
        return;
    }
    block->b = heed_gemm_load_b(request, block->run->kernels, block->column, (int)block->columns, block->start, k_of_factors(block),
                                scratch);
    block->ldb = HEED_PANEL;
}

/* A transposed a becomes rows of 64: block_k is 64 then. */
static void load_a(struct gemm_block *block, float *scratch) {
    const struct heed_gemm *request = block->run->request;
    if (request->transpose_a) {
        const struct heed_kernels *kernels = block->run->kernels;
        const int64_t k = k_of_factors(block);
        kernels->pack_transposed(type_at(request->a_type, request->a, block->start * request->lda + block->row), request->a_type,
                                 request->lda, block->rows, (int)k, scratch);
        if (block->run->pairs)
            kernels->pair_queries(scratch, HEED_F32, HEED_PANEL, block->rows, k, 1.0f, scratch, HEED_PANEL);
        block->a = scratch;
        block->lda = HEED_PANEL;
    } else {
        block->a = block->rows_of_a + block->start;
    }
}

/* The block after this one: further down the same columns or, where these end, at the top of the next.  Packed, it is one piece,
 * fetched line after line: that way the processor's prefetchers join in, and 16 rows times weights beyond L2 take 4.9 ms instead of
 * 7.9 in columns of lines.  A single tile leaves it to them. */
static struct gemm_next next_block(const struct gemm_block *block, int64_t column_end) {
    const struct heed_gemm *request = block->run->request;
    const bool down = block->start + block->k < block->run->k;
    const int64_t column = down ? block->column : block->column + block->columns, start = down ? block->start + block->k : 0;
    const int64_t k = min_i64(block->run->block_k, request->k - start), columns = min_i64(HEED_PANEL, column_end - column);
    const bool few = block->rows <= HEED_GEMM_FEW_ROWS;
    const int64_t tiles =
        ceil_div(block->rows, block->run->kernels->tile_rows) * ceil_div(block->columns, block->run->kernels->tile_columns);
    if (columns <= 0 || k <= 0 || block->columns > HEED_PANEL || (few && (!request->packed_b || tiles == 1)))
        return (struct gemm_next){0};
    if (request->packed_b) {
        const int64_t lines = type_span(request->b_type, k); /* of 64 columns, in lines of 64 bytes */
        return (struct gemm_next){heed_gemm_packed_at(request, column, start), line_bytes, lines, lines, tiles};
    }
    const int64_t rows = request->transpose_b ? columns : k, bytes = type_span(request->b_type, request->transpose_b ? k : columns);
    return (struct gemm_next){.b = heed_gemm_b_at(request, column, start),
                              .ld = type_span(request->b_type, request->ldb),
                              .rows = rows,
                              .lines = ceil_div(bytes, line_bytes) * rows,
                              .tiles = tiles};
}

/* The index-th tile's share of it, for every HEED_LINE steps of the tile. */
static void fetch_next(const struct gemm_block *block, int64_t index, struct heed_gemm_tile *tile) {
    const struct gemm_next *next = &block->next;
    const int64_t bursts = block->k / HEED_LINE;
    if (next->lines == 0 || bursts == 0)
        return;
    const int64_t lines = ceil_div(next->lines, next->tiles * bursts), first = index * lines * bursts;
    if (first >= next->lines)
        return;
    tile->next_b = next->b + first / next->rows * line_bytes + first % next->rows * next->ld;
    tile->next_step = next->ld;
    tile->next_lines = (int)lines;
}

/* Rows of the tile at row i: the last two share theirs evenly, for tiles of few rows wait for b. */
static int64_t rows_of_tile(const struct gemm_block *block, int64_t i) {
    const int64_t most = block->run->kernels->tile_rows, left = block->rows - i;
    return left <= most ? left : left < 2 * most ? ceil_div(left, 2) : most;
}

static void multiply_tile(const struct gemm_block *block, int64_t i, int64_t rows, int64_t j, int64_t index) {
    const struct gemm_run *run = block->run;
    const struct heed_gemm *request = run->request;
    const bool last = block->start + block->k == run->k, last_rows = i + rows == block->rows;
    const bool finishes = last && heed_gemm_tiles_finish(run);
    float *sums = block->sums + i * run->block_columns + j;
    struct heed_gemm_tile tile = {
        .rows = (int)rows,
        .columns = (int)min_i64(run->kernels->tile_columns, block->columns - j),
        .k = block->k,
        .a = block->a + i * block->lda,
        .lda = block->lda,
        .b = block->b + j,
        .ldb = block->ldb,
        .acc = block->start > 0 ? sums : NULL,
        .ldacc = run->block_columns,
        .alpha = finishes ? request->alpha : 1.0f,
        .beta = finishes ? request->beta : 0.0f,
        .c = sums,
        .ldc = run->block_columns,
        .next_a = last_rows ? NULL : block->a + (i + rows) * block->lda,
    };
    if (last && !finishes) {
        const struct heed_gemm_finish_place next =
            heed_gemm_finish_at(request, run->epilogue, block->row + i, rows, block->column + j);
        tile.next_c = next.data;
        tile.ldnext_c = next.ld;
    }
    if (last) {
        tile.c = finishes ? (float *)request->c + (block->row + i) * request->ldc + block->column + j : block->c;
        tile.ldc = finishes ? request->ldc : HEED_PANEL;
    }
    fetch_next(block, index, &tile);
    run->kernels->gemm_tile(&tile);
    if (last && !finishes)
        heed_gemm_finish(request, run->epilogue, run->kernels,
                         &(struct heed_gemm_sums){block->row + i, rows, block->column + j, tile.columns, block->c, HEED_PANEL});
}

static void multiply_tiles(const struct gemm_block *block) {
    int64_t index = 0, rows;
    if (block->columns > HEED_PANEL) {
        for (int64_t j = 0; j < block->columns; j += block->run->kernels->tile_columns)
            for (int64_t i = 0; i < block->rows; i += rows) {
                rows = rows_of_tile(block, i);
                multiply_tile(block, i, rows, j, index++);
            }
        return;
    }
    for (int64_t i = 0; i < block->rows; i += rows) {
        rows = rows_of_tile(block, i);
        for (int64_t j = 0; j < block->columns; j += block->run->kernels->tile_columns)
            multiply_tile(block, i, rows, j, index++);
    }
}

/* At least one pass, so that k = 0 writes c too. */
static void multiply_block(struct gemm_block *block, int64_t column_end, float *workspace) {
    const struct gemm_run *run = block->run;
    block->start = 0;
    do {
        block->k = min_i64(run->block_k, run->k - block->start);
        if (block->k > 0) {
            load_a(block, workspace + run->a_at);
            load_b(block, workspace);
        }
        block->next = next_block(block, column_end);
        multiply_tiles(block);
        block->start += block->k;
    } while (block->start < run->k);
}

/* Rows of a as floats: where they are, or in scratch. */
static void load_rows_of_a(struct gemm_block *block, float *scratch) {
    const struct gemm_run *run = block->run;
    const struct heed_gemm *request = run->request;
    const void *rows = type_at(request->a_type, request->a, block->row * request->lda);
    block->rows_of_a = heed_gemm_widens_rows(run) ? scratch : rows;
    block->lda = heed_gemm_widens_rows(run) ? workspace_round(request->k) : request->lda;
    if (run->pairs)
        run->kernels->pair_queries(rows, request->a_type, request->lda, block->rows, request->k, 1.0f, scratch, block->lda);
    else if (heed_gemm_widens_rows(run))
        run->kernels->widen_rows(rows, request->a_type, request->lda, block->rows, request->k, scratch, block->lda);
}

/* False: cancelled. */
static bool multiply_rows(struct gemm_block *block, int64_t column, int64_t column_end, float *workspace) {
    const struct gemm_run *run = block->run;
    const struct heed_gemm *request = run->request;
    if (run->k > 0 && !request->transpose_a)
        load_rows_of_a(block, workspace + run->a_at);
    if (heed_gemm_is_thin(request, run->kernels))
        return heed_gemm_thin(run, block->rows_of_a, block->lda, column, column_end, workspace);
    for (block->column = column; block->column < column_end; block->column += block->columns) {
        block->columns = min_i64(run->block_columns, column_end - block->column);
        if (block->columns > HEED_PANEL) /* in place, which the last columns may not be */
            block->columns -= block->columns % run->kernels->lanes;
        if (heed_exec_cancelled(run->exec))
            return false;
        multiply_block(block, column_end, workspace);
    }
    return true;
}

static bool multiply_task(const struct gemm_run *run, int64_t task, int worker) {
    const struct heed_gemm *request = run->request;
    float *workspace = run->workspace + worker * run->worker_floats;
    const int64_t row = task / run->column_tasks * run->task_rows, column = task % run->column_tasks * run->task_columns;
    const int64_t row_end = min_i64(request->m, row + run->task_rows), column_end = min_i64(request->n, column + run->task_columns);
    /* Without factors (k or alpha 0) nothing is read of a and b, but an offset from NULL would be undefined. */
    struct gemm_block block = {
        .run = run, .sums = workspace + run->sums_at, .c = workspace + run->c_at, .a = workspace, .b = workspace};
    for (block.row = row; block.row < row_end; block.row += block.rows) {
        block.rows = min_i64(run->block_rows, row_end - block.row);
        if (!multiply_rows(&block, column, column_end, workspace))
            return false;
    }
    return true;
}

static bool run_task(void *context, int64_t task, int worker) {
    const struct gemm_run *run = context;
    if (run->pairs)
        heed_fp_flush(true);
    const bool done = multiply_task(run, task, worker);
    if (run->pairs)
        heed_fp_flush(false);
    return done;
}

static bool is_of_dots(const struct heed_gemm *request) {
    return request->compute == HEED_COMPUTE_BF16_AMX && heed_gemm_reads_ab(request);
}

static int64_t workspace_floats(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_exec *exec,
                                const struct heed_kernels *kernels) {
    if (is_of_dots(request))
        return heed_gemm_dots_floats(request, exec, kernels);
    const struct gemm_run run = heed_gemm_plan(request, epilogue, exec, kernels);
    return run.workers * run.worker_floats;
}

static enum heed_status plan_and_run(const struct heed_gemm *request, const struct heed_epilogue *epilogue,
                                     const struct heed_exec *exec, const struct heed_kernels *kernels, float *workspace) {
    if (is_of_dots(request))
        return heed_gemm_dots(request, epilogue, exec, kernels, workspace);
    struct gemm_run run = heed_gemm_plan(request, epilogue, exec, kernels);
    run.workspace = workspace;
    return heed_schedule_run(exec, run.workers, run.tasks, run_task, &run);
}

static enum heed_status check_exec(const struct heed_exec *exec, const struct heed_kernels **kernels) {
    const enum heed_status status = heed_exec_check(exec);
    return status ? status : heed_kernels_for(exec, kernels);
}

enum heed_status heed_gemm_run(const struct heed_gemm *checked, const struct heed_epilogue *epilogue,
                               const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    enum heed_status status = check_exec(exec, &kernels);
    if (status || checked->m == 0 || checked->n == 0)
        return status;
    const struct heed_gemm request = heed_gemm_safe(checked);
    struct heed_workspace workspace;
    status = workspace_open(&workspace, exec, workspace_floats(&request, epilogue, exec, kernels));
    if (status)
        return status;
    const uint64_t callers = heed_fp_begin();
    status = plan_and_run(&request, epilogue, exec, kernels, workspace.data);
    heed_fp_end(callers);
    workspace_close(&workspace);
    return status;
}

int64_t heed_gemm_workspace(const struct heed_gemm *checked, const struct heed_epilogue *epilogue, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    if (check_exec(exec, &kernels))
        return -1;
    if (checked->m == 0 || checked->n == 0)
        return 0;
    const struct heed_gemm request = heed_gemm_safe(checked);
    return workspace_bytes(workspace_floats(&request, epilogue, exec, kernels));
}

HEED_API int64_t heed_gemm_workspace_bytes(const struct heed_gemm *gemm, const struct heed_exec *exec) {
    return heed_gemm_check(gemm, &heed_gemm_names) ? -1 : heed_gemm_workspace(gemm, NULL, exec);
}

HEED_API enum heed_status heed_gemm(const struct heed_gemm *gemm, const struct heed_exec *exec) {
    if (heed_gemm_is_small(gemm, exec)) {
        const struct heed_kernels *kernels;
        const enum heed_status status = heed_kernels_for(exec, &kernels);
        if (status == HEED_OK)
            heed_gemm_small(gemm, kernels);
        return status;
    }
    const enum heed_status status = heed_gemm_check(gemm, &heed_gemm_names);
    return status ? status : heed_gemm_run(gemm, NULL, exec);
}
