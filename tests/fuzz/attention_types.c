/* Tensors of a request stored in 16 bits: those of the request under test, while the plain one keeps floats of the same values. */
#include "fuzz.h"

#include <math.h>
#include <string.h>

float fuzz_value(enum heed_type type, const void *data, int64_t i) {
    uint16_t half;
    if (type == HEED_F32)
        return ((const float *)data)[i];
    memcpy(&half, (const char *)data + i * (int64_t)sizeof half, sizeof half);
    return float_of_half(type, half);
}

/* Where row (b, h, t) begins, without strides that its index does not ask for. */
static int64_t row_at(const int64_t stride[3], int64_t b, int64_t h, int64_t t) {
    return (b > 0 ? b * stride[0] : 0) + (h > 0 ? h * stride[1] : 0) + (t > 0 ? t * stride[2] : 0);
}

void fuzz_round(struct attention_fuzz *f, enum heed_type type, float *row, int64_t width) {
    if (type == HEED_I8)
        round_to_bytes(row, 1, width);
    else
        round_floats(type, row, width);
    for (int64_t d = 0; d < width; d++)
        f->moderate &= isfinite(row[d]);
}

/* A row becomes what the type can hold, and is stored in it. */
static void store_row(struct attention_fuzz *f, enum heed_type type, float *from, char *to, int64_t width) {
    fuzz_round(f, type, from, width);
    for (int64_t d = 0; d < width; d++) {
        const uint16_t half = half_of(type, from[d]);
        memcpy(to + d * (int64_t)sizeof half, &half, sizeof half);
    }
}

enum heed_type fuzz_take_type(struct input *in) { return take_chance(in, 2) ? HEED_BF16 : HEED_F16; }

/* Dense, heads or tokens outside, with gaps or without; of one batch if packed. */
static int64_t take_strides(struct input *in, const int64_t count[3], int64_t width, int64_t stride[3]) {
    const int inner = take_chance(in, 2) ? 1 : 2, outer = 3 - inner;
    stride[inner] = width + take_range(in, 0, 3);
    stride[outer] = count[inner] * stride[inner] + take_range(in, 0, 3);
    stride[0] = count[outer] * stride[outer];
    if (count[0] == 0 || count[1] == 0 || count[2] == 0)
        return 0;
    return (count[0] - 1) * stride[0] + (count[1] - 1) * stride[1] + (count[2] - 1) * stride[2] + width;
}

static void make_input(struct input *in, struct attention_fuzz *f, const char *name, bool packed, const struct heed_input *plain,
                       const int64_t size[3], int64_t width, struct heed_input *view) {
    const int64_t count[3] = {packed ? 1 : size[0], size[1], size[2]};
    const int64_t from[3] = {plain->batch_stride, plain->head_stride, plain->token_stride};
    int64_t stride[3];
    const enum heed_type type = fuzz_take_type(in);
    const int64_t span = take_strides(in, count, width, stride);
    char *data = memory_new(&f->memory, name, span, sizeof(uint16_t), in);
    for (int64_t b = 0; b < count[0]; b++)
        for (int64_t h = 0; h < count[1]; h++)
            for (int64_t t = 0; t < count[2]; t++)
                store_row(f, type, (float *)(uintptr_t)plain->data + row_at(from, b, h, t),
                          data + row_at(stride, b, h, t) * (int64_t)sizeof(uint16_t), width);
    *view = (struct heed_input){data, stride[0], stride[1], stride[2], type};
}

static void make_output(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    const int64_t count[3] = {r->query_starts ? 1 : r->batch, r->num_heads, r->query_tokens};
    int64_t stride[3];
    const enum heed_type type = fuzz_take_type(in);
    const int64_t span = take_strides(in, count, r->value_dim, stride);
    void *data = memory_new(&f->memory, "output of 16 bits", span, sizeof(uint16_t), in);
    r->output = f->plain.output = (struct heed_output){data, stride[0], stride[1], stride[2], type};
}

void make_types(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    const struct heed_attention *plain = &f->plain;
    const int64_t queries[3] = {r->batch, r->num_heads, r->query_tokens}, keys[3] = {r->batch, r->num_kv_heads, r->key_tokens};
    const bool rows = !r->cache;
    if (!take_chance(in, 3))
        return;
    if (take_chance(in, 2))
        make_input(in, f, "query of 16 bits", r->query_starts, &plain->query, queries, r->head_dim, &r->query);
    if (rows && take_chance(in, 2))
        make_input(in, f, "key of 16 bits", r->key_starts, &plain->key, keys, r->head_dim, &r->key);
    if (rows && take_chance(in, 2))
        make_input(in, f, "value of 16 bits", r->key_starts, &plain->value, keys, r->value_dim, &r->value);
    if (r->output.data && take_chance(in, 2))
        make_output(in, f);
}
