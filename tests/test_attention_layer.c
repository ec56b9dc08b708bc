/* heed_attention_layer: the bits of its steps, called one after another on the scalar table; batched and packed, with and without a
 * cache, in the caller's workspace and not, in guarded memory. */
#include "harness_attention.h"
#include "stored.h"
#include "stored_matrix.h"
#include "suites.h"
#include "weights.h"
#include "types.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BATCH = 4, PAGE_TOKENS = 16, MOST_TOKENS = 40, PAGES_PER_SEQUENCE = 6, MOST_POSITIONS = 100 };

struct layer {
    struct heed_attention_layer request; /* with weights; data of input, residual and output are not set */
    struct heed_kv_cache cache;
    int64_t starts[MOST_BATCH + 1], positions[MOST_BATCH], lengths[MOST_BATCH];
    int64_t rows, columns;
    float *input, *residual, *want; /* contiguous */
    char *pages, *want_pages;       /* before, and after the call */
    int64_t bytes;                  /* of all pages */
    float *cos, *sin;               /* NULL: no rope */
    float *gain[2];                 /* of queries and keys; NULL: no norm */
};

/* As bytes, weights are blocks of them. */
static struct heed_weights new_layer_weights(struct rng *rng, enum heed_compute compute, int64_t outputs, int64_t inputs) {
    const enum heed_type type = compute != HEED_COMPUTE_I8 ? HEED_F32 : any_blocks(rng, inputs);
    return (struct heed_weights){.outputs = outputs,
                                 .inputs = inputs,
                                 .data = type == HEED_F32 ? (void *)new_filled(rng, FILL_NORMAL, outputs * inputs)
                                                          : new_weights(rng, type, outputs * inputs, false),
                                 .type = type,
                                 .stride = inputs,
                                 .bias = rng_range(rng, 0, 1) ? new_filled(rng, FILL_NORMAL, outputs) : NULL};
}

static void choose_sizes(struct rng *rng, struct heed_attention *a) {
    a->batch = rng_range(rng, 0, MOST_BATCH);
    a->num_kv_heads = rng_range(rng, 1, 3);
    a->num_heads = a->num_kv_heads * rng_range(rng, 1, 3);
    a->head_dim = rng_range(rng, 1, 24);
    a->value_dim = rng_range(rng, 0, 1) ? a->head_dim : rng_range(rng, 1, 20);
    a->query_tokens = rng_range(rng, 0, 5) ? rng_range(rng, 0, MOST_TOKENS) : 1;
    a->causal = rng_range(rng, 0, 1);
    a->compute = rng_range(rng, 0, 2) ? HEED_COMPUTE_F32 : (enum heed_compute)rng_range(rng, HEED_COMPUTE_BF16, HEED_COMPUTE_I8);
    if (a->compute == HEED_COMPUTE_I8)
        a->value_dim = TYPE_BLOCK;
}

static void make_starts(struct rng *rng, struct layer *layer) {
    struct heed_attention *a = &layer->request.attention;
    layer->rows = a->batch * a->query_tokens;
    if (rng_range(rng, 0, 1) || a->batch == 0)
        return;
    layer->rows = a->query_tokens;
    for (int64_t b = 1; b < a->batch; b++)
        layer->starts[b] = rng_range(rng, layer->starts[b - 1], a->query_tokens);
    layer->starts[a->batch] = a->query_tokens;
    a->query_starts = layer->starts;
}

/* Tokens that came before are what the pages hold: zeros are as good as any. */
static void make_cache(struct rng *rng, struct layer *layer) {
    struct heed_attention *a = &layer->request.attention;
    layer->cache = (struct heed_kv_cache){.key_type = rng_range(rng, 0, 1) ? any_type(rng) : HEED_I8,
                                          .value_type = any_type(rng),
                                          .num_pages = a->batch * PAGES_PER_SEQUENCE,
                                          .page_tokens = PAGE_TOKENS,
                                          .num_kv_heads = a->num_kv_heads,
                                          .head_dim = a->head_dim,
                                          .value_dim = a->value_dim,
                                          .pages_per_sequence = PAGES_PER_SEQUENCE};
    layer->bytes = heed_kv_page_bytes(&layer->cache) * layer->cache.num_pages;
    layer->pages = calloc(1, (size_t)layer->bytes + 1);
    layer->want_pages = calloc(1, (size_t)layer->bytes + 1);
    a->cache = &layer->cache;
    a->key_tokens = PAGE_TOKENS * PAGES_PER_SEQUENCE;
    a->alignment = HEED_ALIGN_OFFSETS;
    a->query_offsets = layer->request.positions = layer->positions;
    a->key_lengths = layer->lengths;
    for (int64_t b = 0; b < a->batch; b++) {
        const int64_t tokens = a->query_starts ? layer->starts[b + 1] - layer->starts[b] : a->query_tokens;
        layer->positions[b] = rng_range(rng, 0, a->key_tokens - tokens);
        layer->lengths[b] = layer->positions[b] + tokens;
    }
}

