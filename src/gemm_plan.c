/* The plan of a product; see gemm_plan.h. */
#include "gemm_plan.h"

#include "arithmetic.h"
#include "cache_sizes.h"
#include "cpu.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"
#include "workspace.h"

enum {
    BLOCK_K_LEAST = 256,  /* shorter ones spend 2 % and more on sums */
    NEAR_K_LEAST = 96,    /* the least that were tried */
    NEAR_ROWS_LEAST = 64, /* 48 rows of 768 x 768 take 1.05 of the time */
    LONG_ROWS = 256,      /* up to so many, long blocks depend on where a and b are */
    BLOCK_K_MOST = 1024,  /* the longest that were tried */
    IN_PLACE_ROWS = 32,
    PAGE_FLOATS = 1024,
    CROWDED_ROWS_LEAST = 5,
    CROWDED_ROWS_LEAST_HALVES = 11,
    BLOCK_ROWS_LEAST = 480,
    BLOCK_ROWS_MOST = 4096,   /* some ms of work, after which cancellation is asked for */
    FEW_ROWS_K = 32,          /* a block of b stays in L1 for its two or more tiles; of K formats 256, from L2 */
    FEW_ROWS_PLAIN_K = 16,    /* or is as many rows of b as a processor's prefetchers can follow at once */
    WIDENED_FLOATS = 1 << 21, /* of a, if that is rows enough */
    STRIPS_LEAST_ROWS = 32,
    STRIPS_LEAST_COLUMNS = 384,
    STRIPS_FLOATS = 3 << 18, /* of a block of rows, if that is rows enough: 512 x 768 x 3072 takes 0.95 of the time by two blocks */
    STRIPS_BLOCK_ROWS = 256,
    STRIPS_MOST = 1 << 22, /* floats */
    STRIPS_GROUP_COLUMNS = 8 * HEED_PANEL,
    PACKED_ROWS_LEAST = 256, /* of those that were tried, at which all of k at once is better */
    SPAN_ROWS_MOST = 576,    /* 512 and a little */
    TASK_ROWS_LEAST = 48,    /* or all, where rows are cut */
    LEAST_ROWS = 120,        /* for which reading a panel of b from L3 pays: 3 bytes for 4 cycles */
    TASKS_PER_WORKER = 4,
    COLUMN_TASKS_LEAST = 2 /* for a worker, where rows are not cut as well */
};

/* Rows of bf16 are words where these begin and end as words do.  Few rows, which wait for b, are quicker a line apart. */
static bool has_words_in_a(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    return run->words && !run->is_thin && !request->transpose_a && request->a_type == HEED_BF16 && request->k % 2 == 0 &&
           request->lda % 2 == 0 && (uintptr_t)request->a % sizeof(float) == 0;
}

/* Few rows a multiple of 4 KB apart, and those of a transposed b beside them, all share one set of L1: copied, 5, 8, 10 and 12 rows
 * times floats take 0.95, 0.89, 0.82 and 0.62 of the time, 12 rows times 16 bits 0.8 (Zen 4).  Narrower vectors have no registers
 * for so many. */
static bool has_crowded_rows(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    const int64_t least = request->b_type == HEED_F32 ? CROWDED_ROWS_LEAST : CROWDED_ROWS_LEAST_HALVES;
    return run->is_thin && request->transpose_b && !request->packed_b && request->m >= least &&
           run->kernels->tile_columns >= HEED_PANEL && heed_cache_crowded(request->lda * (int64_t)sizeof(float));
}

bool heed_gemm_copies_rows(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    const bool others = request->a_type != HEED_F32 || run->pairs || request->transpose_a;
    return run->k > 0 && (others || run->lane_rows > 0 || has_crowded_rows(run)) && !has_words_in_a(run);
}

bool heed_gemm_tiles_round(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    return run->words && request->c_type == HEED_BF16 && request->alpha == 1.0f && request->beta == 0.0f && !request->b_scales &&
           !run->epilogue;
}

