/* Escape sequences where standard output is a terminal that wants them, plain text elsewhere (NO_COLOR: https://no-color.org). */
#ifndef HEED_EXAMPLES_TERMINAL_H
#define HEED_EXAMPLES_TERMINAL_H

#include <stdbool.h>

/* Standard output is a terminal: progress may be shown and overwritten. */
bool terminal_is_interactive(void);
bool terminal_has_colour(void);

/* "" without colour. */
const char *terminal_bold(void);
const char *terminal_dim(void);
const char *terminal_good(void);
const char *terminal_bad(void);
const char *terminal_reset(void);

/* A table of share[rows][columns], every row adding up to 1, with names; the larger the share the brighter, or longer, its cell. */
void terminal_heat_map(const char *const *names, int count, const float *shares);

/* Two columns, the brighter or denser the larger the share of 0 to 1. */
void terminal_cell(float share);

#endif
