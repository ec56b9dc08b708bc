/* Bad requests of everything but attention; what all tests of refusals share. */
#include "api_common.h"
#include "suites.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

float memory[FLOATS];
struct api_numbers numbers;
struct heed_kv_cache cache;
static uint64_t hash_before;

struct heed_gemm legal_gemm(void) {
    return (struct heed_gemm){
        .m = 3, .n = 5, .k = 4, .alpha = 1, .a = memory, .lda = 4, .b = memory + 100, .ldb = 5, .c = memory + 200, .ldc = 5};
}

static const int64_t lengths_out_of_range[] = {1, 6, 2}, negative_lengths[] = {1, 2, -7};

struct heed_softmax legal_softmax(void) {
    return (struct heed_softmax){
        .rows = 3, .columns = 5, .input = memory, .input_stride = 5, .output = memory + 100, .output_stride = 5};
}

/* Of the floats and the numbers. */
static uint64_t hash_all(void) {
    float words[sizeof numbers / sizeof(float)];
    memcpy(words, &numbers, sizeof words);
    return hash_floats(memory, FLOATS) ^ hash_floats(words, sizeof words / sizeof *words);
}

void prepare(void) {
    struct rng rng = rng_fixed("memory");
    fill(&rng, FILL_NORMAL, memory, FLOATS);
    numbers = (struct api_numbers){.query_starts = {0, 1, 3},
                                   .key_starts = {0, 2, 5},
                                   .key_lengths = {2, 3},
                                   .query_offsets = {2, 0},
                                   .tree = {3, 1, 2, 3, 3, 3},
                                   .page_table = {1, 0}};
    memset(numbers.mask, 1, sizeof numbers.mask);
    cache = (struct heed_kv_cache){.data = memory + PAGES,
                                   .num_pages = 2,
                                   .page_tokens = 16,
                                   .num_kv_heads = 2,
                                   .head_dim = 4,
                                   .value_dim = 6,
                                   .pages_per_sequence = 1,
                                   .page_table = numbers.page_table,
                                   .table_stride = 1};
    hash_before = hash_all();
}

float *misaligned(const void *p) { return (float *)((uintptr_t)p + 1); }

void must_refuse(enum heed_status got, enum heed_status want, const char *field, const char *value, const char *request) {
    const char *message = heed_error_message();
    ck_assert_msg(got == want, "%s: status %d (%s)", request, (int)got, heed_status_string(got));
    ck_assert_msg(strstr(message, field), "%s: \"%s\" does not name %s", request, message, field);
    ck_assert_msg(strstr(message, value), "%s: \"%s\" does not say %s", request, message, value);
    ck_assert_msg(hash_all() == hash_before, "%s: touched memory", request);
}

/* Of weights in blocks. */
static struct heed_gemm legal_blocks(void) {
    struct heed_gemm g = legal_gemm();
    g.k = g.lda = g.ldb = 32;
    g.transpose_b = true;
    g.b_type = HEED_Q4_0;
    return g;
}
#define heed_blocks                          heed_gemm
#define REFUSED_BLOCKS(change, field, value) REFUSED(blocks, change, field, value)

