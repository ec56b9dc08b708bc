/* What becomes of a tile's sums, while the next tile's products are made: tdpbf16ps leaves the other instructions most of the core.
 *
 * Not all of it, for loads of tiles take half of what the core can load.  So this is inlined, counts in registers, and covers what
 * is frequent: sums that are only rounded, or floats that are only scaled.  For 512 x 512 x 512 of bf16 all this work takes a
 * fifth of the time if it follows each tile, and less than a tenth beside the next (a Xeon with AMX). */
#ifndef HEED_AMX_BESIDE_H
#define HEED_AMX_BESIDE_H

enum {
    NOTHING = -1,
    BESIDE_COLUMNS = 2 * VF_LANES,
    BESIDE_ROWS = 2 /* with each step but the first: 32 of them while k goes to 544 */
};

/* Rows of BESIDE_COLUMNS sums. */
struct beside {
    const float *sums;
    char *c;
    int64_t rows, ldsums, ldc_bytes;
    float alpha;
};

/* The type that sums become, or NOTHING if that has to wait for the end of the tile. */
INLINE int beside_type(const struct heed_finish_products *left) {
    if (left->rows == 0 || left->columns != BESIDE_COLUMNS || left->beta != 0.0f || left->scales)
        return NOTHING;
    return left->type == HEED_F32 || left->alpha == 1.0f ? (int)left->type : NOTHING;
}

INLINE struct beside beside_begin(const int type, const struct heed_finish_products *left) {
    if (type == NOTHING)
        return (struct beside){.rows = 0};
    return (struct beside){.sums = left->sums,
                           .c = left->c,
                           .rows = left->rows,
                           .ldsums = left->ldsums,
                           .ldc_bytes = type_span((enum heed_type)type, left->ldc),
                           .alpha = left->alpha};
}

/* The instruction rounds as v_round_bf16 does, in a third of the operations, all but NaNs; numbers below 2^-126, which it takes for
 * zeros, are no sums of AMX. */
INLINE void beside_round(const float *sums, uint16_t *c) {
    enum { NANS = 0x81 };
    const vf low = v_load(sums), high = v_load(sums + VF_LANES);
    if (_mm512_kortestz(_mm512_fpclass_ps_mask(low, NANS), _mm512_fpclass_ps_mask(high, NANS))) {
        _mm512_storeu_si512(c, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        return;
    }
    v_store_half(c, v_round_bf16(low));
    v_store_half(c + VF_LANES, v_round_bf16(high));
}

/* A row, and where that of the tile after the next goes is fetched. */
INLINE void beside_finish(const int type, struct beside *beside) {
    const struct heed_finish_products simple = {.alpha = beside->alpha};
    if (type == NOTHING || beside->rows == 0)
        return;
    if (type == HEED_BF16)
        beside_round(beside->sums, (uint16_t *)beside->c);
    else
        UNROLL for (int j = 0; j < BESIDE_COLUMNS; j += VF_LANES)
            finish_columns((enum heed_type)type, type != HEED_F32, true, &simple, beside->sums, beside->c, j, VF_LANES);
    const int64_t bytes = type_span((enum heed_type)type, BESIDE_COLUMNS);
    UNROLL for (int64_t byte = 0; byte < bytes; byte += HEED_LINE * (int64_t)sizeof(float))
        __builtin_prefetch((const void *)((uintptr_t)beside->c + (uintptr_t)(2 * bytes + byte)), 1, 2);
    beside->sums += beside->ldsums;
    beside->c += beside->ldc_bytes;
    beside->rows--;
}

/* All that is left. */
INLINE void beside_end(const int type, struct beside *beside, struct heed_finish_products *left) {
    if (type == NOTHING)
        return;
    while (beside->rows > 0)
        beside_finish(type, beside);
    left->rows = 0;
}

#endif
