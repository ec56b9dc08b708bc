/* widen_rows and round_rows: rows from one type to another.  Contracts in src/kernels.h. */
#ifndef HEED_KERNELS_WIDEN_ROWS_H
#define HEED_KERNELS_WIDEN_ROWS_H

INLINE void widen_rows_of(const enum heed_type type, const void *x, int64_t ldx, int64_t rows, int64_t n, float *y, int64_t ldy) {
    for (int64_t row = 0; row < rows; row++, y += ldy) {
        const void *from = type_at(type, x, row * ldx);
        EACH_VECTOR(i, n, v_store_n(y + i, load_type_n(type, type_at(type, from, i), LEFT), LEFT));
    }
}

static void widen_rows(const void *x, enum heed_type type, int64_t ldx, int64_t rows, int64_t n, float *y, int64_t ldy) {
    WITH_STORED_TYPE(type, widen_rows_of(TYPE, x, ldx, rows, n, y, ldy));
}

INLINE void round_rows_of(const enum heed_type type, const float *x, int64_t ldx, int64_t rows, int64_t n, void *y, int64_t ldy) {
    for (int64_t row = 0; row < rows; row++, x += ldx) {
        void *to = type_at_output(type, y, row * ldy);
        EACH_VECTOR(i, n, store_type_n(type, type_at_output(type, to, i), v_one_nan(v_load_n(x + i, LEFT)), LEFT));
    }
}

static void round_rows(const float *x, int64_t ldx, int64_t rows, int64_t n, void *y, enum heed_type type, int64_t ldy) {
    WITH_STORED_TYPE(type, round_rows_of(TYPE, x, ldx, rows, n, y, ldy));
}

#endif
