/* How ONNX's Attention maps to a request to heed; onnx_cases.h. */
#include "onnx_cases.h"
#include "internal.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct onnx_case onnx_cases[] = {
#include "onnx/cases.txt"
};
const int onnx_case_count = sizeof onnx_cases / sizeof *onnx_cases;

/* 24 floats a line: the bits of each as five digits to base 85, from ( to ~ without ? and \. */
static const char *const lines[] = {
#include "onnx/values.txt"
};

static float onnx_float(int64_t at) {
    const char *digits = lines[at / 24] + at % 24 * 5;
    uint32_t bits = 0;
    float x;
    for (int i = 0; i < 5; i++)
        bits = bits * 85 + (uint32_t)(digits[i] - '(' - (digits[i] > '?') - (digits[i] > '\\'));
    memcpy(&x, &bits, sizeof x);
    return x;
}

int64_t onnx_size(const struct onnx_tensor *tensor) {
    int64_t size = tensor->rank > 0;
    for (int i = 0; i < tensor->rank; i++)
        size *= tensor->shape[i];
    return size;
}

void onnx_floats(const struct onnx_tensor *tensor, float *x) {
    for (int64_t i = 0; i < onnx_size(tensor); i++)
        x[i] = onnx_float(tensor->at + i);
}

static struct buffer onnx_buffer(const struct onnx_tensor *tensor) {
    struct buffer buffer = buffer_new(onnx_size(tensor), AT_END);
    onnx_floats(tensor, buffer.data);
    return buffer;
}

/* Inputs of rank 4 are [batch, heads, tokens, width], those of rank 3 [batch, tokens, heads * width]. */
static struct heed_input view(const struct onnx_tensor *tensor, int64_t heads, const float *data) {
    const int64_t *n = tensor->shape;
    if (tensor->rank == 3)
        return (struct heed_input){data, n[1] * n[2], n[2] / heads, n[2], HEED_F32};
    return (struct heed_input){data, n[1] * n[2] * n[3], n[2] * n[3], n[3], HEED_F32};
}
static int64_t heads_of(const struct onnx_tensor *tensor, int64_t given) { return tensor->rank == 3 ? given : tensor->shape[1]; }
static int64_t tokens_of(const struct onnx_tensor *tensor) { return tensor->rank == 3 ? tensor->shape[1] : tensor->shape[2]; }
static int64_t width_of(const struct onnx_tensor *tensor, int64_t heads) {
    return tensor->rank == 3 ? tensor->shape[2] / heads : tensor->shape[3];
}

/* The past's tokens and then the new ones, as present_key and present_value: [batch, heads, tokens, width]. */
static struct buffer concatenate(const struct onnx_tensor *past, const struct onnx_tensor *new, int64_t heads) {
    int64_t old = past->shape[2], tokens = old + tokens_of(new), width = width_of(new, heads);
    struct heed_input from_past = view(past, heads, NULL), from_new = view(new, heads, NULL);
    struct buffer buffer = buffer_new(new->shape[0] * heads *tokens *width, AT_END);
    for (int64_t i = 0; i < buffer.count; i++) {
        int64_t d = i % width, t = i / width % tokens, h = i / width / tokens % heads, b = i / width / tokens / heads;
        const struct heed_input *from = t < old ? &from_past : &from_new;
        int64_t at = b * from->batch_stride + h * from->head_stride + (t < old ? t : t - old) * from->token_stride + d;
        buffer.data[i] = onnx_float((t < old ? past : new)->at + at);
    }
    return buffer;
}

static void set_rows(struct onnx_request *r, const struct onnx_case *c) {
    struct heed_attention *a = &r->attention;
    r->query = onnx_buffer(&c->Q);
    a->query = view(&c->Q, a->num_heads, r->query.data);
    bool past = c->past_key.rank > 0;
    r->key = past ? concatenate(&c->past_key, &c->K, a->num_kv_heads) : onnx_buffer(&c->K);
    r->value = past ? concatenate(&c->past_value, &c->V, a->num_kv_heads) : onnx_buffer(&c->V);
    int64_t keys = a->key_tokens, *const n = (int64_t[]){a->head_dim, a->value_dim};
    a->key = past ? (struct heed_input){r->key.data, a->num_kv_heads * keys * n[0], keys * n[0], n[0], HEED_F32}
                  : view(&c->K, a->num_kv_heads, r->key.data);
    a->value = past ? (struct heed_input){r->value.data, a->num_kv_heads * keys * n[1], keys * n[1], n[1], HEED_F32}
                    : view(&c->V, a->num_kv_heads, r->value.data);
}

/* ONNX: the past's tokens; with nonpad_kv_seqlen, so that the last query stands at its last key; else 0. */
static void set_positions(struct onnx_request *r, const struct onnx_case *c, bool named) {
    struct heed_attention *a = &r->attention;
    int64_t past = c->past_key.rank ? c->past_key.shape[2] : 0;
    for (int64_t b = 0; b < a->batch; b++) {
        r->lengths[b] = min_i64(c->nonpad_kv_seqlen[b], a->key_tokens);
        r->offsets[b] = c->has_nonpad ? c->nonpad_kv_seqlen[b] - a->query_tokens : past;
    }
    a->key_lengths = c->has_nonpad ? r->lengths : NULL;
    a->causal = c->is_causal;
    a->window = c->window;
    a->alignment = HEED_ALIGN_OFFSETS;
    if (named && !past && !c->has_nonpad)
        a->alignment = HEED_ALIGN_TOP_LEFT;
    if (named && (c->has_nonpad || past == a->key_tokens - a->query_tokens))
        a->alignment = HEED_ALIGN_BOTTOM_RIGHT;
    a->query_offsets = a->alignment == HEED_ALIGN_OFFSETS ? r->offsets : NULL;
}

