/* Kernels that take weights of bytes and of blocks, of every usable table: the same as with these weights as floats, in guarded
 * memory. */
#include "i8_products.h"
#include "kernels_common.h"
#include "stored.h"
#include "weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum heed_type weight_types[] = {HEED_I8,   HEED_Q8_0, HEED_Q4_0,   HEED_Q5_0, HEED_Q4_K,
                                              HEED_Q5_K, HEED_Q6_K, HEED_IQ4_NL, HEED_MXFP4};
enum { WEIGHT_TYPES = sizeof weight_types / sizeof *weight_types };
static bool any_scales(struct rng *rng) { return rng_range(rng, 0, 3) == 0; }

/* `columns` columns of k weights that follow one another, `ld` apart, in guarded memory; and the same as floats, k apart. */
struct columns {
    enum heed_type type;
    int64_t columns, k, ld;
    bool extreme; /* the largest numbers everywhere, for sums of narrow integers */
    char *data, *plain;
    float *floats;
    struct buffer memory;
};

static struct columns new_columns(struct rng *rng, enum heed_type type, int64_t columns, int64_t k) {
    const int64_t unit = type_block(type);
    struct columns c = {.type = type, .columns = columns, .k = k, .ld = k + unit * rng_range(rng, 0, 2)};
    const int64_t bytes = type_span(type, (columns - 1) * c.ld + k);
    const enum placement placement = any_placement(rng);
    c.memory = buffer_new(ceil_div(bytes, 4), placement);
    c.data = (char *)c.memory.data + (placement == AT_END ? 4 * c.memory.count - bytes : 0);
    c.plain = new_weights(rng, type, columns * k, any_scales(rng));
    c.extreme = rng_range(rng, 0, 7) == 0;
    for (int64_t i = 0; c.extreme && i < type_span(type, columns * k); i++)
        c.plain[i] = (char)0xff;
    for (int64_t i = 0; c.extreme && type_has_blocks(type) && i < columns * k; i += type_block(type))
        put_block_scales(c.plain + type_span(type, i), type, 0.25f);
    c.floats = weights_as_floats(c.plain, type, columns * k);
    memset(c.data, 0xff, (size_t)bytes);
    for (int64_t j = 0; j < columns; j++)
        memcpy(c.data + type_span(type, j * c.ld), c.plain + type_span(type, j * k), (size_t)type_span(type, k));
    return c;
}

static void free_columns(struct columns *c) {
    free(c->plain);
    free(c->floats);
    buffer_free(&c->memory);
}

/* Of [rows][HEED_PANEL]; in the others there are zeros of either sign. */
static void must_have_columns(const float *got, const float *want, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++, got += HEED_PANEL, want += HEED_PANEL) {
        must(compare(ANY_NAN, got, want, 1, columns));
        for (int64_t j = columns; j < HEED_PANEL; j++)
            must(got[j] == 0 ? NULL : "no 0 where there is no column");
    }
}

static void check_pack_transposed(const struct heed_kernels *table, enum heed_type type, struct rng *rng) {
    const int64_t columns = rng_range(rng, 1, HEED_PANEL),
                  k = type_has_blocks(type) ? type_block(type) * rng_range(rng, 1, 3) : rng_range(rng, 1, 80);
    struct columns b = new_columns(rng, type, columns, k);
    float *got = new_floats(k * HEED_PANEL), *want = new_floats(k * HEED_PANEL);
    describe("pack_transposed", table->name, "%s, %lld x %lld", type_name(type), (long long)columns, (long long)k);
    table->pack_transposed(b.data, type, b.ld, k, (int)columns, got);
    table->pack_transposed(b.floats, HEED_F32, k, k, (int)columns, want);
    must_have_columns(got, want, k, columns);
    free_columns(&b);
    free(got);
    free(want);
}

/* Bytes in rows. */
static void check_pack_bytes(const struct heed_kernels *table, struct rng *rng) {
    const int64_t columns = rng_range(rng, 1, HEED_PANEL), k = rng_range(rng, 1, 9);
    struct columns b = new_columns(rng, HEED_I8, k, columns);
    float *got = new_floats(k * HEED_PANEL), *want = new_floats(k * HEED_PANEL);
    describe("pack", table->name, "i8, %lld x %lld", (long long)k, (long long)columns);
    table->pack(b.data, HEED_I8, b.ld, k, (int)columns, got);
    table->pack(b.floats, HEED_F32, columns, k, (int)columns, want);
    must(compare(SAME_BITS, got, want, k, HEED_PANEL));
    free_columns(&b);
    free(got);
    free(want);
}

