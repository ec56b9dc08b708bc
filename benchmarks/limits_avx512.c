/* AVX-512's limits: chains of vfmadd on zmm registers, and 64-byte loads. */
#define LIMIT_ISA      "avx512"
#define LIMIT_TABLE    limit_avx512
#define LIMIT_REGISTER "zmm"
#define LIMIT_SUFFIX   "ps"
#define LIMIT_FILL     "vbroadcastss"
#define LIMIT_LOAD     "vmovups"
#define LIMIT_STREAM   "vmovntps"
#define LIMIT_LANES    16
#include "limits_x86.h"
