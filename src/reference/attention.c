/* The oracle of attention with all its options: each of them as its own definition, key by key. */
#include "reference/reference.h"

#include <math.h>
#include <stdlib.h>

double ref_scale(const struct heed_attention *attention) {
    return attention->scale == 0 ? 1 / sqrt((double)attention->head_dim) : (double)attention->scale;
}

/* --- What a query may see --- */

static int64_t offset_of(const struct heed_attention *attention, int64_t b, int64_t queries, int64_t keys) {
    switch (attention->alignment) {
    case HEED_ALIGN_BOTTOM_RIGHT:
        return attention->key_position + keys - queries;
    case HEED_ALIGN_OFFSETS:
        return attention->query_offsets[b];
    default:
        return 0;
    }
}

struct ref_sequence ref_sequence_of(const struct heed_attention *attention, int64_t b) {
    const int64_t *queries = attention->query_starts, *keys = attention->key_starts;
    struct ref_sequence s = {.first_query = queries ? queries[b] : 0,
                             .queries = queries ? queries[b + 1] - queries[b] : attention->query_tokens,
                             .first_key = keys ? keys[b] : 0,
                             .keys = keys ? keys[b + 1] - keys[b] : attention->key_tokens};
    if (attention->key_lengths)
        s.keys = attention->key_lengths[b];
    s.offset = offset_of(attention, b, s.queries, s.keys);
    return s;
}

/* How far key j stands after query i. */
static int64_t ahead_of(const struct heed_attention *attention, int64_t b, int64_t i, int64_t j) {
    return attention->key_position + j - (i + ref_sequence_of(attention, b).offset);
}

bool ref_sees(const struct heed_attention *attention, int64_t b, int64_t i, int64_t j) {
    const struct heed_window *window = &attention->window;
    int64_t ahead = ahead_of(attention, b, i, j);
    bool within_length = j < ref_sequence_of(attention, b).keys;
    bool not_future = !attention->causal || ahead <= 0;
    bool not_left = !window->on || window->left == -1 || -ahead <= window->left;
    bool not_right = !window->on || window->right == -1 || ahead <= window->right;
    return within_length && not_future && not_left && not_right;
}

static double bias_of(const struct heed_bias *bias, int64_t b, int64_t h, int64_t i, int64_t j) {
    if (!bias->data)
        return 0;
    return bias->data[b * bias->batch_stride + h * bias->head_stride + i * bias->query_stride + j * bias->key_stride];
}

static bool masked(const struct heed_mask *mask, int64_t b, int64_t h, int64_t i, int64_t j) {
    return mask->data &&
           !mask->data[b * mask->batch_stride + h * mask->head_stride + i * mask->query_stride + j * mask->key_stride];
}

static bool off_the_tree(const struct heed_tree *tree, int64_t b, int64_t i, int64_t nth_key) {
    if (!tree->words || nth_key < 0)
        return false;
    return !(tree->words[b * tree->batch_stride + i * tree->query_stride + nth_key / 64] >> nth_key % 64 & 1);
}

bool ref_hides(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t before_the_tree = ref_sequence_of(attention, b).keys - attention->tree.keys;
    return masked(&attention->mask, b, h, i, j) || off_the_tree(&attention->tree, b, i, j - before_the_tree) ||
           bias_of(&attention->bias, b, h, i, j) == -INFINITY;
}

/* --- What becomes of a score --- */

/* As in T5: distances below n / 2 exactly, the others by their logarithm.  Where the quotient of the logarithms should be a whole
 * number, its rounding must not make it the one below: other distances are farther from it than this. */
int64_t ref_bucket(const struct heed_relative *relative, int64_t ahead) {
    const double rounding = 1e-9;
    int64_t n = relative->num_buckets, first = 0, distance = ahead < 0 ? -ahead : 0;
    if (relative->bidirectional) {
        n /= 2;
        first = ahead > 0 ? n : 0;
        distance = ahead < 0 ? -ahead : ahead;
    }
    int64_t exact = n / 2;
    if (distance < exact)
        return first + distance;
    double part = log((double)distance / (double)exact) / log((double)relative->max_distance / (double)exact);
    int64_t bucket = exact + (int64_t)(part * (double)(n - exact) + rounding);
    return first + (bucket < n ? bucket : n - 1);
}

static double relative_bias(const struct heed_relative *relative, int64_t h, int64_t ahead) {
    if (!relative->table)
        return 0;
    return relative->table[h * relative->head_stride + ref_bucket(relative, ahead) * relative->bucket_stride];
}

static const float *element(const struct heed_input *input, bool packed, int64_t b, int64_t h, int64_t token) {
    return (const float *)input->data + (packed ? 0 : b * input->batch_stride) + h * input->head_stride +
           token * input->token_stride;
}

static int64_t kv_head_of(const struct heed_attention *attention, int64_t h) {
    return h / (attention->num_heads / attention->num_kv_heads);
}

