/* See formats.h. */
#include "formats.h"

#include "reference/reference.h"
#include "stored.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct format formats[] = {
    {"f32", HEED_F32, HEED_F32, HEED_F32, HEED_COMPUTE_F32, false},
    {"bf16", HEED_BF16, HEED_BF16, HEED_BF16, HEED_COMPUTE_F32, false},
    {"bf16, output f32", HEED_BF16, HEED_BF16, HEED_F32, HEED_COMPUTE_F32, false},
    {"bf16, computed so", HEED_BF16, HEED_BF16, HEED_BF16, HEED_COMPUTE_BF16, false},
    {"bf16, as AMX", HEED_BF16, HEED_BF16, HEED_BF16, HEED_COMPUTE_BF16_AMX, false},
    {"f16", HEED_F16, HEED_F16, HEED_F16, HEED_COMPUTE_F32, false},
    {"f32, cache int8", HEED_F32, HEED_I8, HEED_F32, HEED_COMPUTE_F32, false},
    {"f32, cache int8, channels", HEED_F32, HEED_I8, HEED_F32, HEED_COMPUTE_F32, true},
    {"f32, cache int8, integers", HEED_F32, HEED_I8, HEED_F32, HEED_COMPUTE_I8, false},
    {"f32, cache int8, integers, channels", HEED_F32, HEED_I8, HEED_F32, HEED_COMPUTE_I8, true},
};
const int format_count = sizeof formats / sizeof *formats;
const char *const format_input_names[FORMAT_INPUTS] = {"N(0,1)", "outliers in q, k", "outliers"};

/* --- Data --- */

/* In (0, 1), by splitmix64 (Steele, Lea and Flood 2014). */
static double uniform(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 12) + 0.5) * 0x1p-52;
}

/* Box and Muller 1958 */
static float normal(uint64_t *state) {
    const double radius = sqrt(-2 * log(uniform(state)));
    return (float)(radius * cos(6.283185307179586 * uniform(state)));
}

static float *make_rows(uint64_t seed, bool outliers, int64_t outlier, int64_t rows) {
    enum { EVERY = 64, FACTOR = 30 };
    float *x = malloc((size_t)(rows * FORMAT_DIM) * sizeof *x);
    for (int64_t i = 0; x && i < rows * FORMAT_DIM; i++)
        x[i] = normal(&seed) * (outliers && i % EVERY == outlier ? FACTOR : 1);
    return x;
}

static struct heed_attention request_of(const struct format_case *c) {
    return (struct heed_attention){
        .batch = 1,
        .num_heads = c->queries,
        .num_kv_heads = 1,
        .query_tokens = 1,
        .key_tokens = c->keys,
        .head_dim = FORMAT_DIM,
        .value_dim = FORMAT_DIM,
        .query = {.data = c->query, .head_stride = FORMAT_DIM},
        .key = {.data = c->key, .token_stride = FORMAT_DIM},
        .value = {.data = c->value, .token_stride = FORMAT_DIM},
    };
}

/* The oracle's results for query, key and value, which the case has. */
static bool solve(struct format_case *c) {
    const struct heed_attention request = request_of(c);
    c->output = malloc((size_t)(c->queries * FORMAT_DIM) * sizeof *c->output);
    c->weights = malloc((size_t)(c->queries * c->keys) * sizeof *c->weights);
    if (!c->query || !c->key || !c->value || !c->output || !c->weights ||
        !ref_attention(&request, &(struct ref_attention_result){.output = c->output, .weights = c->weights}))
        return false;
    for (int64_t d = 0; d < FORMAT_DIM; d++) {
        double squares = 0;
        for (int64_t i = 0; i < c->queries; i++)
            squares += c->output[i * FORMAT_DIM + d] * c->output[i * FORMAT_DIM + d];
        c->column[d] = sqrt(squares / (double)c->queries);
    }
    return true;
}

bool format_case_make(struct format_case *c, enum format_inputs inputs, int64_t queries, int64_t keys) {
    *c = (struct format_case){.queries = queries, .keys = keys};
    c->query = make_rows(1, inputs != FORMAT_NORMAL, 5, queries);
    c->key = make_rows(2, inputs != FORMAT_NORMAL, 17, keys);
    c->value = make_rows(3, inputs == FORMAT_OUTLIERS, 29, keys);
    return solve(c);
}

void format_case_free(struct format_case *c) {
    free(c->query);
    free(c->key);
    free(c->value);
    free(c->output);
    free(c->weights);
}

/* --- Storage --- */

static int64_t bytes_of(enum heed_type type) { return type == HEED_F32 ? 4 : 2; }

static float value_at(enum heed_type type, const void *data, int64_t i) {
    if (type == HEED_F32)
        return ((const float *)data)[i];
    return float_of_half(type, ((const uint16_t *)data)[i]);
}

/* Rows of the case in that type; *values: what they then hold. */
static void *store(enum heed_type type, const float *x, int64_t rows, float **values) {
    const int64_t n = rows * FORMAT_DIM;
    void *data = malloc((size_t)(n * bytes_of(type)));
    *values = malloc((size_t)n * sizeof **values);
    for (int64_t i = 0; data && *values && i < n; i++) {
        if (type == HEED_F32)
            ((float *)data)[i] = x[i];
        else
            ((uint16_t *)data)[i] = half_of(type, x[i]);
        (*values)[i] = value_at(type, data, i);
    }
    return data;
}

