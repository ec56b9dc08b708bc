/* heed_kv_append: check, then runs of tokens of single heads over workers. */
#include "kv_append.h"

#include <string.h>

#include "cpu.h"
#include "dispatch.h"
#include "kernels.h"
#include "kv_cache.h"
#include "rope.h"
#include "schedule.h"

enum {
    TASK_TOKENS = 64,       /* of one head: some 64 KiB read and written */
    GROUP = 16,             /* tokens that are stored at once: every panel has a multiple of them, every page too */
    PIECE = HEED_ROPE_PIECE /* elements, or pairs, of a group's tokens that are turned or rounded at once: 4 KiB */
};
/* An element costs about as much time as this many operations of a product. */
#define FLOPS_PER_ELEMENT 32.0

struct append_run {
    const struct heed_kv_append *request;
    const struct heed_kernels *kernels;
    struct kv_layout layout;
    struct heed_sequences sequences;
    int64_t first, total; /* tokens of all sequences */
};

/* Up to GROUP tokens of one head whose slots lie side by side. */
struct group {
    int count;
    int64_t position; /* of the first one */
    const void *key, *value;
    void *keys; /* in the panel, column of the first token */
    void *values;
    float *key_scales, *value_scales; /* of bytes */
    const float *channel_scales;      /* of the head; NULL: none */
};

/* Pairs [from, from + n) of token t of a group. */
static void turn(const struct append_run *run, const struct group *group, int t, int64_t from, int64_t n, float *a, float *b) {
    const struct heed_input *view = &run->request->key;
    const void *key = type_at(view->type, group->key, t * view->token_stride);
    heed_rope_turn(&run->request->rope, run->kernels, key, view->type, group->position + t, from, n, a, b);
}

/* Elements of all keys or values of a group, n of each, in rows ld apart. */
struct rows {
    const void *data;
    enum heed_type type;
    int64_t ld, n;
    const float *divisors; /* of each row's n; NULL: none */
};

/* The scales of every step-th channel, n of them; `packed` has room for those that do not lie side by side. */
static const float *find_divisors(const struct group *group, int64_t channel, int64_t step, int64_t n, float *packed) {
    if (!group->channel_scales || step == 1)
        return group->channel_scales ? group->channel_scales + channel : NULL;
    for (int64_t i = 0; i < n; i++)
        packed[i] = group->channel_scales[channel + i * step];
    return packed;
}

/* At most PIECE of them as floats, divided. */
static struct rows piece_of(const struct append_run *run, const struct group *group, const struct rows *rows, int64_t from,
                            float *floats) {
    const int64_t n = min_i64(PIECE, rows->n - from);
    const void *data = type_at(rows->type, rows->data, from);
    run->kernels->widen_rows(data, rows->type, rows->ld, group->count, n, floats, PIECE);
    for (int t = 0; rows->divisors && t < group->count; t++)
        run->kernels->divide_row(floats + t * PIECE, n, rows->divisors + from);
    return (struct rows){floats, HEED_F32, PIECE, n, NULL};
}

/* What is stored in bytes is measured first: largest[t] becomes the size of token t's largest element, or NaN. */
static void measure(const struct append_run *run, const struct group *group, const struct rows *rows, float *largest) {
    float floats[GROUP * PIECE];
    for (int64_t from = 0; from < rows->n; from += PIECE) {
        const struct rows piece = piece_of(run, group, rows, from, floats);
        for (int t = 0; t < group->count; t++) {
            const float size = run->kernels->max_size(floats + t * PIECE, piece.n);
            if (!(size <= largest[t]) && largest[t] == largest[t])
                largest[t] = size;
        }
    }
}

/* Scales by the sizes, which become what elements are multiplied by: 0 if there is a NaN or an infinity. */
static void find_scales(int count, float *largest, float *scales) {
    for (int t = 0; t < count; t++) {
        const float scale = largest[t] / 127.0f, least = 0x1p-126f;
        scales[t] = scale < least ? least : scale;
        largest[t] = scale == scale ? 1.0f / scales[t] : 0.0f;
    }
}

