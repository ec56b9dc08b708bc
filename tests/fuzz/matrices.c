/* heed_gemm, with heed_gemm_pack_b, and heed_softmax. */
#include "fuzz.h"
#include "roundings.h"
#include "types.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static double *new_array(int64_t n) {
    double *x = malloc((size_t)n * sizeof *x + 1);
    if (!x)
        fuzz_fail("no memory for %" PRId64 " numbers", n);
    return x;
}

bool is_large(int64_t a, int64_t b, int64_t c) { return (double)(a + 1) * (double)(b + 1) * (double)(c + 1) > 8e6; }

struct rows typed_rows(const void *data, enum heed_type type, int64_t rows, int64_t columns, int64_t stride) {
    const size_t each = (size_t)type_bytes(type);
    return (struct rows){data,
                         {1, 1, rows},
                         {0, 0, stride_bytes(type_units(type, stride), rows, each)},
                         stride_bytes(type_units(type, columns), 2, each)};
}

struct rows matrix_rows(const float *data, int64_t rows, int64_t columns, int64_t stride) {
    return typed_rows(data, HEED_F32, rows, columns, stride);
}

float *new_matrix(struct input *in, struct memory *memory, const char *name, int64_t rows, int64_t columns, int64_t stride,
                  enum fill mode) {
    const int64_t n = rows > 0 && columns > 0 ? (rows - 1) * stride + columns : 0;
    float *data = memory_new(memory, name, n, sizeof *data, in);
    struct rng rng = rng_seeded(take(in, 2));
    fill(&rng, mode, data, n);
    return data;
}

/* --- heed_gemm --- */

void *new_typed(struct input *in, struct memory *memory, const char *name, enum heed_type type, int64_t rows, int64_t columns,
                int64_t stride) {
    const enum fill mode = take_fill(in, false);
    const int64_t n = rows > 0 && columns > 0 ? (rows - 1) * stride + columns : 0;
    if (type == HEED_F32)
        return new_matrix(in, memory, name, rows, columns, stride, mode);
    uint16_t *data = memory_new(memory, name, n, sizeof *data, in);
    double *values = new_array(n);
    struct rng rng = rng_seeded(take(in, 2));
    fill(&rng, mode, (float *)values, n);
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)((float *)values)[i];
        data[i] = type == HEED_BF16 ? ref_round_bf16(x) : ref_round_f16(x);
    }
    free(values);
    return data;
}

/* Bytes, or blocks whose scales are numbers as a rule, else any bits. */
static void *new_bytes(struct input *in, struct memory *memory, const char *name, enum heed_type type, int64_t rows,
                       int64_t columns, int64_t stride) {
    const int64_t units = rows > 0 && columns > 0 ? type_units(type, (rows - 1) * stride + columns) : 0, each = type_bytes(type);
    const bool any_scales = take_chance(in, 8);
    unsigned char *data = memory_new(memory, name, units, (size_t)each, in);
    struct rng rng = rng_seeded(take(in, 2));
    for (int64_t i = 0; i < units * each; i++)
        data[i] = (unsigned char)rng_next(&rng);
    for (int64_t i = 0; type_has_blocks(type) && !any_scales && i < units * each; i += type_span(type, type_block(type))) {
        unsigned char *upper = data + i + (type == HEED_Q6_K ? Q6_K_BYTES - 1 : 1);
        *upper = (unsigned char)((*upper & 0xbb) | 0x20); /* from 2^-7 to 1 */
        if (type == HEED_Q4_K || type == HEED_Q5_K)
            upper[2] = (unsigned char)((upper[2] & 0xbb) | 0x20);
    }
    return data;
}

void *new_weights(struct input *in, struct memory *memory, const char *name, enum heed_type type, int64_t rows, int64_t columns,
                  int64_t stride) {
    return type > HEED_F16 ? new_bytes(in, memory, name, type, rows, columns, stride)
                           : new_typed(in, memory, name, type, rows, columns, stride);
}

enum heed_type take_type(struct input *in) { return (enum heed_type)TAKE_OF(in, HEED_F32, HEED_BF16, HEED_F16); }

static enum heed_status call_gemm(const void *request, const struct heed_exec *exec) { return heed_gemm(request, exec); }

static bool reads_ab(const struct heed_gemm *g) { return g->alpha != 0.0f && g->k > 0; }

