/* The checks of seeds.h: attention once more by plain loops in double, and the tolerances whose derivation is in seed_bounds.h. */
#include "seed_bounds.h"

#include <math.h>

enum { MAX_TOKENS = 16 };

static const double unit = 0x1p-24;      /* rounding error of a float operation, relative */
static const double smallest = 0x1p-126; /* heed's exp2 gives 0 below this */

static double scale_of(const struct seed_attention *attention) {
    return attention->scale != 0 ? (double)attention->scale : 1 / sqrt(attention->width);
}

void seed_bound_product(int m, int n, int k, const float *a, double e, const float *b, double *bounds) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double bound = 0;
            for (int p = 0; p < k; p++)
                bound += (k * unit * fabs((double)a[i * k + p]) + e) * fabs((double)b[p * n + j]);
            bounds[i * n + j] = bound;
        }
}

static double score(const struct seed_attention *attention, int i, int j) {
    double sum = 0;
    for (int d = 0; d < attention->width; d++)
        sum += (double)attention->query[i * attention->width + d] * (double)attention->key[j * attention->width + d];
    return sum * scale_of(attention);
}

static double score_bound(const struct seed_attention *attention, int i, int j) {
    double inputs = 0, products = 0, e = attention->score_error;
    for (int d = 0; d < attention->width; d++) {
        double q = fabs((double)attention->query[i * attention->width + d]);
        double k = fabs((double)attention->key[j * attention->width + d]);
        inputs += e * (q + k + e);
        products += q * k;
    }
    return scale_of(attention) * (inputs + (attention->width + 3) * unit * products);
}

static double largest_score(const struct seed_attention *attention, int i) {
    double max = -HUGE_VAL;
    for (int j = 0; j < attention->tokens; j++)
        max = fmax(max, score(attention, i, j));
    return max;
}

/* r of the derivation, for query i. */
static double weight_bound(const struct seed_attention *attention, int i) {
    double max = largest_score(attention, i), t = 0;
    for (int j = 0; j < attention->tokens; j++)
        t = fmax(t, score_bound(attention, i, j) + unit * (max - score(attention, i, j)) + 2 * unit);
    return expm1(2 * t) + (attention->tokens + 2) * unit;
}

static void reference_row(const struct seed_attention *attention, int i, double *weights) {
    int tokens = attention->tokens;
    double max = largest_score(attention, i), sum = 0;
    for (int j = 0; j < tokens; j++)
        sum += weights[j] = exp(score(attention, i, j) - max);
    for (int j = 0; j < tokens; j++)
        weights[j] /= sum;
}

void seed_reference(const struct seed_attention *attention, double *weights, double *output) {
    int tokens = attention->tokens, width = attention->width;
    for (int i = 0; i < tokens; i++) {
        reference_row(attention, i, weights + i * tokens);
        for (int d = 0; d < width; d++) {
            double sum = 0;
            for (int j = 0; j < tokens; j++)
                sum += weights[i * tokens + j] * (double)attention->value[j * width + d];
            output[i * width + d] = sum;
        }
    }
}

void seed_bound_weights(const struct seed_attention *attention, double *bounds) {
    int tokens = attention->tokens;
    for (int i = 0; i < tokens; i++) {
        double relative = weight_bound(attention, i);
        reference_row(attention, i, bounds + i * tokens);
        for (int j = 0; j < tokens; j++)
            bounds[i * tokens + j] = relative * bounds[i * tokens + j] + smallest;
    }
}

static double weighted_magnitude(const struct seed_attention *attention, const double *weights, int d) {
    double sum = 0;
    for (int j = 0; j < attention->tokens; j++)
        sum += weights[j] * fabs((double)attention->value[j * attention->width + d]);
    return sum;
}

void seed_bound_output(const struct seed_attention *attention, double *bounds) {
    int tokens = attention->tokens, width = attention->width;
    double weights[MAX_TOKENS];
    for (int i = 0; i < tokens; i++) {
        double relative = weight_bound(attention, i) + (tokens + 2) * unit;
        reference_row(attention, i, weights);
        for (int d = 0; d < width; d++)
            bounds[i * width + d] = relative * weighted_magnitude(attention, weights, d) + attention->value_error;
    }
}

/* Half a unit of the last printed digit. */
static double half_digit(const struct seed_print *print, double number) {
    if (print->decimals == SEED_EXACT || (print->scientific && number == 0))
        return 0;
    int exponent = print->scientific ? (int)floor(log10(fabs(number))) : 0;
    return 0.5 * pow(10, exponent - print->decimals);
}

void seed_compare(struct seed_result *result, const char *name, const float *computed, const struct seed_print *print,
                  const double *bounds) {
    struct seed_check *check = &result->check[result->checks++];
    *check = (struct seed_check){.name = name, .rows = print->rows, .columns = print->columns, .printed = true};
    for (int i = 0; i < print->rows * print->columns; i++) {
        check->computed[i] = computed[i];
        check->expected[i] = print->numbers[i];
        check->tolerance[i] = half_digit(print, print->numbers[i]) + (bounds ? bounds[i] : 0);
    }
}

void seed_claim(struct seed_result *result, const char *text, bool holds) {
    result->claim[result->claims++] = (struct seed_claim){text, holds};
}

double seed_difference(const struct seed_check *check) {
    double worst = 0;
    for (int i = 0; i < check->rows * check->columns; i++) {
        double difference = fabs((double)check->computed[i] - check->expected[i]);
        if (isnan(difference))
            return difference;
        worst = fmax(worst, difference);
    }
    return worst;
}

bool seed_agrees(const struct seed_check *check) {
    for (int i = 0; i < check->rows * check->columns; i++)
        if (!(fabs((double)check->computed[i] - check->expected[i]) <= check->tolerance[i]))
            return false;
    return true;
}

void seed_random(uint32_t start, float low, float high, float *numbers, int64_t count) {
    uint32_t state = start; /* xorshift32 (Marsaglia 2003), whose state must not be 0 */
    for (int64_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        numbers[i] = low + (high - low) * ((float)(state >> 8) * 0x1p-24f);
    }
}
