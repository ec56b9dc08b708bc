/* The bits themselves: a hash of each result of a fixed list of cases, in bits.txt.  Every table on every machine, whatever
 * compiler built it, must have these, so that runs on x86 and aarch64 are comparable; and a change of the arithmetic shows as a
 * change of that file.
 *
 * HEED_TEST_WRITE_BITS=tests/bits.txt rewrites it.  The names, not the test seed, determine the data. */
#include "bits.h"

#include "cpu.h"
#include "harness_kv.h"
#include "harness_options.h"
#include "suites.h"
#include "weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct bits {
    const char *name;
    uint64_t hash;
} expected[] = {
#include "bits.txt"
    {NULL, 0},
};

/* Valgrind keeps denormals whatever the control register says, and so has other bits where they would be 0. */
static bool keeps_denormals(void) {
    volatile float least = 0x1p-126f, half = 0.5f;
    const uint64_t before = heed_fp_begin();
    heed_fp_flush(true);
    const volatile float product = least * half;
    const bool kept = product > 0 || product < 0;
    heed_fp_flush(false);
    heed_fp_end(before);
    return kept;
}

void take_in(struct pass *pass, const char *name, const float *result, int64_t n) {
    const struct bits *e = &expected[pass->index];
    uint64_t hash = hash_floats(result, n);
    if (pass->file) {
        fprintf(pass->file, "{\"%s\", 0x%016" PRIx64 "},\n", name, hash);
        return;
    }
    ck_assert_msg(e->name && strcmp(e->name, name) == 0, "bits.txt has %s where %s is due", e->name ? e->name : "its end", name);
    pass->index++;
    bool may_differ = !log_is_exact(pass->table) && (strstr(name, "/lse") || strstr(name, "softcap"));
    may_differ = may_differ || (strstr(name, "bf16") && keeps_denormals());
    ck_assert_msg(e->hash == hash || may_differ, "%s: %s has hash 0x%016" PRIx64 ", bits.txt says 0x%016" PRIx64, pass->table->name,
                  name, hash, e->hash);
}

static const char *kind_of(enum heed_compute compute) {
    static const char *const kinds[] = {[HEED_COMPUTE_F32] = "",
                                        [HEED_COMPUTE_BF16] = " bf16",
                                        [HEED_COMPUTE_BF16_AMX] = " bf16 AMX",
                                        [HEED_COMPUTE_I8] = " as i8"};
    return kinds[compute];
}

static void gemm_bits(struct pass *pass, const struct heed_gemm *sizes, enum fill mode, const struct heed_exec *exec) {
    struct heed_gemm g = *sizes;
    char name[128];
    snprintf(name, sizeof name, "gemm%s/%" PRId64 "x%" PRId64 "x%" PRId64 "_%c%c/%s", kind_of(g.compute), g.m, g.n, g.k,
             g.transpose_a ? 't' : 'n', g.transpose_b ? 't' : 'n', fill_name(mode));
    struct rng rng = rng_fixed(name);
    float *a = new_filled(&rng, mode, g.m * g.k), *b = new_filled(&rng, FILL_NORMAL, g.k * g.n),
          *c = new_filled(&rng, mode, g.m * g.n);
    g.a = a, g.lda = g.transpose_a ? g.m : g.k;
    g.b = b, g.ldb = g.transpose_b ? g.k : g.n;
    g.c = c, g.ldc = g.n;
    ck_assert_msg(heed_gemm(&g, exec) == HEED_OK, "%s", heed_error_message());
    take_in(pass, name, c, g.m * g.n);
    free(a);
    free(b);
    free(c);
}

