/* The arrays of heed run beside query, key and value: mask and bias, which broadcast as in NumPy, and numbers for each head or
 * batch entry. */
#include "run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { SCORE_RANK = 4 };

struct shape_text {
    char text[4 * 22 + 3];
};
static struct shape_text shape_text(int rank, const int64_t *shape) {
    struct shape_text result;
    int used = snprintf(result.text, sizeof result.text, "[");
    for (int i = 0; i < rank; i++)
        used += snprintf(result.text + used, sizeof result.text - (size_t)used, i > 0 ? ", %" PRId64 : "%" PRId64, shape[i]);
    snprintf(result.text + used, sizeof result.text - (size_t)used, "]");
    return result;
}

static bool wrong_shape(const char *option, const char *path, const struct npy *array, const char *rule, int rank,
                        const int64_t *wanted, const char *meaning, struct npy_error *error) {
    snprintf(error->text, sizeof error->text, "--%s %.200s: the shape is %s, must %s %s: %s", option, path,
             shape_text(array->rank, array->shape).text, rule, shape_text(rank, wanted).text, meaning);
    return false;
}

/* Reads a tensor with an element for each score.  Dimensions of 1 repeat themselves, and the first may be left out. */
static bool read_scorewise(const char *option, const char *path, enum npy_type type, const struct heed_attention *request,
                           struct npy *array, int64_t strides[SCORE_RANK], struct npy_error *error) {
    const int64_t sizes[SCORE_RANK] = {request->batch, request->num_heads, request->query_tokens, request->key_tokens};
    if (!npy_read(path, &(struct npy_wanted){type, false, 1, SCORE_RANK}, array, error))
        return false;
    int64_t stride = 1;
    for (int i = SCORE_RANK - 1, own = array->rank - 1; i >= 0; i--, own--) {
        const int64_t size = own >= 0 ? array->shape[own] : 1;
        if (size != 1 && size != sizes[i])
            return wrong_shape(option, path, array, "broadcast to", SCORE_RANK, sizes, "batch, heads, query tokens, key tokens",
                               error);
        strides[i] = size == 1 ? 0 : stride;
        stride *= size;
    }
    return true;
}

/* Reads a vector with a number for each head, say. */
static bool read_vector(const char *option, const char *path, enum npy_type type, int64_t size, const char *meaning,
                        struct npy *array, struct npy_error *error) {
    if (!npy_read(path, &(struct npy_wanted){type, false, 1, 1}, array, error))
        return false;
    return array->shape[0] == size || wrong_shape(option, path, array, "be", 1, &size, meaning, error);
}

static bool add_mask(struct run_call *call, struct heed_attention *request, struct npy_error *error) {
    int64_t strides[SCORE_RANK];
    if (!read_scorewise("mask", call->options->mask, NPY_FLAGS, request, &call->mask, strides, error))
        return false;
    request->mask = (struct heed_mask){call->mask.flags, strides[0], strides[1], strides[2], strides[3]};
    return true;
}

static bool add_bias(struct run_call *call, struct heed_attention *request, struct npy_error *error) {
    int64_t strides[SCORE_RANK];
    if (!read_scorewise("bias", call->options->bias, NPY_FLOATS, request, &call->bias, strides, error))
        return false;
    request->bias = (struct heed_bias){call->bias.data, strides[0], strides[1], strides[2], strides[3]};
    return true;
}

/* Press et al. 2022, section 3: for n heads, a power of two, the powers of 2^(-8/n).  For others, as in the authors' code, those of
 * the next power of two below, then every other one of the next above. */
static float alibi_slope(int64_t head, int64_t heads) {
    int64_t power = 1;
    while (power <= heads / 2)
        power *= 2;
    const double step = 8.0 / (double)power;
    return (float)exp2(head < power ? -step * (double)(head + 1) : -step / 2 * (double)(2 * (head - power) + 1));
}

static bool add_alibi(struct run_call *call, struct heed_attention *request, struct npy_error *error) {
    struct npy *slopes = &call->alibi;
    const char *path = call->options->alibi.path;
    const int64_t heads = request->num_heads;
    if (path && !read_vector("alibi", path, NPY_FLOATS, heads, "heads", slopes, error))
        return false;
    if (!path) {
        *slopes = (struct npy){.type = NPY_FLOATS, .rank = 1, .shape = {heads}};
        if (!npy_allocate("--alibi", slopes, error))
            return false;
        for (int64_t head = 0; head < heads; head++)
            slopes->data[head] = alibi_slope(head, heads);
    }
    request->alibi_slopes = slopes->data;
    return true;
}

static bool add_sinks(struct run_call *call, struct heed_attention *request, struct npy_error *error) {
    const bool good = read_vector("sinks", call->options->sinks, NPY_FLOATS, request->num_heads, "heads", &call->sinks, error);
    request->sinks = call->sinks.data;
    return good;
}

static bool add_key_lengths(struct run_call *call, struct heed_attention *request, struct npy_error *error) {
    const bool good =
        read_vector("key-lengths", call->options->key_lengths, NPY_INTEGERS, request->batch, "batch", &call->key_lengths, error);
    request->key_lengths = call->key_lengths.integers;
    return good;
}

/* The same for every batch entry. */
static bool add_offsets(struct run_call *call, struct heed_attention *request, struct npy_error *error) {
    struct npy *offsets = &call->query_offsets;
    *offsets = (struct npy){.type = NPY_INTEGERS, .rank = 1, .shape = {request->batch}};
    if (!npy_allocate("query offsets", offsets, error))
        return false;
    for (int64_t b = 0; b < request->batch; b++)
        offsets->integers[b] = call->options->position.offset;
    request->query_offsets = offsets->integers;
    return true;
}

bool run_terms(struct run_call *call, struct heed_attention *request, struct npy_error *error) {
    const struct run_options *options = call->options;
    const struct {
        bool wanted;
        bool (*add)(struct run_call *, struct heed_attention *, struct npy_error *);
    } terms[] = {
        {options->mask, add_mask},
        {options->bias, add_bias},
        {options->alibi.on, add_alibi},
        {options->sinks, add_sinks},
        {options->key_lengths, add_key_lengths},
        {options->position.alignment == HEED_ALIGN_OFFSETS, add_offsets},
    };
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        if (terms[i].wanted && !terms[i].add(call, request, error))
            return false;
    return true;
}
