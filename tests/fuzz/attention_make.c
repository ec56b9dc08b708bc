/* Valid attention requests of every kind, small enough that thousands of them run in a second. */
#include "fuzz.h"
#include "internal.h"

#include <math.h>
#include <string.h>

/* --- Sizes --- */

static void take_sizes(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    f->large = take_chance(in, 24);
    r->batch = TAKE_OF(in, 1, 1, 2, 3, 5, 0);
    r->num_kv_heads = TAKE_OF(in, 1, 1, 1, 2, 3, 0);
    r->num_heads = r->num_kv_heads * TAKE_OF(in, 1, 1, 2, 3, 4, 8, 17);
    r->query_tokens = take_chance(in, 4) ? take_range(in, 0, 130) : TAKE_OF(in, 1, 2, 3, 5, 8, 16, 17, 49, 0);
    switch (take_range(in, 0, 7)) {
    case 5:
        r->key_tokens = take_range(in, 240, 280);
        break;
    case 6:
        r->key_tokens = take_range(in, 500, 530);
        break;
    case 7:
        r->key_tokens = take_range(in, 760, 1100);
        break;
    default:
        r->key_tokens = take_range(in, 0, 40);
    }
    if (take_chance(in, 6))
        r->key_tokens = r->query_tokens;
    r->head_dim = take_chance(in, 2) ? take_range(in, 1, 130) : TAKE_OF(in, 4, 8, 16, 32, 64, 65, 1);
    r->value_dim = take_chance(in, 2) ? take_range(in, 1, 130) : TAKE_OF(in, 4, 8, 16, 32, 64, 65, 1);
    if (f->large) {
        r->key_tokens += 520;
        r->head_dim += 64;
        r->value_dim += 64;
    }
}

/* What a scalar table takes some milliseconds for; large: what a second thread is worth. */
static void shrink(struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    const double most = f->large ? 6e6 : 5e5;
    while (attention_work(r) > most) {
        if (r->batch > 1)
            r->batch--;
        else if (r->num_heads > r->num_kv_heads && !f->large)
            r->num_heads = r->num_kv_heads;
        else if (r->query_tokens > 4)
            r->query_tokens /= 2;
        else if (r->head_dim > 16)
            r->head_dim /= 2;
        else if (r->value_dim > 16)
            r->value_dim /= 2;
        else
            r->key_tokens /= 2;
    }
}

/* --- Tensors --- */

struct shape {
    const char *name;
    int64_t count[3], width; /* batch, heads, tokens */
    bool packed, output;
};

/* Dense or with gaps, heads or tokens outside; inputs may repeat themselves, and where there is one index, a stride is nothing. */
static void take_strides(struct input *in, const struct shape *shape, int64_t stride[3]) {
    const int64_t gaps = take_chance(in, 3) ? 5 : 0;
    const int inner = take_chance(in, 2) ? 1 : 2, outer = 3 - inner;
    stride[inner] = shape->width + take_range(in, 0, gaps);
    stride[outer] = shape->count[inner] * stride[inner] + take_range(in, 0, gaps);
    stride[0] = shape->count[outer] * stride[outer] + take_range(in, 0, gaps);
    for (int dim = 0; dim < 3; dim++) {
        if (!shape->output && take_chance(in, 10))
            stride[dim] = 0;
        if (shape->count[dim] <= 1 && take_chance(in, 6))
            stride[dim] = take_hostile(in) & INT64_MAX;
    }
}

static int64_t span_of(const struct shape *shape, const int64_t stride[3]) {
    int64_t span = shape->width;
    for (int dim = 0; dim < 3; dim++) {
        if (shape->count[dim] == 0)
            return 0;
        span += shape->count[dim] > 1 ? (shape->count[dim] - 1) * stride[dim] : 0;
    }
    return span;
}

/* n of so many values, beginning anywhere: making them all would take longer than the call. */
enum { VALUES = 1021 };
static void copy_values(struct rng *rng, const float *values, float *to, int64_t n) {
    int64_t from = rng_range(rng, 0, VALUES - 1);
    for (int64_t done = 0, some; done < n; done += some, from = 0) {
        some = min_i64(n - done, VALUES - from);
        memcpy(to + done, values + from, (size_t)some * sizeof *to);
    }
}

