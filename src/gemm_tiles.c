/* Products by tiles: which part of c each task computes, and the loops around the tile.
 *
 * A task goes through column panels of 64; for each, through blocks of k, so long that their 64 columns of b stay in L2 or, where
 * tiles are as wide and the processor would not fetch them from there in time (cpu_policy.c), in L1; from there all row tiles use
 * them.  a stays where it is, the rows of one tile in L1 at a time; where all of a block's are more than L2 holds, a span of k goes
 * through a group of panels before the next.  Or the first panel makes strips of it (gemm_a.c), which all others read.
 * A plain b that is not far away is packed by the first tile of each column, while it computes, for those under it; few tiles may
 * read it where it is.  What comes after a tile is fetched during it.  Sums between blocks of k wait in scratch: c is written once,
 * at the end.
 *
 * Factors of 16 bits are widened into scratch: blocks of b, and as many rows of a as a block has, over all of k.  So are factors
 * that become pairs, whatever their type; from there on an odd k is the even one after it, with zeros in both factors.  Where an
 * instruction multiplies pairs they are words, a word to its tiles what a float is to others: packed bf16 as it is, and rows of
 * bf16 mostly. */
#include <stddef.h>

#include "cpu.h"
#include "gemm_plan.h"
#include "internal.h"
#include "schedule.h"
#include "types.h"

static const int64_t line_bytes = HEED_LINE * sizeof(float);

/* Where the b of the next block lies: rows of so many cache lines, `step` bytes apart, of which tiles fetch so many in a burst,
 * which is for every HEED_LINE steps of theirs. */
struct gemm_next {
    const char *b;
    int64_t rows, step, lines, burst;
};

/* What is the same for all tiles of a block: rows [row, row + rows), columns [column, ...) of c, p in [start, start + k). */
struct gemm_block {
    const struct gemm_run *run;
    int64_t row, rows, column, columns, start, k;
    int64_t group, group_end, span, span_end; /* columns and k of the group and the span that this is a block of */
    struct gemm_a a;                          /* from row `row` on; with strips, those of the span */
    const float *b;
    int64_t ldb;
    struct heed_heights heights;
    float *panel;    /* where the first tile of each column packs b, for the others; NULL: b is ready */
    float *sums, *c; /* c: a tile of it, where it has another type */
    struct gemm_next next;
};

static void load_b(struct gemm_block *block, float *scratch) {
    const struct gemm_run *run = block->run;
    const struct heed_gemm *request = run->request;
    const int64_t start = run->depth * block->start, k = heed_gemm_k_of(run, block->start, block->k);
    block->panel = run->tiles_pack_b && block->columns == HEED_PANEL ? scratch : NULL;
    if (block->panel || heed_gemm_reads_b_in_place(run, block->rows, block->columns)) {
        block->b = heed_gemm_b_at(request, block->column, start);
        block->ldb = request->ldb;
        return;
    }
    block->ldb = HEED_PANEL;
    if (!run->words) {
        block->b = heed_gemm_load_b(request, run->kernels, block->column, (int)block->columns, start, k, scratch);
        return;
    }
    block->b = heed_gemm_packed_has_words(request) ? heed_gemm_packed_at(request, block->column, start) : scratch;
    if (block->b == scratch)
        heed_gemm_load_dots(request, run->kernels, run->words, block->column, (int)block->columns, start, k,
                            scratch + run->source_at, scratch);
}

/* The block after this one: further down the same columns or, where these end, at the top of the next.  Packed, it is one piece. */
static struct gemm_next find_next(const struct gemm_block *block, int64_t column, int64_t start, int64_t columns, int64_t bursts) {
    const struct heed_gemm *request = block->run->request;
    const int64_t k = heed_gemm_k_of(block->run, start, block->run->block_k);
    start *= block->run->depth;
    if (request->packed_b) {
        const int64_t all = type_span(request->b_type, k); /* of 64 columns, in lines of 64 bytes */
        const int64_t lines = round_up(ceil_div(all, bursts), 4);
        return (struct gemm_next){heed_gemm_packed_at(request, column, start), ceil_div(all, lines), lines * line_bytes, lines, 1};
    }
    const int64_t rows = request->transpose_b ? columns : k, bytes = type_span(request->b_type, request->transpose_b ? k : columns);
    return (struct gemm_next){.b = heed_gemm_b_at(request, column, start),
                              .rows = rows,
                              .step = type_span(request->b_type, request->ldb),
                              .lines = ceil_div(bytes, line_bytes),
                              .burst = ceil_div(rows, bursts)};
}

/* A single tile leaves it to the processor's prefetchers, which join in where b is packed.  After the last columns of a task come
 * those of the task that this worker most likely has next, unless a comes in spans, for each of which columns begin anew: with two
 * threads 32 and 128 rows times 512 x 512 from memory take 0.78 and 0.92 of the time. */
