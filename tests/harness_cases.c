/* Makes a request of a choice of options: sizes, lengths, masks and biases are random within it. */
#include "harness_options.h"

#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t pick(struct rng *rng, const int64_t *from, int64_t count) { return from[rng_range(rng, 0, count - 1)]; }

static void choose_shape(struct heed_attention *r, int shape, struct rng *rng) {
    static const int64_t edges[] = {255, 256, 257, 511, 512, 513};
    r->batch = rng_range(rng, 1, 3);
    r->query_tokens = rng_range(rng, 1, 20);
    r->key_tokens = rng_range(rng, 1, 40);
    switch (shape) {
    case SHAPE_DECODE:
        r->query_tokens = 1;
        r->key_tokens = rng_range(rng, 1, 1400);
        break;
    case SHAPE_DRAFTS:
        r->query_tokens = rng_range(rng, 2, 16);
        r->key_tokens = rng_range(rng, 16, 900);
        break;
    case SHAPE_LONG_KEYS:
        r->query_tokens = rng_range(rng, 2, 40);
        r->key_tokens = rng_range(rng, 257, 1400);
        break;
    case SHAPE_LONG_QUERIES:
        r->query_tokens = rng_range(rng, 60, 400);
        r->key_tokens = rng_range(rng, 1, 100);
        break;
    case SHAPE_CHUNK_EDGES:
        r->key_tokens = pick(rng, edges, 6);
        break;
    default:
        break;
    }
}

static void choose_widths(struct heed_attention *r, int width, struct rng *rng) {
    r->head_dim = width == 0 ? rng_range(rng, 1, 15) : width == 1 ? 16 * rng_range(rng, 1, 4) : rng_range(rng, 65, 140);
    r->value_dim = rng_range(rng, 0, 1) ? r->head_dim : width == 1 ? 16 * rng_range(rng, 1, 4) : rng_range(rng, 1, 80);
}

/* Work is in multiplications.  Calls of less than a million stay on one thread: where a choice has several, some tries for more. */
static void choose_sizes(struct heed_attention *r, const struct choice *choice, int64_t most, struct rng *rng) {
    static const int64_t groups[] = {1, 2, 3, 8};
    static const float scales[] = {0, 0.3f, -0.2f};
    const bool threaded = choice->level[OPT_THREADS] > 0;
    int64_t work, tries = 0;
    do {
        choose_shape(r, choice->level[OPT_SHAPE], rng);
        choose_widths(r, choice->level[OPT_WIDTH], rng);
        r->num_kv_heads = rng_range(rng, 1, 2);
        r->num_heads = r->num_kv_heads * groups[choice->level[OPT_GROUP]];
        work = r->batch * r->num_heads * r->query_tokens * r->key_tokens * (r->head_dim + r->value_dim);
    } while (work > most || (threaded && work < 1200000 && work < most / 2 && tries++ < 40));
    r->scale = scales[choice->level[OPT_SCALE]];
    r->key_position = (int64_t[]){0, 256, 768}[choice->level[OPT_KEY_POSITION]];
}

/* Starts of sequences in *tokens, of which each may have up to *tokens: afterwards *tokens is what they all take. */
static const int64_t *choose_starts(struct attention_case *c, int form, int64_t *tokens, struct rng *rng) {
    const int64_t most = *tokens, batch = c->request.batch;
    int64_t *starts = case_memory(c, batch + 1, sizeof *starts), gap = form == FORM_PACKED_GAPS ? rng_range(rng, 0, 5) : 0;
    if (form == FORM_BATCHED)
        return NULL;
    starts[0] = gap;
    for (int64_t b = 0; b < batch; b++) {
        bool empty = form == FORM_PACKED_GAPS && rng_range(rng, 0, 3) == 0;
        starts[b + 1] = starts[b] + (empty ? 0 : rng_range(rng, 1, most));
    }
    *tokens = starts[batch] + gap;
    return starts;
}

static void choose_lengths(struct attention_case *c, const struct choice *choice, struct rng *rng) {
    struct heed_attention *r = &c->request;
    int64_t *lengths = case_memory(c, r->batch, sizeof *lengths), *offsets = case_memory(c, r->batch, sizeof *offsets);
    r->query_starts = choose_starts(c, choice->level[OPT_QUERY_FORM], &r->query_tokens, rng);
    r->key_starts = choose_starts(c, choice->level[OPT_KEY_FORM], &r->key_tokens, rng);
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t keys = ref_sequence_of(r, b).keys;
        lengths[b] = choice->level[OPT_LENGTHS] == 2 && rng_range(rng, 0, 1) ? 0 : rng_range(rng, 0, keys);
        offsets[b] = r->key_position + rng_range(rng, -3, keys + 3);
    }
    if (choice->level[OPT_LENGTHS] > 0)
        r->key_lengths = lengths;
    if (choice->level[OPT_ALIGNMENT] == HEED_ALIGN_OFFSETS)
        r->query_offsets = offsets;
}

