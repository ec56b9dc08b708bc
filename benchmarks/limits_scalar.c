/* The limits of scalar code on the baseline of the architecture: single floats, without FMA where the baseline has none. */
#include "limits_probe.h"

#if defined __x86_64__

/* No FMA here: a multiplication and an addition, which is the most that this instruction set could make of a multiply-add.  The
 * kernels round once and must emulate that, so they stay far below.  x = x * 0.75 + 1.23 settles at a normal number. */
enum { FLOPS_PER_ROUND = 14 * 2 };
static void multiply_add(int64_t rounds) {
    const float a = 0.75f, b = 1.2345678f;
    __asm__ volatile("movss %1, %%xmm0\n\t"
                     "movss %2, %%xmm1\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "movaps %%xmm0, %%xmm\\r\n\t"
                     ".endr\n"
                     "1:\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "mulss %%xmm0, %%xmm\\r\n\t"
                     ".endr\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "addss %%xmm1, %%xmm\\r\n\t"
                     ".endr\n\t"
                     "dec %0\n\t"
                     "jnz 1b"
                     : "+r"(rounds)
                     : "m"(a), "m"(b)
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15");
}

static void read_all(const void *data, int64_t bytes) {
    const char *p = data, *end = p + bytes;
    __asm__ volatile("1:\n\t"
                     ".irp offset, 0,4,8,12,16,20,24,28,32,36,40,44,48,52,56,60\n\t"
                     "movss \\offset(%0), %%xmm0\n\t"
                     ".endr\n\t"
                     "add $64, %0\n\t"
                     "cmp %1, %0\n\t"
                     "jb 1b"
                     : "+&r"(p)
                     : "r"(end)
                     : "cc", "memory", "xmm0");
}

static void copy_all(void *to, const void *from, int64_t bytes) {
    const char *p = from, *end = p + bytes;
    __asm__ volatile("1:\n\t"
                     ".irp offset, 0,4,8,12,16,20,24,28,32,36,40,44,48,52,56,60\n\t"
                     "movss \\offset(%0), %%xmm0\n\t"
                     "movss %%xmm0, \\offset(%1)\n\t"
                     ".endr\n\t"
                     "add $64, %0\n\t"
                     "add $64, %1\n\t"
                     "cmp %2, %0\n\t"
                     "jb 1b"
                     : "+&r"(p), "+&r"(to)
                     : "r"(end)
                     : "cc", "memory", "xmm0");
}

#elif defined __aarch64__

enum { FLOPS_PER_ROUND = 2 * 24 * 2 };
static void multiply_add(int64_t rounds) {
    const float a = 1.2345678f;
    __asm__ volatile("ldr s0, [%1]\n\t"
                     "fmov s1, s0\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "fmov s\\r, s0\n\t"
                     ".endr\n"
                     "1:\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "fmadd s\\r, s0, s1, s\\r\n\t"
                     ".endr\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "fmsub s\\r, s0, s1, s\\r\n\t"
                     ".endr\n\t"
                     "subs %0, %0, #1\n\t"
                     "b.ne 1b"
                     : "+&r"(rounds)
                     : "r"(&a), "m"(a)
                     : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
                       "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25");
}

static void read_all(const void *data, int64_t bytes) {
    const char *p = data, *end = p + bytes;
    __asm__ volatile("1:\n\t"
                     ".irp offset, 0,4,8,12,16,20,24,28,32,36,40,44,48,52,56,60\n\t"
                     "ldr s0, [%0, #\\offset]\n\t"
                     ".endr\n\t"
                     "add %0, %0, #64\n\t"
                     "cmp %0, %1\n\t"
                     "b.lo 1b"
                     : "+&r"(p)
                     : "r"(end)
                     : "cc", "memory", "v0");
}

static void copy_all(void *to, const void *from, int64_t bytes) {
    const char *p = from, *end = p + bytes;
    __asm__ volatile("1:\n\t"
                     ".irp offset, 0,4,8,12,16,20,24,28,32,36,40,44,48,52,56,60\n\t"
                     "ldr s0, [%0, #\\offset]\n\t"
                     "str s0, [%1, #\\offset]\n\t"
                     ".endr\n\t"
                     "add %0, %0, #64\n\t"
                     "add %1, %1, #64\n\t"
                     "cmp %0, %2\n\t"
                     "b.lo 1b"
                     : "+&r"(p), "+&r"(to)
                     : "r"(end)
                     : "cc", "memory", "v0");
}

#else

/* No assembly for this architecture: 16 chains in C.  Volatile ends keep the compiler from computing them beforehand. */
enum { CHAINS = 16, FLOPS_PER_ROUND = 2 * CHAINS };
static volatile float result;

static void multiply_add(int64_t rounds) {
    volatile float a = 0.75f, b = 1.2345678f;
    float factor = a, summand = b, chain[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        chain[i] = factor;
    while (rounds-- > 0)
        for (int i = 0; i < CHAINS; i++)
            chain[i] = chain[i] * factor + summand;
    for (int i = 0; i < CHAINS; i++)
        result = chain[i];
}

static void read_all(const void *data, int64_t bytes) {
    const volatile float *p = data;
    for (int64_t i = 0; i < bytes / 4; i++)
        (void)p[i];
}

static void copy_all(void *to, const void *from, int64_t bytes) {
    const volatile float *p = from;
    volatile float *q = to;
    for (int64_t i = 0; i < bytes / 4; i++)
        q[i] = p[i];
}

#endif

const struct limit_probe limit_scalar = {
    .isa = "scalar",
    .flops_per_round = FLOPS_PER_ROUND,
    .multiply_add = multiply_add,
    .read = read_all,
    .copy = copy_all,
    .stream = copy_all,
};