/* Columns as they are, in guarded memory too as pack_blocks has them, and as floats, [k][64]. */
struct panel {
    struct columns b;
    struct buffer packed;
    float *floats;
};

static struct panel new_panel(const struct heed_kernels *table, struct rng *rng, enum heed_type type, int64_t k) {
    struct panel panel = {.b = new_columns(rng, type, rng_range(rng, 0, 1) ? HEED_PANEL : rng_range(rng, 1, HEED_PANEL), k),
                          .packed = buffer_new(HEED_PANEL * type_packed_span(type, k) / 4, any_placement(rng)),
                          .floats = new_floats(k * HEED_PANEL)};
    const struct columns *b = &panel.b;
    float *want = new_floats(panel.packed.count);
    describe("pack_blocks", table->name, "%s, %lld x %lld", type_name(type), (long long)b->columns, (long long)k);
    table->pack_blocks(b->data, type, b->ld, k, (int)b->columns, panel.packed.data);
    scalar_kernels()->pack_blocks(b->data, type, b->ld, k, (int)b->columns, want);
    must(memcmp(panel.packed.data, want, (size_t)panel.packed.count * sizeof *want) ? "other bytes than scalar's" : NULL);
    scalar_kernels()->pack_transposed(b->floats, HEED_F32, k, k, (int)b->columns, panel.floats);
    free(want);
    return panel;
}

/* Numbers whose products with weights become 0, of either sign, or the least float. */
static float *new_vanishing(struct rng *rng, int64_t count) {
    float *x = new_floats(count);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)rng_range(rng, -2, 2) * 0x1p-149f;
    return x;
}

static void check_thin_blocks(const struct heed_kernels *table, const struct panel *panel, bool packed, struct rng *rng) {
    const struct columns *b = &panel->b;
    const int64_t rows = rng_range(rng, 0, 2) ? rng_range(rng, 1, 12) : 1, lda = b->k + rng_range(rng, 0, 3);
    const bool vanish = rng_range(rng, 0, 3) == 0;
    float *a = vanish ? new_vanishing(rng, rows * lda) : new_filled(rng, FILL_NORMAL, rows * lda);
    float *got = new_floats(rows * HEED_PANEL), *want = new_floats(rows * HEED_PANEL);
    struct heed_thin_blocks product = {.rows = (int)rows, .columns = (int)b->columns, .k = b->k, .a = a, .lda = lda};
    product.raises = rng_range(rng, 0, 1), product.fetch_into = (enum heed_fetch_into)rng_range(rng, 0, 2);
    describe("thin_blocks", table->name, "%s%s, %lld rows%s, k %lld, raises %d", type_name(b->type), packed ? " packed" : "",
             (long long)rows, vanish ? " that vanish" : "", (long long)b->k, product.raises);
    product.type = b->type, product.packed = packed ? panel->packed.data : NULL, product.b = b->data, product.ldb = b->ld;
    product.next = rng_range(rng, 0, 1) ? b->data : NULL, product.c = got;
    table->thin_blocks(&product);
    scalar_kernels()->thin_product(&(struct heed_thin_product){.rows = (int)rows,
                                                               .columns = HEED_PANEL,
                                                               .k = b->k,
                                                               .a = a,
                                                               .lda = lda,
                                                               .b = panel->floats,
                                                               .ldb = HEED_PANEL,
                                                               .c = want,
                                                               .ldc = HEED_PANEL});
    must_have_columns(got, want, rows, b->columns);
    free(a);
    free(got);
    free(want);
}

/* A row in blocks of bytes, `apart` elements from the next one: those of plain loops. */
static struct heed_i8_block *new_i8_rows(const struct heed_kernels *table, const float *a, int64_t rows, int64_t k, int64_t apart) {
    struct heed_i8_block *blocks = malloc((size_t)(rows * k / TYPE_BLOCK) * sizeof *blocks);
    for (int64_t i = 0; i < rows; i++)
        table->i8_row(a + i * apart, HEED_F32, k / TYPE_BLOCK, blocks + i * k / TYPE_BLOCK);
    for (int64_t i = 0; i < rows * k / TYPE_BLOCK; i++) {
        int q[TYPE_BLOCK], sum = 0, first = 0;
        const float scale = i8_round_block(a + i * TYPE_BLOCK / k * apart + i * TYPE_BLOCK % k, 1, q);
        must(compare(ANY_NAN, &blocks[i].scale, &scale, 1, 1));
        for (int p = 0; p < TYPE_BLOCK; p++) {
            must(blocks[i].q[p] != q[p] ? "another integer" : NULL);
            sum += q[p];
            first += p < TYPE_BLOCK / 2 ? q[p] : 0;
        }
        must(blocks[i].minus_8 != -8 * sum || blocks[i].minus_8_of_first != -8 * first ? "another sum" : NULL);
        const float minus_sum = scale * (float)-sum;
        must(compare(ANY_NAN, &blocks[i].minus_sum, &minus_sum, 1, 1));
    }
    return blocks;
}

