/* The kernels for AVX2 with FMA and F16C: 12 accumulators, 2 vectors of b, 1 or 2 broadcasts fill the 16 registers. */
#include "vec_avx2.h"

#include "config.h"
#include "kernels.h"

#if HEED_HAVE_AVXVNNI
extern const struct heed_i8_kernels heed_i8_avxvnni;
#define TABLE_I8 &heed_i8_avxvnni
#endif
#define TILE_ROWS      6
#define TILE_VECTORS   2
#define TABLE          heed_kernels_avx2
#define TABLE_NAME     "avx2"
#define TABLE_REQUIRES (HEED_CPU_AVX2 | HEED_CPU_F16C | HEED_CPU_FMA)
#include "kernels/table.h"
