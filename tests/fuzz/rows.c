/* heed_layer_norm, heed_rms_norm and heed_activate: functions of rows, in place or not.  Bits are compared with the scalar table,
 * whose accuracy other tests look after. */
#include "fuzz.h"

#include <inttypes.h>

enum { MOST_TENSORS = 4 };

/* What a request reads and writes, all of them matrices of as many rows and columns. */
struct tensors {
    int64_t rows, columns, heads;
    int outputs;                        /* the first of them */
    struct heed_input at[MOST_TENSORS]; /* data NULL: there is none */
    const float *shared[2];             /* one row for all rows */
};

static struct heed_input as_input(const struct heed_output *output) {
    return (struct heed_input){output->data, 0, output->head_stride, output->token_stride, output->type};
}

static bool is_same(const struct tensors *t, const struct heed_input *a, const struct heed_input *b) {
    return a->data == b->data && a->token_stride == b->token_stride && a->type == b->type &&
           (t->heads == 1 || a->head_stride == b->head_stride);
}

/* An input that is exactly an output has that role. */
static bool is_output(const struct tensors *t, int i) {
    for (int o = 0; o < t->outputs; o++)
        if (i < t->outputs || is_same(t, &t->at[i], &t->at[o]))
            return true;
    return false;
}

static enum marked mark_tensors(struct memory *memory, const struct tensors *t) {
    enum marked marked = MARKED;
    if (t->rows == 0 || t->columns == 0)
        return MARKED;
    if (is_large(t->rows, t->columns, 0) || is_large(t->rows, t->heads, 0) || is_large(t->rows * t->heads, t->columns, 0))
        return MARKED_OUTSIDE;
    for (int i = 0; i < 2 && marked == MARKED; i++) {
        const struct rows row = matrix_rows(t->shared[i], t->shared[i] ? 1 : 0, t->columns, 0);
        marked = memory_mark(memory, &row, ROLE_INPUT);
    }
    for (int i = MOST_TENSORS - 1; i >= 0 && marked == MARKED; i--) {
        const struct heed_input *view = &t->at[i];
        if (!view->data || (i >= t->outputs && is_output(t, i)))
            continue;
        struct rows rows = typed_rows(view->data, view->type, t->rows, t->columns, view->token_stride);
        const struct rows heads = typed_rows(view->data, view->type, t->heads, t->columns, view->head_stride);
        rows.count[1] = heads.count[2];
        rows.stride[1] = heads.stride[2];
        marked = memory_mark(memory, &rows, i < t->outputs ? ROLE_OUTPUT : ROLE_INPUT);
    }
    return marked;
}

static struct heed_input take_input(struct input *in, struct memory *memory, const char *name, int64_t rows, int64_t columns) {
    struct heed_input view = {.type = take_type(in), .token_stride = take_chance(in, 6) ? 0 : columns + take_range(in, 0, 3)};
    view.data = new_typed(in, memory, name, view.type, rows, columns, view.token_stride);
    return view;
}

static struct heed_output take_output(struct input *in, struct memory *memory, const char *name, int64_t rows, int64_t columns) {
    struct heed_output view = {.type = take_type(in), .token_stride = columns + take_range(in, 0, 3)};
    view.data = new_typed(in, memory, name, view.type, rows, columns, view.token_stride);
    return view;
}

static const float *take_shared(struct input *in, struct memory *memory, const char *name, int64_t columns) {
    return take_chance(in, 2) ? new_matrix(in, memory, name, 1, columns, 0, take_fill(in, false)) : NULL;
}

static int64_t take_columns(struct input *in) { return take_chance(in, 4) ? take_range(in, 0, 1000) : take_range(in, 0, 70); }

/* --- Normalisation --- */

static enum heed_status call_layer_norm(const void *request, const struct heed_exec *exec) {
    return heed_layer_norm(request, exec);
}
static enum heed_status call_rms_norm(const void *request, const struct heed_exec *exec) { return heed_rms_norm(request, exec); }

static enum marked mark_norm(struct memory *memory, const void *request) {
    const struct heed_norm *r = request;
    return mark_tensors(
        memory, &(struct tensors){.rows = r->rows,
                                  .columns = r->columns,
                                  .heads = r->heads > 1 ? r->heads : 1,
                                  .outputs = r->sum.data ? 2 : 1,
                                  .at = {as_input(&r->output), r->sum.data ? as_input(&r->sum) : r->input, r->input, r->residual},
                                  .shared = {r->gain, r->bias}});
}

