/* A few tokens without options: too little work for the machinery of plan, tasks and blocks, which takes 0.5 us.
 *
 * One chunk of keys with the same kernels on fixed arrays.  The first chunk's merge into nothing, by the rules of arithmetic.md,
 * multiplies by exp2(0) = 1 and adds 0, so leaving it out has the same bits.  Checks here are sure or step aside: whatever they do
 * not accept goes the long way, which knows exactly and has the messages. */
#include "attention_small.h"

#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "attention.h"
#include "cpu.h"
#include "internal.h"

enum {
    MOST_ROWS = 16, /* of a key/value head */
    MOST_KEYS = 32,
    MOST_WIDTH = HEED_PANEL,
    MOST_HEADS = 1024,           /* of all sequences together */
    MOST_PRODUCTS = 1000 * 1000, /* fewer than are worth a thread */
    MOST_STRIDE = 1 << 30,       /* so that no extent overflows */
};

enum {
    MOST_FLOATS = 2 * MOST_ROWS * MOST_WIDTH + 2 * MOST_KEYS * MOST_WIDTH + MOST_ROWS * (HEED_CHUNK + HEED_SUM_LANES + 2),
};

/* The pointers and numbers that ask for something, all of them 0 in a plain request. */
static bool has_options(const struct heed_attention *r) {
    const uintptr_t pointers = (uintptr_t)r->query_starts | (uintptr_t)r->key_starts | (uintptr_t)r->key_lengths |
                               (uintptr_t)r->query_offsets | (uintptr_t)r->mask.data | (uintptr_t)r->tree.words |
                               (uintptr_t)r->bias.data | (uintptr_t)r->alibi_slopes | (uintptr_t)r->relative.table |
                               (uintptr_t)r->sinks | (uintptr_t)r->cache | (uintptr_t)r->weights.data | (uintptr_t)r->lse.data |
                               (uintptr_t)r->scores.data | (uintptr_t)r->states.output.data | (uintptr_t)r->states.max.data |
                               (uintptr_t)r->states.sum.data | (uintptr_t)r->mass.data;
    const int64_t numbers = r->key_position | r->window.on | r->window.left | r->window.right | r->mass_queries |
                            (int64_t)r->score_stage | (int64_t)r->compute |
                            ((int64_t)r->alignment & ~(int64_t)HEED_ALIGN_BOTTOM_RIGHT);
    return pointers || numbers || r->softcap != 0.0f;
}

static bool within(int64_t n, int64_t most) { return (uint64_t)n - 1 < (uint64_t)most; }

static bool has_small_sizes(const struct heed_attention *r) {
    if (!within(r->batch, MOST_HEADS) || !within(r->num_heads, MOST_HEADS) || !within(r->num_kv_heads, r->num_heads) ||
        !within(r->query_tokens, MOST_ROWS) || !within(r->key_tokens, MOST_KEYS) || !within(r->head_dim, MOST_WIDTH) ||
        !within(r->value_dim, MOST_WIDTH) || !isfinite(r->scale))
        return false;
    const unsigned group = r->num_heads == r->num_kv_heads ? 1 : (unsigned)r->num_heads / (unsigned)r->num_kv_heads;
    const int64_t heads = r->batch * r->num_heads;
    return group * (unsigned)r->num_kv_heads == (unsigned)r->num_heads && group * r->query_tokens <= MOST_ROWS &&
           heads <= MOST_HEADS && heads * r->query_tokens * r->key_tokens * (r->head_dim + r->value_dim) < MOST_PRODUCTS;
}

/* Bytes from the begin of a tensor to its end; 0: not sure that it is a legal one. */
static uintptr_t extent(const struct heed_attention *r, const struct heed_input *view, int64_t heads, int64_t tokens,
                        int64_t width) {
    const uintptr_t address = (uintptr_t)view->data;
    const uint64_t strides = (uint64_t)(view->batch_stride | view->head_stride | view->token_stride);
    const uintptr_t bytes = (uintptr_t)type_bytes(view->type);
    if (!address || address & (bytes - 1) || address >> 62 || strides >= MOST_STRIDE || (unsigned)view->type > HEED_F16)
        return 0;
    return bytes * (uintptr_t)((r->batch - 1) * view->batch_stride + (heads - 1) * view->head_stride +
                               (tokens - 1) * view->token_stride + width);
}

/* Dimensions from the inner to the outer one; each steps over what is within. */
static bool steps_over(int64_t *extent, int64_t count, int64_t stride) {
    const bool over = count == 1 || stride >= *extent;
    *extent += (count - 1) * stride;
    return over;
}

