/* The products of a block whose factors are arranged as the table's dots have them, in HEED_COMPUTE_BF16_AMX or in pairs: queries
 * and weights as rows of a, keys and values as panels of b.
 *
 * By AMX products take a sixth of what the exponentials of their scores do, so everything else counts: keys and values are arranged
 * once for all rows of the block, and a row's keys are not looked for one by one.  What a row does not see has a weight of 0, which
 * changes nothing unless the value is infinite or NaN; then rows are multiplied apart. */
#include <string.h>

#include "attention_block.h"
#include "internal.h"

/* Where the panel of b is that has key `at`, and value column j of key `at`. */
static float *key_panel(const struct attention_block *block, int at) {
    return block->keys + at / HEED_PANEL * HEED_PANEL * block->plan->depth;
}
static float *value_panel(const struct attention_block *block, int at, int64_t j) {
    const int elements = block->plan->dots->elements;
    return block->values + j / HEED_PANEL * block->plan->value_panel + at * HEED_PANEL / elements;
}

void heed_block_arrange_queries(const struct attention_block *block, int64_t from, int64_t rows) {
    const struct attention_plan *plan = block->plan;
    const struct heed_dots *dots = plan->dots ? plan->dots : plan->thin_dots;
    const int64_t head_dim = plan->request->head_dim;
    dots->load_a(block->source, HEED_F32, head_dim, rows, head_dim, block->query + from * plan->depth, plan->depth);
}

void heed_block_arrange_key_rows(const struct attention_block *block, int at, const void *rows, int n) {
    const struct heed_attention *request = block->plan->request;
    const struct heed_dots *dots = block->plan->dots;
    const int64_t head_dim = request->head_dim, ld = request->key.token_stride;
    const int in_panel = at % HEED_PANEL;
    if (in_panel == 0) {
        dots->load_b_transposed(rows, block->chunk->key_type, ld, head_dim, n, key_panel(block, at));
        return;
    }
    /* Whole panels are rounded: keys before the first that are seen were never stored. */
    memset(block->source, 0, (size_t)(in_panel * head_dim) * sizeof *block->source);
    block->kernels->widen_rows(rows, block->chunk->key_type, ld, n, head_dim, block->source + in_panel * head_dim, head_dim);
    dots->load_b_transposed(block->source, HEED_F32, head_dim, head_dim, in_panel + n, key_panel(block, at));
}

void heed_block_arrange_key_panel(const struct attention_block *block, int at, const void *panel, int width) {
    const int64_t head_dim = block->plan->request->head_dim;
    const struct heed_dots *dots = block->plan->dots;
    const int in_panel = at % HEED_PANEL;
    if (width == HEED_PANEL) {
        dots->load_b(panel, block->chunk->key_type, width, head_dim, width, key_panel(block, at));
        return;
    }
    if (in_panel && at <= block->chunk->begin) /* as above */
        memset(block->source, 0, (size_t)(head_dim * HEED_PANEL) * sizeof *block->source);
    block->kernels->widen_rows(panel, block->chunk->key_type, width, head_dim, width, block->source + in_panel, HEED_PANEL);
    if (in_panel + width == HEED_PANEL || at + width >= block->chunk->end)
        dots->load_b(block->source, HEED_F32, HEED_PANEL, head_dim, in_panel + width, key_panel(block, at));
}

static void load_value_rows(const struct attention_block *block, int at, const void *rows, enum heed_type type, int64_t ld, int n) {
    const int64_t value_dim = block->plan->request->value_dim;
    for (int64_t j = 0; j < value_dim; j += HEED_PANEL)
        block->plan->dots->load_b(type_at(type, rows, j), type, ld, n, (int)min_i64(HEED_PANEL, value_dim - j),
                                  value_panel(block, at, j));
}