static void fill_rows(float *data, const struct shape *shape, const int64_t stride[3], struct rng *rng, enum fill mode) {
    float values[VALUES];
    fill(rng, mode, values, VALUES);
    for (int64_t i = 0; i < shape->count[0]; i++)
        for (int64_t j = 0; j < shape->count[1]; j++)
            for (int64_t k = 0; k < shape->count[2]; k++) {
                const int64_t at[] = {i, j, k};
                float *row = data;
                for (int dim = 0; dim < 3; dim++)
                    row += at[dim] > 0 ? at[dim] * stride[dim] : 0;
                copy_values(rng, values, row, shape->width);
            }
}

static struct rng take_rng(struct input *in) { return rng_seeded(take(in, 2)); }

/* A tensor of its own; an input is filled. */
static float *make_tensor(struct input *in, struct attention_fuzz *f, const struct shape *shape, int64_t stride[3]) {
    take_strides(in, shape, stride);
    float *data = memory_new(&f->memory, shape->name, span_of(shape, stride), sizeof *data, in);
    if (!shape->output) {
        struct rng rng = take_rng(in);
        fill_rows(data, shape, stride, &rng, take_fill(in, f->moderate));
    }
    if (shape->packed)
        stride[0] = take_hostile(in);
    return data;
}

static struct heed_input make_input(struct input *in, struct attention_fuzz *f, const char *name, bool packed, int64_t heads,
                                    int64_t tokens, int64_t width) {
    const struct shape shape = {name, {packed ? 1 : f->request.batch, heads, tokens}, width, packed, false};
    int64_t stride[3];
    const float *data = make_tensor(in, f, &shape, stride);
    return (struct heed_input){data, stride[0], stride[1], stride[2], HEED_F32};
}

static struct heed_output make_output(struct input *in, struct attention_fuzz *f, const char *name, int64_t width) {
    const bool packed = f->request.query_starts;
    const struct shape shape = {
        name, {packed ? 1 : f->request.batch, f->request.num_heads, f->request.query_tokens}, width, packed, true};
    int64_t stride[3];
    float *data = make_tensor(in, f, &shape, stride);
    return (struct heed_output){data, stride[0], stride[1], stride[2], HEED_F32};
}

static float *make_floats(struct input *in, struct attention_fuzz *f, const char *name, int64_t n) {
    float *data = memory_new(&f->memory, name, n, sizeof *data, in);
    struct rng rng = take_rng(in);
    fill(&rng, take_fill(in, f->moderate), data, n);
    return data;
}

/* Query, key, value and output side by side in one buffer, as a fused projection leaves them. */
static void make_fused(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    const int64_t q = r->num_heads * r->head_dim, k = r->num_kv_heads * r->head_dim, v = r->num_kv_heads * r->value_dim,
                  token = q + k + v + r->num_heads * r->value_dim, batch = r->query_tokens * token;
    float *data = make_floats(in, f, "query, key, value, output", r->batch * batch);
    r->query = (struct heed_input){data, batch, r->head_dim, token, HEED_F32};
    r->key = (struct heed_input){data + q, batch, r->head_dim, token, HEED_F32};
    r->value = (struct heed_input){data + q + k, batch, r->value_dim, token, HEED_F32};
    r->output = (struct heed_output){data + q + k + v, batch, r->value_dim, token, HEED_F32};
}

static void make_inputs(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    if (r->query_tokens == r->key_tokens && !r->query_starts && !r->key_starts && take_chance(in, 2)) {
        make_fused(in, f);
        return;
    }
    r->query = make_input(in, f, "query", r->query_starts, r->num_heads, r->query_tokens, r->head_dim);
    r->key = make_input(in, f, "key", r->key_starts, r->num_kv_heads, r->key_tokens, r->head_dim);
    r->value = make_input(in, f, "value", r->key_starts, r->num_kv_heads, r->key_tokens, r->value_dim);
}

/* --- What a query may see --- */

static int64_t *make_starts(struct input *in, struct attention_fuzz *f, const char *name, int64_t tokens) {
    int64_t *starts = memory_new(&f->memory, name, f->request.batch + 1, sizeof *starts, in);
    starts[0] = take_range(in, 0, tokens < 2 ? tokens : 2);
    for (int64_t b = 0; b < f->request.batch; b++)
        starts[b + 1] = take_chance(in, 4) ? tokens : starts[b] + take_range(in, 0, tokens - starts[b]);
    return starts;
}

static void make_sequences(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    if (take_chance(in, 4))
        r->query_starts = make_starts(in, f, "query_starts", r->query_tokens);
    if (take_chance(in, 4))
        r->key_starts = make_starts(in, f, "key_starts", r->key_tokens);
    if (!take_chance(in, 3))
        return;
    int64_t *lengths = memory_new(&f->memory, "key_lengths", r->batch, sizeof *lengths, in);
    for (int64_t b = 0; b < r->batch; b++)
        lengths[b] = take_range(in, 0, r->key_starts ? r->key_starts[b + 1] - r->key_starts[b] : r->key_tokens);
    r->key_lengths = lengths;
}

