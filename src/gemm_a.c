/* The first factor as tiles read it: its rows as they are, or strips of it, which a block makes once for all columns.
 *
 * Rows far apart cost more than their bytes: each is a stream and a page of its own, and those that are a multiple of 4 KB apart
 * share one set of L1.  A strip, [k][rows of a tile], is one piece. */
#include <string.h>

#include "gemm_plan.h"
#include "internal.h"
#include "types.h"

int64_t heed_gemm_k_of(const struct gemm_run *run, int64_t start, int64_t steps) {
    return min_i64(run->depth * steps, run->request->k - run->depth * start);
}

int64_t heed_gemm_strips_floats(const struct gemm_run *run, int64_t tiles, int64_t k) {
    return tiles * run->kernels->tile_rows * k;
}

/* n elements of rows of a transposed a, from (row, start) on; pieces, for store_keys counts in int. */
static void load_transposed(const struct gemm_run *run, int64_t row, int64_t rows, int64_t start, int64_t n, float *to,
                            int64_t ld) {
    enum { PIECE = 1 << 16 };
    const struct heed_gemm *request = run->request;
    for (int64_t p = 0; p < n; p += PIECE)
        run->kernels->store_keys(type_at(request->a_type, request->a, (start + p) * request->lda + row), request->a_type,
                                 request->lda, rows, (int)min_i64(PIECE, n - p), to + p, ld);
}

/* n elements of op(a) as pairs or words, from element (row, start) on, which is even; n is a multiple of two, or the last ones. */
static void load_pairs(const struct gemm_run *run, int64_t row, int64_t rows, int64_t start, int64_t n, float *scratch,
                       int64_t ld) {
    const struct heed_gemm *request = run->request;
    if (request->transpose_a)
        load_transposed(run, row, rows, start, n, scratch, ld);
    const enum heed_type type = request->transpose_a ? HEED_F32 : request->a_type;
    const void *from = request->transpose_a ? scratch : type_at(type, request->a, row * request->lda + start);
    const int64_t lda = request->transpose_a ? ld : request->lda;
    if (run->words)
        run->words->load_a(from, type, lda, rows, n, scratch, ld);
    else
        run->kernels->pair_queries(from, type, lda, rows, n, 1.0f, scratch, ld);
}

/* Those of each pass one behind the other.  Lanes behind the last row are multiplied, too, and numbers that are there by chance may
 * be slow. */
static struct gemm_a load_lanes(const struct gemm_run *run, float *lanes) {
    const struct heed_gemm *request = run->request;
    for (int64_t row = 0; row < run->lane_rows; row += run->lda) {
        const int64_t n = min_i64(run->lda, run->lane_rows - row);
        float *to = lanes + row * run->k;
        if (n < run->lda)
            memset(to, 0, (size_t)(run->k * run->lda) * sizeof *to);
        run->kernels->store_keys(type_at(request->a_type, request->a, row * request->lda), request->a_type, request->lda, run->k,
                                 (int)n, to, run->lda);
    }
    return (struct gemm_a){lanes, run->lda};
}

struct gemm_a heed_gemm_load_rows(const struct gemm_run *run, int64_t row, int64_t rows, float *scratch) {
    const struct heed_gemm *request = run->request;
    const void *from = request->transpose_a ? NULL : type_at(request->a_type, request->a, row * request->lda);
    if (!heed_gemm_copies_rows(run))
        return (struct gemm_a){from, request->lda / run->depth};
    if (run->lane_rows > 0)
        return load_lanes(run, scratch);
    if (run->pairs)
        load_pairs(run, row, rows, 0, request->k, scratch, run->lda);
    else if (request->transpose_a)
        load_transposed(run, row, rows, 0, request->k, scratch, run->lda);
    else
        run->kernels->widen_rows(from, request->a_type, request->lda, rows, request->k, scratch, run->lda);
    return (struct gemm_a){scratch, run->lda};
}

/* Pairs are made for a tile at a time. */
static void load_strips_of_pairs(const struct gemm_run *run, int64_t row, const struct heed_heights *heights, int64_t start,
                                 int64_t k, float *strips, float *scratch) {
    for (int64_t tile = 0; tile < heights->tiles; tile++) {
        const struct heed_heights one = {.tiles = 1, .taller = 1, .rows = heights->rows - (tile >= heights->taller)};
        load_pairs(run, row, one.rows, run->depth * start, heed_gemm_k_of(run, start, k), scratch, run->lda);
        run->kernels->pack_strips(scratch, HEED_F32, run->lda, false, &one, k, strips);
        strips += heed_gemm_strips_floats(run, 1, k);
        row += one.rows;
    }
}

void heed_gemm_load_strips(const struct gemm_run *run, int64_t row, const struct heed_heights *heights, int64_t start, int64_t k,
                           float *strips, float *scratch) {
    const struct heed_gemm *request = run->request;
    const int64_t lda = request->lda, at = request->transpose_a ? start * lda + row : row * lda + start;
    if (run->pairs)
        load_strips_of_pairs(run, row, heights, start, k, strips, scratch);
    else
        run->kernels->pack_strips(type_at(request->a_type, request->a, at), request->a_type, lda, request->transpose_a, heights, k,
                                  strips);
}
