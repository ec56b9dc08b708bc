/* The kernels of every usable table, one by one, against the scalar table's: the matrix product here, packing in
 * test_kernels_pack.c, the tiles of attention in test_kernels_tiles.c, its softmax in test_kernels_softmax.c, both at once in
 * test_kernels_beside.c, what is added to scores in test_kernels_scores.c, rows in test_kernels_rows.c, conversions in
 * test_kernels_types.c, the append's in test_kernels_kv.c. */
#include "cpu.h"
#include "kernels_common.h"
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct heed_kernels *scalar_kernels(void) {
    const struct heed_kernels *scalar;
    ck_assert_int_eq(heed_kernels_find("scalar", "test", &scalar), HEED_OK);
    return scalar;
}

float max_of(const float *x, int64_t n, int64_t step) {
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i += step)
        max = x[i] > max ? x[i] : max;
    return max;
}

struct flushing flush_begin(void) {
    const struct flushing before = {heed_fp_begin()};
    heed_fp_flush(true);
    return before;
}

void flush_end(struct flushing before) {
    heed_fp_flush(false);
    heed_fp_end(before.callers);
}

static int clamped(int64_t x, int most) { return x < 0 ? 0 : x > most ? most : (int)x; }

/* As of causal rows, of a window, or of anything: rows `step` keys apart, from a row to the next or from a few to the next few. */
void random_ranges(struct rng *rng, int rows, int most, int *begins, int *ends) {
    const bool left = rng_range(rng, 0, 1), right = rng_range(rng, 0, 3) > 0;
    const int64_t step = rng_range(rng, 0, 2) ? 1 : rng_range(rng, 0, most / 4 + 1), group = rng_range(rng, 1, 3);
    const int64_t width = rng_range(rng, 0, 1) ? rng_range(rng, 0, 20) : rng_range(rng, 0, most), at = rng_range(rng, -width, most);
    for (int i = 0; i < rows; i++) {
        begins[i] = left ? clamped(at + i / group * step, most) : 0;
        ends[i] = right ? clamped(at + i / group * step + width, most) : most;
    }
}

static const int64_t depths[] = {0, 1, 2, 3, 7, 255, 256, 257};
enum { DEPTHS = sizeof depths / sizeof *depths };

static void run_gemm_tiles(const struct heed_kernels *table, const struct heed_gemm_tile *whole) {
    for (int i = 0; i < whole->rows; i += table->tile_rows) {
        for (int j = 0; j < whole->columns; j += table->tile_columns) {
            struct heed_gemm_tile tile = *whole;
            tile.tiles = 1;
            tile.rows = whole->rows - i < table->tile_rows ? whole->rows - i : table->tile_rows;
            tile.columns = whole->columns - j < table->tile_columns ? whole->columns - j : table->tile_columns;
            tile.a += i * tile.lda;
            tile.b += j;
            tile.acc = tile.acc ? tile.acc + i * tile.ldacc + j : NULL;
            tile.c += i * tile.ldc + j;
            table->gemm_tile(&tile);
        }
    }
}

/* The same by two calls for all tiles, which have `rows` rows each: the first stops after `split` steps.  whole->panel has room for
 * all steps; strips of the second call lie behind those of the first. */
static void run_gemm_column(const struct heed_kernels *table, const struct heed_gemm_tile *whole, int rows, int64_t split) {
    float *sums = new_floats(whole->rows * whole->columns);
    struct heed_gemm_tile first = *whole, second = *whole;
    first.rows = second.rows = rows;
    first.tiles = second.tiles = whole->rows / rows;
    first.k = split;
    first.partial = first.fetches_b = true;
    first.c = sums;
    first.ldc = whole->columns;
    table->gemm_tile(&first);
    second.k = whole->k - split;
    second.a += whole->strips ? first.tiles * table->tile_rows * split : split;
    second.b += split * whole->ldb;
    second.panel = whole->panel ? whole->panel + split * HEED_PANEL : NULL;
    second.acc = sums;
    second.ldacc = whole->columns;
    second.next_b = (const char *)second.b;
    second.next_rows = second.k;
    second.next_step = second.ldb * (int64_t)sizeof(float);
    second.next_lines = second.next_burst = 1;
    table->gemm_tile(&second);
    free(sums);
}

