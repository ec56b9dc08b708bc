/* The bits of functions that treat each row by itself; test_bits.c says what for. */
#include "bits.h"
#include "weights.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void all_softmax_bits(struct pass *pass, const struct heed_exec *exec) {
    static const int64_t columns[] = {1, 2, 15, 64, 100, 255, 257, 1031};
    static const enum fill modes[] = {FILL_NORMAL, FILL_EXP_LIMIT, FILL_EQUAL, FILL_SPIKE, FILL_MINUS_INF, FILL_NAN};
    for (size_t s = 0; s < sizeof columns / sizeof *columns; s++) {
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            char name[128];
            int64_t n = columns[s], lengths[] = {n, n / 2, 0};
            snprintf(name, sizeof name, "softmax/3x%" PRId64 "/%s", n, fill_name(modes[m]));
            struct rng rng = rng_fixed(name);
            float *x = new_filled(&rng, modes[m], 3 * n), *y = new_floats(3 * n), scale = m % 2 ? 0.0f : -0.3f;
            struct heed_softmax softmax = {
                .rows = 3, .columns = n, .scale = scale, .lengths = lengths, .input = x, .input_stride = n};
            softmax.output = y;
            softmax.output_stride = n;
            ck_assert_msg(heed_softmax(&softmax, exec) == HEED_OK, "%s", heed_error_message());
            take_in(pass, name, y, 3 * n);
            free(x);
            free(y);
        }
    }
}

void all_norm_bits(struct pass *pass, const struct heed_exec *exec) {
    static const int64_t columns[] = {1, 3, 16, 100, 257, 1031};
    static const enum fill modes[] = {FILL_NORMAL, FILL_CANCEL, FILL_SPIKE, FILL_DENORMAL, FILL_NAN};
    for (size_t s = 0; s < sizeof columns / sizeof *columns; s++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            char name[128];
            const int64_t n = columns[s];
            const bool centers = (s + m) % 2;
            snprintf(name, sizeof name, "%s/2x%" PRId64 "/%s", centers ? "layer_norm" : "rms_norm", n, fill_name(modes[m]));
            struct rng rng = rng_fixed(name);
            float *x = new_filled(&rng, modes[m], 2 * n), *gain = new_filled(&rng, FILL_NORMAL, n), *y = new_floats(2 * n);
            struct heed_norm norm = {.rows = 2, .columns = n, .epsilon = 1e-5f, .gain = gain};
            norm.input = (struct heed_input){.data = x, .token_stride = n};
            norm.residual.data = m % 2 ? NULL : x + n, norm.bias = s % 2 ? NULL : gain;
            norm.output = (struct heed_output){.data = y, .token_stride = n};
            ck_assert_msg((centers ? heed_layer_norm : heed_rms_norm)(&norm, exec) == HEED_OK, "%s", heed_error_message());
            take_in(pass, name, y, 2 * n);
            free(x);
            free(gain);
            free(y);
        }
}

void all_activation_bits(struct pass *pass, const struct heed_exec *exec) {
    static const enum fill modes[] = {FILL_NORMAL, FILL_SPIKE, FILL_DENORMAL, FILL_NAN};
    static const enum heed_activation activations[] = {HEED_RELU, HEED_GELU, HEED_GELU_TANH, HEED_SILU};
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            enum { N = 531 };
            char name[128];
            snprintf(name, sizeof name, "activation-%d/%s", (int)activations[a], fill_name(modes[m]));
            struct rng rng = rng_fixed(name);
            float *x = new_filled(&rng, modes[m], 4 * N), *y = new_floats(N);
            struct heed_activate activate = {.rows = 1, .columns = N, .input = {.data = x}, .output = {.data = y}};
            activate.activation = activations[a];
            activate.bias = m % 2 ? x + N : NULL, activate.gate.data = m < 2 ? x + 2 * N : NULL,
            activate.residual.data = m > 0 ? x + 3 * N : NULL;
            ck_assert_msg(heed_activate(&activate, exec) == HEED_OK, "%s", heed_error_message());
            take_in(pass, name, y, N);
            free(x);
            free(y);
        }
}

