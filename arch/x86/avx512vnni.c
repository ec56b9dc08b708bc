/* HEED_COMPUTE_I8 by vpdpbusd: a step of a sum takes in 4 products, where multiplying and adding up to 32 bits take three.  All
 * other kernels of its tables are those for AVX-512. */
#include <string.h>

#include "vec_avx512.h"

#include "cpu.h"
#include "kernels.h"

#define TILE_ROWS    6
#define TILE_VECTORS 4
/* As an instruction, for the reason of v_chain.  The weights are its factor without sign. */
INLINE vi vnni_dot(vi acc, vi w, vi x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
    return acc;
}
INLINE vi vnni_end(vi acc) { return acc; }
INLINE vi vnni_raise(vi w) { return _mm512_xor_si512(w, _mm512_set1_epi8(-128)); }
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

extern const struct heed_i8_kernels heed_i8_avx512vnni;
const struct heed_i8_kernels heed_i8_avx512vnni = {.requires = HEED_CPU_AVX512_VNNI, .row = i8_row, .product = i8_product};
