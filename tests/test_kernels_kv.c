/* The kernels of heed_kv_append, of every usable table: rope against the scalar table's, stored keys against a plain loop. */
#include "kernels_common.h"

#include <stdlib.h>
#include <string.h>

static void compute_rope(const struct heed_kernels *table, int64_t n, bool in_place, const float *const x[4], struct rng *rng,
                         float *turned_a, float *turned_b) {
    struct tensor t[6];
    for (int i = 0; i < 6; i++)
        t[i] = matrix(1, n, n, any_placement(rng), i < 4 ? x[i] : NULL);
    float *const a = t[in_place ? 4 : 0].data, *const b = t[in_place ? 5 : 1].data;
    if (in_place) {
        tensor_put(&t[4], x[0]);
        tensor_put(&t[5], x[1]);
    }
    table->rope(a, b, t[2].data, t[3].data, n, t[4].data, t[5].data);
    must(tensor_take(&t[4], turned_a));
    must(tensor_take(&t[5], turned_b));
    for (int i = 0; i < 4; i++)
        must(tensor_unchanged(&t[i]));
    for (int i = 0; i < 6; i++)
        tensor_free(&t[i]);
}

START_TEST(test_rope) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("rope", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        const int64_t n = rng_range(&rng, 0, 70);
        const enum fill mode = any_fill(&rng), turns = rng_range(&rng, 0, 2) ? FILL_NORMAL : any_fill(&rng);
        const bool in_place = rng_range(&rng, 0, 1);
        float *const x[] = {new_filled(&rng, mode, n), new_filled(&rng, mode, n), new_filled(&rng, turns, n),
                            new_filled(&rng, turns, n)};
        float *const y[] = {new_floats(n), new_floats(n), new_floats(n), new_floats(n)};
        describe("rope", table->name, "%lld pairs, %s by %s%s", (long long)n, fill_name(mode), fill_name(turns),
                 in_place ? ", in place" : "");
        compute_rope(table, n, in_place, (const float *const *)x, &rng, y[0], y[1]);
        compute_rope(scalar_kernels(), n, false, (const float *const *)x, &rng, y[2], y[3]);
        must(compare(SAME_BITS, y[0], y[2], 1, n));
        must(compare(SAME_BITS, y[1], y[3], 1, n));
        for (int i = 0; i < 4; i++) {
            free(x[i]);
            free(y[i]);
        }
    }
}
END_TEST

START_TEST(test_store_keys) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("store_keys", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        const int count = (int)rng_range(&rng, 0, 35);
        const int64_t depth = rng_range(&rng, 0, 70), ldk = depth + rng_range(&rng, 0, 3), ldp = count + rng_range(&rng, 0, 64);
        float *keys = new_filled(&rng, any_fill(&rng), count * depth);
        float *got = new_floats(depth * count), *want = new_floats(depth * count);
        struct tensor input = matrix(count, depth, ldk, any_placement(&rng), keys);
        struct tensor panel = matrix(depth, count, ldp, any_placement(&rng), NULL);
        describe("store_keys", table->name, "%d keys of %lld, rows of a panel %lld apart", count, (long long)depth, (long long)ldp);
        table->store_keys(input.data, HEED_F32, ldk, depth, count, panel.data, ldp);
        for (int64_t d = 0; d < depth; d++)
            for (int64_t j = 0; j < count; j++)
                memcpy(want + d * count + j, keys + j * depth + d, sizeof *want);
        must(tensor_take(&panel, got));
        must(compare(SAME_BITS, got, want, depth, count));
        must(tensor_unchanged(&input));
        tensor_free(&input);
        tensor_free(&panel);
        free(keys);
        free(got);
        free(want);
    }
}
END_TEST

void add_kv_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_rope, 0, tables);
    tcase_add_loop_test(tests, test_store_keys, 0, tables);
}
