/* thin_product_lanes of every usable table against the chain itself, with rows of b that end where memory does. */
#include "harness_attention.h"
#include "kernels_common.h"

#include <math.h>
#include <stdlib.h>

/* a of so many rows as lanes, in whole vectors: what lies behind the last row may be anything. */
static struct tensor lanes_of(const struct heed_kernels *table, const float *rows, int count, int64_t k, struct rng *rng) {
    const int64_t width = round_up(count, table->lanes);
    float *lanes = new_filled(rng, any_fill(rng), k * width);
    for (int64_t p = 0; p < k; p++)
        for (int i = 0; i < count; i++)
            lanes[p * width + i] = rows[i * k + p];
    struct tensor a = matrix(k, width, width + table->lanes * rng_range(rng, 0, 2), any_placement(rng), lanes);
    free(lanes);
    return a;
}

static void check_lanes(const struct heed_kernels *table, struct rng *rng, int rows, int64_t k) {
    const enum fill mode = any_fill(rng);
    const int columns = (int)rng_range(rng, 1, HEED_PANEL), whole = (int)round_up(columns, HEED_SUM_LANES);
    const int64_t all_rows = round_up(rows, table->lanes);
    float *x = new_filled(rng, mode, rows * k), *y = new_filled(rng, mode, columns * k),
          *got = new_filled(rng, FILL_NORMAL, all_rows * whole);
    struct tensor a = lanes_of(table, x, rows, k, rng);
    struct tensor b = matrix(columns, k, k + rng_range(rng, 0, 1) * rng_range(rng, 0, 20), any_placement(rng), y);
    struct tensor c = matrix(all_rows, whole, whole + rng_range(rng, 0, 3), any_placement(rng), got);
    describe("thin_product_lanes", table->name, "%d x %d, k %lld, %s", rows, columns, (long long)k, fill_name(mode));
    table->thin_product_lanes(&(struct heed_thin_product){.rows = rows,
                                                          .columns = columns,
                                                          .k = k,
                                                          .a = a.data,
                                                          .lda = a.stride[2],
                                                          .b = b.data,
                                                          .ldb = b.stride[2],
                                                          .c = c.data,
                                                          .ldc = c.stride[2],
                                                          .far = rng_range(rng, 0, 1),
                                                          .near = rng_range(rng, 0, 1),
                                                          .fetch_into = (enum heed_fetch_into)rng_range(rng, 0, 2),
                                                          .next = rng_range(rng, 0, 1) ? x : NULL,
                                                          .next_step = rng_range(rng, 0, 1) * k * (int64_t)sizeof(float)});
    must(tensor_take(&c, got));
    must(tensor_unchanged(&a));
    must(tensor_unchanged(&b));
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float chain = 0;
            for (int64_t p = 0; p < k; p++)
                chain = fmaf(x[i * k + p], y[j * k + p], chain);
            must(compare(ANY_NAN, got + i * whole + j, &chain, 1, 1));
        }
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&c);
    free(x);
    free(y);
    free(got);
}

START_TEST(test_lanes) {
    static const int64_t depths[] = {1, 7, 8, 16, 63, 257, 2050};
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("lanes", 0);
    for (int64_t repeat = 0; repeat < test_count(2); repeat++)
        for (int rows = 1; rows <= table->most_lanes; rows++)
            check_lanes(table, &rng, rows, depths[rng_range(&rng, 0, (int)(sizeof depths / sizeof *depths) - 1)]);
}
END_TEST

void add_lanes_tests(TCase *tests, int tables) { tcase_add_loop_test(tests, test_lanes, 0, tables); }
