/* Which capabilities of a processor do not pay, and what else is quicker on some.  Apart from cpu.h, which says what there is. */
#ifndef HEED_CPU_POLICY_H
#define HEED_CPU_POLICY_H

#include <stdbool.h>

/* Capabilities (HEED_CPU_* bits) that make an x86 processor slower.  brand: its name as CPUID tells it. */
unsigned heed_x86_costly(unsigned family, unsigned model, const char *brand);
/* Whether that needs the brand, which takes three more CPUIDs. */
bool heed_x86_costly_by_brand(unsigned family, unsigned model);
/* What heed_cpu_traits says of one. */
unsigned heed_x86_traits(unsigned family, unsigned model);

#endif