static struct gemm_next next_block(const struct gemm_block *block) {
    const struct gemm_run *run = block->run;
    const bool down = block->start + block->k < block->span_end, few = block->rows <= HEED_GEMM_FEW_ROWS;
    const int64_t column = down ? block->column : block->column + block->columns,
                  start = down ? block->start + block->k : block->span;
    const int64_t end = run->span_k < run->k ? block->group_end : run->request->n, columns = min_i64(HEED_PANEL, end - column);
    const int64_t tiles = ceil_div(block->rows, run->kernels->tile_rows) * ceil_div(block->columns, run->kernels->tile_columns);
    const int64_t bursts = tiles * (block->k / HEED_LINE);
    if (columns <= 0 || run->k <= start || bursts == 0 || block->columns > HEED_PANEL ||
        (few && (!run->request->packed_b || tiles == 1)))
        return (struct gemm_next){0};
    return find_next(block, column, start, columns, bursts);
}

/* The share of it of the index-th tile and those after it. */
static void fetch_next(const struct gemm_block *block, int64_t index, struct heed_gemm_tile *tile) {
    const struct gemm_next *next = &block->next;
    const int64_t first = index * (block->k / HEED_LINE) * next->burst;
    if (first >= next->rows)
        return;
    tile->next_b = next->b + first * next->step;
    tile->next_rows = next->rows - first;
    tile->next_step = next->step;
    tile->next_lines = (int)next->lines;
    tile->next_burst = (int)next->burst;
}

/* Whether sums become c apart from the tile. */
static bool finishes_apart(const struct gemm_block *block) {
    return block->start + block->k == block->run->k && !heed_gemm_tiles_finish(block->run);
}

/* Strips of a block lie behind those of the blocks before it in the span. */
static int64_t strips_before(const struct gemm_block *block) {
    return heed_gemm_strips_floats(block->run, block->heights.tiles, block->start - block->span);
}

/* a of the index-th tile from the top, which begins with this row of the block. */
static const float *a_at(const struct gemm_block *block, int64_t index, int64_t row) {
    if (block->run->strips)
        return block->a.data + strips_before(block) + heed_gemm_strips_floats(block->run, index, block->k);
    return block->a.data + row * block->a.ld + block->start;
}

/* The first rows of a of the block after this one. */
static const float *top_of_next(const struct gemm_block *block) {
    return block->a.data + (block->start + block->k < block->span_end ? block->start + block->k : block->span);
}

/* With several spans, the sums of all panels of the group wait for the next. */
static int64_t sums_before(const struct gemm_block *block) {
    return block->run->span_k < block->run->k ? (block->column - block->group) * block->rows : 0;
}

/* Tiles of a block: so many of so many rows one under the other, over so many columns; the first is the index-th of the block, and
 * below `done` others. */
struct gemm_part {
    int64_t row, rows, tiles, column, columns, index, done;
};

/* These tiles, for more of their sums to come, and without what is fetched of the next b and of c. */
static struct heed_gemm_tile tiles_of(const struct gemm_block *block, const struct gemm_part *part) {
    const struct gemm_run *run = block->run;
    const int64_t i = part->row, j = part->column, below = i + part->tiles * part->rows;
    const bool packed = block->panel && i > 0;
    float *sums = block->sums + sums_before(block) + i * run->block_columns + j;
    return (struct heed_gemm_tile){
        .rows = (int)part->rows,
        .columns = (int)part->columns,
        .tiles = part->tiles,
        .k = block->k,
        .a = a_at(block, part->done, i),
        .lda = block->a.ld,
        .strips = run->strips,
        .b = (packed ? block->panel : block->b) + j,
        .ldb = packed ? HEED_PANEL : block->ldb,
        .panel = i == 0 && block->panel ? block->panel + j : NULL,
        .acc = block->start > 0 ? sums : NULL,
        .ldacc = run->block_columns,
        .partial = true,
        .c = sums,
        .ldc = run->block_columns,
        .fetches_b = i == 0 && (run->panels_in_place || (run->b_stays_near && block->ldb == HEED_PANEL)),
        .next_a = below < block->rows ? a_at(block, part->done + part->tiles, below) : top_of_next(block),
    };
}

/* The last of their sums become c. */
static void finish_in_tiles(const struct gemm_block *block, const struct gemm_part *part, struct heed_gemm_tile *tiles) {
    const struct heed_gemm *request = block->run->request;
    const int64_t at = (block->row + part->row) * request->ldc + block->column + part->column;
    tiles->partial = false;
    tiles->alpha = request->alpha;
    tiles->beta = request->beta;
    if (heed_gemm_tiles_round(block->run))
        tiles->rounded = (uint16_t *)request->c + at;
    else
        tiles->c = (float *)request->c + at;
    tiles->ldc = request->ldc;
}

/* They wait in block->c for heed_gemm_finish, and where they go then is fetched. */
static void finish_after_tiles(const struct gemm_block *block, const struct heed_gemm_sums *sums, struct heed_gemm_tile *tiles) {
    const struct gemm_run *run = block->run;
    const struct heed_gemm_finish_place next =
        heed_gemm_finish_at(run->request, run->epilogue, sums->row, sums->rows, sums->column);
    tiles->partial = false;
    tiles->alpha = 1.0f;
    tiles->beta = 0.0f;
    tiles->c = sums->data;
    tiles->ldc = sums->ld;
    tiles->next_c = next.data;
    tiles->ldnext_c = next.ld;
}

