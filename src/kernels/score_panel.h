/* score_panel: scores of queries with a panel of keys, tile by tile, and their lane-wise maxima while they are still in registers.
 * Contract in src/contracts/attention.h. */
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

INLINE void score_tile_body(const int rows, const int vectors, const struct heed_score_panel *panel, int row, int column) {
    vf acc[TILE_ROWS][TILE_VECTORS];
    const int key = panel->key + column;
    tile_zero(rows, vectors, acc);
    tile_multiply(rows, vectors, acc, panel->query + row * panel->ldq, panel->ldq, panel->keys + column, panel->ldk,
                  panel->head_dim);
    if (panel->hides)
        score_hide(rows, vectors, acc, panel->begins + row, panel->ends + row, key);
    tile_store_scores(rows, vectors, acc, score_lanes_begin(panel->begins[row]) >= key, panel->s + row * HEED_CHUNK + key,
                      HEED_CHUNK, panel->row_max + row * HEED_SUM_LANES);
}

/* Whole tiles one under the other, down to row `end`, of which nothing is hidden.  A loop of their own: a call for each costs 50 to
 * 70 cycles of the 400 (AVX2) or 800 that a tile takes, and code that hides would take registers from the products. */
NOINLINE void score_whole_tiles(const struct heed_score_panel *panel, int row, int end, int column) {
    const int key = panel->key + column;
    const float *keys = panel->keys + column, *query = panel->query + row * panel->ldq;
    float *s = panel->s + row * HEED_CHUNK + key, *row_max = panel->row_max + row * HEED_SUM_LANES;
    NO_UNROLL for (; row < end; row += TILE_ROWS) {
        vf acc[TILE_ROWS][TILE_VECTORS];
        tile_zero(TILE_ROWS, TILE_VECTORS, acc);
        tile_multiply(TILE_ROWS, TILE_VECTORS, acc, query, panel->ldq, keys, panel->ldk, panel->head_dim);
        tile_store_scores(TILE_ROWS, TILE_VECTORS, acc, score_lanes_begin(panel->begins[row]) >= key, s, HEED_CHUNK, row_max);
        query += TILE_ROWS * panel->ldq;
        s += TILE_ROWS * HEED_CHUNK;
        row_max += TILE_ROWS * HEED_SUM_LANES;
    }
}

TILE_SHAPES(score_tile, (const struct heed_score_panel *panel, int row, int column), panel, row, column)

/* Whether these whole tile's keys are seen by all its rows, or hidden later. */
INLINE bool score_is_whole(const struct heed_score_panel *panel, int row, int key) {
    return !panel->hides || (panel->ends[row] >= key + TILE_COLUMNS && panel->begins[row + TILE_ROWS - 1] <= key);
}

/* Rows [row, end) with up to `vectors` vectors of keys; tiles on the diagonal of a causal mask, or at the end of the keys, take no
 * more than they need. */
INLINE void score_columns(const struct heed_score_panel *panel, int row, int end, int column, int vectors) {
    static void (*const shapes[6][4])(const struct heed_score_panel *panel, int row, int column) = TILE_TABLE(score_tile);
    const int key = panel->key + column;
    while (row < end) {
        int stop = row;
        while (vectors == TILE_VECTORS && stop + TILE_ROWS <= end && score_is_whole(panel, stop, key))
            stop += TILE_ROWS;
        if (stop > row) {
            score_whole_tiles(panel, row, stop, column);
            row = stop;
            continue;
        }
        const int rows = smaller(TILE_ROWS, end - row);
        const int needed = (panel->ends[row + rows - 1] - key + VF_LANES - 1) / VF_LANES;
        shapes[rows - 1][smaller(vectors, needed) - 1](panel, row, column);
        row += rows;
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
