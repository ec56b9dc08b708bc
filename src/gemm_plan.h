/* How a product is cut: what a worker computes, in which blocks, with how much workspace.  None of it can change a bit. */
#ifndef HEED_GEMM_PLAN_H
#define HEED_GEMM_PLAN_H

#include "gemm.h"

enum { HEED_GEMM_APART_TILES = 8 }; /* whose sums wait for what becomes of them */

struct gemm_run {
    const struct heed_gemm *request;
    const struct heed_epilogue *epilogue; /* NULL: none */
    const struct heed_exec *exec;
    const struct heed_kernels *kernels;
    bool pairs, is_thin;
    int64_t lane_rows;             /* first rows of a that are lanes of vectors, lda in each pass; it is thin then */
    const struct heed_dots *words; /* whose tiles take pairs as words; NULL: factors are floats */
    int depth;                     /* elements of k in a step of tiles: 1, or the 2 of a word; k and parts of it count steps */
    int64_t tasks;
    int workers;
    int64_t k, block_k;            /* block_k: a multiple of HEED_LINE */
    int64_t span_k, group_columns; /* k of which a stays in L2 for as many columns of a task; all, where one of them is all */
    bool strips;                   /* of a, made for all columns of a group; else tiles read rows of it */
    bool tiles_pack_b;             /* while they multiply by it, where its panels are whole */
    bool panels_in_place;          /* of a plain b, as long as k */
    bool has_long_blocks;          /* of b, which all tiles take from L2 */
    bool b_stays_near;             /* a block of b in L1, for all tiles but the first */
    int64_t task_rows, task_columns;
    int64_t column_tasks;
    int64_t block_rows, block_columns; /* block_columns: a panel, or all of a task where few rows meet rows of b in place */
    /* A worker's workspace: a block of b, what it is made of, a block of sums, tiles of c, strips, rows of a, lda apart. */
    int64_t worker_floats, source_at, sums_at, c_at, strips_at, a_at, lda;
    float *workspace;
};

/* Of a request that has been checked and made safe; workspace is not set. */
struct gemm_run heed_gemm_plan(const struct heed_gemm *request, const struct heed_epilogue *epilogue, const struct heed_exec *exec,
                               const struct heed_kernels *kernels);
/* Whether rows of op(a) are copied: widened, transposed, or made pairs or words. */
bool heed_gemm_copies_rows(const struct gemm_run *run);
/* Whether tiles round their sums to the bf16 of c. */
bool heed_gemm_tiles_round(const struct gemm_run *run);
/* Whether tiles write c, rounded or not; else it is made of their sums. */
bool heed_gemm_tiles_finish(const struct gemm_run *run);

/* Whether so many rows multiply by so many columns of b where these are, unless tiles pack them.  Whole vectors alone, for the last
 * columns may not reach to the end of one. */
bool heed_gemm_reads_b_in_place(const struct gemm_run *run, int64_t rows, int64_t columns);

/* Rows of op(a) as floats, pairs, words or lanes. */
struct gemm_a {
    const float *data;
    int64_t ld;
};
/* From row `row` on, all of k: where they are, or in scratch. */
struct gemm_a heed_gemm_load_rows(const struct gemm_run *run, int64_t row, int64_t rows, float *scratch);
/* Steps [start, start + k) of these tiles, of which the first begins at row `row`, as strips, one after another; scratch has room
 * for the rows of a tile, run->lda apart. */
void heed_gemm_load_strips(const struct gemm_run *run, int64_t row, const struct heed_heights *heights, int64_t start, int64_t k,
                           float *strips, float *scratch);
/* Of so many tiles and steps. */
int64_t heed_gemm_strips_floats(const struct gemm_run *run, int64_t tiles, int64_t k);
/* From a step on, so many steps: the elements of k that the factors have there. */
int64_t heed_gemm_k_of(const struct gemm_run *run, int64_t start, int64_t steps);

/* The product, planned, in its workspace. */
enum heed_status heed_gemm_tiles(struct gemm_run *run, float *workspace);

/* Whether heed_gemm_thin computes all rows of this request, columns [column, end) a call; column is a multiple of HEED_PANEL.
 * a: op(a) as floats, pairs, words or lanes.  sums: heed_gemm_thin_floats, aligned to 64 bytes.  False: the call was cancelled. */
bool heed_gemm_is_thin(const struct heed_gemm *request, const struct heed_kernels *kernels);
bool heed_gemm_thin(const struct gemm_run *run, const float *a, int64_t lda, int64_t column, int64_t end, float *sums);
/* Of the sums of one call. */
int64_t heed_gemm_thin_floats(const struct heed_gemm *request);
/* How many rows of op(a), from the first on, are lanes of vectors, and of so many those of each pass, in whole vectors. */
int64_t heed_gemm_lane_rows(const struct heed_gemm *request, const struct heed_kernels *kernels);
int64_t heed_gemm_lanes_of_pass(int64_t lane_rows, const struct heed_kernels *kernels);
/* Whether pairs of this request are words where it is thin, a as load_a of kernels->pairs has it; tiles always have words there. */
bool heed_gemm_takes_words(const struct heed_gemm *request, const struct heed_kernels *kernels);

#endif