static void make_rope(struct rng *rng, struct layer *layer) {
    struct heed_attention_layer *r = &layer->request;
    const int64_t pairs = rng_range(rng, 0, r->attention.head_dim / 2);
    layer->cos = new_filled(rng, FILL_NORMAL, MOST_POSITIONS * pairs);
    layer->sin = new_filled(rng, FILL_NORMAL, MOST_POSITIONS * pairs);
    r->rope = (struct heed_rope_tables){.pairs = pairs,
                                        .cos = layer->cos,
                                        .sin = layer->sin,
                                        .table_stride = pairs,
                                        .positions = MOST_POSITIONS,
                                        .interleaved = rng_range(rng, 0, 1)};
    for (int64_t b = 0; !r->attention.cache && b < r->attention.batch; b++)
        layer->positions[b] = rng_range(rng, 0, MOST_POSITIONS - MOST_TOKENS);
    r->positions = layer->positions;
}

static void make_norms(struct rng *rng, struct layer *layer) {
    struct heed_head_norm *norm = &layer->request.head_norm;
    for (int i = 0; i < 2; i++)
        layer->gain[i] = rng_range(rng, 0, 2) ? NULL : new_filled(rng, FILL_NORMAL, layer->request.attention.head_dim);
    *norm = (struct heed_head_norm){layer->gain[0], layer->gain[1], rng_range(rng, 0, 1) ? 1e-5f : 0.5f};
}

/* Of queries, keys and values. */
static int64_t row_width(const struct layer *layer) { return layer->request.qkv.outputs + layer->request.value.outputs; }

/* A head at a time. */
static void normalise(const struct layer *layer, float *rows, int64_t num_heads, const float *gain, const struct heed_exec *exec) {
    const int64_t width = row_width(layer), head_dim = layer->request.attention.head_dim;
    for (int64_t head = 0; gain && head < num_heads; head++) {
        float *data = rows + head * head_dim;
        const struct heed_norm norm = {.rows = layer->rows,
                                       .columns = head_dim,
                                       .epsilon = layer->request.head_norm.epsilon,
                                       .gain = gain,
                                       .input = {.data = data, .token_stride = width},
                                       .output = {.data = data, .token_stride = width}};
        ck_assert_msg(heed_rms_norm(&norm, exec) == HEED_OK, "%s", heed_error_message());
    }
}

static void turn(const struct layer *layer, float *rows, int64_t num_heads, const struct heed_exec *exec) {
    const struct heed_attention_layer *r = &layer->request;
    const int64_t width = row_width(layer), head_dim = r->attention.head_dim, batch_stride = r->attention.query_tokens * width;
    const struct heed_rope rope = {.batch = r->attention.batch,
                                   .num_heads = num_heads,
                                   .tokens = r->attention.query_tokens,
                                   .head_dim = head_dim,
                                   .starts = r->attention.query_starts,
                                   .positions = r->positions,
                                   .tables = r->rope,
                                   .input = {rows, batch_stride, head_dim, width, HEED_F32},
                                   .output = {rows, batch_stride, head_dim, width, HEED_F32}};
    ck_assert_msg(heed_rope(&rope, exec) == HEED_OK, "%s", heed_error_message());
}

