/* Rows of a become bytes, in blocks of 32 with a scale.  Contract in src/kernels.h, i8_row. */
#ifndef HEED_KERNELS_I8_ROW_H
#define HEED_KERNELS_I8_ROW_H

enum { I8_BLOCK_VECTORS = TYPE_BLOCK / VF_LANES };

/* The largest size, NaN if any is not finite. */
INLINE float i8_size(const vf x[I8_BLOCK_VECTORS]) {
    vf max = v_zero(), nan = v_zero();
    UNROLL for (int v = 0; v < I8_BLOCK_VECTORS; v++) take_size(x[v], &max, &nan);
    return v_any_nan(&nan, 1) ? __builtin_nanf("") : v_hmax(max);
}

/* Integers are summed as floats, which hold them exactly: what was stored as bytes would have to be loaded again, and waited for.
 */
INLINE void i8_block(const vf x[I8_BLOCK_VECTORS], struct heed_i8_block *y) {
    const float least = 0x1p-126f, scale = i8_size(x) / 127.0f; /* below `least` 1 / scale may be infinite */
    const vf whole = v_set1(0x1.8p23f);
    vf sum[2] = {v_zero(), v_zero()}; /* of either half */
    y->scale = scale < least ? least : scale;
    if (scale != scale) {
        memset(y->q, 0, sizeof y->q);
        y->minus_8 = y->minus_8_of_first = 0;
        return;
    }
    UNROLL for (int v = 0; v < I8_BLOCK_VECTORS; v++) {
        const vf q = v_mul(x[v], v_set1(1.0f / y->scale));
        v_store_i8(y->q + v * VF_LANES, q);
        vf *of_half = &sum[v >= I8_BLOCK_VECTORS / 2];
        *of_half = v_add(*of_half, v_sub(v_add(q, whole), whole));
    }
    y->minus_8_of_first = -8 * (int32_t)v_sum(sum[0]);
    y->minus_8 = y->minus_8_of_first - 8 * (int32_t)v_sum(sum[1]);
}

INLINE void i8_row_of(const enum heed_type type, const void *x, int64_t blocks, struct heed_i8_block *y) {
    for (int64_t block = 0; block < blocks; block++) {
        vf floats[I8_BLOCK_VECTORS];
        UNROLL for (int v = 0; v < I8_BLOCK_VECTORS; v++) floats[v] =
            load_type(type, type_at(type, x, block * TYPE_BLOCK + v * VF_LANES));
        i8_block(floats, y + block);
    }
}

static void i8_row(const void *x, enum heed_type type, int64_t blocks, struct heed_i8_block *y) {
    WITH_TYPE(type, i8_row_of(TYPE, x, blocks, y));
}

#endif
