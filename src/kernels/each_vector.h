/* A row's elements, a vector at a time. */
#ifndef HEED_KERNELS_EACH_VECTOR_H
#define HEED_KERNELS_EACH_VECTOR_H

/* The statement for each vector from element i on; LEFT is how many elements it has: of whole ones a constant, so that
 * v_load_n(x, LEFT) is v_load(x).  With a mask in each vector the product of two rows takes 2.5 times as long. */
#define EACH_VECTOR(i, n, ...)                                                                                                     \
    do {                                                                                                                           \
        int64_t i = 0;                                                                                                             \
        NO_UNROLL for (; i + VF_LANES <= (n); i += VF_LANES) {                                                                     \
            enum { LEFT = VF_LANES };                                                                                              \
            __VA_ARGS__;                                                                                                           \
        }                                                                                                                          \
        if (i < (n)) {                                                                                                             \
            const int64_t LEFT = (n)-i;                                                                                            \
            __VA_ARGS__;                                                                                                           \
        }                                                                                                                          \
    } while (0)

#endif
