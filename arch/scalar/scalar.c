/* The scalar kernels for any CPU: the oracle that every other table equals bit for bit.  fma is the C library's where the baseline
 * has none. */
#include "vec_scalar.h"

#define TILE_ROWS      2
#define TILE_VECTORS   4
#define TABLE          heed_kernels_scalar
#define TABLE_NAME     "scalar"
#define TABLE_REQUIRES 0
#include "kernels/table.h"
