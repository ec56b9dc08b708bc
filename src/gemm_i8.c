/* heed_gemm in HEED_COMPUTE_I8: rows of a become bytes once, by all workers together; then each task takes panels of b, and
 * multiplies each with one strip of rows after another. */
#include "gemm_i8.h"

#include "cache_sizes.h"
#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"
#include "workspace.h"

enum {
    LOAD_ROWS = 16, /* made bytes at a time */
    BLOCK_FLOATS = sizeof(struct heed_i8_block) / sizeof(float),
    A_BLOCKS = 1 << 17, /* of a in bytes at a time, 5.5 MiB, if that is rows enough */
    A_ROWS_LEAST = 64,
    TASKS_PER_WORKER = 4,
    FEW_ROWS = 12,
    FEW_ROWS_WIDE = 8,
    FEW_ROWS_AT_ONCE = 4
};
/* Of a multiply-add, where one of floats is two: it takes about half of their time. */
static const double flops_each = 1.0;

/* Weights as they are become words in registers, for up to 4 or 8 rows at a time; for more rows than these once, in a panel.  Of
 * the time that panels take, 8 rows times 4096 x 4096 take 0.6 (q8_0) and 0.9 in registers, 12 rows 0.74 and 0.87, times 1024 x
 * 1024 1.02 and 1.05 (AVX2, Zen 3); by AVX-512 on Zen 5 10 rows 0.95 and 1.2, times 2048 x 2048 1.23.  Numbers of K formats are
 * made anew for each 4 rows: in registers 6 and 8 rows would take 1.0 to 1.28 of the time, but where a panel is not near, with k of
 * 11008, they take 0.8 to 0.94.  Those of q5_0 wait on the stack where registers are few: 2 rows would take 1.12 to 1.2, 8
 * rows 1.28 to 1.4, with k of 11008 2 rows 0.83 (AVX2, Zen 5). */
static int few_rows(const struct heed_gemm *request, bool wide) {
    const bool near = HEED_PANEL * type_packed_span(request->b_type, request->k) <= heed_cache_sizes().l2 / 4;
    if (request->b_type == HEED_Q5_0 && !wide)
        return near ? 1 : FEW_ROWS_AT_ONCE;
    if (type_is_k(request->b_type) && near)
        return FEW_ROWS_AT_ONCE;
    return wide ? FEW_ROWS_WIDE : FEW_ROWS;
}
static bool has_few_rows(const struct i8_run *run) {
    return run->request->m <= few_rows(run->request, run->kernels->tile_columns == HEED_PANEL);
}

static void plan_tasks(struct i8_run *run) {
    const int64_t panels = ceil_div(run->request->n, HEED_PANEL), wanted = run->workers > 1 ? run->workers * TASKS_PER_WORKER : 1;
    run->task_columns = ceil_div(panels, wanted) * HEED_PANEL;
    run->column_tasks = ceil_div(run->request->n, run->task_columns);
    run->task_rows = round_up(ceil_div(run->block_rows, ceil_div(wanted, run->column_tasks)), LOAD_ROWS);
}

static void plan_workspace(struct i8_run *run) {
    const struct heed_gemm *request = run->request;
    run->packs = !request->packed_b && !has_few_rows(run);
    const int rows = (int)min_i64(request->m, run->i8->strip_rows);
    const int64_t scratch = run->i8->scratch_bytes ? run->i8->scratch_bytes(request->b_type, rows) : 0;
    run->scratch_at = rows * HEED_PANEL; /* first for load_strip, then for products */
    run->panel_at = run->scratch_at +
                    max_i64(request->transpose_a ? LOAD_ROWS * HEED_PANEL : 0, workspace_round(scratch / (int64_t)sizeof(float)));
    const int block = type_block(request->b_type);
    const int64_t block_floats = HEED_PANEL * type_packed_span(request->b_type, block) / (int64_t)sizeof(float);
    run->worker_floats = workspace_round(run->panel_at + (run->packs ? workspace_product(request->k / block, block_floats) : 0));
}

struct i8_run heed_gemm_i8_plan(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_exec *exec,
                                const struct heed_kernels *kernels) {
    struct i8_run run = {
        .request = request, .epilogue = epilogue, .exec = exec, .kernels = kernels, .i8 = heed_kernels_i8(kernels)};
    run.blocks = request->k / TYPE_BLOCK;
    run.block_rows = min_i64(request->m, max_i64(A_ROWS_LEAST, A_BLOCKS / run.blocks / run.i8->strip_rows * run.i8->strip_rows));
    const double products = (double)request->m * (double)request->n * (double)request->k;
    const double bytes = (double)request->n * (double)type_span(request->b_type, request->k);
    run.workers = heed_schedule_workers(exec, INT64_MAX, heed_schedule_work(flops_each * products, bytes));
    plan_tasks(&run);
    plan_workspace(&run);
    return run;
}

static int64_t a_floats(const struct i8_run *run) {
    return workspace_round(workspace_product(run->block_rows, workspace_product(run->blocks, BLOCK_FLOATS)));
}

int64_t heed_gemm_i8_floats(const struct i8_run *run) {
    return min_i64(HEED_WORKSPACE_MOST, a_floats(run) + workspace_product(run->workers, run->worker_floats));
}