static void check_i8_product(const struct heed_kernels *table, const struct heed_i8_kernels *kernels, const struct panel *panel,
                             bool packed, struct rng *rng) {
    const struct columns *b = &panel->b;
    const int64_t rows = rng_range(rng, 0, 3) ? rng_range(rng, 1, rng_range(rng, 0, 3) ? 18 : kernels->strip_rows + 2) : 1,
                  apart = b->k + rng_range(rng, 0, 3);
    const enum fill mode = rng_range(rng, 0, 2) ? FILL_NORMAL : any_fill(rng);
    float *a = new_filled(rng, mode, rows * apart), *got = new_floats(rows * HEED_PANEL);
    for (int64_t i = 0; b->extreme && i < rows * apart; i++)
        a[i] = i / apart % 2 ? -1 : 1;
    struct heed_i8_product product = {.rows = (int)rows, .columns = (int)b->columns, .k = b->k, .lda = b->k / TYPE_BLOCK};
    describe("i8 product", table->name, "%s%s%s, %lld rows, %s, k %lld", kernels != table->i8 ? "better, " : "", type_name(b->type),
             packed ? " packed" : "", (long long)rows, fill_name(mode), (long long)b->k);
    struct heed_i8_block *blocks = new_i8_rows(table, a, rows, b->k, apart);
    product.a = blocks, product.type = b->type, product.packed = packed ? panel->packed.data : NULL;
    product.b = b->data, product.ldb = b->ld, product.c = got, product.fetch_into = (enum heed_fetch_into)rng_range(rng, 0, 2);
    product.next = rng_range(rng, 0, 1) ? b->data : NULL;
    const int64_t scratch = kernels->scratch_bytes ? kernels->scratch_bytes(b->type, (int)rows) : 0;
    product.scratch = aligned_alloc(64, (size_t)round_up(scratch + 1, 64));
    kernels->product(&product);
    free(product.scratch);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            const float want = i8_chain(a + i * apart, 1, b->type, b->plain + type_span(b->type, j * b->k), b->k / TYPE_BLOCK);
            must(compare(ANY_NAN, got + i * HEED_PANEL + j, &want, 1, 1));
        }
    free(blocks);
    free(a);
    free(got);
}

static void check_blocks(const struct heed_kernels *table, enum heed_type type, struct rng *rng) {
    const int64_t k = round_up(32 * rng_range(rng, 1, rng_range(rng, 0, 15) ? 12 : 150), type_block(type));
    struct panel panel = new_panel(table, rng, type, k);
    float *unpacked = new_floats(k * HEED_PANEL);
    describe("unpack_blocks", table->name, "%s, k %lld", type_name(type), (long long)k);
    table->unpack_blocks(panel.packed.data, type, k, unpacked);
    must_have_columns(unpacked, panel.floats, k, panel.b.columns);
    check_thin_blocks(table, &panel, true, rng);
    check_thin_blocks(table, &panel, false, rng);
    for (int packed = 0; packed < 2 && type_has_blocks(type); packed++) {
        check_i8_product(table, table->i8, &panel, packed, rng);
        if (heed_kernels_i8(table) != table->i8)
            check_i8_product(table, heed_kernels_i8(table), &panel, packed, rng);
    }
    free(unpacked);
    free(panel.floats);
    buffer_free(&panel.packed);
    free_columns(&panel.b);
}

static void check_thin_transposed(const struct heed_kernels *table, struct rng *rng) {
    const int64_t rows = rng_range(rng, 1, 12), columns = rng_range(rng, 1, 100), ldc = round_up(columns, 16);
    const int64_t k = rng_range(rng, 1, 300);
    struct columns b = new_columns(rng, HEED_I8, columns, k);
    float *a = new_filled(rng, FILL_NORMAL, rows * k), *got = new_floats(rows * ldc), *want = new_floats(rows * ldc);
    struct heed_thin_product product = {.rows = (int)rows, .columns = (int)columns, .k = k, .a = a, .lda = k};
    describe("thin_product_transposed", table->name, "i8, %lld x %lld, k %lld", (long long)rows, (long long)columns, (long long)k);
    product.b = b.data, product.type = HEED_I8, product.ldb = b.ld, product.c = got, product.ldc = ldc;
    table->thin_product_transposed(&product);
    product.b = b.floats, product.type = HEED_F32, product.ldb = k, product.c = want;
    scalar_kernels()->thin_product_transposed(&product);
    for (int64_t i = 0; i < rows; i++)
        must(compare(ANY_NAN, got + i * ldc, want + i * ldc, 1, columns));
    free_columns(&b);
    free(a);
    free(got);
    free(want);
}