/* A table of each type, and all of them. */
void all_embedding_bits(struct pass *pass, const struct heed_exec *exec) {
    enum { ROWS = 5, IDS = 7, COLUMNS = 288, TYPES = HEED_Q4_0 + 1 };
    static const int32_t ids[IDS] = {4, 0, 0, 3, 1, 2, 4};
    for (int first = 0; first <= TYPES; first++) {
        const int tables = first < TYPES ? 1 : TYPES;
        char name[128];
        snprintf(name, sizeof name, "embedding/%s", first < TYPES ? type_name((enum heed_type)first) : "all");
        struct rng rng = rng_fixed(name);
        float *scales = new_filled(&rng, FILL_NORMAL, ROWS), *y = new_floats(IDS * COLUMNS);
        struct heed_lookup lookup[TYPES];
        for (int i = 0; i < tables; i++) {
            const enum heed_type type = (enum heed_type)(first % TYPES + i);
            lookup[i] = (struct heed_lookup){.rows = ROWS, .stride = COLUMNS, .type = type, .ids = ids};
            lookup[i].factor = (float)i * 0.7f;
            lookup[i].scales = type == HEED_I8 ? scales : NULL;
            lookup[i].data = type == HEED_F32 ? (void *)new_filled(&rng, FILL_NORMAL, ROWS * COLUMNS)
                                              : new_weights(&rng, type, ROWS * COLUMNS, false);
        }
        const struct heed_embedding embedding = {
            .rows = IDS, .columns = COLUMNS, .tables = tables, .lookup = lookup, .output = {.data = y, .token_stride = COLUMNS}};
        ck_assert_msg(heed_embedding(&embedding, exec) == HEED_OK, "%s", heed_error_message());
        take_in(pass, name, y, IDS * COLUMNS);
        for (int i = 0; i < tables; i++)
            free((void *)(uintptr_t)lookup[i].data);
        free(scales);
        free(y);
    }
}

/* A table of each type that was not there when all_embedding_bits was. */
void all_k_embedding_bits(struct pass *pass, const struct heed_exec *exec) {
    enum { ROWS = 3, COLUMNS = 2 * K_BLOCK };
    static const int32_t ids[ROWS] = {2, 0, 1};
    for (int type = HEED_Q4_K; type <= HEED_MXFP4; type++) {
        char name[128];
        float y[ROWS * COLUMNS];
        snprintf(name, sizeof name, "embedding/%s", type_name((enum heed_type)type));
        struct rng rng = rng_fixed(name);
        struct heed_lookup lookup = {.rows = ROWS, .stride = COLUMNS, .type = (enum heed_type)type, .ids = ids};
        lookup.data = new_weights(&rng, lookup.type, ROWS * COLUMNS, false);
        const struct heed_embedding embedding = {
            .rows = ROWS, .columns = COLUMNS, .tables = 1, .lookup = &lookup, .output = {.data = y, .token_stride = COLUMNS}};
        ck_assert_msg(heed_embedding(&embedding, exec) == HEED_OK, "%s", heed_error_message());
        take_in(pass, name, y, ROWS * COLUMNS);
        free((void *)(uintptr_t)lookup.data);
    }
}

/* Tables, from near and far positions, and rows that they turn. */
void all_rope_bits(struct pass *pass, const struct heed_exec *exec) {
    enum { TOKENS = 40, PAIRS = 33, WIDTH = 70 };
    for (int i = 0; i < 6; i++) {
        char name[128];
        snprintf(name, sizeof name, "rope/%d", i);
        struct rng rng = rng_fixed(name);
        float *tables = new_floats(2 * TOKENS * PAIRS), *x = new_filled(&rng, i < 4 ? FILL_NORMAL : FILL_NAN, TOKENS * WIDTH);
        struct heed_rope_fill fill = {.pairs = PAIRS, .positions = TOKENS, .base = i < 3 ? 10000 : 500000, .table_stride = PAIRS};
        fill.first = i % 2 ? 1000003 : 0;
        fill.scale = i < 2 ? 0.0f : 1.1386294f;
        fill.cos = tables, fill.sin = tables + TOKENS * PAIRS;
        ck_assert_msg(heed_rope_fill(&fill, exec) == HEED_OK, "%s", heed_error_message());
        take_in(pass, name, tables, 2 * TOKENS * PAIRS);
        struct heed_rope rope = {.batch = 1, .num_heads = 1, .tokens = TOKENS, .head_dim = WIDTH};
        rope.tables = (struct heed_rope_tables){PAIRS, fill.cos, fill.sin, PAIRS, TOKENS, i % 2};
        rope.input = (struct heed_input){.data = x, .token_stride = WIDTH};
        rope.output = (struct heed_output){.data = x, .token_stride = WIDTH};
        ck_assert_msg(heed_rope(&rope, exec) == HEED_OK, "%s", heed_error_message());
        snprintf(name, sizeof name, "rope/%d/turned", i);
        take_in(pass, name, x, TOKENS * WIDTH);
        free(tables);
        free(x);
    }
}