/* Value `at` of the chunk, and in *n how many rows follow it in its piece, itself included. */
static const void *values_at(const struct attention_chunk *chunk, int at, int *n) {
    const int in_piece = at % chunk->piece_keys;
    *n = chunk->piece_keys - in_piece;
    return type_at(chunk->value_type, chunk->values[at / chunk->piece_keys], in_piece * chunk->value_ld);
}

/* The first n values of the dot from `at` on as floats, those before `first` as zeros. */
static void gather_values(const struct attention_block *block, int at, int first, int n) {
    const struct attention_chunk *chunk = block->chunk;
    const int64_t value_dim = block->plan->request->value_dim;
    for (int i = 0, left; i < n; i++) {
        float *to = block->source + i * value_dim;
        if (at + i < first)
            memset(to, 0, (size_t)value_dim * sizeof *to);
        else
            block->kernels->widen_rows(values_at(chunk, at + i, &left), chunk->value_type, 0, 1, value_dim, to, value_dim);
    }
}

/* Values [first, last) of the chunk, in whole dots, whose others are zeros. */
static void load_values(const struct attention_block *block, int first, int last) {
    const struct attention_chunk *chunk = block->chunk;
    for (int at = first / HEED_DOT * HEED_DOT, n; at < last; at += n) {
        const void *rows = at < first ? NULL : values_at(chunk, at, &n);
        n = at < first ? 0 : n >= last - at ? last - at : n / HEED_DOT * HEED_DOT;
        if (n > 0) {
            load_value_rows(block, at, rows, chunk->value_type, chunk->value_ld, n);
            continue;
        }
        n = smaller(HEED_DOT, last - at);
        gather_values(block, at, first, n);
        load_value_rows(block, at, block->source, HEED_F32, block->plan->request->value_dim, n);
    }
}

void heed_block_arrange_values(const struct attention_block *block) { load_values(block, block->chunk->begin, block->chunk->end); }

/* All tiles of `rows` rows, one under the other. */
static void multiply(const struct heed_dots *dots, struct heed_dot_tile tile, int rows) {
    const int each = dots->finishes ? rows : dots->tile_rows;
    for (int i = 0; i < rows; i += each) {
        tile.rows = smaller(each, rows - i);
        dots->tile(&tile);
        tile.a += each * tile.lda;
        tile.sums += each * tile.ldsums;
    }
}

/* Whether tiles of scores give the maxima of keys that all their rows see: scores stay as they are, and keys begin with a tile. */
static bool finds_maxima(const struct attention_block *block, int rows) {
    const int begin = block->chunk->begins[0];
    return block->plan->dots->finishes && !block->plan->has_passes && begin % block->plan->dots->tile_columns == 0 &&
           block->chunk->begins[rows - 1] == begin && begin < block->chunk->ends[0];
}

/* Tiles of rows [row, end), none of which sees all keys from `at` on, each times those that it sees: causal attention of 512 tokens
 * in pairs takes 0.97 of the time (Zen 4). */
static void multiply_seen(const struct attention_block *block, struct heed_dot_tile tile, int row, int end, int at) {
    const struct heed_dots *dots = block->plan->dots;
    for (; row < end; row += dots->tile_rows) {
        tile.rows = smaller(dots->tile_rows, end - row);
        tile.columns = smaller(dots->tile_columns, block->chunk->ends[row + tile.rows - 1] - at);
        dots->tile(&tile);
        tile.a += dots->tile_rows * tile.lda;
        tile.sums += dots->tile_rows * tile.ldsums;
    }
}

/* Rows [row, end) of those from row `from` of the block on, times the keys from `at` on.  Tiles that do not see all of these are
 * above those that do. */
