/* Attention requests: valid ones, whose results are compared with those of the scalar kernels run serially, of the merged states
 * and of the oracle; and hostile ones, in which fields hold anything. */
#define _POSIX_C_SOURCE 200809L /* posix_memalign */
#include "fuzz.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

/* Memory for a plan, exactly as large as it says, with NaNs in it. */
static void *new_workspace(const struct heed_plan *plan) {
    void *workspace = NULL;
    if (plan->workspace_bytes < 0 || posix_memalign(&workspace, 64, (size_t)plan->workspace_bytes))
        fuzz_fail("no workspace of %lld bytes", (long long)plan->workspace_bytes);
    memset(workspace, 0xff, (size_t)plan->workspace_bytes);
    return workspace;
}

static void check_explanation(const struct heed_plan *plan) {
    const int64_t length = heed_explain(plan, NULL, 0);
    char *text = malloc((size_t)length + 1);
    if (length <= 0 || !text || heed_explain(plan, text, length + 1) != length || (int64_t)strlen(text) != length)
        fuzz_fail("heed_explain says %lld", (long long)length);
    free(text);
}

/* One plan serves all contents of lengths and starts: it is made when there are no tokens yet. */
static enum heed_status plan_early(const struct heed_attention *request, const struct how *how, struct heed_plan *plan) {
    int64_t *arrays[] = {(int64_t *)(uintptr_t)request->query_starts, (int64_t *)(uintptr_t)request->key_starts,
                         (int64_t *)(uintptr_t)request->key_lengths};
    const size_t bytes = (size_t)(request->batch + 1) * sizeof(int64_t);
    int64_t *saved[3] = {0};
    for (int i = 0; i < 3; i++) {
        const size_t size = bytes - (i == 2) * sizeof(int64_t);
        if (!arrays[i])
            continue;
        if (!(saved[i] = malloc(bytes)))
            fuzz_fail("no memory");
        memcpy(saved[i], arrays[i], size);
        memset(arrays[i], 0, size);
    }
    const enum heed_status status = heed_attention_plan(request, &how->exec, plan);
    for (int i = 0; i < 3; i++) {
        if (arrays[i])
            memcpy(arrays[i], saved[i], bytes - (i == 2) * sizeof(int64_t));
        free(saved[i]);
    }
    return status;
}

static enum heed_status plan_and_run(const struct heed_attention *request, const struct how *how) {
    struct heed_plan plan;
    const enum heed_status planned = how->early ? plan_early(request, how, &plan) : heed_attention_plan(request, &how->exec, &plan);
    if (planned)
        return planned;
    check_explanation(&plan);
    void *workspace = new_workspace(&plan);
    const enum heed_status status = heed_attention_run(&plan, how->early ? request : NULL, workspace);
    free(workspace);
    return status;
}

static enum heed_status run(const struct heed_attention *request, const struct how *how) {
    fesetround(how->rounding);
    const int before = rounding_mode(); /* not what was asked for where valgrind runs it */
    const enum heed_status status = how->planned ? plan_and_run(request, how) : heed_attention(request, &how->exec);
    if (rounding_mode() != before)
        fuzz_fail("the rounding mode has changed");
    fesetround(FE_TONEAREST);
    return status;
}

static const struct how serial_scalar = {.exec = {.threads = 1, .isa = "scalar"}, .rounding = FE_TONEAREST};

/* The outputs of both calls have the same bits. */
static void must_equal_serial_scalar(struct attention_fuzz *f, const struct heed_attention *request) {
    uint8_t *image = malloc(memory_bytes(&f->memory) + 1);
    if (!image)
        fuzz_fail("no memory");
    memory_copy(&f->memory, image);
    memory_restore(&f->memory);
    memory_begin_call(&f->memory);
    const enum heed_status status = run(request, &serial_scalar);
    memory_end_call(&f->memory, true);
    if (status)
        fuzz_fail("refused when serial: %s", heed_error_message());
    memory_must_equal(&f->memory, image, "the scalar table");
    free(image);
}

/* --- States --- */

/* Packed rows as one sequence of all of them. */
static struct heed_input as_input(const struct heed_output *view, bool packed, int64_t first) {
    return (struct heed_input){first > 0 ? (const float *)view->data + first * view->token_stride : view->data,
                               packed ? 0 : view->batch_stride, view->head_stride, view->token_stride, HEED_F32};
}

