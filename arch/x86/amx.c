/* HEED_COMPUTE_BF16_AMX on AMX: tdpbf16ps multiplies 16 rows of a with 16 columns of b, over HEED_DOT elements of k, in 16 cycles,
 * where fma takes 512.  All other kernels of its table are those for AVX-512. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vec_avx512.h"

#include "kernels.h"
#include "kernels/types.h"

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
static void begin(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1,
               .row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES},
               .rows = {REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER, REGISTER}};
    _tile_loadconfig(&shape);
}

static void end(void) { _tile_release(); }

INLINE void load_a_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    for (int64_t row = 0; row < rows; row++, y += ldy) {
        const void *from = type_at(type, x, row * ldx);
        for (int64_t p = 0; p < round_up(k, HEED_DOT); p += VF_LANES) {
            const int64_t at = min_i64(p, k);
            const vf a = load_type_n(type, type_at(type, from, at), k - at);
            v_store_half((uint16_t *)(void *)(y + p / 2), v_round_bf16(a));
        }
    }
}

static void load_a(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t k, float *y, int64_t ldy) {
    WITH_TYPE(type, load_a_of(TYPE, x, ldx, rows, k, y, ldy));
}

/* Pairs of two rows of b. */
INLINE void load_b_of(const enum heed_type type, const void *x, int64_t ldx, int64_t k, int64_t columns, float *y) {
    for (int64_t p = 0; p < round_up(k, HEED_DOT); p += 2, y += HEED_PANEL) {
        const void *first = type_at(type, x, min_i64(p, k) * ldx), *second = type_at(type, x, min_i64(p + 1, k) * ldx);
        for (int64_t j = 0; j < columns; j += VF_LANES) {
            const vf even = load_type_n(type, type_at(type, first, p < k ? j : 0), p < k ? columns - j : 0);
            const vf odd = load_type_n(type, type_at(type, second, p + 1 < k ? j : 0), p + 1 < k ? columns - j : 0);
            const __m512i low = _mm512_cvtepu16_epi32(v_round_bf16(even)), high = _mm512_cvtepu16_epi32(v_round_bf16(odd));
            _mm512_storeu_si512(y + j, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
    }
}

static void load_b(const void *x, enum heed_type type, int64_t ldx, int64_t k, int64_t columns, float *y) {
    WITH_STORED_TYPE(type, load_b_of(TYPE, x, ldx, k, columns, y));
}

/* Registers: sums 0 to 3, two by two; rows of a 4 and 5; columns of b 6 and 7. */
INLINE void multiply(const bool tall, const bool wide, const struct heed_gemm_tile *tile) {
    const float *a = tile->a, *b = tile->b;
    const int64_t a_step = tile->lda * (int64_t)sizeof(float), b_step = tile->ldb * (int64_t)sizeof(float);
    NO_UNROLL for (int64_t k = tile->k; k > 0; k -= HEED_DOT) {
        _tile_loadd(4, a, a_step);
        _tile_loadd(6, b, b_step);
        _tile_dpbf16ps(0, 4, 6);
        if (wide) {
            _tile_loadd(7, b + REGISTER, b_step);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (tall) {
            _tile_loadd(5, a + REGISTER * tile->lda, a_step);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (tall && wide)
            _tile_dpbf16ps(3, 5, 7);
        a += REGISTER;
        b += REGISTER * tile->ldb;
    }
}

INLINE void load_sums(const bool tall, const bool wide, const struct heed_gemm_tile *tile) {
    const float *acc = tile->acc;
    const int64_t step = tile->ldacc * (int64_t)sizeof(float);
    if (!acc) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, acc, step);
    if (wide)
        _tile_loadd(1, acc + REGISTER, step);
    if (tall)
        _tile_loadd(2, acc + REGISTER * tile->ldacc, step);
    if (tall && wide)
        _tile_loadd(3, acc + REGISTER * tile->ldacc + REGISTER, step);
}

/* c = alpha * sums + beta * c. */
static void store(const struct heed_gemm_tile *tile, const float sums[2 * REGISTER][2 * REGISTER]) {
    const vf alpha = v_set1(tile->alpha), beta = v_set1(tile->beta);
    const bool read_c = tile->beta != 0.0f;
    for (int i = 0; i < tile->rows; i++)
        for (int j = 0; j < tile->columns; j += VF_LANES) {
            float *c = tile->c + i * tile->ldc + j;
            const int n = tile->columns - j;
            vf y = v_mul(alpha, v_load(sums[i] + j));
            if (read_c)
                y = v_fma(beta, v_load_n(c, n), y);
            v_store_n(c, v_one_nan(y), n);
        }
}

INLINE void tile_of(const bool tall, const bool wide, const struct heed_gemm_tile *tile) {
    float sums[2 * REGISTER][2 * REGISTER] __attribute__((aligned(64)));
    load_sums(tall, wide, tile);
    multiply(tall, wide, tile);
    _tile_stored(0, sums, sizeof sums[0]);
    if (wide)
        _tile_stored(1, sums[0] + REGISTER, sizeof sums[0]);
    if (tall)
        _tile_stored(2, sums[REGISTER], sizeof sums[0]);
    if (tall && wide)
        _tile_stored(3, sums[REGISTER] + REGISTER, sizeof sums[0]);
    store(tile, sums);
}

static void tile(const struct heed_gemm_tile *request) {
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
    .tile_rows = 2 * REGISTER,
    .tile_columns = 2 * REGISTER,
    .permitted = permitted,
    .otherwise = &heed_kernels_avx512,
    .begin = begin,
    .end = end,
    .load_a = load_a,
    .load_b = load_b,
    .tile = tile,
};