bool heed_gemm_tiles_finish(const struct gemm_run *run) {
    return heed_gemm_tiles_round(run) || (run->request->c_type == HEED_F32 && !run->request->b_scales && !run->epilogue);
}

/* Rows of a far apart are streams and pages of their own, and those a multiple of 4 KB apart share one set of L1: by strips 512 x
 * 768 x 3072 takes 0.72 to 0.83 of the time, 1024 x 1024 x 1024 0.78 to 0.9, 512 x 512 x 512 0.96 to 0.98, 64 x 768 x 768 0.98.  To
 * make them takes as long as 8 columns: with 64 of these 1.11, with 256 0.94 (rows 4 KB apart) to 1.04, with 512 0.98.  16 rows
 * take 0.97 to 1.0 (AVX2, Zen 3).  Tiles as wide as a panel have no such kernels: gcc 12 would have their sums on the stack, and
 * on a CPU it has not been measured. */
static bool tiles_read_strips(const struct gemm_run *run) { return run->kernels->pack_strips != NULL; }

static bool wants_strips(const struct gemm_run *run) {
    if (run->k == 0 || run->is_thin || !tiles_read_strips(run))
        return false;
    const int64_t columns = min_i64(run->task_columns, run->request->n);
    return run->request->transpose_a || (run->task_rows >= STRIPS_LEAST_ROWS && columns >= STRIPS_LEAST_COLUMNS);
}

/* Rows of b that are read once, as they are, are cut into few pieces, for these to be long: with two threads, one row times 4096 x
 * 4096 floats takes 0.7 of the time that it takes in four pieces for each, bf16 0.69, bytes 0.58 (AVX2, Zen 3).  Rows of a become
 * lanes for each piece: 0.95 to 1.0 (Zen 4). */
static int64_t tasks_per_worker(const struct gemm_run *run) {
    const bool once = run->is_thin && !run->request->packed_b;
    return once && (!run->request->transpose_b || run->lane_rows > 0) ? 1 : TASKS_PER_WORKER;
}

/* Where b is packed, rows are cut first, so that a task reads few rows of a and writes lines of c that no other does: sentences are
 * 1.02 times as fast with two threads; but into no more parts than there are workers, for each reads all of b: into twice as many
 * 512 to 1024 rows take 1.03 times as long (Zen 5).  Where each task makes its own part of b, columns are, to no fewer than strips
 * are worth if the rows suffice: with two threads 1024 x 1024 x 1024 takes 0.92 of the time so, 2048 x 2048 x 2048 0.87, but 512 x
 * 768 x 768 by a transposed b, or one of another type, 1.02 to 1.04 (AVX2, Zen 3).  Where columns suffice, rows are not cut as
 * well: 64, 128, 256 and 512 rows times 768 x 768 take 0.83, 0.96, 0.88 and 0.98 of the time, by AVX2 0.87 to 0.98 (Zen 5). */
static int64_t rows_cut_first(const struct gemm_run *run, int64_t wanted, int threads) {
    const struct heed_gemm *request = run->request;
    const int64_t needed = ceil_div(wanted, max_i64(1, request->n / STRIPS_LEAST_COLUMNS));
    const int64_t least = request->transpose_b || request->b_type != HEED_F32 ? 2 * LEAST_ROWS : LEAST_ROWS;
    if (request->packed_b)
        return max_i64(1, min_i64(threads, request->m / LEAST_ROWS));
    return tiles_read_strips(run) && needed <= request->m / least ? needed : 1;
}

/* Parts of rows beside those of columns, as many for each worker. */
static int64_t count_row_tasks(const struct gemm_run *run, int64_t wanted, int64_t rows_first, int threads) {
    if (!run->request->packed_b && rows_first == 1 && run->column_tasks >= COLUMN_TASKS_LEAST * threads)
        return 1;
    int64_t count = ceil_div(wanted, run->column_tasks);
    while (count > 1 && count * run->column_tasks % threads)
        count++;
    return count;
}

