/* heed_rope in guarded memory against a plain loop, the same bits on every instruction set, in place or not; heed_rope_fill against
 * the sines of double. */
#include "harness_kv.h"
#include "internal.h"
#include "stored.h"
#include "suites.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rope_case {
    struct heed_rope request; /* views have types alone */
    float *values, *cos, *sin;
    int64_t *starts, *positions;
    bool in_place;
};

static int64_t floats_of(enum heed_type type, int64_t n) { return type == HEED_F32 ? n : (n + 1) / 2; }

static int64_t rows_of(const struct heed_rope *r) { return (r->starts ? 1 : r->batch) * r->num_heads * r->tokens; }

static struct rope_case new_case(struct rng *rng) {
    static const int64_t widths[] = {0, 1, 2, 7, 16, 33, 64, 96, 128, 200, 260, 300};
    struct rope_case c = {.request = {.batch = rng_range(rng, 0, 3), .num_heads = rng_range(rng, 0, 3)}};
    struct heed_rope *r = &c.request;
    r->head_dim = widths[rng_range(rng, 0, 11)];
    c.in_place = rng_range(rng, 0, 1);
    r->input.type = any_type(rng);
    r->output.type = c.in_place ? r->input.type : any_type(rng);
    r->tokens = rng_range(rng, 0, 12);
    if (r->batch > 0 && rng_range(rng, 0, 1)) {
        c.starts = calloc((size_t)r->batch + 1, sizeof *c.starts);
        for (int64_t b = 1; b <= r->batch; b++)
            c.starts[b] = b == r->batch ? r->tokens : rng_range(rng, c.starts[b - 1], r->tokens);
    }
    c.positions = rng_range(rng, 0, 2) ? calloc((size_t)r->batch + 1, sizeof *c.positions) : NULL;
    for (int64_t b = 0; c.positions && b < r->batch; b++)
        c.positions[b] = rng_range(rng, 0, 20);
    r->starts = c.starts, r->positions = c.positions;
    struct heed_rope_tables *tables = &r->tables;
    tables->pairs = rng_range(rng, 0, 2) ? r->head_dim / 2 : rng_range(rng, 0, r->head_dim / 2);
    tables->interleaved = rng_range(rng, 0, 1);
    tables->positions = 20 + r->tokens;
    tables->table_stride = tables->pairs + rng_range(rng, 0, 3);
    c.cos = new_filled(rng, rng_range(rng, 0, 3) ? FILL_NORMAL : any_fill(rng), tables->positions * tables->table_stride);
    c.sin = new_filled(rng, FILL_NORMAL, tables->positions * tables->table_stride);
    tables->cos = c.cos, tables->sin = c.sin;
    c.values = new_filled(rng, any_fill(rng), rows_of(r) * r->head_dim);
    round_floats(r->input.type, c.values, rows_of(r) * r->head_dim);
    return c;
}

static void free_case(struct rope_case *c) {
    void *const all[] = {c->values, c->cos, c->sin, c->starts, c->positions};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void turn_all(const struct rope_case *c, float *want) {
    const struct heed_rope *r = &c->request;
    const int64_t dim = r->head_dim, packed = r->starts != NULL;
    if (rows_of(r) * dim > 0)
        memcpy(want, c->values, (size_t)(rows_of(r) * dim) * sizeof *want);
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t h = 0; h < r->num_heads; h++)
            for (int64_t t = packed ? r->starts[b] : 0; t < (packed ? r->starts[b + 1] : r->tokens); t++) {
                const int64_t position = (r->positions ? r->positions[b] : 0) + t - (packed ? r->starts[b] : 0);
                turn_plainly(&r->tables, position, want + (((packed ? 0 : b) * r->num_heads + h) * r->tokens + t) * dim);
            }
    round_floats(r->output.type, want, rows_of(r) * dim);
}

/* Rows of halves begin at floats; the half after an odd number of them is not theirs. */
static float *packed_values(const struct rope_case *c) {
    const struct heed_rope *r = &c->request;
    const int64_t dim = r->head_dim, width = floats_of(r->input.type, dim), rows = rows_of(r);
    float *packed = new_floats(rows * width);
    for (int64_t i = 0; i < rows * dim; i++) {
        char *row = (char *)(packed + i / dim * width);
        const uint16_t half = half_of(r->input.type == HEED_F16 ? HEED_F16 : HEED_BF16, c->values[i]), poison = POISON >> 16;
        if (r->input.type == HEED_F32) {
            packed[i] = c->values[i];
            continue;
        }
        memcpy(row + i % dim * 2, &half, sizeof half);
        if (i % dim == dim - 1 && dim % 2)
            memcpy(row + dim * 2, &poison, sizeof poison);
    }
    return packed;
}