START_TEST(test_api_gemm) {
    prepare();
    must_refuse(heed_gemm(NULL, NULL), HEED_INVALID_ARGUMENT, "gemm", "NULL", "NULL");
    REFUSED(gemm, r.m = -1, "m", "-1");
    REFUSED(gemm, r.n = -5, "n", "-5");
    REFUSED(gemm, r.k = INT64_MIN, "k", "-9223372036854775808");
    REFUSED(gemm, r.lda = 3, "lda", "3");
    REFUSED(gemm, (r.transpose_a = true, r.lda = 2), "lda", "2");
    REFUSED(gemm, r.ldb = 4, "ldb", "4");
    REFUSED(gemm, (r.transpose_b = true, r.ldb = 3), "ldb", "3");
    REFUSED(gemm, r.ldc = 4, "ldc", "4");
    REFUSED(gemm, r.ldc = -5, "ldc", "-5");
    REFUSED(gemm, r.a = NULL, "a", "NULL");
    REFUSED(gemm, r.b = NULL, "b", "NULL");
    REFUSED(gemm, r.c = NULL, "c", "NULL");
    REFUSED(gemm, r.a = misaligned(memory), "a", "align");
    REFUSED(gemm, r.c = misaligned(memory), "c", "align");
    REFUSED(gemm, r.packed_b = misaligned(memory), "packed_b", "align");
    REFUSED(gemm, r.c = memory + 11, "c", "overlap");
    REFUSED(gemm, r.c = memory + 119, "c", "overlap");
    REFUSED(gemm, r.packed_b = memory + 200, "c", "overlap");
    REFUSED(gemm, r.m = INT64_MAX, "c", "9223372036854775807");
    REFUSED(gemm, r.lda = INT64_MAX, "a", "9223372036854775807");
    REFUSED(gemm, (r.k = INT64_MAX / 4, r.lda = INT64_MAX / 4), "a", "2305843009213693951");
    REFUSED(gemm, (r.packed_b = memory, r.k = INT64_MAX / 64, r.lda = INT64_MAX / 64), "", "");
    REFUSED(gemm, r.compute = (enum heed_compute)4, "compute", "4");
    REFUSED(gemm, r.compute = HEED_COMPUTE_I8, "b_type", "f32");
    REFUSED(gemm, (r.compute = HEED_COMPUTE_I8, r.b_type = HEED_I8), "b_type", "i8");
    REFUSED(gemm, memset(&r.compute, 0xff, sizeof r.compute), "compute", "-1");
    REFUSED(gemm, r.a_type = (enum heed_type)99, "a_type", "99");
    REFUSED(gemm, r.b_type = (enum heed_type)99, "b_type", "99");
    REFUSED(gemm, r.c_type = (enum heed_type) - 1, "c_type", "-1");
    REFUSED(gemm, (r.b_type = HEED_BF16, r.packed_b = misaligned(memory)), "packed_b", "align");
    REFUSED(gemm, (r.a_type = HEED_F16, r.a = misaligned(memory)), "a", "align");
    REFUSED(gemm, (r.a_type = HEED_BF16, r.c = memory + 5), "c", "overlap"); /* a ends after 24 bytes, c after 60 */
    REFUSED(gemm, (r.c_type = HEED_BF16, r.c = memory + 93), "b", "overlap");
    REFUSED(gemm, (r.b_type = HEED_F16, r.packed_b = memory + 200 - 127), "c", "overlap");
    REFUSED(gemm, (r.a_type = HEED_BF16, r.lda = INT64_MAX / 2), "a", "4611686018427387903");
    REFUSED(gemm, r.a_type = HEED_I8, "a_type", "3");
    REFUSED(gemm, r.c_type = HEED_Q4_0, "c_type", "5");
    REFUSED(gemm, r.b_type = (enum heed_type)12, "b_type", "12");
    REFUSED(gemm, r.b_scales = memory, "b_scales", "NULL");
    REFUSED(gemm, (r.b_scales = memory, r.m = r.k = r.n = r.lda = r.ldb = r.ldc = 200), "b_scales", "NULL"); /* no small call */
    REFUSED(gemm, r.b_type = HEED_I8, "b_scales", "NULL");
    REFUSED(gemm, (r.b_type = HEED_I8, r.b_scales = misaligned(memory)), "b_scales", "align");
    REFUSED(gemm, (r.b_type = HEED_I8, r.b_scales = memory + 196), "b_scales", "overlap");
    REFUSED(gemm, (r.b_type = HEED_I8, r.b_scales = memory, r.ldb = 4), "ldb", "4");
    REFUSED(gemm, (r.b_type = HEED_I8, r.b_scales = memory, r.b = (char *)memory + 4 * 200 - 19), "b", "overlap");
    REFUSED_BLOCKS(r.transpose_b = false, "transpose_b", "false");
    REFUSED_BLOCKS(r.k = 31, "k", "31");
    REFUSED_BLOCKS((r.k = 48, r.packed_b = memory), "k", "48");
    REFUSED_BLOCKS(r.ldb = 40, "ldb", "40");
    REFUSED_BLOCKS(r.ldb = 0, "ldb", "0");
    REFUSED_BLOCKS(r.ldb = INT64_MAX / 32 * 32, "b", "too large");
    REFUSED_BLOCKS(r.b_scales = memory, "b_scales", "q4_0");
    REFUSED_BLOCKS(r.b = misaligned(memory), "b", "align");
    REFUSED_BLOCKS(r.packed_b = misaligned(memory), "packed_b", "align");
    REFUSED_BLOCKS(r.b = NULL, "b", "NULL");
    REFUSED_BLOCKS(r.b = (char *)memory + 4 * 200 - 5 * 18 + 2, "b", "overlap");
    REFUSED_BLOCKS(r.packed_b = memory + 214, "packed_b", "overlap");
    ACCEPTED(gemm, (r.b_type = HEED_I8, r.b_scales = memory + 195));
    ACCEPTED(gemm, (r.b_type = HEED_I8, r.b_scales = memory, r.b = (char *)memory + 4 * 200 - 20));
    ACCEPTED(gemm, (r.b_type = HEED_I8, r.k = 0)); /* nothing is read */
    ACCEPTED(blocks, (void)0);
    ACCEPTED(blocks, r.b = (char *)memory + 4 * 200 - 5 * 18);
    ACCEPTED(blocks, (r.n = 1, r.ldb = INT64_MAX / 32 * 32)); /* of a single row */
    ACCEPTED(gemm, (r.n = 1, r.transpose_b = true, r.ldb = INT64_MAX));
    ACCEPTED(gemm, (r.m = 1, r.lda = r.ldc = INT64_MAX));
    ACCEPTED(gemm, (r.a_type = HEED_BF16, r.c = memory + 6));
    ACCEPTED(gemm, (r.c_type = HEED_BF16, r.c = memory + 92));
    ACCEPTED(gemm, (r.b_type = HEED_F16, r.packed_b = memory + 200 - 128));
    ACCEPTED(gemm, (r.c = (void *)((char *)memory + 802), r.c_type = HEED_F16)); /* aligned to 2 bytes */
    ACCEPTED(gemm, (void)0);
    ACCEPTED(gemm, (r.m = 0, r.a = NULL, r.c = NULL));
    ACCEPTED(gemm, (r.n = 0, r.b = NULL, r.c = NULL, r.ldb = r.ldc = 0));
    ACCEPTED(gemm, (r.k = 0, r.a = NULL, r.b = NULL, r.lda = 0));
    ACCEPTED(gemm, (r.alpha = 0, r.a = NULL, r.b = NULL));
    ACCEPTED(gemm, r.b = r.a);                                                    /* inputs may overlap */
    ACCEPTED(gemm, (r.lda = 9, r.ldc = 9, r.c = memory + 4, r.b = memory + 100)); /* c beside a in the same rows */
}
END_TEST