static int64_t plan_tasks(struct gemm_run *run, int threads) {
    const int64_t m = run->request->m, tile_rows = run->kernels->tile_rows;
    const int64_t panels = ceil_div(run->request->n, HEED_PANEL), wanted = threads > 1 ? threads * tasks_per_worker(run) : 1;
    run->task_columns = panels * HEED_PANEL;
    run->column_tasks = 1;
    run->task_rows = m;
    if (wanted == 1) /* divisions are a fifth of a small product's time */
        return 1;
    const int64_t rows_first = rows_cut_first(run, wanted, threads), task_panels = ceil_div(panels, ceil_div(wanted, rows_first));
    run->task_columns = task_panels * HEED_PANEL;
    run->column_tasks = ceil_div(panels, task_panels);
    const int64_t row_tasks = count_row_tasks(run, wanted, rows_first, threads);
    const int64_t least = run->is_thin ? m : row_tasks > 1 ? TASK_ROWS_LEAST : 1; /* few rows read b once */
    run->task_rows = min_i64(m, round_up(max_i64(ceil_div(m, row_tasks), least), tile_rows));
    return ceil_div(m, run->task_rows) * run->column_tasks;
}

/* b needs no work for each block of rows. */
static bool takes_b_as_packed(const struct gemm_run *run) {
    return run->request->packed_b &&
           (run->words ? run->request->b_type == HEED_BF16 : run->request->b_type == HEED_F32 && !run->pairs);
}

/* Up to so many rows, packing b costs more than reading it in place, unless tiles do both at once. */
static int64_t direct_rows(void) { return heed_cpu_traits() & HEED_TRAIT_PACKS_FOR_FEW ? HEED_GEMM_FEW_ROWS : 24; }

/* Whether rows of b are such as tiles multiply by, in place or packed. */
static bool has_rows_of_floats(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    return !request->packed_b && !request->transpose_b && request->b_type == HEED_F32 && !run->pairs;
}

bool heed_gemm_reads_b_in_place(const struct gemm_run *run, int64_t rows, int64_t columns) {
    return has_rows_of_floats(run) && columns % run->kernels->lanes == 0 && (run->panels_in_place || rows <= direct_rows());
}

/* Three to six tiles, as wide as a panel, multiply by its rows where they are, which the first of them fetches: 18 to 32 rows take
 * 0.9 to 0.98 of the time that they take where it packs them, 48 and 64 rows from memory up to 1.1.  Not where a panel is several
 * blocks of k (24 x 768 x 1536 from memory 1.15), or rows are a multiple of 4 KB apart, of which L2 holds few (32 x 2048 x 2048
 * 1.3). */
static bool multiplies_in_place(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    return has_rows_of_floats(run) && run->has_long_blocks && run->kernels->tile_columns >= HEED_PANEL &&
           run->task_rows > HEED_GEMM_FEW_ROWS && run->task_rows <= IN_PLACE_ROWS && request->k <= BLOCK_K_MOST &&
           request->ldb % PAGE_FLOATS != 0;
}

/* The first tile of each column packs b for those under it: with 64 rows of a and 768 x 768 products take 0.94 of the time of a
 * pass of its own, of AVX2 0.93, with 16 rows less than 0.9 of that in place.  From further away than about L2 the tile waits for
 * b, and the pass does not: then 128 x 3072 x 768 takes 1.02 of the time, 16 x 2048 x 2048 1.2 of that in place (on Intel's:
 * src/cpu_policy.c).  On Zen 4 it does not wait: 32 to 128 rows times 768 x 768, which are more than twice its L2, take 0.93 to
 * 0.98 of the time of a pass, and with tiles as wide as a panel 24 to 128 rows times 3072 x 768 and 2048 x 2048 0.93 to 0.99, times
 * 4096 x 4096 0.97 to 1.03; AVX2 0.85 to 0.98, and up to 1.05. */
