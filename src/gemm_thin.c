/* Products of few rows, which wait for b: it is read in the order in which it lies, and fetched ahead.
 *
 * Tiles that do not span a panel, or more rows than a tile has, would read it several times, in strips: of a plain read's rate, 8
 * rows with 4096 x 4096 packed weights had 0.77 (AVX-512) and 0.46 (AVX2), now 0.90 and 0.62; one row of transposed ones 0.49, now
 * 0.96. */
#include <stddef.h>

#include "cache_sizes.h"
#include "cpu.h"
#include "gemm_plan.h"
#include "internal.h"
#include "pace.h"
#include "schedule.h"
#include "types.h"

enum {
    FAR_ROWS = 16,         /* that are few where b is far */
    FAR_ROWS_WIDE = 32,    /* the same with tiles as wide as a panel */
    FAR_ROWS_PACKED = 30,  /* of floats that are very far */
    FAR_ROWS_WIDENED = 64, /* times what becomes floats */
    NEAR_ROWS_WIDENED = 48,
    FAR_WORD_ROWS = 26,  /* times words */
    PASS_ROWS = 8,       /* the most that squares of what is not far have registers for */
    LANE_ROWS = 64,      /* whose sums have room */
    FEW_ROWS_NARROW = 4, /* for which squares have registers, where vectors are narrow */
    IDLE_NEAR = 1,       /* lanes without a row, at most, where b is not far */
    IDLE_WIDE = 4,       /* of vectors as wide as a line, where it is */
    PLAIN_FAR = 4,       /* L2 caches */
    VERY_FAR = 32,       /* the same */
    PACED_ROWS = 3,      /* see tries_pace */
    PLAIN_COLUMNS = 320, /* of rows of b as they are, at least, */
    PLAIN_FLOATS = 256,  /* of floats */
    PIECE = 1024,        /* elements of a row of b as it is */
    PIECE_TALL = 256     /* of floats, for a tall tile */
};
_Static_assert((int)FAR_ROWS_WIDENED *(int)HEED_PANEL <= (int)HEED_GEMM_THIN_FLOATS, "sums of a panel have room");

static bool exceeds(const struct heed_gemm *request, int64_t bytes) {
    return request->n > bytes / type_span(request->b_type, max_i64(1, request->k));
}
/* Whether b is larger than L2 so many times. */
static bool exceeds_l2(const struct heed_gemm *request, int64_t times) { return exceeds(request, times * heed_cache_sizes().l2); }

/* Rows of bf16 along k, in whole squares. */
static bool has_words_along_k(const struct heed_gemm *request) {
    return request->transpose_b && !request->packed_b && request->b_type == HEED_BF16 && request->k % HEED_DOT == 0 &&
           request->n % HEED_SUM_LANES == 0;
}

/* Pairs of bf16 are multiplied as words where an instruction does that. */
bool heed_gemm_takes_words(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    return request->compute == HEED_COMPUTE_BF16 && kernels->pairs &&
           (heed_gemm_packed_has_words(request) || has_words_along_k(request));
}

/* b, of which some comes from L3 or memory in each call. */
static bool is_far(const struct heed_gemm *request) { return exceeds_l2(request, 2); }

static bool has_trait(unsigned trait) { return heed_cpu_traits() & trait; }

/* Of words, tiles take 1.49 of the time for 16 rows times 4096 x 4096, 1.19 for 24, 0.94 for 28; times 768 x 768 1.19 for 8 rows,
 * 0.95 for 13; from L2 0.9 for up to 6 rows, and from L1 0.75 to 0.9 for any (Zen 5).  Rows along k as they are take, in squares of
 * words, 0.36 to 0.58 of the time of pairs of floats that are transposed and stored, times 768 x 768 0.41 to 0.75; in two passes
 * of squares 13 and 16 rows 0.86 of what they take in tiles of words, 20 and 24 rows 1.0 to 1.18.  On Zen 4 tiles take 0.78 to 0.93
 * of the time for 13 rows of words, for 16 rows 0.94 (1536 x 1536) to 1.14 (4096 x 4096), for 20 to 26 rows 0.90 to 0.97. */
