/* What memory an attention request reads and writes, from its descriptor and heed.h alone. */
#include "fuzz.h"

#include <inttypes.h>

bool key_is_seen(const struct heed_attention *request, int64_t b, int64_t j) {
    const int64_t queries = ref_sequence_of(request, b).queries;
    /* The last and the first query see farthest; most keys are seen by one of them. */
    if (queries > 0 && (ref_sees(request, b, queries - 1, j) || ref_sees(request, b, 0, j)))
        return true;
    for (int64_t i = 1; i < queries - 1; i++)
        if (ref_sees(request, b, i, j))
            return true;
    return false;
}

double attention_work(const struct heed_attention *r) {
    const double rows = (double)r->batch * (double)r->num_heads * (double)r->query_tokens;
    return rows * (double)r->key_tokens * (double)(r->head_dim + r->value_dim);
}

struct marking {
    struct memory *memory;
    const struct heed_attention *request;
    enum marked marked;
};

static void mark(struct marking *m, const struct rows *rows, enum role role) {
    if (m->marked == MARKED && rows->data)
        m->marked = memory_mark(m->memory, rows, role);
}

static void mark_array(struct marking *m, const void *data, int64_t count, size_t element) {
    mark(m, &(struct rows){data, {1, 1, 1}, {0, 0, 0}, stride_bytes(count, 2, element)}, ROLE_INPUT);
}

/* The elements of a view. */
struct elements {
    const char *data;
    int64_t stride[3]; /* of batch, heads, tokens */
    int64_t bytes;     /* of one */
};

static struct elements elements_of(const struct heed_input *view) {
    return (struct elements){
        view->data, {view->batch_stride, view->head_stride, view->token_stride}, view->type == HEED_F32 ? 4 : 2};
}

static struct elements results_of(const struct heed_output *view) {
    return elements_of(&(struct heed_input){view->data, view->batch_stride, view->head_stride, view->token_stride, view->type});
}

static void mark_view(struct marking *m, const struct elements *view, const int64_t count[3], int64_t width, enum role role) {
    const size_t element = (size_t)view->bytes;
    const struct rows rows = {view->data,
                              {count[0], count[1], count[2]},
                              {stride_bytes(view->stride[0], count[0], element), stride_bytes(view->stride[1], count[1], element),
                               stride_bytes(view->stride[2], count[2], element)},
                              width * view->bytes};
    mark(m, &rows, role);
}

/* From some token of some sequence on, which exists: strides of nothing may be any number. */
static struct elements from_token(struct elements view, int64_t b, int64_t token) {
    view.data += b > 0 ? b * view.stride[0] * view.bytes : 0;
    view.data += token > 0 ? token * view.stride[2] * view.bytes : 0;
    return view;
}

/* Rows of the tokens that belong to a sequence. */
static void mark_queries(struct marking *m, struct elements view, int64_t width, enum role role) {
    const struct heed_attention *r = m->request;
    if (!view.data)
        return;
    if (!r->query_starts) {
        mark_view(m, &view, (const int64_t[]){r->batch, r->num_heads, r->query_tokens}, width, role);
        return;
    }
    const int64_t first = r->query_starts[0], tokens = r->query_starts[r->batch] - first;
    if (tokens == 0 || r->num_heads == 0)
        return;
    view = from_token(view, 0, first);
    mark_view(m, &view, (const int64_t[]){1, r->num_heads, tokens}, width, role);
}

/* Rows of the keys that a query sees. */
static void mark_keys(struct marking *m, const struct elements *view, int64_t width) {
    const struct heed_attention *r = m->request;
    for (int64_t b = 0; b < r->batch && r->num_kv_heads > 0; b++) {
        const struct ref_sequence s = ref_sequence_of(r, b);
        for (int64_t j = 0; j < s.keys; j++) {
            if (!key_is_seen(r, b, j))
                continue;
            const struct elements key = from_token(*view, r->key_starts ? 0 : b, s.first_key + j);
            mark_view(m, &key, (const int64_t[]){1, r->num_kv_heads, 1}, width, ROLE_INPUT);
        }
    }
}