static bool rows_are_apart(const struct heed_attention *r) {
    const struct heed_output *o = &r->output;
    int64_t tokens_in_heads = r->value_dim, heads_in_tokens = r->value_dim;
    return (steps_over(&tokens_in_heads, r->query_tokens, o->token_stride) &&
            steps_over(&tokens_in_heads, r->num_heads, o->head_stride) &&
            steps_over(&tokens_in_heads, r->batch, o->batch_stride)) ||
           (steps_over(&heads_in_tokens, r->num_heads, o->head_stride) &&
            steps_over(&heads_in_tokens, r->query_tokens, o->token_stride) &&
            steps_over(&heads_in_tokens, r->batch, o->batch_stride));
}

static bool has_legal_memory(const struct heed_attention *r) {
    const struct heed_input output = view_of_output(&r->output);
    const uintptr_t written = extent(r, &output, r->num_heads, r->query_tokens, r->value_dim);
    const uintptr_t read[] = {extent(r, &r->query, r->num_heads, r->query_tokens, r->head_dim),
                              extent(r, &r->key, r->num_kv_heads, r->key_tokens, r->head_dim),
                              extent(r, &r->value, r->num_kv_heads, r->key_tokens, r->value_dim)};
    const uintptr_t from[] = {(uintptr_t)r->query.data, (uintptr_t)r->key.data, (uintptr_t)r->value.data};
    const uintptr_t to = (uintptr_t)output.data;
    bool legal = written > 0;
    for (int i = 0; i < 3; i++)
        legal &= read[i] > 0 && (to + written <= from[i] || from[i] + read[i] <= to);
    return legal && rows_are_apart(r);
}

bool heed_attention_is_small(const struct heed_attention *request, const struct heed_exec *exec) {
    return request && !(exec && exec->cancelled) && has_small_sizes(request) && !has_options(request) && has_legal_memory(request);
}

/* One key/value head with its queries: row i is token i / group of its head i % group, so that ends do not fall. */
struct small_head {
    const struct heed_attention *request;
    const struct heed_kernels *kernels;
    int group, rows;
    int keys;    /* that its last query sees */
    int columns; /* of the panel: keys in whole lanes of a sum */
    int ends[MOST_ROWS];
    float factor;       /* of queries */
    const void *values; /* of floats */
    int64_t value_ld, output_ld;
    /* One after another in memory, as large as needed: fewer pages for the first call to touch. */
    float *query, *panel, *packed_values, *output, *row_max, *max, *sum, *scores;
    _Alignas(64) float memory[MOST_FLOATS];
};
static const int begins[MOST_ROWS];

static void find_ranges(struct small_head *h) {
    const struct heed_attention *r = h->request;
    const int keys = (int)r->key_tokens, tokens = (int)r->query_tokens;
    const int offset = r->alignment == HEED_ALIGN_BOTTOM_RIGHT ? keys - tokens : 0;
    h->rows = h->group * tokens;
    for (int row = 0, token = 0, of_token = 0; row < h->rows; row++) {
        h->ends[row] = r->causal ? larger(0, smaller(keys, token + offset + 1)) : keys;
        if (++of_token == h->group) {
            of_token = 0;
            token++;
        }
    }
    h->keys = h->ends[h->rows - 1];
    h->columns = (h->keys + HEED_SUM_LANES - 1) & -HEED_SUM_LANES;
}

static float *take(float **next, int64_t floats) {
    float *taken = *next;
    *next += (floats + HEED_SUM_LANES - 1) & -HEED_SUM_LANES;
    return taken;
}

static void lay_out(struct small_head *h) {
    const struct heed_attention *r = h->request;
    float *next = h->memory;
    h->output_ld = (r->value_dim + HEED_SUM_LANES - 1) & -HEED_SUM_LANES;
    h->query = take(&next, h->rows * r->head_dim);
    h->panel = take(&next, h->columns * r->head_dim);
    h->packed_values = take(&next, h->keys * h->output_ld);
    h->output = take(&next, h->rows * h->output_ld);
    h->row_max = take(&next, h->rows * HEED_SUM_LANES);
    h->max = take(&next, h->rows);
    h->sum = take(&next, h->rows);
    h->scores = next;
}

static void load_queries(struct small_head *h, const void *query) {
    const struct heed_attention *r = h->request;
    const int64_t head_dim = r->head_dim, each = h->group * head_dim;
    const enum heed_type type = r->query.type;
    if (h->group == 1)
        h->kernels->scale_rows(query, type, r->query.token_stride, r->query_tokens, head_dim, h->factor, h->query, head_dim);
    for (int64_t token = 0; h->group > 1 && token < r->query_tokens; token++)
        h->kernels->scale_rows(type_at(type, query, token * r->query.token_stride), type, r->query.head_stride, h->group, head_dim,
                               h->factor, h->query + token * each, head_dim);
}

