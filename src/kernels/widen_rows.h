/* widen_rows and round_rows: rows from one type to another.  Contracts in src/kernels.h. */
#ifndef HEED_KERNELS_WIDEN_ROWS_H
#define HEED_KERNELS_WIDEN_ROWS_H

INLINE void widen_rows_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t n, float *y, int64_t ldy) {
    for (int64_t row = 0; row < rows; row++, y += ldy) {
        const void *from = type_at(type, x, row * ldx);
        int64_t i = 0;
        NO_UNROLL for (; i + VF_LANES <= n; i += VF_LANES) v_store(y + i, load_type(type, type_at(type, from, i)));
        if (i < n)
            v_store_n(y + i, load_type_n(type, type_at(type, from, i), n - i), n - i);
    }
}

static void widen_rows(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, float *y, int64_t ldy) {
    WITH_STORED_TYPE(type, widen_rows_of(TYPE, x, ldx, rows, n, y, ldy));
}

INLINE void round_rows_of(const enum heed_type type, const float *x, int64_t ldx, int64_t rows, int64_t n, void *y, int64_t ldy) {
    for (int64_t row = 0; row < rows; row++, x += ldx) {
        void *to = type_at_output(type, y, row * ldy);
        int64_t i = 0;
        NO_UNROLL for (; i + VF_LANES <= n; i += VF_LANES) store_type(type, type_at_output(type, to, i), v_one_nan(v_load(x + i)));
        if (i < n)
            store_type_n(type, type_at_output(type, to, i), v_one_nan(v_load_n(x + i, n - i)), n - i);
    }
}

static void round_rows(const float *x, int64_t ldx, int64_t rows, int64_t n, void *y, enum heed_type type, int64_t ldy) {
    WITH_STORED_TYPE(type, round_rows_of(TYPE, x, ldx, rows, n, y, ldy));
}

#endif
