/* bf16 and f16 by their definition (IEEE 754-2019, section 3.4), in double. */
#include "reference.h"

#include <math.h>

enum { BF16_FRACTION = 7, F16_FRACTION = 10 }; /* bits; the exponent has those that are left, but for the sign's */

static int bias_of(int fraction_bits) { return (1 << (14 - fraction_bits)) - 1; }

static double widen(uint16_t x, int fraction_bits) {
    const int all_ones = (1 << (15 - fraction_bits)) - 1, exponent = x >> fraction_bits & all_ones;
    const int fraction = x & ((1 << fraction_bits) - 1),
              unit = (exponent > 0 ? exponent : 1) - bias_of(fraction_bits) - fraction_bits;
    const double sign = x & 0x8000 ? -1.0 : 1.0;
    if (exponent == all_ones)
        return fraction ? NAN : sign * INFINITY;
    return sign * ldexp(fraction + (exponent > 0 ? 1 << fraction_bits : 0), unit);
}

/* The number of units of the last place, rounded: in it, a carry out of the fraction goes on into the exponent by itself. */
static uint16_t rounded(double x, int fraction_bits) {
    const int infinity = ((1 << (15 - fraction_bits)) - 1) << fraction_bits, sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    if (isnan(x))
        return (uint16_t)(infinity | 1 << (fraction_bits - 1));
    if (isinf(x))
        return (uint16_t)(sign | infinity);
    frexp(x, &exponent);
    const int least = 1 - bias_of(fraction_bits), place = (x == 0.0 || exponent - 1 < least ? least : exponent - 1) - fraction_bits;
    if (place - least + fraction_bits > 1 << (15 - fraction_bits))
        return (uint16_t)(sign | infinity);
    const int bits = ((place - least + fraction_bits) << fraction_bits) + (int)nearbyint(ldexp(fabs(x), -place));
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

double ref_widen_bf16(uint16_t x) { return widen(x, BF16_FRACTION); }
double ref_widen_f16(uint16_t x) { return widen(x, F16_FRACTION); }
uint16_t ref_round_bf16(double x) { return rounded(x, BF16_FRACTION); }
uint16_t ref_round_f16(double x) { return rounded(x, F16_FRACTION); }

/* Block formats: 32 elements share a scale; those of q4_0 are bytes' lower halves, then the upper ones. */
static double block_element(const unsigned char *data, enum heed_type type, int64_t index) {
    const unsigned char *block = data + index / 32 * (type == HEED_Q8_0 ? 34 : 18);
    const int i = (int)(index % 32), quarter = block[2 + i % 16];
    const double scale = ref_widen_f16((uint16_t)(block[0] | block[1] << 8));
    if (type == HEED_Q8_0)
        return scale * (double)(signed char)block[2 + i];
    return scale * ((i < 16 ? quarter % 16 : quarter / 16) - 8);
}

double ref_element(const void *data, enum heed_type type, int64_t index) {
    if (type == HEED_Q8_0 || type == HEED_Q4_0)
        return block_element(data, type, index);
    if (type == HEED_F32)
        return ((const float *)data)[index];
    if (type == HEED_I8)
        return ((const signed char *)data)[index];
    const uint16_t half = ((const uint16_t *)data)[index];
    return type == HEED_BF16 ? ref_widen_bf16(half) : ref_widen_f16(half);
}