static void score_columns(const struct attention_block *block, struct heed_dot_tile tile, int64_t from, int row, int end, int at,
                          bool maxima) {
    const struct heed_dots *dots = block->plan->dots;
    int whole = row;
    while (maxima && whole < end && block->chunk->ends[whole] < at + dots->tile_columns)
        whole = smaller(whole + dots->tile_rows, end);
    tile.a = block->query + (from + row) * tile.lda;
    tile.sums = block->chunk->scores + row * HEED_CHUNK + at;
    multiply_seen(block, tile, row, whole, at);
    tile.a += (whole - row) * tile.lda;
    tile.sums += (whole - row) * HEED_CHUNK;
    tile.row_max = maxima ? block->chunk->row_max + whole * HEED_SUM_LANES : NULL;
    multiply(dots, tile, end - whole);
}

/* The same, some rows at a time if something is fetched beside them. */
static void score_fetched(const struct attention_block *block, const struct heed_dot_tile *tile, int64_t from, int row, int end,
                          int at, bool maxima) {
    const struct attention_plan *plan = block->plan;
    const int each = plan->fetches_scores ? larger(HEED_FETCHED_ROWS, plan->dots->tile_rows) : end - row;
    for (int stop; row < end; row = stop) {
        stop = smaller(row + each, end);
        if (plan->fetches_scores)
            heed_block_fetch_scores(block, from + row, stop - row, block->chunk->start + at, tile->columns);
        score_columns(block, *tile, from, row, stop, at, maxima);
    }
}

/* Ranges never go back from row to row: the tiles that see some columns follow one another. */
void heed_block_score_dots(const struct attention_block *block, int64_t from, int rows) {
    const struct attention_plan *plan = block->plan;
    const struct heed_dots *dots = plan->dots;
    const int first = block->chunk->begins[0] / dots->tile_columns * dots->tile_columns, last = rows - 1;
    struct heed_dot_tile tile = {.columns = dots->tile_columns,
                                 .k = round_up(plan->request->head_dim, dots->depth),
                                 .lda = plan->depth,
                                 .ldsums = HEED_CHUNK};
    const bool maxima = finds_maxima(block, rows);
    for (int at = first, row = 0, end; at < block->chunk->ends[last]; at += dots->tile_columns) {
        while (block->chunk->ends[smaller(row + dots->tile_rows - 1, last)] <= at)
            row += dots->tile_rows;
        for (end = row; end < rows && block->chunk->begins[end] < at + dots->tile_columns;)
            end = smaller(end + dots->tile_rows, rows);
        tile.b = key_panel(block, at) + at % HEED_PANEL;
        tile.first = at == first;
        score_fetched(block, &tile, from, row, end, at, maxima);
    }
}

/* The chunk's outputs of rows [row, row + rows), row `from` of the block being the first, of which all see the keys [begin, end) or
 * part of them; weights are there for these, and values for whole dots. */
static void multiply_values(const struct attention_block *block, int64_t from, int row, int rows, int begin, int end) {
    const struct attention_plan *plan = block->plan;
    const struct heed_dots *dots = plan->dots;
    const int64_t ld = plan->output_ld, value_dim = plan->request->value_dim;
    const int first = begin / HEED_DOT * HEED_DOT;
    const bool apart = plan->keeps_states;
    float *sums = (apart ? block->chunk_output : block->output + from * ld) + row * ld;
    struct heed_dot_tile tile = {.k = max_i64(0, round_up(end, HEED_DOT) - first),
                                 .a = block->chunk->scores + row * HEED_CHUNK + first / dots->elements,
                                 .lda = HEED_CHUNK,
                                 .ldsums = ld,
                                 .keep_old = apart ? NULL : block->keep_old + row,
                                 .take_new = apart ? NULL : block->take_new + row};
    for (int64_t j = 0; j < value_dim; j += dots->tile_columns) {
        tile.columns = (int)min_i64(dots->tile_columns, value_dim - j);
        tile.b = value_panel(block, first, j) + j % HEED_PANEL;
        tile.sums = sums + j;
        multiply(dots, tile, rows);
    }
}

