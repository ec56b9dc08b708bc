/* Formats whose 4 bits stand for numbers that are not evenly apart: codes become bytes by a table, and then are what bytes are.
 *
 * IQ4_NL's numbers are closer together near 0, as weights are; MXFP4's are floats of 4 bits, twice what OCP calls them. */
#ifndef HEED_KERNELS_NUMBERS4_H
#define HEED_KERNELS_NUMBERS4_H

enum { MXFP4_RAISED = 12 };
static const int8_t iq4_nl_numbers[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t mxfp4_numbers[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/* The same for products that take bytes without sign: plus 128, of which those from 128 on are written less 256, and plus 12. */
static const int8_t iq4_nl_raised[] = {1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15};
static const int8_t mxfp4_raised[] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

INLINE const int8_t *numbers4_table(const enum heed_type type) { return type == HEED_IQ4_NL ? iq4_nl_numbers : mxfp4_numbers; }

/* The bits of MXFP4's scale of exponent e as bf16, which are the upper half of its float's. */
INLINE uint16_t numbers4_bf16(int e) { return (uint16_t)(e < MXFP4_LEAST_SCALE ? 0 : (e - 1) << 7); }
INLINE float numbers4_scale(int e) {
    const uint32_t bits = (uint32_t)numbers4_bf16(e) << 16;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* Of a word, the numbers of its lower or upper codes, in bytes. */
INLINE vi numbers4(const enum heed_type type, vi word, const int half) {
    return v_look_up(numbers4_table(type), half ? v_high4(word) : v_low4(word));
}

#endif