static int64_t take_far(struct input *in) { return TAKE_OF(in, 0, 1 << 12, 1 << 24, INT64_C(1) << 47, (INT64_C(1) << 48) - 4096); }

static void make_positions(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    if (take_chance(in, 6))
        r->key_position = (take_chance(in, 3) ? take_far(in) : 0) + 256 * take_range(in, 0, 1);
    r->causal = take_chance(in, 2);
    r->alignment = (enum heed_alignment)take_range(in, 0, 2);
    if (r->alignment == HEED_ALIGN_OFFSETS) {
        int64_t *offsets = memory_new(&f->memory, "query_offsets", r->batch, sizeof *offsets, in);
        for (int64_t b = 0; b < r->batch; b++)
            offsets[b] =
                take_chance(in, 16) ? -take_far(in) : r->key_position - take_range(in, 0, 8) + take_range(in, 0, r->key_tokens);
        r->query_offsets = offsets;
    }
    if (!take_chance(in, 3))
        return;
    r->window.on = true;
    r->window.left = take_chance(in, 8) ? take_far(in) : TAKE_OF(in, -1, 0, 1, 3, 15, 63, 255, 300);
    r->window.right = take_chance(in, 8) ? take_far(in) : TAKE_OF(in, -1, 0, 1, 3, 15, 63, 255, 300);
}

static int64_t longest(const int64_t *starts, int64_t batch, int64_t tokens) {
    int64_t most = 0;
    for (int64_t b = 0; starts && b < batch; b++)
        most = starts[b + 1] - starts[b] > most ? starts[b + 1] - starts[b] : most;
    return starts ? most : tokens;
}

/* A [batch, heads, queries, keys] tensor whose keys may be any distance apart: filled as a whole. */
static void *make_mask(struct input *in, struct attention_fuzz *f, const char *name, size_t element, int64_t stride[4],
                       int64_t *elements) {
    const struct heed_attention *r = &f->request;
    const int64_t keys = ref_columns(r);
    stride[3] = TAKE_OF(in, 1, 1, 1, 0, 2);
    const struct shape shape = {name,
                                {r->batch, r->num_heads, keys ? longest(r->query_starts, r->batch, r->query_tokens) : 0},
                                keys ? (keys - 1) * stride[3] + 1 : 1,
                                false,
                                false};
    take_strides(in, &shape, stride);
    for (int dim = 0; dim < 3; dim++)
        stride[dim] = take_chance(in, 3) ? 0 : stride[dim];
    *elements = span_of(&shape, stride);
    return memory_new(&f->memory, name, *elements, element, in);
}

static void make_masks(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    int64_t stride[4], n;
    if (take_chance(in, 4)) {
        uint8_t *mask = make_mask(in, f, "mask", sizeof *mask, stride, &n);
        struct rng rng = take_rng(in);
        const int64_t shown = take_range(in, 0, 8);
        for (int64_t i = 0; i < n; i++)
            mask[i] = (uint8_t)(rng_range(&rng, 0, 8) < shown ? rng_range(&rng, 1, 255) : 0);
        r->mask = (struct heed_mask){mask, stride[0], stride[1], stride[2], stride[3]};
    }
    if (take_chance(in, 4)) {
        float *bias = make_mask(in, f, "bias", sizeof *bias, stride, &n);
        struct rng rng = take_rng(in);
        fill(&rng, take_chance(in, 4) ? FILL_MINUS_INF : take_fill(in, f->moderate), bias, n);
        r->bias = (struct heed_bias){bias, stride[0], stride[1], stride[2], stride[3]};
    }
}

static void make_tree(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    if (!take_chance(in, 6))
        return;
    r->tree.keys = take_range(in, 0, 140);
    const struct shape shape = {
        "tree", {1, r->batch, longest(r->query_starts, r->batch, r->query_tokens)}, (r->tree.keys + 63) / 64, false, false};
    int64_t stride[3];
    take_strides(in, &shape, stride);
    const int64_t n = span_of(&shape, stride);
    uint64_t *words = memory_new(&f->memory, "tree", n, sizeof *words, in);
    struct rng rng = take_rng(in);
    for (int64_t i = 0; i < n; i++)
        words[i] = rng_next(&rng) | rng_next(&rng);
    r->tree.words = words;
    r->tree.batch_stride = stride[1];
    r->tree.query_stride = stride[2];
}

/* --- What becomes of a score --- */

