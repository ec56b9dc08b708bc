/* score_panel: scores of queries with a panel of keys, tile by tile, and their lane-wise maxima while they are still in registers.
 * Contract in src/kernels.h. */
#ifndef HEED_KERNELS_SCORE_PANEL_H
#define HEED_KERNELS_SCORE_PANEL_H

/* Scores of keys before a row's begin and from its end on become -inf. */
INLINE void score_hide(const int rows, const int vectors, vf acc[TILE_ROWS][TILE_VECTORS], const int *begins, const int *ends,
                       int key) {
    const vf hidden = v_set1(-INFINITY);
    if (ends[0] < key + vectors * VF_LANES) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
            v_keep_first(acc[i][v], ends[i] - key - v * VF_LANES, hidden);
    }
    if (begins[rows - 1] > key) {
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) acc[i][v] =
            v_keep_first(hidden, begins[i] - key - v * VF_LANES, acc[i][v]);
    }
}

/* Where the lanes of a chunk's sum begin that hold this key. */
INLINE int score_lanes_begin(int key) { return key & -HEED_SUM_LANES; }

/* Tiles one under the other, down to row `end`. */
INLINE void score_tile_body(const int rows, const int vectors, const struct heed_score_panel *panel, int row, int end, int column) {
    const int key = panel->key + column;
    const float *keys = panel->keys + column, *query = panel->query + row * panel->ldq;
    float *s = panel->s + row * HEED_CHUNK + key, *row_max = panel->row_max + row * HEED_SUM_LANES;
    NO_UNROLL for (; row < end; row += rows) {
        vf acc[TILE_ROWS][TILE_VECTORS];
        tile_zero(rows, vectors, acc);
        tile_multiply(rows, vectors, acc, query, panel->ldq, keys, panel->ldk, panel->head_dim);
        if (panel->hides)
            score_hide(rows, vectors, acc, panel->begins + row, panel->ends + row, key);
        const bool first = score_lanes_begin(panel->begins[row]) >= key;
        UNROLL for (int i = 0; i < rows; i++) {
            vf max = acc[i][0];
            UNROLL for (int v = 0; v < vectors; v++) v_store(s + i * HEED_CHUNK + v * VF_LANES, acc[i][v]);
            UNROLL for (int v = 1; v < vectors; v++) max = v_max(max, acc[i][v]);
            v_store(row_max + i * HEED_SUM_LANES, first ? max : v_max(max, v_load(row_max + i * HEED_SUM_LANES)));
        }
        query += rows * panel->ldq;
        s += rows * HEED_CHUNK;
        row_max += rows * HEED_SUM_LANES;
    }
}

TILE_SHAPES(score_tile, (const struct heed_score_panel *panel, int row, int end, int column), panel, row, end, column)

typedef void score_shape(const struct heed_score_panel *panel, int row, int end, int column);

/* Rows [row, end) with up to `vectors` vectors of keys.  Tiles that see them all follow one another; those that see fewer, on the
 * diagonal of a causal mask or at the end of the keys, take as many vectors as they need. */
INLINE void score_columns(const struct heed_score_panel *panel, int row, int end, int column, int vectors) {
    static score_shape *const shapes[6][4] = TILE_TABLE(score_tile);
    const int key = panel->key + column;
    for (int rows, stop; row < end; row = stop) {
        rows = smaller(TILE_ROWS, end - row);
        stop = row + rows;
        int needed = (panel->ends[stop - 1] - key + VF_LANES - 1) / VF_LANES;
        if (needed >= vectors) {
            needed = vectors;
            stop = rows < TILE_ROWS ? end : end - (end - row) % TILE_ROWS;
        }
        shapes[rows - 1][needed - 1](panel, row, stop, column);
    }
}

/* By columns, which stay in L1 while all rows use them.  The tiles that see any of them follow one another. */
static void score_panel(const struct heed_score_panel *panel) {
    const int last = panel->rows - 1;
    for (int column = 0; column < panel->columns; column += TILE_COLUMNS) {
        const int columns = smaller(TILE_COLUMNS, panel->columns - column), key = panel->key + column;
        int row = 0, end = panel->rows;
        while (row < end && panel->ends[smaller(row + TILE_ROWS - 1, last)] <= key)
            row += TILE_ROWS;
        while (end > row && score_lanes_begin(panel->begins[(end - 1) / TILE_ROWS * TILE_ROWS]) >= key + columns)
            end = (end - 1) / TILE_ROWS * TILE_ROWS;
        score_columns(panel, row, end, column, columns / VF_LANES);
    }
}

#endif
