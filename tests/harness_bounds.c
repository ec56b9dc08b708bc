/* The bounds of attention, row by row; harness_bounds.h says what they rest on. */
#include "harness_bounds.h"

#include "internal.h"
#include "types.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

struct spread spread_of(const double *p, const double *e, int64_t n) {
    struct spread sum = {.low = -(double)n * FLUSH, .high = (double)n * FLUSH};
    for (int64_t j = 0; j < n; j++) {
        sum.low += p[j] > 0 ? p[j] * exp2(-e[j]) : 0;
        sum.high += p[j] > 0 ? p[j] * exp2(e[j]) : 0;
    }
    sum.low = fmax(sum.low, 0);
    return sum;
}

double weight_error(double p, double e, struct spread sum) {
    double above = p > 0 ? p * (exp2(e) / sum.low - 1) : 0, below = p > 0 ? p * (1 - exp2(-e) / sum.high) : 0;
    return fmax(above, below) + FLUSH / sum.low;
}

/* One row: what the oracle says of it, and how far it may be off.  Arrays have an element for each column and one for the sink. */
struct row {
    const struct heed_attention *request;
    bool i8_keys, i8_values; /* which of them meet bytes in HEED_COMPUTE_I8 */
    const float *channels;   /* key_channel_scales of the cache, or NULL */
    int64_t b, h, i, number; /* number: as ref_row has it */
    int64_t keys, chunks;    /* of its sequence */
    double *p, lse, max;     /* p: as nonzero_weight has it; max: of the scores, to base 2, at most */
    double *e;               /* of the logarithms of p to base 2 */
    double *score_error;     /* of score_stage */
    double terms;            /* of the absolute values that scores to base 2 are sums of, at most */
    struct spread sum;
};

static bool has_terms(const struct heed_attention *r) {
    return r->softcap > 0 || r->bias.data || r->alibi_slopes || r->relative.table;
}

static double tiny_of(const struct heed_attention *r) { return rounds_to_bf16(r->compute) ? TINY_BF16 : TINY; }

/* A product of two rounded factors: (1 + B)^2 of what it was. */
static double factors_error(const struct heed_attention *r) { return rounds_to_bf16(r->compute) ? 2 * B + B * B : 0; }

/* What a score is a sum of, in absolute values, and its error, stage by stage. */
struct bound {
    double terms, error;
};

/* The chain of head_dim fmas over q' = q f.  f has at most four roundings (square root and quotient of the scale, log2(e), their
 * product), q' one more, a key's scale one, scales of channels one of q and one of k, and a score that is shown two for z ln 2:
 * |error| <= gamma(D + 10) sum |q k| |scale|, plus TINY for each fma, for the key's scale and, times the other one, for each q' and
 * each k that becomes 0; so too for q s and k / s, s a channel's scale, which may be far from 1.  Where queries become bytes, each
 * is off by byte_error; that the scale is one of log2(e) times as much changes nothing. */
static struct bound bound_raw(const struct row *row, int64_t j) {
    const struct heed_attention *r = row->request;
    const struct ref_sequence s = ref_sequence_of(r, row->b);
    const float *query = (const float *)r->query.data + (r->query_starts ? 0 : row->b * r->query.batch_stride) +
                         row->h * r->query.head_stride + (s.first_query + row->i) * r->query.token_stride;
    const float *key = (const float *)r->key.data + (r->key_starts ? 0 : row->b * r->key.batch_stride) +
                       row->h / (r->num_heads / r->num_kv_heads) * r->key.head_stride + (s.first_key + j) * r->key.token_stride;
    const float *channels = row->channels ? row->channels + row->h / (r->num_heads / r->num_kv_heads) * r->head_dim : NULL;
    double terms = 0, tiny = TINY, largest = 0, bytes = 0, keys = 0;
    for (int64_t d = 0; d < r->head_dim; d++) {
        const double channel = channels ? (double)channels[d] : 1, q = (double)query[d] * channel, k = (double)key[d] / channel;
        terms += fabs(q * k * ref_scale(r));
        largest = larger_of(largest, fabs(q * ref_scale(r)));
        keys += fabs(k);
        if ((d + 1) % TYPE_BLOCK == 0 || d + 1 == r->head_dim) {
            bytes += byte_error(largest) * keys;
            largest = keys = 0;
        }
        tiny += (1 + fabs(k) * (1 + (channels ? fabs(ref_scale(r)) : 0)) + fabs(q * ref_scale(r))) * tiny_of(r);
    }
    const double factors = factors_error(r);
    const double rounded = row->i8_keys ? bytes : 0;
    return (struct bound){terms, (gamma_of(r->head_dim + 10) * (1 + factors) + factors) * terms + 2 * tiny +
                                     (1 + gamma_of(r->head_dim + 10)) * rounded};
}

