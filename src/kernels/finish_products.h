/* finish_products: what becomes of sums that tiles leave in memory.  Contract in src/contracts/gemm.h. */
#ifndef HEED_KERNELS_FINISH_PRODUCTS_H
#define HEED_KERNELS_FINISH_PRODUCTS_H

/* sum: times its scale, if it has one.  Rounding to 16 bits makes NaNs one anyway. */
INLINE vf finish_product(const enum heed_type type, const struct heed_finish_products *products, vf sum, vf old) {
    vf y = v_mul(v_set1(products->alpha), sum);
    if (products->beta != 0.0f)
        y = v_fma(v_set1(products->beta), old, y);
    return type == HEED_F32 ? v_one_nan(y) : y;
}

/* n columns from j on; a vector, if `whole`.  plain: the sums are to be rounded, and nothing else. */
INLINE void finish_columns(const enum heed_type type, const bool plain, const bool whole,
                           const struct heed_finish_products *products, const float *sums, void *row, int64_t j, int64_t n) {
    void *c = type_at_output(type, row, j);
    vf old = v_zero(), sum = whole ? v_load(sums + j) : v_load_n(sums + j, n);
    if (!plain && products->beta != 0.0f)
        old = whole ? load_type(type, c) : load_type_n(type, c, n);
    if (!plain && products->scales)
        sum = v_mul(sum, whole ? v_load(products->scales + j) : v_load_n(products->scales + j, n));
    if (!plain)
        sum = finish_product(type, products, sum, old);
    if (whole)
        store_type(type, c, sum);
    else
        store_type_n(type, c, sum, n);
}

INLINE void finish_products_of(const enum heed_type type, const bool plain, const struct heed_finish_products *products) {
    const int64_t columns = products->columns;
    const float *sums = products->sums;
    for (int64_t i = 0; i < products->rows; i++, sums += products->ldsums) {
        void *row = type_at_output(type, products->c, i * products->ldc);
        int64_t j = 0;
        NO_UNROLL for (; j + VF_LANES <= columns; j += VF_LANES)
            finish_columns(type, plain, true, products, sums, row, j, VF_LANES);
        if (j < columns)
            finish_columns(type, plain, false, products, sums, row, j, columns - j);
    }
}

/* Most are plain, if they are not floats, which tiles finish. */
static void finish_products(const struct heed_finish_products *products) {
    const bool plain = products->type != HEED_F32 && products->alpha == 1.0f && products->beta == 0.0f && !products->scales;
    if (plain)
        WITH_TYPE(products->type, finish_products_of(TYPE, true, products));
    else
        WITH_TYPE(products->type, finish_products_of(TYPE, false, products));
}

#endif