START_TEST(test_api_gemm_pack_b) {
    prepare();
    struct heed_gemm r = legal_gemm();
    float *to = memory + 200;
    must_refuse(heed_gemm_pack_b(NULL, to, NULL), HEED_INVALID_ARGUMENT, "gemm", "NULL", "pack_b of NULL");
    must_refuse(heed_gemm_pack_b(&r, NULL, NULL), HEED_INVALID_ARGUMENT, "packed_b", "NULL", "pack_b to NULL");
    must_refuse(heed_gemm_pack_b(&r, memory + 119, NULL), HEED_INVALID_ARGUMENT, "packed_b", "overlap", "pack_b onto b");
    r.ldb = 4;
    must_refuse(heed_gemm_pack_b(&r, to, NULL), HEED_INVALID_ARGUMENT, "ldb", "4", "pack_b with ldb 4");
    r.k = -4;
    must_refuse(heed_gemm_pack_b(&r, to, NULL), HEED_INVALID_ARGUMENT, "k", "-4", "pack_b with k -4");
    r = legal_gemm();
    r.b_type = (enum heed_type)99;
    must_refuse(heed_gemm_pack_b(&r, to, NULL), HEED_INVALID_ARGUMENT, "b_type", "99", "pack_b with b_type 99");
    r = legal_gemm();
    r.n = r.ldb = INT64_MAX;
    must_refuse(heed_gemm_pack_b(&r, to, NULL), HEED_INVALID_ARGUMENT, "", "9223372036854775807", "pack_b with n INT64_MAX");
    r = legal_blocks();
    r.k = 33;
    must_refuse(heed_gemm_pack_b(&r, to, NULL), HEED_INVALID_ARGUMENT, "k", "33", "pack_b of part of a block");
    r = legal_blocks();
    r.transpose_b = false;
    must_refuse(heed_gemm_pack_b(&r, to, NULL), HEED_INVALID_ARGUMENT, "transpose_b", "false", "pack_b of blocks in rows");
    r = (struct heed_gemm){.n = 0, .k = 3};
    ck_assert_int_eq(heed_gemm_pack_b(&r, NULL, NULL), HEED_OK);
}
END_TEST

