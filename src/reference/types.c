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

/* 4 bits that stand for other numbers, and a scale of 16 bits or an exponent. */
static double table_element(const unsigned char *data, enum heed_type type, int64_t index) {
    static const signed char iq4_nl[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    static const signed char mxfp4[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; /* twice what they are */
    const int head = type == HEED_IQ4_NL ? 2 : 1, i = (int)(index % 32);
    const unsigned char *block = data + index / 32 * (head + 16);
    const int byte = block[head + i % 16], code = i < 16 ? byte % 16 : byte / 16;
    if (type == HEED_IQ4_NL)
        return ref_widen_f16((uint16_t)(block[0] | block[1] << 8)) * iq4_nl[code];
    return (block[0] < 26 ? 0 : ldexp(1, block[0] - 128)) * mxfp4[code];
}

/* Block formats: 32 elements share a scale; those of q4_0 and q5_0 are bytes' lower halves, then the upper ones. */
static double block_element(const unsigned char *data, enum heed_type type, int64_t index) {
    const unsigned char *block = data + index / 32 * (type == HEED_Q8_0 ? 34 : type == HEED_Q4_0 ? 18 : 22);
    const int i = (int)(index % 32), quarter = block[(type == HEED_Q5_0 ? 6 : 2) + i % 16];
    const double scale = ref_widen_f16((uint16_t)(block[0] | block[1] << 8));
    if (type == HEED_Q8_0)
        return scale * (double)(signed char)block[2 + i];
    const int lower = i < 16 ? quarter % 16 : quarter / 16;
    if (type == HEED_Q5_0)
        return scale * (lower + (block[2 + i / 8] >> i % 8 & 1) * 16 - 16);
    return scale * (lower - 8);
}

/* Of 8 groups with scales of 6 bits, the upper 2 bits of the last four are apart. */
static void load_group(const unsigned char *block, enum heed_type type, int g, struct ref_k_group *group) {
    const double d = ref_widen_f16((uint16_t)(block[0] | block[1] << 8)), m = ref_widen_f16((uint16_t)(block[2] | block[3] << 8));
    const unsigned char *scales = block + 4, *high = block + 16, *low = block + (type == HEED_Q5_K ? 48 : 16);
    const int scale = g < 4 ? scales[g] % 64 : scales[g + 4] % 16 + scales[g - 4] / 64 * 16;
    const int less = g < 4 ? scales[g + 4] % 64 : scales[g + 4] / 16 + scales[g] / 64 * 16;
    for (int i = 0; i < 32; i++) {
        const int byte = low[g / 2 * 32 + i];
        group->q[i] = (g % 2 ? byte / 16 : byte % 16) + (type == HEED_Q5_K ? (high[i] >> g & 1) * 16 : 0);
    }
    group->scale[0] = group->scale[1] = d * scale;
    group->less = m * less;
}

static void load_q6_k_group(const unsigned char *block, int g, struct ref_k_group *group) {
    const double d = ref_widen_f16((uint16_t)(block[208] | block[209] << 8));
    for (int i = 0; i < 32; i++) {
        const int byte = block[g / 4 * 64 + g % 2 * 32 + i];
        group->q[i] = (g % 4 < 2 ? byte % 16 : byte / 16) + (block[128 + g / 4 * 32 + i] >> g % 4 * 2 & 3) * 16 - 32;
    }
    for (int half = 0; half < 2; half++)
        group->scale[half] = d * (double)(signed char)block[192 + 2 * g + half];
    group->less = 0;
}

void ref_load_k_group(const void *data, enum heed_type type, int64_t index, struct ref_k_group *group) {
    const int64_t bytes = type == HEED_Q4_K ? 144 : type == HEED_Q5_K ? 176 : 210;
    const unsigned char *block = (const unsigned char *)data + index / 8 * bytes;
    const int g = (int)(index % 8);
    if (type == HEED_Q6_K)
        load_q6_k_group(block, g, group);
    else
        load_group(block, type, g, group);
}

static bool is_k(enum heed_type type) { return type == HEED_Q4_K || type == HEED_Q5_K || type == HEED_Q6_K; }

/* Of q6_K scale * 0 is 0 - 0, whatever the sign of the scale. */
static double k_element(const void *data, enum heed_type type, int64_t index) {
    struct ref_k_group group;
    ref_load_k_group(data, type, index / 32, &group);
    const double scale = group.scale[index % 32 / 16];
    const int q = group.q[index % 32];
    return type == HEED_Q6_K ? (q + 32) * scale - 32 * scale : (float)(scale * q - group.less);
}

double ref_element(const void *data, enum heed_type type, int64_t index) {
    if (is_k(type))
        return k_element(data, type, index);
    if (type == HEED_IQ4_NL || type == HEED_MXFP4)
        return table_element(data, type, index);
    if (type == HEED_Q8_0 || type == HEED_Q4_0 || type == HEED_Q5_0)
        return block_element(data, type, index);
    if (type == HEED_F32)
        return ((const float *)data)[index];
    if (type == HEED_I8)
        return ((const signed char *)data)[index];
    const uint16_t half = ((const uint16_t *)data)[index];
    return type == HEED_BF16 ? ref_widen_bf16(half) : ref_widen_f16(half);
}
