/* heed_info: what the library sees of the machine; and its version. */
#include <string.h>

#include "cache_sizes.h"
#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "heed.h"
#include "internal.h"
#include "schedule.h"

HEED_API const char *heed_version(void) { return HEED_VERSION; }

HEED_API enum heed_status heed_info(struct heed_info *info) {
    const struct heed_kernels *kernels;
    if (!info)
        return heed_fail(HEED_INVALID_ARGUMENT, "info is NULL");
    memset(info, 0, sizeof *info);
    for (int i = 0; (kernels = heed_kernels_usable(i)); i++)
        info->usable[i] = kernels->name;
    for (int i = 0; (kernels = heed_kernels_compiled(i)); i++)
        info->compiled[i] = kernels->name;
    info->features = heed_cpu_feature_names();
    info->threads = heed_schedule_threads(NULL);
    info->openmp = heed_schedule_has_openmp();
    const struct heed_cache_sizes caches = heed_cache_sizes();
    info->cache_bytes[0] = caches.l1;
    info->cache_bytes[1] = caches.l2;
    info->cache_bytes[2] = heed_cache_shared();
    const enum heed_status status = heed_kernels_for(NULL, &kernels);
    info->isa = status == HEED_OK ? kernels->name : NULL;
    return status;
}