static void must_be_merged(const struct heed_output *view, const float *merged, const struct heed_merge *merge, int64_t width,
                           int64_t first, const char *name) {
    for (int64_t row = 0; view->data && row < merge->batch * merge->num_heads * merge->query_tokens; row++) {
        const int64_t b = row / (merge->num_heads * merge->query_tokens), h = row / merge->query_tokens % merge->num_heads,
                      i = row % merge->query_tokens + first;
        const int64_t at =
            (b > 0 ? b * view->batch_stride : 0) + (h > 0 ? h * view->head_stride : 0) + (i > 0 ? i * view->token_stride : 0);
        for (int64_t d = 0; d < width; d++) {
            const float got = fuzz_value(view->type, view->data, at + d), exact = merged[row * width + d];
            const uint16_t half = view->type == HEED_F32 ? 0 : half_of(view->type, exact);
            const float want = view->type == HEED_F32 ? exact : fuzz_value(view->type, &half, 0);
            if (memcmp(&got, &want, sizeof got) != 0)
                fuzz_fail("merged %s of sequence %lld, head %lld, token %lld, column %lld: %a, but attention has %a", name,
                          (long long)b, (long long)h, (long long)i, (long long)d, (double)want, (double)got);
        }
    }
}

/* The states of a call, in up to two parts of their chunks, give its output and log-sum-exp. */
static void check_states(const struct attention_fuzz *f, int64_t split) {
    const struct heed_attention *r = &f->request;
    const bool packed = r->query_starts;
    const int64_t chunks = (ref_columns(r) + 255) / 256, first = packed ? r->query_starts[0] : 0;
    const int64_t queries = packed ? r->query_starts[r->batch] - first : r->query_tokens;
    if (queries == 0)
        return;
    split = chunks > 0 ? split % (chunks + 1) : 0;
    struct heed_states_part parts[2] = {{.chunks = split,
                                         .output = as_input(&r->states.output, packed, first),
                                         .max = as_input(&r->states.max, packed, first),
                                         .sum = as_input(&r->states.sum, packed, first)}};
    parts[1] = parts[0];
    parts[1].chunks = chunks - split;
    parts[1].output.data = (const float *)parts[1].output.data + split * r->value_dim;
    parts[1].max.data = (const float *)parts[1].max.data + split;
    parts[1].sum.data = (const float *)parts[1].sum.data + split;
    struct heed_merge merge = {.batch = packed ? 1 : r->batch,
                               .num_heads = r->num_heads,
                               .query_tokens = queries,
                               .value_dim = r->value_dim,
                               .parts = 2,
                               .part = parts,
                               .sinks = r->sinks,
                               .compute = r->compute};
    const int64_t rows = merge.batch * merge.num_heads * merge.query_tokens;
    float *output = malloc((size_t)(rows * r->value_dim) * sizeof *output + 1), *lse = malloc((size_t)rows * sizeof *lse + 1);
    if (!output || !lse)
        fuzz_fail("no memory");
    merge.output = (struct heed_output){output, merge.num_heads * merge.query_tokens * r->value_dim,
                                        merge.query_tokens * r->value_dim, r->value_dim, HEED_F32};
    merge.lse = (struct heed_output){lse, merge.num_heads * merge.query_tokens, merge.query_tokens, 1, HEED_F32};
    if (heed_merge_states(&merge, &f->how.exec) != HEED_OK)
        fuzz_fail("heed_merge_states: %s", heed_error_message());
    must_be_merged(&r->output, output, &merge, r->value_dim, first, "output");
    must_be_merged(&r->lse, lse, &merge, 1, first, "lse");
    free(output);
    free(lse);
}

/* --- Valid requests --- */

static void fuzz_valid(struct input *in, struct attention_fuzz *f) {
    memory_begin_call(&f->memory);
    const enum heed_status status = run(&f->request, &f->how);
    memory_end_call(&f->memory, true);
    if (status == HEED_CANCELLED && f->how.questions < 0)
        return;
    if (status)
        fuzz_fail("a valid request is refused: %s", heed_error_message());
    f->how.exec.cancelled = NULL;
    must_equal_serial_scalar(f, f->bytes ? &f->request : &f->plain);
    if (f->request.batch == 0 || f->request.num_heads == 0)
        return;
    if (f->request.states.output.data)
        check_states(f, take_range(in, 0, 255));
    if (f->moderate && !f->large)
        check_against_oracle(f);
}

/* --- Hostile requests --- */

/* Whether what is read to validate the request is there: that the caller promises.  A table too large for any memory must be
 * refused. */
