/* The sizes of the caches, as the C library or Linux tells them.
 *
 * On x86 sysconf answers from what the C library asked the processor at its start (0.1 us; CPUID, asked anew, traps in a virtual
 * machine, 9 us each time); elsewhere it often answers 0, and Linux's files tell (5 to 20 us each).  Of L3 the files come first: on
 * AMD's processors glibc 2.36 adds up those of all groups of cores, 384 MB where a core has 32. */
#define _POSIX_C_SOURCE 200809L /* O_CLOEXEC */
#include "cache_sizes.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * KIB };
enum { SHARED = 2, LEVELS };
enum { WAY = 4 * KIB, CROWDED_WAYS = 8 };

/* What sizes are believed, and what is taken for others.  The usual ones are small: blocks for a cache larger than the real one
 * cost more than blocks for a smaller one, which cost 1 or 2 %. */
static const struct level {
    int64_t least, most, usual;
    const char *file;
} levels[LEVELS] = {
    {8 * KIB, 1 * MIB, 32 * KIB, "/sys/devices/system/cpu/cpu0/cache/index0/size"}, /* 1 is L1's instructions */
    {64 * KIB, 64 * MIB, 512 * KIB, "/sys/devices/system/cpu/cpu0/cache/index2/size"},
    {256 * KIB, INT64_C(4096) * MIB, 0, "/sys/devices/system/cpu/cpu0/cache/index3/size"},
};

/* "2048K", short enough not to overflow; 0 where there is no such file. */
static int64_t size_in_file(const char *path) {
    char text[12], *unit;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = 0;
    const long size = strtol(text, &unit, 10);
    return *unit == 'K' ? size * (int64_t)KIB : *unit == 'M' ? size * (int64_t)MIB : size;
}

/* C libraries other than glibc do not know the names. */
static int64_t size_by_sysconf(int level) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const int names[LEVELS] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    return sysconf(names[level]);
#else
    (void)level;
    return 0;
#endif
}

static int64_t size_of_level(int level) {
    const struct level *about = &levels[level];
    const bool is_shared = level == SHARED;
    int64_t size = is_shared ? size_in_file(about->file) : size_by_sysconf(level);
    if (size <= 0)
        size = is_shared ? size_by_sysconf(level) : size_in_file(about->file);
    return size >= about->least && size <= about->most ? size : about->usual;
}

static _Atomic int64_t known[LEVELS]; /* 0: not asked yet; threads that ask at once get the same answers */

static int64_t size_once(int level) {
    int64_t size = atomic_load_explicit(&known[level], memory_order_relaxed);
    if (size == 0) {
        size = size_of_level(level);
        if (size == 0)
            size = size_once(level - 1);
        atomic_store_explicit(&known[level], size, memory_order_relaxed);
    }
    return size;
}

struct heed_cache_sizes heed_cache_sizes(void) {
    return (struct heed_cache_sizes){size_once(0), size_once(1)};
}

int64_t heed_cache_shared(void) { return size_once(SHARED); }

bool heed_cache_crowded(int64_t step) { return step % WAY == 0 && size_once(0) <= CROWDED_WAYS * WAY; }

void heed_cache_sizes_set(struct heed_cache_sizes sizes, int64_t shared) {
    atomic_store_explicit(&known[0], sizes.l1, memory_order_relaxed);
    atomic_store_explicit(&known[1], sizes.l2, memory_order_relaxed);
    atomic_store_explicit(&known[SHARED], shared, memory_order_relaxed);
}
