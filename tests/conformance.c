/* A request of a public test set against the oracle and the scalar table; conformance.h. */
#include "conformance.h"
#include "internal.h"
#include "reference/reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct heed_input at(struct heed_input input, int64_t b, int64_t h, int64_t t) {
    input.data = (const float *)input.data + b * input.batch_stride + h * input.head_stride + t * input.token_stride;
    return input;
}

/* What the oracle says of one query, as a request of its own with one row. */
static void oracle_row(const struct heed_attention *request, int64_t b, int64_t h, int64_t i, double *output, double *lse) {
    struct heed_attention row = *request;
    const int64_t offset = ref_sequence_of(request, b).offset + i, kv_head = h / (request->num_heads / request->num_kv_heads);
    row.batch = row.num_heads = row.num_kv_heads = row.query_tokens = 1;
    row.alignment = HEED_ALIGN_OFFSETS;
    row.query_offsets = &offset;
    row.query = at(request->query, b, h, i);
    row.key = at(request->key, b, kv_head, 0);
    row.value = at(request->value, b, kv_head, 0);
    row.key_lengths = request->key_lengths ? request->key_lengths + b : NULL;
    row.alibi_slopes = request->alibi_slopes ? request->alibi_slopes + h : NULL;
    row.sinks = request->sinks ? request->sinks + h : NULL;
    if (row.mask.data)
        row.mask.data += b * row.mask.batch_stride + h * row.mask.head_stride + i * row.mask.query_stride;
    if (row.bias.data)
        row.bias.data += b * row.bias.batch_stride + h * row.bias.head_stride + i * row.bias.query_stride;
    ck_assert(ref_attention(&row, &(struct ref_attention_result){.output = output, .lse = lse}));
}

static void check_value(struct conformance *set, float got, double want) {
    set->accuracy.typical = true;
    must(accuracy_add(&set->accuracy, got, want, 1e-6 + 5e-7 * fabs(want), fmax(1, fabs(want))));
}

static void check_rows(const struct heed_attention *request, const float *output, const float *lse, struct conformance *set) {
    const int64_t heads = request->num_heads, tokens = request->query_tokens, width = request->value_dim;
    const int64_t rows = request->batch * heads * tokens, row_work = request->key_tokens * (request->head_dim + width + 40);
    /* A stride without common factors with the sizes meets all heads and places in a tile. */
    const int64_t most = max_i64(1, (test_quick() ? 500000 : 8000000) / row_work), step = rows <= most ? 1 : rows / most * 2 + 1;
    double *want = new_doubles(width), want_lse;
    for (int64_t row = rows > 0 ? set->requests % step : 0; row < rows; row += step, set->checked++) {
        oracle_row(request, row / tokens / heads, row / tokens % heads, row % tokens, want, &want_lse);
        for (int64_t d = 0; d < width; d++)
            check_value(set, output[row * width + d], want[d]);
        check_value(set, lse[row], want_lse);
    }
    set->rows += rows;
    free(want);
}

static void run(const struct heed_attention *request, const struct heed_exec *exec, enum layout layout, float *output, float *lse) {
    struct heed_attention a = *request;
    struct tensor o = tensor_output((int64_t[]){a.batch, a.num_heads, a.query_tokens, a.value_dim}, layout, AT_END);
    struct tensor l = tensor_output((int64_t[]){a.batch, a.num_heads, a.query_tokens, 1}, LAYOUT_BHSD, AT_END);
    a.output = (struct heed_output){o.data, o.stride[0], o.stride[1], o.stride[2], HEED_F32};
    a.lse = (struct heed_output){l.data, l.stride[0], l.stride[1], l.stride[2], HEED_F32};
    if (heed_attention(&a, exec) != HEED_OK)
        must(heed_error_message());
    must(tensor_take(&o, output));
    must(tensor_take(&l, lse));
    tensor_free(&o);
    tensor_free(&l);
}

bool conformance_skips(int64_t work) { return test_quick() && work > 15000000; }

void check_conformance(const struct heed_attention *request, struct conformance *set) {
    const struct heed_kernels *scalar = heed_kernels_usable(usable_tables() - 1);
    const int64_t rows = request->batch * request->num_heads * request->query_tokens;
    const int64_t work = rows * request->key_tokens * (request->head_dim + request->value_dim);
    if (conformance_skips(work))
        return;
    float *output = new_floats(rows * request->value_dim), *lse = new_floats(rows);
    const enum layout layout = (enum layout)(set->requests % LAYOUTS);
    run(request, &(struct heed_exec){.isa = heed_kernels_usable(0)->name, .threads = 1 + (int)set->requests % 3}, layout, output,
        lse);
    check_rows(request, output, lse, set);
    if (work <= (test_quick() ? 1000000 : 20000000)) {
        float *want = new_floats(rows * request->value_dim), *want_lse = new_floats(rows);
        run(request, &(struct heed_exec){.isa = scalar->name, .threads = 1}, LAYOUT_BHSD, want, want_lse);
        must(compare(SAME_BITS, output, want, rows, request->value_dim));
        if (log_is_exact(scalar))
            must(compare(SAME_BITS, lse, want_lse, rows, 1));
        set->compared++;
        free(want);
        free(want_lse);
    }
    set->requests++;
    free(output);
    free(lse);
}

void print_conformance(const struct conformance *set) {
    ck_assert_msg(set->checked > 0, "conformance %s: every request was left out", set->name);
    printf("  conformance %s: %" PRId64 " requests, %" PRId64 " of %" PRId64 " rows against the oracle, %" PRId64
           " requests against the scalar table\n",
           set->name, set->requests, set->checked, set->rows, set->compared);
    accuracy_print(&set->accuracy, set->name, heed_kernels_usable(0)->name);
}
