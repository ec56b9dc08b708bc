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
#include "kernels/types.h"
#include "kernels/exp2.h"
#include "kernels/sum16.h"
#include "kernels/exp_fetch.h"

/* A tile register: rows of as many pairs, or sums, 64 bytes. */
enum { REGISTER = 16, ROW_BYTES = 64 };
_Static_assert(HEED_DOT == 2 * REGISTER, "a row of a has whole dots");

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

/* 32 elements, or the first n, as bf16 in their order. */
INLINE __m512i load_dot(const enum heed_type type, const void *x, int64_t n) {
    const void *upper = type_at(type, x, n > VF_LANES ? VF_LANES : 0);
    if (type == HEED_BF16 && n >= HEED_DOT)
        return _mm512_loadu_si512(x);
    if (type == HEED_BF16) {
        const __m256i low = v_load_half_n(x, n), high = v_load_half_n(upper, n - VF_LANES);
        return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    return (__m512i)_mm512_cvtne2ps_pbh(load_type_n(type, upper, n - VF_LANES), load_type_n(type, x, n));
}

/* A register of a for every 16 rows and HEED_DOT elements. */
INLINE void load_a_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    for (int64_t i = 0; i < rows; i++) {
        const void *row = type_at(type, x, i * ldx);
        float *to = y + i / REGISTER * REGISTER * ldy + i % REGISTER * REGISTER;
        for (int64_t p = 0; p < k; p += HEED_DOT, to += REGISTER * REGISTER)
            _mm512_storeu_si512(to, load_dot(type, type_at(type, row, p), k - p));
    }
}

static void load_a(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    WITH_TYPE(type, load_a_of(TYPE, x, ldx, rows, k, y, ldy));
}

/* Rows of b that are fetched ahead: 8 rows times 4096 x 4096 weights take 0.89 of the time. */
enum { LOAD_AHEAD = 16 };

/* A register of b for every HEED_DOT of k and 16 columns: pairs of rows, element by element. */
INLINE void load_b_of(const enum heed_type type, const void *x, int64_t ldx, int64_t k, int columns, float *y) {
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4,
                                         35, 3, 34, 2, 33, 1, 32, 0),
                  high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const int64_t ahead = LOAD_AHEAD * type_span(type, ldx);
    for (int64_t p = 0; p < round_up(k, HEED_DOT); p += 2) {
        const void *even = type_at(type, x, min_i64(p, k - 1) * ldx), *odd = type_at(type, x, min_i64(p + 1, k - 1) * ldx);
        float *to = y + p / HEED_DOT * HEED_DOT / 2 * HEED_PANEL + p % HEED_DOT / 2 * REGISTER;
        for (int j = 0; j < columns; j += HEED_DOT, to += 2 * REGISTER * REGISTER) {
            __builtin_prefetch((const char *)type_at(type, even, j) + ahead, 0, 3);
            __builtin_prefetch((const char *)type_at(type, odd, j) + ahead, 0, 3);
            const __m512i a = p < k ? load_dot(type, type_at(type, even, j), columns - j) : _mm512_setzero_si512();
            const __m512i b = p + 1 < k ? load_dot(type, type_at(type, odd, j), columns - j) : _mm512_setzero_si512();
            _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
            _mm512_storeu_si512(to + REGISTER * REGISTER, _mm512_permutex2var_epi16(a, high, b));
        }
    }
}

static void load_b(const void *x, enum heed_type type, int64_t ldx, int64_t k, int columns, float *y) {
    WITH_STORED_TYPE(type, load_b_of(TYPE, x, ldx, k, columns, y));
}

/* 16 columns at a time, whose rows of pairs are transposed as words. */
INLINE void load_b_transposed_of(const enum heed_type type, const void *x, int64_t ldx, int64_t k, int columns, float *y) {
    for (int64_t p = 0; p < k; p += HEED_DOT)
        for (int j = 0; j < columns; j += REGISTER) {
            float *to = y + p / 2 * HEED_PANEL + j * REGISTER;
            vf pairs[REGISTER];
            UNROLL for (int i = 0; i < REGISTER; i++) pairs[i] =
                j + i < columns ? _mm512_castsi512_ps(load_dot(type, type_at(type, x, (j + i) * ldx + p), k - p)) : v_zero();
            v_transpose(pairs);
            UNROLL for (int i = 0; i < REGISTER; i++) v_store(to + i * REGISTER, pairs[i]);
        }
}

static void load_b_transposed(const void *x, enum heed_type type, int64_t ldx, int64_t k, int columns, float *y) {
    WITH_STORED_TYPE(type, load_b_transposed_of(TYPE, x, ldx, k, columns, y));
}

enum { DOT_BYTES = 2 };
INLINE void dot_store(float *s, int j, const vf x[HEED_DOT / VF_LANES]) {
    _mm512_storeu_si512((char *)s + j * DOT_BYTES, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]));
}

#include "kernels/dot_weigh.h"

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
    .a_step = REGISTER * REGISTER / HEED_DOT,
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
    .tile = tile,
    .weigh = dot_weigh,
};