/* attn_mask is aligned to the right of [batch, heads, queries, keys]; a size of 1 or a missing one broadcasts. */
static void mask_strides(const struct onnx_tensor *mask, int64_t stride[4]) {
    int64_t step = 1;
    for (int i = 3; i >= 0; i--) {
        int64_t size = i >= 4 - mask->rank ? mask->shape[i - 4 + mask->rank] : 1;
        stride[i] = size > 1 ? step : 0;
        step *= size;
    }
}

/* Keys that a short mask does not reach are hidden: either they are not part of the request, or the mask is filled up. */
static void set_mask(struct onnx_request *r, const struct onnx_case *c, bool as_bias) {
    const struct onnx_tensor *mask = &c->attn_mask;
    int64_t keys = r->attention.key_tokens, columns = mask->shape[mask->rank - 1], stride[4], n = onnx_size(mask);
    bool fills = as_bias && columns < keys;
    struct buffer given = onnx_buffer(mask);
    r->attention.key_tokens = fills ? keys : min_i64(columns, keys);
    r->bias = buffer_new(fills ? n / columns * keys : n, AT_END);
    for (int64_t i = 0; i < r->bias.count; i++) {
        int64_t column = fills ? i % keys : i % columns, from = fills ? i / keys * columns + column : i;
        r->bias.data[i] = column >= columns ? -INFINITY : given.data[from];
    }
    buffer_free(&given);
    struct onnx_tensor filled = *mask;
    filled.shape[mask->rank - 1] = fills ? keys : columns;
    mask_strides(&filled, stride);
    r->mask = c->mask_is_bool && !as_bias ? malloc((size_t)n) : NULL;
    for (int64_t i = 0; i < r->bias.count && c->mask_is_bool; i++) {
        if (r->mask)
            r->mask[i] = r->bias.data[i] != 0;
        r->bias.data[i] = r->bias.data[i] != 0 ? 0 : -INFINITY;
    }
    if (r->mask)
        r->attention.mask = (struct heed_mask){r->mask, stride[0], stride[1], stride[2], stride[3]};
    else
        r->attention.bias = (struct heed_bias){r->bias.data, stride[0], stride[1], stride[2], stride[3]};
}

/* Writes all keys to pages of 16 tokens, the past's first, and lets the request read them there.  Sequence b's page t is number
 * 3 t + 2 - b: no two neighbours in a sequence are neighbours in memory. */
static void set_pages(struct onnx_request *r, const struct onnx_case *c, const struct heed_exec *exec) {
    struct heed_attention *a = &r->attention;
    r->cache = (struct heed_kv_cache){.num_pages = 9,
                                      .page_tokens = 16,
                                      .num_kv_heads = a->num_kv_heads,
                                      .head_dim = a->head_dim,
                                      .value_dim = a->value_dim,
                                      .pages_per_sequence = 3,
                                      .page_table = r->page_table,
                                      .table_stride = 3};
    for (int32_t i = 0; i < 9; i++)
        r->page_table[i] = 3 * (i % 3) + 2 - i / 3;
    r->pages = buffer_new(9 * heed_kv_page_bytes(&r->cache) / (int64_t)sizeof(float), AT_END);
    r->cache.data = r->pages.data;
    int64_t past = c->past_key.rank ? c->past_key.shape[2] : 0, starts[3] = {past, past, past};
    struct heed_kv_append append = {.batch = a->batch, .tokens = past, .key = a->key, .value = a->value, .cache = &r->cache};
    if (heed_kv_append(&append, exec) != HEED_OK)
        must(heed_error_message());
    append.positions = starts;
    append.tokens = a->key_tokens - past;
    append.key.data = (const float *)append.key.data + past * append.key.token_stride;
    append.value.data = (const float *)append.value.data + past * append.value.token_stride;
    if (heed_kv_append(&append, exec) != HEED_OK)
        must(heed_error_message());
    a->cache = &r->cache;
    a->key = a->value = (struct heed_input){.data = NULL};
}

void onnx_request_new(struct onnx_request *r, const struct onnx_case *c, unsigned ways, const struct heed_exec *exec) {
    *r = (struct onnx_request){.attention = {.batch = c->Q.shape[0], .scale = c->scale, .softcap = c->softcap}};
    struct heed_attention *a = &r->attention;
    a->num_heads = heads_of(&c->Q, c->q_num_heads);
    a->num_kv_heads = heads_of(&c->K, c->kv_num_heads);
    a->query_tokens = tokens_of(&c->Q);
    a->key_tokens = tokens_of(&c->K) + (c->past_key.rank ? c->past_key.shape[2] : 0);
    a->head_dim = width_of(&c->Q, a->num_heads);
    a->value_dim = width_of(&c->V, a->num_kv_heads);
    ck_assert_int_le(a->batch, 3);
    set_rows(r, c);
    if (ways & ONNX_PAGED)
        set_pages(r, c, exec);
    if (c->attn_mask.rank)
        set_mask(r, c, ways & ONNX_MASK_AS_BIAS);
    set_positions(r, c, ways & ONNX_NAMED_ALIGNMENT);
}

void onnx_request_free(struct onnx_request *request) {
    struct buffer *const all[] = {&request->query, &request->key, &request->value, &request->bias, &request->pages};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->pages)
            buffer_free(all[i]);
    free(request->mask);
}