enum accumulate { FROM_ZERO, FROM_ACC, FROM_C, ACCUMULATES };

/* The values of one case; a table computes its c from them in memory guarded anew. */
struct gemm_case {
    int rows, columns, tile_rows; /* of several tiles in a call; 0: tile by tile */
    int64_t k, split;
    bool packs, strips;
    enum accumulate from;
    float alpha, beta, *a, *b, *acc, *c;
    enum fill mode_a, mode_b;
};

/* Strips of the steps [from, to), a tile of them after another; what no row is in is 1e30. */
static float *put_strips(const struct heed_kernels *table, const struct gemm_case *g, int64_t from, int64_t to, float *strips) {
    for (int i = 0; i < g->rows; i += g->tile_rows)
        for (int64_t p = from; p < to; p++)
            for (int r = 0; r < table->tile_rows; r++)
                *strips++ = r < g->tile_rows ? g->a[(i + r) * g->k + p] : 1e30f;
    return strips;
}

/* a as rows or as strips. */
static struct tensor new_a(const struct heed_kernels *table, const struct gemm_case *g, struct rng *rng) {
    if (!g->strips)
        return matrix(g->rows, g->k, g->k + rng_range(rng, 0, 3), any_placement(rng), g->a);
    const int64_t n = g->rows / g->tile_rows * table->tile_rows * g->k;
    float *strips = new_floats(n);
    put_strips(table, g, g->split, g->k, put_strips(table, g, 0, g->split, strips));
    const struct tensor a = matrix(1, n, n, any_placement(rng), strips);
    free(strips);
    return a;
}

static void compute_gemm(const struct heed_kernels *table, const struct gemm_case *g, struct rng *rng, float *result) {
    int64_t readable = round_up(g->columns, table->lanes);
    float *padded = new_floats(g->k * readable);
    for (int64_t p = 0; p < g->k; p++)
        for (int64_t j = 0; j < readable; j++)
            padded[p * readable + j] = j < g->columns ? g->b[p * g->columns + j] : 1e30f;
    struct tensor a = new_a(table, g, rng);
    struct tensor b = matrix(g->k, readable, readable + rng_range(rng, 0, 3), any_placement(rng), padded);
    struct tensor acc = matrix(g->rows, g->columns, g->columns + rng_range(rng, 0, 3), any_placement(rng), g->acc);
    struct tensor c = matrix(g->rows, g->columns, g->columns + rng_range(rng, 0, 3), any_placement(rng), NULL);
    struct tensor panel = matrix(g->k, g->columns, HEED_PANEL, any_placement(rng), NULL);
    bool from_c = g->from == FROM_C;
    if (from_c || g->beta != 0)
        tensor_put(&c, from_c ? g->acc : g->c);
    const struct heed_gemm_tile whole = {.rows = g->rows,
                                         .columns = g->columns,
                                         .k = g->k,
                                         .a = a.data,
                                         .lda = a.stride[2],
                                         .strips = g->strips,
                                         .b = b.data,
                                         .ldb = b.stride[2],
                                         .acc = g->from == FROM_ZERO ? NULL
                                                : from_c             ? c.data
                                                                     : acc.data,
                                         .ldacc = from_c ? c.stride[2] : acc.stride[2],
                                         .alpha = g->alpha,
                                         .beta = g->beta,
                                         .c = c.data,
                                         .ldc = c.stride[2],
                                         .panel = g->packs ? panel.data : NULL,
                                         .next_a = a.data};
    if (g->tile_rows > 0)
        run_gemm_column(table, &whole, g->tile_rows, g->split);
    else
        run_gemm_tiles(table, &whole);
    must(tensor_take(&c, result));
    must(tensor_unchanged(&a));
    must(tensor_unchanged(&b));
    must(tensor_unchanged(&acc));
    if (g->packs) {
        float *packed = new_floats(g->k * g->columns);
        must(tensor_take(&panel, packed));
        must(compare(SAME_BITS, packed, g->b, g->k, g->columns));
        free(packed);
    }
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&acc);
    tensor_free(&panel);
    tensor_free(&c);
    free(padded);
}

