/* ONNX's Attention, opsets 23 to 25: all cases of its backend test, said to heed in every way that heed has for them, on every
 * table, against ONNX's reference in double; and where heed differs from ONNX on purpose.
 *
 * Tolerance: inputs, masks and scores of these cases are not negative, so nothing cancels and errors are relative.  u = 2^-24, and
 * test_accuracy.c's analysis gives: a score D + 6 roundings, of softcap 4 more (quotient, 2 of tanh, product), 2 of z = x log2(e)
 * and back, 1 of the bias, 1 in the value expected here; so (D + 14) u of the score.  A weight is off by at most twice that times
 * the largest score, for its own score and the sum's, and by 3 u for each of 2 exp2, 2 times; the sums over at most 18 keys in one
 * chunk by (18 + 27) u; 1 in the value expected.  About 8e-6 for the scores of these cases, where ONNX's runner takes 1e-3. */
#include "conformance.h"
#include "internal.h"
#include "onnx_cases.h"
#include "reference/reference.h"
#include "roundings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a case lists of outputs, as heed writes them: output like the case's Y, matrix its qk_matmul_output. */
struct outputs {
    int64_t output_size, matrix_size;
    struct buffer output, matrix;
};

static struct outputs add_outputs(struct heed_attention *a, const struct onnx_case *c) {
    struct outputs o = {onnx_size(&c->Y), onnx_size(&c->qk_matmul_output), buffer_new(onnx_size(&c->Y), AT_END), {.data = NULL}};
    int64_t row = a->value_dim, rows = a->query_tokens, heads = a->num_heads;
    a->output = c->Y.rank == 3 ? (struct heed_output){o.output.data, rows * heads * row, row, heads * row, HEED_F32}
                               : (struct heed_output){o.output.data, heads * rows * row, rows * row, row, HEED_F32};
    if (!o.matrix_size)
        return o;
    ck_assert_int_eq(c->qk_matmul_output.shape[3], a->key_tokens);
    o.matrix = buffer_new(o.matrix_size, AT_END);
    row = a->key_tokens;
    struct heed_output matrix = {o.matrix.data, heads * rows * row, rows * row, row, HEED_F32};
    if (c->qk_matmul_output_mode == 3) {
        a->weights = matrix;
    } else {
        a->scores = matrix;
        a->score_stage = (enum heed_score_stage)c->qk_matmul_output_mode;
    }
    return o;
}

static void free_outputs(struct outputs *o) {
    buffer_free(&o->output);
    if (o->matrix_size)
        buffer_free(&o->matrix);
}

static void run(const struct heed_attention *a, const struct heed_exec *exec) {
    if (heed_attention(a, exec) != HEED_OK)
        must(heed_error_message());
}

static void check_tensor(const float *got, const struct onnx_tensor *tensor, double bound, struct accuracy *accuracy) {
    float *want = new_floats(onnx_size(tensor));
    onnx_floats(tensor, want);
    for (int64_t i = 0; i < onnx_size(tensor); i++)
        must(accuracy_add(accuracy, got[i], (double)want[i], bound * fabs((double)want[i]), fabs((double)want[i])));
    free(want);
}

static void check_case(const struct onnx_case *c, unsigned ways, const struct heed_exec *exec, struct accuracy *accuracy) {
    struct onnx_request request;
    describe("onnx", exec->isa, "%s%s%s%s", c->name, ways & ONNX_PAGED ? ", paged" : "",
             ways & ONNX_MASK_AS_BIAS ? ", mask as bias" : "", ways & ONNX_NAMED_ALIGNMENT ? ", named alignment" : "");
    onnx_request_new(&request, c, ways, exec);
    struct outputs o = add_outputs(&request.attention, c);
    run(&request.attention, exec);
    double score = (double)(request.attention.head_dim + 14) * U, weight = 2 * score * (double)c->largest_score + 58 * U;
    check_tensor(o.output.data, &c->Y, weight, accuracy);
    if (o.matrix_size)
        check_tensor(o.matrix.data, &c->qk_matmul_output, c->qk_matmul_output_mode == 3 ? weight : score, accuracy);
    free_outputs(&o);
    onnx_request_free(&request);
}

START_TEST(test_onnx_cases) {
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name, .threads = 1};
    struct accuracy accuracy = {.typical = true};
    int cases[3] = {0, 0, 0};
    for (int i = 0; i < onnx_case_count; i++) {
        for (unsigned ways = 0; ways < ONNX_WAYS; ways++)
            check_case(&onnx_cases[i], ways, &exec, &accuracy);
        cases[onnx_cases[i].opset - 23]++;
    }
    printf("  conformance onnx %s: %d cases of opset 23, %d of 24, %d of 25, each in up to %d ways\n", exec.isa, cases[0], cases[1],
           cases[2], (int)ONNX_WAYS);
    accuracy_print(&accuracy, "onnx", exec.isa);
}
END_TEST

