/* Rows of heed_softmax.  Contract in src/contracts/rows.h.
 *
 * Exponentials of a chunk are relative to its own maximum, so that a row is read once.  They wait in a buffer for the sum of their
 * row, and become results beside the exponentials of the next row, which take their places: stores past the caches wait for
 * memory, exponentials for one another.  There elements are loaded before their line is stored: loads that come after a store
 * past the caches to an address with the same 12 lower bits wait for it (Zen 4).
 *
 * Where the stack has no room for a row's exponentials, they wait where its results will be; if these go past the caches, in the
 * last row of the output, whose own exponentials are the last. */
#ifndef HEED_KERNELS_SOFTMAX_ROWS_H
#define HEED_KERNELS_SOFTMAX_ROWS_H

enum {
    SOFTMAX_STEP = EXP_ABREAST * VF_LANES,
    SOFTMAX_TURN = EXP_TIMES * HEED_SUM_LANES,
    /* So many floats before they are read they are fetched into L2, and once more into L1, and what will be written first into L2.
     * Past the caches, by one fetch into L1 1024 floats ahead, 4096 x 4096 take 1.3 of the time, by one into L2 1.1; from 3072 to
     * 8192 floats ahead all are as quick.  Without any, 4096 x 4096 and 512 x 32000 in place take 2.5 and 2.3 times as long, 1024 x
     * 4096 and 128 x 32000 elsewhere 1.4 and 1.9 times, and what is in the caches 1.1 times (Zen 4). */
    SOFTMAX_AHEAD = 4096,
    SOFTMAX_NEAR = 1024
};

/* A row whose exponentials are in p, and whose first `stored` results are in y.  Of chunks: the maximum, then what exponentials are
 * multiplied by; the sum. */
struct softmax_row {
    float *p, *y;
    int64_t n, stored, chunk;
    float factors[HEED_SOFTMAX_CHUNKS], sums[HEED_SOFTMAX_CHUNKS];
};

/* Exponentials are exp2((x - max) * factor); of a negative factor, max is the smallest x. */
struct softmax_scale {
    vf max, factor;
};

INLINE vf softmax_load(const float *x, int64_t n, const bool negative) {
    return negative ? v_mul(v_load_n(x, n), v_set1(-1.0f)) : v_load_n(x, n);
}

INLINE float softmax_max_of(const float *x, int64_t n, const bool negative) {
    vf max[4];
    int64_t i = 0;
    UNROLL for (int v = 0; v < 4; v++) max[v] = v_set1(-INFINITY);
    for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES)
        UNROLL for (int v = 0; v < 4; v++) max[v] = v_max(softmax_load(x + i + v * VF_LANES, VF_LANES, negative), max[v]);
    for (; i < n; i += VF_LANES)
        max[0] = v_max(v_keep_first(softmax_load(x + i, n - i, negative), n - i, v_set1(-INFINITY)), max[0]);
    return v_hmax(v_max(v_max(max[0], max[1]), v_max(max[2], max[3])));
}

/* Of the opposites if the factor is negative: then the smaller the input, the larger the weight. */
INLINE float softmax_max(const float *x, int64_t n, float factor) {
    return factor < 0.0f ? softmax_max_of(x, n, true) : softmax_max_of(x, n, false);
}

INLINE struct softmax_scale softmax_scale_of(float max, float factor) {
    const float base = exp_base(max);
    return (struct softmax_scale){v_set1(factor < 0.0f ? -base : base), v_set1(factor)};
}

INLINE vf softmax_argument(vf x, struct softmax_scale scale) { return v_mul(v_sub(x, scale.max), scale.factor); }

/* Exponentials of the vectors from v on, added to their lanes of sum. */
INLINE void softmax_step(const float *x, int v, struct softmax_scale scale, vf p[EXP_ABREAST], vf sum[SUM_VECTORS]) {
    UNROLL for (int i = 0; i < EXP_ABREAST; i++) p[i] = softmax_argument(v_load(x + v + i * VF_LANES), scale);
    exp2_abreast(FEW_REGISTERS, p);
    UNROLL for (int i = 0; i < EXP_ABREAST; i++) {
        vf *lanes = &sum[(v / VF_LANES + i) % SUM_VECTORS];
        *lanes = v_add(*lanes, p[i]);
    }
}

/* near: floats from where they are read to where they are fetched into L1, or 0; one row of 32000 takes 0.88 of the time so, short
 * rows more (Zen 4). */
