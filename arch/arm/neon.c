/* The kernels for NEON: 24 accumulators, 4 vectors of b, 1 to 4 broadcasts of the 32 registers. */
#include "vec_neon.h"

#include "config.h"
#include "kernels.h"

#if HEED_HAVE_DOTPROD
extern const struct heed_i8_kernels heed_i8_dotprod;
#define TABLE_I8 &heed_i8_dotprod
#endif
#define TILE_ROWS      6
#define TILE_VECTORS   4
#define TABLE          heed_kernels_neon
#define TABLE_NAME     "neon"
#define TABLE_REQUIRES HEED_CPU_NEON
#include "kernels/table.h"