static enum marked mark_gemm(struct memory *memory, const void *request) {
    const struct heed_gemm *g = request;
    if (g->m == 0 || g->n == 0)
        return MARKED;
    if (is_large(g->m, g->n, reads_ab(g) ? g->k : 0))
        return MARKED_OUTSIDE;
    const struct rows a =
        g->transpose_a ? typed_rows(g->a, g->a_type, g->k, g->m, g->lda) : typed_rows(g->a, g->a_type, g->m, g->k, g->lda);
    const struct rows b = g->packed_b      ? (struct rows){g->packed_b, {1, 1, 1}, {0, 0, 0}, heed_gemm_packed_bytes(g)}
                          : g->transpose_b ? typed_rows(g->b, g->b_type, g->n, g->k, g->ldb)
                                           : typed_rows(g->b, g->b_type, g->k, g->n, g->ldb);
    const struct rows c = typed_rows(g->c, g->c_type, g->m, g->n, g->ldc);
    const struct rows scales = matrix_rows(g->b_scales, 1, g->n, 0);
    enum marked marked = MARKED;
    if (reads_ab(g))
        marked = memory_mark(memory, &a, ROLE_INPUT);
    if (reads_ab(g) && marked == MARKED)
        marked = memory_mark(memory, &b, ROLE_INPUT);
    if (reads_ab(g) && marked == MARKED && g->b_type == HEED_I8)
        marked = memory_mark(memory, &scales, ROLE_INPUT);
    return marked == MARKED ? memory_mark(memory, &c, ROLE_OUTPUT) : marked;
}

static void print_gemm(FILE *file, const void *request) {
    const struct heed_gemm *g = request;
    fprintf(file,
            "gemm: %" PRId64 " x %" PRId64 " x %" PRId64
            ", types %d %d %d, compute %d, alpha %g, beta %g, transposed %d %d, ld %" PRId64 " %" PRId64 " %" PRId64 "%s\n",
            g->m, g->n, g->k, (int)g->a_type, (int)g->b_type, (int)g->c_type, (int)g->compute, (double)g->alpha, (double)g->beta,
            g->transpose_a, g->transpose_b, g->lda, g->ldb, g->ldc, g->packed_b ? ", packed" : "");
}

/* k roundings in the chain, one of alpha's product, one of the final fma, and one of the scale's product: |error| <= gamma(k + 4)
 * of the absolute values of the terms; in bf16, factors rounded before, and what is below 2^-126 lost, alpha and scale too
 * (test_accuracy.c derives the rest); what is lost in the chain is multiplied by the scale; and half a unit in the last place of c,
 * if it has 16 bits.  Not where a chain, or c, may overflow, and not with beta, for c is no more what it was. */
static void check_gemm(const struct memory *memory, const void *request) {
    const struct heed_gemm *g = request;
    (void)memory;
    if (g->packed_b || g->beta != 0.0f || g->m == 0 || g->n == 0)
        return;
    if (g->compute == HEED_COMPUTE_I8 && reads_ab(g))
        return; /* whose bits are those of the scalar table, and that one's those of plain loops (test_kernels_blocks.c) */
    double *want = new_array(g->m * g->n);
    ref_gemm(g, want);
    const int64_t k = reads_ab(g) ? g->k : 0;
    for (int64_t i = 0; i < g->m * g->n; i++) {
        const int64_t row = i / g->n, column = i % g->n;
        const double scale = k > 0 && g->b_scales ? fabs((double)g->b_scales[column]) : 1;
        double terms = 0, factors = 0;
        for (int64_t p = 0; p < k; p++) {
            terms += fabs(ref_gemm_a(g, row, p) * ref_gemm_b(g, p, column));
            factors += fabs(ref_gemm_a(g, row, p)) + fabs(ref_gemm_b(g, p, column));
        }
        const double got = ref_element(g->c, g->c_type, row * g->ldc + column), alpha = fabs((double)g->alpha);
        const bool rounds = g->compute == HEED_COMPUTE_BF16 || g->compute == HEED_COMPUTE_BF16_AMX;
        const double rounded = rounds ? (0x2p-8 + 0x1p-16) * terms : 0, chain = scale > 0 ? terms / scale : 0;
        const double flushed = rounds ? 0x1p-125 * (alpha * ((1 + scale) * (factors + (double)k + 1) + chain) + terms + 2) : 0;
        const double exact = gamma_of(k + 4) * alpha * (terms + rounded) + alpha * rounded + flushed +
                             (double)(2 * k + 2) * TINY * (1 + alpha) * (1 + scale);
        const double most = alpha * terms + exact;
        const double unit = g->c_type == HEED_F32 ? 0 : g->c_type == HEED_BF16 ? 0x1p-8 : 0x1p-11;
        const double bound = exact + unit * most + (g->c_type == HEED_F16 ? 0x1p-25 : unit * 0x1p-126);
        if (terms < 1e37 && terms < 1e37 * scale && most < (g->c_type == HEED_F16 ? 65000.0 : 1e37) &&
            !(fabs(got - want[i]) <= bound))
            fuzz_fail("c[%" PRId64 "][%" PRId64 "] is %.9g, but the oracle has %.9g", row, column, got, want[i]);
    }
    free(want);
}

