/* The scalar kernels compiled for FMA hardware: the same bits some ten times sooner, and SLEEF's functions for FMA. */
#include "../scalar/vec_scalar.h"

#define TILE_ROWS      2
#define TILE_VECTORS   4
#define TABLE          heed_kernels_scalarfma
#define TABLE_NAME     "scalarfma"
#define TABLE_REQUIRES HEED_CPU_FMA
#include "kernels/table.h"
