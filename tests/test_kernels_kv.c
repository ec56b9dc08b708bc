/* The kernels of caches alone, of every usable table: rope against the scalar table's, stored keys, bytes and their scales against
 * plain loops. */
#include "kernels_common.h"

#include <math.h>
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

/* n bytes at the end of a page, or at the start of one. */
static int8_t *place_bytes(const struct buffer *buffer, int64_t n, enum placement placement) {
    return placement == AT_END ? (int8_t *)(buffer->data + buffer->count) - n : (int8_t *)buffer->data;
}

/* Between two integers, where ties are decided, and right beside; rows n wide, n + 1 apart. */
static float any_byte(struct rng *rng) {
    const float at = (float)rng_range(rng, -254, 253) / 2, step[] = {0, 0.25f, -0.25f, 0x1p-15f, -0x1p-15f};
    return at + step[rng_range(rng, 0, 4)];
}

START_TEST(test_bytes) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("bytes", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        const int64_t rows = rng_range(&rng, 1, 4), n = rng_range(&rng, 1, 70), span = rows * (n + 1) - 1;
        const enum placement placement = any_placement(&rng);
        struct buffer memory = buffer_new((span + 3) / 4, placement);
        int8_t *bytes = place_bytes(&memory, span, placement);
        float *x = new_floats(rows * n), *got = new_floats(rows * n), *want = new_floats(rows * n);
        struct tensor widened = matrix(rows, n, n, any_placement(&rng), NULL);
        describe("round_rows, widen_rows", table->name, "i8, %lld x %lld", (long long)rows, (long long)n);
        memset(bytes, 99, (size_t)span);
        for (int64_t i = 0; i < rows * n; i++) {
            x[i] = any_byte(&rng);
            want[i] = nearbyintf(x[i]);
        }
        table->round_rows(x, n, rows, n, bytes, HEED_I8, n + 1);
        table->widen_rows(bytes, HEED_I8, n + 1, rows, n, widened.data, n);
        for (int64_t i = 0; i + 1 < rows; i++)
            ck_assert_int_eq(bytes[i * (n + 1) + n], 99);
        must(tensor_take(&widened, got));
        must(compare(SAME_NUMBER, got, want, rows, n));
        tensor_free(&widened);
        buffer_free(&memory);
        free(x);
        free(got);
        free(want);
    }
}
END_TEST

/* Bytes against the same integers as floats, which have room for whole vectors. */
START_TEST(test_thin_bytes) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("thin_bytes", 0);
    for (int64_t repeat = 0; repeat < test_count(400); repeat++) {
        const int rows = (int)rng_range(&rng, 1, 13), columns = (int)rng_range(&rng, 1, rng_range(&rng, 0, 19) ? 140 : 2100);
        const int64_t k = rng_range(&rng, 1, columns > 140 ? 12 : 300), ld = (columns + 15) / 16 * 16;
        const enum placement placement = any_placement(&rng);
        struct buffer memory = buffer_new((k * columns + 3) / 4, placement);
        int8_t *bytes = place_bytes(&memory, k * columns, placement);
        float *a = new_filled(&rng, any_fill(&rng), rows * k), *b = new_filled(&rng, FILL_ZEROS, k * ld);
        float *got = new_filled(&rng, FILL_NORMAL, rows * ld), *want = new_floats(rows * ld);
        memcpy(want, got, (size_t)(rows * ld) * sizeof *want);
        for (int64_t i = 0; i < k * columns; i++)
            b[i / columns * ld + i % columns] = bytes[i] = (int8_t)rng_range(&rng, -127, 127);
        struct heed_thin_product product = {.rows = rows, .columns = columns, .k = k, .a = a, .lda = k, .b = bytes};
        product.type = HEED_I8, product.ldb = columns, product.c = got, product.ldc = ld;
        product.continues = rng_range(&rng, 0, 1);
        product.next = rng_range(&rng, 0, 1) ? a : NULL;
        describe("thin_product", table->name, "i8, %d x %d, k %lld", rows, columns, (long long)k);
        table->thin_product(&product);
        product.b = b, product.type = HEED_F32, product.ldb = ld, product.c = want;
        table->thin_product(&product);
        for (int i = 0; i < rows; i++)
            must(compare(ANY_NAN, got + i * ld, want + i * ld, 1, columns));
        float *const all[] = {a, b, got, want};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]);
        buffer_free(&memory);
    }
}
END_TEST

START_TEST(test_sizes_and_scales) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("max_size", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        const int64_t n = rng_range(&rng, 0, 70);
        const enum fill mode = any_fill(&rng);
        float *x = new_filled(&rng, mode, n), *y = new_filled(&rng, any_fill(&rng), n), *got = new_floats(n), size = 0;
        struct tensor t = matrix(1, n, n, any_placement(&rng), x), factors = matrix(1, n, n, any_placement(&rng), y);
        describe("max_size, scale_row, divide_row", table->name, "%lld elements, %s", (long long)n, fill_name(mode));
        for (int64_t i = 0; i < n; i++)
            size = isfinite(x[i]) && !isnan(size) ? fmaxf(size, fabsf(x[i])) : __builtin_nanf("");
        const float found = table->max_size(t.data, n);
        must(compare(SAME_BITS, &found, &size, 1, 1));
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] * y[i] / y[i];
        table->scale_row(t.data, n, factors.data);
        table->divide_row(t.data, n, factors.data);
        must(tensor_unchanged(&factors));
        memcpy(got, t.data, (size_t)n * sizeof *got);
        must(compare(ANY_NAN, got, x, 1, n));
        tensor_free(&t);
        tensor_free(&factors);
        free(x);
        free(y);
        free(got);
    }
}
END_TEST

void add_kv_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_rope, 0, tables);
    tcase_add_loop_test(tests, test_store_keys, 0, tables);
    tcase_add_loop_test(tests, test_bytes, 0, tables);
    tcase_add_loop_test(tests, test_thin_bytes, 0, tables);
    tcase_add_loop_test(tests, test_sizes_and_scales, 0, tables);
}