static int64_t words_at_most(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    if (!request->packed_b)
        return HEED_GEMM_FEW_ROWS;
    if (is_far(request))
        return has_trait(HEED_TRAIT_FETCHES_INTO_L2) ? FAR_ROWS : FAR_WORD_ROWS;
    const bool is_in_l1 = !exceeds(request, heed_cache_sizes().l1), is_in_l2 = !exceeds_l2(request, 1);
    return is_in_l1 || (is_in_l2 && request->m <= kernels->tile_rows) ? 0 : HEED_GEMM_FEW_ROWS;
}

/* Of rows of b as they are, on Zen 4, against tiles.  AVX-512: 13 to 16 rows times floats take 0.83 to 1.0 of the time, 24 and 32
 * rows 0.89 to 0.95 times 4096 x 4096, 0.93 to 1.04 times smaller ones from memory, 1.05 to 1.09 from L3; 13 to 32 rows times 16
 * bits 0.80 to 1.0 from anywhere, 48 rows 0.95 to 1.1, bytes 0.87 to 1.0.  AVX2: 16, 24 and 32 rows of floats from memory 0.79 to
 * 0.88, 0.87 to 0.93 and 0.89 to 0.94 (768 x 768 0.96 to 1.04), from L3 1.03 to 1.1; 13 to 16 rows times 16 bits 0.83 to 1.0, 20
 * to 32 rows 0.92 to 1.16, 13 to 32 rows times bytes 0.77 to 1.06; but of rows that are crowded, or every other of which is, up to
 * 1.6. */
static int64_t plain_at_most(const struct heed_gemm *request, bool has_wide) {
    const enum heed_type type = request->b_type;
    if (!has_wide && heed_cache_crowded(2 * type_span(type, request->ldb)))
        return HEED_GEMM_FEW_ROWS;
    const bool far = has_wide ? exceeds_l2(request, VERY_FAR) : is_far(request);
    if (type == HEED_F32)
        return far ? FAR_ROWS_WIDE : has_wide ? FAR_ROWS : HEED_GEMM_FEW_ROWS;
    if (type == HEED_I8)
        return has_wide ? FAR_ROWS_WIDENED : FAR_ROWS_WIDE;
    return has_wide ? FAR_ROWS_WIDE : FAR_ROWS;
}

/* Squares along k have registers for few rows; a second pass finds its panel in L2.  On Zen 4 13 to 16 rows times floats take 0.80
 * to 0.91 of the time that tiles take, times bf16 0.87 to 0.95, times f16 0.83 to 0.88, 768 x 768 0.85 to 1.04; 20 and 24 rows 0.95
 * to 1.13, AVX2 1.2 to 1.4.  9 to 12 rows take 0.77 to 0.99 of what a transposed copy takes where b is not far. */
static int64_t unpacked_at_most(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    const bool has_wide = kernels->tile_columns >= HEED_PANEL;
    if (!has_trait(HEED_TRAIT_FETCHES_INTO_L2) || request->compute != HEED_COMPUTE_F32 || type_has_blocks(request->b_type))
        return HEED_GEMM_FEW_ROWS;
    if (!request->transpose_b)
        return plain_at_most(request, has_wide);
    return has_wide && request->b_type != HEED_I8 ? FAR_ROWS : HEED_GEMM_FEW_ROWS;
}

/* Of packed floats from memory, 4096 x 4096, 16 rows take 0.75 of the time that tiles take, 32 rows 0.85, 48 rows 0.9 to 1.1
 * (AVX-512; AVX2: 16 rows 0.85, 24 rows 1.04), 16 rows of bf16 0.8, of bytes 0.93 (0.9).  On Zen 5, 40 rows of floats take 0.95,
 * but from L3 1.04 (AVX2, 18 and 28 rows 0.92, 0.96); 18, 32 and 64 rows of 16 bits, which become floats on their way, take 0.84,
 * 0.86 and 0.94 (0.81, 0.94, 0.96), of bytes 0.89, 0.91 and 0.95, from L3 0.89 to 1.0.  From L2, 16 rows take 1.07 of it, and
 * blocks, which become floats for each tile anew, 1.0 to 1.1 from anywhere.  On Zen 4 as many rows of 16 bits and of bytes gain as
 * much, from caches too: 13 to 16 rows 0.81 to 0.94, 20 to 32 rows 0.85 to 1.0, 48 rows 0.94 to 1.03, 64 rows 0.96 to 1.07, by AVX2
 * as well; and 17 to 30 rows times 4096 x 4096 floats 0.88 to 0.99, but 32 rows 1.02, 17 to 32 rows times 2048 x 3072 0.98 to 1.03,
 * by AVX2 0.97 to 1.06, and from caches 1.03 to 1.13. */