START_TEST(test_api_softmax) {
    prepare();
    must_refuse(heed_softmax(NULL, NULL), HEED_INVALID_ARGUMENT, "softmax", "NULL", "NULL");
    REFUSED(softmax, r.rows = -1, "rows", "-1");
    REFUSED(softmax, r.columns = -5, "columns", "-5");
    REFUSED(softmax, r.scale = INFINITY, "scale", "inf");
    REFUSED(softmax, r.scale = NAN, "scale", "nan");
    REFUSED(softmax, r.input = NULL, "input", "NULL");
    REFUSED(softmax, r.output = NULL, "output", "NULL");
    REFUSED(softmax, r.input = misaligned(memory), "input", "align");
    REFUSED(softmax, r.output = misaligned(memory), "output", "align");
    REFUSED(softmax, r.input_stride = -5, "input_stride", "-5");
    REFUSED(softmax, r.output_stride = 4, "output_stride", "4");
    REFUSED(softmax, r.lengths = lengths_out_of_range, "lengths[1]", "6");
    REFUSED(softmax, r.lengths = negative_lengths, "lengths[2]", "-7");
    REFUSED(softmax, r.output = memory + 1, "output", "overlap");
    REFUSED(softmax, (r.output = memory, r.output_stride = 6), "output", "overlap");
    REFUSED(softmax, (r.rows = (int64_t)1 << 58, r.output_stride = 16), "output", "288230376151711744");
    REFUSED(softmax, (r.columns = r.input_stride = r.output_stride = INT64_MAX), "input", "9223372036854775807");
    ACCEPTED(softmax, (void)0);
    ACCEPTED(softmax, r.output = memory);
    ACCEPTED(softmax, (r.rows = 0, r.input = NULL, r.output = NULL));
    ACCEPTED(softmax, (r.columns = 0, r.input = NULL, r.output = NULL));
    ACCEPTED(softmax, (r.input_stride = r.output_stride = 10, r.output = memory + 5));
}
END_TEST

static int two(void *pool) {
    (void)pool;
    return 2;
}

static void run_nothing(void *pool, int count, void (*task)(void *context, int index), void *context) {
    (void)pool;
    while (count-- > 0)
        task(context, count);
}

START_TEST(test_api_exec) {
    prepare();
    struct heed_attention attention = legal_attention();
    struct heed_gemm gemm = legal_gemm();
    struct heed_softmax softmax = legal_softmax();
    const struct {
        struct heed_exec exec;
        enum heed_status status;
        const char *field, *value;
    } bad[] = {
        {{.threads = -1}, HEED_INVALID_ARGUMENT, "exec.threads", "-1"},
        {{.threads = 1025}, HEED_INVALID_ARGUMENT, "exec.threads", "1025"},
        {{.run = run_nothing}, HEED_INVALID_ARGUMENT, "exec.num_threads", "NULL"},
        {{.num_threads = two}, HEED_INVALID_ARGUMENT, "exec.run", "NULL"},
        {{.pool = memory}, HEED_INVALID_ARGUMENT, "exec.run", "exec.pool"},
        {{.isa = "sse2"}, HEED_UNSUPPORTED_ISA, "exec.isa", "sse2"},
        {{.isa = "%s%n"}, HEED_UNSUPPORTED_ISA, "exec.isa", "%s%n"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        must_refuse(heed_attention(&attention, &bad[i].exec), bad[i].status, bad[i].field, bad[i].value, "attention");
        must_refuse(heed_gemm(&gemm, &bad[i].exec), bad[i].status, bad[i].field, bad[i].value, "gemm");
        must_refuse(heed_gemm_pack_b(&gemm, memory + 200, &bad[i].exec), bad[i].status, bad[i].field, bad[i].value, "gemm_pack_b");
        must_refuse(heed_softmax(&softmax, &bad[i].exec), bad[i].status, bad[i].field, bad[i].value, "softmax");
    }
    ck_assert_int_eq(heed_gemm(&gemm, &(struct heed_exec){.threads = 1024}), HEED_OK);
    ck_assert_int_eq(heed_gemm(&gemm, &(struct heed_exec){.num_threads = two, .run = run_nothing}), HEED_OK);
}
END_TEST

static void *look_for_a_message(void *found) {
    *(bool *)found = *heed_error_message() != '\0';
    return NULL;
}

START_TEST(test_api_strings) {
    pthread_t fresh;
    bool found;
    ck_assert_int_eq(pthread_create(&fresh, NULL, look_for_a_message, &found), 0);
    ck_assert_int_eq(pthread_join(fresh, NULL), 0);
    ck_assert(!found);
    for (int status = -3; status < 10; status++)
        ck_assert(heed_status_string((enum heed_status)status) && *heed_status_string((enum heed_status)status));
    ck_assert_str_ne(heed_status_string(HEED_OK), heed_status_string(HEED_INVALID_ARGUMENT));
    ck_assert_str_ne(heed_status_string(HEED_UNSUPPORTED_ISA), heed_status_string(HEED_OUT_OF_MEMORY));
    heed_gemm(NULL, NULL);
    struct heed_gemm gemm = legal_gemm();
    ck_assert_int_eq(heed_gemm(&gemm, NULL), HEED_OK);
    ck_assert_ptr_nonnull(strstr(heed_error_message(), "gemm is NULL")); /* success does not clear it */
}
END_TEST

START_TEST(test_api_version) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", HEED_VERSION_NUMBER / 10000, HEED_VERSION_NUMBER / 100 % 100,
             HEED_VERSION_NUMBER % 100);
    ck_assert_str_eq(text, HEED_VERSION);
    ck_assert_str_eq(heed_version(), HEED_VERSION);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* whose allocators end the program instead */
