/* What the command lines of the examples have in common: options, and progress on a terminal. */
#ifndef HEED_EXAMPLES_COMMAND_H
#define HEED_EXAMPLES_COMMAND_H

#include <heed.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* --name, or --name=value, and where it goes: one of the pointers is set. */
struct choice {
    const char *name;
    bool *flag;
    const char **text;
    int64_t *integer;
    double *number;
    int64_t least, most; /* of integer or number */
};
/* Reads all options, the last of which has no name, and returns the one argument that is none.  What is wrong ends the program,
 * and so does --help. */
const char *read_options(int argc, char **argv, const char *usage, const struct choice *choices);
/* --option=text: the number of the one of `names` that it is, of which NULL is none; `words`: what messages say they are. */
unsigned find_name(const char *option, const char *text, const char *const *names, unsigned count, const char *words);
/* --weights=text: f32, bf16, or int8, which is HEED_Q8_0. */
enum heed_type type_of_weights(const char *text);

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
