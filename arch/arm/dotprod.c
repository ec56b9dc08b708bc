/* HEED_COMPUTE_I8 by sdot: a step of a sum takes in 4 products, where multiplying and adding up to 32 bits take four.  All other
 * kernels of its table are those for NEON. */
#include "vec_neon.h"

#include "cpu.h"
#include "kernels.h"

#define TILE_ROWS    6
#define TILE_VECTORS 4
/* As an instruction, for the reason of v_chain. */
INLINE vi dotprod_dot(vi acc, vi w, vi x) {
    __asm__ volatile("sdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(w), "w"(x));
    return acc;
}
INLINE vi dotprod_end(vi acc) { return acc; }
#define I8_DOT        dotprod_dot
#define I8_DOT_U7     dotprod_dot
#define I8_DOT_U4     dotprod_dot
#define I8_DOT_U4_END dotprod_end
#define I8_STARTS     true
#include "kernels/types.h"
#include "kernels/tile.h"
#include "kernels/fetch_pages.h"
#include "kernels/block_words.h"
#include "kernels/block_columns.h"
#include "kernels/k_words.h"
#include "kernels/k_columns.h"
#include "kernels/i8_product.h"

extern const struct heed_i8_kernels heed_i8_dotprod;
const struct heed_i8_kernels heed_i8_dotprod = {
    .requires = HEED_CPU_DOTPROD, .strip_rows = I8_STRIP, .product = i8_product, .cache_product = i8_cache_product};
