/* Results of attention with any options against the oracle in double, within bounds that follow from src/arithmetic.md.  They are
 * those of tests/test_accuracy.c, with one more error for each step that an option adds to a score, and safe rather than tight:
 * what is wrong by an option is wrong by far more.
 *
 * u = 2^-24, gamma(n) = n u / (1 - n u), and an underflow is off by TINY, as there. */
#include "fuzz.h"
#include "roundings.h"
#include "types.h"

#include <math.h>
#include <stdlib.h>

#define F16_MOST 65504.0

static double *new_array(int64_t n) {
    double *x = calloc((size_t)n + 1, sizeof *x);
    if (!x)
        fuzz_fail("no memory for %lld numbers", (long long)n);
    return x;
}

/* One row: what the oracle says of it, and how far its scores may be off. */
struct row {
    const struct attention_fuzz *f;
    int64_t b, h, i, number, columns, chunks;
    const double *p, *output;      /* the oracle's */
    double lse;                    /* the oracle's */
    double *natural[3];            /* error of a score at each stage */
    double *low, *high;            /* what a weight, relative to the sum, may be instead of p; high < 0: nothing but 0 */
    double max, sum_low, sum_high; /* largest score; what the sum of the weights, 1, may be instead */
};

static bool rounds_factors(const struct row *row) { return rounds_to_bf16(row->f->plain.compute); }

static double tiny_of(const struct row *row) { return rounds_factors(row) ? TINY_BF16 : TINY; }

static double factors_error(const struct row *row) { return rounds_factors(row) ? 2 * B + B * B : 0; }

/* Whether queries, or weights, become bytes for keys, or values. */
static bool meets_bytes(const struct row *row, const struct heed_input *view) {
    const struct heed_attention *request = &row->f->request;
    const bool keys = view == &row->f->plain.key;
    return request->compute == HEED_COMPUTE_I8 && request->cache &&
           (keys ? request->cache->key_type : request->cache->value_type) == HEED_I8;
}

static const float *row_of(const struct heed_input *view, bool packed, int64_t b, int64_t h, int64_t token) {
    const float *row = view->data;
    row += b > 0 && !packed ? b * view->batch_stride : 0;
    row += h > 0 ? h * view->head_stride : 0;
    return row + (token > 0 ? token * view->token_stride : 0);
}

/* Chain over head_dim of fmas with a scaled query: gamma(D + 6) of the absolute values, and TINY for what underflows. */
static double product_error(const struct row *row, int64_t j, double *terms) {
    const struct heed_attention *a = &row->f->plain;
    const struct ref_sequence s = ref_sequence_of(a, row->b);
    const float *query = row_of(&a->query, a->query_starts, row->b, row->h, s.first_query + row->i);
    const float *key = row_of(&a->key, a->key_starts, row->b, row->h / (a->num_heads / a->num_kv_heads), s.first_key + j);
    const struct heed_kv_cache *cache = row->f->request.cache;
    const float *channels = cache && cache->key_channel_scales
                                ? cache->key_channel_scales + row->h / (a->num_heads / a->num_kv_heads) * a->head_dim
                                : NULL;
    const double factors = factors_error(row);
    double sum = 0, tiny = tiny_of(row), largest = 0, keys = 0, bytes = 0;
    for (int64_t d = 0; d < a->head_dim; d++) {
        sum += fabs((double)query[d] * (double)key[d]);
        const double channel = channels ? (double)channels[d] : 1;
        largest = larger_of(largest, fabs((double)query[d] * ref_scale(a) * channel));
        keys += fabs((double)key[d] / channel);
        if ((d + 1) % TYPE_BLOCK == 0 || d + 1 == a->head_dim) {
            bytes += byte_error(largest) * keys;
            largest = keys = 0;
        }
        tiny += (1 + fabs((double)key[d]) + fabs((double)query[d] * ref_scale(a))) * tiny_of(row);
    }
    *terms = sum * fabs(ref_scale(a));
    const double rounded = meets_bytes(row, &a->key) ? (1 + gamma_of(a->head_dim + 6)) * bytes : 0;
    return (gamma_of(a->head_dim + 6) * (1 + factors) + factors) * *terms + 2 * tiny + rounded;
}

static int64_t bucket_offset(const struct heed_relative *relative, int64_t ahead) {
    const int64_t bucket = ref_bucket(relative, ahead);
    return bucket > 0 ? bucket * relative->bucket_stride : 0;
}

