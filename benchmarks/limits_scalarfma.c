/* The limits of scalar code on x86 with FMA: chains of vfmadd on single floats, and 4-byte loads. */
#define LIMIT_ISA      "scalarfma"
#define LIMIT_TABLE    limit_scalarfma
#define LIMIT_REGISTER "xmm"
#define LIMIT_SUFFIX   "ss"
#define LIMIT_FILL     "vmovss"
#define LIMIT_LOAD     "vmovss"
#define LIMIT_STREAM   "vmovss"
#define LIMIT_LANES    1
#include "limits_x86.h"