/* Whole pages: what a page holds beside the keys that are seen may be read with them. */
static void mark_cache(struct marking *m) {
    const struct heed_attention *r = m->request;
    const struct heed_kv_cache *cache = r->cache;
    const int64_t page_bytes = heed_kv_page_bytes(cache);
    for (int64_t b = 0; b < r->batch && r->num_kv_heads > 0; b++)
        for (int64_t j = 0, last = -1; j < ref_sequence_of(r, b).keys; j++) {
            if (!key_is_seen(r, b, j))
                continue;
            if (j < ref_sequence_of(r, b).keys - cache->pages_per_sequence * cache->page_tokens) {
                m->marked = MARKED_TWICE; /* by a later key */
                return;
            }
            const int64_t slot = (r->key_position + j) / cache->page_tokens % cache->pages_per_sequence;
            if (slot == last)
                continue;
            const int32_t *entry = cache->page_table ? cache->page_table + b * cache->table_stride + slot : NULL;
            const int64_t page = entry ? *entry : b * cache->pages_per_sequence + slot;
            mark_array(m, entry, 1, sizeof *entry);
            mark_array(m, (const char *)cache->data + page * page_bytes, page_bytes, 1);
            last = slot;
        }
}

/* Elements for the queries and keys of each sequence. */
static void mark_mask(struct marking *m, const void *data, const int64_t stride[4], size_t element) {
    const struct heed_attention *r = m->request;
    for (int64_t b = 0; data && b < r->batch; b++) {
        const struct ref_sequence s = ref_sequence_of(r, b);
        if (s.queries == 0 || s.keys == 0)
            continue; /* then no stride need be right */
        const uint8_t *from = (const uint8_t *)data + (b > 0 ? b * stride[0] * (int64_t)element : 0);
        const struct rows rows = {from,
                                  {r->num_heads, s.queries, s.keys},
                                  {stride_bytes(stride[1], r->num_heads, element), stride_bytes(stride[2], s.queries, element),
                                   stride_bytes(stride[3], s.keys, element)},
                                  (int64_t)element};
        mark(m, &rows, ROLE_INPUT);
    }
}

static void mark_masks(struct marking *m) {
    const struct heed_attention *r = m->request;
    const struct heed_tree *tree = &r->tree;
    const struct heed_relative *relative = &r->relative;
    const int64_t mask[] = {r->mask.batch_stride, r->mask.head_stride, r->mask.query_stride, r->mask.key_stride};
    const int64_t bias[] = {r->bias.batch_stride, r->bias.head_stride, r->bias.query_stride, r->bias.key_stride};
    mark_mask(m, r->mask.data, mask, sizeof *r->mask.data);
    mark_mask(m, r->bias.data, bias, sizeof *r->bias.data);
    for (int64_t b = 0; tree->words && b < r->batch; b++) {
        if (ref_sequence_of(r, b).queries == 0 || tree->keys == 0)
            continue;
        const uint64_t *from = b > 0 ? tree->words + b * tree->batch_stride : tree->words;
        const struct rows rows = {from,
                                  {1, 1, ref_sequence_of(r, b).queries},
                                  {0, 0, stride_bytes(tree->query_stride, r->query_tokens, sizeof *from)},
                                  (tree->keys + 63) / 64 * (int64_t)sizeof *from};
        mark(m, &rows, ROLE_INPUT);
    }
    const struct rows table = {relative->table,
                               {1, r->num_heads, relative->num_buckets},
                               {0, stride_bytes(relative->head_stride, r->num_heads, sizeof(float)),
                                stride_bytes(relative->bucket_stride, relative->num_buckets, sizeof(float))},
                               sizeof(float)};
    mark(m, &table, ROLE_INPUT);
}

/* What is read whatever the sizes are. */
static void mark_arrays(struct marking *m) {
    const struct heed_attention *r = m->request;
    mark_array(m, r->query_starts, r->batch + 1, sizeof(int64_t));
    mark_array(m, r->key_starts, r->batch + 1, sizeof(int64_t));
    mark_array(m, r->key_lengths, r->batch, sizeof(int64_t));
    if (r->alignment == HEED_ALIGN_OFFSETS)
        mark_array(m, r->query_offsets, r->batch, sizeof(int64_t));
    if (r->cache)
        mark_array(m, r->cache->key_channel_scales, r->cache->num_kv_heads * r->cache->head_dim, sizeof(float));
    mark(m, &(struct rows){r->cache, {1, 1, 1}, {0, 0, 0}, sizeof *r->cache}, ROLE_DESCRIPTOR);
}

