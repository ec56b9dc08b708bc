/* Packing into panels of 64 columns, [k][64], the layout that all tiles read.  Contract in src/kernels.h. */
#ifndef HEED_KERNELS_PACK_H
#define HEED_KERNELS_PACK_H

/* Rows from what is read to what is fetched: into L2, and from there into L1, which has places for 8 that are a multiple of 4 KB
 * apart.  What tiles before had fetched, strips on their way through L2 have pushed out again: of 512 x 768 x 3072 and 2048 x 2048
 * x 2048 packing takes 2.6 % of the time instead of 4 (AVX2, Zen 4). */
enum { PACK_ROWS_FAR = 32, PACK_ROWS_NEAR = 4 };

INLINE void pack_fetch(const enum heed_type type, const void *src, int64_t ld) {
    const int line = LINE_BYTES / (int)type_bytes(type);
    UNROLL for (int j = 0; j < HEED_PANEL; j += line) {
        __builtin_prefetch(type_at(type, src, PACK_ROWS_FAR * ld + j), 0, 2);
        __builtin_prefetch(type_at(type, src, PACK_ROWS_NEAR * ld + j), 0, 3);
    }
}

INLINE void pack_of(const enum heed_type type, const void *src, int64_t ld, int64_t k, const int columns, float *panel) {
    for (int64_t p = 0; p < k; p++) {
        pack_fetch(type, type_at(type, src, p * ld), ld);
        UNROLL for (int j = 0; j < HEED_PANEL; j += VF_LANES)
            v_store(panel + p * HEED_PANEL + j, load_type_n(type, type_at(type, src, p * ld + j), columns - j));
    }
}

static void pack(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, float *panel) {
    if (columns == HEED_PANEL)
        WITH_STORED_TYPE(type, pack_of(TYPE, src, ld, k, HEED_PANEL, panel));
    else
        WITH_STORED_TYPE(type, pack_of(TYPE, src, ld, k, columns, panel));
}

/* panel[p][..] from element p of so many rows on, of which `left` are left. */
INLINE void pack_square(const enum heed_type type, const void *src, int64_t ld, int64_t left, int columns, float *panel) {
    if (columns >= VF_LANES)
        transpose(type, src, ld, 0, VF_LANES, left, panel, HEED_PANEL);
    else
        transpose(type, src, ld, 0, columns, left, panel, HEED_PANEL);
}

/* All of a line of each row while it is in L1, where those of rows that are a multiple of 4 KB apart share one set: by a square of
 * all columns after another, of which a line has several, 16 rows times 4096 x 4096 f16 take 1.21 times as long, by AVX2 1.4,
 * floats 1.1 (Zen 5). */
INLINE void pack_transposed_of(const enum heed_type type, const void *src, int64_t ld, int64_t k, int columns, float *panel) {
    const int step = transpose_step(type, INT64_MAX), line = larger(step, LINE_BYTES / (int)type_bytes(type));
    int64_t p = 0;
    for (; p + line <= k; p += line)
        for (int j = 0; j < HEED_PANEL; j += VF_LANES)
            UNROLL for (int at = 0; at < line; at += step) pack_square(type, type_at(type, src, j * ld + p + at), ld, INT64_MAX,
                                                                       columns - j, panel + (p + at) * HEED_PANEL + j);
    for (; p < k; p += transpose_step(type, k - p))
        for (int j = 0; j < HEED_PANEL; j += VF_LANES)
            pack_square(type, type_at(type, src, j * ld + p), ld, k - p, columns - j, panel + p * HEED_PANEL + j);
}

/* Apart from the others, so that make bench-static finds its loop. */
NOINLINE void pack_transposed_f32(const float *src, int64_t ld, int64_t k, int columns, float *panel) {
    pack_transposed_of(HEED_F32, src, ld, k, columns, panel);
}

/* Bytes change places as blocks do, four at a time: by one at a time 13 to 32 rows times 4096 x 4096 take 1.2 to 1.6 times as
 * long. */
static void pack_transposed(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, float *panel) {
    const int64_t blocks = type == HEED_I8 || type_has_blocks(type) ? k / TYPE_BLOCK * TYPE_BLOCK : 0;
    if (type == HEED_F32)
        pack_transposed_f32(src, ld, k, columns, panel);
    else if (blocks > 0)
        pack_unpacked_blocks(src, type, ld, blocks, columns, panel);
    if (type != HEED_F32 && blocks < k)
        WITH_STORED_TYPE(
            type, pack_transposed_of(TYPE, type_at(type, src, blocks), ld, k - blocks, columns, panel + blocks * HEED_PANEL));
}

static void unpack_words(const void *words, int64_t k, bool pairs, float *panel) {
    const char *from = words;
    for (int64_t p = 0; p < k; p += 2, from += HEED_PANEL * WORD_BYTES, panel += 2 * HEED_PANEL) {
        const bool both = pairs || p + 1 < k;
        float *even = panel + (pairs ? HEED_PANEL : 0), *odd = panel + (pairs ? 0 : HEED_PANEL);
        for (int j = 0; j < HEED_PANEL; j += VF_LANES) {
            const vi word = v_load_int((const uint8_t *)from + j * WORD_BYTES);
            v_store(even + j, v_bf16(word, 0));
            if (both)
                v_store(odd + j, v_bf16(word, 1));
        }
    }
}

