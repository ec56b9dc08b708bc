/* Cases of attention stored in 16 bits, and their results as floats; harness_attention.h says what for. */
#include "cpu.h"
#include "harness_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum heed_type any_type(struct rng *rng) { return (enum heed_type)rng_range(rng, HEED_F32, HEED_F16); }

bool f16_ignores_flushing(void) {
    const uint16_t least = 1;
    float wide;
    const uint64_t before = heed_fp_begin();
    heed_fp_flush(true);
    heed_kernels_usable(0)->widen_rows(&least, HEED_F16, 1, 1, 1, &wide, 1);
    heed_fp_flush(false);
    heed_fp_end(before);
    return wide != 0;
}

void round_output(const struct attention_case *c, struct attention_result *result) {
    if (c->wants[OUTPUT])
        round_floats(c->types.output, result->part[OUTPUT], result_count(&c->request, OUTPUT));
}

static void round_input(enum heed_type type, const struct heed_input *input, int64_t batch, int64_t width) {
    const int64_t n = batch * input->batch_stride;
    if (type == HEED_I8)
        round_to_bytes(values_of(input), n / width, width);
    else
        round_floats(type, values_of(input), n);
}

void use_types(struct attention_case *c, struct attention_types types) {
    const struct heed_attention *r = &c->request;
    c->types = types;
    round_input(types.query, &r->query, r->query_starts ? 1 : r->batch, r->head_dim);
    round_input(types.key, &r->key, r->key_starts ? 1 : r->batch, r->head_dim);
    round_input(types.value, &r->value, r->key_starts ? 1 : r->batch, r->value_dim);
}

static float *row_at(const struct tensor *t, int64_t n) {
    return t->data + n / (t->size[1] * t->size[2]) * t->stride[0] + n / t->size[2] % t->size[1] * t->stride[1] +
           n % t->size[2] * t->stride[2];
}

/* Where a row ends after an odd number of halves: the other half of its last float. */
static char *row_end(const struct tensor *t, int64_t n, int64_t columns) {
    return (char *)row_at(t, n) + (size_t)columns * sizeof(uint16_t);
}

static int64_t rows_of(const struct tensor *t) { return t->size[0] * t->size[1] * t->size[2]; }

const char *check_row_ends(const struct tensor *t, int64_t columns) {
    const uint16_t poison = POISON >> 16;
    for (int64_t n = 0; columns % 2 && n < rows_of(t); n++)
        if (memcmp(row_end(t, n, columns), &poison, sizeof poison) != 0)
            return "wrote after the end of a row";
    return NULL;
}

const char *take_halves(struct tensor *t, enum heed_type type, int64_t columns, float *values) {
    const int64_t rows = rows_of(t);
    float *packed = new_floats(rows * t->size[3]);
    for (int64_t n = 0; columns % 2 && n < rows; n++)
        memset(row_end(t, n, columns), 0, sizeof(uint16_t)); /* counts as written */
    const char *problem = tensor_take(t, packed);
    for (int64_t n = 0; n < rows && !problem; n++)
        for (int64_t j = 0; j < columns; j++) {
            uint16_t half;
            memcpy(&half, (const char *)(packed + n * t->size[3]) + (size_t)j * sizeof half, sizeof half);
            values[n * columns + j] = float_of_half(type, half);
        }
    free(packed);
    return problem;
}
