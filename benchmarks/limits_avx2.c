/* AVX2's limits: chains of vfmadd on ymm registers, and 32-byte loads. */
#define LIMIT_ISA      "avx2"
#define LIMIT_TABLE    limit_avx2
#define LIMIT_REGISTER "ymm"
#define LIMIT_SUFFIX   "ps"
#define LIMIT_FILL     "vbroadcastss"
#define LIMIT_LOAD     "vmovups"
#define LIMIT_STREAM   "vmovntps"
#define LIMIT_LANES    8
#include "limits_x86.h"