/* A line of each row, at the first of its elements. */
INLINE void pack_strip_fetch(const enum heed_type type, const void *src, int64_t ld, const int rows, int64_t p) {
    if (p % (LINE_BYTES / (int)type_bytes(type)) == 0)
        UNROLL for (int i = 0; i < rows; i++) __builtin_prefetch(type_at(type, src, i * ld + p), 0, 3);
}

/* Rows of a strip are shorter than vectors, or not a multiple of them: what a vector has beyond its row is overwritten by the next,
 * so that the last columns come first.  Meanwhile the rows of the next strip are fetched: of 512 x 512 x 512 strips take 2.4 % of
 * the time instead of 3.5 (AVX2, Zen 4). */
INLINE void pack_strip_of(const enum heed_type type, const void *src, int64_t ld, const int rows, int64_t k, float *strip) {
    UNROLL for (int j = (TILE_ROWS - 1) / VF_LANES * VF_LANES; j >= 0; j -= VF_LANES) {
        const int left = smaller(rows - j, VF_LANES);
        if (left > 0)
            for (int64_t p = 0; p < k; p += transpose_step(type, k - p)) {
                pack_strip_fetch(type, type_at(type, src, (rows + j) * ld), ld, left, p);
                transpose(type, type_at(type, src, j * ld + p), ld, 0, left, k - p, strip + p * TILE_ROWS + j, TILE_ROWS);
            }
    }
}

INLINE void pack_strips_of(const enum heed_type type, const void *src, int64_t ld, const struct heed_heights *heights, int64_t k,
                           float *strips) {
    for (int64_t tile = 0; tile < heights->tiles; tile++, strips += TILE_ROWS * k) {
        const int rows = heights->rows - (tile >= heights->taller);
        if (rows == TILE_ROWS)
            pack_strip_of(type, src, ld, TILE_ROWS, k, strips);
        else
            pack_strip_of(type, src, ld, rows, k, strips);
        src = type_at(type, src, rows * ld);
    }
}

/* Steps of a strip from rows of src; whole vectors where they may be read, and written because what is behind comes later. */
INLINE void pack_columns_of(const enum heed_type type, const void *src, int64_t ld, const bool whole, int rows, int64_t steps,
                            float *strip) {
    NO_UNROLL for (; steps > 0; steps--, src = type_at(type, src, ld), strip += TILE_ROWS) {
        UNROLL for (int j = 0; j < TILE_ROWS; j += VF_LANES) {
            if (whole)
                v_store(strip + j, load_type(type, type_at(type, src, j)));
            else if (j < rows)
                v_store_n(strip + j, load_type_n(type, type_at(type, src, j), rows - j), rows - j);
        }
    }
}

/* Of a few rows of src at a time, all tiles, while these are in L1. */
INLINE void pack_strips_transposed_of(const enum heed_type type, const void *src, int64_t ld, const struct heed_heights *heights,
                                      int64_t k, float *strips) {
    enum { STEPS = 8, WIDTH = (TILE_ROWS + VF_LANES - 1) / VF_LANES * VF_LANES, BEYOND = (WIDTH - 1) / TILE_ROWS };
    for (int64_t p = 0; p < k; p += STEPS, src = type_at(type, src, STEPS * ld)) {
        const int64_t steps = k - p < STEPS ? k - p : STEPS, ends = k - BEYOND - p;
        int64_t left = heights->tiles * (heights->rows - 1) + heights->taller;
        const void *from = src;
        float *to = strips + p * TILE_ROWS;
        for (int64_t tile = 0; tile < heights->tiles; tile++, to += k * TILE_ROWS) {
            const int rows = heights->rows - (tile >= heights->taller);
            const int64_t whole = left < WIDTH || ends < 0 ? 0 : ends < steps ? ends : steps;
            pack_columns_of(type, from, ld, true, rows, whole, to);
            pack_columns_of(type, type_at(type, from, whole * ld), ld, false, rows, steps - whole, to + whole * TILE_ROWS);
            from = type_at(type, from, rows);
            left -= rows;
        }
    }
}

static void pack_strips(const void *src, enum heed_type type, int64_t ld, bool transposed, const struct heed_heights *heights,
                        int64_t k, float *strips) {
    if (transposed)
        WITH_TYPE(type, pack_strips_transposed_of(TYPE, src, ld, heights, k, strips));
    else
        WITH_TYPE(type, pack_strips_of(TYPE, src, ld, heights, k, strips));
}

/* Columns of VF_LANES keys are written whole; the others one by one, for their neighbours may be another worker's. */
INLINE void store_keys_of(const enum heed_type type, const void *src, int64_t ld, int64_t k, int columns, float *panel,
                          int64_t width) {
    int j = 0;
    for (; j + VF_LANES <= columns; j += VF_LANES)
        for (int64_t p = 0; p < k; p += transpose_step(type, k - p))
            transpose(type, type_at(type, src, j * ld + p), ld, 0, VF_LANES, k - p, panel + p * width + j, width);
    for (; j < columns; j++)
        for (int64_t p = 0; p < k; p++) {
            const void *element = type_at(type, src, j * ld + p);
            if (type == HEED_F32)
                memcpy(panel + p * width + j, element, sizeof *panel);
            else
                v_store_n(panel + p * width + j, load_type_n(type, element, 1), 1);
        }
}

static void store_keys(const void *src, enum heed_type type, int64_t ld, int64_t k, int columns, float *panel, int64_t width) {
    WITH_TYPE(type, store_keys_of(TYPE, src, ld, k, columns, panel, width));
}

#endif
