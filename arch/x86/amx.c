/* HEED_COMPUTE_BF16_AMX on AMX: tdpbf16ps multiplies 16 rows of a with 16 columns of b, over HEED_DOT elements of k, in 16 cycles,
 * where fma takes 256.  All other kernels of its table are those for AVX-512. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vec_avx512.h"

#include "internal.h"
#include "kernels.h"

/* A tile register: rows of as many pairs, or sums, 64 bytes. */
enum { REGISTER = 16, ROW_BYTES = 64 };

/* Linux lets a process have the registers when it asks, for their 8 KiB make every signal's frame larger: so not before the first
 * call that computes with them. */
static bool permitted(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18, UNKNOWN = 0, NO, YES };
    static _Atomic int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

/* All eight registers whole: factors have zeros where they end.  Constant, for gcc 12 thinks that the instruction reads 8 bytes. */
static void begin(struct heed_dots_callers *callers) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1,
               .row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES},
               .rows = {REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER}};
    _tile_storeconfig(callers->tile_configuration);
    __asm__ volatile("" : "+m"(*callers)); /* gcc 12: as above */
    _tile_loadconfig(&shape);
}

static void end(const struct heed_dots_callers *callers) {
    const bool had_tiles = callers->tile_configuration[0] != 0;
    __asm__ volatile("" ::"m"(*callers)); /* gcc 12: as above */
    if (had_tiles)
        _tile_loadconfig(callers->tile_configuration);
    else
        _tile_release();
}

/* Rows of a stand 16 to a register, columns of b too. */
enum { A_ROWS = REGISTER, B_ROW = REGISTER, B_COLUMNS = REGISTER * REGISTER };
/* Elements below 2^-126 are 0 before they are rounded. */
INLINE __m512i round_b(vf low, vf high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

#include "bf16_words.h"

/* Floats from one dot to the next: of a a register, of b those of a panel. */
enum { A_STEP = REGISTER * REGISTER, B_STEP = HEED_PANEL / REGISTER * A_STEP };

/* What will be loaded in two steps' time, into L1.  Left alone the loads wait for L2: products of 1024 x 1024 x 1024 take 1.35
 * times as long. */
INLINE void fetch(const float *data) { UNROLL for (int i = 0; i < REGISTER; i++) __builtin_prefetch(data + i * REGISTER, 0, 3); }

/* Registers: sums 0 to 3, two by two; rows of a 4 and 5; columns of b 6 and 7. */
INLINE void multiply(const bool tall, const bool wide, const struct heed_dot_tile *tile) {
    const float *a = tile->a, *b = tile->b;
    const int64_t a_step = tile->a_in_rows ? REGISTER : A_STEP;
    const int64_t row_bytes = tile->a_in_rows ? tile->lda * (int64_t)sizeof(float) : ROW_BYTES;
    const char *next = tile->next, *c = tile->next_c;
    NO_UNROLL for (int64_t k = tile->k; k > 0; k -= HEED_DOT) {
        _tile_loadd(4, a, row_bytes);
        _tile_loadd(6, b, ROW_BYTES);
        fetch(b + 2 * B_STEP);
        _tile_dpbf16ps(0, 4, 6);
        if (wide) {
            fetch(b + 2 * B_STEP + A_STEP);
            _tile_loadd(7, b + A_STEP, ROW_BYTES);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (tall) {
            _tile_loadd(5, a + REGISTER * tile->lda, row_bytes);
            _tile_dpbf16ps(2, 5, 6);
            if (!tile->a_in_rows) {
                fetch(a + 2 * A_STEP);
                fetch(a + 2 * A_STEP + REGISTER * tile->lda);
            }
        }
        if (tall && wide)
            _tile_dpbf16ps(3, 5, 7);
        NO_UNROLL for (int i = 0; i < tile->next_lines; i++, next += ROW_BYTES) __builtin_prefetch(next, 0, 2);
        NO_UNROLL for (int i = 0; i < tile->next_c_rows; i++, c += tile->ldnext_c) {
            __builtin_prefetch(c, 1, 2);
            __builtin_prefetch(c + ROW_BYTES, 1, 2);
        }
        a += a_step;
        b += B_STEP;
    }
}

INLINE void tile_of(const bool tall, const bool wide, const struct heed_dot_tile *tile) {
    float *sums = tile->sums, *below = sums + REGISTER * tile->ldsums;
    const int64_t step = tile->ldsums * (int64_t)sizeof(float);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (tile->continues) {
        _tile_loadd(0, sums, step);
        if (wide)
            _tile_loadd(1, sums + REGISTER, step);
        if (tall)
            _tile_loadd(2, below, step);
        if (tall && wide)
            _tile_loadd(3, below + REGISTER, step);
    }
    multiply(tall, wide, tile);
    _tile_stored(0, sums, step);
    if (wide)
        _tile_stored(1, sums + REGISTER, step);
    if (tall)
        _tile_stored(2, below, step);
    if (tall && wide)
        _tile_stored(3, below + REGISTER, step);
}

static void tile(const struct heed_dot_tile *request) {
    const bool tall = request->rows > REGISTER, wide = request->columns > REGISTER;
    if (tall && wide)
        tile_of(true, true, request);
    else if (tall)
        tile_of(true, false, request);
    else if (wide)
        tile_of(false, true, request);
    else
        tile_of(false, false, request);
}

extern const struct heed_kernels heed_kernels_avx512;
extern const struct heed_dots heed_dots_amx;
const struct heed_dots heed_dots_amx = {
    .elements = 2,
    .depth = HEED_DOT,
    .a_dot = REGISTER * REGISTER,
    .b_step = REGISTER,
    .tile_rows = 2 * REGISTER,
    .tile_columns = 2 * REGISTER,
    .permitted = permitted,
    .otherwise = &heed_kernels_avx512,
    .begin = begin,
    .end = end,
    .load_a = load_a,
    .load_b = load_b,
    .load_b_transposed = load_b_transposed,
    .load_b_words = load_b_words,
    .tile = tile,
    .weigh = dot_weigh,
};
