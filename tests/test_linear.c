/* heed_linear, and several at once: the bits of heed_gemm with floats as output, heed_activate and rounding, one after another by
 * the scalar kernels; for all types of weights, packed or not, in place or not, in the caller's workspace or not, in guarded
 * memory. */
#include "gemm.h"
#include "harness_attention.h"
#include "internal.h"
#include "stored.h"
#include "stored_matrix.h"
#include "suites.h"
#include "types.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

enum { AT_INPUT, AT_GATE, AT_RESIDUAL, AT_OUTPUT, VIEWS };

struct layer {
    struct heed_linear request; /* sizes, types, options; `weights.data` is contiguous */
    float *values[VIEWS];       /* contiguous, of values that their types hold; NULL: none */
    float *want;
    enum heed_type type[VIEWS];
    int over; /* the view that the output is, or AT_OUTPUT */
};

static int64_t columns_of(const struct layer *layer, int view) {
    return view == AT_INPUT ? layer->request.weights.inputs : layer->request.weights.outputs;
}

static float *new_values(struct rng *rng, enum heed_type type, int64_t n) {
    float *x = new_filled(rng, rng_range(rng, 0, 2) ? FILL_NORMAL : any_fill(rng), n);
    round_floats(type, x, n);
    return x;
}

/* Where f16 has denormals flushed, as an emulator does, products in pairs have other bits. */
static enum heed_type type_of_factor(struct rng *rng, enum heed_compute compute) {
    const enum heed_type type = any_type(rng);
    return type == HEED_F16 && compute != HEED_COMPUTE_F32 && compute != HEED_COMPUTE_I8 && !f16_ignores_flushing() ? HEED_BF16
                                                                                                                    : type;
}

static void make_weights(struct rng *rng, struct layer *layer) {
    struct heed_weights *w = &layer->request.weights;
    const int64_t n = w->outputs * w->inputs;
    if (w->type <= HEED_F16) {
        float *x = new_values(rng, w->type, n);
        char *data = malloc((size_t)type_span(w->type, n) + 1);
        for (int64_t i = 0; i < n; i++) {
            const uint16_t half = w->type == HEED_F32 ? 0 : half_of(w->type, x[i]);
            memcpy(data + type_span(w->type, i), w->type == HEED_F32 ? (const void *)&x[i] : &half, (size_t)type_bytes(w->type));
        }
        free(x);
        w->data = data;
    } else {
        char *data = new_weights(rng, w->type, n, false);
        keep_scales_normal(data, w->type, n);
        w->data = data;
        w->scales = w->type == HEED_I8 ? new_filled(rng, FILL_NORMAL, w->outputs) : NULL;
    }
    w->stride = w->inputs;
    w->bias = rng_range(rng, 0, 1) ? new_filled(rng, FILL_NORMAL, w->outputs) : NULL;
}

/* What the request means, step by step. */
static void make_want(struct layer *layer) {
    const struct heed_linear *r = &layer->request;
    const struct heed_exec exec = {.isa = "scalar", .threads = 1};
    const int64_t n = r->weights.outputs;
    layer->want = new_floats(r->rows * n);
    const struct heed_gemm gemm = {.m = r->rows,
                                   .n = n,
                                   .k = r->weights.inputs,
                                   .alpha = 1,
                                   .transpose_b = true,
                                   .compute = r->compute,
                                   .a = layer->values[AT_INPUT],
                                   .lda = r->weights.inputs,
                                   .b = r->weights.data,
                                   .b_type = r->weights.type,
                                   .ldb = r->weights.stride,
                                   .b_scales = r->weights.scales,
                                   .c = layer->want,
                                   .ldc = n};
    const struct heed_activate activate = {.rows = r->rows,
                                           .columns = n,
                                           .activation = r->activation,
                                           .input = {.data = layer->want, .token_stride = n},
                                           .bias = r->weights.bias,
                                           .gate = {.data = layer->values[AT_GATE], .token_stride = n},
                                           .residual = {.data = layer->values[AT_RESIDUAL], .token_stride = n},
                                           .output = {.data = layer->want, .token_stride = n}};
    ck_assert_msg(heed_gemm(&gemm, &exec) == HEED_OK, "%s", heed_error_message());
    ck_assert_msg(heed_activate(&activate, &exec) == HEED_OK, "%s", heed_error_message());
}