static int64_t rows_at_most(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    if (heed_gemm_takes_words(request, kernels))
        return words_at_most(request, kernels);
    if (!request->packed_b)
        return unpacked_at_most(request, kernels);
    if (request->compute != HEED_COMPUTE_F32 || type_has_blocks(request->b_type))
        return HEED_GEMM_FEW_ROWS;
    const bool once = has_trait(HEED_TRAIT_FETCHES_ONCE), into_l2 = has_trait(HEED_TRAIT_FETCHES_INTO_L2);
    const bool has_wide = kernels->tile_columns >= HEED_PANEL;
    if (!is_far(request))
        return into_l2 && request->b_type != HEED_F32 ? NEAR_ROWS_WIDENED : HEED_GEMM_FEW_ROWS;
    if (request->b_type != HEED_F32)
        return once || into_l2 ? FAR_ROWS_WIDENED : FAR_ROWS;
    if (once || (has_wide && !into_l2))
        return FAR_ROWS_WIDE;
    return has_wide && exceeds_l2(request, VERY_FAR) ? FAR_ROWS_PACKED : FAR_ROWS;
}

/* Of floats along k, which as lanes take as long for few rows as for all that vectors have lanes for.  On Zen 4, of the time by
 * squares or copies (5 to 16 rows) and tiles, from memory and in brackets from L3: AVX2 5 rows 0.70 to 0.79 (1.1), 8 rows 0.58 to
 * 0.65 (0.83 to 0.88), 12 rows 0.78 (1.02 to 1.1), 16 rows 0.52 to 0.60 (0.74 to 0.85), 24 rows 0.61 to 0.65 (0.76 to 0.86), 32 to
 * 64 rows 0.71 to 0.86 (0.88 to 0.95); AVX-512 13 rows 0.87 to 0.93 (0.84 to 0.99), 16 rows 0.73 to 0.76 (0.74 to 0.79), 28 rows
 * 0.93 to 0.97, 32, 48 and 64 rows 0.83 to 0.92 (0.86 to 0.95), but 20 and 24 rows 1.03 to 1.3.  With whole vectors as lanes and
 * the rest as squares 17 to 24 rows take 0.80 to 0.88 (0.90 to 0.97), 33 to 56 rows 0.92 to 0.97 (0.94 to 1.0).  From L2 8 and 16
 * rows take 0.83 to 0.98, 5 and 12 rows 1.1 to 1.3, from L1 any 0.92 to 1.3. */
int64_t heed_gemm_lane_rows(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    const bool has_wide = kernels->tile_columns >= HEED_PANEL;
    const int64_t m = request->m;
    if (!request->transpose_b || request->packed_b || request->transpose_a || request->b_type != HEED_F32 ||
        request->compute != HEED_COMPUTE_F32 || !heed_gemm_reads_ab(request) || kernels->lanes == 1)
        return 0;
    if (m > LANE_ROWS || m <= (has_wide ? HEED_GEMM_FEW_ROWS : FEW_ROWS_NARROW) || !exceeds(request, heed_cache_sizes().l1))
        return 0;
    const int64_t beyond = m % kernels->lanes, idle = beyond ? kernels->lanes - beyond : 0;
    if (idle <= (!is_far(request) ? IDLE_NEAR : has_wide ? IDLE_WIDE : kernels->lanes))
        return m;
    return has_wide && is_far(request) && beyond <= PASS_ROWS && request->a_type == HEED_F32 ? m - beyond : 0;
}

