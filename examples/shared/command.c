/* See command.h. */
#define _POSIX_C_SOURCE 200809L

#include "command.h"
#include "../checkpoint/checkpoint.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_OPTIONS = 32, FIRST = 256 }; /* FIRST: of the numbers of options, which are no characters */

static void read_integer(const struct choice *choice, const char *text) {
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < choice->least || number > choice->most)
        fail("--%s=%s: must be a number from %" PRId64 " to %" PRId64, choice->name, text, choice->least, choice->most);
    *choice->integer = number;
}

static void read_number(const struct choice *choice, const char *text) {
    char *end;
    const double number = strtod(text, &end);
    if (end == text || *end || !(number >= (double)choice->least && number <= (double)choice->most))
        fail("--%s=%s: must be a number from %" PRId64 " to %" PRId64, choice->name, text, choice->least, choice->most);
    *choice->number = number;
}

static void choose(const struct choice *choice, const char *text) {
    if (choice->flag)
        *choice->flag = true;
    else if (choice->text)
        *choice->text = text;
    else if (choice->integer)
        read_integer(choice, text);
    else
        read_number(choice, text);
}

const char *read_options(int argc, char **argv, const char *usage, const struct choice *choices) {
    struct option known[MOST_OPTIONS + 2] = {{"help", no_argument, NULL, 'h'}};
    for (int i = 0; i < MOST_OPTIONS && choices[i].name; i++)
        known[i + 1] = (struct option){choices[i].name, choices[i].flag ? no_argument : required_argument, NULL, FIRST + i};
    for (int found; (found = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        if (found < FIRST)
            exit((fputs(usage, found == 'h' ? stdout : stderr), found == 'h' ? 0 : 2));
        choose(&choices[found - FIRST], optarg);
    }
    if (optind + 1 != argc)
        exit((fputs(usage, stderr), 2));
    return argv[optind];
}

unsigned find_name(const char *option, const char *text, const char *const *names, unsigned count, const char *words) {
    for (unsigned i = 0; i < count; i++)
        if (names[i] && strcmp(text, names[i]) == 0)
            return i;
    fail("--%s=%s: must be %s", option, text, words);
}

enum heed_type type_of_weights(const char *text) {
    static const char *const names[] = {[HEED_F32] = "f32", [HEED_BF16] = "bf16", [HEED_Q8_0] = "int8"};
    return find_name("weights", text, names, sizeof names / sizeof *names, "f32, bf16 or int8");
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