INLINE void softmax_exps(const float *x, int64_t n, int64_t near, struct softmax_scale scale, float *p, vf sum[SUM_VECTORS]) {
    int64_t i = 0;
    NO_UNROLL for (; i + SOFTMAX_TURN <= n; i += SOFTMAX_TURN) {
        if (near > 0)
            UNROLL for (int v = 0; v < SOFTMAX_TURN; v += HEED_LINE) __builtin_prefetch(x + i + near + v, 0, 3);
        UNROLL for (int v = 0; v < SOFTMAX_TURN; v += SOFTMAX_STEP) {
            vf e[EXP_ABREAST];
            softmax_step(x + i, v, scale, e, sum);
            UNROLL for (int j = 0; j < EXP_ABREAST; j++) v_store(p + i + v + j * VF_LANES, e[j]);
        }
    }
    NO_UNROLL for (; i < n; i += HEED_SUM_LANES) UNROLL for (int v = 0; v < HEED_SUM_LANES; v += VF_LANES) {
        const int64_t left = n - i - v;
        if (left > 0) {
            const vf e = v_keep_first(exp2_of(softmax_argument(v_load_n(x + i + v, left), scale)), left, v_zero());
            v_store_n(p + i + v, e, left);
            sum[v / VF_LANES] = v_add(sum[v / VF_LANES], e);
        }
    }
}

INLINE void softmax_multiply(const float *p, int64_t n, vf factor, float *y) {
    EACH_VECTOR(i, n, v_store_n(y + i, v_mul(v_load_n(p + i, LEFT), factor), LEFT));
}

/* Floats before the next line of the caches. */
INLINE int64_t softmax_head(const float *y) { return (int64_t)(-(uintptr_t)y / sizeof *y % HEED_LINE); }

/* Past the caches, in whole lines. */
INLINE void softmax_stream(const float *p, int64_t n, vf factor, float *y) {
    const int64_t head = min_i64(n, softmax_head(y));
    softmax_multiply(p, head, factor, y);
    int64_t i = head;
    NO_UNROLL for (; i + VF_LANES <= n; i += VF_LANES) v_stream(y + i, v_mul(v_load(p + i), factor));
    softmax_multiply(p + i, n - i, factor, y + i);
}

/* Results before `end`. */
NOINLINE void softmax_store(struct softmax_row *row, int64_t end, bool stream) {
    end = min_i64(end, row->n);
    while (row->stored < end) {
        const int64_t at = row->stored, chunk = at / row->chunk, n = min_i64(end, (chunk + 1) * row->chunk) - at;
        const vf factor = v_set1(row->factors[chunk]);
        if (stream)
            softmax_stream(row->p + at, n, factor, row->y + at);
        else
            softmax_multiply(row->p + at, n, factor, row->y + at);
        row->stored += n;
    }
}

/* Exponentials of at most HEED_CHUNK elements, whose lane sums are added to total. */
INLINE void softmax_piece(const float *x, int64_t n, struct softmax_scale scale, float *p, vf total[SUM_VECTORS]) {
    vf sum[SUM_VECTORS];
    sum16_zero(sum);
    softmax_exps(x, n, 0, scale, p, sum);
    UNROLL for (int v = 0; v < SUM_VECTORS; v++) total[v] = v_add(total[v], sum[v]);
}

/* Results of the row before: its exponentials, where they go, by what those of a chunk are multiplied, and the last ones of the
 * chunk's last turn, some of which are the next chunk's where lines of y are not those of p. */
struct softmax_before {
    const float *p;
    float *y;
    vf factor;
    int64_t head, end;
    float last[2][HEED_SUM_LANES] __attribute__((aligned(64)));
};

INLINE void softmax_before_begin(const struct softmax_row *row, int64_t begin, int64_t head, struct softmax_before *before) {
    const int64_t chunk = begin / row->chunk;
    before->p = row->p;
    before->y = row->y;
    before->factor = v_set1(row->factors[chunk]);
    before->head = head;
    before->end = (chunk + 1) * row->chunk;
    UNROLL for (int v = 0; v < HEED_SUM_LANES; v += VF_LANES) {
        v_store(before->last[0] + v, before->factor);
        v_store(before->last[1] + v, before->factor);
        if (head > 0)
            v_store(before->last[1] + v, v_keep_first(before->factor, HEED_SUM_LANES - head - v, v_set1(row->factors[chunk + 1])));
    }
}

/* Exponentials of x[i...end) turn by turn, each beside as many results of the row before; where that ends.  Behind x lie `left`
 * floats that will be read. */