/* Each step by itself, from rows of floats to rows of floats. */
static void make_want(struct layer *layer) {
    const struct heed_exec exec = {.isa = "scalar", .threads = 1};
    const struct heed_attention_layer *r = &layer->request;
    struct heed_attention a = r->attention;
    const int64_t width = row_width(layer), inner = r->out.inputs;
    float *qkv = new_floats(layer->rows * width), *heads = new_floats(layer->rows * inner);
    struct heed_linear first = {.rows = layer->rows,
                                .weights = r->qkv,
                                .compute = a.compute,
                                .input = {.data = layer->input, .token_stride = r->qkv.inputs},
                                .output = {.data = qkv, .token_stride = width}};
    ck_assert_msg(heed_linear(&first, &exec) == HEED_OK, "%s", heed_error_message());
    first.weights = r->value, first.output.data = qkv + r->qkv.outputs;
    ck_assert_msg(r->value.outputs == 0 || heed_linear(&first, &exec) == HEED_OK, "%s", heed_error_message());
    const int64_t batch_stride = a.query_tokens * width;
    a.query = (struct heed_input){qkv, batch_stride, a.head_dim, width, HEED_F32};
    const struct heed_input key = {qkv + a.num_heads * a.head_dim, batch_stride, a.head_dim, width, HEED_F32};
    const struct heed_input value = {qkv + (a.num_heads + a.num_kv_heads) * a.head_dim, batch_stride, a.value_dim, width, HEED_F32};
    a.output = (struct heed_output){heads, a.query_tokens * inner, a.value_dim, inner, HEED_F32};
    normalise(layer, qkv, a.num_heads, layer->gain[0], &exec);
    normalise(layer, qkv + a.num_heads * a.head_dim, a.num_kv_heads, layer->gain[1], &exec);
    turn(layer, qkv, a.num_heads, &exec);
    if (a.cache) {
        layer->cache.data = layer->want_pages;
        const struct heed_kv_append append = {.batch = a.batch,
                                              .tokens = a.query_tokens,
                                              .starts = a.query_starts,
                                              .positions = r->positions,
                                              .rope = r->rope,
                                              .key = key,
                                              .value = value,
                                              .cache = a.cache};
        ck_assert_msg(heed_kv_append(&append, &exec) == HEED_OK, "%s", heed_error_message());
    } else {
        turn(layer, qkv + a.num_heads * a.head_dim, a.num_kv_heads, &exec);
        a.key = key, a.value = value;
        a.key_tokens = a.query_tokens, a.key_starts = a.query_starts;
    }
    ck_assert_msg(heed_attention(&a, &exec) == HEED_OK, "%s", heed_error_message());
    const struct heed_linear last = {.rows = layer->rows,
                                     .weights = r->out,
                                     .compute = r->attention.compute,
                                     .input = {.data = heads, .token_stride = inner},
                                     .residual = {.data = layer->residual, .token_stride = layer->columns},
                                     .output = {.data = layer->want, .token_stride = layer->columns}};
    ck_assert_msg(heed_linear(&last, &exec) == HEED_OK, "%s", heed_error_message());
    free(qkv);
    free(heads);
}

/* Values among the others, or by weights of their own, whose type may be another. */
static void make_first_weights(struct rng *rng, struct layer *layer, int64_t inputs) {
    const struct heed_attention *a = &layer->request.attention;
    const int64_t values = a->num_kv_heads * a->value_dim, apart = rng_range(rng, 0, 2) ? 0 : values;
    const int64_t outputs = (a->num_heads + a->num_kv_heads) * a->head_dim + values - apart;
    layer->request.qkv = new_layer_weights(rng, a->compute, outputs, inputs);
    if (apart > 0)
        layer->request.value = new_layer_weights(rng, a->compute, apart, inputs);
}

static struct layer *new_layer(struct rng *rng) {
    struct layer *layer = calloc(1, sizeof *layer);
    struct heed_attention *a = &layer->request.attention;
    choose_sizes(rng, a);
    const bool of_blocks = a->compute == HEED_COMPUTE_I8;
    const int64_t blocks = rng_range(rng, 0, 3) ? TYPE_BLOCK * rng_range(rng, 0, 3) : K_BLOCK;
    const int64_t inputs = of_blocks ? blocks : rng_range(rng, 0, 50);
    make_starts(rng, layer);
    if (rng_range(rng, 0, 1))
        make_cache(rng, layer);
    if (rng_range(rng, 0, 1))
        make_rope(rng, layer);
    make_norms(rng, layer);
    layer->columns = rng_range(rng, 0, 50);
    make_first_weights(rng, layer, inputs);
    layer->request.out = new_layer_weights(rng, a->compute, layer->columns, a->num_heads * a->value_dim);
    layer->input = new_filled(rng, FILL_NORMAL, layer->rows * inputs);
    layer->residual = rng_range(rng, 0, 1) ? new_filled(rng, FILL_NORMAL, layer->rows * layer->columns) : NULL;
    layer->want = new_floats(layer->rows * layer->columns);
    make_want(layer);
    return layer;
}