/* Multiplies a piece; what is not finite becomes 0. */
static void divide_by_scales(const struct append_run *run, const struct group *group, const float *factors, int64_t n,
                             float *floats) {
    for (int t = 0; t < group->count; t++, floats += PIECE)
        if (factors[t] != 0.0f)
            run->kernels->scale_rows(floats, HEED_F32, 0, 1, n, factors[t], floats, 0);
        else
            memset(floats, 0, (size_t)n * sizeof *floats);
}

/* Keys become lines of the panel, the first one line number `line`, then every step-th.  What is divided, or of other types than
 * floats, is stored as lines, many elements at once. */
static void store_lines(const struct append_run *run, const struct group *group, const struct rows *rows, const float *factors,
                        int64_t line, int64_t step) {
    const int64_t width = run->layout.width;
    const enum heed_type type = run->request->cache->key_type;
    void *to = type_at_output(type, group->keys, line * width);
    float floats[GROUP * PIECE], lines[PIECE * GROUP];
    if (type == HEED_F32 && !rows->divisors) {
        run->kernels->store_keys(rows->data, rows->type, rows->ld, rows->n, group->count, to, step * width);
        return;
    }
    for (int64_t from = 0; from < rows->n; from += PIECE) {
        const struct rows piece = piece_of(run, group, rows, from, floats);
        if (type == HEED_I8)
            divide_by_scales(run, group, factors, piece.n, floats);
        run->kernels->store_keys(floats, HEED_F32, PIECE, piece.n, group->count, lines, GROUP);
        run->kernels->round_rows(lines, GROUP, piece.n, group->count, type_at_output(type, to, from * step * width), type,
                                 step * width);
    }
}

/* The first 2 * rope.pairs elements of all keys of a group are measured, or stored. */
static void take_turned(const struct append_run *run, const struct group *group, bool measures, float *factors) {
    const struct heed_rope_tables *rope = &run->request->rope;
    const int64_t step = rope->interleaved ? 2 : 1, other = rope->interleaved ? 1 : rope->pairs;
    for (int64_t from = 0; from < rope->pairs; from += PIECE) {
        const int64_t n = min_i64(PIECE, rope->pairs - from);
        float a[GROUP][PIECE], b[GROUP][PIECE], scales_a[PIECE], scales_b[PIECE];
        for (int t = 0; t < group->count; t++)
            turn(run, group, t, from, n, a[t], b[t]);
        const int64_t first_a = from * step, first_b = first_a + other;
        const struct rows first = {a[0], HEED_F32, PIECE, n, find_divisors(group, first_a, step, n, scales_a)},
                          second = {b[0], HEED_F32, PIECE, n, find_divisors(group, first_b, step, n, scales_b)};
        if (measures) {
            measure(run, group, &first, factors);
            measure(run, group, &second, factors);
        } else {
            store_lines(run, group, &first, factors, first_a, step);
            store_lines(run, group, &second, factors, first_b, step);
        }
    }
}

static void store_keys(const struct append_run *run, const struct group *group) {
    const struct heed_input *view = &run->request->key;
    const int64_t turned = 2 * run->request->rope.pairs;
    const struct rows rest = {type_at(view->type, group->key, turned), view->type, view->token_stride,
                              run->request->cache->head_dim - turned, find_divisors(group, turned, 1, 0, NULL)};
    float factors[GROUP] = {0};
    if (run->request->cache->key_type == HEED_I8) {
        take_turned(run, group, true, factors);
        measure(run, group, &rest, factors);
        find_scales(group->count, factors, group->key_scales);
    }
    take_turned(run, group, false, factors);
    store_lines(run, group, &rest, factors, turned, 1);
}

static void store_values(const struct append_run *run, const struct group *group) {
    const struct heed_input *view = &run->request->value;
    const enum heed_type type = run->request->cache->value_type;
    const int64_t value_dim = run->request->cache->value_dim, ld = run->layout.value_ld;
    const struct rows rows = {group->value, view->type, view->token_stride, value_dim, NULL};
    float floats[GROUP * PIECE], factors[GROUP] = {0};
    if (type == HEED_F32)
        run->kernels->widen_rows(rows.data, rows.type, rows.ld, group->count, value_dim, group->values, ld);
    if (type == HEED_I8) {
        measure(run, group, &rows, factors);
        find_scales(group->count, factors, group->value_scales);
    }
    for (int64_t from = 0; type != HEED_F32 && from < value_dim; from += PIECE) {
        const struct rows piece = piece_of(run, group, &rows, from, floats);
        if (type == HEED_I8)
            divide_by_scales(run, group, factors, piece.n, floats);
        run->kernels->round_rows(floats, PIECE, group->count, piece.n, type_at_output(type, group->values, from), type, ld);
    }
    for (int t = 0; t < group->count; t++)
        memset(type_at_output(type, group->values, t * ld + value_dim), 0, (size_t)((ld - value_dim) * type_bytes(type)));
}

