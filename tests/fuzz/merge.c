/* heed_merge_states: of states that no attention may have made. */
#include "fuzz.h"

#include <inttypes.h>
#include <math.h>

static enum heed_status call_merge(const void *request, const struct heed_exec *exec) { return heed_merge_states(request, exec); }

static void print_merge(FILE *file, const void *request) {
    const struct heed_merge *r = request;
    fprintf(file,
            "merge: batch %" PRId64 ", heads %" PRId64 ", queries %" PRId64 ", value_dim %" PRId64 ", %" PRId64 " parts%s%s%s\n",
            r->batch, r->num_heads, r->query_tokens, r->value_dim, r->parts, r->sinks ? ", sinks" : "",
            r->output.data ? ", output" : "", r->lse.data ? ", lse" : "");
}

static enum marked mark_view(struct memory *memory, const struct heed_merge *r, const struct heed_input *view, int64_t width,
                             enum role role) {
    const size_t element = sizeof(float);
    const struct rows rows = {view->data,
                              {r->batch, r->num_heads, r->query_tokens},
                              {stride_bytes(view->batch_stride, r->batch, element),
                               stride_bytes(view->head_stride, r->num_heads, element),
                               stride_bytes(view->token_stride, r->query_tokens, element)},
                              width * (int64_t)element};
    return memory_mark(memory, &rows, role);
}

static enum marked mark_output(struct memory *memory, const struct heed_merge *r, const struct heed_output *view, int64_t width) {
    const struct heed_input input = {view->data, view->batch_stride, view->head_stride, view->token_stride, HEED_F32};
    return view->data ? mark_view(memory, r, &input, width, ROLE_OUTPUT) : MARKED;
}

static enum marked mark_merge(struct memory *memory, const void *request) {
    const struct heed_merge *r = request;
    const int64_t parts_bytes = (int64_t)sizeof *r->part;
    enum marked marked =
        memory_mark(memory, &(struct rows){r->part, {1, 1, 1}, {0, 0, 0}, r->parts * parts_bytes}, ROLE_DESCRIPTOR);
    if (marked != MARKED || r->batch == 0 || r->num_heads == 0 || r->query_tokens == 0)
        return marked;
    if (r->batch > 4096 || r->num_heads > 4096 || r->query_tokens > 4096 || r->value_dim > 4096 || r->parts > 64)
        return MARKED_OUTSIDE;
    for (int64_t i = 0; i < r->parts && marked == MARKED; i++) {
        const struct heed_states_part *part = &r->part[i];
        if (part->chunks > 4096)
            return MARKED_OUTSIDE;
        marked = mark_view(memory, r, &part->output, part->chunks * r->value_dim, ROLE_INPUT);
        if (marked == MARKED)
            marked = mark_view(memory, r, &part->max, part->chunks, ROLE_INPUT);
        if (marked == MARKED)
            marked = mark_view(memory, r, &part->sum, part->chunks, ROLE_INPUT);
    }
    const struct rows sinks = {r->sinks, {1, 1, 1}, {0, 0, 0}, r->sinks ? r->num_heads * (int64_t)sizeof *r->sinks : 0};
    if (marked == MARKED)
        marked = memory_mark(memory, &sinks, ROLE_INPUT);
    if (marked == MARKED)
        marked = mark_output(memory, r, &r->output, r->value_dim);
    return marked == MARKED ? mark_output(memory, r, &r->lse, 1) : marked;
}

static bool merge_may_be_validated(const struct memory *memory, const void *request) {
    const struct heed_merge *r = request;
    return (uintptr_t)r->part % _Alignof(struct heed_states_part) == 0 &&
           memory_has(memory, r->part, (__int128)r->parts * (__int128)sizeof *r->part);
}

/* Nothing but sums that the scalar table has been compared in; a row without states and sinks is 0. */
static void check_merge(const struct memory *memory, const void *request) {
    const struct heed_merge *r = request;
    (void)memory;
    int64_t chunks = 0;
    if (r->batch == 0 || r->num_heads == 0 || r->query_tokens == 0)
        return;
    for (int64_t i = 0; i < r->parts; i++)
        chunks += r->part[i].chunks;
    if (chunks == 0 && !r->sinks && r->lse.data && *(const float *)r->lse.data != -INFINITY)
        fuzz_fail("nothing has a log-sum-exp of %g", (double)*(const float *)r->lse.data);
}

