/* AVX-512's limits: 24 chains of vfmadd on zmm registers, and 64-byte loads. */
#include "limits_probe.h"

/* Every chain adds a product and takes it away again: the values stay normal, and the bits toggle as they do in real work. */
static void multiply_add(int64_t rounds) {
    const float a = 1.2345678f;
    __asm__ volatile("vbroadcastss %1, %%zmm0\n\t"
                     "vmovaps %%zmm0, %%zmm1\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "vmovaps %%zmm0, %%zmm\\r\n\t"
                     ".endr\n"
                     "1:\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "vfmadd231ps %%zmm0, %%zmm1, %%zmm\\r\n\t"
                     ".endr\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "vfnmadd231ps %%zmm0, %%zmm1, %%zmm\\r\n\t"
                     ".endr\n\t"
                     "dec %0\n\t"
                     "jnz 1b"
                     : "+r"(rounds)
                     : "m"(a)
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
                       "xmm24", "xmm25");
}

static void read_all(const void *data, int64_t bytes) {
    const char *p = data, *end = p + bytes;
    __asm__ volatile("1:\n\t"
                     ".irp offset, 0,64,128,192,256,320,384,448,512,576,640,704,768,832,896,960\n\t"
                     "vmovups \\offset(%0), %%zmm0\n\t"
                     ".endr\n\t"
                     "add $1024, %0\n\t"
                     "cmp %1, %0\n\t"
                     "jb 1b"
                     : "+&r"(p)
                     : "r"(end)
                     : "cc", "memory", "xmm0");
}

const struct limit_probe limit_avx512 = {
    .isa = "avx512",
    .flops_per_round = 2 * 24 * 16 * 2,
    .multiply_add = multiply_add,
    .read = read_all,
};