/* Packed floats and tiles as wide as a panel: a single row is as quick by these, and so are few from L2, where 4 rows times 384 x
 * 384 take 0.6 of the time, but from memory 1.3 times as long.  By narrower ones (AVX2) a row times 4096 x 4096 takes 1.1, 768 x
 * 768 1.6 times as long.  Of floats in rows, 1 to 12 rows times 4096 x 4096 take 0.43 to 0.6 of the time that tiles take, one row
 * times 768 x 768 0.74, 8 rows 1.09 (AVX-512, Zen 5).  On Zen 4 2 to 12 rows times 256 x 256 to 768 x 768 take 0.36 to 0.72 of the
 * time from memory, from L2 and L3 0.75 to 1.03 (AVX2 0.2 to 0.72, and 0.8 to 1.16).  Other types become floats on their way, or
 * words, but are not rounded: pairs are made of bf16 and bytes alone. */
bool heed_gemm_is_thin(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    if (heed_gemm_lane_rows(request, kernels) > 0)
        return true;
    if (request->m > rows_at_most(request, kernels) || request->transpose_a || !heed_gemm_reads_ab(request))
        return false;
    if (request->compute == HEED_COMPUTE_BF16)
        return request->b_type == HEED_BF16 || request->b_type == HEED_I8;
    if (request->b_type != HEED_F32)
        return true;
    if (request->packed_b)
        return request->m > kernels->tile_rows || kernels->tile_columns < HEED_PANEL || (request->m > 1 && is_far(request));
    return request->transpose_b || request->m == 1 || has_trait(HEED_TRAIT_FETCHES_INTO_L2) || exceeds_l2(request, PLAIN_FAR);
}

/* What these columns of b, and after them those from `next` on, are multiplied with. */
struct thin_columns {
    int64_t column, columns, next;
    const float *a;
    int64_t lda;
    float *sums;
    int64_t ldsums;
};

static void multiply_blocks(const struct heed_gemm *request, const struct heed_kernels *kernels, const struct thin_columns *c,
                            int64_t k) {
    struct heed_thin_blocks product = {.rows = (int)request->m,
                                       .columns = (int)c->columns,
                                       .k = k,
                                       .a = c->a,
                                       .lda = c->lda,
                                       .type = request->b_type,
                                       .c = c->sums,
                                       .fetch_into = heed_fetch_into_by(heed_cpu_traits()),
                                       .raises = has_trait(HEED_TRAIT_RAISES_WEIGHTS)};
    if (request->packed_b) {
        product.packed = heed_gemm_packed_at(request, c->column, 0);
    } else {
        product.b = heed_gemm_b_at(request, c->column, 0);
        product.ldb = request->ldb;
        product.next = heed_gemm_b_at(request, c->next, 0);
    }
    kernels->thin_blocks(&product);
}

/* Rows of b along k, those of a in so many passes, as even as may be. */
static void multiply_along_k(const struct heed_kernels *kernels, const struct heed_thin_product *product, int passes) {
    struct heed_thin_product pass = *product;
    for (int i = 0; i < passes; i++) {
        pass.rows = product->rows / passes + (i < product->rows % passes);
        kernels->thin_product_transposed(&pass);
        pass.a += pass.rows * pass.lda;
        pass.c += pass.rows * pass.ldc;
        pass.next = NULL;
        pass.far = false;
        pass.near = true;
    }
}

/* What may be paced, of floats.  Squares along k: one row takes 0.87 to 0.90 of the time from memory, two rows 0.85 to 1.0, and as
 * long as before, but for what is tried, from L3, 1.0 to 1.04 (AVX-512, Zen 4).  Tiles of packed floats, by AVX2: 2 and 3 rows take
 * 0.81 to 0.91, from L3 0.88 to 1.04, 4 rows 0.93 to 1.03, 5 to 8 rows 0.99 to 1.02, and by AVX-512 1.01 to 1.06.  Rows of b as
 * they are: 2 and 3 rows 0.88 to 1.02 by AVX-512, 1 row 1.0 to 1.02; by AVX2, where that takes the place of rows that are followed
 * (thin_followed.h), 1 row 0.85 to 1.0, 2 rows 0.57 to 0.76, from L3 1.0 to 1.02, 3 rows 1.0 to 1.07. */
