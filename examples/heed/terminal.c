/* See terminal.h. */
#define _POSIX_C_SOURCE 200809L

#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_is_interactive(void) { return isatty(STDOUT_FILENO); }

bool terminal_has_colour(void) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return terminal_is_interactive() && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

static const char *escape(const char *sequence) { return terminal_has_colour() ? sequence : ""; }

const char *terminal_bold(void) { return escape("\033[1m"); }
const char *terminal_dim(void) { return escape("\033[2m"); }
const char *terminal_good(void) { return escape("\033[32m"); }
const char *terminal_bad(void) { return escape("\033[1;31m"); }
const char *terminal_reset(void) { return escape("\033[0m"); }

enum { CELL = 12, LEVELS = 8 };

/* Of the 256 colours: a ramp from dark blue over violet and orange to yellow, with dark text on the light half. */
static const int background[LEVELS] = {17, 54, 90, 126, 161, 202, 214, 227};

static int level_of(float share) { return share >= 1 ? LEVELS - 1 : share > 0 ? (int)(share * LEVELS) : 0; }

void terminal_cell(float share) {
    static const char density[LEVELS + 1] = " .:-=+*#";
    const int level = level_of(share);
    if (terminal_has_colour())
        printf("\033[48;5;%dm  \033[0m", background[level]);
    else
        printf("%c%c", density[level], density[level]);
}

static void coloured_cell(float share, int level) {
    printf("\033[48;5;%dm\033[38;5;%dm   %.3f    \033[0m", background[level], level < LEVELS / 2 ? 255 : 16, (double)share);
}

/* Without colour the level is a bar behind the number, from nothing to 5 characters. */
static void plain_cell(float share, int level) {
    static const char bar[] = "#####";
    printf(" %.3f %-5.*s", (double)share, level * (int)(sizeof bar - 1) / (LEVELS - 1), bar);
}

static void heat_row(const float *shares, int count, float low, float high) {
    bool colour = terminal_has_colour();
    for (int j = 0; j < count; j++) {
        int level = level_of(high > low ? (shares[j] - low) / (high - low) : 0);
        if (colour)
            coloured_cell(shares[j], level);
        else
            plain_cell(shares[j], level);
    }
}

void terminal_heat_map(const char *const *names, int count, const float *shares) {
    float low = shares[0], high = shares[0];
    for (int i = 1; i < count * count; i++) {
        low = shares[i] < low ? shares[i] : low;
        high = shares[i] > high ? shares[i] : high;
    }
    printf("     %8s", "");
    for (int j = 0; j < count; j++)
        printf("  %-*s", CELL - 2, names[j]);
    for (int i = 0; i < count; i++) {
        printf("\n     %-8s", names[i]);
        heat_row(shares + i * count, count, low, high);
    }
    printf("\n");
}