static void *pack(struct input *in, struct memory *memory, const struct heed_gemm *g) {
    const int64_t each = type_bytes(g->b_type);
    void *packed = memory_new(memory, "packed_b", heed_gemm_packed_bytes(g) / each, (size_t)each, in);
    if (heed_gemm_pack_b(g, packed, NULL) != HEED_OK)
        fuzz_fail("heed_gemm_pack_b: %s", heed_error_message());
    return packed;
}

int64_t take_dimension(struct input *in) {
    return take_chance(in, 8) ? take_range(in, 0, 400) : take_chance(in, 2) ? take_range(in, 0, 70) : take_range(in, 0, 9);
}

void fuzz_gemm(struct input *in) {
    static const struct function function = {call_gemm, print_gemm, mark_gemm, NULL, check_gemm};
    static const float factors[] = {1.0f, 0.0f, -0.5f, 1e20f, 0x1p-130f};
    struct memory memory = {.count = 0};
    struct heed_gemm g = {.m = take_dimension(in), .n = take_dimension(in), .k = take_dimension(in)};
    g.b_type = take_chance(in, 2) ? take_type(in)
                                  : (enum heed_type)TAKE_OF(in, HEED_I8, HEED_Q8_0, HEED_Q4_0, HEED_Q5_0, HEED_Q4_K, HEED_Q5_K,
                                                            HEED_Q6_K, HEED_IQ4_NL, HEED_MXFP4);
    const int64_t block = type_block(g.b_type);
    g.k = round_up(is_large(g.m, g.n, g.k) ? g.k / 8 : g.k, block);
    g.n = is_large(g.m, g.n, g.k) ? g.n / 8 : g.n;
    g.transpose_a = take_chance(in, 2);
    g.transpose_b = take_chance(in, 2) || block > 1;
    g.alpha = factors[take_range(in, 0, 4)];
    g.beta = take_chance(in, 2) ? factors[take_range(in, 0, 4)] : 0.0f;
    g.lda = (g.transpose_a ? g.m : g.k) + take_range(in, 0, 3);
    g.ldb = (g.transpose_b ? g.k : g.n) + block * take_range(in, 0, 3);
    g.ldc = g.n + take_range(in, 0, 3);
    g.a_type = take_type(in);
    g.c_type = take_type(in);
    g.compute = (enum heed_compute)TAKE_OF(in, HEED_COMPUTE_F32, HEED_COMPUTE_BF16, HEED_COMPUTE_BF16_AMX, HEED_COMPUTE_I8);
    if (g.compute == HEED_COMPUTE_I8 && block == 1)
        g.compute = HEED_COMPUTE_F32;
    g.a = g.transpose_a ? new_typed(in, &memory, "a", g.a_type, g.k, g.m, g.lda)
                        : new_typed(in, &memory, "a", g.a_type, g.m, g.k, g.lda);
    g.b = g.transpose_b ? new_weights(in, &memory, "b", g.b_type, g.n, g.k, g.ldb)
                        : new_weights(in, &memory, "b", g.b_type, g.k, g.n, g.ldb);
    if (g.b_type == HEED_I8)
        g.b_scales = new_matrix(in, &memory, "b_scales", 1, g.n, g.n, take_fill(in, false));
    g.c = new_typed(in, &memory, "c", g.c_type, g.m, g.n, g.ldc);
    if (take_chance(in, 3))
        g.packed_b = pack(in, &memory, &g);
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &g, sizeof g);
    make_bool(&g.transpose_a);
    make_bool(&g.transpose_b);
    fuzz_request(in, &function, &memory, &g, changes == 0);
}