static void set_strides(const struct tensor *t, enum heed_type type, int64_t stride[3]) {
    for (int i = 0; i < 3; i++)
        stride[i] = t->stride[i] * (type == HEED_F32 ? 1 : 2);
}

static void run(const struct rope_case *c, const struct heed_exec *exec, struct rng *rng, float *result) {
    struct heed_rope r = c->request;
    const int64_t batch = r.starts ? 1 : r.batch;
    const int64_t in[4] = {batch, r.num_heads, r.tokens, floats_of(r.input.type, r.head_dim)};
    const int64_t out[4] = {batch, r.num_heads, r.tokens, floats_of(r.output.type, r.head_dim)};
    float *packed = packed_values(c);
    struct tensor input = tensor_input(in, (enum layout)rng_range(rng, 0, LAYOUTS - 1), any_placement(rng), packed);
    struct tensor output = tensor_output(out, (enum layout)rng_range(rng, 0, LAYOUTS - 1), any_placement(rng));
    int64_t to[3], from[3];
    if (c->in_place)
        tensor_put(&output, packed);
    set_strides(&output, r.output.type, to);
    set_strides(c->in_place ? &output : &input, r.input.type, from);
    r.input = (struct heed_input){c->in_place ? output.data : input.data, from[0], from[1], from[2], r.input.type};
    r.output = (struct heed_output){output.data, to[0], to[1], to[2], r.output.type};
    ck_assert_msg(heed_rope(&r, exec) == HEED_OK, "%s", heed_error_message());
    must(tensor_unchanged(&input));
    if (r.output.type == HEED_F32) {
        must(tensor_take(&output, result));
    } else {
        must(check_row_ends(&output, r.head_dim));
        must(take_halves(&output, r.output.type, r.head_dim, result));
    }
    tensor_free(&input);
    tensor_free(&output);
    free(packed);
}

START_TEST(test_rope_same_bits) {
    struct rng rng = rng_for("rope", 0);
    for (int64_t repeat = 0; repeat < test_count(1000); repeat++) {
        struct rope_case c = new_case(&rng);
        const struct heed_rope *r = &c.request;
        const int64_t rows = rows_of(r);
        float *want = new_floats(rows * r->head_dim), *got = new_floats(rows * r->head_dim);
        turn_all(&c, want);
        for (int i = 0; heed_kernels_usable(i); i++) {
            const struct heed_exec exec = {.isa = heed_kernels_usable(i)->name, .threads = any_threads(&rng)};
            describe("rope", exec.isa, "B%lld H%lld T%lld D%lld, %lld pairs%s, %s to %s%s%s, %d threads", (long long)r->batch,
                     (long long)r->num_heads, (long long)r->tokens, (long long)r->head_dim, (long long)r->tables.pairs,
                     r->tables.interleaved ? " interleaved" : "", type_name(r->input.type), type_name(r->output.type),
                     r->starts ? ", packed" : "", c.in_place ? ", in place" : "", exec.threads);
            run(&c, &exec, &rng, got);
            must(compare(SAME_BITS, got, want, rows, r->head_dim));
        }
        free(want);
        free(got);
        free_case(&c);
    }
}
END_TEST

/* Tokens of no sequence stay; a NaN that is not turned keeps its bits among floats, in place or not. */
START_TEST(test_rope_leaves_the_rest) {
    const uint32_t odd_nan = 0xffc12345;
    const int64_t starts[] = {1, 2}, positions[] = {1};
    const float cos[] = {0, 2}, sin[] = {0, 3};
    float input[] = {7, 7, 7, 5, 10, 0, 7, 7, 7}, output[] = {9, 9, 9, 9, 9, 9, 9, 9, 9};
    float want[] = {9, 9, 9, -20, 35, 0, 9, 9, 9};
    memcpy(input + 5, &odd_nan, sizeof odd_nan);
    memcpy(want + 5, &odd_nan, sizeof odd_nan);
    struct heed_rope r = {.batch = 1, .num_heads = 1, .tokens = 3, .head_dim = 3, .starts = starts, .positions = positions};
    r.tables = (struct heed_rope_tables){.pairs = 1, .cos = cos, .sin = sin, .table_stride = 1, .positions = 2};
    r.input = (struct heed_input){.data = input, .token_stride = 3};
    r.output = (struct heed_output){.data = output, .token_stride = 3};
    describe("rope", "best", "by hand");
    ck_assert_msg(heed_rope(&r, NULL) == HEED_OK, "%s", heed_error_message());
    must(compare(SAME_BITS, output, want, 3, 3));
    r.output.data = input;
    ck_assert_msg(heed_rope(&r, NULL) == HEED_OK, "%s", heed_error_message());
    must(compare(SAME_BITS, input + 3, want + 3, 1, 3));
}
END_TEST