static void choose_sight(struct attention_case *c, const struct choice *choice, struct rng *rng) {
    struct heed_attention *r = &c->request;
    const int64_t left = rng_range(rng, 0, 1) ? rng_range(rng, 0, 20) : rng_range(rng, 0, 400), right = rng_range(rng, 0, 30);
    const struct heed_window windows[] = {{false, 0, 0},       {true, left, -1}, {true, -1, right},
                                          {true, left, right}, {true, 0, 0},     {true, -1, -1}};
    r->causal = choice->level[OPT_CAUSAL];
    r->alignment = (enum heed_alignment)choice->level[OPT_ALIGNMENT];
    r->window = windows[choice->level[OPT_WINDOW]];
}

/* Strides of a [batch, num_heads, queries, columns] tensor of this kind: which dimensions it has is in the level's name. */
static int64_t choose_broadcast(const struct heed_attention *r, const char *kind, int64_t stride[4]) {
    const int64_t size[4] = {r->batch, r->num_heads, r->query_tokens, ref_columns(r)};
    int64_t count = 1;
    for (int d = 3; d >= 0; d--) {
        stride[d] = kind[d] == '1' ? 0 : count;
        count *= kind[d] == '1' ? 1 : size[d];
    }
    return count;
}

/* Mostly ones, with runs of zeros that may be longer than a row. */
static void choose_mask(struct attention_case *c, const struct choice *choice, struct rng *rng) {
    int64_t stride[4], n = choose_broadcast(&c->request, level_name(OPT_MASK, choice->level[OPT_MASK]), stride);
    if (choice->level[OPT_MASK] == 0)
        return;
    uint8_t *data = case_memory(c, n, 1);
    for (int64_t i = 0; i < n; i++)
        data[i] = rng_range(rng, 0, 5) ? (uint8_t)rng_range(rng, 1, 255) : (uint8_t)0;
    for (int64_t runs = rng_range(rng, 0, 3); n > 0 && runs > 0; runs--) {
        int64_t from = rng_range(rng, 0, n - 1);
        memset(data + from, 0, (size_t)min_i64(n - from, rng_range(rng, 1, 600)));
    }
    c->request.mask = (struct heed_mask){data, stride[0], stride[1], stride[2], stride[3]};
}

static void choose_bias(struct attention_case *c, const struct choice *choice, struct rng *rng) {
    int64_t stride[4], n = choose_broadcast(&c->request, level_name(OPT_BIAS, choice->level[OPT_BIAS]), stride);
    if (choice->level[OPT_BIAS] == 0)
        return;
    float *data = case_memory(c, n, sizeof *data);
    fill(rng, choice->level[OPT_FILL] == FILLS_NORMAL ? FILL_NORMAL : FILL_EXP_LIMIT, data, n);
    for (int64_t i = 0; i < n && choice->level[OPT_BIAS] == 7; i++)
        data[i] = rng_range(rng, 0, 3) ? data[i] : -INFINITY;
    c->request.bias = (struct heed_bias){data, stride[0], stride[1], stride[2], stride[3]};
}

/* Every query sees itself or an earlier draft, mostly. */
static void choose_tree(struct attention_case *c, const struct choice *choice, struct rng *rng) {
    struct heed_attention *r = &c->request;
    const int64_t keys[] = {0, rng_range(rng, 1, 63), rng_range(rng, 65, 128), ref_columns(r) + rng_range(rng, 1, 70)};
    if (choice->level[OPT_TREE] == 0)
        return;
    const int64_t words = ceil_div(keys[choice->level[OPT_TREE]], 64), shared = rng_range(rng, 0, 1);
    uint64_t *data = case_memory(c, r->batch * r->query_tokens * words, sizeof *data);
    for (int64_t i = 0; i < r->batch * r->query_tokens * words; i++)
        data[i] = rng_next(rng) | rng_next(rng);
    r->tree = (struct heed_tree){data, shared ? 0 : r->query_tokens * words, words, keys[choice->level[OPT_TREE]]};
}

static void choose_relative(struct attention_case *c, int level, struct rng *rng) {
    struct heed_attention *r = &c->request;
    if (level == 0)
        return;
    const bool odd = level > 2, both = level % 2 == 0;
    r->relative = (struct heed_relative){.num_buckets = odd ? 2 * rng_range(rng, both ? 2 : 1, 20) : 32,
                                         .max_distance = odd ? rng_range(rng, 41, 700) : 128,
                                         .bidirectional = both};
    float *table = case_memory(c, r->num_heads * r->relative.num_buckets, sizeof *table);
    fill(rng, FILL_NORMAL, table, r->num_heads * r->relative.num_buckets);
    r->relative.table = table;
    r->relative.head_stride = 1;
    r->relative.bucket_stride = r->num_heads; /* as Hugging Face stores it */
}

static void choose_terms(struct attention_case *c, const struct choice *choice, struct rng *rng) {
    struct heed_attention *r = &c->request;
    float *slopes = case_memory(c, r->num_heads, sizeof *slopes), *sinks = case_memory(c, r->num_heads, sizeof *sinks);
    r->softcap = (float[]){0, 0.5f, 30}[choice->level[OPT_SOFTCAP]];
    for (int64_t h = 0; h < r->num_heads; h++)
        slopes[h] = (float)rng_range(rng, 0, 64) * 0x1p-7f;
    fill(rng, FILL_NORMAL, sinks, r->num_heads);
    for (int64_t h = 0; h < r->num_heads && choice->level[OPT_SINKS] == 2; h++)
        sinks[h] = rng_range(rng, 0, 1) ? -INFINITY : 8 * sinks[h];
    if (choice->level[OPT_ALIBI])
        r->alibi_slopes = slopes;
    if (choice->level[OPT_SINKS])
        r->sinks = sinks;
}

