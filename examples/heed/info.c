/* heed info: what the library sees of this machine and what it would choose. */
#define _POSIX_C_SOURCE 200809L

#include "terminal.h"
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* The processor's name where Linux tells it, else the architecture's. */
static void print_cpu(void) {
    char line[256], *value = NULL;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !value && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && (value = strchr(line, ':')))
            value += strspn(value, ": \t");
    if (file)
        fclose(file);
    struct utsname machine;
    const char *architecture = uname(&machine) == 0 ? machine.machine : "unknown";
    if (value)
        printf("CPU            %.*s (%s)\n", (int)strcspn(value, "\n"), value, architecture);
    else
        printf("CPU            %s\n", architecture);
}

static bool contains(const char *const *names, const char *name) {
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static void print_isas(const struct heed_info *info) {
    printf("instruction sets in this build, best first:\n");
    for (const char *const *name = info->compiled; *name; name++) {
        bool usable = contains(info->usable, *name), chosen = info->isa && strcmp(*name, info->isa) == 0;
        printf("  %s%-10s%s    %s\n", chosen ? terminal_bold() : "", *name, chosen ? terminal_reset() : "",
               chosen   ? "usable, chosen"
               : usable ? "usable"
                        : "not on this CPU");
    }
}

static void print_caches(const struct heed_info *info) {
    static const char *const names[] = {"L1 data", "L2", "L3"};
    printf("caches         ");
    for (int i = 0; i < 3; i++) {
        int64_t kib = info->cache_bytes[i] / 1024;
        printf("%s%s ", i > 0 ? ", " : "", names[i]);
        if (kib % 1024 == 0)
            printf("%" PRId64 " MiB", kib / 1024);
        else
            printf("%" PRId64 " KiB", kib);
    }
    printf("\n");
}

int tool_info(int argc, char **argv) {
    if (argc > 1)
        return tool_usage("info takes no arguments, but was given %s", argv[1]);
    struct heed_info info;
    enum heed_status status = heed_info(&info);
    const char *wish = getenv("HEED_ISA");
    printf("heed           %s\n", HEED_VERSION);
    print_cpu();
    printf("features       %s\n", *info.features ? info.features : "none that heed uses");
    print_caches(&info);
    printf("threads        %d (%s)\n", info.threads,
           info.openmp ? "OpenMP; OMP_NUM_THREADS changes it" : "built without OpenMP: threads come from the caller's pool");
    printf("chosen         %s%s%s%s\n", terminal_bold(), info.isa ? info.isa : "none", terminal_reset(),
           wish && *wish ? ", by HEED_ISA in the environment" : ", the best of this build that this CPU has");
    print_isas(&info);
    return status == HEED_OK ? TOOL_OK : tool_fail("%s", heed_error_message());
}