/* Weights of bytes and blocks, packed and not. */
static void weight_bits(struct pass *pass, enum heed_type type, enum heed_compute compute, const int64_t shape[3],
                        const struct heed_exec *exec) {
    const int64_t m = shape[0], n = shape[1], k = shape[2];
    char name[128];
    snprintf(name, sizeof name, "gemm %s%s/%" PRId64 "x%" PRId64 "x%" PRId64, type_name(type), kind_of(compute), m, n, k);
    struct rng rng = rng_fixed(name);
    float *a = new_filled(&rng, FILL_NORMAL, m * k), *c = new_floats(m * n), *scales = new_filled(&rng, FILL_NORMAL, n);
    char *b = new_weights(&rng, type, n * k, false), *packed;
    struct heed_gemm g = {.m = m, .n = n, .k = k, .alpha = 0.7f, .transpose_b = true, .a = a, .lda = k, .c = c, .ldc = n};
    g.b_type = type, g.b = b, g.ldb = k, g.b_scales = type == HEED_I8 ? scales : NULL, g.compute = compute;
    packed = malloc((size_t)heed_gemm_packed_bytes(&g));
    for (int i = 0; i < 2; i++) {
        char text[160];
        ck_assert_int_eq(heed_gemm_pack_b(&g, packed, exec), HEED_OK);
        g.packed_b = i ? packed : NULL;
        ck_assert_msg(heed_gemm(&g, exec) == HEED_OK, "%s", heed_error_message());
        snprintf(text, sizeof text, "%s%s", name, i ? "/packed" : "");
        take_in(pass, text, c, m * n);
    }
    float *const all[] = {a, c, scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(b);
    free(packed);
}

static void all_weight_bits(struct pass *pass, const struct heed_exec *exec) {
    static const int64_t shapes[][3] = {{1, 3, 32}, {1, 130, 320}, {4, 65, 128}, {7, 64, 96}, {40, 70, 288}},
                         k_shapes[][3] = {{1, 67, 512}, {14, 70, 768}};
    static const enum heed_type types[] = {HEED_I8, HEED_Q8_0, HEED_Q4_0, HEED_Q5_0, HEED_IQ4_NL, HEED_MXFP4};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            weight_bits(pass, types[t], HEED_COMPUTE_F32, shapes[s], exec);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t t = 1; t < sizeof types / sizeof *types; t++)
            weight_bits(pass, types[t], HEED_COMPUTE_I8, shapes[s], exec);
    for (size_t s = 0; s < sizeof k_shapes / sizeof *k_shapes; s++)
        for (int type = HEED_Q4_K; type <= HEED_Q6_K; type++) {
            weight_bits(pass, (enum heed_type)type, HEED_COMPUTE_F32, k_shapes[s], exec);
            weight_bits(pass, (enum heed_type)type, HEED_COMPUTE_I8, k_shapes[s], exec);
        }
}

static void all_gemm_bits(struct pass *pass, enum heed_compute compute, const struct heed_exec *exec) {
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 3, 4},    {7, 65, 3},   {13, 17, 257},
                                        {64, 64, 64}, {1, 300, 77}, {50, 9, 600}, {33, 130, 1}};
    static const enum fill modes[] = {FILL_NORMAL, FILL_CANCEL, FILL_DENORMAL, FILL_ZEROS, FILL_NAN};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
            gemm_bits(pass,
                      &(struct heed_gemm){.m = shapes[s][0],
                                          .n = shapes[s][1],
                                          .k = shapes[s][2],
                                          .alpha = m % 2 ? 1 : 0.7f,
                                          .beta = s % 2 ? 0 : -1.1f,
                                          .compute = compute,
                                          .transpose_a = (s + m) % 2,
                                          .transpose_b = (s + m) / 2 % 2},
                      modes[m], exec);
}

