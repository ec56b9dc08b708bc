/* HEED_COMPUTE_I8 by vpdpbusd of AVX-VNNI, which Intel's processors without AVX-512 have from 2021 on: a step of a sum takes in 4
 * products, where multiplying and adding up to 32 bits take three.  All other kernels of its table are those for AVX2. */
#include "vec_avx2.h"

#include "cpu.h"
#include "kernels.h"

#define TILE_ROWS    6
#define TILE_VECTORS 2
/* As an instruction, for the reason of v_chain.  The weights are its factor without sign. */
INLINE vi vnni_dot(vi acc, vi w, vi x) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
    return acc;
}
INLINE vi vnni_end(vi acc) { return acc; }
INLINE vi vnni_raise(vi w) { return _mm256_xor_si256(w, _mm256_set1_epi8(-128)); }
#define I8_DOT        vnni_dot
#define I8_DOT_U4     vnni_dot
#define I8_DOT_U4_END vnni_end
#define I8_RAISED     128
#define I8_RAISE      vnni_raise
#include "kernels/types.h"
#include "kernels/tile.h"
#include "kernels/block_words.h"
#include "kernels/max_size.h"
#include "kernels/i8_product.h"

extern const struct heed_i8_kernels heed_i8_avxvnni;
const struct heed_i8_kernels heed_i8_avxvnni = {.requires = HEED_CPU_AVX_VNNI, .row = i8_row, .product = i8_product};
