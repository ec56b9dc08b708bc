/* AMX's limit: tdpbf16ps into four tiles of sums.  Memory is read and written as by AVX-512. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "limits_probe.h"

enum { SUMS = 4, ROWS = 16, ROW_BYTES = 64, PRODUCTS = ROWS * ROWS * ROW_BYTES / 2 };

/* Factors near 1 of either sign, so that sums stay normal and bits toggle as they do in real work. */
static void load_factors(void) {
    static const uint16_t numbers[] = {0x3f91, 0xbf6b, 0x3fa7, 0xbf55, 0xbf83, 0x3f7d};
    uint16_t tile[ROWS * ROW_BYTES / 2 + 1] = {0};
    for (int i = 0; i < ROWS * ROW_BYTES / 2; i++)
        tile[i] = numbers[i % 6];
    __asm__ volatile("" ::"r"(tile) : "memory"); /* gcc 12 does not see that the loads read it */
    _tile_loadd(4, tile, ROW_BYTES);
    _tile_loadd(5, tile + 1, ROW_BYTES - 2);
    _tile_loadd(6, tile, ROW_BYTES);
    _tile_loadd(7, tile + 1, ROW_BYTES - 2);
}

static void multiply_add(int64_t rounds) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1,
               .row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES, ROW_BYTES},
               .rows = {ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS}};
    syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
    _tile_loadconfig(&shape);
    load_factors();
    for (; rounds > 0; rounds--) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
}

static void read_all(const void *data, int64_t bytes) { limit_avx512.read(data, bytes); }
static void copy_all(void *to, const void *from, int64_t bytes) { limit_avx512.copy(to, from, bytes); }
static void stream_all(void *to, const void *from, int64_t bytes) { limit_avx512.stream(to, from, bytes); }

const struct limit_probe limit_amx = {
    .isa = "amx",
    .flops_per_round = 2 * SUMS * PRODUCTS,
    .multiply_add = multiply_add,
    .read = read_all,
    .copy = copy_all,
    .stream = stream_all,
};
