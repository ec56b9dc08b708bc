/* Comparisons and their reports. */
#include "harness.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Consecutive floats, from -inf to +inf, become consecutive integers; both zeros become 0. */
static int64_t ordinal(float x) {
    uint32_t bits = bits_of(x);
    int64_t magnitude = bits & 0x7fffffff;
    return bits >> 31 ? -magnitude : magnitude;
}

int64_t ulps_between(float a, float b) {
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? 0 : INT64_MAX;
    int64_t difference = ordinal(a) - ordinal(b);
    return difference < 0 ? -difference : difference;
}

static bool alike(enum likeness likeness, const float *got, const float *want) {
    if (memcmp(got, want, sizeof *got) == 0)
        return true;
    if (likeness != SAME_BITS && isnan(*got) && isnan(*want))
        return true;
    return likeness == SAME_NUMBER && *got == *want;
}

/* Small tiles: one character per element, x where it differs. */
static void draw_map(char *text, size_t size, enum likeness likeness, const float *got, const float *want, int64_t rows,
                     int64_t columns) {
    size_t used = 0;
    for (int64_t i = 0; i < rows && rows <= 16 && columns <= 80; i++) {
        if (used + (size_t)columns + 2 > size)
            return;
        text[used++] = '\n';
        for (int64_t j = 0; j < columns; j++)
            text[used++] = alike(likeness, got + i * columns + j, want + i * columns + j) ? '.' : 'x';
        text[used] = '\0';
    }
}

const char *compare(enum likeness likeness, const float *got, const float *want, int64_t rows, int64_t columns) {
    static char text[2048];
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < rows * columns; i++) {
        if (!alike(likeness, got + i, want + i)) {
            first = wrong++ ? first : i;
        }
    }
    if (!wrong)
        return NULL;
    int used = snprintf(text, sizeof text,
                        "%" PRId64 " of %" PRId64 " x %" PRId64 " differ, first at row %" PRId64 " column %" PRId64
                        ": got %a (0x%08" PRIx32 "), want %a (0x%08" PRIx32 "), %" PRId64 " ULP apart",
                        wrong, rows, columns, first / columns, first % columns, (double)got[first], bits_of(got[first]),
                        (double)want[first], bits_of(want[first]), ulps_between(got[first], want[first]));
    draw_map(text + used, sizeof text - (size_t)used, likeness, got, want, rows, columns);
    return text;
}

/* The distance of two neighbouring floats at x. */
static double ulp_at(double x) {
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

const char *accuracy_add(struct accuracy *accuracy, float got, double want, double bound, double magnitude) {
    static char text[256];
    double error = fabs((double)got - want);
    if ((double)got == want) /* infinities, and bounds of 0 */
        error = 0;
    if (!(error <= bound)) {
        snprintf(text, sizeof text, "got %.9g, the oracle says %.17g: the error %.3g exceeds its bound %.3g", (double)got, want,
                 error, bound);
        return text;
    }
    if (isinf(bound)) /* errors of the scores exceed any scale: nothing to learn */
        return NULL;
    accuracy->results++;
    if (bound > 0)
        accuracy->worst_of_bound = fmax(accuracy->worst_of_bound, error / bound);
    if (accuracy->typical && magnitude > 0) {
        accuracy->worst_relative = fmax(accuracy->worst_relative, error / fmax(magnitude, 0x1p-126));
        if (fabs(want) >= magnitude / 2)
            accuracy->worst_ulps = fmax(accuracy->worst_ulps, error / ulp_at(want));
    }
    return NULL;
}

void accuracy_print(const struct accuracy *accuracy, const char *kernel, const char *isa) {
    printf("  accuracy of %-9s %-10s typically within %.2f ULP where little cancels, %.1e of the terms' magnitude; always %.3f of "
           "the bound\n",
           kernel, isa, accuracy->worst_ulps, accuracy->worst_relative, accuracy->worst_of_bound);
}
