/* What a block of attention reads next is fetched beside its exponentials.  They leave the ports that load alone, and what they
 * load is in L1.  Between the tiles of a product, fetching as much takes 16 cycles from each tile even of lines that are in L2. */
#ifndef HEED_KERNELS_EXP_FETCH_H
#define HEED_KERNELS_EXP_FETCH_H

/* The share of row i. */
INLINE void exp_fetch(const struct heed_exp_rows *block, int i) {
    UNROLL for (int n = 0; n < HEED_FETCHES; n++) {
        const struct heed_fetch *next = &block->next[n];
        const int end = smaller((i + 1) * next->each, next->rows);
        for (int row = i * next->each; row < end; row++)
            for (int line = 0; line < next->lines; line++)
                __builtin_prefetch(next->data + row * next->step + line * HEED_LINE * (int)sizeof(float), 0, 2);
    }
}

#endif