START_TEST(test_weight_kernels) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    struct rng rng = rng_for("weight kernels", 0);
    for (int64_t repeat = 0; repeat < test_count(40 * WEIGHT_TYPES); repeat++) {
        const enum heed_type type = weight_types[repeat % WEIGHT_TYPES];
        check_pack_transposed(table, type, &rng);
        check_blocks(table, type, &rng);
        check_pack_bytes(table, &rng);
        check_thin_transposed(table, &rng);
    }
}
END_TEST

/* The first number of a block, and all others, small ones. */
static void put_numbers(char *block, enum heed_type type, int first, int rest) {
    const uint32_t fifths = (first < 0 ? 0 : 1) | (rest < 0 ? 0 : 0xfffffffe);
    const int off = type == HEED_Q4_0 ? 8 : 0; /* of q5_0 16, which leaves the lower bits as they are */
    if (type == HEED_Q8_0) {
        memset(block + 2, rest, TYPE_BLOCK);
        block[2] = (char)first;
        return;
    }
    if (type == HEED_Q5_0)
        memcpy(block + 2, &fifths, sizeof fifths);
    char *low = block + type_span(type, TYPE_BLOCK) - TYPE_BLOCK / 2;
    memset(low, ((off + rest) & 15) * 0x11, TYPE_BLOCK / 2);
    *low = (char)(((off + first) & 15) | ((off + rest) & 15) << 4);
}

/* A row of `a` times a panel whose columns are one block, scale * (first, rest, rest, ...): always `want`. */
static void check_edge(const struct heed_kernels *table, enum heed_type type, float scale, int first, int rest, float a,
                       float want) {
    char blocks[HEED_PANEL * Q8_0_BYTES], packed[HEED_PANEL * Q8_0_BYTES];
    float row[TYPE_BLOCK], got[HEED_PANEL];
    const uint16_t half = half_of(HEED_F16, scale);
    for (int j = 0; j < HEED_PANEL; j++) {
        char *block = blocks + type_span(type, j * TYPE_BLOCK);
        memcpy(block, &half, sizeof half);
        put_numbers(block, type, first, rest);
    }
    for (int p = 0; p < TYPE_BLOCK; p++)
        row[p] = a;
    table->pack_blocks(blocks, type, TYPE_BLOCK, TYPE_BLOCK, HEED_PANEL, packed);
    for (int raises = 0; raises < 2; raises++) {
        describe("thin_blocks", table->name, "%s, scale %a, numbers %d, %d, raises %d", type_name(type), (double)scale, first, rest,
                 raises);
        table->thin_blocks(&(struct heed_thin_blocks){.rows = 1,
                                                      .columns = HEED_PANEL,
                                                      .k = TYPE_BLOCK,
                                                      .a = row,
                                                      .lda = TYPE_BLOCK,
                                                      .type = type,
                                                      .packed = packed,
                                                      .c = got,
                                                      .raises = raises});
        for (int j = 0; j < HEED_PANEL; j++)
            must(compare(SAME_BITS, &got[j], &want, 1, 1));
    }
}

/* Where d * q by other means than a product has other bits: infinite, and -0, which a sum of 0 shows. */
START_TEST(test_weight_kernels_edges) {
    const struct heed_kernels *table = heed_kernels_usable(_i);
    const enum heed_type types[] = {HEED_Q8_0, HEED_Q4_0, HEED_Q5_0};
    for (int i = 0; i < 3; i++) {
        check_edge(table, types[i], INFINITY, 3, 2, 1.0f, INFINITY);
        check_edge(table, types[i], -INFINITY, 3, 2, 1.0f, -INFINITY);
        check_edge(table, types[i], -0.01f, 1, 0, 0x1p-149f, -0.0f);
        check_edge(table, types[i], 0.01f, -1, 0, 0x1p-149f, 0.0f);
        check_edge(table, types[i], -0.0f, 1, 2, -1.0f, 0.0f);
    }
}
END_TEST

void add_block_tests(TCase *tests, int tables) {
    tcase_add_loop_test(tests, test_weight_kernels, 0, tables);
    tcase_add_loop_test(tests, test_weight_kernels_edges, 0, tables);
}