static void choose_sizes(struct rng *rng, struct heed_linear *r) {
    const int64_t block = type_block(r->weights.type);
    const bool few = rng_range(rng, 0, 1), edges = rng_range(rng, 0, 9) == 0;
    r->rows = edges ? rng_range(rng, 0, 1) : rng_range(rng, 1, few ? 14 : 120);
    r->weights.outputs = edges ? rng_range(rng, 0, 2) : rng_range(rng, 1, 150);
    r->weights.inputs = round_up(edges ? rng_range(rng, 0, 2) : rng_range(rng, 1, few ? 300 : 90), block);
}

typedef void size_choice(struct rng *rng, struct heed_linear *r);

static struct layer new_layer(struct rng *rng, size_choice *choose) {
    struct layer layer = {.over = (int)rng_range(rng, AT_GATE, AT_OUTPUT)};
    struct heed_linear *r = &layer.request;
    r->compute = rng_range(rng, 0, 1) ? HEED_COMPUTE_F32 : (enum heed_compute)rng_range(rng, HEED_COMPUTE_BF16, HEED_COMPUTE_I8);
    r->activation = (enum heed_activation)rng_range(rng, HEED_IDENTITY, HEED_SILU);
    r->weights.type = rng_range(rng, 0, 1) ? type_of_factor(rng, r->compute) : (enum heed_type)rng_range(rng, HEED_I8, HEED_MXFP4);
    if (r->compute == HEED_COMPUTE_I8)
        r->weights.type = (enum heed_type)rng_range(rng, HEED_Q8_0, HEED_MXFP4);
    choose(rng, r);
    make_weights(rng, &layer);
    for (int view = 0; view < VIEWS; view++) {
        layer.type[view] = view == AT_INPUT ? type_of_factor(rng, r->compute) : any_type(rng);
        if (view == AT_INPUT || (view != AT_OUTPUT && rng_range(rng, 0, 1)))
            layer.values[view] = new_values(rng, layer.type[view], r->rows * columns_of(&layer, view));
    }
    if (layer.over != AT_OUTPUT && !layer.values[layer.over])
        layer.over = AT_OUTPUT;
    layer.type[AT_OUTPUT] = layer.type[layer.over];
    make_want(&layer);
    return layer;
}