static double raw_score(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i, int64_t j) {
    const struct ref_sequence s = ref_sequence_of(attention, b);
    const float *query = element(&attention->query, attention->query_starts, b, h, s.first_query + i);
    const float *key = element(&attention->key, attention->key_starts, b, kv_head_of(attention, h), s.first_key + j);
    double sum = 0;
    for (int64_t d = 0; d < attention->head_dim; d++)
        sum += (double)query[d] * (double)key[d];
    return ref_scale(attention) * sum;
}

double ref_score(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i, int64_t j, enum heed_score_stage stage) {
    if (!ref_sees(attention, b, i, j))
        return -INFINITY;
    double score = raw_score(attention, b, h, i, j), cap = (double)attention->softcap;
    if (stage >= HEED_SCORES_CAPPED && cap > 0)
        score = cap * tanh(score / cap);
    if (stage < HEED_SCORES_BIASED)
        return score;
    if (ref_hides(attention, b, h, i, j))
        return -INFINITY;
    int64_t ahead = ahead_of(attention, b, i, j);
    score += bias_of(&attention->bias, b, h, i, j);
    if (attention->alibi_slopes)
        score -= (double)attention->alibi_slopes[h] * fabs((double)ahead);
    return score + relative_bias(&attention->relative, h, ahead);
}

/* --- Attention --- */

int64_t ref_columns(const struct heed_attention *attention) {
    if (!attention->key_starts)
        return attention->key_tokens;
    int64_t longest = 0;
    for (int64_t b = 0; b < attention->batch; b++) {
        int64_t keys = attention->key_starts[b + 1] - attention->key_starts[b];
        longest = keys > longest ? keys : longest;
    }
    return longest;
}

int64_t ref_rows(const struct heed_attention *attention) {
    return (attention->query_starts ? 1 : attention->batch) * attention->num_heads * attention->query_tokens;
}

int64_t ref_row(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i) {
    int64_t heads = (attention->query_starts ? 0 : b * attention->num_heads) + h;
    return heads * attention->query_tokens + ref_sequence_of(attention, b).first_query + i;
}

/* Writes the weights of one query, and after them that of the sink, which is a score without a value; returns their
 * log-sum-exp.  A key that the query does not see has no part in a NaN. */
static double weigh(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i, double *weights) {
    int64_t columns = ref_columns(attention);
    for (int64_t j = 0; j < columns; j++)
        weights[j] = ref_score(attention, b, h, i, j, HEED_SCORES_BIASED);
    weights[columns] = attention->sinks ? (double)attention->sinks[h] : -INFINITY;
    double log_sum = ref_softmax_row(weights, columns + 1);
    for (int64_t j = 0; j < columns; j++)
        weights[j] = ref_sees(attention, b, i, j) ? weights[j] : 0;
    return log_sum;
}

static void weighted_sum(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i, const double *weights,
                         double *output) {
    const struct ref_sequence s = ref_sequence_of(attention, b);
    for (int64_t d = 0; d < attention->value_dim; d++)
        output[d] = 0;
    for (int64_t j = 0; j < s.keys; j++) {
        if (!ref_sees(attention, b, i, j))
            continue;
        const float *value = element(&attention->value, attention->key_starts, b, kv_head_of(attention, h), s.first_key + j);
        for (int64_t d = 0; d < attention->value_dim; d++)
            output[d] += weights[j] * (double)value[d];
    }
}

/* Everything of one query; weights has room for one more than the columns. */
static void attend(const struct heed_attention *attention, int64_t b, int64_t h, int64_t i, double *weights,
                   const struct ref_attention_result *result) {
    int64_t columns = ref_columns(attention), row = ref_row(attention, b, h, i);
    int64_t queries = ref_sequence_of(attention, b).queries, counted = attention->mass_queries;
    double log_sum = weigh(attention, b, h, i, weights);
    if (result->output)
        weighted_sum(attention, b, h, i, weights, result->output + row * attention->value_dim);
    if (result->lse)
        result->lse[row] = log_sum;
    for (int64_t j = 0; j < columns; j++) {
        if (result->weights)
            result->weights[row * columns + j] = weights[j];
        if (result->scores)
            result->scores[row * columns + j] = ref_score(attention, b, h, i, j, attention->score_stage);
        if (result->mass && (counted == 0 || i >= queries - counted))
            result->mass[(b * attention->num_heads + h) * columns + j] += weights[j];
    }
}

bool ref_attention(const struct heed_attention *attention, const struct ref_attention_result *result) {
    int64_t columns = ref_columns(attention);
    double *weights = malloc((size_t)(columns + 1) * sizeof *weights);
    if (!weights)
        return false;
    for (int64_t j = 0; result->mass && j < attention->batch * attention->num_heads * columns; j++)
        result->mass[j] = 0;
    for (int64_t b = 0; b < attention->batch; b++)
        for (int64_t h = 0; h < attention->num_heads; h++)
            for (int64_t i = 0; i < ref_sequence_of(attention, b).queries; i++)
                attend(attention, b, h, i, weights, result);
    free(weights);
    return true;
}
