/* Bad requests: each gives its status and a message with the field and its value, and no output is touched.  Requests without
 * elements are legal whatever their pointers are. */
#include "harness.h"
#include "suites.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A legal attention: B2 H4 KV2 Q3 K5 D4 V6, all tensors contiguous in `memory`, which stays as it is when a request is refused. */
enum {
    QUERY = 0,
    KEY = QUERY + 96,
    VALUE = KEY + 80,
    OUTPUT = VALUE + 120,
    WEIGHTS = OUTPUT + 144,
    LSE = WEIGHTS + 120,
    FLOATS = LSE + 24
};
static float memory[FLOATS];

static struct heed_attention legal_attention(void) {
    return (struct heed_attention){.batch = 2,
                                   .num_heads = 4,
                                   .num_kv_heads = 2,
                                   .query_tokens = 3,
                                   .key_tokens = 5,
                                   .head_dim = 4,
                                   .value_dim = 6,
                                   .query = {memory + QUERY, 48, 12, 4},
                                   .key = {memory + KEY, 40, 20, 4},
                                   .value = {memory + VALUE, 60, 30, 6},
                                   .output = {memory + OUTPUT, 72, 18, 6},
                                   .weights = {memory + WEIGHTS, 60, 15, 5},
                                   .lse = {memory + LSE, 12, 3, 1}};
}

static struct heed_gemm legal_gemm(void) {
    return (struct heed_gemm){
        .m = 3, .n = 5, .k = 4, .alpha = 1, .a = memory, .lda = 4, .b = memory + 100, .ldb = 5, .c = memory + 200, .ldc = 5};
}

static const int64_t lengths_out_of_range[] = {1, 6, 2}, negative_lengths[] = {1, 2, -7};

static struct heed_softmax legal_softmax(void) {
    return (struct heed_softmax){
        .rows = 3, .columns = 5, .input = memory, .input_stride = 5, .output = memory + 100, .output_stride = 5};
}

static void fill_memory(void) {
    struct rng rng = rng_fixed("memory");
    fill(&rng, FILL_NORMAL, memory, FLOATS);
}

static uint64_t hash_before;

static void must_refuse(enum heed_status got, enum heed_status want, const char *field, const char *value, const char *request) {
    const char *message = heed_error_message();
    ck_assert_msg(got == want, "%s: status %d (%s)", request, (int)got, heed_status_string(got));
    ck_assert_msg(strstr(message, field), "%s: \"%s\" does not name %s", request, message, field);
    ck_assert_msg(strstr(message, value), "%s: \"%s\" does not say %s", request, message, value);
    ck_assert_msg(hash_floats(memory, FLOATS) == hash_before, "%s: touched memory", request);
}

