/* Products of integers with what a cache of bytes has, in pieces, bit for bit against plain loops. */
#include "kernels_common.h"

#include "dispatch.h"
#include "types.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 16, MOST_K = 256, ROOM = 63 - (HEED_SUM_LANES - 1) /* bytes behind a row's columns that may be read */ };

struct cache_case {
    struct heed_i8_cache_product product;
    struct heed_i8_block *a;
    struct buffer memory[MOST_PIECES];
    const void *pieces[MOST_PIECES];
};

/* Zeros before begin and from end on; sums that are not looked at are wrong. */
static struct heed_i8_block *new_rows(struct rng *rng, const struct heed_i8_cache_product *product) {
    struct heed_i8_block *a = calloc((size_t)(product->rows * product->lda), sizeof *a);
    ck_assert(a);
    for (int64_t i = 0; i < product->rows * product->lda; i++) {
        const int from = (int)(i % product->lda) * TYPE_BLOCK;
        a[i].scale = rng_range(rng, 0, 30) ? ldexpf((float)rng_range(rng, 1, 1 << 20), (int)rng_range(rng, -40, 10)) : NAN;
        for (int p = 0; p < TYPE_BLOCK; p++) {
            const bool any = from + p >= product->begin && from + p < product->end;
            const int64_t least = product->positive ? 0 : -127;
            a[i].q[p] = (int8_t)(any ? rng_range(rng, 0, 3) ? rng_range(rng, least, 127) : 127 : 0);
            a[i].minus_8 -= 8 * a[i].q[p];
            a[i].minus_8_of_first -= p < TYPE_BLOCK / 2 ? 8 * a[i].q[p] : 0;
        }
        if (product->positive)
            a[i].minus_8 = a[i].minus_8_of_first = 1 << 20;
    }
    return a;
}

/* Those that no row is read of are nowhere. */
static void make_pieces(struct rng *rng, struct cache_case *c) {
    const struct heed_i8_cache_product *product = &c->product;
    for (int i = 0; i < MOST_PIECES; i++) {
        const int64_t first = i * (int64_t)product->piece, rows = min_i64(product->piece, product->end - first);
        c->pieces[i] = (const void *)(uintptr_t)8;
        if (rows <= 0 || first + product->piece <= product->begin)
            continue;
        const int64_t bytes = (rows - 1) * product->ldb + product->columns + ROOM;
        c->memory[i] = buffer_new(ceil_div(bytes, (int64_t)sizeof(float)), AT_END);
        int8_t *data = (int8_t *)c->memory[i].data;
        for (int64_t j = 0; j < bytes; j++)
            data[j] = (int8_t)(rng_range(rng, 0, 3) ? rng_range(rng, -128, 127) : -128);
        c->pieces[i] = data;
    }
}

static struct cache_case new_case(struct rng *rng) {
    static const int pieces[] = {16, 32, 64, 128, 256, 1 << 30};
    struct cache_case c = {.product = {.rows = (int)rng_range(rng, 1, 11),
                                       .columns = HEED_SUM_LANES * (int)rng_range(rng, 1, rng_range(rng, 0, 7) ? 6 : 20),
                                       .end = (int)rng_range(rng, 1, MOST_K),
                                       .lda = MOST_K / TYPE_BLOCK + rng_range(rng, 0, 1),
                                       .piece = pieces[rng_range(rng, 0, 5)],
                                       .positive = rng_range(rng, 0, 1),
                                       .in_order = rng_range(rng, 0, 1),
                                       .leaves_l2 = rng_range(rng, 0, 1),
                                       .fetch_into = (enum heed_fetch_into)rng_range(rng, 0, 2)}};
    c.product.begin = rng_range(rng, 0, 1) ? 0 : (int)rng_range(rng, 0, c.product.end - 1);
    c.product.ldb = c.product.columns + rng_range(rng, 0, 1) * rng_range(rng, 0, 40);
    c.product.ldc = c.product.columns + rng_range(rng, 0, 9);
    c.a = new_rows(rng, &c.product);
    make_pieces(rng, &c);
    return c;
}