/* Rows or pages, a name for an alignment or its offsets: the same request, so the same bits. */
START_TEST(test_onnx_ways_agree) {
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name}, scalar = {.isa = "scalar", .threads = 1};
    for (int i = 0; i < onnx_case_count; i++) {
        struct onnx_request plain, other;
        onnx_request_new(&plain, &onnx_cases[i], 0, &scalar);
        onnx_request_new(&other, &onnx_cases[i], ONNX_PAGED | ONNX_NAMED_ALIGNMENT, &exec);
        struct outputs want = add_outputs(&plain.attention, &onnx_cases[i]), got = add_outputs(&other.attention, &onnx_cases[i]);
        describe("onnx", exec.isa, "%s, paged, against rows on scalar", onnx_cases[i].name);
        run(&plain.attention, &scalar);
        run(&other.attention, &exec);
        must(compare(SAME_BITS, got.output.data, want.output.data, 1, want.output_size));
        if (want.matrix_size)
            must(compare(SAME_BITS, got.matrix.data, want.matrix.data, 1, want.matrix_size));
        free_outputs(&want);
        free_outputs(&got);
        onnx_request_free(&plain);
        onnx_request_free(&other);
    }
}
END_TEST

/* Puts the oracle's results where heed's would be. */
static void run_oracle(const struct heed_attention *a, bool wants_weights, struct outputs *o) {
    int64_t rows = ref_rows(a), n = rows * a->key_tokens, width = a->value_dim;
    double *output = new_doubles(rows * width), *matrix = new_doubles(n);
    struct ref_attention_result result = {.output = output};
    *(wants_weights ? &result.weights : &result.scores) = matrix;
    ck_assert(ref_attention(a, &result));
    for (int64_t i = 0; i < rows * width; i++) {
        int64_t t = i / width % a->query_tokens, h = i / width / a->query_tokens % a->num_heads;
        int64_t b = i / width / a->query_tokens / a->num_heads;
        float *row = (float *)a->output.data + b * a->output.batch_stride + h * a->output.head_stride + t * a->output.token_stride;
        row[i % width] = (float)output[i];
    }
    for (int64_t i = 0; i < o->matrix_size; i++)
        o->matrix.data[i] = (float)matrix[i];
    free(output);
    free(matrix);
}

/* Two definitions of attention, written by different people: heed's oracle and ONNX's reference.  They differ by the rounding of
 * either to float alone. */
START_TEST(test_onnx_oracle) {
    struct accuracy accuracy = {.typical = true};
    for (int i = 0; i < onnx_case_count; i++) {
        const struct onnx_case *c = &onnx_cases[i];
        for (unsigned ways = 0; ways < ONNX_WAYS; ways += ONNX_MASK_AS_BIAS) {
            struct onnx_request request;
            describe("oracle", "double", "%s", c->name);
            onnx_request_new(&request, c, ways, NULL);
            struct outputs o = add_outputs(&request.attention, c);
            run_oracle(&request.attention, c->qk_matmul_output_mode == 3, &o);
            check_tensor(o.output.data, &c->Y, 2 * U, &accuracy);
            if (o.matrix_size)
                check_tensor(o.matrix.data, &c->qk_matmul_output, 2 * U, &accuracy);
            free_outputs(&o);
            onnx_request_free(&request);
        }
    }
    accuracy_print(&accuracy, "oracle", "double");
}
END_TEST

/* --- Where heed differs from ONNX on purpose --- */

static const struct onnx_case *case_named(const char *name) {
    for (int i = 0; i < onnx_case_count; i++)
        if (strcmp(onnx_cases[i].name, name) == 0)
            return &onnx_cases[i];
    ck_abort_msg("ONNX has no case %s", name);
}

/* In batch 0 of this case, three queries stand before the keys 0 to 3 of 6: query i sees key j by position if j <= i + 1, and the
 * mask hides key 1 from query 2. */
static const char hides_in_all_ways[] = "test_attention_4d_causal_nonpad_attn_mask_composition";

static void plant_nan(const struct heed_attention *a, int64_t key, bool with_value, struct onnx_request *request) {
    for (int64_t h = 0; h < a->num_kv_heads; h++) {
        request->key.data[h * a->key.head_stride + key * a->key.token_stride + h] = NAN;
        if (with_value)
            request->value.data[h * a->value.head_stride + key * a->value.token_stride + h] = NAN;
    }
}