/* Each step rounds a few times, relative to the largest number around: 16 u of it is more than any step needs.  tanh has a slope
 * of at most 1, so what was wrong before is not more wrong after it; an argument that underflows is off by TINY times the cap.
 * ALiBi's distance is rounded where it exceeds 2^24, at a distance from the chunk that is up to 256 more. */
static void bound_score(const struct row *row, int64_t j) {
    const struct heed_attention *a = &row->f->plain;
    const struct ref_sequence s = ref_sequence_of(a, row->b);
    const int64_t ahead = a->key_position + j - (row->i + s.offset);
    const double cap = (double)a->softcap;
    double terms, error = product_error(row, j, &terms), size = terms;
    row->natural[HEED_SCORES_RAW][j] = error += 16 * U * size;
    error += cap > 0 ? 16 * U * size + 4 * cap * tiny_of(row) : 0;
    row->natural[HEED_SCORES_CAPPED][j] = error;
    if (a->bias.data) {
        const int64_t stride[] = {a->bias.batch_stride, a->bias.head_stride, a->bias.query_stride, a->bias.key_stride};
        const int64_t at[] = {row->b, row->h, row->i, j};
        const float *bias = a->bias.data;
        for (int dim = 0; dim < 4; dim++)
            bias += at[dim] > 0 ? at[dim] * stride[dim] : 0;
        size += *bias == -INFINITY ? 0 : fabs((double)*bias);
    }
    if (a->alibi_slopes) {
        const double slope = fabs((double)a->alibi_slopes[row->h]);
        size += slope * fabs((double)ahead);
        error += 8 * U * slope * (fabs((double)ahead) + 512);
    }
    if (a->relative.table)
        size += fabs(
            (double)a->relative.table[(row->h > 0 ? row->h * a->relative.head_stride : 0) + bucket_offset(&a->relative, ahead)]);
    row->natural[HEED_SCORES_BIASED][j] = error + 16 * U * size + tiny_of(row);
}

/* A weight relative to the largest is a product of exponentials whose arguments, each rounded once, add up to its distance from the
 * maximum; each exp2 adds 3 u.  The sink is one more key. */
static double logarithm_error(const struct row *row, double score, double error) {
    return LOG2E * (error + 4 * U * (row->max - score + error)) + 3 * U * (double)(row->chunks + 2);
}

/* Of a score whose logarithm is off by so much; a weight that underflows may be one that does not. */
static double weight_of(const struct row *row, double score, double error) {
    return score > -INFINITY ? exp2(LOG2E * (score - row->lse) + error) : 0;
}

static void bound_weights(struct row *row) {
    const struct heed_attention *a = &row->f->plain;
    const double sink = a->sinks ? (double)a->sinks[row->h] : -INFINITY;
    double *scores = new_array(row->columns);
    row->max = sink;
    for (int64_t j = 0; j < row->columns; j++) {
        scores[j] = ref_score(a, row->b, row->h, row->i, j, HEED_SCORES_BIASED);
        if (ref_sees(a, row->b, row->i, j))
            bound_score(row, j);
        if (scores[j] > -INFINITY)
            row->max = fmax(row->max, scores[j] + row->natural[HEED_SCORES_BIASED][j]);
    }
    const double sink_error = logarithm_error(row, sink, 4 * U * fabs(sink));
    row->sum_low = weight_of(row, sink, -sink_error);
    row->sum_high = weight_of(row, sink, sink_error);
    for (int64_t j = 0; j < row->columns; j++) {
        const double error = logarithm_error(row, scores[j], row->natural[HEED_SCORES_BIASED][j]);
        row->low[j] = weight_of(row, scores[j], -error);
        row->high[j] = scores[j] > -INFINITY ? weight_of(row, scores[j], error) : -1;
        row->sum_low += row->low[j];
        row->sum_high += fmax(0, row->high[j]);
    }
    row->sum_low = fmax(0, row->sum_low - (double)(row->columns + 1) * FLUSH);
    row->sum_high += (double)(row->columns + 1) * FLUSH;
    free(scores);
}

/* A weight lies between low / sum_high and high / sum_low, and is 1 at most. */
static double weight_error(const struct row *row, int64_t j) {
    if (row->high[j] < 0)
        return 0;
    const double above = fmin(row->high[j] / row->sum_low, 1 + 4 * U) - row->p[j], below = row->p[j] - row->low[j] / row->sum_high;
    return fmax(above, below) + FLUSH / row->sum_low;
}