static bool tries_pace(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    const bool has_wide = kernels->tile_columns >= HEED_PANEL;
    if (request->b_type != HEED_F32 || request->m > PACED_ROWS || !is_far(request))
        return false;
    if (request->packed_b)
        return !has_wide && request->m > 1;
    if (request->transpose_b)
        return request->m < PACED_ROWS;
    return has_wide ? request->m > 1 : request->m < PACED_ROWS;
}
static void multiply_at_pace(void (*multiply)(const struct heed_thin_product *product), struct heed_thin_product *product) {
    const struct heed_pace pace = heed_pace_begin(HEED_PACE_WEIGHTS);
    product->paced = pace.paced;
    multiply(product);
    heed_pace_end(&pace, product->columns * product->k * (int64_t)sizeof(float));
}

/* Where more than one are quicker, more rows are few. */
static int passes_for(const struct heed_gemm *request, const struct heed_kernels *kernels) {
    const int in_one = is_far(request) ? HEED_GEMM_FEW_ROWS : PASS_ROWS;
    const bool several = unpacked_at_most(request, kernels) > HEED_GEMM_FEW_ROWS && request->m > in_one;
    return several ? (int)ceil_div(request->m, PASS_ROWS) : 1;
}

/* Products of floats, 16 bits or words, from `done` elements of k on, whose sums are there. */
static struct heed_thin_product product_of(const struct heed_gemm *request, const struct thin_columns *c, int64_t done) {
    struct heed_thin_product product = {.rows = (int)request->m,
                                        .columns = (int)c->columns,
                                        .k = request->k - done,
                                        .a = c->a + done,
                                        .lda = c->lda,
                                        .type = request->b_type,
                                        .c = c->sums,
                                        .ldc = c->ldsums,
                                        .pairs = request->compute == HEED_COMPUTE_BF16,
                                        .words = heed_gemm_packed_has_words(request),
                                        .continues = done > 0,
                                        .far = is_far(request),
                                        .near = !exceeds_l2(request, 1),
                                        .crowded = heed_cache_crowded(type_span(request->b_type, request->ldb)),
                                        .in_order = request->packed_b,
                                        .exact = !request->packed_b,
                                        .fetch_into = heed_fetch_into_by(heed_cpu_traits())};
    if (request->packed_b) {
        product.columns = HEED_PANEL;
        product.b = heed_gemm_packed_at(request, c->column, 0);
        product.ldb = HEED_PANEL;
        product.next = heed_gemm_packed_at(request, c->next, 0);
    } else {
        product.b = heed_gemm_b_at(request, c->column, done);
        product.ldb = request->ldb;
        product.next = heed_gemm_b_at(request, c->next, 0);
        product.next_step = type_span(request->b_type, request->ldb);
    }
    return product;
}

static void multiply_elements(const struct heed_gemm *request, const struct heed_kernels *kernels, const struct thin_columns *c,
                              int64_t done) {
    struct heed_thin_product product = product_of(request, c, done);
    const bool words = heed_gemm_takes_words(request, kernels), along_k = request->transpose_b && !request->packed_b;
    if (tries_pace(request, kernels))
        multiply_at_pace(along_k ? kernels->thin_product_transposed : kernels->thin_product, &product);
    else if (along_k && !words)
        multiply_along_k(kernels, &product, passes_for(request, kernels));
    else if (along_k)
        kernels->pairs->thin_product_transposed(&product);
    else
        (words ? kernels->pairs->thin_product : kernels->thin_product)(&product);
}

int64_t heed_gemm_lanes_of_pass(int64_t lane_rows, const struct heed_kernels *kernels) {
    const int64_t vectors = ceil_div(lane_rows, kernels->lanes), most = kernels->most_lanes / kernels->lanes;
    return ceil_div(vectors, ceil_div(vectors, most)) * kernels->lanes;
}

/* Rows of b along k, and rows of a as lanes, in passes, of which the last may have rows of a as they are.  All but the first find b
 * in L2. */
static void multiply_lanes(const struct gemm_run *run, const struct thin_columns *c) {
    const struct heed_gemm *request = run->request;
    struct heed_thin_product pass = product_of(request, c, 0);
    for (int64_t row = 0; row < request->m; row += pass.rows) {
        const bool lanes = row < run->lane_rows;
        pass.c = c->sums + row * pass.ldc;
        pass.rows = (int)(lanes ? min_i64(c->lda, run->lane_rows - row) : request->m - row);
        pass.a = lanes ? c->a + row * pass.k : (const float *)request->a + row * request->lda;
        pass.lda = lanes ? c->lda : request->lda;
        (lanes ? run->kernels->thin_product_lanes : run->kernels->thin_product_transposed)(&pass);
        pass.next = NULL;
        pass.far = false;
        pass.near = true;
    }
}

