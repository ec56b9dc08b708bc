/* The loops of limits_probe.h for x86 with FMA, for one width of register: LIMIT_ISA, LIMIT_TABLE, LIMIT_REGISTER ("ymm"),
 * LIMIT_SUFFIX ("ps"), LIMIT_FILL (the instruction that fills a register from a float), LIMIT_LOAD (stores, too), LIMIT_STREAM and
 * LIMIT_LANES say which. */
#include "limits_probe.h"

#define REGISTER "%%" LIMIT_REGISTER
/* 14 chains: latency 4 times 2 units would need 8. */
#define FOR_EACH_CHAIN(instruction) ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t" instruction "\n\t.endr\n\t"

/* Every chain adds a product and takes it away again: the values stay normal, and the bits toggle as they do in real work. */
static void multiply_add(int64_t rounds) {
    const float a = 1.2345678f;
    __asm__ volatile(LIMIT_FILL
                     " %1, " REGISTER "0\n\t"
                     "vmovaps " REGISTER "0, " REGISTER
                     "1\n\t" FOR_EACH_CHAIN("vmovaps " REGISTER "0, " REGISTER "\\r") "1:\n\t" FOR_EACH_CHAIN(
                         "vfmadd231" LIMIT_SUFFIX " " REGISTER "0, " REGISTER "1, " REGISTER "\\r")
                         FOR_EACH_CHAIN("vfnmadd231" LIMIT_SUFFIX " " REGISTER "0, " REGISTER "1, " REGISTER "\\r") "dec %0\n\t"
                                                                                                                    "jnz 1b"
                     : "+r"(rounds)
                     : "m"(a)
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15");
}

static void read_all(const void *data, int64_t bytes) {
    const char *p = data, *end = p + bytes;
    __asm__ volatile("1:\n\t"
                     ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t" LIMIT_LOAD " \\i*%c2(%0), " REGISTER "0\n\t"
                     ".endr\n\t"
                     "add $16*%c2, %0\n\t"
                     "cmp %1, %0\n\t"
                     "jb 1b"
                     : "+&r"(p)
                     : "r"(end), "i"(LIMIT_LANES * 4)
                     : "cc", "memory", "xmm0");
}

#define COPY(store)                                                                                                                \
    const char *p = from, *end = p + bytes;                                                                                        \
    __asm__ volatile("1:\n\t"                                                                                                      \
                     ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t" LIMIT_LOAD " \\i*%c3(%0), " REGISTER "\\i\n\t" store      \
                     " " REGISTER "\\i, \\i*%c3(%1)\n\t"                                                                           \
                     ".endr\n\t"                                                                                                   \
                     "add $16*%c3, %0\n\t"                                                                                         \
                     "add $16*%c3, %1\n\t"                                                                                         \
                     "cmp %2, %0\n\t"                                                                                              \
                     "jb 1b\n\t"                                                                                                   \
                     "sfence"                                                                                                      \
                     : "+&r"(p), "+&r"(to)                                                                                         \
                     : "r"(end), "i"(LIMIT_LANES * 4)                                                                              \
                     : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",    \
                       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")

static void copy_all(void *to, const void *from, int64_t bytes) { COPY(LIMIT_LOAD); }
static void stream_all(void *to, const void *from, int64_t bytes) { COPY(LIMIT_STREAM); }

const struct limit_probe LIMIT_TABLE = {
    .isa = LIMIT_ISA,
    .flops_per_round = 2 * 14 * LIMIT_LANES * 2,
    .multiply_add = multiply_add,
    .read = read_all,
    .copy = copy_all,
    .stream = stream_all,
};