static const void *row_of(const struct heed_kv_append *request, const struct heed_input *view, int64_t b, int64_t head, int64_t t) {
    const int64_t sequence = request->starts ? request->starts[b] * view->token_stride : b * view->batch_stride;
    return type_at(view->type, view->data, sequence + head * view->head_stride + t * view->token_stride);
}

/* Tokens [from, to) of a sequence.  Of more tokens than a ring holds, the last ones remain: the others are not written at all, as
 * tasks keep no order. */
static void append_tokens(const struct append_run *run, int64_t b, int64_t head, int64_t from, int64_t to) {
    const struct heed_kv_append *request = run->request;
    const struct heed_kv_cache *cache = request->cache;
    const int64_t tokens = sequences_begin(&run->sequences, b + 1) - sequences_begin(&run->sequences, b);
    struct group group;
    for (int64_t t = max_i64(from, tokens - kv_capacity(cache)); t < to; t += group.count) {
        group.position = sequences_position(&run->sequences, b) + t;
        group.count = (int)min_i64(to - t, GROUP - group.position % GROUP);
        group.key = row_of(request, &request->key, b, head, t);
        group.value = row_of(request, &request->value, b, head, t);
        group.keys = type_at_output(cache->key_type, kv_panel(cache, &run->layout, b, head, group.position),
                                    group.position % run->layout.width);
        group.values = kv_value(cache, &run->layout, b, head, group.position);
        group.key_scales = kv_key_scale(cache, &run->layout, b, head, group.position);
        group.value_scales = kv_value_scale(cache, &run->layout, b, head, group.position);
        group.channel_scales = kv_channel_scales(cache, head);
        store_keys(run, &group);
        store_values(run, &group);
    }
}

static bool run_task(void *context, int64_t task, int worker) {
    const struct append_run *run = context;
    const struct heed_kv_append *request = run->request;
    const int64_t head = task % request->cache->num_kv_heads, run_begin = task / request->cache->num_kv_heads * TASK_TOKENS;
    const int64_t end = run->first + min_i64(run->total, run_begin + TASK_TOKENS);
    int64_t token = run->first + run_begin;
    (void)worker;
    while (token < end) {
        const int64_t b = sequences_of(&run->sequences, token), begin = sequences_begin(&run->sequences, b);
        const int64_t to = min_i64(end, sequences_begin(&run->sequences, b + 1));
        append_tokens(run, b, head, token - begin, to - begin);
        token = to;
    }
    return true;
}

static enum heed_status append_all(struct append_run *run, const struct heed_exec *exec) {
    const struct heed_kv_cache *cache = run->request->cache;
    const int64_t tasks = ceil_div(run->total, TASK_TOKENS) * cache->num_kv_heads;
    const double rows = (double)run->total * (double)cache->num_kv_heads;
    const double flops = FLOPS_PER_ELEMENT * rows * (double)(cache->head_dim + cache->value_dim);
    return heed_schedule_run(exec, heed_schedule_workers(exec, tasks, flops), tasks, run_task, run);
}

HEED_API enum heed_status heed_kv_append(const struct heed_kv_append *append, const struct heed_exec *exec) {
    struct append_run run = {.request = append};
    enum heed_status status = heed_kv_append_check(append);
    if (status == HEED_OK)
        status = heed_exec_kernels(exec, &run.kernels);
    if (status)
        return status;
    run.sequences = append_sequences(append);
    run.first = sequences_begin(&run.sequences, 0);
    run.total = sequences_begin(&run.sequences, append->batch) - run.first;
    if (run.total == 0 || append->cache->num_kv_heads == 0)
        return HEED_OK;
    heed_kv_layout(append->cache, &run.layout);
    const uint64_t callers = heed_fp_begin();
    status = append_all(&run, exec);
    heed_fp_end(callers);
    return status;
}
