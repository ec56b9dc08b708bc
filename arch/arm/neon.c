/* The kernels for NEON: 24 accumulators, 4 vectors of b, 1 to 4 broadcasts of the 32 registers. */
#include "vec_neon.h"

#define TILE_ROWS      6
#define TILE_VECTORS   4
#define TABLE          heed_kernels_neon
#define TABLE_NAME     "neon"
#define TABLE_REQUIRES HEED_CPU_NEON
#include "kernels/table.h"