static void must_be_near(const struct row *row, const char *what, int64_t at, float got, double want, double bound) {
    const bool infinite = isinf(want) || isinf((double)got);
    if (infinite ? (double)got == want : !(fabs((double)got - want) > bound) && !isnan(got))
        return;
    fuzz_fail("%s[%lld] of sequence %lld, head %lld, query %lld is %.9g, but the oracle has %.9g, and the bound is %g", what,
              (long long)at, (long long)row->b, (long long)row->h, (long long)row->i, (double)got, want, bound);
}

static const float *result_of(const struct row *row, const struct heed_output *view) {
    const struct heed_input input = {view->data, view->batch_stride, view->head_stride, view->token_stride, HEED_F32};
    const struct heed_attention *a = &row->f->plain;
    return row_of(&input, a->query_starts, row->b, row->h, ref_sequence_of(a, row->b).first_query + row->i);
}

/* An element of the output, of any type. */
static float output_of(const struct row *row, int64_t d) {
    const struct heed_attention *a = &row->f->plain;
    const struct heed_output *view = &a->output;
    const int64_t token = ref_sequence_of(a, row->b).first_query + row->i;
    const int64_t at = (row->b > 0 && !a->query_starts ? row->b * view->batch_stride : 0) +
                       (row->h > 0 ? row->h * view->head_stride : 0) + (token > 0 ? token * view->token_stride : 0);
    return fuzz_value(view->type, view->data, at + d);
}

/* Half a unit of the last place of the type for what is nearly x: of its 8 or 11 bits, or of its denormals. */
static double rounding_error(enum heed_type type, double x) {
    if (type == HEED_F32)
        return 0;
    return type == HEED_BF16 ? fabs(x) * 0x1p-8 + 0x1p-134 : fabs(x) * 0x1p-11 + 0x1p-25;
}

static const float *value_of(const struct row *row, int64_t j) {
    const struct heed_attention *a = &row->f->plain;
    return row_of(&a->value, a->key_starts, row->b, row->h / (a->num_heads / a->num_kv_heads),
                  ref_sequence_of(a, row->b).first_key + j);
}

/* A value's scale: its largest element is 127 of them. */
static double scale_of(const struct row *row, int64_t j) {
    double largest = 0;
    for (int64_t d = 0; d < row->f->plain.value_dim; d++)
        largest = larger_of(largest, fabs((double)value_of(row, j)[d]));
    return fmax(largest / 127, 0x1p-126);
}

/* What weights times scales, as bytes with a scale for each TYPE_BLOCK of them, do to output d. */
static double bytes_error(const struct row *row, const double *scales, int64_t keys, int64_t d) {
    double error = 0;
    for (int64_t from = 0; from < keys; from += TYPE_BLOCK) {
        const int64_t to = from + TYPE_BLOCK < keys ? from + TYPE_BLOCK : keys;
        double largest = 0, integers = 0;
        for (int64_t j = from; j < to; j++) {
            if (row->high[j] < 0)
                continue;
            largest = larger_of(largest, (row->p[j] + weight_error(row, j)) * scales[j]);
            integers += fabs((double)value_of(row, j)[d]) / scales[j];
        }
        error += byte_error(largest) * integers;
    }
    return error;
}

/* Sums: 256 fmas in a chunk, or 20 additions; two operations for each chunk; then 1 / sum and the product. */
static void check_output(const struct row *row) {
    const struct heed_attention *a = &row->f->plain;
    const struct ref_sequence s = ref_sequence_of(a, row->b);
    const double factors = factors_error(row);
    const double gamma = gamma_of((row->columns < 256 ? row->columns : 256) + 30 + 2 * row->chunks) * (1 + factors) + factors;
    double *scales = new_array(s.keys + 1);
    for (int64_t j = 0; j < s.keys; j++)
        scales[j] = scale_of(row, j);
    for (int64_t d = 0; d < a->value_dim; d++) {
        double bound = (double)(128 * row->columns + 4 * row->chunks + 4) * tiny_of(row); /* 127: of a byte */
        for (int64_t j = 0; j < s.keys; j++) {
            if (row->high[j] < 0)
                continue;
            const double off = weight_error(row, j), v = fabs((double)value_of(row, j)[d]);
            bound += v > 0 ? (off + gamma * (row->p[j] + off)) * v : 0;
        }
        bound += meets_bytes(row, &a->value) ? bytes_error(row, scales, s.keys, d) : 0;
        bound += rounding_error(a->output.type, fabs(row->output[d]) + bound);
        if (a->output.type != HEED_F16 || fabs(row->output[d]) + bound < F16_MOST)
            must_be_near(row, "output", d, output_of(row, d), row->output[d], bound);
    }
    free(scales);
}