static void free_layer(struct layer *layer) {
    for (int view = 0; view < VIEWS; view++)
        free(layer->values[view]);
    const struct heed_weights *w = &layer->request.weights;
    const void *const all[] = {layer->want, w->data, w->scales, w->bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free((void *)(uintptr_t)all[i]);
}

static struct heed_input input_of(const struct stored_matrix *s, bool there) {
    return (struct heed_input){.data = there ? s->data : NULL, .token_stride = s->ld, .type = s->type};
}

/* In exactly as much memory as it asks for. */
static void run_in_workspace(const struct heed_linear *r, struct heed_exec exec, bool own) {
    const int64_t bytes = heed_linear_workspace_bytes(r, &exec);
    ck_assert_msg(bytes >= 0, "%s", heed_error_message());
    struct buffer workspace = buffer_new(bytes / 4, AT_END);
    if (own)
        exec.workspace = workspace.data, exec.workspace_bytes = bytes;
    ck_assert_msg(heed_linear(r, &exec) == HEED_OK, "%s", heed_error_message());
    buffer_free(&workspace);
}

/* A layer in guarded memory. */
struct placed {
    struct heed_linear request;
    struct stored_matrix s[VIEWS], panels;
    bool packed;
};

static struct placed place(const struct layer *layer, const struct heed_exec *exec, bool packed, struct rng *rng) {
    struct placed placed = {.request = layer->request, .packed = packed};
    struct heed_linear *r = &placed.request;
    struct stored_matrix *s = placed.s;
    for (int view = 0; view < VIEWS; view++) {
        s[view] = stored_matrix_new(rng, layer->type[view], r->rows, columns_of(layer, view));
        if (layer->values[view])
            stored_matrix_put(&s[view], layer->values[view]);
    }
    const struct stored_matrix *to = &s[layer->over];
    r->input = input_of(&s[AT_INPUT], true);
    r->gate = input_of(&s[AT_GATE], layer->values[AT_GATE]);
    r->residual = input_of(&s[AT_RESIDUAL], layer->values[AT_RESIDUAL]);
    r->output = (struct heed_output){.data = to->data, .token_stride = to->ld, .type = to->type};
    if (packed) {
        const enum heed_type unit = r->weights.type == HEED_F32 || r->weights.type == HEED_I8 ? r->weights.type : HEED_F16;
        placed.panels = stored_matrix_new(rng, unit, 1, heed_packed_bytes(&r->weights) / type_bytes(unit));
        ck_assert_msg(heed_pack_weights(&r->weights, placed.panels.data, exec) == HEED_OK, "%s", heed_error_message());
        r->weights.packed = placed.panels.data;
        r->weights.data = NULL, r->weights.stride = 0;
    }
    return placed;
}

static void must_be_done(const struct layer *layer, struct placed *placed) {
    for (int view = 0; view < VIEWS; view++) {
        const float *values = view == layer->over ? layer->want : layer->values[view];
        if (values)
            must_hold(&placed->s[view], values);
        buffer_free(&placed->s[view].memory);
    }
    if (placed->packed)
        buffer_free(&placed->panels.memory);
}

static void run(const struct layer *layer, struct heed_exec exec, bool packed, struct rng *rng) {
    struct placed placed = place(layer, &exec, packed, rng);
    const struct heed_linear *r = &placed.request;
    describe("linear", exec.isa, "%lld rows, %lld to %lld, %s x %s to %s%s%s, activation %d%s%s%s, place %d, %d threads",
             (long long)r->rows, (long long)r->weights.inputs, (long long)r->weights.outputs, type_name(r->input.type),
             type_name(r->weights.type), type_name(r->output.type), compute_name(r->compute), packed ? ", packed" : "",
             (int)r->activation, r->weights.bias ? ", bias" : "", r->gate.data ? ", gate" : "",
             r->residual.data ? ", residual" : "", layer->over, exec.threads);
    run_in_workspace(r, exec, rng_range(rng, 0, 1));
    must_be_done(layer, &placed);
}

START_TEST(test_linear_same_bits) {
    struct rng rng = rng_for("linear", _i);
    for (int64_t repeat = 0; repeat < test_count(200); repeat++) {
        struct layer layer = new_layer(&rng, choose_sizes);
        for (int i = 0; heed_kernels_usable(i); i++)
            for (int packed = 0; packed < 2; packed++)
                run(&layer, (struct heed_exec){.isa = heed_kernels_usable(i)->name, .threads = any_threads(&rng)}, packed, &rng);
        free_layer(&layer);
    }
}
END_TEST

/* Of any kinds at once, among them now and then one that takes all workers. */
enum { MOST_LAYERS = 9 };

static void run_group(const struct layer *layers, int64_t count, struct heed_exec exec, struct rng *rng) {
    struct placed placed[MOST_LAYERS];
    struct heed_linear requests[MOST_LAYERS];
    for (int64_t i = 0; i < count; i++) {
        placed[i] = place(&layers[i], &exec, rng_range(rng, 0, 1), rng);
        requests[i] = placed[i].request;
    }
    describe("linear_group", exec.isa, "%lld layers, %d threads", (long long)count, exec.threads);
    const int64_t bytes = heed_linear_group_workspace_bytes(requests, count, &exec);
    ck_assert_msg(bytes >= 0, "%s", heed_error_message());
    struct buffer workspace = buffer_new(bytes / 4, AT_END);
    if (rng_range(rng, 0, 1))
        exec.workspace = workspace.data, exec.workspace_bytes = bytes;
    ck_assert_msg(heed_linear_group(requests, count, &exec) == HEED_OK, "%s", heed_error_message());
    buffer_free(&workspace);
    for (int64_t i = 0; i < count; i++)
        must_be_done(&layers[i], &placed[i]);
}

static void make_large(struct rng *rng, struct heed_linear *r) {
    r->rows = rng_range(rng, 150, 250);
    r->weights.outputs = rng_range(rng, 150, 250);
    r->weights.inputs = 512;
}

START_TEST(test_linear_group) {
    struct rng rng = rng_for("linear group", _i);
    for (int64_t repeat = 0; repeat < test_count(30); repeat++) {
        struct layer layers[MOST_LAYERS];
        const int64_t count = rng_range(&rng, 0, MOST_LAYERS);
        const bool large = rng_range(&rng, 0, 5) == 0 && !test_quick();
        for (int64_t i = 0; i < count; i++)
            layers[i] = new_layer(&rng, large && i == 0 ? make_large : choose_sizes);
        for (int i = 0; heed_kernels_usable(i); i++)
            run_group(layers, count, (struct heed_exec){.isa = heed_kernels_usable(i)->name, .threads = any_threads(&rng)}, &rng);
        for (int64_t i = 0; i < count; i++)
            free_layer(&layers[i]);
    }
}
END_TEST

/* Query, key and value weights, packed one after another, as one matrix. */
START_TEST(test_linear_packed_together) {
    struct rng rng = rng_for("linear packed", 0);
    enum { INPUTS = 40 };
    static const int64_t outputs[] = {128, 64, 10};
    float *data = new_filled(&rng, FILL_NORMAL, 202 * INPUTS), *input = new_filled(&rng, FILL_NORMAL, 5 * INPUTS);
    float *packed = new_floats(256 * INPUTS), *got = new_floats(5 * 202), *want = new_floats(5 * 202);
    int64_t row = 0, bytes = 0;
    for (int i = 0; i < 3; i++) {
        const struct heed_weights part = {.outputs = outputs[i], .inputs = INPUTS, .data = data + row * INPUTS, .stride = INPUTS};
        ck_assert_int_eq(heed_pack_weights(&part, (char *)packed + bytes, NULL), HEED_OK);
        row += outputs[i], bytes += heed_packed_bytes(&part);
    }
    struct heed_linear r = {.rows = 5,
                            .weights = {.outputs = 202, .inputs = INPUTS, .data = data, .stride = INPUTS},
                            .input = {.data = input, .token_stride = INPUTS},
                            .output = {.data = want, .token_stride = 202}};
    ck_assert_int_eq(heed_linear(&r, NULL), HEED_OK);
    r.weights.packed = packed;
    r.output.data = got;
    ck_assert_int_eq(heed_linear(&r, NULL), HEED_OK);
    describe("linear", "best", "packed together");
    must(compare(SAME_BITS, got, want, 5, 202));
    float *const all[] = {data, input, packed, got, want};
    for (int i = 0; i < 5; i++)
        free(all[i]);
}
END_TEST

Suite *linear_suite(void) {
    Suite *suite = suite_create("linear");
    TCase *tests = tcase_create("linear");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_linear_same_bits, 0, test_quick() ? 1 : 3);
    tcase_add_loop_test(tests, test_linear_group, 0, test_quick() ? 1 : 3);
    tcase_add_test(tests, test_linear_packed_together);
    suite_add_tcase(suite, tests);
    return suite;
}
