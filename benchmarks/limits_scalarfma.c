/* The limits of scalar code on x86 with FMA: 14 chains of vfmadd on single floats, and 4-byte loads. */
#include "limits_probe.h"

/* Every chain adds a product and takes it away again: the values stay normal, and the bits toggle as they do in real work. */
static void multiply_add(int64_t rounds) {
    const float a = 1.2345678f;
    __asm__ volatile("vmovss %1, %%xmm0\n\t"
                     "vmovaps %%xmm0, %%xmm1\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "vmovaps %%xmm0, %%xmm\\r\n\t"
                     ".endr\n"
                     "1:\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "vfmadd231ss %%xmm0, %%xmm1, %%xmm\\r\n\t"
                     ".endr\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "vfnmadd231ss %%xmm0, %%xmm1, %%xmm\\r\n\t"
                     ".endr\n\t"
                     "dec %0\n\t"
                     "jnz 1b"
                     : "+r"(rounds)
                     : "m"(a)
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15");
}

static void read_all(const void *data, int64_t bytes) {
    const char *p = data, *end = p + bytes;
    __asm__ volatile("1:\n\t"
                     ".irp offset, 0,4,8,12,16,20,24,28,32,36,40,44,48,52,56,60\n\t"
                     "vmovss \\offset(%0), %%xmm0\n\t"
                     ".endr\n\t"
                     "add $64, %0\n\t"
                     "cmp %1, %0\n\t"
                     "jb 1b"
                     : "+&r"(p)
                     : "r"(end)
                     : "cc", "memory", "xmm0");
}

const struct limit_probe limit_scalarfma = {
    .isa = "scalarfma",
    .flops_per_round = 2 * 14 * 2,
    .multiply_add = multiply_add,
    .read = read_all,
};
