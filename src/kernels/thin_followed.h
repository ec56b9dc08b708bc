/* thin_product of one row and long rows of floats, or of two where vectors are narrow.  Contract in src/contracts/thin.h.
 *
 * Prefetchers follow some rows that are read side by side; by windows and fetches only a few lines are on their way at a time. */
#ifndef HEED_KERNELS_THIN_FOLLOWED_H
#define HEED_KERNELS_THIN_FOLLOWED_H

enum {
    FOLLOWED_ROWS = 8,     /* of b, read side by side without fetches, */
    FOLLOWED_BYTES = 4096, /* if they are as long or longer */
    FOLLOWED_VECTORS = 2   /* of each, in turn */
};

/* One row times long rows of floats, or two where vectors are narrow: prefetchers follow several rows at once.  1 x 4096 x 4096
 * takes 0.74 of the time with fetches, 2 rows 0.9, with two threads 0.87, from L3 0.6 to 0.9; of rows of 4 KB 0.6 from L3 and 1.1
 * from memory, of 2 KB 1.15, and 4 rows are as quick with fetches (Zen 3).  By AVX-512, from L3 0.8 and from memory 0.99, of rows
 * of 4 KB 0.95 and 1.01, and two rows 1.06 (a Xeon).  Where lines are fetched once, from L3 0.5 to 0.65 too, but from memory, where
 * weights come from, 1.06 to 1.45, by AVX2 1.4 to 2.2 (Zen 5).  On Zen 4 two rows take, by AVX2, 0.6 of the time from L3, but from
 * memory 1.3 to 1.8 of what fetches at a pace take, so that these are the other way that is tried (src/pace.c). */
INLINE bool thin_is_followed(const struct heed_thin_product *product) {
    const int most = VF_LANES < HEED_LINE ? 2 : 1;
    return product->fetch_into != HEED_INTO_L1 && !product->paced && product->rows <= most && product->type == HEED_F32 &&
           product->columns >= FOLLOWED_BYTES / (int)sizeof(float);
}

/* All `FOLLOWED_ROWS` rows of some columns. */
INLINE void followed_columns(const int vectors, const vf row[FOLLOWED_ROWS], const float *const b[FOLLOWED_ROWS], int64_t column,
                             float *c, bool continues) {
    vf acc[FOLLOWED_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) acc[v] = continues ? v_load(c + column + v * VF_LANES) : v_zero();
    UNROLL for (int i = 0; i < FOLLOWED_ROWS; i++) UNROLL for (int v = 0; v < vectors; v++) acc[v] =
        v_chain(acc[v], row[i], v_load(b[i] + column + v * VF_LANES));
    UNROLL for (int v = 0; v < vectors; v++) v_store(c + column + v * VF_LANES, acc[v]);
}

INLINE void followed_page(const vf row[FOLLOWED_ROWS], const float *const b[FOLLOWED_ROWS], int64_t from, int64_t to, float *c,
                          bool continues) {
    int64_t column = from;
    NO_UNROLL for (; column + FOLLOWED_VECTORS * VF_LANES <= to; column += FOLLOWED_VECTORS * VF_LANES)
        followed_columns(FOLLOWED_VECTORS, row, b, column, c, continues);
    NO_UNROLL for (; column < to; column += VF_LANES) followed_columns(1, row, b, column, c, continues);
}

/* The rows from `first` on; of each page of each the next one's first line is fetched, see in_order_turns. */
NOINLINE void followed_rows(const struct heed_thin_product *product, int64_t first) {
    const int64_t page = PAGE_BYTES / (int)sizeof(float), below = FOLLOWED_ROWS * product->ldb * (int64_t)sizeof(float);
    vf row[FOLLOWED_ROWS];
    const float *b[FOLLOWED_ROWS];
    UNROLL for (int i = 0; i < FOLLOWED_ROWS; i++) {
        row[i] = v_set1(product->a[first + i]);
        b[i] = (const float *)product->b + (first + i) * product->ldb;
    }
    for (int64_t column = 0; column < product->columns; column += page) {
        const bool last = column + page >= product->columns;
        const int64_t ahead = last ? below : (column + page) * (int64_t)sizeof(float);
        UNROLL for (int i = 0; i < FOLLOWED_ROWS; i++) __builtin_prefetch((const void *)((uintptr_t)b[i] + (uintptr_t)ahead), 0, 2);
        followed_page(row, b, column, last ? product->columns : column + page, product->c, product->continues || first > 0);
    }
}

/* One row; how many rows of b are done, of which those that are left are fewer than `FOLLOWED_ROWS`, or all.  Each load goes along
 * one row, and not from row to row as tiles do, and pages are found ahead: from memory that takes 0.88 to 1.0 of the time, by AVX2
 * 0.92 to 1.0, from L3 0.87 to 1.09 and 0.87 to 0.98 (Zen 4). */
INLINE int64_t thin_followed(const struct heed_thin_product *product) {
    int64_t done = 0;
    if (product->rows == 1 && !product->pairs && product->fetch_into == HEED_INTO_L2)
        for (; done + FOLLOWED_ROWS <= product->k; done += FOLLOWED_ROWS)
            followed_rows(product, done);
    return done;
}

#endif