static bool tiles_may_pack_b(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    const bool from_far = heed_cpu_traits() & HEED_TRAIT_TILES_PACK_FROM_FAR;
    const int64_t caches = !from_far ? 2 : run->kernels->tile_columns >= HEED_PANEL ? 16 : 4;
    const int64_t near = caches * heed_cache_sizes().l2 / (int64_t)sizeof(float);
    return has_rows_of_floats(run) && !run->panels_in_place && run->task_rows > run->kernels->tile_rows &&
           request->k <= near / max_i64(1, request->ldb);
}

/* Long blocks have fewer sums on their way, and all their tiles take b from L2 (src/cpu_policy.c).  Not few rows, where the first
 * tile of a column packs b (64 and 128 rows times 768 x 768 take 1.02 of the time), where b is far away (128 x 2048 x 2048 plain
 * 1.05), or where panels do not find a in L2 (the same, packed, 1.03).  On Zen 4 these too, half as long, by tiles as wide as a
 * panel (others have such blocks anyway): 18 to 256 rows times plain floats and other types take 0.92 to 1.0 of the time, with two
 * threads 0.81 to 1.0. */
static bool wants_long_blocks(const struct gemm_run *run) {
    const bool for_few = heed_cpu_traits() & HEED_TRAIT_LONG_BLOCKS_FOR_FEW && run->kernels->tile_columns >= HEED_PANEL;
    const int64_t l2 = heed_cache_sizes().l2 / (int64_t)sizeof(float);
    return heed_cpu_traits() & HEED_TRAIT_MULTIPLIES_FROM_L2 &&
           (run->task_rows > LONG_ROWS || for_few || (takes_b_as_packed(run) && run->k <= l2 / 2 / max_i64(1, run->task_rows)));
}

/* For tiles as wide as a panel, which from L2 must have every line fetched: 512 x 1536 x 384 takes 1.05 of the time so, beside a
 * neighbour on the core 1.1.  Few rows have sums and first tiles take more than that, unless b is made in L1 anyway. */
static bool keeps_b_near(const struct gemm_run *run) {
    return !run->has_long_blocks && run->kernels->tile_columns >= HEED_PANEL &&
           (run->task_rows >= NEAR_ROWS_LEAST || !takes_b_as_packed(run));
}

/* How many blocks of b would fill L2; a panel in place is one.  A transposed b becomes rows before the first tile, which then waits
 * for all of a block: by half as long ones 24 and 128 rows times 2048 x 2048 take 0.94 and 0.96 of the time. */
static int64_t blocks_in_l2(const struct gemm_run *run) {
    if (run->panels_in_place)
        return 1;
    if (run->has_long_blocks && (run->task_rows > LONG_ROWS || takes_b_as_packed(run)))
        return 4;
    return run->has_long_blocks && run->request->transpose_b ? 16 : 8;
}

/* Blocks of k alike in size, none longer than what two thirds of L1 hold of a panel, or a part of L2.  Rows of a that are a
 * multiple of 4 KB apart share one set of L1: with five sixths 512 x 768 x 3072 takes 1.01 of the time. */
static int64_t plan_block_k(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    if (run->block_columns > HEED_PANEL)
        return FEW_ROWS_PLAIN_K;
    const int64_t multiple = type_has_blocks(request->b_type) ? type_block(request->b_type) : HEED_LINE;
    if (run->task_rows <= HEED_GEMM_FEW_ROWS &&
        (run->task_rows > run->kernels->tile_rows || run->kernels->tile_columns < HEED_PANEL))
        return round_up(FEW_ROWS_K, multiple);
    const int64_t row_bytes = HEED_PANEL * (int64_t)sizeof(float);
    const struct heed_cache_sizes caches = heed_cache_sizes();
    const int64_t in_cache = (run->b_stays_near ? caches.l1 / 3 * 2 : caches.l2 / blocks_in_l2(run)) / row_bytes;
    const int64_t most = max_i64(run->b_stays_near ? NEAR_K_LEAST : BLOCK_K_LEAST, min_i64(BLOCK_K_MOST, in_cache));
    return round_up(run->k <= most ? run->k : ceil_div(run->k, ceil_div(run->k, most)), multiple);
}