/* Kernels read whole vectors: what there is besides is 0, for the leftovers of a stack may be denormal, and slow. */
static void load_keys(struct small_head *h, const void *keys) {
    const struct heed_attention *r = h->request;
    if (h->keys < h->columns)
        memset(h->panel, 0, (size_t)(r->head_dim * h->columns) * sizeof *h->panel);
    h->kernels->store_keys(keys, r->key.type, r->key.token_stride, r->head_dim, h->keys, h->panel, h->columns);
}

static void load_values(struct small_head *h, const void *values) {
    const struct heed_attention *r = h->request;
    h->values = values;
    h->value_ld = r->value.token_stride;
    if (r->value.type == HEED_F32 && r->value_dim % h->kernels->lanes == 0)
        return;
    memset(h->packed_values, 0, (size_t)(h->keys * h->output_ld) * sizeof *h->packed_values);
    h->kernels->widen_rows(values, r->value.type, h->value_ld, h->keys, r->value_dim, h->packed_values, h->output_ld);
    h->values = h->packed_values;
    h->value_ld = h->output_ld;
}

static void score(struct small_head *h) {
    const int64_t head_dim = h->request->head_dim;
    h->kernels->score_panel(&(struct heed_score_panel){.rows = h->rows,
                                                       .columns = h->columns,
                                                       .hides = h->ends[0] < h->columns,
                                                       .head_dim = head_dim,
                                                       .query = h->query,
                                                       .ldq = head_dim,
                                                       .keys = h->panel,
                                                       .ldk = h->columns,
                                                       .begins = begins,
                                                       .ends = h->ends,
                                                       .s = h->scores,
                                                       .row_max = h->row_max});
    h->kernels->exp_rows(&(struct heed_exp_rows){.rows = h->rows,
                                                 .begins = begins,
                                                 .ends = h->ends,
                                                 .s = h->scores,
                                                 .row_max = h->row_max,
                                                 .chunk_max = h->max,
                                                 .chunk_sum = h->sum});
}

static void weigh_values(struct small_head *h) {
    h->kernels->value_rows(&(struct heed_value_rows){.rows = h->rows,
                                                     .columns = h->request->value_dim,
                                                     .begins = begins,
                                                     .ends = h->ends,
                                                     .p = h->scores,
                                                     .values = &h->values,
                                                     .piece_keys = HEED_CHUNK,
                                                     .ldv = h->value_ld,
                                                     .o = h->output,
                                                     .ldo = h->output_ld});
}

static void finish(const struct small_head *h, void *output) {
    const struct heed_attention *r = h->request;
    const int64_t ld = h->output_ld, each = h->group * ld;
    const enum heed_type type = r->output.type;
    if (h->group == 1)
        h->kernels->finish_rows(h->output, ld, h->sum, r->query_tokens, r->value_dim, output, type, r->output.token_stride);
    for (int64_t token = 0; h->group > 1 && token < r->query_tokens; token++)
        h->kernels->finish_rows(h->output + token * each, ld, h->sum + token * h->group, h->group, r->value_dim,
                                type_at_output(type, output, token * r->output.token_stride), type, r->output.head_stride);
}

static const void *head_of(const struct heed_input *view, int64_t batch, int64_t head) {
    return type_at(view->type, view->data, batch * view->batch_stride + head * view->head_stride);
}

static void attend(struct small_head *h, int64_t batch, int64_t head) {
    const struct heed_attention *r = h->request;
    const struct heed_output *o = &r->output;
    const int64_t first = head * h->group;
    load_queries(h, head_of(&r->query, batch, first));
    load_keys(h, head_of(&r->key, batch, head));
    load_values(h, head_of(&r->value, batch, head));
    score(h);
    weigh_values(h);
    finish(h, type_at_output(o->type, o->data, batch * o->batch_stride + first * o->head_stride));
}

void heed_attention_small(const struct heed_attention *request, const struct heed_kernels *kernels) {
    struct small_head h;
    const uint64_t callers = heed_fp_begin();
    h.request = request;
    h.kernels = kernels;
    h.factor = finite_factor(attention_scale(request) * HEED_LOG2E);
    h.group = request->num_heads == request->num_kv_heads ? 1 : (int)request->num_heads / (int)request->num_kv_heads;
    find_ranges(&h);
    lay_out(&h);
    for (int64_t batch = 0; batch < request->batch; batch++)
        for (int64_t head = 0; head < request->num_kv_heads; head++)
            attend(&h, batch, head);
    heed_fp_end(callers);
}