static struct gemm_case new_gemm_case(struct rng *rng, int rows, int columns, int64_t k, enum accumulate from) {
    static const float factors[] = {1, 0, -2.5f, 0x1.555556p-2f};
    const enum fill mode_a = any_fill(rng), mode_b = any_fill(rng);
    return (struct gemm_case){.rows = rows,
                              .columns = columns,
                              .k = k,
                              .from = from,
                              .alpha = factors[rng_range(rng, 0, 3)],
                              .beta = factors[rng_range(rng, 0, 3)],
                              .a = new_filled(rng, mode_a, rows * k),
                              .b = new_filled(rng, mode_b, k * columns),
                              .acc = new_filled(rng, FILL_NORMAL, rows * columns),
                              .c = new_filled(rng, FILL_NORMAL, rows * columns),
                              .mode_a = mode_a,
                              .mode_b = mode_b};
}

static void describe_gemm(const char *kernel, const struct heed_kernels *table, const struct gemm_case *g, const char *way) {
    describe(kernel, table->name, "%d x %d, k %lld, alpha %g, beta %g, %s, %s times %s", g->rows, g->columns, (long long)g->k,
             (double)g->alpha, (double)g->beta, way, fill_name(g->mode_a), fill_name(g->mode_b));
}

static void free_gemm_case(const struct gemm_case *g) {
    free(g->a);
    free(g->b);
    free(g->acc);
    free(g->c);
}

/* Against the scalar table, tile by tile. */
static void check_gemm(const struct heed_kernels *table, struct rng *rng, const struct gemm_case *g, const char *way) {
    struct gemm_case plain = *g;
    float *got = new_floats(g->rows * g->columns), *want = new_floats(g->rows * g->columns);
    plain.tile_rows = 0;
    plain.packs = plain.strips = false;
    describe_gemm("gemm_tile", table, g, way);
    compute_gemm(table, g, rng, got);
    compute_gemm(scalar_kernels(), &plain, rng, want);
    must(compare(SAME_BITS, got, want, g->rows, g->columns));
    free_gemm_case(g);
    free(got);
    free(want);
}

static void check_gemm_tile(const struct heed_kernels *table, struct rng *rng, int rows, int columns, int64_t k) {
    static const char *const ways[] = {[FROM_ZERO] = "from 0", [FROM_ACC] = "from acc", [FROM_C] = "from c"};
    const struct gemm_case g = new_gemm_case(rng, rows, columns, k, (enum accumulate)rng_range(rng, 0, ACCUMULATES - 1));
    check_gemm(table, rng, &g, ways[g.from]);
}

START_TEST(test_gemm_tile) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("gemm_tile", 0);
    for (int rows = 1; rows <= table->tile_rows; rows++)
        for (int columns = 1; columns <= table->tile_columns; columns++)
            for (int i = 0; i < DEPTHS; i++)
                if (!test_quick() || rng_range(&rng, 0, 31) == 0)
                    check_gemm_tile(table, &rng, rows, columns, depths[i]);
}
END_TEST

static void check_gemm_column(const struct heed_kernels *table, struct rng *rng, int tile_rows, int64_t k) {
    const bool packs = rng_range(rng, 0, 1);
    const int rows = tile_rows * (int)rng_range(rng, 1, 5), width = table->tile_columns;
    const bool whole = packs || rng_range(rng, 0, 1);
    const int columns = whole ? width * (int)rng_range(rng, 1, HEED_PANEL / width) : (int)rng_range(rng, 1, width);
    struct gemm_case g = new_gemm_case(rng, rows, columns, k, (enum accumulate)rng_range(rng, 0, FROM_ACC));
    g.tile_rows = tile_rows;
    g.split = rng_range(rng, 0, k);
    g.packs = packs;
    g.strips = table->pack_strips && rng_range(rng, 0, 1);
    static const char *const ways[2][2] = {{"several in a call, in two steps", "several in a call, in two steps, by strips"},
                                           {"several in a call, packing", "several in a call, packing, by strips"}};
    check_gemm(table, rng, &g, ways[packs][g.strips]);
}

START_TEST(test_gemm_column) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("gemm_column", 0);
    for (int rows = 1; rows <= table->tile_rows; rows++)
        for (int i = 0; i < DEPTHS; i++)
            for (int times = test_quick() ? 1 : 8; times > 0; times--)
                check_gemm_column(table, &rng, rows, depths[i]);
}
END_TEST