/* y = cap tanh(x (1 / cap)): the argument has two roundings, which change tanh by no larger factor as t tanh'(t) <= tanh(t); tanh
 * is within 1 ULP, at most 2 u; the product has one: gamma(5) |y|.  |tanh'| <= 1, so an error of x does not grow, nor is it more
 * than 2 cap.  Where x / cap or tanh is below 2^-126 it is off by TINY. */
static struct bound bound_capped(const struct row *row, int64_t j, struct bound raw) {
    const double cap = (double)row->request->softcap;
    if (cap == 0)
        return raw;
    double y = fabs(ref_score(row->request, row->b, row->h, row->i, j, HEED_SCORES_CAPPED));
    return (struct bound){y, fmin(raw.error, 2 * cap) + gamma_of(6) * y + (2 * cap + 1) * tiny_of(row->request)};
}

/* Bias, alibi's fma and relative bias are one rounding each of a sum whose terms have these absolute values. */
static struct bound bound_biased(const struct row *row, int64_t j, struct bound capped) {
    const struct heed_attention *r = row->request;
    struct heed_attention without = *r;
    double score = ref_score(r, row->b, row->h, row->i, j, HEED_SCORES_BIASED);
    double most = capped.terms, before = ref_score(r, row->b, row->h, row->i, j, HEED_SCORES_CAPPED);
    if (!has_terms(r))
        return capped;
    without.alibi_slopes = NULL;
    double with_bias = ref_score(&without, row->b, row->h, row->i, j, HEED_SCORES_BIASED);
    without.bias.data = NULL;
    double with_relative = ref_score(&without, row->b, row->h, row->i, j, HEED_SCORES_BIASED);
    most += fabs(with_bias - with_relative) + fabs(with_bias - score) + fabs(with_relative - before);
    return (struct bound){most, capped.error + gamma_of(4) * most + 3 * tiny_of(row->request)};
}

/* A weight that is 0 only because it is below the range of doubles, which an error of its score may bring back: from 0 no factor
 * would. */
static double nonzero_weight(double p) { return p == 0 ? 0x1p-1074 : p; }

/* From scores to weights: z = log2(e) score has two roundings where it is a product.  A key's weight relative to the row's maximum
 * M is the product of exp2(z - m_c), of exp2(m_c - m') and of the exp2(m - m') of all later chunks; the arguments, each rounded
 * once, add up to z - M, and each exp2 adds 3 u: so the logarithm is off by e = d + u |z - M| + 3 u (chunks + 1).  As all keys of a
 * chunk, and the sum l and the output o, use the same factors, this is all that differs from the softmax of the rounded scores but
 * for the roundings of the sums.  A sink is the first chunk's maximum, with two roundings. */
static void bound_weights(struct row *row) {
    const struct heed_attention *r = row->request;
    const int64_t columns = ref_columns(r);
    double *z = new_doubles(columns + 1);
    row->max = -INFINITY;
    row->terms = 0;
    for (int64_t j = 0; j <= columns; j++) {
        struct bound stage[3] = {{0, 0}, {0, 0}, {0, 0}};
        z[j] = j < columns ? LOG2E * ref_score(r, row->b, row->h, row->i, j, HEED_SCORES_BIASED)
               : r->sinks  ? LOG2E * (double)r->sinks[row->h]
                           : -INFINITY;
        if (j < columns && ref_sees(r, row->b, row->i, j)) {
            stage[0] = bound_raw(row, j);
            stage[1] = bound_capped(row, j, stage[0]);
            stage[2] = isinf(z[j]) ? stage[1] : bound_biased(row, j, stage[1]);
        }
        row->score_error[j] = stage[r->score_stage].error;
        row->e[j] = isinf(z[j]) ? 0
                                : LOG2E * stage[2].error + gamma_of(3) * (j == columns || has_terms(r) ? fabs(z[j]) : 0) +
                                      tiny_of(row->request);
        row->max = fmax(row->max, z[j] + row->e[j]);
        row->terms = fmax(row->terms, LOG2E * stage[2].terms);
    }
    for (int64_t j = 0; j <= columns; j++)
        row->e[j] += isinf(z[j]) ? 0 : U * (row->max - z[j] + row->e[j]) + 3 * U * (double)(row->chunks + 1);
    row->p[columns] = isfinite(z[columns]) && isfinite(row->lse) ? nonzero_weight(exp((double)r->sinks[row->h] - row->lse)) : 0;
    row->sum = spread_of(row->p, row->e, columns + 1);
    free(z);
}

