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

/* Blocks of 256 of ggml's K formats: element i of group g.  Those of 8 groups have scales of 6 bits, the upper 2 bits of the last
 * four apart; which 4 bits of which byte are an element's differs. */
static double k_element(int q, double scale, double less) { return (float)(scale * q - less); }

static double eight_groups_element(const unsigned char *block, enum heed_type type, int g, int i) {
    const double d = ref_widen_f16((uint16_t)(block[0] | block[1] << 8)), m = ref_widen_f16((uint16_t)(block[2] | block[3] << 8));
    const unsigned char *scales = block + 4, *high = block + 16, *low = block + (type == HEED_Q5_K ? 48 : 16);
    const int scale = g < 4 ? scales[g] % 64 : scales[g + 4] % 16 + scales[g - 4] / 64 * 16;
    const int less = g < 4 ? scales[g + 4] % 64 : scales[g + 4] / 16 + scales[g] / 64 * 16;
    const int byte = low[g / 2 * 32 + i], q = g % 2 ? byte / 16 : byte % 16;
    return k_element(q + (type == HEED_Q5_K ? (high[i] >> g & 1) * 16 : 0), d * scale, m * less);
}

static double q6_k_element(const unsigned char *block, int g, int i) {
    const double d = ref_widen_f16((uint16_t)(block[208] | block[209] << 8)),
                 scale = d * (double)(signed char)block[192 + 2 * g + i / 16];
    const int byte = block[g / 4 * 64 + g % 2 * 32 + i], q = g % 4 < 2 ? byte % 16 : byte / 16;
    return k_element(q + (block[128 + g / 4 * 32 + i] >> g % 4 * 2 & 3) * 16, scale, 32 * scale);
}

static double k_block_element(const unsigned char *data, enum heed_type type, int64_t index) {
    const int g = (int)(index % 256 / 32), i = (int)(index % 32);
    if (type == HEED_Q6_K)
        return q6_k_element(data + index / 256 * 210, g, i);
    return eight_groups_element(data + index / 256 * (type == HEED_Q4_K ? 144 : 176), type, g, i);
}

double ref_element(const void *data, enum heed_type type, int64_t index) {
    if (type == HEED_Q4_K || type == HEED_Q5_K || type == HEED_Q6_K)
        return k_block_element(data, type, index);
    if (type == HEED_Q8_0 || type == HEED_Q4_0)
        return block_element(data, type, index);
    if (type == HEED_F32)
        return ((const float *)data)[index];
    if (type == HEED_I8)
        return ((const signed char *)data)[index];
    const uint16_t half = ((const uint16_t *)data)[index];
    return type == HEED_BF16 ? ref_widen_bf16(half) : ref_widen_f16(half);
}
