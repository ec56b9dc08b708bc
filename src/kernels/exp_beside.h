/* Exponentials of scores beside the products of other rows.
 *
 * Tiles of products keep the multipliers busy and leave all else idle; exponentials wait for one another.  Apart 16 scores take 5.5
 * cycles, beside a product 3.0, which are those of their 6 fmas (Zen 5).  Few registers are free there: coefficients come from
 * memory, and sums go there. */
#ifndef HEED_KERNELS_EXP_BESIDE_H
#define HEED_KERNELS_EXP_BESIDE_H

enum {
    EXP_STEP = HEED_DOT, /* scores made at a time */
    /* Where vectors are narrow, and registers few, the operations of exponentials fill the time that they take: beside a product
     * NEON's would take 1.02 to 2 times as long (llvm-mca), AVX2's twice as long (llvm-mca; attention took 1.04 to 1.07 of the time
     * on Zen 3). */
    EXP_BESIDE = VF_LANES >= 16
};
_Static_assert(!EXP_BESIDE || VF_LANES % 2 == 0, "a vector has whole pairs");
_Static_assert(EXP_STEP % HEED_SUM_LANES == 0 && HEED_CHUNK % EXP_STEP == 0, "lanes of a sum start with a step");

/* Where a product is that makes weights of scores: before score `at` of row `row`, `left` steps before the last. */
struct exp_place {
    int left, row, at;
    float *s; /* of the row */
    float base;
};
struct exp_beside {
    const struct heed_exp_rows *block;
    struct exp_place place;
    int begin, end; /* of these rows, whole steps */
    float sums[HEED_SUM_LANES] __attribute__((aligned(64)));
};

INLINE void exp_beside_open(const struct exp_beside *beside, struct exp_place *place) {
    place->base = exp_base(beside->block->chunk_max[place->row]);
    place->s = beside->block->s + place->row * HEED_CHUNK;
    place->at = beside->begin;
    exp_fetch(beside->block, place->row);
}

/* Rows [row, end), which see the same keys; in words, what some of them do not see has scores of -inf. */
INLINE void exp_beside_begin(struct exp_beside *beside, int row, int end) {
    beside->place.left = 0;
    if (row >= end)
        return;
    beside->begin = beside->block->begins[row];
    beside->end = (int)round_up(beside->block->ends[end - 1], EXP_STEP);
    beside->place.left = (end - row) * (beside->end - beside->begin) / EXP_STEP;
    beside->place.row = row;
    exp_beside_open(beside, &beside->place);
    UNROLL for (int v = 0; v < HEED_SUM_LANES; v += VF_LANES) v_store(beside->sums + v, v_zero());
}

/* words: weights become a row of a of dots, and heed_fp_flush is on.  Pairs: as exp_rows makes them. */
INLINE void exp_beside_step(const bool words, struct exp_beside *beside, struct exp_place *place) {
    float *s = place->s + place->at;
    vf p[EXP_STEP / VF_LANES];
    UNROLL for (int v = 0; v < EXP_STEP / VF_LANES; v++) {
        float *sum = beside->sums + v % SUM_VECTORS * VF_LANES;
        p[v] = v_pin(exp2_lean(words, v_sub(v_load(s + v * VF_LANES), v_set1(place->base))));
        v_store(sum, v_add(v_load(sum), p[v]));
        if (!words && beside->block->pairs)
            v_store(s + v * VF_LANES, v_swap(pair_weight(p[v])));
        else if (!words)
            v_store(s + v * VF_LANES, p[v]);
    }
    if (words)
        dot_store(place->s, place->at, p);
    place->at += EXP_STEP;
    place->left--;
    if (place->at == beside->end) {
        vf sum[SUM_VECTORS];
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) sum[v] = v_load(beside->sums + v * VF_LANES);
        beside->block->chunk_sum[place->row++] = sum16_fold(sum);
        UNROLL for (int v = 0; v < SUM_VECTORS; v++) v_store(beside->sums + v * VF_LANES, v_zero());
        if (place->left > 0)
            exp_beside_open(beside, place);
    }
}

INLINE void exp_beside_end(const bool words, struct exp_beside *beside) {
    NO_UNROLL while (beside->place.left > 0) exp_beside_step(words, beside, &beside->place);
}

#endif