/* Sums of a block take a quarter of L2.  Where b is ready, their a takes half of it, for all panels to find it there: from L3, 1024
 * x 1024 x 1024 takes 1.05 of the time.  Where that would be few rows, or b is not ready, a comes in spans.  Strips come from L3 as
 * quickly: blocks of 128 to 512 rows take 0.97 to 1.03 of the time, and spans that stay in L2 1.0 to 1.1. */
static int64_t most_block_rows(const struct gemm_run *run) {
    const int64_t l2 = heed_cache_sizes().l2 / (int64_t)sizeof(float), in_cache = l2 / 4 / HEED_PANEL;
    const int64_t rows_of_a = l2 / 2 / max_i64(1, run->k);
    int64_t most = run->k > run->block_k ? max_i64(BLOCK_ROWS_LEAST, min_i64(BLOCK_ROWS_MOST, in_cache)) : BLOCK_ROWS_MOST;
    if (run->strips)
        return max_i64(STRIPS_BLOCK_ROWS, min_i64(most, STRIPS_FLOATS / run->k));
    if (heed_gemm_copies_rows(run))
        most = max_i64(BLOCK_ROWS_LEAST, min_i64(most, WIDENED_FLOATS / run->k));
    if (takes_b_as_packed(run) && rows_of_a >= PACKED_ROWS_LEAST)
        return min_i64(most, rows_of_a);
    const bool in_spans = rows_of_a < most && (takes_b_as_packed(run) || run->b_stays_near);
    return in_spans ? min_i64(most, SPAN_ROWS_MOST) : most;
}

/* Blocks alike in size, for a short last one would have all of b loaded for few rows. */
static int64_t plan_block_rows(const struct gemm_run *run) {
    const int64_t most = most_block_rows(run);
    if (run->task_rows <= most)
        return run->task_rows;
    const int64_t rows = ceil_div(run->task_rows, ceil_div(run->task_rows, most));
    return min_i64(run->task_rows, round_up(rows, run->kernels->tile_rows));
}

static int64_t plan_block_columns(const struct gemm_run *run) {
    const bool wide = run->task_rows <= direct_rows() && !run->tiles_pack_b && !run->panels_in_place && has_rows_of_floats(run);
    return wide ? max_i64(HEED_PANEL, run->task_columns) : HEED_PANEL;
}

/* Where a is more than half of L2, spans of it are that half, and meet so many columns that their sums are a quarter: then a comes
 * from L3 once for these columns, and not for each panel.  512 x 768 x 3072 takes 0.89 to 0.96 of the time. */
static void plan_spans(struct gemm_run *run) {
    run->span_k = max_i64(1, run->k);
    run->group_columns = run->task_columns;
    if (run->strips && run->k > STRIPS_MOST / run->block_rows) { /* bounds the workspace, at up to a tenth of the speed */
        run->span_k = max_i64(run->block_k, STRIPS_MOST / run->block_rows / run->block_k * run->block_k);
        run->group_columns = min_i64(run->task_columns, STRIPS_GROUP_COLUMNS);
    }
    if (run->k <= run->block_k || run->block_columns != HEED_PANEL || run->strips)
        return;
    const int64_t l2 = heed_cache_sizes().l2 / (int64_t)sizeof(float), k_in_cache = l2 / 2 / run->block_rows;
    const int64_t group_columns = l2 / 4 / run->block_rows / HEED_PANEL * HEED_PANEL;
    const int64_t span_k = max_i64(run->block_k, k_in_cache - k_in_cache % run->block_k);
    if (run->k > max_i64(span_k, k_in_cache) && group_columns >= 2 * HEED_PANEL) {
        run->span_k = span_k;
        run->group_columns = group_columns;
    }
}

