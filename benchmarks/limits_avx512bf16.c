/* The limit of products of bf16 pairs: chains of vdpbf16ps.  Memory is read and written as by AVX-512. */
#include "limits_probe.h"

enum { CHAINS = 14, PAIRS = 16 };
#define FOR_EACH_CHAIN(instruction) ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t" instruction "\n\t.endr\n\t"

/* Every chain adds two products and takes them away again, as limits_x86.h has it. */
static void multiply_add(int64_t rounds) {
    const uint32_t a = 0x3f913fa7, b = 0xbf6bbf55, minus_b = 0x3f6b3f55;
    __asm__ volatile("vpbroadcastd %1, %%zmm0\n\t"
                     "vpbroadcastd %2, %%zmm1\n\t"
                     "vpbroadcastd %3, %%zmm16\n\t" FOR_EACH_CHAIN("vbroadcastss %2, %%zmm\\r") "1:\n\t" FOR_EACH_CHAIN(
                         "vdpbf16ps %%zmm0, %%zmm1, %%zmm\\r") FOR_EACH_CHAIN("vdpbf16ps %%zmm0, %%zmm16, %%zmm\\r") "dec %0\n\t"
                                                                                                                     "jnz 1b"
                     : "+r"(rounds)
                     : "m"(a), "m"(b), "m"(minus_b)
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15", "xmm16");
}

static void read_all(const void *data, int64_t bytes) { limit_avx512.read(data, bytes); }
static void copy_all(void *to, const void *from, int64_t bytes) { limit_avx512.copy(to, from, bytes); }
static void stream_all(void *to, const void *from, int64_t bytes) { limit_avx512.stream(to, from, bytes); }

const struct limit_probe limit_avx512bf16 = {
    .isa = "avx512bf16",
    .flops_per_round = 2 * CHAINS * PAIRS * 2 * 2,
    .multiply_add = multiply_add,
    .read = read_all,
    .copy = copy_all,
    .stream = stream_all,
};