static bool has_weight(const struct row *row, int64_t j) {
    return ref_sees(row->request, row->b, row->i, j) && !ref_hides(row->request, row->b, row->h, row->i, j);
}

/* The scale of a value in bytes, whose largest element is 127. */
static double scale_of(const float *value, int64_t n) {
    double largest = 0;
    for (int64_t d = 0; d < n; d++)
        largest = larger_of(largest, fabs((double)value[d]));
    return fmax(largest / 127, 0x1p-126);
}

/* Weights times scales become bytes, with one scale for each TYPE_BLOCK keys, so that each is off by as much, and what it is
 * multiplied by are integers: bound has that added.  A byte of 0 adds nothing even where no weight is sure: largest is infinite
 * there. */
static void add_weight_bytes(const struct row *row, const float *values, double *bound) {
    const struct heed_attention *r = row->request;
    const int64_t stride = r->value.token_stride, n = r->value_dim;
    for (int64_t from = 0; from < row->keys; from += TYPE_BLOCK) {
        const int64_t to = min_i64(row->keys, from + TYPE_BLOCK);
        double largest = 0;
        for (int64_t j = from; j < to; j++)
            if (has_weight(row, j))
                largest =
                    fmax(largest, (row->p[j] + weight_error(row->p[j], row->e[j], row->sum)) * scale_of(values + j * stride, n));
        for (int64_t j = from; j < to; j++)
            for (int64_t d = 0; d < n && has_weight(row, j); d++) {
                const double v = fabs((double)values[j * stride + d]);
                bound[d] += v > 0 ? byte_error(largest) * v / scale_of(values + j * stride, n) : 0;
            }
    }
}

/* o: at most 256 fmas in the chunk, one product, one fma for each chunk; l: 20 additions, one product, one fma for each chunk; then
 * 1 / l and the product; a weight that meets a value's scale is rounded once more.  So an output is sum p' v (1 + theta), theta
 * within gamma(min(n, 256) + 20 + 2 chunks + 5), and what underflows is off by TINY, times an integer of up to 127.
 * In bf16 p' and v are rounded once more.  AMX's sums of 32 have fewer roundings, one after another, than chains. */
static void check_output(const struct row *row, const float *got, const double *want, struct accuracy *accuracy) {
    const struct heed_attention *r = row->request;
    const struct ref_sequence s = ref_sequence_of(r, row->b);
    const float *values = (const float *)r->value.data + (r->key_starts ? 0 : row->b * r->value.batch_stride) +
                          row->h / (r->num_heads / r->num_kv_heads) * r->value.head_stride + s.first_key * r->value.token_stride;
    const double factors = factors_error(r),
                 gamma = gamma_of(min_i64(row->keys, 256) + 25 + 2 * row->chunks) * (1 + factors) + factors;
    double *bound = new_doubles(r->value_dim), *terms = new_doubles(r->value_dim);
    for (int64_t d = 0; d < r->value_dim; d++)
        bound[d] = terms[d] = 0;
    for (int64_t j = 0; j < row->keys; j++) {
        if (!has_weight(row, j))
            continue;
        double off = weight_error(row->p[j], row->e[j], row->sum);
        for (int64_t d = 0; d < r->value_dim; d++) {
            double v = fabs((double)values[j * r->value.token_stride + d]);
            bound[d] += 128 * tiny_of(row->request) + (v > 0 ? (off + gamma * (row->p[j] + off)) * v : 0);
            terms[d] += row->p[j] * v;
        }
    }
    if (row->i8_values)
        add_weight_bytes(row, values, bound);
    for (int64_t d = 0; d < r->value_dim; d++)
        must(accuracy_add(accuracy, got[d], want[d],
                          bound[d] > 0 ? bound[d] + (double)(3 * row->chunks + 3) * tiny_of(row->request) : 0, terms[d]));
    free(bound);
    free(terms);
}

static double weight_bound(const struct row *row, int64_t j) {
    if (!has_weight(row, j))
        return 0;
    double off = weight_error(row->p[j], row->e[j], row->sum);
    return off + gamma_of(24 + row->chunks) * (row->p[j] + off) + tiny_of(row->request);
}

/* lse = fma(M, ln 2, ln l): the sum of the exponentials may be off as its spread and its 21 + chunks roundings say; ln by 2 u; ln 2
 * and the fma by u each. */
static void check_lse(const struct row *row, float got, struct accuracy *accuracy) {
    double spread = fmax(log(row->sum.high), -log(row->sum.low)), size = fabs(row->lse) + fabs(row->max) / LOG2E;
    double bound = isinf(row->lse) ? 0 : spread + gamma_of(22 + row->chunks) + 4 * U * size;
    must(accuracy_add(accuracy, got, row->lse, bound, size + row->terms));
}

