/* thin_blocks: few rows times packed weights in blocks, of which all is read once, from memory.  Contract in src/kernels.h.
 *
 * Up to four rows meet weights as these become floats, in registers; more meet some blocks at a time that were unpacked into L1,
 * and share what that costs.  The next panel follows this one in memory, so that what lies ahead is fetched without asking where
 * panels end. */
#ifndef HEED_KERNELS_THIN_BLOCKS_H
#define HEED_KERNELS_THIN_BLOCKS_H

enum {
    BLOCK_FEW_ROWS = 4,
    BLOCK_WINDOW = 4 * TYPE_BLOCK,       /* rows of b: at most 8.5 KiB, all columns of which are computed before more */
    BLOCK_AHEAD = 4096,                  /* bytes, into L1; twice as far into L2 */
    BLOCK_UNPACKED = 2 * TYPE_BLOCK,     /* 16 KiB of floats */
    BLOCK_TURNS = TYPE_BLOCK / TYPE_WORD /* of the loop, in a block */
};

/* As pointers without a check of where the memory ends: prefetching is no access. */
INLINE void block_fetch(const enum heed_type type, const char *at) {
    const int bytes = HEED_PANEL * (type == HEED_Q8_0 ? Q8_0_BYTES : Q4_0_BYTES) / BLOCK_TURNS;
    const uintptr_t ahead = (uintptr_t)at + BLOCK_AHEAD, further = ahead + BLOCK_AHEAD;
    UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) {
        __builtin_prefetch((const void *)(ahead + (uintptr_t)line), 0, 3);
        __builtin_prefetch((const void *)(further + (uintptr_t)line), 0, 2);
    }
}

/* c of rows x vectors, columns from j on; k whole blocks. */
INLINE void block_body(const enum heed_type type, const int rows, const int vectors, const struct heed_thin_blocks *product,
                       int64_t start, int64_t k, int j) {
    vf acc[BLOCK_FEW_ROWS][4], d[4];
    const char *block = (const char *)product->packed + HEED_PANEL * type_span(type, start);
    const float *a = product->a + start;
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
        start > 0 ? v_load(product->c + i * HEED_PANEL + j + v * VF_LANES) : v_zero();
    NO_UNROLL for (; k > 0; k -= TYPE_BLOCK) {
        const char *words = block + HEED_PANEL * sizeof(uint16_t), *ahead = block;
        UNROLL for (int v = 0; v < vectors; v++) d[v] =
            v_widen_f16(v_load_half((const uint16_t *)(const void *)block + j + v * VF_LANES));
        block += HEED_PANEL * type_span(type, TYPE_BLOCK);
        PIN(words);
        NO_UNROLL for (; words < block; words += word_bytes(type)) {
            if (j == 0)
                block_fetch(type, ahead);
            ahead += HEED_PANEL * type_span(type, TYPE_BLOCK) / BLOCK_TURNS;
            UNROLL for (int p = 0; p < TYPE_WORD; p++) {
                vf b[4];
                UNROLL for (int v = 0; v < vectors; v++) b[v] = v_pin(v_mul(d[v], load_word(type, words, j + v * VF_LANES, p)));
                UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
                    v_chain(acc[i][v], v_set1(a[i * product->lda + p]), b[v]);
            }
            a += TYPE_WORD;
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(product->c + i * HEED_PANEL + j + v * VF_LANES, acc[i][v]);
}

/* Two rows or fewer have chains enough to hide their latency only if they are four vectors wide. */
#define BLOCK_SHAPE(name, type, rows, vectors)                                                                                     \
    NOINLINE void name(const struct heed_thin_blocks *product, int64_t start, int64_t k) {                                         \
        for (int j = 0; j < HEED_PANEL; j += (vectors)*VF_LANES)                                                                   \
            block_body(type, rows, vectors, product, start, k, j);                                                                 \
    }
BLOCK_SHAPE(blocks_q8_0_1, HEED_Q8_0, 1, 4)
BLOCK_SHAPE(blocks_q8_0_2, HEED_Q8_0, 2, 4)
BLOCK_SHAPE(blocks_q8_0_3, HEED_Q8_0, 3, 2)
BLOCK_SHAPE(blocks_q8_0_4, HEED_Q8_0, 4, 2)
BLOCK_SHAPE(blocks_q4_0_1, HEED_Q4_0, 1, 4)
BLOCK_SHAPE(blocks_q4_0_2, HEED_Q4_0, 2, 4)
BLOCK_SHAPE(blocks_q4_0_3, HEED_Q4_0, 3, 2)
BLOCK_SHAPE(blocks_q4_0_4, HEED_Q4_0, 4, 2)

static void few_rows_by_blocks(const struct heed_thin_blocks *product) {
    static void (*const shapes[2][BLOCK_FEW_ROWS])(const struct heed_thin_blocks *, int64_t, int64_t) = {
        {blocks_q8_0_1, blocks_q8_0_2, blocks_q8_0_3, blocks_q8_0_4}, {blocks_q4_0_1, blocks_q4_0_2, blocks_q4_0_3, blocks_q4_0_4}};
    for (int64_t start = 0; start < product->k; start += BLOCK_WINDOW)
        shapes[product->type == HEED_Q4_0][product->rows - 1](product, start, min_i64(BLOCK_WINDOW, product->k - start));
}

static void thin_blocks(const struct heed_thin_blocks *product) {
    if (product->rows <= BLOCK_FEW_ROWS) {
        few_rows_by_blocks(product);
        return;
    }
    float unpacked[BLOCK_UNPACKED * HEED_PANEL] __attribute__((aligned(64)));
    for (int64_t start = 0; start < product->k; start += BLOCK_UNPACKED) {
        const int64_t k = min_i64(BLOCK_UNPACKED, product->k - start), bytes = HEED_PANEL * type_span(product->type, k);
        const char *packed = (const char *)product->packed + HEED_PANEL * type_span(product->type, start);
        for (int64_t line = 0; line < bytes; line += LINE_BYTES)
            __builtin_prefetch((const void *)((uintptr_t)packed + (uintptr_t)(bytes + line)), 0, 3);
        unpack_blocks(packed, product->type, k, unpacked);
        thin_product(&(struct heed_thin_product){.rows = product->rows,
                                                 .columns = HEED_PANEL,
                                                 .k = k,
                                                 .a = product->a + start,
                                                 .lda = product->lda,
                                                 .b = unpacked,
                                                 .ldb = HEED_PANEL,
                                                 .c = product->c,
                                                 .ldc = HEED_PANEL,
                                                 .continues = start > 0});
    }
}

#endif