/* With ONNX, a NaN in any key makes NaN of all queries, as NaN - inf and 0 * NaN are NaN.  With heed, none in a key that a query
 * may not see by causal or length reaches its result, nor one in the score of a key that a mask hides; only the values of the
 * latter must be finite. */
START_TEST(test_onnx_nan_is_isolated) {
    static const struct {
        int64_t key;
        bool with_value;
        bool reaches[3];
    } plants[] = {{5, true, {false, false, false}},
                  {4, true, {false, false, false}},
                  {3, true, {false, false, true}},
                  {1, false, {true, true, false}}};
    const struct onnx_case *c = case_named(hides_in_all_ways);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name};
    for (unsigned ways = 0; ways < ONNX_WAYS; ways += ONNX_MASK_AS_BIAS)
        for (size_t plant = 0; plant < sizeof plants / sizeof *plants; plant++) {
            struct onnx_request request;
            describe("onnx", exec.isa, "NaN in key %d, ways %u", (int)plants[plant].key, ways);
            onnx_request_new(&request, c, ways, &exec);
            struct heed_attention *a = &request.attention;
            struct outputs want = add_outputs(a, c);
            run(a, &exec);
            struct outputs got = add_outputs(a, c);
            plant_nan(a, plants[plant].key, plants[plant].with_value, &request);
            run(a, &exec);
            for (int64_t row = 0; row < a->num_heads * a->query_tokens; row++)
                for (int64_t d = 0; d < a->value_dim; d++) {
                    int64_t at = row * a->value_dim + d;
                    if (plants[plant].reaches[row % 3] && (plants[plant].key == 1 || d == row / 3))
                        ck_assert(isnan(got.output.data[at]));
                    else if (!plants[plant].reaches[row % 3])
                        must(compare(SAME_BITS, &got.output.data[at], &want.output.data[at], 1, 1));
                }
            free_outputs(&want);
            free_outputs(&got);
            onnx_request_free(&request);
        }
}
END_TEST

/* qk_matmul_output of modes 0 and 1 has the scores of all keys.  heed does not compute those of keys that a query may not see by
 * position: they are -inf in all of its score outputs.  Keys hidden by a mask have their score, as in ONNX, in the first two. */
START_TEST(test_onnx_scores_of_hidden_keys) {
    const struct onnx_case *c = case_named(hides_in_all_ways);
    const struct heed_exec exec = {.isa = heed_kernels_usable(_i)->name};
    struct accuracy accuracy = {.typical = true};
    for (int stage = HEED_SCORES_RAW; stage <= HEED_SCORES_BIASED; stage++)
        for (unsigned ways = 0; ways < ONNX_WAYS; ways += ONNX_MASK_AS_BIAS) {
            struct onnx_request request;
            describe("onnx", exec.isa, "scores of hidden keys, stage %d, ways %u", stage, ways);
            onnx_request_new(&request, c, ways, &exec);
            struct heed_attention *a = &request.attention;
            struct buffer scores = buffer_new(a->batch * a->num_heads * 3 * 6, AT_END);
            a->scores = (struct heed_output){scores.data, a->num_heads * 3 * 6, 3 * 6, 6, HEED_F32};
            a->score_stage = (enum heed_score_stage)stage;
            run(a, &exec);
            for (int64_t at = 0; at < a->num_heads * 3 * 6; at++) {
                int64_t j = at % 6, i = at / 6 % 3, h = at / 18;
                bool masked = i == 2 && j == 1 && stage == HEED_SCORES_BIASED;
                double want = 0;
                for (int64_t d = 0; d < a->head_dim; d++)
                    want += (double)((const float *)a->query.data)[h * a->query.head_stride + i * a->query.token_stride + d] *
                            (double)((const float *)a->key.data)[h * a->key.head_stride + j * a->key.token_stride + d];
                want = masked || j > i + 1 ? -INFINITY : want / sqrt((double)a->head_dim);
                must(accuracy_add(&accuracy, scores.data[at], want, (double)(a->head_dim + 14) * U * fabs(want), fabs(want)));
            }
            buffer_free(&scores);
            onnx_request_free(&request);
        }
}
END_TEST

TCase *conformance_onnx(void) {
    TCase *tests = tcase_create("onnx");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_onnx_cases, 0, usable_tables());
    tcase_add_loop_test(tests, test_onnx_ways_agree, 0, usable_tables());
    tcase_add_test(tests, test_onnx_oracle);
    tcase_add_loop_test(tests, test_onnx_nan_is_isolated, 0, usable_tables());
    tcase_add_loop_test(tests, test_onnx_scores_of_hidden_keys, 0, usable_tables());
    return tests;
}
