/* The layouts that tiles read: panels of b, strips of a. */
#include "kernels_common.h"
#include "stored_matrix.h"

#include <stdlib.h>
#include <string.h>

static const int64_t depths[] = {0, 1, 2, 3, 7, 255, 256, 257};
enum { DEPTHS = sizeof depths / sizeof *depths };

static void check_pack(const struct heed_kernels *table, struct rng *rng, int columns, int64_t k, bool transposed) {
    enum fill mode = any_fill(rng);
    int64_t rows = transposed ? columns : k, width = transposed ? k : columns, ld = width + rng_range(rng, 0, 3);
    describe(transposed ? "pack_transposed" : "pack", table->name, "columns %d, k %lld, ld %lld, %s", columns, (long long)k,
             (long long)ld, fill_name(mode));
    float *values = new_filled(rng, mode, rows * width), *got = new_floats(k * HEED_PANEL), *want = new_floats(k * HEED_PANEL);
    struct tensor src = matrix(rows, width, ld, any_placement(rng), values);
    struct tensor panel = matrix(k, HEED_PANEL, HEED_PANEL, any_placement(rng), NULL);
    if (transposed)
        table->pack_transposed(src.data, HEED_F32, ld, k, columns, panel.data);
    else
        table->pack(src.data, HEED_F32, ld, k, columns, panel.data);
    for (int64_t p = 0; p < k; p++)
        for (int j = 0; j < HEED_PANEL; j++)
            memset(want + p * HEED_PANEL + j, 0, sizeof *want);
    for (int64_t p = 0; p < k; p++)
        for (int j = 0; j < columns; j++)
            memcpy(want + p * HEED_PANEL + j, transposed ? values + j * k + p : values + p * columns + j, sizeof *want);
    must(tensor_take(&panel, got));
    must(tensor_unchanged(&src));
    must(compare(SAME_BITS, got, want, k, HEED_PANEL));
    tensor_free(&src);
    tensor_free(&panel);
    free(values);
    free(got);
    free(want);
}

START_TEST(test_pack) {
    struct rng rng = rng_for("pack", 0);
    for (int columns = 1; columns <= HEED_PANEL; columns++)
        for (int i = 0; i < DEPTHS; i++)
            if (!test_quick() || rng_range(&rng, 0, 7) == 0)
                for (int transposed = 0; transposed < 2; transposed++)
                    check_pack(heed_kernels_usable(_i), &rng, columns, depths[i], transposed);
}
END_TEST

static void check_pack_strips(const struct heed_kernels *table, struct rng *rng, enum heed_type type, int rows, int64_t k) {
    const bool transposed = rng_range(rng, 0, 1);
    const int64_t tiles = rng_range(rng, 1, 4), taller = rows > 1 ? rng_range(rng, 1, tiles) : tiles;
    const int64_t all = tiles * (rows - 1) + taller, n = all * k, tile_rows = table->tile_rows;
    const int64_t room = tiles * tile_rows * k + HEED_LINE; /* of which the last may hold anything */
    describe("pack_strips", table->name, "%s, %lld tiles of %d rows, %lld of them whole, k %lld%s", type_name(type),
             (long long)tiles, rows, (long long)taller, (long long)k, transposed ? ", transposed" : "");
    float *values = new_filled(rng, type == HEED_F32 ? any_fill(rng) : FILL_NORMAL, n), *widened = new_floats(n);
    float *want = new_floats(n), *got = new_floats(n), *packed = new_filled(rng, FILL_NORMAL, room);
    struct stored_matrix a = transposed ? stored_matrix_new(rng, type, k, all) : stored_matrix_new(rng, type, all, k);
    struct tensor strips = matrix(1, room, room, any_placement(rng), packed);
    stored_matrix_put(&a, values);
    scalar_kernels()->widen_rows(a.data, type, a.ld, a.rows, a.columns, widened, a.columns);
    table->pack_strips(a.data, type, a.ld, transposed, &(struct heed_heights){tiles, taller, rows}, k, strips.data);
    must(tensor_take(&strips, packed));
    for (int64_t i = 0, tile = 0, top = 0; i < all; i++) {
        if (i - top == rows - (tile >= taller)) {
            tile++;
            top = i;
        }
        for (int64_t p = 0; p < k; p++) {
            memcpy(got + i * k + p, packed + (tile * k + p) * tile_rows + i - top, sizeof *got);
            memcpy(want + i * k + p, widened + (transposed ? p * all + i : i * k + p), sizeof *want);
        }
    }
    must(compare(SAME_BITS, got, want, all, k));
    buffer_free(&a.memory);
    tensor_free(&strips);
    free(values);
    free(widened);
    free(packed);
    free(want);
    free(got);
}

START_TEST(test_pack_strips) {
    static const enum heed_type types[] = {HEED_F32, HEED_BF16, HEED_F16};
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("pack_strips", 0);
    for (int rows = 1; table->pack_strips && rows <= table->tile_rows; rows++)
        for (int i = 0; i < DEPTHS; i++)
            for (int t = 0; t < 3; t++)
                for (int times = test_quick() ? 1 : 6; times > 0; times--)
                    check_pack_strips(table, &rng, types[t], rows, depths[i] % 256 + rng_range(&rng, 0, 20));
}
END_TEST

void add_pack_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_pack, 0, tables);
    tcase_add_loop_test(tests, test_pack_strips, 0, tables);
}