/* One line for each refusal: what is changed in the legal request, what the message must name and say. */
#define REFUSED(kind, change, field, value)                                                                                        \
    do {                                                                                                                           \
        struct heed_##kind r = legal_##kind();                                                                                     \
        change;                                                                                                                    \
        must_refuse(heed_##kind(&r, NULL), HEED_INVALID_ARGUMENT, field, value, #kind " with " #change);                           \
    } while (0)
#define ACCEPTED(kind, change)                                                                                                     \
    do {                                                                                                                           \
        struct heed_##kind r = legal_##kind();                                                                                     \
        change;                                                                                                                    \
        ck_assert_msg(heed_##kind(&r, NULL) == HEED_OK, #kind " with " #change ": %s", heed_error_message());                      \
    } while (0)

static void prepare(void) {
    fill_memory();
    hash_before = hash_floats(memory, FLOATS);
}

static float *misaligned(float *p) { return (float *)(void *)((char *)p + 1); }

START_TEST(test_api_attention_sizes) {
    prepare();
    must_refuse(heed_attention(NULL, NULL), HEED_INVALID_ARGUMENT, "attention", "NULL", "NULL");
    REFUSED(attention, r.batch = -1, "batch", "-1");
    REFUSED(attention, r.num_heads = -4, "num_heads", "-4");
    REFUSED(attention, r.num_kv_heads = -2, "num_kv_heads", "-2");
    REFUSED(attention, r.num_kv_heads = 0, "num_kv_heads", "0");
    REFUSED(attention, r.num_kv_heads = 3, "num_kv_heads", "3");
    REFUSED(attention, r.num_kv_heads = 8, "num_kv_heads", "8");
    REFUSED(attention, r.query_tokens = -3, "query_tokens", "-3");
    REFUSED(attention, r.key_tokens = INT64_MIN, "key_tokens", "-9223372036854775808");
    REFUSED(attention, r.head_dim = 0, "head_dim", "0");
    REFUSED(attention, r.head_dim = -1, "head_dim", "-1");
    REFUSED(attention, r.value_dim = 0, "value_dim", "0");
    REFUSED(attention, r.value_dim = -6, "value_dim", "-6");
    REFUSED(attention, r.batch = INT64_MAX, "query", "9223372036854775807");
    REFUSED(attention, r.query_tokens = INT64_MAX, "query_tokens", "9223372036854775807");
    REFUSED(attention, r.key_tokens = INT64_MAX / 4, "key_tokens", "2305843009213693951");
    REFUSED(attention, r.head_dim = INT64_MAX, "head_dim", "9223372036854775807");
    REFUSED(attention, r.value_dim = INT64_MAX, "value_dim", "9223372036854775807");
    REFUSED(attention, r.scale = NAN, "scale", "nan");
    REFUSED(attention, r.scale = -INFINITY, "scale", "-inf");
    REFUSED(attention, r.alignment = (enum heed_alignment)3, "alignment", "3");
    REFUSED(attention, memset(&r.alignment, 0xff, sizeof r.alignment), "alignment", "-1");
}
END_TEST

START_TEST(test_api_attention_tensors) {
    prepare();
    REFUSED(attention, r.query.data = NULL, "query", "NULL");
    REFUSED(attention, r.key.data = NULL, "key", "NULL");
    REFUSED(attention, r.value.data = NULL, "value", "NULL");
    REFUSED(attention, r.output.data = r.weights.data = r.lse.data = NULL, "output", "NULL");
    REFUSED(attention, r.query.data = misaligned(memory + QUERY), "query", "align");
    REFUSED(attention, r.output.data = misaligned(memory + OUTPUT), "output", "align");
    REFUSED(attention, r.query.token_stride = -4, "query.token_stride", "-4");
    REFUSED(attention, r.key.head_stride = -20, "key.head_stride", "-20");
    REFUSED(attention, r.value.batch_stride = INT64_MIN, "value.batch_stride", "-9223372036854775808");
    REFUSED(attention, r.output.token_stride = -6, "output.token_stride", "-6");
    REFUSED(attention, r.lse.head_stride = -3, "lse.head_stride", "-3");
    REFUSED(attention, r.key.token_stride = INT64_MAX, "key", "9223372036854775807");
    REFUSED(attention, r.output.batch_stride = INT64_MAX / 2, "output", "4611686018427387903");
    REFUSED(attention, r.weights.head_stride = INT64_MAX / 8, "weights", "1152921504606846975");
}
END_TEST

/* One head of 5 queries and keys, keys and outputs in rows of one buffer. */
static void interleave(struct heed_attention *a, int64_t row) {
    a->batch = a->num_heads = a->num_kv_heads = 1;
    a->query_tokens = 5;
    a->query = (struct heed_input){memory + OUTPUT, 0, 0, 4};
    a->value = (struct heed_input){memory, 0, 0, 6};
    a->key.token_stride = a->output.token_stride = row;
    a->weights.data = a->lse.data = NULL;
}

START_TEST(test_api_attention_overlaps) {
    prepare();
    REFUSED(attention, r.output.token_stride = 5, "output.token_stride", "5");
    REFUSED(attention, r.output.head_stride = 17, "output.head_stride", "17");
    REFUSED(attention, r.output.batch_stride = 0, "output.batch_stride", "0");
    REFUSED(attention, r.weights.token_stride = 4, "weights.token_stride", "4");
    REFUSED(attention, r.lse.token_stride = 0, "lse.token_stride", "0");
    REFUSED(attention, r.output.data = memory + QUERY, "output", "query");
    REFUSED(attention, r.output.data = memory + KEY + 79, "output", "key");
    REFUSED(attention, r.output.data = memory + OUTPUT - 1, "output", "value");
    REFUSED(attention, r.weights.data = memory + OUTPUT + 143, "weights", "output");
    REFUSED(attention, r.lse.data = memory + WEIGHTS + 119, "lse", "weights");
    REFUSED(attention, r.lse.data = memory + QUERY, "lse", "query");
    /* interleaved, but by one column too little: rows [k0..3 o0..5], then [o0..5 k0..3], of 9 instead of 10 */
    REFUSED(attention, (interleave(&r, 9), r.output.data = memory + KEY + 4), "output", "key");
    REFUSED(attention, (interleave(&r, 9), r.output.data = memory + KEY, r.key.data = memory + KEY + 6), "output", "key");
}
END_TEST

START_TEST(test_api_attention_legal) {
    prepare();
    ACCEPTED(attention, (void)0);
    ACCEPTED(attention, r.scale = -1);
    ACCEPTED(attention, (r.query.batch_stride = 0, r.key.head_stride = 0, r.value.token_stride = 0));
    ACCEPTED(attention, (r.weights.data = NULL, r.weights.token_stride = 0, r.lse.data = NULL));
    ACCEPTED(attention, (r.batch = 0, r.query.data = NULL, r.key.data = NULL, r.value.data = NULL, r.output.data = NULL));
    ACCEPTED(attention, (r.num_heads = 0, r.num_kv_heads = 0, r.query.data = NULL, r.output.data = NULL));
    ACCEPTED(attention, (r.num_heads = 0, r.num_kv_heads = 2));
    ACCEPTED(attention, (r.query_tokens = 0, r.query.data = NULL, r.output.data = NULL));
    ACCEPTED(attention, (r.key_tokens = 0, r.key.data = NULL, r.value.data = NULL));
    ACCEPTED(attention, (r.batch = 1, r.output.batch_stride = 0)); /* a stride that is never stepped over */
    ACCEPTED(attention, (interleave(&r, 10), r.output.data = memory + KEY + 4));
    ACCEPTED(attention, (interleave(&r, 10), r.output.data = memory + KEY, r.key.data = memory + KEY + 6));
}
END_TEST

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
    r.n = r.ldb = INT64_MAX;
    must_refuse(heed_gemm_pack_b(&r, to, NULL), HEED_INVALID_ARGUMENT, "", "9223372036854775807", "pack_b with n INT64_MAX");
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
        {{.isa = "sse2"}, HEED_UNSUPPORTED_ISA, "exec.isa", "sse2"},
        {{.isa = "%s%n"}, HEED_UNSUPPORTED_ISA, "exec.isa", "%s%n"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        must_refuse(heed_attention(&attention, &bad[i].exec), bad[i].status, bad[i].field, bad[i].value, "attention");
        must_refuse(heed_gemm(&gemm, &bad[i].exec), bad[i].status, bad[i].field, bad[i].value, "gemm");
        must_refuse(heed_gemm_pack_b(&gemm, memory + 200, &bad[i].exec), bad[i].status, bad[i].field, bad[i].value, "gemm_pack_b");
        must_refuse(heed_softmax(&softmax, &bad[i].exec), bad[i].status, bad[i].field, bad[i].value, "softmax");
    }
    ck_assert_int_eq(heed_gemm(&gemm, &(struct heed_exec){.threads = 1024, .num_threads = two}), HEED_OK);
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* whose allocators end the program instead */
static float *at(uintptr_t address) { return (float *)address; }

/* A petabyte of workspace, for tensors that do not exist: it must be refused before any of them is read. */
START_TEST(test_api_out_of_memory) {
    struct heed_attention a = {
        .batch = 1024, .num_heads = 1, .num_kv_heads = 1, .query_tokens = 1, .key_tokens = 1, .value_dim = 1};
    a.head_dim = INT32_MAX;
    a.query = (struct heed_input){at((uintptr_t)1 << 40), 0, 0, 0};
    a.key = (struct heed_input){at((uintptr_t)1 << 41), 0, 0, 0};
    a.value = (struct heed_input){at((uintptr_t)1 << 42), 0, 0, 0};
    a.output = (struct heed_output){at((uintptr_t)1 << 43), 1, 1, 1};
    ck_assert_int_eq(heed_attention(&a, &(struct heed_exec){.threads = 1024}), HEED_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(heed_error_message(), "floats"));
}
END_TEST
#endif

Suite *api_suite(void) {
    Suite *suite = suite_create("api");
    TCase *tests = tcase_create("api");
    tcase_add_test(tests, test_api_strings);
    tcase_add_test(tests, test_api_attention_sizes);
    tcase_add_test(tests, test_api_attention_tensors);
    tcase_add_test(tests, test_api_attention_overlaps);
    tcase_add_test(tests, test_api_attention_legal);
    tcase_add_test(tests, test_api_gemm);
    tcase_add_test(tests, test_api_gemm_pack_b);
    tcase_add_test(tests, test_api_softmax);
    tcase_add_test(tests, test_api_exec);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tests, test_api_out_of_memory);
#endif
    suite_add_tcase(suite, tests);
    return suite;
}