static void make_relative(struct input *in, struct attention_fuzz *f) {
    struct heed_relative *relative = &f->request.relative;
    if (!take_chance(in, 6))
        return;
    relative->bidirectional = take_chance(in, 2);
    const int64_t directions = relative->bidirectional ? 2 : 1;
    relative->num_buckets = directions * (take_chance(in, 4) ? take_range(in, 2, 512 / directions) : TAKE_OF(in, 16, 2, 3, 5, 32));
    const int64_t exact = relative->num_buckets / directions / 2;
    relative->max_distance = take_chance(in, 8) ? take_range(in, exact + 1, 65536) : exact + 1 + take_range(in, 0, 255);
    const struct shape shape = {"relative.table", {1, f->request.num_heads, relative->num_buckets}, 1, false, false};
    int64_t stride[3];
    relative->table = make_tensor(in, f, &shape, stride);
    relative->head_stride = stride[1];
    relative->bucket_stride = stride[2];
}

static float take_float(struct input *in) {
    const uint32_t bits = (uint32_t)take(in, 4) & 0x7fffffffu;
    float x;
    memcpy(&x, &bits, sizeof x);
    return isfinite(x) ? x : 1.0f;
}

static void make_terms(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    static const float scales[] = {0.0f, 1.0f, 0.125f, -0.5f, 1e-30f}, caps[] = {30.0f, 1.0f, 0.25f, 1e-3f, 1e9f, 50.0f};
    r->scale = scales[take_range(in, 0, 4)];
    if (!f->moderate && take_chance(in, 8))
        r->scale = take_float(in);
    if (take_chance(in, 5))
        r->softcap = !f->moderate && take_chance(in, 4) ? take_float(in) : caps[take_range(in, 0, 5)];
    if (take_chance(in, 6))
        r->alibi_slopes = make_floats(in, f, "alibi_slopes", r->num_heads);
    make_relative(in, f);
    if (!take_chance(in, 5))
        return;
    float *sinks = make_floats(in, f, "sinks", r->num_heads);
    for (int64_t h = 0; h < r->num_heads; h++)
        sinks[h] = take_chance(in, 4) ? -INFINITY : sinks[h];
    r->sinks = sinks;
}

/* --- What comes out --- */

static void make_mass(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    const struct shape shape = {"mass", {r->batch, r->num_heads, 1}, ref_columns(r), false, true};
    int64_t stride[3];
    float *data = make_tensor(in, f, &shape, stride);
    r->mass = (struct heed_output){data, stride[0], stride[1], take_hostile(in), HEED_F32};
    r->mass_queries = take_chance(in, 2) ? take_range(in, 0, r->query_tokens + 1) : 0;
}

static void make_outputs(struct input *in, struct attention_fuzz *f) {
    struct heed_attention *r = &f->request;
    const int64_t columns = ref_columns(r), chunks = (columns + 255) / 256;
    const uint64_t wanted = take(in, 1);
    if (!r->output.data && !(wanted & 1))
        r->output = make_output(in, f, "output", r->value_dim);
    if (wanted & 2)
        r->weights = make_output(in, f, "weights", columns);
    if (wanted & 4)
        r->lse = make_output(in, f, "lse", 1);
    if (wanted & 8)
        r->scores = make_output(in, f, "scores", columns);
    r->score_stage = (enum heed_score_stage)take_range(in, 0, 2);
    if (wanted & 16) {
        r->states.output = make_output(in, f, "states.output", chunks * r->value_dim);
        r->states.max = make_output(in, f, "states.max", chunks);
        r->states.sum = make_output(in, f, "states.sum", chunks);
    }
    if (wanted & 32)
        make_mass(in, f);
    if ((wanted & 63) == 1 && !r->output.data)
        r->lse = make_output(in, f, "lse", 1);
}

void make_attention(struct input *in, struct attention_fuzz *f) {
    f->moderate = !take_chance(in, 3);
    take_sizes(in, f);
    shrink(f);
    make_sequences(in, f);
    make_positions(in, f);
    make_inputs(in, f);
    make_masks(in, f);
    make_tree(in, f);
    make_terms(in, f);
    make_outputs(in, f);
    f->plain = f->request;
    if (take_chance(in, 3))
        make_cache(in, f);
    make_types(in, f);
    f->request.compute = f->plain.compute =
        (enum heed_compute)TAKE_OF(in, HEED_COMPUTE_F32, HEED_COMPUTE_I8, HEED_COMPUTE_BF16, HEED_COMPUTE_BF16_AMX);
    take_how(in, &f->how);
}