static float want_of(const struct cache_case *c, int row, int column) {
    const struct heed_i8_cache_product *product = &c->product;
    float chain = 0;
    for (int block = product->begin / TYPE_BLOCK; block * TYPE_BLOCK < product->end; block++) {
        const struct heed_i8_block *a = c->a + row * product->lda + block;
        int sum = 0;
        for (int p = larger(block * TYPE_BLOCK, product->begin); p < smaller((block + 1) * TYPE_BLOCK, product->end); p++)
            sum +=
                a->q[p % TYPE_BLOCK] * ((const int8_t *)c->pieces[p / product->piece])[p % product->piece * product->ldb + column];
        chain = fmaf((float)sum, a->scale, chain);
    }
    return chain;
}

static void check(struct cache_case *c, const struct heed_i8_kernels *kernels, struct rng *rng) {
    struct heed_i8_cache_product product = c->product;
    const int64_t floats = (product.rows - 1) * product.ldc + product.columns;
    struct buffer got = buffer_new(floats, any_placement(rng));
    memset(got.data, 0xff, (size_t)floats * sizeof(float));
    product.a = c->a, product.pieces = c->pieces, product.c = got.data;
    product.next = rng_range(rng, 0, 1) ? got.data : NULL;
    kernels->cache_product(&product);
    for (int i = 0; i < product.rows; i++)
        for (int64_t j = 0; j < product.ldc && i * product.ldc + j < floats; j++) {
            const float want = want_of(c, i, j < product.columns ? (int)j : 0), *at = got.data + i * product.ldc + j;
            uint32_t bits;
            memcpy(&bits, at, sizeof bits);
            must(j < product.columns ? compare(ANY_NAN, at, &want, 1, 1) : bits != ~0u ? "a column too many" : NULL);
        }
    buffer_free(&got);
}

START_TEST(test_i8_cache) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("i8_cache", _i);
    for (int64_t repeat = 0; repeat < test_count(200); repeat++) {
        struct cache_case c = new_case(&rng);
        const struct heed_i8_cache_product *product = &c.product;
        describe("i8 cache", table->name, "%d rows%s, %d columns, %d to %d, pieces of %d, ldb %lld", product->rows,
                 product->positive ? " of weights" : "", product->columns, product->begin, product->end, product->piece,
                 (long long)product->ldb);
        check(&c, table->i8, &rng);
        if (heed_kernels_i8(table) != table->i8)
            check(&c, heed_kernels_i8(table), &rng);
        for (int i = 0; i < MOST_PIECES; i++)
            if (c.memory[i].data)
                buffer_free(&c.memory[i]);
        free(c.a);
    }
}
END_TEST

/* The bytes and scales of i8_row. */
START_TEST(test_i8_weights) {
    enum { MOST_BLOCKS = 40 };
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("i8_weights", _i);
    for (int64_t repeat = 0; repeat < test_count(100); repeat++) {
        const int64_t blocks = rng_range(&rng, 0, MOST_BLOCKS);
        float *x = new_filled(&rng, any_fill(&rng), MOST_BLOCKS * TYPE_BLOCK);
        struct heed_i8_block got[MOST_BLOCKS + 1], want[MOST_BLOCKS + 1];
        memset(got, 0xff, sizeof got);
        memset(want, 0xff, sizeof want);
        describe("i8_weights", table->name, "%lld blocks", (long long)blocks);
        for (int64_t i = 0; i < MOST_BLOCKS * TYPE_BLOCK; i++)
            x[i] = fabsf(x[i]);
        table->i8_weights(x, blocks, got);
        table->i8_row(x, HEED_F32, blocks, want);
        for (int64_t i = 0; i <= MOST_BLOCKS; i++)
            must(memcmp(got[i].q, want[i].q, sizeof got->q) || memcmp(&got[i].scale, &want[i].scale, sizeof got->scale)
                     ? "bytes or a scale are others"
                     : NULL);
        free(x);
    }
}
END_TEST

void add_cache_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_i8_cache, 0, tables);
    tcase_add_loop_test(tests, test_i8_weights, 0, tables);
}