/* a transposed is [k][rows] in memory. */
static void compute_small(const struct heed_kernels *table, const struct gemm_case *g, bool transposed, struct rng *rng,
                          float *result) {
    const int64_t a_rows = transposed ? g->k : g->rows, a_columns = transposed ? g->rows : g->k;
    struct tensor a = matrix(a_rows, a_columns, a_columns + rng_range(rng, 0, 3), any_placement(rng), g->a);
    struct tensor b = matrix(g->k, g->columns, g->columns + rng_range(rng, 0, 3), any_placement(rng), g->b);
    struct tensor c = matrix(g->rows, g->columns, g->columns + rng_range(rng, 0, 3), any_placement(rng), NULL);
    if (g->beta != 0)
        tensor_put(&c, g->c);
    table->gemm_small(&(struct heed_gemm_small){.rows = g->rows,
                                                .columns = g->columns,
                                                .k = g->k,
                                                .a = a.data,
                                                .lda = transposed ? 1 : a.stride[2],
                                                .a_step = transposed ? a.stride[2] : 1,
                                                .b = b.data,
                                                .ldb = b.stride[2],
                                                .alpha = g->alpha,
                                                .beta = g->beta,
                                                .c = c.data,
                                                .ldc = c.stride[2]});
    must(tensor_take(&c, result));
    must(tensor_unchanged(&a));
    must(tensor_unchanged(&b));
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&c);
}

/* Against gemm_tile of the scalar table, which does not know the tiles of small products. */
static void check_gemm_small(const struct heed_kernels *table, struct rng *rng, int rows, int columns, int64_t k) {
    const bool transposed = rng_range(rng, 0, 1);
    const struct gemm_case g = new_gemm_case(rng, rows, columns, k, FROM_ZERO);
    struct gemm_case small = g;
    float *a_transposed = new_floats(rows * k), *got = new_floats(rows * columns), *want = new_floats(rows * columns);
    for (int64_t i = 0; i < rows * k; i++)
        memcpy(a_transposed + i % k * rows + i / k, g.a + i, sizeof *a_transposed);
    small.a = transposed ? a_transposed : g.a;
    describe_gemm("gemm_small", table, &g, transposed ? "transposed" : "plain");
    compute_gemm(scalar_kernels(), &g, rng, want);
    compute_small(table, &small, transposed, rng, got);
    must(compare(SAME_BITS, got, want, rows, columns));
    free_gemm_case(&g);
    free(a_transposed);
    free(got);
    free(want);
}

START_TEST(test_gemm_small) {
    static const int64_t small_depths[] = {1, 2, 3, 4, 5, 8, 9, 17};
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("gemm_small", 0);
    for (int rows = 1; rows <= 35; rows++)
        for (int columns = 1; columns <= HEED_PANEL; columns++)
            if (!test_quick() || rng_range(&rng, 0, 31) == 0)
                check_gemm_small(table, &rng, rows, columns, small_depths[rng_range(&rng, 0, 7)]);
}
END_TEST

Suite *kernels_suite(void) {
    Suite *suite = suite_create("kernels");
    TCase *tests = tcase_create("kernels");
    int tables = usable_tables();
    tcase_set_timeout(tests, 120);
    add_pack_tests(tests, tables);
    tcase_add_loop_test(tests, test_gemm_tile, 0, tables);
    tcase_add_loop_test(tests, test_gemm_column, 0, tables);
    tcase_add_loop_test(tests, test_gemm_small, 0, tables);
    add_tile_tests(tests, tables);
    add_thin_tests(tests, tables);
    add_lanes_tests(tests, tables);
    add_thin_pair_tests(tests, tables);
    add_thin_panel_tests(tests, tables);
    add_softmax_tests(tests, tables);
    add_beside_tests(tests, tables);
    add_score_tests(tests, tables);
    add_row_tests(tests, tables);
    add_type_tests(tests, tables);
    add_block_tests(tests, tables);
    add_cache_tests(tests, tables);
    add_kv_tests(tests, tables);
    add_pair_tests(tests, tables);
    add_dot_tests(tests, tables);
    suite_add_tcase(suite, tests);
    return suite;
}
