/* HEED_COMPUTE_BF16_AMX on AMX: tdpbf16ps multiplies 16 rows of a with 16 columns of b, over HEED_DOT elements of k, in 16 cycles,
 * where fma takes 256.  All other kernels of its table are those for AVX-512. */
#define _GNU_SOURCE
#include "vec_avx512.h"

#include "amx_tiles.h"
#include "kernels.h"

/* All eight registers whole: factors have zeros where they end. */
static void begin(struct heed_dots_callers *callers) {
    static const struct tile_shapes whole = {
        .palette = 1,
        .row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES},
        .rows = {REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER}};
    tiles_keep(callers->tile_configuration);
    tiles_shape(&whole);
}

static void end(const struct heed_dots_callers *callers) { tiles_end(callers->tile_configuration); }

/* Elements below 2^-126 are 0 before they are rounded. */
INLINE __m512i round_b(vf low, vf high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

#include "bf16_words.h"
#include "kernels/finish_products.h"
#include "amx_beside.h"

/* Floats of b from one dot to the next, and bytes from one row of it to the next. */
enum { B_STEP = HEED_DOT / 2 * HEED_PANEL, B_BYTES = HEED_PANEL * sizeof(float) };

/* If it was not read before, what is loaded some steps later, 16 columns of it, into L2. */
INLINE void fetch_far_b(const struct heed_dot_tile *tile, const float *b) {
    enum { AHEAD = 4 };
    if (tile->fetches_b)
        UNROLL for (int i = 0; i < REGISTER; i++) __builtin_prefetch(b + AHEAD * B_STEP + i * HEED_PANEL, 0, 2);
}

/* And what is loaded in the next step, into L1.  Left alone loads wait, the more so beside a neighbour on the core. */
INLINE void fetch_next_b(const struct heed_dot_tile *tile, const float *b) {
    UNROLL for (int i = 0; i < REGISTER; i++) __builtin_prefetch(b + B_STEP + i * HEED_PANEL, 0, 3);
    fetch_far_b(tile, b);
}

/* What is read when the sums are finished, from column j on: some rows with each step but the first, until all are fetched. */
struct fetched_c {
    const char *next;
    int64_t ld;
    int lines, each, left;
};

INLINE struct fetched_c fetched_c_begin(const struct heed_dot_tile *tile, int64_t j) {
    if (!tile->c)
        return (struct fetched_c){.left = 0};
    return (struct fetched_c){.next = tile->c + j / (2 * REGISTER) * tile->c_lines * ROW_BYTES,
                              .ld = tile->ldc,
                              .lines = tile->c_lines,
                              .each = (int)ceil_div(tile->rows * HEED_DOT, max_i64(HEED_DOT, tile->k - HEED_DOT)),
                              .left = tile->rows};
}

INLINE void fetch_c(struct fetched_c *c) {
    for (int i = 0; i < c->each && c->left > 0; i++, c->left--, c->next += c->ld)
        for (int line = 0; line < c->lines; line++)
            __builtin_prefetch(c->next + line * ROW_BYTES, 1, 2);
}

/* Of any tile they are registers 0 to 3. */
INLINE void zero_sums(void) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* What earlier tiles left to finish is finished before sums are written; then these are left. */
INLINE void finish_left(const struct heed_dot_tile *tile) {
    if (tile->becomes && tile->left->rows > 0)
        finish_products(tile->left);
}

INLINE void leave(const struct heed_dot_tile *tile, int64_t j, int64_t columns) {
    const struct heed_finish_products *becomes = tile->becomes;
    if (!becomes)
        return;
    *tile->left = *becomes;
    tile->left->columns = min_i64(columns, becomes->columns - j);
    tile->left->sums += j;
    tile->left->scales = becomes->scales ? becomes->scales + j : NULL;
    tile->left->c = type_at_output(becomes->type, becomes->c, j);
}

/* Up to 32 rows times 32 columns from j on.  Registers: sums two by two; rows of a 4 and 5; columns of b 6 and 7.  Each is loaded
 * for the next step as soon as it was used last, for the core has few of them to spare.  Of b, which is read once for each strip,
 * nothing is kept in L1, so that the strip's rows stay there.  Together 0.75 of the time (512 x 512 x 512, a Xeon with AMX). */
INLINE void square_multiply(const bool wide, const int finished, const struct heed_dot_tile *tile, int64_t j) {
    const int64_t row_bytes = tile->lda * (int64_t)sizeof(float);
    const float *a = tile->a, *below = a + REGISTER * tile->lda, *b = tile->b + j;
    struct fetched_c c = fetched_c_begin(tile, j);
    struct beside beside = beside_begin(finished, tile->left);
    _tile_stream_loadd(6, b, B_BYTES);
    _tile_loadd(4, a, row_bytes);
    if (wide)
        _tile_stream_loadd(7, b + REGISTER, B_BYTES);
    _tile_loadd(5, below, row_bytes);
    NO_UNROLL for (int64_t k = tile->k; k > HEED_DOT; k -= HEED_DOT) {
        a += REGISTER, below += REGISTER, b += B_STEP;
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        _tile_stream_loadd(6, b, B_BYTES);
        fetch_far_b(tile, b);
        if (wide)
            _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(4, a, row_bytes);
        UNROLL for (int row = 0; row < BESIDE_ROWS; row++) beside_finish(finished, &beside);
        if (finished == NOTHING)
            fetch_c(&c);
        if (wide) {
            _tile_dpbf16ps(3, 5, 7);
            _tile_stream_loadd(7, b + REGISTER, B_BYTES);
            fetch_far_b(tile, b + REGISTER);
        }
        _tile_loadd(5, below, row_bytes);
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if (wide) {
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    beside_end(finished, &beside, tile->left);
}

INLINE void square(const bool wide, const int finished, const struct heed_dot_tile *tile, int64_t j) {
    float *sums = tile->sums + j, *below = sums + REGISTER * tile->ldsums;
    const int64_t step = tile->ldsums * (int64_t)sizeof(float);
    zero_sums();
    if (tile->continues) {
        _tile_loadd(0, sums, step);
        _tile_loadd(2, below, step);
        if (wide) {
            _tile_loadd(1, sums + REGISTER, step);
            _tile_loadd(3, below + REGISTER, step);
        }
    }
    if (tile->k > 0)
        square_multiply(wide, finished, tile, j);
    finish_left(tile);
    _tile_stored(0, sums, step);
    _tile_stored(2, below, step);
    if (wide) {
        _tile_stored(1, sums + REGISTER, step);
        _tile_stored(3, below + REGISTER, step);
    }
    leave(tile, j, 2 * REGISTER);
}

/* Up to 16 rows times `across` registers of columns: rows of a 4, columns of b 5 to 7. */
INLINE void flat_multiply(const int across, const struct heed_dot_tile *tile) {
    const int64_t row_bytes = tile->lda * (int64_t)sizeof(float);
    const float *a = tile->a, *b = tile->b;
    NO_UNROLL for (int64_t k = tile->k; k > 0; k -= HEED_DOT, a += REGISTER, b += B_STEP) {
        UNROLL for (int i = 0; i < across; i++) fetch_next_b(tile, b + i * REGISTER);
        _tile_loadd(4, a, row_bytes);
        _tile_loadd(6, b, B_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (across > 1) {
            _tile_loadd(7, b + REGISTER, B_BYTES);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (across > 2) {
            _tile_loadd(5, b + 2 * REGISTER, B_BYTES);
            _tile_dpbf16ps(2, 4, 5);
        }
        if (across > 3) {
            _tile_loadd(6, b + 3 * REGISTER, B_BYTES);
            _tile_dpbf16ps(3, 4, 6);
        }
    }
}

INLINE void flat(const int across, const struct heed_dot_tile *tile) {
    float *sums = tile->sums;
    const int64_t step = tile->ldsums * (int64_t)sizeof(float);
    zero_sums();
    if (tile->continues) {
        _tile_loadd(0, sums, step);
        if (across > 1)
            _tile_loadd(1, sums + REGISTER, step);
        if (across > 2)
            _tile_loadd(2, sums + 2 * REGISTER, step);
        if (across > 3)
            _tile_loadd(3, sums + 3 * REGISTER, step);
    }
    flat_multiply(across, tile);
    finish_left(tile);
    _tile_stored(0, sums, step);
    if (across > 1)
        _tile_stored(1, sums + REGISTER, step);
    if (across > 2)
        _tile_stored(2, sums + 2 * REGISTER, step);
    if (across > 3)
        _tile_stored(3, sums + 3 * REGISTER, step);
    leave(tile, 0, HEED_PANEL);
}

static void tile_flat(const struct heed_dot_tile *tile) {
    const int across = (tile->columns + REGISTER - 1) / REGISTER;
    if (across == 1)
        flat(1, tile);
    else if (across == 2)
        flat(2, tile);
    else if (across == 3)
        flat(3, tile);
    else
        flat(4, tile);
}

static void tile_wide_square(const struct heed_dot_tile *tile, int64_t j) {
    const int finished = tile->becomes ? beside_type(tile->left) : NOTHING;
    if (finished == HEED_F32)
        square(true, HEED_F32, tile, j);
    else if (finished == HEED_BF16)
        square(true, HEED_BF16, tile, j);
    else if (finished == HEED_F16)
        square(true, HEED_F16, tile, j);
    else
        square(true, NOTHING, tile, j);
}

static void tile_square(const struct heed_dot_tile *tile) {
    for (int64_t j = 0; j < tile->columns; j += 2 * REGISTER)
        if (tile->columns - j > REGISTER)
            tile_wide_square(tile, j);
        else
            square(false, NOTHING, tile, j);
}

static void tile(const struct heed_dot_tile *request) {
    if (request->rows > REGISTER)
        tile_square(request);
    else
        tile_flat(request);
}

extern const struct heed_kernels heed_kernels_avx512;
extern const struct heed_dots heed_dots_amx;
const struct heed_dots heed_dots_amx = {
    .elements = 2,
    .depth = HEED_DOT,
    .tile_rows = 2 * REGISTER,
    .tile_columns = 2 * REGISTER,
    .permitted = tiles_permitted,
    .otherwise = &heed_kernels_avx512,
    .begin = begin,
    .end = end,
    .load_a = load_a,
    .load_b = load_b,
    .load_b_transposed = load_b_transposed,
    .tile = tile,
    .weigh = dot_weigh,
};