/* Tiles whose rows see the same keys together, others one by one. */
static void multiply_seen_values(const struct attention_block *block, int64_t from, int rows) {
    const int *begins = block->chunk->begins, *ends = block->chunk->ends, last = rows - 1;
    const int each = begins[0] == begins[last] && ends[0] == ends[last] ? rows : block->plan->dots->tile_rows;
    for (int i = 0, n; i < rows; i += n) {
        n = smaller(each, rows - i);
        multiply_values(block, from, i, n, begins[i], ends[i + n - 1]);
    }
}

/* Whether all values of the chunk are finite as bf16. */
static bool values_are_finite(const struct attention_block *block) {
    const float most = 0x1.fep+127f;
    const struct attention_chunk *chunk = block->chunk;
    const int64_t value_dim = block->plan->request->value_dim;
    for (int at = chunk->begin, n; at < chunk->end; at += n) {
        const void *rows = values_at(chunk, at, &n);
        n = smaller(smaller(n, chunk->end - at), HEED_DOT);
        block->kernels->widen_rows(rows, chunk->value_type, chunk->value_ld, n, value_dim, block->source, value_dim);
        if (!(block->kernels->max_size(block->source, n * value_dim) <= most))
            return false;
    }
    return true;
}

/* Each row with the values that it sees, the others being zeros. */
static void weight_rows_apart(const struct attention_block *block, int64_t from, int rows) {
    const struct attention_plan *plan = block->plan;
    for (int i = 0; i < rows; i++) {
        if (plan->keeps_states)
            memset(block->chunk_output + i * plan->output_ld, 0, (size_t)plan->output_ld * sizeof(float));
        if (block->chunk->begins[i] >= block->chunk->ends[i])
            continue;
        load_values(block, block->chunk->begins[i], block->chunk->ends[i]);
        multiply_values(block, from, i, 1, block->chunk->begins[i], block->chunk->ends[i]);
    }
    load_values(block, block->chunk->begin, block->chunk->end);
}

/* Whether weights of 0 leave out what rows do not see. */
static bool hides_values(struct attention_block *block, int rows) {
    struct attention_chunk *chunk = block->chunk;
    if (chunk->begins[rows - 1] == chunk->begin && chunk->ends[0] == chunk->end)
        return true;
    if (!chunk->values_checked) {
        chunk->values_finite = values_are_finite(block);
        chunk->values_checked = true;
    }
    return chunk->values_finite;
}

static void multiply_weights(struct attention_block *block, int64_t from, int rows) {
    if (block->chunk->begins[0] / HEED_DOT * HEED_DOT >= block->chunk->ends[rows - 1]) {
        if (block->plan->keeps_states)
            memset(block->chunk_output, 0, (size_t)(rows * block->plan->output_ld) * sizeof(float));
        return;
    }
    if (hides_values(block, rows))
        multiply_seen_values(block, from, rows);
    else
        weight_rows_apart(block, from, rows);
}

void heed_block_softmax_dots(struct attention_block *block, int64_t from, int rows) {
    const struct attention_plan *plan = block->plan;
    struct heed_dot_weights weights = heed_block_dot_weights(block, rows);
    heed_block_fetch(block, rows, weights.rows.next);
    const struct heed_merge_rows merge = heed_block_merge(block, from, rows);
    if (finds_maxima(block, rows) && !plan->keeps_states && hides_values(block, rows)) {
        plan->dots->weigh_values(&(struct heed_dot_values){.weights = weights,
                                                           .merge = merge,
                                                           .row_max = block->chunk->row_max,
                                                           .columns = plan->request->value_dim,
                                                           .panel_floats = plan->value_panel,
                                                           .b = value_panel(block, weights.first, 0),
                                                           .o = block->output + from * plan->output_ld,
                                                           .ldo = plan->output_ld});
        return;
    }
    plan->dots->weigh(&weights);
    if (plan->splits == 1)
        block->kernels->merge_rows(&merge);
    multiply_weights(block, from, rows);
}
