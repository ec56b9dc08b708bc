/* heed_info: what the library sees of the machine. */
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "heed.h"
#include "internal.h"
#include "schedule.h"

static int64_t cache_bytes(int name) { return max_i64(0, sysconf(name)); }

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
    info->cache_bytes[0] = cache_bytes(_SC_LEVEL1_DCACHE_SIZE);
    info->cache_bytes[1] = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
    info->cache_bytes[2] = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
    const enum heed_status status = heed_kernels_for(NULL, &kernels);
    info->isa = status == HEED_OK ? kernels->name : NULL;
    return status;
}
