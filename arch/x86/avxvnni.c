/* HEED_COMPUTE_I8 by vpdpbusd of AVX-VNNI, which Intel's processors without AVX-512 have from 2021 on: a step of a sum takes in 4
 * products, where multiplying and adding up to 32 bits take three.  All other kernels of its table are those for AVX2. */
#include "vec_avx2.h"

#include "kernels.h"

#define TILE_ROWS    6
#define TILE_VECTORS 2
/* As an instruction, for the reason of v_chain. */
INLINE vi vnni_dot(vi acc, vi w, vi x) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
    return acc;
}
INLINE vi vnni_raise(vi w) { return _mm256_xor_si256(w, _mm256_set1_epi8(-128)); }
#include "vnni.h"

extern const struct heed_i8_kernels heed_i8_avxvnni;
const struct heed_i8_kernels heed_i8_avxvnni = {
    .requires = HEED_CPU_AVX_VNNI, .strip_rows = I8_STRIP, .product = i8_product, .cache_product = i8_cache_product};
