/* The kernels for AVX2 with FMA and F16C: 12 accumulators, 2 vectors of b, 1 or 2 broadcasts fill the 16 registers. */
#include "vec_avx2.h"

#define TILE_ROWS      6
#define TILE_VECTORS   2
#define TABLE          heed_kernels_avx2
#define TABLE_NAME     "avx2"
#define TABLE_REQUIRES (HEED_CPU_AVX2 | HEED_CPU_F16C | HEED_CPU_FMA)
#include "kernels/table.h"
