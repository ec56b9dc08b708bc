/* Which table of kernels a call uses. */
#ifndef HEED_DISPATCH_H
#define HEED_DISPATCH_H

#include "heed.h"
#include "kernels.h"

/* The tables of this build that this machine can run, best first; NULL at and after the last. */
const struct heed_kernels *heed_kernels_usable(int index);
/* The same for a machine with these features, some of which do not pay. */
const struct heed_kernels *heed_kernels_usable_with(unsigned features, unsigned costly, int index);
/* The tables of this build, usable or not, best first; NULL at and after the last. */
const struct heed_kernels *heed_kernels_compiled(int index);

/* The usable table called name (NULL or "": the best one).  HEED_UNSUPPORTED_ISA, with a message that lists the usable names,
 * otherwise. */
enum heed_status heed_kernels_find(const char *name, const char *source, const struct heed_kernels **kernels);
/* Checks exec, then finds the table of a call: the one that exec.isa names, else that of HEED_ISA, which is read once per process,
 * else the best. */
enum heed_status heed_exec_kernels(const struct heed_exec *exec, const struct heed_kernels **kernels);
/* The same for an exec that has been checked. */
enum heed_status heed_kernels_for(const struct heed_exec *exec, const struct heed_kernels **kernels);

/* What makes products of this kind from factors that are arranged for it: the table's, or another one's if the operating system
 * does not let this process have what they need.  NULL: there is nothing of that kind, floats are multiplied. */
const struct heed_dots *heed_kernels_dots(const struct heed_kernels *kernels, enum heed_compute compute);
/* The table's kernels for HEED_COMPUTE_I8, or better ones that this machine has and the operating system lets this process use. */
const struct heed_i8_kernels *heed_kernels_i8(const struct heed_kernels *kernels);

#endif
