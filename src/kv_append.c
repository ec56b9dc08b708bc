/* heed_kv_append: check, then runs of tokens of single heads over workers. */
#include "kv_append.h"

#include <string.h>

#include "cpu.h"
#include "dispatch.h"
#include "kernels.h"
#include "kv_cache.h"
#include "schedule.h"

enum {
    TASK_TOKENS = 64, /* of one head: some 64 KiB read and written */
    GROUP = 16,       /* tokens that are stored at once: every panel has a multiple of them, every page too */
    PIECE = 64        /* pairs of a group that are turned at once, in 8 KiB of stack */
};
/* An element costs about as much time as this many operations of a product. */
#define FLOPS_PER_ELEMENT 32.0

struct append_run {
    const struct heed_kv_append *request;
    const struct heed_kernels *kernels;
    struct kv_layout layout;
    int64_t first, total; /* tokens of all sequences */
};

/* Up to GROUP tokens of one head whose slots lie side by side. */
struct group {
    int count;
    int64_t position; /* of the first one */
    const float *key, *value;
    float *keys; /* in the panel, column of the first token */
    float *values;
};

static void split_pairs(const float *x, int64_t n, float *a, float *b) {
    for (int64_t i = 0; i < n; i++) {
        a[i] = x[2 * i];
        b[i] = x[2 * i + 1];
    }
}

/* Pairs [from, from + n) of one key. */
static void turn(const struct append_run *run, const float *key, int64_t position, int64_t from, int64_t n, float *a, float *b) {
    const struct heed_rope *rope = &run->request->rope;
    const int64_t row = position * rope->table_stride + from;
    const float *x = key + from, *y = x + rope->pairs;
    if (rope->interleaved) {
        split_pairs(key + 2 * from, n, a, b);
        x = a;
        y = b;
    }
    run->kernels->rope(x, y, rope->cos + row, rope->sin + row, n, a, b);
}

/* The first 2 * rope.pairs elements of all keys of a group. */
static void store_turned(const struct append_run *run, const struct group *group) {
    const struct heed_kv_append *request = run->request;
    const struct heed_rope *rope = &request->rope;
    const int64_t width = run->layout.width;
    const int64_t step = rope->interleaved ? 2 * width : width, other = rope->interleaved ? width : rope->pairs * width;
    for (int64_t from = 0; from < rope->pairs; from += PIECE) {
        const int64_t n = min_i64(PIECE, rope->pairs - from);
        float a[GROUP][PIECE], b[GROUP][PIECE];
        for (int t = 0; t < group->count; t++)
            turn(run, group->key + t * request->key.token_stride, group->position + t, from, n, a[t], b[t]);
        run->kernels->store_keys(a[0], HEED_F32, PIECE, n, group->count, group->keys + from * step, step);
        run->kernels->store_keys(b[0], HEED_F32, PIECE, n, group->count, group->keys + from * step + other, step);
    }
}

static void store_group(const struct append_run *run, const struct group *group) {
    const struct heed_kv_append *request = run->request;
    const struct kv_layout *layout = &run->layout;
    const int64_t turned = 2 * request->rope.pairs, value_dim = request->cache->value_dim;
    store_turned(run, group);
    run->kernels->store_keys(group->key + turned, HEED_F32, request->key.token_stride, request->cache->head_dim - turned,
                             group->count, group->keys + turned * layout->width, layout->width);
    for (int t = 0; t < group->count; t++) {
        float *row = group->values + t * layout->value_ld;
        memcpy(row, group->value + t * request->value.token_stride, (size_t)value_dim * sizeof *row);
        memset(row + value_dim, 0, (size_t)(layout->value_ld - value_dim) * sizeof *row);
    }
}

static const float *row_of(const struct heed_kv_append *request, const struct heed_input *view, int64_t b, int64_t head,
                           int64_t t) {
    const float *sequence =
        (const float *)view->data + (request->starts ? request->starts[b] * view->token_stride : b * view->batch_stride);
    return sequence + head * view->head_stride + t * view->token_stride;
}

/* Tokens [from, to) of a sequence.  Of more tokens than a ring holds, the last ones remain: the others are not written at all, as
 * tasks keep no order. */
static void append_tokens(const struct append_run *run, int64_t b, int64_t head, int64_t from, int64_t to) {
    const struct heed_kv_append *request = run->request;
    const struct heed_kv_cache *cache = request->cache;
    const int64_t tokens = append_begin(request, b + 1) - append_begin(request, b);
    struct group group;
    for (int64_t t = max_i64(from, tokens - kv_capacity(cache)); t < to; t += group.count) {
        group.position = append_position(request, b) + t;
        group.count = (int)min_i64(to - t, GROUP - group.position % GROUP);
        group.key = row_of(request, &request->key, b, head, t);
        group.value = row_of(request, &request->value, b, head, t);
        group.keys = kv_panel(cache, &run->layout, b, head, group.position) + group.position % run->layout.width;
        group.values = kv_value(cache, &run->layout, b, head, group.position);
        store_group(run, &group);
    }
}

/* The sequence that token number `token` belongs to. */
static int64_t sequence_of(const struct heed_kv_append *request, int64_t token) {
    int64_t low = 0, high = request->batch;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (append_begin(request, middle) <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool run_task(void *context, int64_t task, int worker) {
    const struct append_run *run = context;
    const struct heed_kv_append *request = run->request;
    const int64_t head = task % request->cache->num_kv_heads, run_begin = task / request->cache->num_kv_heads * TASK_TOKENS;
    const int64_t end = run->first + min_i64(run->total, run_begin + TASK_TOKENS);
    int64_t token = run->first + run_begin;
    (void)worker;
    while (token < end) {
        const int64_t b = sequence_of(request, token), begin = append_begin(request, b);
        const int64_t to = min_i64(end, append_begin(request, b + 1));
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
        status = heed_exec_check(exec);
    if (status == HEED_OK)
        status = heed_kernels_for(exec, &run.kernels);
    if (status)
        return status;
    run.first = append_begin(append, 0);
    run.total = append_begin(append, append->batch) - run.first;
    if (run.total == 0 || append->cache->num_kv_heads == 0)
        return HEED_OK;
    heed_kv_layout(append->cache, &run.layout);
    const uint64_t callers = heed_fp_begin();
    status = append_all(&run, exec);
    heed_fp_end(callers);
    return status;
}