/* A transposed a, HEED_PANEL of p at a time. */
static void load_transposed(const struct i8_run *run, int64_t row, int64_t rows, float *scratch, struct heed_i8_block *to) {
    const struct heed_gemm *request = run->request;
    for (int64_t p = 0; p < request->k; p += HEED_PANEL) {
        const int64_t k = min_i64(HEED_PANEL, request->k - p);
        run->kernels->pack_transposed(type_at(request->a_type, request->a, p * request->lda + row), request->a_type, request->lda,
                                      rows, (int)k, scratch);
        for (int64_t i = 0; i < rows; i++)
            run->kernels->i8_row(scratch + i * HEED_PANEL, HEED_F32, k / TYPE_BLOCK, to + i * run->blocks + p / TYPE_BLOCK);
    }
}

static bool load_strip(void *context, int64_t task, int worker) {
    const struct i8_run *run = context;
    const struct heed_gemm *request = run->request;
    const int64_t first = task * LOAD_ROWS, rows = min_i64(LOAD_ROWS, run->rows - first), row = run->row + first;
    struct heed_i8_block *to = run->a + first * run->blocks;
    if (request->transpose_a) {
        load_transposed(run, row, rows, run->workspace + worker * run->worker_floats + run->scratch_at, to);
        return true;
    }
    for (int64_t i = 0; i < rows; i++)
        run->kernels->i8_row(type_at(request->a_type, request->a, (row + i) * request->lda), request->a_type, run->blocks,
                             to + i * run->blocks);
    return true;
}

/* A panel of b, packed if it is used more than once.  What the next one will be made of, if it is one piece, comes into L2 beside
 * the first rows: from memory 13 and 16 rows times 4096 x 4096 take 0.72 of the time so, 32 rows 0.82, 64 rows 0.92 (Zen 5). */
static void find_panel(const struct i8_run *run, int64_t column, int64_t end, float *panel, struct heed_i8_product *product) {
    const struct heed_gemm *request = run->request;
    product->columns = (int)min_i64(HEED_PANEL, request->n - column);
    if (request->packed_b) {
        product->packed = heed_gemm_packed_at(request, column, 0);
        return;
    }
    product->b = heed_gemm_b_at(request, column, 0);
    if (run->packs) {
        run->kernels->pack_blocks(product->b, request->b_type, request->ldb, request->k, product->columns, panel);
        product->packed = panel;
        if (request->ldb == request->k && column + HEED_PANEL < end)
            product->next = heed_gemm_b_at(request, column + HEED_PANEL, 0);
    }
}

/* Rows [row, end) of the block of a, with a panel. */
static void multiply_strips(const struct i8_run *run, int64_t row, int64_t end, int64_t column, struct heed_i8_product *product) {
    for (int64_t i = row; i < end; i += run->i8->strip_rows) {
        product->rows = (int)min_i64(run->i8->strip_rows, end - i);
        product->a = run->a + i * run->blocks;
        run->i8->product(product);
        product->next = NULL;
        heed_gemm_finish(run->request, run->epilogue, run->kernels,
                         &(struct heed_gemm_sums){run->row + i, product->rows, column, product->columns, product->c, HEED_PANEL});
    }
}

static enum heed_fetch_into fetch_of_weights(void) {
    const unsigned traits = heed_cpu_traits();
    return traits & HEED_TRAIT_FETCHES_I8_ONCE ? HEED_INTO_L1 : heed_fetch_into_by(traits);
}

static bool multiply(void *context, int64_t task, int worker) {
    const struct i8_run *run = context;
    const struct heed_gemm *request = run->request;
    float *workspace = run->workspace + worker * run->worker_floats;
    const int64_t row = task / run->column_tasks * run->task_rows, first = task % run->column_tasks * run->task_columns;
    const int64_t end = min_i64(request->n, first + run->task_columns);
    for (int64_t column = first; column < end; column += HEED_PANEL) {
        if (heed_exec_cancelled(run->exec))
            return false;
        struct heed_i8_product product = {.k = request->k,
                                          .lda = run->blocks,
                                          .type = request->b_type,
                                          .ldb = request->ldb,
                                          .c = workspace,
                                          .scratch = workspace + run->scratch_at,
                                          .fetch_into = fetch_of_weights()};
        find_panel(run, column, end, workspace + run->panel_at, &product);
        multiply_strips(run, row, min_i64(run->rows, row + run->task_rows), column, &product);
    }
    return true;
}

enum heed_status heed_gemm_i8(struct i8_run *run, float *workspace) {
    const int64_t m = run->request->m;
    enum heed_status status = HEED_OK;
    run->a = (struct heed_i8_block *)(void *)workspace;
    run->workspace = workspace + a_floats(run);
    for (run->row = 0; run->row < m && status == HEED_OK; run->row += run->rows) {
        run->rows = min_i64(run->block_rows, m - run->row);
        const int64_t strips = ceil_div(run->rows, LOAD_ROWS), row_tasks = ceil_div(run->rows, run->task_rows);
        /* All workers or one: a team of another size would be made anew for the product. */
        status = heed_schedule_run(run->exec, strips > 1 ? run->workers : 1, strips, load_strip, run);
        if (status == HEED_OK)
            status = heed_schedule_run(run->exec, run->workers, row_tasks * run->column_tasks, multiply, run);
    }
    return status;
}