/* Those of a span, as many rows as may be in a block, and what pack_strips writes behind the last. */
static int64_t strips_floats(const struct gemm_run *run) {
    if (!run->strips)
        return 0;
    const int64_t tiles = ceil_div(run->block_rows, run->kernels->tile_rows);
    return workspace_round(heed_gemm_strips_floats(run, tiles, min_i64(run->k, run->span_k)) + HEED_LINE);
}

/* Rows that are copied: all of a block, or for pairs in strips those of a tile at a time, floats first if they are transposed.  An
 * odd number of lines apart, for as many sets of L1 as there are rows. */
static void plan_rows_of_a(struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    const int64_t k = run->strips ? run->block_k * run->depth : request->k;
    const int64_t rows = run->strips                  ? (run->pairs ? run->kernels->tile_rows : 0)
                         : heed_gemm_copies_rows(run) ? run->block_rows
                                                      : 0;
    const int64_t steps = run->words ? round_up(k, HEED_DOT) / (request->transpose_a ? 1 : run->depth) : k;
    const bool lanes = run->lane_rows > 0;
    run->lda = lanes ? heed_gemm_lanes_of_pass(run->lane_rows, run->kernels) : (ceil_div(steps, HEED_LINE) | 1) * HEED_LINE;
    run->worker_floats = run->a_at + workspace_product(lanes ? round_up(run->lane_rows, run->lda) : rows, lanes ? k : run->lda);
}

static void plan_workspace(struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    const bool blocked = run->k > run->block_k, has_source = run->words && type_has_blocks(request->b_type);
    const int64_t block_k = run->words ? run->block_k : min_i64(run->k, run->block_k);
    run->source_at = takes_b_as_packed(run) ? 0 : workspace_round(block_k * HEED_PANEL);
    run->sums_at = run->source_at + (has_source ? run->depth * block_k * HEED_PANEL : 0);
    run->c_at = run->sums_at +
                (blocked ? workspace_round(run->block_rows * (run->span_k < run->k ? run->group_columns : run->block_columns)) : 0);
    run->strips_at = run->c_at + (heed_gemm_tiles_finish(run) ? 0 : HEED_GEMM_APART_TILES * HEED_MAX_TILE_ROWS * HEED_PANEL);
    if (run->is_thin)
        run->strips_at = heed_gemm_thin_floats(request);
    run->a_at = run->strips_at + strips_floats(run);
    plan_rows_of_a(run);
}

struct gemm_run heed_gemm_plan(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_exec *exec,
                               const struct heed_kernels *kernels) {
    struct gemm_run run = {
        .request = request, .epilogue = epilogue, .exec = exec, .kernels = kernels, .pairs = compute_flushes(request->compute)};
    run.is_thin = heed_gemm_is_thin(request, kernels);
    run.lane_rows = run.is_thin ? heed_gemm_lane_rows(request, kernels) : 0;
    if (run.pairs && (!run.is_thin || heed_gemm_takes_words(request, kernels)))
        run.words = kernels->pairs;
    run.depth = run.words ? run.words->elements : 1;
    if (heed_gemm_reads_ab(request))
        run.k = run.pairs ? round_up(request->k, 2) / run.depth : request->k;
    const double flops = 2.0 * (double)request->m * (double)request->n * (double)max_i64(run.k, 1);
    const double work = heed_schedule_work(flops, (double)request->n * (double)type_span(request->b_type, request->k));
    run.tasks = plan_tasks(&run, heed_schedule_workers(exec, INT64_MAX, work));
    run.workers = heed_schedule_workers(exec, run.tasks, work);
    run.strips = wants_strips(&run);
    run.has_long_blocks = wants_long_blocks(&run);
    run.panels_in_place = multiplies_in_place(&run);
    run.tiles_pack_b = tiles_may_pack_b(&run);
    run.block_columns = plan_block_columns(&run);
    run.b_stays_near = keeps_b_near(&run);
    run.block_k = plan_block_k(&run);
    run.block_rows = plan_block_rows(&run);
    plan_spans(&run);
    plan_workspace(&run);
    return run;
}