/* Of the chains, what is done by whole blocks: all of weights in blocks, most of bytes along k, which lie like them. */
static int64_t k_of_blocks(const struct heed_gemm *request) {
    const bool is_bytes = request->b_type == HEED_I8 && request->transpose_b && !request->packed_b;
    if (request->compute == HEED_COMPUTE_BF16 || !(is_bytes || type_has_blocks(request->b_type)))
        return 0;
    return request->k / TYPE_BLOCK * TYPE_BLOCK;
}

static void multiply_columns(const struct heed_gemm *request, const struct heed_kernels *kernels, const struct thin_columns *c) {
    const int64_t done = k_of_blocks(request);
    if (done > 0)
        multiply_blocks(request, kernels, c, done);
    if (done < request->k)
        multiply_elements(request, kernels, c, done);
}

/* A panel or, of rows of b as they are, such long pieces that half of an L1 has their sums, but no shorter than 320 elements, of
 * floats 256.  With 256 16 rows of 16 bits take 0.99 of the time of tiles instead of 0.84, 32 rows 1.1 instead of 0.93; with 320
 * and 512 13 to 16 rows of floats 1.01 to 1.04; with twice as many sums 2 to 12 rows 1.04 to 1.3 (AVX-512, Zen 4).  Panel by panel
 * one row times 4096 x 4096 bytes took three times as long, and bf16 twice.  Where lines are fetched once, pieces of longer rows
 * are 1024 elements: one row times 4096 x 11008 floats takes 0.87 of the time so, bf16 0.82, two rows 0.88 and 0.98; of floats for
 * a tall tile 256: 8 rows 0.88 to 0.96, 10 rows 0.8 to 0.89, 12 rows 0.89 to 0.99 (Zen 5). */
static int64_t columns_at_once(const struct gemm_run *run) {
    const struct heed_gemm *request = run->request;
    if (run->lane_rows > 0 && request->m > run->lda) { /* several passes find as many in L2 */
        const int64_t near = heed_cache_sizes().l2 / 4 / type_span(request->b_type, request->k);
        return max_i64(HEED_LINE, min_i64(HEED_PANEL, near / HEED_LINE * HEED_LINE));
    }
    if (request->packed_b || request->transpose_b)
        return HEED_PANEL;
    const int64_t most = max_i64(request->b_type == HEED_F32 ? PLAIN_FLOATS : PLAIN_COLUMNS,
                                 HEED_GEMM_THIN_FLOATS / request->m / HEED_PANEL * HEED_PANEL);
    if (request->n <= most || !has_trait(HEED_TRAIT_FETCHES_ONCE))
        return most;
    return min_i64(most, request->b_type == HEED_F32 && request->m > run->kernels->tile_rows ? PIECE_TALL : PIECE);
}

int64_t heed_gemm_thin_floats(const struct heed_gemm *request) {
    return max_i64(HEED_GEMM_THIN_FLOATS, request->m * PLAIN_COLUMNS);
}

bool heed_gemm_thin(const struct gemm_run *run, const float *a, int64_t lda, int64_t column, int64_t end, float *sums) {
    const struct heed_gemm *request = run->request;
    const int64_t most = columns_at_once(run);
    for (int64_t columns; column < end; column += columns) {
        if (heed_exec_cancelled(run->exec))
            return false;
        columns = min_i64(most, end - column);
        const int64_t next = column + columns < end ? column + columns : column, ld = round_up(columns, HEED_PANEL);
        const struct thin_columns c = {column, columns, next, a, lda, sums, ld};
        if (run->lane_rows > 0)
            multiply_lanes(run, &c);
        else
            multiply_columns(request, run->kernels, &c);
        heed_gemm_finish(request, run->epilogue, run->kernels, &(struct heed_gemm_sums){0, request->m, column, columns, sums, ld});
    }
    return true;
}