static void choose_results(struct attention_case *c, const struct choice *choice, struct rng *rng) {
    struct heed_attention *r = &c->request;
    c->wants[WEIGHTS] = choice->level[OPT_WEIGHTS];
    c->wants[LSE] = choice->level[OPT_LSE];
    c->wants[SCORES] = choice->level[OPT_SCORES] > 0;
    c->wants[STATE_OUTPUT] = c->wants[STATE_MAX] = c->wants[STATE_SUM] = choice->level[OPT_STATES];
    c->wants[MASS] = choice->level[OPT_MASS] > 0;
    c->wants[OUTPUT] = choice->level[OPT_OUTPUT] == 0 ||
                       !(c->wants[WEIGHTS] || c->wants[LSE] || c->wants[SCORES] || c->wants[STATE_SUM] || c->wants[MASS]);
    r->score_stage = c->wants[SCORES] ? (enum heed_score_stage)(choice->level[OPT_SCORES] - 1) : HEED_SCORES_RAW;
    r->mass_queries = choice->level[OPT_MASS] == 2 ? rng_range(rng, 1, 8) : 0;
}

static void name_case(struct attention_case *c, const struct choice *choice) {
    size_t used = 0;
    for (int o = OPT_CAUSAL; o < OPTIONS; o++)
        if (choice->level[o] > 0 && used < sizeof c->name && o != OPT_ISA && o != OPT_THREADS)
            used += (size_t)snprintf(c->name + used, sizeof c->name - used, ", %s %s", option_name((enum option)o),
                                     level_name((enum option)o, choice->level[o]));
}

struct attention_case case_of(const struct choice *choice, int64_t work, struct rng *rng) {
    struct attention_case sketch = {.owned_count = 0};
    static const int kinds[] = {[FILLS_NORMAL] = 1, [FILLS_FINITE] = FILL_FINITE_COUNT, [FILLS_ANY] = FILL_COUNT};
    enum fill mode[3];
    for (int i = 0; i < 3; i++) {
        mode[i] = (enum fill)rng_range(rng, 0, kinds[choice->level[OPT_FILL]] - 1);
        if (choice->level[OPT_QUERY_TYPE + i] == HEED_F16 && mode[i] == FILL_SPIKE && choice->level[OPT_FILL] != FILLS_ANY)
            mode[i] = FILL_NORMAL; /* for a spike is infinite there */
    }
    choose_sizes(&sketch.request, choice, work, rng);
    choose_lengths(&sketch, choice, rng);
    struct attention_case c = new_attention_case(&sketch.request, mode[0], mode[1], mode[2], rng);
    for (int i = 0; i < sketch.owned_count; i++)
        c.owned[c.owned_count++] = sketch.owned[i];
    use_types(&c, (struct attention_types){
                      (enum heed_type)choice->level[OPT_QUERY_TYPE], (enum heed_type)choice->level[OPT_KEY_TYPE],
                      (enum heed_type)choice->level[OPT_VALUE_TYPE], (enum heed_type)choice->level[OPT_OUTPUT_TYPE]});
    c.request.compute = (enum heed_compute)choice->level[OPT_COMPUTE];
    for (int i = OPT_QUERY_TYPE; i <= OPT_OUTPUT_TYPE; i++)
        if (choice->level[i] == HEED_F16 && !f16_ignores_flushing())
            c.request.compute = HEED_COMPUTE_F32;
    choose_sight(&c, choice, rng);
    choose_mask(&c, choice, rng);
    choose_bias(&c, choice, rng);
    choose_tree(&c, choice, rng);
    choose_terms(&c, choice, rng);
    choose_relative(&c, choice->level[OPT_RELATIVE], rng);
    choose_results(&c, choice, rng);
    name_case(&c, choice);
    return c;
}

struct attention_way way_of(const struct choice *choice) {
    static const int threads[] = {1, 2, 3, 8};
    static const enum cache_kind kinds[] = {CACHE_NONE,  CACHE_LINEAR, CACHE_RING,  CACHE_PAGED,
                                            CACHE_PAGED, CACHE_PAGED,  CACHE_PAGED, CACHE_PAGED};
    static const int64_t page_tokens[] = {0, 0, 0, 16, 32, 48, 64, 256};
    return (struct attention_way){
        .exec = {.isa = heed_kernels_usable(choice->level[OPT_ISA])->name, .threads = threads[choice->level[OPT_THREADS]]},
        .planned = choice->level[OPT_PLANNED],
        .small_caches = choice->level[OPT_CACHE_SIZES],
        .cache = kinds[choice->level[OPT_CACHE]],
        .page_tokens = page_tokens[choice->level[OPT_CACHE]]};
}
