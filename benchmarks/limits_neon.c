/* NEON's limits: 24 chains of fmla on 128-bit registers (wide cores have four units of latency four), and loads by pairs. */
#include "limits_probe.h"

/* Every chain adds a product and takes it away again: the values stay normal, and the bits toggle as they do in real work. */
static void multiply_add(int64_t rounds) {
    const float a = 1.2345678f;
    __asm__ volatile("ld1r {v0.4s}, [%1]\n\t"
                     "mov v1.16b, v0.16b\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "mov v\\r\\().16b, v0.16b\n\t"
                     ".endr\n"
                     "1:\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "fmla v\\r\\().4s, v0.4s, v1.4s\n\t"
                     ".endr\n\t"
                     ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n\t"
                     "fmls v\\r\\().4s, v0.4s, v1.4s\n\t"
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
                     ".irp offset, 0,32,64,96,128,160,192,224,256,288,320,352,384,416,448,480\n\t"
                     "ldp q0, q1, [%0, #\\offset]\n\t"
                     ".endr\n\t"
                     "add %0, %0, #512\n\t"
                     "cmp %0, %1\n\t"
                     "b.lo 1b"
                     : "+&r"(p)
                     : "r"(end)
                     : "cc", "memory", "v0", "v1");
}

#define COPY(store)                                                                                                                \
    const char *p = from, *end = p + bytes;                                                                                        \
    __asm__ volatile("1:\n\t"                                                                                                      \
                     ".irp offset, 0,32,64,96,128,160,192,224,256,288,320,352,384,416,448,480\n\t"                                 \
                     "ldp q0, q1, [%0, #\\offset]\n\t" store " q0, q1, [%1, #\\offset]\n\t"                                        \
                     ".endr\n\t"                                                                                                   \
                     "add %0, %0, #512\n\t"                                                                                        \
                     "add %1, %1, #512\n\t"                                                                                        \
                     "cmp %0, %2\n\t"                                                                                              \
                     "b.lo 1b"                                                                                                     \
                     : "+&r"(p), "+&r"(to)                                                                                         \
                     : "r"(end)                                                                                                    \
                     : "cc", "memory", "v0", "v1")

static void copy_all(void *to, const void *from, int64_t bytes) { COPY("stp"); }
static void stream_all(void *to, const void *from, int64_t bytes) { COPY("stnp"); }

const struct limit_probe limit_neon = {
    .isa = "neon",
    .flops_per_round = 2 * 24 * 4 * 2,
    .multiply_add = multiply_add,
    .read = read_all,
    .copy = copy_all,
    .stream = stream_all,
};