static int64_t stride_of(struct input *in, int64_t least) { return least + (take_chance(in, 4) ? take_range(in, 1, 3) : 0); }

/* Dense or with gaps; data is filled unless it is for an output. */
static float *make_view(struct input *in, struct memory *memory, const char *name, const struct heed_merge *r, int64_t width,
                        bool output, int64_t stride[3]) {
    stride[2] = stride_of(in, width);
    stride[1] = stride_of(in, r->query_tokens * stride[2]);
    stride[0] = stride_of(in, r->num_heads * stride[1]);
    int64_t n = 0;
    if (r->batch > 0 && r->num_heads > 0 && r->query_tokens > 0)
        n = (r->batch - 1) * stride[0] + (r->num_heads - 1) * stride[1] + (r->query_tokens - 1) * stride[2] + width;
    float *data = memory_new(memory, name, n, sizeof *data, in);
    struct rng rng = rng_seeded(take(in, 2));
    if (!output)
        fill(&rng, take_fill(in, false), data, n);
    return data;
}

static struct heed_input make_input(struct input *in, struct memory *memory, const char *name, const struct heed_merge *r,
                                    int64_t width) {
    int64_t stride[3];
    const float *data = make_view(in, memory, name, r, width, false, stride);
    return (struct heed_input){data, stride[0], stride[1], stride[2], HEED_F32};
}

static struct heed_output make_output(struct input *in, struct memory *memory, const char *name, const struct heed_merge *r,
                                      int64_t width) {
    int64_t stride[3];
    float *data = make_view(in, memory, name, r, width, true, stride);
    return (struct heed_output){data, stride[0], stride[1], stride[2], HEED_F32};
}

void fuzz_merge(struct input *in) {
    static const struct function function = {call_merge, print_merge, mark_merge, merge_may_be_validated, check_merge};
    struct memory memory = {.count = 0};
    struct heed_merge r = {.batch = TAKE_OF(in, 1, 2, 0),
                           .num_heads = take_range(in, 0, 3),
                           .query_tokens = take_range(in, 0, 20),
                           .value_dim = take_chance(in, 8) ? take_range(in, 250, 520) : take_range(in, 1, 40),
                           .parts = take_range(in, 0, 3)};
    struct heed_states_part *parts = memory_new(&memory, "part", r.parts, sizeof *parts, in);
    for (int64_t i = 0; i < r.parts; i++) {
        parts[i].chunks = take_range(in, 0, 3);
        parts[i].output = make_input(in, &memory, "part.output", &r, parts[i].chunks * r.value_dim);
        parts[i].max = make_input(in, &memory, "part.max", &r, parts[i].chunks);
        parts[i].sum = make_input(in, &memory, "part.sum", &r, parts[i].chunks);
    }
    r.part = parts;
    if (take_chance(in, 2)) {
        float *sinks = memory_new(&memory, "sinks", r.num_heads, sizeof *sinks, in);
        struct rng rng = rng_seeded(take(in, 2));
        fill(&rng, take_fill(in, false), sinks, r.num_heads);
        r.sinks = sinks;
    }
    if (!take_chance(in, 4))
        r.output = make_output(in, &memory, "output", &r, r.value_dim);
    if (take_chance(in, 2) || !r.output.data)
        r.lse = make_output(in, &memory, "lse", &r, 1);
    r.compute = (enum heed_compute)take_chance(in, 4);
    const size_t parts_bytes = (size_t)r.parts * sizeof *parts;
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++) {
        if (parts_bytes > 0 && take_chance(in, 2))
            overwrite(in, &memory, parts, parts_bytes);
        else
            overwrite(in, &memory, &r, sizeof r);
    }
    fuzz_request(in, &function, &memory, &r, changes == 0);
}
