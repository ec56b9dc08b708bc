/* thin_product of one row and a panel of floats or words, where vectors are narrow.  Contract in src/contracts/thin.h.
 *
 * All columns at once, so that b is read as it lies: prefetchers follow that better than software fetches what tiles leave out.  By
 * tiles, 1 x 4096 x 4096 took 1.35 times as long, from L3 1.2 times, and of words 2 (AVX2, Zen 3). */
#ifndef HEED_KERNELS_THIN_PANEL_H
#define HEED_KERNELS_THIN_PANEL_H

enum {
    PANEL_VECTORS = HEED_PANEL / VF_LANES,
    PANEL_ROW_BYTES = HEED_PANEL * WORD_BYTES, /* of floats, or of words */
    PANEL_STEPS = 2,                           /* of a turn: a word */
    /* Rows of words are fetched: by so many operations few loads are on their way, and from memory they take 0.96 of the time. */
    WORDS_AHEAD = 4,
    HAS_THIN_PANEL = VF_LANES < HEED_LINE && PANEL_VECTORS <= TILE_ROWS * TILE_VECTORS /* there are registers for it */
};

/* Loads and multiplies vector by vector: all at once, there would be no registers left for sums. */
INLINE void thin_panel_step(const enum thin_b kind, const int step, vf acc[PANEL_VECTORS], const float *a, const uint8_t *b) {
    const vf row = v_set1(*a);
    UNROLL for (int v = 0; v < PANEL_VECTORS; v++) {
        const uint8_t *at = b + v * VF_LANES * WORD_BYTES;
        const vf column =
            kind == THIN_ROWS_OF_B ? v_load((const float *)(const void *)at) : v_bf16(v_load_int(at), (kind == THIN_WORDS) == step);
        acc[v] = v_chain(acc[v], row, column);
    }
}

/* The last step where there is no other: of a pair the even one alone, after a product of zeros, which is no -0. */
INLINE void thin_panel_last(const enum thin_b kind, vf acc[PANEL_VECTORS], const float *a, const uint8_t *b) {
    const bool pairs = kind == THIN_PAIR_WORDS;
    UNROLL for (int v = 0; pairs && v < PANEL_VECTORS; v++) acc[v] = v_add(acc[v], v_zero());
    thin_panel_step(kind, pairs, acc, a + pairs, b);
}

INLINE void thin_panel_of(const enum thin_b kind, const struct heed_thin_product *product) {
    const float *a = product->a;
    const uint8_t *b = product->b;
    vf acc[PANEL_VECTORS];
    int64_t k = product->k;
    UNROLL for (int v = 0; v < PANEL_VECTORS; v++) acc[v] = product->continues ? v_load(product->c + v * VF_LANES) : v_zero();
    NO_UNROLL for (; k >= PANEL_STEPS; k -= PANEL_STEPS) {
        UNROLL for (int u = 0; u < PANEL_STEPS; u++)
            thin_panel_step(kind, u, acc, a + u, b + (kind == THIN_ROWS_OF_B ? u * PANEL_ROW_BYTES : 0));
        if (kind != THIN_ROWS_OF_B)
            UNROLL for (int line = 0; line < PANEL_ROW_BYTES; line += HEED_LINE * WORD_BYTES)
                __builtin_prefetch((const void *)((uintptr_t)b + (uintptr_t)(WORDS_AHEAD * PANEL_ROW_BYTES + line)), 0, 3);
        a += PANEL_STEPS;
        b += kind == THIN_ROWS_OF_B ? PANEL_STEPS * PANEL_ROW_BYTES : PANEL_ROW_BYTES;
    }
    if (k > 0)
        thin_panel_last(kind, acc, a, b);
    UNROLL for (int v = 0; v < PANEL_VECTORS; v++) v_store(product->c + v * VF_LANES, acc[v]);
}

INLINE bool is_thin_panel(const struct heed_thin_product *product) {
    return HAS_THIN_PANEL && product->rows == 1 && product->columns == HEED_PANEL && product->ldb == HEED_PANEL &&
           (product->words || (product->type == HEED_F32 && !product->pairs));
}

static void thin_panel(const struct heed_thin_product *product) {
    if (!product->words)
        thin_panel_of(THIN_ROWS_OF_B, product);
    else if (product->pairs)
        thin_panel_of(THIN_PAIR_WORDS, product);
    else
        thin_panel_of(THIN_WORDS, product);
}

#endif
