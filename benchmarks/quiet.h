/* Whether the cores are one's own at this moment.
 *
 * On a shared machine a neighbour on the other hardware thread of a core, which may be another virtual machine, takes part of it,
 * for milliseconds or for hours, and not the same part of units, caches and issue: a ratio to a limit or to a peer is worth
 * something only without one.  What tells is how many instructions that do nothing a core lets through in a cycle: half as many
 * beside a neighbour, whatever it does.  The FMA peak does not tell: it stays as it is unless the neighbour multiplies. */
#ifndef HEED_BENCHMARKS_QUIET_H
#define HEED_BENCHMARKS_QUIET_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On so many threads at once, in some 15 us; the first call takes some more to see what the cores can do. */
__attribute__((visibility("default"))) bool cores_are_quiet(int threads);

#ifdef __cplusplus
}
#endif

#endif