static void attention_bits(struct pass *pass, const struct heed_attention *s, enum fill mode, const struct heed_exec *exec) {
    static const char *const kinds[] = {"full", "top-left", "bottom-right"};
    char name[128], part[160];
    snprintf(name, sizeof name,
             "attention%s/B%" PRId64 "_H%" PRId64 "_KV%" PRId64 "_Q%" PRId64 "_K%" PRId64 "_D%" PRId64 "_V%" PRId64 "_%s/%s",
             kind_of(s->compute), s->batch, s->num_heads, s->num_kv_heads, s->query_tokens, s->key_tokens, s->head_dim,
             s->value_dim, kinds[s->causal ? 1 + (int)s->alignment : 0], fill_name(mode));
    struct rng rng = rng_fixed(name);
    struct attention_case c = new_attention_case(s, FILL_NORMAL, mode, mode == FILL_NAN ? FILL_NORMAL : mode, &rng);
    struct attention_result result = new_attention_result(&c);
    describe_attention(&c, "attention", exec);
    run_attention(&c, exec, NULL, &result);
    snprintf(part, sizeof part, "%s/output", name);
    take_in(pass, part, result.part[OUTPUT], result_count(&c.request, OUTPUT));
    snprintf(part, sizeof part, "%s/weights", name);
    take_in(pass, part, result.part[WEIGHTS], result_count(&c.request, WEIGHTS));
    snprintf(part, sizeof part, "%s/lse", name);
    take_in(pass, part, result.part[LSE], result_count(&c.request, LSE));
    free_attention_case(&c);
    free_attention_result(&result);
}

static void all_attention_bits(struct pass *pass, enum heed_compute compute, const struct heed_exec *exec) {
    static const int64_t shapes[][7] = {/* batch, heads, key/value heads, query tokens, key tokens, head_dim, value_dim */
                                        {1, 1, 1, 1, 1, 1, 1},     {1, 1, 1, 6, 6, 24, 28},   {2, 4, 2, 17, 33, 16, 16},
                                        {1, 8, 1, 5, 257, 64, 64}, {1, 2, 2, 40, 520, 3, 80}, {1, 3, 3, 70, 20, 128, 9}};
    static const enum fill modes[] = {FILL_NORMAL, FILL_EXP_LIMIT, FILL_CANCEL, FILL_NAN, FILL_DENORMAL};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i];
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
            attention_bits(pass,
                           &(struct heed_attention){.compute = compute,
                                                    .batch = s[0],
                                                    .num_heads = s[1],
                                                    .num_kv_heads = s[2],
                                                    .query_tokens = s[3],
                                                    .key_tokens = s[4],
                                                    .head_dim = s[5],
                                                    .value_dim = s[6],
                                                    .causal = (i + m) % 3 > 0,
                                                    .alignment = (i + m) % 3 == 2 ? HEED_ALIGN_BOTTOM_RIGHT : HEED_ALIGN_TOP_LEFT},
                           modes[m], exec);
    }
}

/* channels: over a cache with scales of channels. */
static void choice_bits(struct pass *pass, const char *name, const struct choice *choice, bool channels,
                        const struct heed_exec *exec) {
    struct rng rng = rng_fixed(name);
    struct attention_case c = case_of(choice, 400000, &rng);
    struct attention_result result = new_attention_result(&c);
    describe_attention(&c, name, exec);
    float *scales = new_channel_scales(&rng, c.request.num_kv_heads * c.request.head_dim, false);
    const struct attention_way cached = {.exec = *exec, .cache = CACHE_LINEAR, .key_channel_scales = scales};
    run_attention_way(&c, channels ? &cached : &(struct attention_way){.exec = *exec}, NULL, &result);
    free(scales);
    for (int part = 0; part < RESULT_PARTS; part++) {
        char text[160];
        snprintf(text, sizeof text, "%s/%s", name, result_part_names[part]);
        if (c.wants[part])
            take_in(pass, text, result.part[part], result_count(&c.request, (enum result_part)part));
    }
    free_attention_case(&c);
    free_attention_result(&result);
}