static void check_scores(const struct row *row, const float *got, const double *want, struct accuracy *accuracy) {
    for (int64_t j = 0; j < ref_columns(row->request); j++)
        must(accuracy_add(accuracy, got[j], want[j], isinf(want[j]) ? 0 : row->score_error[j], fabs(want[j])));
}

/* The oracle's results; and the bounds of the masses, which are added up row by row. */
struct exact {
    struct ref_attention_result result;
    double *mass_bound;
};

static void check_row(struct row *row, const struct attention_case *c, const struct attention_result *got,
                      const struct exact *exact, struct attention_accuracy *accuracy) {
    const struct heed_attention *r = row->request;
    const int64_t columns = ref_columns(r), n = row->number, queries = ref_sequence_of(r, row->b).queries;
    const double *weights = exact->result.weights + n * columns;
    row->lse = exact->result.lse[n];
    for (int64_t j = 0; j < columns; j++)
        row->p[j] = has_weight(row, j) ? nonzero_weight(weights[j]) : 0;
    bound_weights(row);
    if (c->wants[OUTPUT])
        check_output(row, got->part[OUTPUT] + n * r->value_dim, exact->result.output + n * r->value_dim, &accuracy->part[OUTPUT]);
    for (int64_t j = 0; j < columns && c->wants[WEIGHTS]; j++)
        must(accuracy_add(&accuracy->part[WEIGHTS], got->part[WEIGHTS][n * columns + j], weights[j], weight_bound(row, j),
                          weights[j]));
    if (c->wants[LSE])
        check_lse(row, got->part[LSE][n], &accuracy->part[LSE]);
    if (c->wants[SCORES])
        check_scores(row, got->part[SCORES] + n * columns, exact->result.scores + n * columns, &accuracy->part[SCORES]);
    for (int64_t j = 0; j < columns && (r->mass_queries == 0 || row->i >= queries - r->mass_queries); j++)
        exact->mass_bound[(row->b * r->num_heads + row->h) * columns + j] += weight_bound(row, j);
}

/* A sum of one weight for each query: no more roundings than queries. */
static void check_mass(const struct heed_attention *r, const float *got, const struct exact *exact, struct accuracy *accuracy) {
    for (int64_t n = 0; n < r->batch * r->num_heads * ref_columns(r); n++) {
        double want = exact->result.mass[n], bound = exact->mass_bound[n];
        must(accuracy_add(accuracy, got[n], want, bound + gamma_of(r->query_tokens + 1) * (want + bound), want));
    }
}

void check_attention(const struct attention_case *c, const struct attention_result *got, struct attention_accuracy *accuracy) {
    const struct heed_attention *r = &c->request;
    const int64_t rows = ref_rows(r), columns = ref_columns(r), masses = r->batch * r->num_heads * columns;
    struct exact exact = {{new_doubles(rows * r->value_dim), new_doubles(rows * columns), new_doubles(rows),
                           new_doubles(rows * columns), new_doubles(masses)},
                          new_doubles(masses)};
    const bool i8 = r->compute == HEED_COMPUTE_I8;
    struct row row = {.request = r,
                      .i8_keys = i8 && c->types.key == HEED_I8,
                      .i8_values = i8 && c->types.value == HEED_I8,
                      .channels = accuracy->key_channel_scales,
                      .p = new_doubles(columns + 1),
                      .e = new_doubles(columns + 1),
                      .score_error = new_doubles(columns + 1)};
    ck_assert(ref_attention(r, &exact.result));
    for (int64_t n = 0; n < masses; n++)
        exact.mass_bound[n] = 0;
    for (row.b = 0; row.b < r->batch; row.b++) {
        const struct ref_sequence s = ref_sequence_of(r, row.b);
        row.keys = s.keys;
        row.chunks = ceil_div(s.keys, HEED_CHUNK);
        for (row.h = 0; row.h < r->num_heads; row.h++) {
            for (row.i = 0; row.i < s.queries; row.i++) {
                row.number = ref_row(r, row.b, row.h, row.i);
                check_row(&row, c, got, &exact, accuracy);
            }
        }
    }
    if (c->wants[MASS])
        check_mass(r, got->part[MASS], &exact, &accuracy->part[MASS]);
    double *const arrays[] = {exact.result.output,
                              exact.result.weights,
                              exact.result.lse,
                              exact.result.scores,
                              exact.result.mass,
                              exact.mass_bound,
                              row.p,
                              row.e,
                              row.score_error};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}