/* --- heed_softmax --- */

static enum heed_status call_softmax(const void *request, const struct heed_exec *exec) { return heed_softmax(request, exec); }

static enum marked mark_softmax(struct memory *memory, const void *request) {
    const struct heed_softmax *s = request;
    const struct rows lengths = {s->lengths, {1, 1, 1}, {0, 0, 0}, s->lengths ? s->rows * (int64_t)sizeof *s->lengths : 0};
    enum marked marked = memory_mark(memory, &lengths, ROLE_INPUT);
    if (marked != MARKED || s->rows == 0 || s->columns == 0)
        return marked;
    if (is_large(s->rows, s->columns, 0))
        return MARKED_OUTSIDE;
    for (int64_t i = 0; s->input != s->output && i < s->rows && marked == MARKED; i++) {
        const struct rows row = matrix_rows(s->input + i * s->input_stride, 1, s->lengths ? s->lengths[i] : s->columns, 0);
        marked = memory_mark(memory, &row, ROLE_INPUT);
    }
    const struct rows output = matrix_rows(s->output, s->rows, s->columns, s->output_stride);
    return marked == MARKED ? memory_mark(memory, &output, ROLE_OUTPUT) : marked;
}

static bool softmax_may_be_validated(const struct memory *memory, const void *request) {
    const struct heed_softmax *s = request;
    return memory_has(memory, s->lengths, (__int128)s->rows * (__int128)sizeof *s->lengths);
}

static void print_softmax(FILE *file, const void *request) {
    const struct heed_softmax *s = request;
    fprintf(file, "softmax: %" PRId64 " x %" PRId64 ", scale %g, strides %" PRId64 " %" PRId64 "%s%s\n", s->rows, s->columns,
            (double)s->scale, s->input_stride, s->output_stride, s->lengths ? ", lengths" : "",
            s->input == s->output ? ", in place" : "");
}

/* Rows sum to 1, or to 0, or are NaN; bits are compared with the scalar table, whose accuracy other tests look after. */
static void check_softmax(const struct memory *memory, const void *request) {
    const struct heed_softmax *s = request;
    (void)memory;
    for (int64_t i = 0; s->columns > 0 && i < s->rows; i++) {
        const float *row = s->output + i * s->output_stride;
        double sum = 0;
        for (int64_t j = 0; j < s->columns; j++)
            sum += (double)row[j];
        if (fabs(sum - 1) > 64 * U + (double)s->columns * U && sum != 0 && !isnan(sum))
            fuzz_fail("row %" PRId64 " sums to %.9g", i, sum);
    }
}

void fuzz_softmax(struct input *in) {
    static const struct function function = {call_softmax, print_softmax, mark_softmax, softmax_may_be_validated, check_softmax};
    static const float scales[] = {0.0f, 1.0f, -1.0f, 0.25f, 1e30f};
    struct memory memory = {.count = 0};
    struct heed_softmax s = {.rows = take_range(in, 0, 9), .columns = take_dimension(in), .scale = scales[take_range(in, 0, 4)]};
    s.columns += take_chance(in, 8) ? 500 : 0;
    s.output_stride = s.input_stride = s.columns + take_range(in, 0, 3);
    s.input = s.output = new_matrix(in, &memory, "output", s.rows, s.columns, s.output_stride, take_fill(in, false));
    if (take_chance(in, 2)) {
        s.input_stride = take_chance(in, 4) ? 0 : s.columns + take_range(in, 0, 3);
        s.input = new_matrix(in, &memory, "input", s.rows, s.columns, s.input_stride, take_fill(in, false));
    }
    if (take_chance(in, 2)) {
        int64_t *lengths = memory_new(&memory, "lengths", s.rows, sizeof *lengths, in);
        for (int64_t i = 0; i < s.rows; i++)
            lengths[i] = take_range(in, 0, s.columns);
        s.lengths = lengths;
    }
    const int64_t changes = take_chance(in, 2) ? take_range(in, 1, 2) : 0;
    for (int64_t i = 0; i < changes; i++)
        overwrite(in, &memory, &s, sizeof s);
    fuzz_request(in, &function, &memory, &s, changes == 0);
}
