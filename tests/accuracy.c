/* make accuracy: a table, in Markdown, of what each format of attention costs by the number of keys, so that one sees that nothing
 * drifts.  Takes part of a minute, and says how far it is where standard error is a terminal. */
#define _POSIX_C_SOURCE 200809L

#include "formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUERIES = 32, LENGTHS = 4, AGAINST = 2 };
static const int64_t lengths[LENGTHS] = {128, 1024, 8192, 32768};
static const char *const against_names[AGAINST] = {"original", "stored"};

/* Of a format, by inputs, what it is compared with, and length. */
struct errors {
    struct format_error of[FORMAT_INPUTS][AGAINST][LENGTHS];
};

static void show_progress(const char *format, int inputs, int length) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%lld keys, %s, %s ...", (long long)lengths[length], format_input_names[inputs], format);
}

/* Outliers in keys but not in values tell something of scales alone. */
static bool is_shown(const struct format *format, int inputs) { return inputs != FORMAT_KEY_OUTLIERS || format->key == HEED_I8; }

static bool measure(struct errors errors[], int inputs, int length) {
    struct format_case c;
    bool good = format_case_make(&c, (enum format_inputs)inputs, QUERIES, lengths[length]);
    for (int i = 0; good && i < format_count; i++) {
        struct format_run run;
        if (!is_shown(&formats[i], inputs))
            continue;
        show_progress(formats[i].name, inputs, length);
        good = format_run_make(&run, &formats[i], &c);
        if (good) {
            errors[i].of[inputs][0][length] = format_error(&run, &c);
            errors[i].of[inputs][1][length] = format_error(&run, &run.stored);
        }
        format_run_free(&run);
    }
    format_case_free(&c);
    return good;
}

static void print_line(const char *format, int inputs, int against, const struct format_error error[LENGTHS]) {
    printf("| %s | %s | %s |", format, format_input_names[inputs], against_names[against]);
    for (int length = 0; length < LENGTHS; length++)
        printf(" %.1e (%.1e) |", error[length].rms, error[length].max);
    printf("\n");
}

static void print_table(const struct errors errors[]) {
    printf("| format | inputs | error against |");
    for (int length = 0; length < LENGTHS; length++)
        printf(" %lld keys |", (long long)lengths[length]);
    printf("\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < format_count; i++)
        for (int inputs = 0; inputs < FORMAT_INPUTS; inputs++)
            for (int against = 0; is_shown(&formats[i], inputs) && against < (formats[i].key == HEED_F32 ? 1 : AGAINST); against++)
                print_line(formats[i].name, inputs, against, errors[i].of[inputs][against]);
}

int main(void) {
    struct errors *errors = calloc((size_t)format_count, sizeof *errors);
    for (int length = 0; length < LENGTHS; length++)
        for (int inputs = 0; inputs < FORMAT_INPUTS; inputs++)
            if (!errors || !measure(errors, inputs, length)) {
                const char *message = heed_error_message();
                fprintf(stderr, "accuracy: %s\n", *message ? message : "out of memory");
                free(errors);
                return 1;
            }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    printf("attention, %d queries, head_dim %d: root mean square (and largest) error, in units of the root mean square of the "
           "output's column\n\n",
           QUERIES, FORMAT_DIM);
    print_table(errors);
    free(errors);
    return 0;
}