/* The angle is exact; SLEEF's sine is within 1 ULP of double, so that the float is the nearest one but for ties so close. */
static void check_fill(const struct heed_rope_fill *fill, const float *frequencies) {
    const double scale = fill->scale == 0 ? 1 : (double)fill->scale;
    for (int64_t row = 0; row < fill->positions; row++)
        for (int64_t i = 0; i < fill->pairs; i++) {
            const double angle = (double)(fill->first + row) * (double)frequencies[i];
            const double want[] = {scale * cos(angle), scale * sin(angle)};
            const int64_t at = row * fill->table_stride + i;
            const float got[] = {fill->cos[at], fill->sin[at]};
            for (int k = 0; k < 2; k++) {
                const double bound = fabs(want[k]) * (0x1p-24 + 0x1p-50) + 0x1p-150;
                ck_assert_msg(fabs((double)got[k] - want[k]) <= bound, "%s(%.17g) is %.9g, not %.17g", k ? "sin" : "cos", angle,
                              (double)got[k], want[k]);
            }
        }
}

START_TEST(test_rope_fill) {
    struct rng rng = rng_for("rope_fill", 0);
    for (int64_t repeat = 0; repeat < test_count(300); repeat++) {
        const int64_t pairs = rng_range(&rng, 0, 70), rows = rng_range(&rng, 0, 40), ld = pairs + rng_range(&rng, 0, 3);
        float *frequencies = new_floats(pairs), *taken = new_floats(rows * pairs);
        for (int64_t i = 0; i < pairs; i++)
            frequencies[i] = ldexpf((float)rng_range(&rng, 1, 1 << 24), -24 - (int)rng_range(&rng, 0, 20));
        struct tensor cos_rows = matrix(rows, pairs, ld, any_placement(&rng), NULL),
                      sin_rows = matrix(rows, pairs, ld, any_placement(&rng), NULL);
        struct heed_rope_fill fill = {.pairs = pairs, .positions = rows, .frequencies = frequencies, .table_stride = ld};
        fill.first = rng_range(&rng, 0, 2) ? rng_range(&rng, 0, 4096) : rng_range(&rng, 0, 1 << 28);
        fill.scale = rng_range(&rng, 0, 1) ? 0.0f : 1.2f;
        fill.cos = cos_rows.data, fill.sin = sin_rows.data;
        describe("rope_fill", "any", "%lld x %lld from %lld", (long long)rows, (long long)pairs, (long long)fill.first);
        const struct heed_exec exec = {.isa = any_isa(&rng), .threads = any_threads(&rng)};
        ck_assert_msg(heed_rope_fill(&fill, &exec) == HEED_OK, "%s", heed_error_message());
        check_fill(&fill, frequencies);
        must(tensor_take(&cos_rows, taken));
        must(tensor_take(&sin_rows, taken));
        tensor_free(&cos_rows);
        tensor_free(&sin_rows);
        free(frequencies);
        free(taken);
    }
}
END_TEST

/* Those of a base have the nearest floats, but for ties; NaN and infinity make the one NaN. */
START_TEST(test_rope_fill_bases_and_nan) {
    enum { PAIRS = 64 };
    float frequencies[PAIRS], cosines[PAIRS], sines[PAIRS];
    struct heed_rope_fill fill = {.pairs = PAIRS, .positions = 1, .first = 1, .table_stride = PAIRS, .cos = cosines, .sin = sines};
    for (int i = 0; i < PAIRS; i++)
        frequencies[i] = (float)pow(500000, -i / (double)PAIRS);
    fill.base = 500000;
    describe("rope_fill", "best", "base 500000");
    ck_assert_msg(heed_rope_fill(&fill, NULL) == HEED_OK, "%s", heed_error_message());
    check_fill(&fill, frequencies);
    frequencies[0] = NAN, frequencies[1] = INFINITY, frequencies[2] = -INFINITY;
    fill.pairs = 3, fill.base = NAN, fill.frequencies = frequencies;
    ck_assert_msg(heed_rope_fill(&fill, NULL) == HEED_OK, "%s", heed_error_message());
    const float nan = __builtin_nanf(""), want[3] = {nan, nan, nan};
    must(compare(SAME_BITS, cosines, want, 1, 3));
    must(compare(SAME_BITS, sines, want, 1, 3));
}
END_TEST

Suite *rope_suite(void) {
    Suite *suite = suite_create("rope");
    TCase *tests = tcase_create("rope");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_rope_same_bits);
    tcase_add_test(tests, test_rope_leaves_the_rest);
    tcase_add_test(tests, test_rope_fill);
    tcase_add_test(tests, test_rope_fill_bases_and_nan);
    suite_add_tcase(suite, tests);
    return suite;
}