/* All options at once, at random. */
static void mixed_bits(struct pass *pass, const char *kind, enum heed_compute compute, const struct heed_exec *exec) {
    char name[128];
    for (int mix = 0; mix < 24; mix++) {
        snprintf(name, sizeof name, "options/%s %d", kind, mix);
        struct rng rng = rng_fixed(name);
        struct choice choice = random_choice(&rng);
        choice.level[OPT_THREADS] = 0;
        for (int o = OPT_QUERY_TYPE; o <= OPT_OUTPUT_TYPE; o++)
            choice.level[o] = HEED_F32;
        choice.level[OPT_COMPUTE] = (int)compute;
        if (choice.level[OPT_SOFTCAP])
            snprintf(name, sizeof name, "options/%s %d with softcap", kind, mix);
        choice_bits(pass, name, &choice, false, exec);
    }
}

/* Each level of each option of a request, alone but for a shape of several chunks; then mixed. */
static void all_option_bits(struct pass *pass, const struct heed_exec *exec) {
    char name[128];
    for (int o = OPT_CAUSAL; o < OPT_THREADS; o++) {
        for (int level = 1; level < option_levels((enum option)o); level++) {
            struct choice choice = {.level = {[OPT_SHAPE] = SHAPE_LONG_KEYS, [OPT_CAUSAL] = o == OPT_ALIGNMENT}};
            choice.level[o] = level;
            snprintf(name, sizeof name, "options/%s %s", option_name((enum option)o), level_name((enum option)o, level));
            choice_bits(pass, name, &choice, false, exec);
        }
    }
    mixed_bits(pass, "mix", HEED_COMPUTE_F32, exec);
}

/* One sequence appended to a cache with scales of channels. */
static void append_bits(struct pass *pass, int number, const struct heed_exec *exec) {
    enum { TOKENS = 21, DIM = 70, PAIRS = 33 };
    char name[128];
    snprintf(name, sizeof name, "channels/append %d", number);
    struct rng rng = rng_fixed(name);
    struct append_case c = {.append = {.batch = 1, .tokens = TOKENS, .rope = {.pairs = PAIRS, .table_stride = PAIRS}},
                            .cache = {.key_type = (enum heed_type)(number % 4),
                                      .value_type = (enum heed_type)(number % 4),
                                      .num_pages = 2,
                                      .page_tokens = 16,
                                      .num_kv_heads = 2,
                                      .head_dim = DIM,
                                      .value_dim = 5,
                                      .pages_per_sequence = 2}};
    c.append.rope.positions = TOKENS;
    c.append.rope.interleaved = number / 4;
    c.key = new_filled(&rng, FILL_NORMAL, 2 * TOKENS * DIM);
    c.value = new_filled(&rng, FILL_NORMAL, 2 * TOKENS * 5);
    c.cos = new_filled(&rng, FILL_NORMAL, TOKENS * PAIRS);
    c.sin = new_filled(&rng, FILL_NORMAL, TOKENS * PAIRS);
    c.cache.key_channel_scales = new_channel_scales(&rng, 2 * DIM, false);
    const int64_t floats = kv_cache_floats(&c.cache);
    float *data = new_floats(floats);
    describe_append(&c, exec->isa);
    run_append(&c, exec, &rng, data);
    take_in(pass, name, data, floats);
    free(data);
    free_append_case(&c);
}

/* What is appended to a cache, and attention over one, both with scales of channels. */
static void channel_bits(struct pass *pass, const struct heed_exec *exec) {
    char name[128];
    for (int i = 0; i < 8; i++)
        append_bits(pass, i, exec);
    for (int i = 0; i < 8; i++) {
        struct choice choice = {.level = {[OPT_SHAPE] = SHAPE_LONG_KEYS, [OPT_GROUP] = i % 2, [OPT_COMPUTE] = i / 4}};
        choice.level[OPT_KEY_TYPE] = choice.level[OPT_VALUE_TYPE] = i / 2 % 2 ? HEED_I8 : HEED_F32;
        snprintf(name, sizeof name, "channels/attention %d", i);
        choice_bits(pass, name, &choice, true, exec);
    }
}

