/* thin_blocks of weights in ggml's K formats: a tile of few rows.  Contract in src/contracts/thin.h; windows and rows in
 * thin_blocks.h. */
#ifndef HEED_KERNELS_THIN_K_BLOCKS_H
#define HEED_KERNELS_THIN_K_BLOCKS_H

/* Of a tile, as blocks_vectors has them. */
INLINE int k_vectors(const int rows) { return rows <= 2 && !FEW_REGISTERS ? 4 : 2; }

/* acc[i] = fma(a[i][p], b[p], acc[i]) for the elements p of a turn. */
INLINE void k_turn(const enum heed_type type, const int rows, const int vectors, vf acc[][K_VECTORS],
                   const float *const a[ROW_GROUPS], int64_t lda, const struct k_scales *scales, const struct block_turn *turn,
                   int j, const int half) {
    UNROLL for (int p = 0; p < TURN_DEPTH; p++) {
        vf b[K_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) b[v] = v_pin(k_load_weight(type, scales, turn, j, v, half, p));
        UNROLL for (int i = 0; i < rows; i++) {
            const vf row = v_set1(a[i / ROW_GROUP][i % ROW_GROUP * lda + p]);
            UNROLL for (int v = 0; v < vectors; v++) acc[i][v] = v_chain(acc[i][v], row, b[v]);
        }
    }
}

/* Of q5_K and q6_K both turns of a half have shifts by constants, up to so many rows: 4 rows take 0.84 to 0.89 of the time so (Zen
 * 5), 12 rows, and 4 by AVX2, 1.15 to 1.26. */
enum { K_UNROLLED_ROWS = FEW_REGISTERS ? 2 : 10 };

/* A block, which starts at element p of the window. */
INLINE void k_block(const enum heed_type type, const int rows, const int vectors, vf acc[][K_VECTORS], const float *a[ROW_GROUPS],
                    const struct blocks_window *window, const char *block, int64_t p, int j) {
    const char *group = block + k_panel_groups_at(type);
    struct k_scales scales;
    k_load_block_scales(type, vectors, WEIGHT_UNIT, block, j, &scales);
    NO_UNROLL for (int g = 0; g < K_GROUPS; g++, group += k_group_bytes(type)) UNROLL for (int half = 0; half < 2; half++) {
        k_load_scales(type, vectors, group, j, half, &scales);
        NO_UNROLL for (int turn = 0; turn < K_LOW_WORDS / TURN_WORDS; turn++, p += TURN_DEPTH) {
            if (type == HEED_Q4_K || rows > K_UNROLLED_ROWS)
                PIN(turn); /* else gcc unrolls it */
            const struct block_turn words = k_turn_at(type, group, half, turn);
            if (window->fetches && j == 0)
                fetch_ahead(type, window, p);
            k_turn(type, rows, vectors, acc, a, window->lda, &scales, &words, j, half);
            UNROLL for (int i = 0; i * ROW_GROUP < rows; i++) a[i] += TURN_DEPTH;
        }
    }
}

/* c of rows x vectors, columns from j on. */
INLINE void k_body(const enum heed_type type, const int rows, const int vectors, const struct blocks_window *window, int j) {
    vf acc[TALL_ROWS > 6 ? TALL_ROWS : 6][K_VECTORS];
    const float *a[ROW_GROUPS];
    const char *block = window->packed;
    UNROLL for (int g = 0; g * ROW_GROUP < rows; g++) {
        a[g] = window->a + g * ROW_GROUP * window->lda;
        PIN(a[g]);
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
        window->continues ? v_load(window->c + i * HEED_PANEL + j + v * VF_LANES) : v_zero();
    NO_UNROLL for (int64_t p = 0; p < window->k; p += K_BLOCK, block += k_panel_bytes(type))
        k_block(type, rows, vectors, acc, a, window, block, p, j);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
        v_store(window->c + i * HEED_PANEL + j + v * VF_LANES, acc[i][v]);
}

#endif
