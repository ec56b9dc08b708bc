/* Rows of a become bytes, in blocks of 32 with a scale.  Contract in src/kernels.h, i8_row.
 *
 * A block's largest number and its sums are of one vector's lanes, one after another, and all else waits for its scale.  So as many
 * blocks as a vector has lanes are taken at once, and their lanes transposed: 39 cycles a block for 60.  Decoding from a cache of
 * int8 as integers takes 0.92 to 0.96 of the time, products with rows as bytes 0.96 to 1.0 (Zen 4).  With half as many blocks it is
 * as quick as one by one. */
#ifndef HEED_KERNELS_I8_ROW_H
#define HEED_KERNELS_I8_ROW_H

enum { I8_BLOCK_VECTORS = TYPE_BLOCK / VF_LANES };

/* Sizes of a block's lanes, NaN where one is not finite. */
INLINE vf i8_sizes(const enum heed_type type, const void *x) {
    vf max = v_zero(), nan = v_zero();
    UNROLL for (int v = 0; v < I8_BLOCK_VECTORS; v++) take_size(load_type(type, type_at(type, x, v * VF_LANES)), &max, &nan);
    return v_add(max, nan);
}

/* A block's bytes, given the inverse of its scale, and the lanes' sums of either half: as floats, which hold them exactly, for what
 * was stored as bytes would have to be loaded again, and waited for. */
INLINE void i8_bytes(const enum heed_type type, const void *x, float inverse, int8_t *q, vf sum[2]) {
    const vf whole = v_set1(0x1.8p23f);
    sum[0] = sum[1] = v_zero();
    UNROLL for (int v = 0; v < I8_BLOCK_VECTORS; v++) {
        const vf y = v_mul(load_type(type, type_at(type, x, v * VF_LANES)), v_set1(inverse));
        v_store_i8(q + v * VF_LANES, y);
        vf *of_half = &sum[v >= I8_BLOCK_VECTORS / 2];
        *of_half = v_add(*of_half, v_sub(v_add(y, whole), whole));
    }
}

/* Of integers, whose 0 has no sign. */
INLINE float i8_minus_sum(const struct heed_i8_block *y) { return y->scale * ((float)y->minus_8 * 0.125f); }

/* One block, also where some number is not finite.  Without sums these hold anything. */
INLINE void i8_block(const enum heed_type type, const bool sums, const void *x, struct heed_i8_block *y) {
    const vf sizes = i8_sizes(type, x);
    if (v_any_nan(&sizes, 1)) {
        *y = (struct heed_i8_block){.scale = __builtin_nanf(""), .minus_sum = __builtin_nanf("")};
        return;
    }
    const float least = 0x1p-126f, scale = v_hmax(sizes) / 127.0f; /* below `least` 1 / scale may be infinite */
    vf sum[2];
    y->scale = scale < least ? least : scale;
    i8_bytes(type, x, 1.0f / y->scale, y->q, sum);
    if (!sums)
        return;
    y->minus_8_of_first = -8 * (int32_t)v_sum(sum[0]);
    y->minus_8 = y->minus_8_of_first - 8 * (int32_t)v_sum(sum[1]);
    y->minus_sum = i8_minus_sum(y);
}

/* Lane p of row i becomes lane i of r[p]. */
INLINE void i8_transpose_rows(const float *rows, vf r[VF_LANES]) {
    UNROLL for (int i = 0; i < VF_LANES; i++) r[i] = v_load(rows + i * VF_LANES);
    v_transpose(r);
}

/* The sum of each row's lanes, times -8. */
INLINE void i8_minus_8(const float *rows, float *sums) {
    vf r[VF_LANES];
    i8_transpose_rows(rows, r);
    UNROLL for (int p = 1; p < VF_LANES; p++) r[0] = v_add(r[0], r[p]);
    v_store(sums, v_mul(r[0], v_set1(-8.0f)));
}

/* The scale of each block and its inverse, given rows of sizes.  False: some number is not finite. */
INLINE bool i8_scales(const float *rows, float *scales, float *inverses) {
    vf r[VF_LANES], nan = v_zero(), size = v_zero();
    i8_transpose_rows(rows, r);
    UNROLL for (int p = 0; p < VF_LANES; p++) {
        size = v_max(size, r[p]);
        nan = v_fma(r[p], v_zero(), nan);
    }
    const vf scale = v_max(v_div(size, v_set1(127.0f)), v_set1(0x1p-126f));
    v_store(scales, scale);
    v_store(inverses, v_div(v_set1(1.0f), scale));
    return !v_any_nan(&nan, 1);
}

/* So many blocks as vectors have lanes, or less; false: some number is not finite. */
INLINE bool i8_group(const enum heed_type type, const bool sums, const void *x, int count, struct heed_i8_block *y) {
    float rows[2][VF_LANES * VF_LANES] __attribute__((aligned(64))), scales[VF_LANES], inverses[VF_LANES];
    NO_UNROLL for (int i = 0; i < VF_LANES; i++) {
        v_store(rows[0] + i * VF_LANES, i < count ? i8_sizes(type, type_at(type, x, i * TYPE_BLOCK)) : v_zero());
        if (sums)
            v_store(rows[1] + i * VF_LANES, v_zero());
    }
    if (!i8_scales(rows[0], scales, inverses))
        return false;
    NO_UNROLL for (int i = 0; i < count; i++) {
        vf sum[2];
        i8_bytes(type, type_at(type, x, i * TYPE_BLOCK), inverses[i], y[i].q, sum);
        y[i].scale = scales[i];
        if (!sums)
            continue;
        v_store(rows[0] + i * VF_LANES, sum[0]);
        v_store(rows[1] + i * VF_LANES, v_add(sum[0], sum[1]));
    }
    if (!sums)
        return true;
    float first[VF_LANES], both[VF_LANES];
    i8_minus_8(rows[0], first);
    i8_minus_8(rows[1], both);
    NO_UNROLL for (int i = 0; i < count; i++) {
        y[i].minus_8 = (int32_t)both[i];
        y[i].minus_8_of_first = (int32_t)first[i];
        y[i].minus_sum = i8_minus_sum(&y[i]);
    }
    return true;
}

INLINE void i8_row_of(const enum heed_type type, const bool sums, const void *x, int64_t blocks, struct heed_i8_block *y) {
    for (int count; blocks > 0; blocks -= count, y += count, x = type_at(type, x, count * TYPE_BLOCK)) {
        count = (int)min_i64(blocks, VF_LANES);
        if (count >= VF_LANES / 2 && i8_group(type, sums, x, count, y))
            continue;
        for (int i = 0; i < count; i++)
            i8_block(type, sums, type_at(type, x, i * TYPE_BLOCK), y + i);
    }
}

static void i8_row(const void *x, enum heed_type type, int64_t blocks, struct heed_i8_block *y) {
    WITH_TYPE(type, i8_row_of(TYPE, true, x, blocks, y));
}

static void i8_weights(const float *x, int64_t blocks, struct heed_i8_block *y) { i8_row_of(HEED_F32, false, x, blocks, y); }

#endif
