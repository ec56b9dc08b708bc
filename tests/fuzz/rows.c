/* heed_layer_norm, heed_rms_norm and heed_activate: functions of rows, in place or not.  Bits are compared with the scalar table,
 * whose accuracy other tests look after. */
#include "fuzz.h"

#include <inttypes.h>

enum { MOST_TENSORS = 4 };

/* What a request reads and writes, all of them matrices of as many rows and columns. */
struct tensors {
    int64_t rows, columns;
    int outputs; /* the first of them */
    struct {
        const float *data; /* NULL: there is none */
        int64_t stride;
    } at[MOST_TENSORS];
    const float *shared[2]; /* one row for all rows */
};

/* An input that is exactly an output has that role. */
static bool is_output(const struct tensors *t, int i) {
    for (int o = 0; o < t->outputs; o++)
        if (i < t->outputs || (t->at[i].data == t->at[o].data && t->at[i].stride == t->at[o].stride))
            return true;
    return false;
}

static enum marked mark_tensors(struct memory *memory, const struct tensors *t) {
    enum marked marked = MARKED;
    if (t->rows == 0 || t->columns == 0)
        return MARKED;
    if (is_large(t->rows, t->columns, 0))
        return MARKED_OUTSIDE;
    for (int i = 0; i < 2 && marked == MARKED; i++) {
        const struct rows row = matrix_rows(t->shared[i], t->shared[i] ? 1 : 0, t->columns, 0);
        marked = memory_mark(memory, &row, ROLE_INPUT);
    }
    for (int i = MOST_TENSORS - 1; i >= 0 && marked == MARKED; i--) {
        const struct rows rows = matrix_rows(t->at[i].data, t->at[i].data ? t->rows : 0, t->columns, t->at[i].stride);
        if (i < t->outputs || !is_output(t, i))
            marked = memory_mark(memory, &rows, i < t->outputs ? ROLE_OUTPUT : ROLE_INPUT);
    }
    return marked;
}

static const float *take_matrix(struct input *in, struct memory *memory, const char *name, int64_t rows, int64_t columns,
                                int64_t *stride) {
    *stride = take_chance(in, 6) ? 0 : columns + take_range(in, 0, 3);
    return new_matrix(in, memory, name, rows, columns, *stride, take_fill(in, false));
}

static float *take_output(struct input *in, struct memory *memory, const char *name, int64_t rows, int64_t columns,
                          int64_t *stride) {
    *stride = columns + take_range(in, 0, 3);
    return new_matrix(in, memory, name, rows, columns, *stride, take_fill(in, false));
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
    return mark_tensors(memory, &(struct tensors){.rows = r->rows,
                                                  .columns = r->columns,
                                                  .outputs = r->sum ? 2 : 1,
                                                  .at = {{r->output, r->output_stride},
                                                         {r->sum ? r->sum : r->input, r->sum ? r->sum_stride : r->input_stride},
                                                         {r->input, r->input_stride},
                                                         {r->residual, r->residual_stride}},
                                                  .shared = {r->gain, r->bias}});
}

static void print_norm(FILE *file, const void *request) {
    const struct heed_norm *r = request;
    fprintf(file,
            "norm: %" PRId64 " x %" PRId64 ", epsilon %g, strides of output %" PRId64 ", sum %" PRId64 ", input %" PRId64
            ", residual %" PRId64 "%s%s%s%s%s%s\n",
            r->rows, r->columns, (double)r->epsilon, r->output_stride, r->sum_stride, r->input_stride, r->residual_stride,
            r->sum ? ", sum" : "", r->residual ? ", residual" : "", r->gain ? ", gain" : "", r->bias ? ", bias" : "",
            r->output == r->input ? ", output over input" : "", r->sum && r->sum == r->input ? ", sum over input" : "");
}

void fuzz_norm(struct input *in) {
    static const struct function functions[] = {{call_layer_norm, print_norm, mark_norm, NULL, NULL},
                                                {call_rms_norm, print_norm, mark_norm, NULL, NULL}};
    static const float epsilons[] = {0.0f, 1e-5f, 1e-12f, 1.0f};
    struct memory memory = {.count = 0};
    const bool centers = take_chance(in, 2);
    struct heed_norm r = {.rows = take_range(in, 0, 9), .columns = take_columns(in), .epsilon = epsilons[take_range(in, 0, 3)]};
    r.output = take_output(in, &memory, "output", r.rows, r.columns, &r.output_stride);
    if (take_chance(in, 2))
        r.sum = take_output(in, &memory, "sum", r.rows, r.columns, &r.sum_stride);
    if (take_chance(in, 2))
        r.input = take_matrix(in, &memory, "input", r.rows, r.columns, &r.input_stride);
    else
        r.input = r.output, r.input_stride = r.output_stride;
    if (r.sum && take_chance(in, 2))
        r.residual = r.sum, r.residual_stride = r.sum_stride;
    else if (take_chance(in, 2))
        r.residual = take_matrix(in, &memory, "residual", r.rows, r.columns, &r.residual_stride);
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
                                                  .outputs = 1,
                                                  .at = {{r->output, r->output_stride},
                                                         {r->input, r->input_stride},
                                                         {r->gate, r->gate_stride},
                                                         {r->residual, r->residual_stride}},
                                                  .shared = {r->bias, NULL}});
}

static void print_activate(FILE *file, const void *request) {
    const struct heed_activate *r = request;
    fprintf(file,
            "activate: %d, %" PRId64 " x %" PRId64 ", strides of output %" PRId64 ", input %" PRId64 ", gate %" PRId64
            ", residual %" PRId64 "%s%s%s%s\n",
            (int)r->activation, r->rows, r->columns, r->output_stride, r->input_stride, r->gate_stride, r->residual_stride,
            r->bias ? ", bias" : "", r->gate ? ", gate" : "", r->residual ? ", residual" : "",
            r->output == r->input ? ", in place" : "");
}

void fuzz_activate(struct input *in) {
    static const struct function function = {call_activate, print_activate, mark_activate, NULL, NULL};
    struct memory memory = {.count = 0};
    struct heed_activate r = {.rows = take_range(in, 0, 9),
                              .columns = take_columns(in),
                              .activation = (enum heed_activation)take_range(in, HEED_IDENTITY, HEED_SILU)};
    r.output = take_output(in, &memory, "output", r.rows, r.columns, &r.output_stride);
    if (take_chance(in, 2))
        r.input = take_matrix(in, &memory, "input", r.rows, r.columns, &r.input_stride);
    else
        r.input = r.output, r.input_stride = r.output_stride;
    if (take_chance(in, 2))
        r.gate = take_matrix(in, &memory, "gate", r.rows, r.columns, &r.gate_stride);
    if (take_chance(in, 2))
        r.residual = take_matrix(in, &memory, "residual", r.rows, r.columns, &r.residual_stride);
    r.bias = take_shared(in, &memory, "bias", r.columns);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &r, sizeof r);
    fuzz_request(in, &function, &memory, &r, changes == 0);
}