static void mark_inputs(struct marking *m) {
    const struct heed_attention *r = m->request;
    mark_array(m, r->alibi_slopes, r->num_heads, sizeof(float));
    mark_array(m, r->sinks, r->num_heads, sizeof(float));
    const struct elements key = elements_of(&r->key), value = elements_of(&r->value);
    mark_queries(m, elements_of(&r->query), r->head_dim, ROLE_INPUT);
    if (r->cache) {
        mark_cache(m);
    } else {
        mark_keys(m, &key, r->head_dim);
        mark_keys(m, &value, r->value_dim);
    }
    mark_masks(m);
}

static void mark_outputs(struct marking *m) {
    const struct heed_attention *r = m->request;
    const int64_t columns = ref_columns(r), chunks = (columns + 255) / 256;
    const struct {
        const struct heed_output *view;
        int64_t width;
    } outputs[] = {{&r->output, r->value_dim},
                   {&r->weights, columns},
                   {&r->lse, 1},
                   {&r->scores, columns},
                   {&r->states.output, chunks * r->value_dim},
                   {&r->states.max, chunks},
                   {&r->states.sum, chunks}};
    struct elements mass = results_of(&r->mass);
    mass.stride[2] = 0;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        mark_queries(m, results_of(outputs[i].view), outputs[i].width, ROLE_OUTPUT);
    if (mass.data)
        mark_view(m, &mass, (const int64_t[]){r->batch, r->num_heads, 1}, columns, ROLE_OUTPUT);
}

enum marked mark_attention(struct memory *memory, const struct heed_attention *request) {
    struct marking m = {.memory = memory, .request = request};
    const int64_t sizes[] = {request->batch,      request->num_heads, request->query_tokens,
                             request->key_tokens, request->head_dim,  request->value_dim};
    mark_arrays(&m);
    /* A request without heads or sequences reads nothing else. */
    if (m.marked != MARKED || request->batch == 0 || request->num_heads == 0)
        return m.marked;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] > 4096)
            return MARKED_OUTSIDE;
    if (attention_work(request) > 8e6)
        return MARKED_OUTSIDE;
    mark_inputs(&m);
    mark_outputs(&m);
    return m.marked;
}

void print_attention(FILE *file, const void *request) {
    const struct heed_attention *r = request;
    fprintf(file,
            "attention: batch %" PRId64 ", heads %" PRId64 "/%" PRId64 ", queries %" PRId64 ", keys %" PRId64 ", dims %" PRId64
            "/%" PRId64 ", scale %g\n",
            r->batch, r->num_heads, r->num_kv_heads, r->query_tokens, r->key_tokens, r->head_dim, r->value_dim, (double)r->scale);
    fprintf(file,
            "  key_position %" PRId64 "%s, alignment %d, softcap %g, tree.keys %" PRId64 ", mass_queries %" PRId64 ", stage %d\n",
            r->key_position, r->causal ? ", causal" : "", (int)r->alignment, (double)r->softcap, r->tree.keys, r->mass_queries,
            (int)r->score_stage);
    fprintf(file, "  types %d %d %d %d, compute %d\n", (int)r->query.type, (int)r->key.type, (int)r->value.type,
            (int)r->output.type, (int)r->compute);
    if (r->window.on)
        fprintf(file, "  window %" PRId64 " %" PRId64 "\n", r->window.left, r->window.right);
    const struct {
        const char *name;
        const void *data;
    } pointers[] = {{"query_starts", r->query_starts},
                    {"key_starts", r->key_starts},
                    {"key_lengths", r->key_lengths},
                    {"offsets", r->query_offsets},
                    {"mask", r->mask.data},
                    {"tree", r->tree.words},
                    {"bias", r->bias.data},
                    {"alibi", r->alibi_slopes},
                    {"relative", r->relative.table},
                    {"sinks", r->sinks},
                    {"query", r->query.data},
                    {"key", r->key.data},
                    {"value", r->value.data},
                    {"cache", r->cache},
                    {"output", r->output.data},
                    {"weights", r->weights.data},
                    {"lse", r->lse.data},
                    {"scores", r->scores.data},
                    {"states", r->states.output.data},
                    {"mass", r->mass.data}};
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++)
        if (pointers[i].data)
            fprintf(file, "  %s", pointers[i].name);
    fputc('\n', file);
}
