/* How the 2 to 4 dimensions of a file are batch, heads, tokens and width. */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>

static bool fail(struct npy_error *error, const char *path, const char *field, int64_t value, const char *rule, int64_t limit) {
    snprintf(error->text, sizeof error->text, "%.300s: %s is %" PRId64 ", must be %s %" PRId64, path, field, value, rule, limit);
    return false;
}

/* Heads side by side in the last dimension: [tokens, heads*width] or [batch, tokens, heads*width]. */
static void split(const struct npy *array, int64_t heads, struct run_layout *layout) {
    const int64_t *last = &array->shape[array->rank - 1];
    *layout = (struct run_layout){array->rank == 3 ? array->shape[0] : 1, heads, last[-1], last[0] / heads, 0, 0, 0};
    layout->head_stride = layout->width;
    layout->token_stride = last[0];
    layout->batch_stride = layout->tokens * layout->token_stride;
}

static void whole(const struct npy *array, struct run_layout *layout) {
    const int64_t *last = &array->shape[array->rank - 1];
    int64_t heads = array->rank >= 3 ? last[-2] : 1;
    *layout = (struct run_layout){array->rank == 4 ? array->shape[0] : 1, heads, last[-1], last[0], 0, 0, 0};
    layout->token_stride = layout->width;
    layout->head_stride = layout->tokens * layout->token_stride;
    layout->batch_stride = heads * layout->head_stride;
}

bool run_layout_of(const char *path, const struct npy *array, int64_t heads, struct run_layout *layout, struct npy_error *error) {
    int64_t width = array->shape[array->rank - 1];
    if (heads > 0 && array->rank == 4)
        return fail(error, path, "the number of dimensions", 4, "2 or, with --heads,", 3);
    if (heads > 0 && width % heads != 0)
        return fail(error, path, "the last dimension", width, "a multiple of the number of heads,", heads);
    if (heads > 0)
        split(array, heads, layout);
    else
        whole(array, layout);
    return layout->width > 0 || fail(error, path, "the last dimension", width, "at least", heads > 0 ? heads : 1);
}

bool run_layout_rows(const char *path, const struct run_call *call, int64_t columns, struct npy *array, struct run_layout *layout,
                     struct npy_error *error) {
    const struct npy *query = &call->query;
    const struct run_layout *of_query = &call->of_query;
    bool split_heads = call->options->heads > 0;
    *array = (struct npy){0};
    if (query->rank == 4 || (query->rank == 3 && split_heads))
        array->shape[array->rank++] = of_query->batch;
    if (query->rank > 2 || split_heads)
        array->shape[array->rank++] = of_query->heads;
    array->shape[array->rank++] = of_query->tokens;
    if (columns != RUN_NO_COLUMNS)
        array->shape[array->rank++] = columns;
    if (!npy_allocate(path, array, error)) /* from here on the products below are known to fit */
        return false;
    *layout = *of_query;
    layout->width = columns != RUN_NO_COLUMNS ? columns : 1;
    layout->token_stride = layout->width;
    layout->head_stride = layout->tokens * layout->width;
    layout->batch_stride = layout->heads * layout->head_stride;
    return true;
}

bool run_layout_output(const char *path, const struct run_call *call, struct npy *array, struct run_layout *layout,
                       struct npy_error *error) {
    int64_t width = call->of_value.width, heads = call->options->heads;
    if (heads > 0 && width > INT64_MAX / heads)
        return fail(error, path, "the width of a value", width, "at most", INT64_MAX / heads);
    static const enum npy_type types[] = {[HEED_F32] = NPY_FLOATS, [HEED_BF16] = NPY_BF16, [HEED_F16] = NPY_F16};
    *array = call->query;
    array->type = types[call->options->output_type];
    array->shape[array->rank - 1] = heads > 0 ? heads * width : width;
    return npy_allocate(path, array, error) && run_layout_of(path, array, heads, layout, error);
}
