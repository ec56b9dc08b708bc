/* finish_products: what becomes of sums that tiles leave in memory.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_FINISH_PRODUCTS_H
#define HEED_KERNELS_FINISH_PRODUCTS_H

INLINE vf finish_product(const struct heed_finish_products *products, vf sum, vf old) {
    const vf y = v_mul(v_set1(products->alpha), sum); /* sum: times its scale, if it has one */
    return v_one_nan(products->beta != 0.0f ? v_fma(v_set1(products->beta), old, y) : y);
}

/* n columns from j on; a vector, if `whole`. */
INLINE void finish_columns(const enum heed_type type, const bool whole, const struct heed_finish_products *products,
                           const float *sums, void *row, int64_t j, int64_t n) {
    void *c = type_at_output(type, row, j);
    vf old = v_zero(), sum = whole ? v_load(sums + j) : v_load_n(sums + j, n);
    if (products->beta != 0.0f)
        old = whole ? load_type(type, c) : load_type_n(type, c, n);
    if (products->scales)
        sum = v_mul(sum, whole ? v_load(products->scales + j) : v_load_n(products->scales + j, n));
    const vf y = finish_product(products, sum, old);
    if (whole)
        store_type(type, c, y);
    else
        store_type_n(type, c, y, n);
}

INLINE void finish_products_of(const enum heed_type type, const struct heed_finish_products *products) {
    for (int64_t i = 0; i < products->rows; i++) {
        const float *sums = products->sums + i * products->ldsums;
        void *row = type_at_output(type, products->c, i * products->ldc);
        int64_t j = 0;
        NO_UNROLL for (; j + VF_LANES <= products->columns; j += VF_LANES)
            finish_columns(type, true, products, sums, row, j, VF_LANES);
        if (j < products->columns)
            finish_columns(type, false, products, sums, row, j, products->columns - j);
    }
}

static void finish_products(const struct heed_finish_products *products) {
    WITH_TYPE(products->type, finish_products_of(TYPE, products));
}

#endif
