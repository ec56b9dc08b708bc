/* The kernels for AVX-512: 24 accumulators, 4 vectors of b, 1 to 4 broadcasts of the 32 registers. */
#include "vec_avx512.h"

#include "config.h"
#include "kernels.h"

#if HEED_HAVE_AVX512VNNI
extern const struct heed_i8_kernels heed_i8_avx512vnni;
#define TABLE_I8 &heed_i8_avx512vnni
#endif
#define TILE_ROWS      6
#define TILE_VECTORS   4
#define TABLE          heed_kernels_avx512
#define TABLE_NAME     "avx512"
#define TABLE_REQUIRES (HEED_CPU_AVX512 | HEED_CPU_AVX2 | HEED_CPU_FMA)
#include "kernels/table.h"

/* Processors with vdpbf16ps or AMX have these too, and others of pairs, or dots. */
#if HEED_HAVE_AVX512BF16
extern const struct heed_dots heed_dots_avx512bf16;
static void thin_product_bf16(const struct heed_thin_product *product) {
    const bool in_rows = !product->words && (product->type == HEED_BF16 || product->type == HEED_I8);
    if (product->pairs && in_rows)
        thin_product_by(heed_dots_avx512bf16.thin_pairs, product);
    else
        thin_product(product);
}
static void thin_product_transposed_bf16(const struct heed_thin_product *product) {
    if (product->pairs && product->type == HEED_BF16 && product->rows <= FAR_SQUARE_ROWS && product->k <= HEED_THIN_PAIRS_K)
        thin_transposed_by(heed_dots_avx512bf16.thin_squares, product);
    else
        thin_product_transposed(product);
}
extern const struct heed_kernels heed_kernels_avx512bf16;
const struct heed_kernels heed_kernels_avx512bf16 =
    KERNELS("avx512bf16", TABLE_REQUIRES | HEED_CPU_AVX512_BF16, &dots, &heed_dots_avx512bf16, thin_product_bf16,
            thin_product_transposed_bf16, &i8_kernels);
#endif
#if HEED_HAVE_AMXINT8
extern const struct heed_i8_kernels heed_i8_amx;
static const struct heed_i8_kernels amx_i8_kernels = {
    .better = &heed_i8_amx, .strip_rows = I8_STRIP, .product = i8_product, .cache_product = i8_cache_product};
#define AMX_I8 &amx_i8_kernels
#else
#define AMX_I8 &i8_kernels
#endif
#if HEED_HAVE_AMX
extern const struct heed_dots heed_dots_amx;
extern const struct heed_kernels heed_kernels_amx;
const struct heed_kernels heed_kernels_amx =
    KERNELS("amx", TABLE_REQUIRES | HEED_CPU_AMX, &heed_dots_amx, NULL, thin_product, thin_product_transposed, AMX_I8);
#endif