static void free_layer(struct layer *layer) {
    const struct heed_weights *w[] = {&layer->request.qkv, &layer->request.value, &layer->request.out};
    for (int i = 0; i < 3; i++) {
        free((void *)(uintptr_t)w[i]->data);
        free((void *)(uintptr_t)w[i]->bias);
    }
    void *const all[] = {layer->input, layer->residual, layer->want,    layer->pages,   layer->want_pages,
                         layer->cos,   layer->sin,      layer->gain[0], layer->gain[1], layer};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void call(const struct heed_attention_layer *r, struct heed_exec exec, bool own) {
    const int64_t bytes = heed_attention_layer_workspace_bytes(r, &exec);
    ck_assert_msg(bytes >= 0, "%s", heed_error_message());
    struct buffer workspace = buffer_new(bytes / 4, AT_END);
    if (own)
        exec.workspace = workspace.data, exec.workspace_bytes = bytes;
    ck_assert_msg(heed_attention_layer(r, &exec) == HEED_OK, "%s", heed_error_message());
    buffer_free(&workspace);
}

static void run(struct layer *layer, struct heed_exec exec, struct rng *rng) {
    struct heed_attention_layer r = layer->request;
    struct stored_matrix input = stored_matrix_new(rng, HEED_F32, layer->rows, r.qkv.inputs),
                         residual = stored_matrix_new(rng, HEED_F32, layer->rows, layer->columns),
                         output = stored_matrix_new(rng, HEED_F32, layer->rows, layer->columns);
    const bool in_place = layer->residual && rng_range(rng, 0, 1);
    const struct stored_matrix *to = in_place ? &residual : &output;
    char *pages = malloc((size_t)layer->bytes + 1);
    memcpy(pages, layer->bytes ? layer->pages : "", (size_t)layer->bytes);
    layer->cache.data = pages;
    stored_matrix_put(&input, layer->input);
    if (layer->residual)
        stored_matrix_put(&residual, layer->residual);
    r.input = (struct heed_input){.data = input.data, .token_stride = input.ld};
    r.residual = (struct heed_input){.data = layer->residual ? residual.data : NULL, .token_stride = residual.ld};
    r.output = (struct heed_output){.data = to->data, .token_stride = to->ld};
    describe("attention_layer", exec.isa, "%lld sequences%s, %lld tokens, %lld heads on %lld of %lld and %lld%s%s%s%s, %d threads",
             (long long)r.attention.batch, r.attention.query_starts ? " packed" : "", (long long)r.attention.query_tokens,
             (long long)r.attention.num_heads, (long long)r.attention.num_kv_heads, (long long)r.attention.head_dim,
             (long long)r.attention.value_dim, r.attention.cache ? ", cache" : "", r.rope.pairs ? ", rope" : "",
             layer->gain[0] || layer->gain[1] ? ", norm" : "", in_place ? ", in place" : "", exec.threads);
    call(&r, exec, rng_range(rng, 0, 1));
    must_hold(to, layer->want);
    must_hold(&input, layer->input);
    if (layer->bytes)
        ck_assert_msg(memcmp(pages, layer->want_pages, (size_t)layer->bytes) == 0, "other pages");
    buffer_free(&input.memory);
    buffer_free(&residual.memory);
    buffer_free(&output.memory);
    free(pages);
}

START_TEST(test_attention_layer_same_bits) {
    struct rng rng = rng_for("attention layer", _i);
    for (int64_t repeat = 0; repeat < test_count(150); repeat++) {
        struct layer *layer = new_layer(&rng);
        for (int i = 0; heed_kernels_usable(i); i++)
            run(layer, (struct heed_exec){.isa = heed_kernels_usable(i)->name, .threads = any_threads(&rng)}, &rng);
        free_layer(layer);
    }
}
END_TEST

Suite *attention_layer_suite(void) {
    Suite *suite = suite_create("attention_layer");
    TCase *tests = tcase_create("attention layer");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_attention_layer_same_bits, 0, test_quick() ? 1 : 3);
    suite_add_tcase(suite, tests);
    return suite;
}
