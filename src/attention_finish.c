/* What becomes of a block's rows once all their keys are taken in: outputs, lse, weights, and what the caller gets where a row sees
 * nothing. */
#include <math.h>

#include "attention_block.h"
#include "internal.h"
#include "merge.h"

static void fill(float *x, int64_t n, float value) {
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

/* Fills what lies outside a row's range, which it returns, in a row of weights or scores. */
static struct attention_range fill_unseen(const struct attention_block *block, const struct heed_output *view, int64_t row,
                                          float value) {
    struct attention_range range = heed_attention_range(block->plan->request, &block->sequence, heed_block_row(block, row).token);
    float *to = heed_block_output_row(block, view, row);
    if (range.begin >= range.end)
        range = (struct attention_range){0, 0};
    fill(to, range.begin, value);
    fill(to + range.end, block->plan->columns - range.end, value);
    return range;
}

static void finish_outputs(const struct attention_block *block, int64_t from, int64_t rows) {
    const struct heed_output *view = &block->plan->request->output;
    const int64_t stride = block->plan->group == 1 ? view->token_stride : view->head_stride, ld = block->plan->output_ld;
    for (int64_t i = from, n; view->data && i < from + rows; i += n) {
        n = min_i64(heed_block_rows_apart(block, i), from + rows - i);
        const int64_t row = heed_block_row_offset(block, view->batch_stride, view->head_stride, view->token_stride, i);
        block->kernels->finish_rows(block->output + i * ld, ld, block->sum + i, n, block->plan->request->value_dim,
                                    type_at_output(view->type, view->data, row), view->type, stride);
    }
}

/* What is wanted of a row beside its output. */
static void finish_row(const struct attention_block *block, float *shared, int64_t row) {
    const struct heed_attention *request = block->plan->request;
    const float max = block->max[row], sum = block->sum[row];
    if (request->lse.data)
        *heed_block_output_row(block, &request->lse, row) = heed_log_sum_exp(max, sum);
    if (request->weights.data) {
        const struct attention_range range = fill_unseen(block, &request->weights, row, 0.0f);
        block->kernels->weights_row(heed_block_output_row(block, &request->weights, row) + range.begin, range.end - range.begin,
                                    max, sum);
    }
    if (request->scores.data)
        fill_unseen(block, &request->scores, row, -INFINITY);
    if (request->mass.data) {
        float *final = heed_block_row_max_sum(block, shared, row);
        final[0] = max;
        final[1] = sum;
    }
}

void heed_block_finish_rows(const struct attention_block *block, float *shared, int64_t from, int64_t rows) {
    const struct heed_attention *request = block->plan->request;
    const bool has_more = request->lse.data || request->weights.data || request->scores.data || request->mass.data;
    if (request->states.output.data)
        heed_block_keep_unseen_states(block, from, rows);
    finish_outputs(block, from, rows);
    for (int64_t row = from; has_more && row < from + rows; row++)
        finish_row(block, shared, row);
}
