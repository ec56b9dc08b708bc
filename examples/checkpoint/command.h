/* What the command lines of the examples have in common: the values of options, and progress on a terminal. */
#ifndef HEED_EXAMPLES_COMMAND_H
#define HEED_EXAMPLES_COMMAND_H

#include <heed.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The value of --name=text; what is none ends the program. */
int64_t option_integer(const char *name, const char *text, int64_t least, int64_t most);
double option_number(const char *name, const char *text, double least, double most);
enum heed_type option_weights(const char *text); /* f32, bf16, or int8: HEED_Q8_0 */

/* A line on standard error that is written over again and again, where that is a terminal.  Start it with progress_start. */
struct progress {
    bool on;
    struct timespec start, shown;
};
/* alone: nothing else is written to the terminal meanwhile. */
struct progress progress_start(bool alone);
double progress_seconds(const struct progress *progress);
/* At most twice a second, and not for what is done at once. */
__attribute__((format(printf, 2, 3))) void progress_show(struct progress *progress, const char *format, ...);
/* Wipes the line. */
void progress_end(struct progress *progress);

#endif
