/* See command.h. */
#define _POSIX_C_SOURCE 200809L

#include "command.h"
#include "checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t option_integer(const char *name, const char *text, int64_t least, int64_t most) {
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < least || number > most)
        fail("--%s=%s: must be a number from %" PRId64 " to %" PRId64, name, text, least, most);
    return number;
}

double option_number(const char *name, const char *text, double least, double most) {
    char *end;
    const double number = strtod(text, &end);
    if (end == text || *end || !(number >= least && number <= most))
        fail("--%s=%s: must be a number from %g to %g", name, text, least, most);
    return number;
}

enum heed_type option_weights(const char *text) {
    static const char *const names[] = {[HEED_F32] = "f32", [HEED_BF16] = "bf16", [HEED_Q8_0] = "int8"};
    for (unsigned type = 0; type <= HEED_Q8_0; type++)
        if (names[type] && strcmp(text, names[type]) == 0)
            return type;
    fail("--weights=%s: must be f32, bf16 or int8", text);
}

static double seconds_since(const struct timespec *then) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) + 1e-9 * (double)(now.tv_nsec - then->tv_nsec);
}

struct progress progress_start(bool alone) {
    struct progress progress = {.on = isatty(STDERR_FILENO) && (alone || !isatty(STDOUT_FILENO))};
    clock_gettime(CLOCK_MONOTONIC, &progress.start);
    return progress;
}

double progress_seconds(const struct progress *progress) { return seconds_since(&progress->start); }

void progress_show(struct progress *progress, const char *format, ...) {
    if (!progress->on || seconds_since(progress->shown.tv_sec ? &progress->shown : &progress->start) <= 0.5)
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "\r\033[K");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    clock_gettime(CLOCK_MONOTONIC, &progress->shown);
}

void progress_end(struct progress *progress) {
    if (progress->on && progress->shown.tv_sec)
        fprintf(stderr, "\r\033[K");
    progress->shown.tv_sec = 0;
}
