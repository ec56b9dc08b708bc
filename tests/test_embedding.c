/* heed_embedding: tables of all types in guarded memory against a plain loop with the rule of src/arithmetic.md, the same bits on
 * every instruction set; sums worked out by hand. */
#include "harness_attention.h"
#include "internal.h"
#include "reference/reference.h"
#include "stored.h"
#include "suites.h"
#include "weights.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES = 4 };

struct embedding_case {
    struct heed_embedding request; /* its output has a type alone */
    struct heed_lookup lookup[TABLES];
    struct buffer memory[TABLES];
    char *copies[TABLES]; /* what is in the memory */
};

/* Rows of a type, without what would come after the last one. */
static int64_t bytes_of(const struct heed_lookup *lookup, int64_t columns) {
    return type_span(lookup->type, (lookup->rows - 1) * lookup->stride + columns);
}

/* Floats as they are, or rounded; or any bytes. */
static char *new_table(struct rng *rng, enum heed_type type, int64_t n) {
    if (type > HEED_F16)
        return new_weights(rng, type, n, rng_range(rng, 0, 3) == 0);
    float *floats = new_filled(rng, any_fill(rng), n);
    for (int64_t i = 0; type != HEED_F32 && i < n; i++) {
        const uint16_t half = half_of(type, floats[i]);
        memcpy((char *)floats + 2 * i, &half, sizeof half);
    }
    return (char *)floats;
}

static int32_t *new_ids(struct rng *rng, int64_t rows, int64_t table_rows) {
    int32_t *ids = malloc((size_t)rows * sizeof *ids + 1);
    for (int64_t i = 0; i < rows; i++)
        ids[i] = (int32_t)rng_range(rng, 0, table_rows - 1);
    return ids;
}

static void add_table(struct embedding_case *c, struct rng *rng, int i) {
    static const float factors[] = {0, 1, -1, 0.7f, 22.627417f, 0x1p-140f, 3e38f};
    const int64_t rows = rng_range(rng, 1, 9), columns = c->request.columns;
    const enum heed_type type =
        columns % TYPE_BLOCK || rng_range(rng, 0, 1) ? (enum heed_type)rng_range(rng, HEED_F32, HEED_I8) : any_blocks(rng, columns);
    const int64_t gap = type_has_blocks(type) ? type_block(type) * rng_range(rng, 0, 1) : rng_range(rng, 0, 5);
    struct heed_lookup *lookup = &c->lookup[i];
    *lookup = (struct heed_lookup){.rows = rows, .stride = columns + gap, .type = type, .factor = factors[rng_range(rng, 0, 6)]};
    lookup->stride = rng_range(rng, 0, 9) ? lookup->stride : 0;
    lookup->scales = type == HEED_I8 ? new_filled(rng, rng_range(rng, 0, 2) ? FILL_NORMAL : any_fill(rng), rows) : NULL;
    lookup->ids = new_ids(rng, c->request.rows, rows);
    const int64_t bytes = bytes_of(lookup, columns), unit = type_bytes(type);
    const enum placement placement = any_placement(rng);
    c->memory[i] = buffer_new(ceil_div(bytes, 4), placement);
    char *data = (char *)c->memory[i].data;
    data += placement == AT_END ? c->memory[i].count * 4 - bytes : 0;
    ck_assert_int_eq((int64_t)((uintptr_t)data % (uintptr_t)unit), 0);
    c->copies[i] = new_table(rng, type, bytes / unit * type_block(type));
    memcpy(data, c->copies[i], (size_t)bytes);
    lookup->data = data;
}

static void new_case(struct embedding_case *c, struct rng *rng) {
    static const int64_t long_rows[] = {255, 256, 257, 288, 320, 512, 700, 1024};
    const int64_t columns = rng_range(rng, 0, 2) ? rng_range(rng, 0, 80) : long_rows[rng_range(rng, 0, 7)];
    *c = (struct embedding_case){.request = {.rows = rng_range(rng, 0, 12), .columns = columns}};
    c->request.columns = rng_range(rng, 0, 1) ? columns : columns / TYPE_BLOCK * TYPE_BLOCK;
    c->request.tables = rng_range(rng, 0, TABLES);
    c->request.lookup = c->lookup;
    c->request.output.type = any_type(rng);
    for (int i = 0; i < c->request.tables; i++)
        add_table(c, rng, i);
}

static void free_case(struct embedding_case *c) {
    for (int i = 0; i < c->request.tables; i++) {
        must(memcmp(c->lookup[i].data, c->copies[i], (size_t)bytes_of(&c->lookup[i], c->request.columns)) ? "wrote to a table"
                                                                                                          : NULL);
        buffer_free(&c->memory[i]);
        free(c->copies[i]);
        free((void *)(uintptr_t)c->lookup[i].scales);
        free((void *)(uintptr_t)c->lookup[i].ids);
    }
}