/* Attention over caches of bytes, keys or values or both, as integers. */
static void i8_attention_bits(struct pass *pass, const struct heed_exec *exec) {
    char name[128];
    for (int i = 0; i < 12; i++) {
        struct choice choice = {.level = {[OPT_SHAPE] = SHAPE_LONG_KEYS, [OPT_GROUP] = i % 2, [OPT_COMPUTE] = HEED_COMPUTE_I8}};
        choice.level[OPT_KEY_TYPE] = i / 2 % 3 < 2 ? HEED_I8 : HEED_BF16;
        choice.level[OPT_VALUE_TYPE] = i / 2 % 3 > 0 ? HEED_I8 : HEED_F32;
        choice.level[OPT_CAUSAL] = i / 6;
        snprintf(name, sizeof name, "i8/attention %d", i);
        choice_bits(pass, name, &choice, i % 3 == 2, exec);
    }
}

static void exp2_bits(struct pass *pass) {
    enum { COUNT = 20000 };
    float *x = new_floats(COUNT), *y = new_floats(COUNT);
    struct rng rng = rng_fixed("exp2");
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)rng_range(&rng, 0x80000000, 0xc2fd0000);
        memcpy(x + i, &bits, sizeof *x);
    }
    pass->table->exp2(x, COUNT, y);
    take_in(pass, "exp2/20000", y, COUNT);
    free(x);
    free(y);
}

static void all_bits(struct pass *pass) {
    const struct heed_exec exec = {.isa = pass->table->name, .threads = 1};
    exp2_bits(pass);
    all_gemm_bits(pass, HEED_COMPUTE_F32, &exec);
    all_softmax_bits(pass, &exec);
    all_attention_bits(pass, HEED_COMPUTE_F32, &exec);
    all_option_bits(pass, &exec);
    all_norm_bits(pass, &exec);
    all_activation_bits(pass, &exec);
    all_attention_bits(pass, HEED_COMPUTE_BF16, &exec);
    mixed_bits(pass, "bf16 mix", HEED_COMPUTE_BF16, &exec);
    all_gemm_bits(pass, HEED_COMPUTE_BF16, &exec);
    all_gemm_bits(pass, HEED_COMPUTE_BF16_AMX, &exec);
    all_attention_bits(pass, HEED_COMPUTE_BF16_AMX, &exec);
    mixed_bits(pass, "bf16 AMX mix", HEED_COMPUTE_BF16_AMX, &exec);
    channel_bits(pass, &exec);
    all_weight_bits(pass, &exec);
    all_embedding_bits(pass, &exec);
    all_k_embedding_bits(pass, &exec);
    all_rope_bits(pass, &exec);
    i8_attention_bits(pass, &exec);
}

START_TEST(test_bits) {
    const char *path = getenv("HEED_TEST_WRITE_BITS");
    struct pass pass = {.table = heed_kernels_usable(_i)};
    if (path && *path) {
        if (_i > 0)
            return;
        pass.file = fopen(path, "w");
        ck_assert_msg(pass.file, "cannot write %s", path);
        fputs("/* Written by the tests with HEED_TEST_WRITE_BITS: see test_bits.c. */\n", pass.file);
    }
    all_bits(&pass);
    ck_assert_msg(pass.file || !expected[pass.index].name, "bits.txt has more cases, from %s on", expected[pass.index].name);
    if (pass.file)
        ck_assert_int_eq(fclose(pass.file), 0);
    else
        printf("  bits of %-9s %zu cases have the hashes of bits.txt\n", pass.table->name, pass.index);
}
END_TEST

Suite *bits_suite(void) {
    Suite *suite = suite_create("bits");
    TCase *tests = tcase_create("bits");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_bits, 0, usable_tables());
    suite_add_tcase(suite, tests);
    return suite;
}
