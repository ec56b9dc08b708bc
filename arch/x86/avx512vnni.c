/* HEED_COMPUTE_I8 by vpdpbusd: a step of a sum takes in 4 products, where multiplying and adding up to 32 bits take three.  All
 * other kernels of its tables are those for AVX-512. */
#include "vec_avx512.h"

#include "kernels.h"

#define TILE_ROWS    6
#define TILE_VECTORS 4
/* As an instruction, for the reason of v_chain. */
INLINE vi vnni_dot(vi acc, vi w, vi x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
    return acc;
}
INLINE vi vnni_raise(vi w) { return _mm512_xor_si512(w, _mm512_set1_epi8(-128)); }
#include "vnni.h"

extern const struct heed_i8_kernels heed_i8_avx512vnni;
const struct heed_i8_kernels heed_i8_avx512vnni = {
    .requires = HEED_CPU_AVX512_VNNI, .strip_rows = I8_STRIP, .product = i8_product, .cache_product = i8_cache_product};