static void multiply_tiles(const struct gemm_block *block, const struct gemm_part *part) {
    const struct gemm_run *run = block->run;
    const bool last = block->start + block->k == run->k, apart = finishes_apart(block);
    const struct heed_gemm_sums sums = {
        block->row + part->row, part->tiles * part->rows, block->column + part->column, part->columns, block->c, HEED_PANEL};
    struct heed_gemm_tile tiles = tiles_of(block, part);
    if (apart)
        finish_after_tiles(block, &sums, &tiles);
    else if (last)
        finish_in_tiles(block, part, &tiles);
    fetch_next(block, part->index, &tiles);
    (run->words ? run->words->gemm_tile : run->kernels->gemm_tile)(&tiles);
    if (apart)
        heed_gemm_finish(run->request, run->epilogue, run->kernels, &sums);
}

/* All rows of these columns, in as few calls as may be; some at a time where sums wait in the place of these. */
static void multiply_columns(const struct gemm_block *block, struct gemm_part *part) {
    const struct heed_heights *heights = &block->heights;
    const int64_t across = ceil_div(part->columns, block->run->kernels->tile_columns);
    part->row = 0;
    for (part->done = 0; part->done < heights->tiles; part->done += part->tiles) {
        const bool taller = part->done < heights->taller;
        part->rows = heights->rows - !taller;
        part->tiles = (taller ? heights->taller : heights->tiles) - part->done;
        if (finishes_apart(block))
            part->tiles = min_i64(part->tiles, HEED_GEMM_APART_TILES);
        multiply_tiles(block, part);
        part->row += part->tiles * part->rows;
        part->index += part->tiles * across;
    }
}

/* As many whole tiles side by side as a panel has, then what is left. */
static void multiply_panels(const struct gemm_block *block) {
    const int64_t width = block->run->kernels->tile_columns;
    struct gemm_part part = {0};
    for (; part.column < block->columns; part.column += part.columns) {
        const int64_t left = min_i64(HEED_PANEL, block->columns - part.column);
        part.columns = left < width ? left : left - left % width;
        multiply_columns(block, &part);
    }
}

/* At least one pass, so that k = 0 writes c too. */
static void multiply_block(struct gemm_block *block, float *workspace) {
    const struct gemm_run *run = block->run;
    block->start = block->span;
    do {
        block->k = min_i64(run->block_k, block->span_end - block->start);
        if (block->k > 0) {
            if (run->strips && block->column == block->group)
                heed_gemm_load_strips(run, block->row, &block->heights, block->start, block->k,
                                      workspace + run->strips_at + strips_before(block), workspace + run->a_at);
            load_b(block, workspace);
        }
        block->next = next_block(block);
        multiply_panels(block);
        block->start += block->k;
    } while (block->start < block->span_end);
}

/* All of k, a span at a time, of which the a stays in L2 for all columns of the group.  False: cancelled. */
static bool multiply_group(struct gemm_block *block, float *workspace) {
    const struct gemm_run *run = block->run;
    block->span = 0;
    do {
        block->span_end = min_i64(run->k, block->span + run->span_k);
        for (block->column = block->group; block->column < block->group_end; block->column += block->columns) {
            block->columns = min_i64(run->block_columns, block->group_end - block->column);
            if (block->columns > HEED_PANEL) /* in place, which the last columns may not be */
                block->columns -= block->columns % run->kernels->lanes;
            if (heed_exec_cancelled(run->exec))
                return false;
            multiply_block(block, workspace);
        }
        block->span = block->span_end;
    } while (block->span < run->k);
    return true;
}

/* As few tiles as so many rows make, as alike as they can be. */
static struct heed_heights heights_of(const struct gemm_run *run, int64_t rows) {
    const int64_t tiles = ceil_div(rows, run->kernels->tile_rows), each = ceil_div(rows, tiles);
    return (struct heed_heights){.tiles = tiles, .taller = rows - tiles * (each - 1), .rows = (int)each};
}

/* False: cancelled. */
static bool multiply_rows(struct gemm_block *block, int64_t column, int64_t column_end, float *workspace) {
    const struct gemm_run *run = block->run;
    block->heights = heights_of(run, block->rows);
    if (run->k > 0)
        block->a = run->strips ? (struct gemm_a){workspace + run->strips_at, 0}
                               : heed_gemm_load_rows(run, block->row, block->rows, workspace + run->a_at);
    if (run->is_thin)
        return heed_gemm_thin(run, block->a.data, block->a.ld, column, column_end, workspace);
    for (; column < column_end; column = block->group_end) {
        block->group = column;
        block->group_end = min_i64(column_end, column + run->group_columns);
        if (!multiply_group(block, workspace))
            return false;
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
        .run = run, .sums = workspace + run->sums_at, .c = workspace + run->c_at, .a = {workspace, 0}, .b = workspace};
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

enum heed_status heed_gemm_tiles(struct gemm_run *run, float *workspace) {
    run->workspace = workspace;
    return heed_schedule_run(run->exec, run->workers, run->tasks, run_task, run);
}