/* The power of two that is next above the largest |key| of each channel, or 1. */
static void find_scales(const struct format_case *c, bool wanted, float scales[FORMAT_DIM]) {
    for (int64_t d = 0; d < FORMAT_DIM; d++) {
        float largest = 0;
        int exponent = 0;
        for (int64_t j = 0; wanted && j < c->keys; j++)
            largest = fabsf(c->key[j * FORMAT_DIM + d]) > largest ? fabsf(c->key[j * FORMAT_DIM + d]) : largest;
        frexpf(largest, &exponent);
        scales[d] = ldexpf(1, exponent);
    }
}

/* A cache of int8 with the rows, all in one page; data NULL on failure. */
static struct heed_kv_cache append(const struct format_case *c, const float *scales) {
    const struct heed_attention rows = request_of(c);
    struct heed_kv_cache cache = {.key_type = HEED_I8,
                                  .value_type = HEED_I8,
                                  .num_pages = 1,
                                  .page_tokens = (c->keys + 63) / 64 * 64,
                                  .num_kv_heads = 1,
                                  .head_dim = FORMAT_DIM,
                                  .value_dim = FORMAT_DIM,
                                  .pages_per_sequence = 1,
                                  .key_channel_scales = scales};
    cache.data = malloc((size_t)heed_kv_page_bytes(&cache));
    const struct heed_kv_append append = {.batch = 1, .tokens = c->keys, .key = rows.key, .value = rows.value, .cache = &cache};
    if (cache.data && heed_kv_append(&append, NULL) != HEED_OK) {
        free(cache.data);
        cache.data = NULL;
    }
    return cache;
}

/* What it then holds, by the layout in heed.h. */
static bool read_back(const struct heed_kv_cache *cache, struct format_case *c) {
    const int64_t n = c->keys * FORMAT_DIM, values = cache->page_tokens * (FORMAT_DIM + (int64_t)sizeof(float));
    const int8_t *keys = cache->data, *value = keys + values;
    c->key = malloc((size_t)n * sizeof *c->key);
    c->value = malloc((size_t)n * sizeof *c->value);
    for (int64_t i = 0; c->key && c->value && i < n; i++) {
        const int64_t t = i / FORMAT_DIM, d = i % FORMAT_DIM;
        float key_scale, value_scale;
        memcpy(&key_scale, keys + cache->page_tokens * FORMAT_DIM + t * (int64_t)sizeof(float), sizeof key_scale);
        memcpy(&value_scale, value + cache->page_tokens * FORMAT_DIM + t * (int64_t)sizeof(float), sizeof value_scale);
        c->key[i] = key_scale * (float)keys[t / 64 * 64 * FORMAT_DIM + d * 64 + t % 64] * cache->key_channel_scales[d];
        c->value[i] = value_scale * (float)value[i];
    }
    return c->key && c->value;
}

/* heed's output, as floats, of a request whose inputs are set. */
static bool attend(struct format_run *run, struct heed_attention *request, enum heed_type type) {
    const int64_t n = run->stored.queries * FORMAT_DIM;
    void *output = malloc((size_t)(n * bytes_of(type)));
    request->output = (struct heed_output){.data = output, .head_stride = FORMAT_DIM, .token_stride = FORMAT_DIM, .type = type};
    run->output = malloc((size_t)n * sizeof *run->output);
    const bool good = output && run->output && heed_attention(request, NULL) == HEED_OK;
    for (int64_t i = 0; good && i < n; i++)
        run->output[i] = value_at(type, output, i);
    free(output);
    return good;
}

static bool run_rows(struct format_run *run, const struct format *format, const struct format_case *c, const void *query) {
    void *key = store(format->key, c->key, c->keys, &run->stored.key);
    void *value = store(format->key, c->value, c->keys, &run->stored.value);
    struct heed_attention request = request_of(c);
    request.compute = format->compute;
    request.query.data = query, request.key.data = key, request.value.data = value;
    request.query.type = format->query, request.key.type = request.value.type = format->key;
    const bool good = key && value && attend(run, &request, format->output);
    free(key);
    free(value);
    return good;
}

static bool run_cache(struct format_run *run, const struct format *format, const struct format_case *c, const void *query) {
    const struct heed_kv_cache cache = append(c, run->scales);
    struct heed_attention request = request_of(c);
    request.compute = format->compute;
    request.query.data = query, request.query.type = format->query;
    request.key = request.value = (struct heed_input){0};
    request.cache = &cache;
    const bool good = cache.data && read_back(&cache, &run->stored) && attend(run, &request, format->output);
    free(cache.data);
    return good;
}

bool format_run_make(struct format_run *run, const struct format *format, const struct format_case *c) {
    *run = (struct format_run){.stored = {.queries = c->queries, .keys = c->keys}};
    void *query = store(format->query, c->query, c->queries, &run->stored.query);
    find_scales(c, format->scales_channels, run->scales);
    const bool good = query && (format->key == HEED_I8 ? run_cache : run_rows)(run, format, c, query) && solve(&run->stored);
    free(query);
    return good;
}

void format_run_free(struct format_run *run) {
    format_case_free(&run->stored);
    free(run->output);
}

/* --- Errors --- */

struct format_error format_error(const struct format_run *run, const struct format_case *against) {
    struct format_error error = {0, 0};
    const int64_t n = against->queries * FORMAT_DIM;
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs((double)run->output[i] - against->output[i]) / against->column[i % FORMAT_DIM];
        error.max = e > error.max ? e : error.max; /* gcc 12 for AArch64 breaks down on a loop of fmax */
        error.rms += e * e;
    }
    error.rms = sqrt(error.rms / (double)n);
    return error;
}
