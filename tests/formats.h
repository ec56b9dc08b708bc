/* What the formats of attention cost: its error in each, against the oracle on the numbers as they were before they were stored,
 * and on the stored ones. `make accuracy` prints it, test_formats.c holds it against what rounding explains.
 *
 * Errors are in units of the root mean square of the output's column: with more keys outputs of random values get smaller, and a
 * column of outliers has larger ones. */
#ifndef HEED_TESTS_FORMATS_H
#define HEED_TESTS_FORMATS_H

#include "heed.h"

#include <stdbool.h>

/* To add one: a line of the table in formats.c. */
struct format {
    const char *name;
    enum heed_type query, key, output; /* key: of the value too; HEED_I8: both in a cache */
    enum heed_compute compute;         /* BF16: keys and values of what bf16 holds */
    bool scales_channels;              /* of keys in the cache, by the power of two next to each channel's largest */
};
extern const struct format formats[];
extern const int format_count;

/* N(0, 1); and the same with every 64th channel of query and key, or of all three, 30 times as large, in other places for each. */
enum format_inputs { FORMAT_NORMAL, FORMAT_KEY_OUTLIERS, FORMAT_OUTLIERS, FORMAT_INPUTS };
extern const char *const format_input_names[FORMAT_INPUTS];

enum { FORMAT_DIM = 128 };

/* One head of keys, and a query head for each query.  Arrays as the reference has them; NULL on lack of memory. */
struct format_case {
    int64_t queries, keys;
    float *query, *key, *value;
    double *output, *weights;  /* by the oracle */
    double column[FORMAT_DIM]; /* root mean squares of the output */
};
bool format_case_make(struct format_case *c, enum format_inputs inputs, int64_t queries, int64_t keys);
void format_case_free(struct format_case *c);

/* A case in a format: the stored numbers, exactly, the oracle's results for them, and heed's output. */
struct format_run {
    struct format_case stored;
    float scales[FORMAT_DIM]; /* of channels of keys; 1 where there are none */
    float *output;
};
bool format_run_make(struct format_run *run, const struct format *format, const struct format_case *c);
void format_run_free(struct format_run *run);

struct format_error {
    double max, rms;
};
/* Of heed's output, against the oracle's of the case or of what the run has stored. */
struct format_error format_error(const struct format_run *run, const struct format_case *against);

#endif
