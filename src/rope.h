/* Rotary embedding as heed_rope and heed_kv_append share it: checks of the tables, and turning a piece of a row. */
#ifndef HEED_ROPE_H
#define HEED_ROPE_H

#include "kernels.h"
#include "region.h"
#include "sequences.h"

/* What messages call the fields of the tables. */
struct heed_rope_names {
    const char *pairs, *positions, *table_stride, *cos, *sin;
};

enum { HEED_ROPE_PIECE = 64 /* pairs that are turned at once */ };

/* Of a request that has them as `rope`. */
extern const struct heed_rope_names heed_rope_fields;

enum heed_status heed_rope_check(const struct heed_rope *request, const struct heed_rope_names *names);
/* Sizes alone. */
enum heed_status heed_rope_tables_check(const struct heed_rope_tables *tables, const struct heed_rope_names *names,
                                        int64_t head_dim);
/* The tables have rows for the positions of sequence b. */
enum heed_status heed_rope_check_positions(const struct heed_rope_tables *tables, const struct heed_rope_names *names,
                                           const struct heed_sequences *sequences, int64_t b);
/* tables->cos or tables->sin; nothing if the request has no rows. */
struct heed_region heed_rope_region(const char *name, const struct heed_rope_tables *tables, const float *table, bool needed);

/* Both elements of pairs [from, from + n) of the row at x, turned; n at most HEED_ROPE_PIECE. */
void heed_rope_turn(const struct heed_rope_tables *tables, const struct heed_kernels *kernels, const void *x, enum heed_type type,
                    int64_t position, int64_t from, int64_t n, float *a, float *b);

#endif