static double stored_weight_error(const struct row *row, int64_t j) {
    const double off = weight_error(row, j);
    return row->high[j] < 0 ? 0 : off + gamma_of(28 + row->chunks) * (row->p[j] + off) + tiny_of(row);
}

static void check_lse(const struct row *row) {
    const double spread = fmax(log(row->sum_high), -log(row->sum_low)), size = fabs(row->lse) + fabs(row->max);
    must_be_near(row, "lse", 0, *result_of(row, &row->f->plain.lse), row->lse, spread + gamma_of(24 + row->chunks) + 16 * U * size);
}

static void check_scores(const struct row *row) {
    const struct heed_attention *a = &row->f->plain;
    for (int64_t j = 0; j < row->columns; j++) {
        const double want = ref_score(a, row->b, row->h, row->i, j, a->score_stage);
        must_be_near(row, "scores", j, result_of(row, &a->scores)[j], want, row->natural[a->score_stage][j]);
    }
}

/* Of one head: what its weights may be off by in all rows, and what they sum to. */
struct mass {
    double *bound, *sum;
};

static void check_row(struct row *row, const struct ref_attention_result *want, struct mass *mass) {
    const struct heed_attention *a = &row->f->plain;
    const int64_t queries = ref_sequence_of(a, row->b).queries;
    row->number = ref_row(a, row->b, row->h, row->i);
    row->p = want->weights + row->number * row->columns;
    row->output = want->output + row->number * a->value_dim;
    row->lse = want->lse[row->number];
    bound_weights(row);
    if (a->output.data)
        check_output(row);
    if (a->lse.data)
        check_lse(row);
    if (a->scores.data)
        check_scores(row);
    for (int64_t j = 0; j < row->columns; j++) {
        if (a->weights.data)
            must_be_near(row, "weights", j, result_of(row, &a->weights)[j], row->p[j], stored_weight_error(row, j));
        if (a->mass_queries == 0 || row->i >= queries - a->mass_queries) {
            mass->bound[j] += stored_weight_error(row, j);
            mass->sum[j] += row->p[j];
        }
    }
}

static void check_head(struct row *row, const struct ref_attention_result *want) {
    const struct heed_attention *a = &row->f->plain;
    const int64_t queries = ref_sequence_of(a, row->b).queries;
    struct mass mass = {new_array(row->columns), new_array(row->columns)};
    for (row->i = 0; row->i < queries; row->i++)
        check_row(row, want, &mass);
    const struct heed_input view = {a->mass.data, a->mass.batch_stride, a->mass.head_stride, 0, HEED_F32};
    for (int64_t j = 0; a->mass.data && j < row->columns; j++)
        must_be_near(row, "mass", j, row_of(&view, false, row->b, row->h, 0)[j], mass.sum[j],
                     mass.bound[j] + gamma_of(queries + 1) * (mass.sum[j] + mass.bound[j]));
    free(mass.bound);
    free(mass.sum);
}

void check_against_oracle(const struct attention_fuzz *f) {
    const struct heed_attention *a = &f->plain;
    const int64_t columns = ref_columns(a), rows = ref_rows(a);
    double *output = new_array(rows * a->value_dim), *weights = new_array(rows * columns), *lse = new_array(rows);
    const struct ref_attention_result want = {.output = output, .weights = weights, .lse = lse};
    struct row row = {
        .f = f, .columns = columns, .chunks = (columns + 255) / 256, .low = new_array(columns), .high = new_array(columns)};
    for (int stage = 0; stage < 3; stage++)
        row.natural[stage] = new_array(columns);
    if (!ref_attention(a, &want))
        fuzz_fail("no memory for the oracle");
    for (row.b = 0; row.b < a->batch; row.b++)
        for (row.h = 0; row.h < a->num_heads; row.h++)
            check_head(&row, &want);
    for (int stage = 0; stage < 3; stage++)
        free(row.natural[stage]);
    free(row.low);
    free(row.high);
    free(output);
    free(weights);
    free(lse);
}