INLINE int64_t softmax_beside(const bool stream, const float *x, int64_t i, int64_t end, int64_t left, struct softmax_scale scale,
                              const struct softmax_before *before, float *p, vf sum[SUM_VECTORS]) {
    enum { LAST = SOFTMAX_TURN - HEED_SUM_LANES };
    const int64_t head = stream ? before->head : 0;
    const int64_t ahead = min_i64(SOFTMAX_AHEAD, left), near = min_i64(SOFTMAX_NEAR, left);
    const uintptr_t written = (uintptr_t)(before->p == before->y ? p : before->y); /* first; by address, for it may end before */
    NO_UNROLL for (; i + SOFTMAX_TURN <= end; i += SOFTMAX_TURN) {
        const float *last = before->last[i + SOFTMAX_TURN == before->end];
        UNROLL for (int v = 0; v < SOFTMAX_TURN; v += HEED_LINE) {
            __builtin_prefetch(x + i + ahead + v, 0, 2);
            __builtin_prefetch(x + i + near + v, 0, 3);
            if (!stream)
                __builtin_prefetch((const void *)(written + (uintptr_t)(i + SOFTMAX_AHEAD + v) * sizeof *p), 1, 2);
        }
        UNROLL for (int v = 0; v < SOFTMAX_TURN; v += SOFTMAX_STEP) {
            vf e[EXP_ABREAST], result[EXP_ABREAST];
            UNROLL for (int j = 0, at = v; j < EXP_ABREAST; j++, at += VF_LANES) result[j] =
                v_mul(v_load(before->p + i + head + at), stream && at >= LAST ? v_load(last + at - LAST) : before->factor);
            softmax_step(x + i, v, scale, e, sum);
            UNROLL for (int j = 0, at = v; j < EXP_ABREAST; j++, at += VF_LANES) {
                v_store(p + i + at, e[j]);
                if (stream)
                    v_stream(before->y + i + head + at, result[j]);
                else
                    v_store(before->y + i + head + at, result[j]);
            }
        }
    }
    return i;
}

/* Of a row of x; left: floats that are read after these. */
struct softmax_chunk {
    const float *x;
    int64_t begin, end, size, left;
    float max, factor;
};

/* The sum of the exponentials of a chunk: of 16 lane sums, begun anew every HEED_CHUNK elements, so that its error grows with n /
 * HEED_CHUNK and not with n / 16.  What they take the place of becomes results before. */
INLINE float softmax_chunk(const bool stream, const struct softmax_chunk *chunk, struct softmax_row *row, float *p) {
    const struct softmax_scale scale = softmax_scale_of(chunk->max, chunk->factor);
    const int64_t head = row->stored - chunk->begin;
    const bool beside = row->chunk == chunk->size && head >= 0 && head < HEED_LINE;
    const int64_t turns_end = beside ? min_i64(chunk->end, row->n - head) : 0;
    struct softmax_before before = {.factor = v_zero()};
    if (turns_end > chunk->begin)
        softmax_before_begin(row, chunk->begin, head, &before);
    vf total[SUM_VECTORS];
    sum16_zero(total);
    for (int64_t i = chunk->begin; i < chunk->end;) {
        const int64_t end = min_i64(chunk->end, i + HEED_CHUNK), beside_end = min_i64(end, turns_end);
        vf sum[SUM_VECTORS];
        sum16_zero(sum);
        if (i < beside_end) {
            i = softmax_beside(stream, chunk->x, i, beside_end, chunk->left, scale, &before, p, sum);
            row->stored = i + head;
        }
        if (i < end) {
            softmax_store(row, end, stream);
            softmax_exps(chunk->x + i, end - i, min_i64(SOFTMAX_NEAR, chunk->left), scale, p + i, sum);
            i = end;
        }
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) total[v] = v_add(total[v], sum[v]);
    }
    return sum16_fold(total);
}
NOINLINE float softmax_chunk_stored(const struct softmax_chunk *chunk, struct softmax_row *before, float *p) {
    return softmax_chunk(false, chunk, before, p);
}
NOINLINE float softmax_chunk_streamed(const struct softmax_chunk *chunk, struct softmax_row *before, float *p) {
    return softmax_chunk(true, chunk, before, p);
}

/* Factors of chunks from their maxima, but for what all have in common. */
INLINE void softmax_factors(float *factors, int64_t chunks, float max, float factor) {
    const struct softmax_scale scale = softmax_scale_of(max, fabsf(factor));
    EACH_VECTOR(c, chunks, v_store_n(factors + c, exp2_of(softmax_argument(v_load_n(factors + c, LEFT), scale)), LEFT));
}

/* A NaN weight makes the sum NaN, so the sum alone tells whether a row needs the one NaN. */
INLINE void softmax_sum(struct softmax_row *row) {
    const int64_t chunks = ceil_div(row->n, row->chunk);
    float sum = 0.0f;
    for (int64_t c = 0; c < chunks; c++)
        sum = __builtin_fmaf(row->sums[c], row->factors[c], sum);
    row->stored = fill_without_sum(row->y, row->n, sum) ? row->n : 0;
    softmax_multiply(row->factors, chunks, v_set1(1.0f / sum), row->factors);
}