static void print_views(FILE *file, const char *const *names, const struct heed_input *views) {
    for (int i = 0; i < MOST_TENSORS; i++)
        if (views[i].data)
            fprintf(file, ", %s of type %d, stride %" PRId64 "%s", names[i], (int)views[i].type, views[i].token_stride,
                    i > 0 && views[i].data == views[0].data ? ", where the output is" : "");
}

static void print_norm(FILE *file, const void *request) {
    static const char *const names[MOST_TENSORS] = {"output", "sum", "input", "residual"};
    const struct heed_norm *r = request;
    fprintf(file, "norm: %" PRId64 " x %" PRId64 " x %" PRId64 ", epsilon %g%s%s", r->rows, r->heads, r->columns,
            (double)r->epsilon, r->gain ? ", gain" : "", r->bias ? ", bias" : "");
    print_views(file, names, (const struct heed_input[]){as_input(&r->output), as_input(&r->sum), r->input, r->residual});
    fprintf(file, "\n");
}

void fuzz_norm(struct input *in) {
    static const struct function functions[] = {{call_layer_norm, print_norm, mark_norm, NULL, NULL},
                                                {call_rms_norm, print_norm, mark_norm, NULL, NULL}};
    static const float epsilons[] = {0.0f, 1e-5f, 1e-12f, 1.0f};
    struct memory memory = {.count = 0};
    const bool centers = take_chance(in, 2);
    struct heed_norm r = {.rows = take_range(in, 0, 9), .columns = take_columns(in), .epsilon = epsilons[take_range(in, 0, 3)]};
    r.heads = take_chance(in, 3) ? take_range(in, 1, 3) : 0;
    const int64_t width = r.heads > 1 ? r.heads * r.columns : r.columns;
    r.output = take_output(in, &memory, "output", r.rows, width);
    if (take_chance(in, 2))
        r.sum = take_output(in, &memory, "sum", r.rows, width);
    r.input = take_chance(in, 2) ? take_input(in, &memory, "input", r.rows, width) : as_input(&r.output);
    if (r.sum.data && take_chance(in, 2))
        r.residual = as_input(&r.sum);
    else if (take_chance(in, 2))
        r.residual = take_input(in, &memory, "residual", r.rows, width);
    r.output.head_stride = r.sum.head_stride = r.input.head_stride = r.residual.head_stride = r.columns;
    r.gain = take_shared(in, &memory, "gain", r.columns);
    r.bias = take_shared(in, &memory, "bias", r.columns);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    fuzz_request(in, &functions[centers ? 0 : 1], &memory, &r, changes == 0);
}

/* --- heed_activate --- */

static enum heed_status call_activate(const void *request, const struct heed_exec *exec) { return heed_activate(request, exec); }

static enum marked mark_activate(struct memory *memory, const void *request) {
    const struct heed_activate *r = request;
    return mark_tensors(memory, &(struct tensors){.rows = r->rows,
                                                  .columns = r->columns,
                                                  .heads = 1,
                                                  .outputs = 1,
                                                  .at = {as_input(&r->output), r->input, r->gate, r->residual},
                                                  .shared = {r->bias, NULL}});
}

static void print_activate(FILE *file, const void *request) {
    static const char *const names[MOST_TENSORS] = {"output", "input", "gate", "residual"};
    const struct heed_activate *r = request;
    fprintf(file, "activate: %d, %" PRId64 " x %" PRId64 "%s", (int)r->activation, r->rows, r->columns, r->bias ? ", bias" : "");
    print_views(file, names, (const struct heed_input[]){as_input(&r->output), r->input, r->gate, r->residual});
    fprintf(file, "\n");
}

void fuzz_activate(struct input *in) {
    static const struct function function = {call_activate, print_activate, mark_activate, NULL, NULL};
    struct memory memory = {.count = 0};
    struct heed_activate r = {.rows = take_range(in, 0, 9),
                              .columns = take_columns(in),
                              .activation = (enum heed_activation)take_range(in, HEED_IDENTITY, HEED_SILU)};
    r.output = take_output(in, &memory, "output", r.rows, r.columns);
    r.input = take_chance(in, 2) ? take_input(in, &memory, "input", r.rows, r.columns) : as_input(&r.output);
    if (take_chance(in, 2))
        r.gate = take_input(in, &memory, "gate", r.rows, r.columns);
    if (take_chance(in, 2))
        r.residual = take_input(in, &memory, "residual", r.rows, r.columns);
    r.bias = take_shared(in, &memory, "bias", r.columns);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    fuzz_request(in, &function, &memory, &r, changes == 0);
}