/* By the rule, rounded to the type of the output. */
static void sum_up(const struct heed_embedding *r, float *want) {
    for (int64_t at = 0; at < r->rows * r->columns; at++) {
        float sum = 0;
        for (int64_t i = 0; i < r->tables; i++) {
            const struct heed_lookup *table = &r->lookup[i];
            const int32_t id = table->ids[at / r->columns];
            const float factor = table->factor == 0 ? 1 : table->factor;
            const float x = (float)ref_element(table->data, table->type, id * table->stride + at % r->columns);
            sum = fmaf(x, table->scales ? factor * table->scales[id] : factor, sum);
        }
        want[at] = isnan(sum) ? __builtin_nanf("") : sum;
    }
    if (r->output.type != HEED_F32)
        round_floats(r->output.type, want, r->rows * r->columns);
}

static void run(const struct embedding_case *c, const struct heed_exec *exec, struct rng *rng, float *output) {
    struct heed_embedding r = c->request;
    const bool halves = r.output.type != HEED_F32;
    const int64_t floats = halves ? (r.columns + 1) / 2 : r.columns;
    struct tensor t = matrix(r.rows, floats, floats + rng_range(rng, 0, 5), any_placement(rng), NULL);
    r.output.data = t.data;
    r.output.token_stride = t.stride[2] * (halves ? 2 : 1);
    ck_assert_msg(heed_embedding(&r, exec) == HEED_OK, "%s", heed_error_message());
    must(halves ? check_row_ends(&t, r.columns) : NULL);
    must(halves ? take_halves(&t, r.output.type, r.columns, output) : tensor_take(&t, output));
    tensor_free(&t);
}

START_TEST(test_embedding_same_bits) {
    struct rng rng = rng_for("embedding", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        struct embedding_case c;
        new_case(&c, &rng);
        const struct heed_embedding *r = &c.request;
        float *want = new_floats(r->rows * r->columns), *got = new_floats(r->rows * r->columns);
        sum_up(r, want);
        for (int i = 0; heed_kernels_usable(i); i++) {
            const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(&rng)};
            describe("embedding", exec.isa, "%lld x %lld, %lld tables of types %d %d %d %d to %s, %d threads", (long long)r->rows,
                     (long long)r->columns, (long long)r->tables, (int)c.lookup[0].type, (int)c.lookup[1].type,
                     (int)c.lookup[2].type, (int)c.lookup[3].type, type_name(r->output.type), exec.threads);
            run(&c, &exec, &rng, got);
            must(compare(SAME_BITS, got, want, r->rows, r->columns));
        }
        free(want);
        free(got);
        free_case(&c);
    }
}
END_TEST

/* Words, positions and types of tokens; one factor; bytes with a scale, -1, of their row; a zero loses its sign. */
START_TEST(test_embedding_by_hand) {
    static const float words[3][2] = {{1, 2}, {3, -0.0f}, {5, INFINITY}}, positions[2][2] = {{0.5f, 0.25f}, {8, 16}};
    static const int8_t types[2][2] = {{1, 2}, {-128, 127}};
    static const float scales[2] = {100, -1};
    static const int32_t word_ids[3] = {2, 0, 1}, position_ids[3] = {0, 1, 0}, type_ids[3] = {0, 0, 1}, one[3] = {1, 1, 1};
    static const float want[3][2] = {{110.5f, INFINITY}, {110, 220}, {134.5f, -126.75f}}, alone[3][2] = {{3, 0}, {3, 0}, {3, 0}};
    const struct heed_lookup tables[] = {
        {.data = words, .rows = 3, .stride = 2, .ids = word_ids, .factor = 2},
        {.data = positions, .rows = 2, .stride = 2, .ids = position_ids},
        {.data = types, .rows = 2, .stride = 2, .type = HEED_I8, .scales = scales, .ids = type_ids},
        {.data = words, .rows = 3, .stride = 2, .ids = one}};
    for (int i = 0; heed_kernels_usable(i); i++) {
        const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name};
        float got[3][2];
        struct heed_embedding r = {.rows = 3, .columns = 2, .tables = 3, .lookup = tables};
        r.output = (struct heed_output){.data = got, .token_stride = 2};
        describe("embedding", exec.isa, "by hand");
        ck_assert_int_eq(heed_embedding(&r, &exec), HEED_OK);
        must(compare(SAME_BITS, got[0], want[0], 3, 2));
        r.tables = 1, r.lookup = tables + 3;
        ck_assert_int_eq(heed_embedding(&r, &exec), HEED_OK);
        must(compare(SAME_BITS, got[0], alone[0], 3, 2));
    }
}
END_TEST

Suite *embedding_suite(void) {
    Suite *suite = suite_create("embedding");
    TCase *tests = tcase_create("embedding");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_embedding_same_bits);
    tcase_add_test(tests, test_embedding_by_hand);
    suite_add_tcase(suite, tests);
    return suite;
}