/* Elements of a chunk of so long a row. */
INLINE int64_t softmax_chunk_of(int64_t n) {
    int64_t chunk = HEED_SOFTMAX_CHUNK;
    while (n > HEED_SOFTMAX_CHUNKS * chunk)
        chunk *= 2;
    return chunk;
}

/* Exponentials of a row, of which n, chunk, p and y are given; `before` has results that are not yet stored.  left: floats that are
 * read from x on.  Factors are made before the exponentials of the last chunk, beside which they cost little. */
INLINE void softmax_row(const struct heed_softmax_rows *rows, const float *x, int64_t left, struct softmax_row *before,
                        struct softmax_row *row) {
    struct softmax_chunk chunk = {.x = x, .size = row->chunk, .factor = rows->factor};
    float most = -INFINITY;
    for (int64_t c = 0; chunk.begin < row->n; c++, chunk.begin = chunk.end) {
        chunk.end = min_i64(row->n, chunk.begin + row->chunk);
        chunk.left = left - chunk.end;
        chunk.max = row->factors[c] = softmax_max(x + chunk.begin, chunk.end - chunk.begin, rows->factor);
        most = chunk.max > most ? chunk.max : most;
        if (chunk.end == row->n)
            softmax_factors(row->factors, c + 1, most, rows->factor);
        row->sums[c] = rows->stream ? softmax_chunk_streamed(&chunk, before, row->p) : softmax_chunk_stored(&chunk, before, row->p);
    }
    softmax_store(before, before->n, rows->stream);
    softmax_sum(row);
}

INLINE int64_t softmax_length(const struct heed_softmax_rows *rows, int64_t i) {
    return rows->lengths ? rows->lengths[i] : rows->columns;
}

static void softmax_rows_beside(const struct heed_softmax_rows *rows) {
    float exps[HEED_ROW_OF_STACK] __attribute__((aligned(64)));
    struct softmax_row two[2];
    two[1].p = two[1].y = exps; /* of no elements */
    two[1].n = two[1].stored = two[1].chunk = 0;
    for (int64_t i = 0; i < rows->rows; i++) {
        struct softmax_row *row = &two[i % 2], *before = &two[(i + 1) % 2];
        row->n = softmax_length(rows, i);
        row->chunk = softmax_chunk_of(row->n);
        row->y = rows->y + i * rows->ldy;
        row->p = rows->columns <= HEED_ROW_OF_STACK   ? exps
                 : rows->stream && rows->x != rows->y ? rows->y + (rows->rows - 1) * rows->ldy
                                                      : row->y;
        if (rows->stream && before->n > 0)
            softmax_store(before, softmax_head(before->y), false);
        softmax_row(rows, rows->x + i * rows->ldx, (rows->rows - 1 - i) * rows->ldx + rows->columns, before, row);
        fill(row->y + row->n, rows->columns - row->n, 0.0f);
    }
    struct softmax_row *row = &two[(rows->rows + 1) % 2];
    softmax_store(row, INT64_MAX, rows->stream && row->p != row->y);
    v_stream_end();
}

INLINE float softmax_row_max(const struct heed_softmax_rows *rows, int64_t i) {
    return i < rows->rows ? softmax_max(rows->x + i * rows->ldx, softmax_length(rows, i), rows->factor) : 0.0f;
}

/* Of one chunk each, made where results will be.  The maximum of the next row is found while a sum becomes a factor (without, rows
 * of 16 to 1024 take 1.03 to 1.1 of the time, Zen 4). */
NOINLINE void softmax_rows_short(const struct heed_softmax_rows *rows) {
    float max = softmax_row_max(rows, 0);
    for (int64_t i = 0; i < rows->rows; i++) {
        const int64_t n = softmax_length(rows, i);
        const float *x = rows->x + i * rows->ldx;
        float *y = rows->y + i * rows->ldy;
        const struct softmax_scale scale = softmax_scale_of(max, rows->factor);
        vf total[SUM_VECTORS];
        sum16_zero(total);
        for (int64_t at = 0; at < n; at += HEED_CHUNK)
            softmax_piece(x + at, min_i64(n - at, HEED_CHUNK), scale, y + at, total);
        max = softmax_row_max(rows, i + 1);
        const float sum = sum16_fold(total);
        if (!fill_without_sum(y, n, sum))
            softmax_multiply(y, n, v_set1(1.0f / sum), y);
        fill(y + n, rows->columns - n, 0.0f);
    }
}

/* Short rows would wait for the sum of the one before: 128 x 64 takes twice as long so, 512 x 512 1.1; 512 x 1024 as long, and 0.8
 * of the time in place from memory (Zen 4). */
static void softmax_rows(const struct heed_softmax_rows *rows) {
    if (rows->stream || rows->columns >= HEED_SOFTMAX_CHUNK)
        softmax_rows_beside(rows);
    else
        softmax_rows_short(rows);
}

#endif
