/* See stored_matrix.h. */
#include "stored_matrix.h"

#include "internal.h"
#include "stored.h"
#include "types.h"

#include <string.h>

struct stored_matrix stored_matrix_new(struct rng *rng, enum heed_type type, int64_t rows, int64_t columns) {
    const int64_t gap = rng_range(rng, 0, 5);
    struct stored_matrix s = {.type = type, .rows = rows, .columns = columns, .ld = columns + type_block(type) * gap};
    const int64_t bytes = type_span(type, rows > 0 ? (rows - 1) * s.ld + columns : 0);
    const enum placement placement = any_placement(rng);
    s.memory = buffer_new(ceil_div(bytes, 4), placement);
    s.data = (char *)s.memory.data + (placement == AT_END ? 4 * s.memory.count - bytes : 0);
    memset(s.data, 0xff, (size_t)bytes); /* NaNs, read where nothing should be */
    return s;
}

void stored_matrix_put(const struct stored_matrix *s, const float *values) {
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->columns; j++) {
            const float x = values[i * s->columns + j];
            const uint16_t half = s->type == HEED_F32 ? 0 : half_of(s->type, x);
            memcpy(s->data + (i * s->ld + j) * type_bytes(s->type), s->type == HEED_F32 ? (const void *)&x : &half,
                   (size_t)type_bytes(s->type));
        }
}

void stored_matrix_put_bytes(const struct stored_matrix *s, const char *bytes) {
    for (int64_t i = 0; i < s->rows; i++)
        memcpy(s->data + type_span(s->type, i * s->ld), bytes + type_span(s->type, i * s->columns),
               (size_t)type_span(s->type, s->columns));
}

void must_hold(const struct stored_matrix *s, const float *values) {
    const int64_t each = type_bytes(s->type);
    for (int64_t at = 0; s->columns > 0 && at < (s->rows - 1) * s->ld + s->columns; at++) {
        const int64_t i = at / s->ld, j = at % s->ld;
        const float x = j < s->columns ? values[i * s->columns + j] : 0;
        const uint16_t half = s->type == HEED_F32 ? 0 : half_of(s->type, x);
        const unsigned char gap[4] = {0xff, 0xff, 0xff, 0xff};
        const void *want = j >= s->columns ? (const void *)gap : s->type == HEED_F32 ? (const void *)&x : &half;
        if (memcmp(s->data + at * each, want, (size_t)each) != 0)
            must(j < s->columns ? "other bits than the product of floats" : "wrote between rows");
    }
}

void must_hold_bytes(const struct stored_matrix *s, const char *bytes) {
    const int64_t width = type_span(s->type, s->columns), step = type_span(s->type, s->ld);
    for (int64_t i = 0; i < s->rows; i++) {
        if (memcmp(s->data + i * step, bytes + i * width, (size_t)width) != 0)
            must("other bytes than the definition");
        for (int64_t at = width; i + 1 < s->rows && at < step; at++)
            if ((unsigned char)s->data[i * step + at] != 0xff)
                must("wrote between rows");
    }
}