static float *at(uintptr_t address) { return (float *)address; }

/* A petabyte of workspace, for tensors that do not exist: it must be refused before any of them is read. */
START_TEST(test_api_out_of_memory) {
    struct heed_attention a = {
        .batch = 1024, .num_heads = 1, .num_kv_heads = 1, .query_tokens = 1, .key_tokens = 1, .value_dim = 1};
    a.head_dim = INT32_MAX;
    a.query = (struct heed_input){at((uintptr_t)1 << 40), 0, 0, 0, HEED_F32};
    a.key = (struct heed_input){at((uintptr_t)1 << 41), 0, 0, 0, HEED_F32};
    a.value = (struct heed_input){at((uintptr_t)1 << 42), 0, 0, 0, HEED_F32};
    a.output = (struct heed_output){at((uintptr_t)1 << 43), 1, 1, 1, HEED_F32};
    ck_assert_int_eq(heed_attention(&a, &(struct heed_exec){.threads = 1024}), HEED_OUT_OF_MEMORY);
    struct heed_gemm g = {.m = 1, .n = 1, .transpose_b = true, .alpha = 1, .a_type = HEED_BF16, .b_type = HEED_BF16};
    g.k = g.lda = g.ldb = (int64_t)1 << 58, g.ldc = 1;
    g.a = at((uintptr_t)1 << 60), g.b = at((uintptr_t)1 << 61), g.c = at((uintptr_t)1 << 40);
    for (enum heed_compute compute = HEED_COMPUTE_F32; compute <= HEED_COMPUTE_I8; compute++) {
        g.compute = compute;
        g.b_type = compute == HEED_COMPUTE_I8 ? HEED_Q8_0 : HEED_BF16;
        ck_assert_msg(heed_gemm(&g, NULL) == HEED_OUT_OF_MEMORY, "%s", heed_error_message());
    }
    ck_assert_ptr_nonnull(strstr(heed_error_message(), "no memory"));
}
END_TEST
#endif

Suite *api_suite(void) {
    Suite *suite = suite_create("api");
    TCase *tests = tcase_create("api");
    tcase_add_test(tests, test_api_strings);
    tcase_add_test(tests, test_api_version);
    tcase_add_test(tests, test_api_gemm);
    tcase_add_test(tests, test_api_gemm_pack_b);
    tcase_add_test(tests, test_api_softmax);
    tcase_add_test(tests, test_api_exec);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tests, test_api_out_of_memory);
#endif
    add_attention_refusals(tests);
    add_option_refusals(tests);
    add_cache_refusals(tests);
    add_plan_refusals(tests);
    add_merge_refusals(tests);
    add_norm_refusals(tests);
    add_activate_refusals(tests);
    add_linear_refusals(tests);
    add_embedding_refusals(tests);
    add_rope_refusals(tests);
    suite_add_tcase(suite, tests);
    return suite;
}