static bool may_be_validated(const struct attention_fuzz *f, const struct heed_attention *r) {
    const __int128 batch = r->batch, word = sizeof(int64_t);
    const struct heed_kv_cache *cache = r->cache;
    const struct memory *m = &f->memory;
    if (!memory_has(m, r->query_starts, (batch + 1) * word) || !memory_has(m, r->key_starts, (batch + 1) * word) ||
        !memory_has(m, r->key_lengths, batch * word))
        return false;
    if (r->alignment == HEED_ALIGN_OFFSETS && !memory_has(m, r->query_offsets, batch * word))
        return false;
    if (!cache)
        return true;
    if ((uintptr_t)cache % _Alignof(struct heed_kv_cache) || !memory_has(m, cache, sizeof *cache) || !fuzz_has_channels(m, cache))
        return false;
    if (r->query_tokens > 0 && r->num_heads > 0 && r->batch > 1000)
        return false; /* legal, but long: each sequence is looked at */
    const __int128 entries = (batch - 1) * cache->table_stride + cache->pages_per_sequence;
    return entries * (__int128)sizeof(int32_t) > PTRDIFF_MAX ||
           memory_has(m, cache->page_table, entries * (__int128)sizeof(int32_t));
}

/* By a plan for another request, whose workspace this one may outgrow. */
static enum heed_status run_other_plan(const struct heed_plan *plan, const struct heed_attention *hostile) {
    uint8_t *workspace = new_workspace(plan);
    const bool misaligned = hostile->mass_queries % 2 == 1;
    const enum heed_status status = heed_attention_run(plan, hostile, misaligned ? workspace + 4 : workspace);
    free(workspace);
    return status;
}

/* other: NULL, or a plan to run it by. */
static void run_hostile(struct attention_fuzz *f, const struct heed_attention *hostile, const struct heed_exec *exec,
                        const struct heed_plan *other) {
    const struct how how = {.exec = *exec, .rounding = FE_TONEAREST};
    memory_unmark(&f->memory);
    const enum marked marked = mark_attention(&f->memory, hostile);
    if (marked == MARKED_TWICE)
        fuzz_fail("an output that overlaps something, or a cache without keys that are seen, is accepted");
    if (marked == MARKED_OUTSIDE)
        return;
    memory_begin_call(&f->memory);
    const enum heed_status status = other ? run_other_plan(other, hostile) : run(hostile, &how);
    memory_end_call(&f->memory, status == HEED_OK || status == HEED_CANCELLED);
    if (status == HEED_OK)
        must_equal_serial_scalar(f, hostile);
    else if (status != HEED_CANCELLED && !other)
        fuzz_fail("planned, but then refused: %s", heed_error_message());
}

static void fuzz_hostile(struct input *in, struct attention_fuzz *f, int64_t changes) {
    struct heed_attention hostile = f->request;
    struct heed_exec exec = f->how.exec;
    struct heed_plan plan, other;
    if (heed_attention_plan(&f->request, &f->how.exec, &other))
        fuzz_fail("a valid request is refused: %s", heed_error_message());
    for (int64_t i = 0; i < changes; i++) {
        if (f->cache && take_chance(in, 3))
            overwrite(in, &f->memory, f->cache, sizeof *f->cache);
        else
            overwrite(in, &f->memory, &hostile, sizeof hostile);
    }
    make_bool(&hostile.causal);
    make_bool(&hostile.window.on);
    make_bool(&hostile.relative.bidirectional);
    make_hostile_exec(in, &exec);
    fuzz_describe(print_attention, &hostile);
    if (!may_be_validated(f, &hostile))
        return;
    memory_remember(&f->memory);
    const enum heed_status planned = heed_attention_plan(&hostile, &exec, &plan);
    const enum heed_status status = planned ? heed_attention(&hostile, &exec) : HEED_OK;
    memory_end_call(&f->memory, false);
    if (status != planned)
        fuzz_fail("planning gives status %d, calling gives %d", (int)planned, (int)status);
    if (planned == HEED_OK)
        check_explanation(&plan);
    if (planned == HEED_OK)
        run_hostile(f, &hostile, &exec, f->how.planned ? &other : NULL);
    else if (!*heed_error_message())
        fuzz_fail("refused without a message");
}

/* What the request uses, and with a cache the rows that it was written from. */
static void mark_both(struct attention_fuzz *f) {
    struct heed_attention inputs = f->plain;
    inputs.output = inputs.weights = inputs.lse = inputs.scores = inputs.mass = (struct heed_output){0};
    inputs.states = (struct heed_states){.output = {0}};
    if (mark_attention(&f->memory, &f->request) != MARKED || mark_attention(&f->memory, &inputs) != MARKED)
        fuzz_fail("the fuzzer itself has made a request that does not fit its memory");
}

void fuzz_attention(struct input *in) {
    struct attention_fuzz f = {.cache = NULL};
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 3) : 0;
    make_attention(in, &f);
    fuzz_describe(print_attention, &f.request);
    mark_both(&f);
    memory_scrub(&f.memory);
    if (changes)
        fuzz_hostile(in, &f, changes);
    else
        fuzz_valid(in, &f);
    memory_free(&f.memory);
}
