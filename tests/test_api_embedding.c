/* Bad requests of heed_embedding. */
#include "api_common.h"

#include <math.h>

static struct heed_lookup lookup[2];
static int32_t ids[2][4];

/* Rows of 32 of a table of floats and one of bytes with scales. */
static struct heed_embedding legal_embedding(void) {
    for (int i = 0; i < 8; i++)
        ids[i / 4][i % 4] = i % 3;
    lookup[0] = (struct heed_lookup){.data = memory, .rows = 5, .stride = 32, .ids = ids[0]};
    lookup[1] = (struct heed_lookup){
        .data = memory + 200, .rows = 3, .stride = 32, .type = HEED_I8, .scales = memory + 300, .ids = ids[1], .factor = 2};
    return (struct heed_embedding){
        .rows = 4, .columns = 32, .tables = 2, .lookup = lookup, .output = {.data = memory + 400, .token_stride = 32}};
}

START_TEST(test_api_embedding_refuses) {
    prepare();
    must_refuse(heed_embedding(NULL, NULL), HEED_INVALID_ARGUMENT, "embedding", "NULL", "NULL");
    must_refuse(heed_embedding(&(struct heed_embedding){0}, &(struct heed_exec){.isa = "mmx"}), HEED_UNSUPPORTED_ISA, "isa", "mmx",
                "isa");
    REFUSED(embedding, r.rows = -1, "rows", "-1");
    REFUSED(embedding, r.columns = -5, "columns", "-5");
    REFUSED(embedding, r.tables = -2, "tables", "-2");
    REFUSED(embedding, r.lookup = NULL, "lookup", "2");
    REFUSED(embedding, r.output.data = NULL, "output", "NULL");
    REFUSED(embedding, r.output.data = misaligned(memory + 400), "output", "align");
    REFUSED(embedding, r.output.type = HEED_I8, "output.type", "3");
    REFUSED(embedding, r.output.token_stride = 31, "output.token_stride", "31");
    REFUSED(embedding, (r.rows = (int64_t)1 << 58, r.output.token_stride = 32), "output", "288230376151711744");
}
END_TEST

START_TEST(test_api_embedding_refuses_tables) {
    prepare();
    REFUSED(embedding, lookup[1].data = NULL, "lookup[1].data", "NULL");
    REFUSED(embedding, lookup[0].data = misaligned(memory), "lookup[0].data", "align");
    REFUSED(embedding, lookup[0].rows = -1, "lookup[0].rows", "-1");
    REFUSED(embedding, lookup[1].rows = 0, "lookup[1].rows", "0");
    REFUSED(embedding, lookup[0].rows = (int64_t)1 << 58, "lookup[0].data", "288230376151711744");
    REFUSED(embedding, lookup[1].stride = -1, "lookup[1].stride", "-1");
    REFUSED(embedding, lookup[1].type = (enum heed_type)12, "lookup[1].type", "12");
    REFUSED(embedding, lookup[1].type = (enum heed_type) - 1, "lookup[1].type", "");
    REFUSED(embedding, lookup[1].scales = NULL, "lookup[1].scales", "NULL");
    REFUSED(embedding, lookup[0].scales = memory, "lookup[0].scales", "f32");
    REFUSED(embedding, lookup[1].factor = INFINITY, "lookup[1].factor", "inf");
    REFUSED(embedding, lookup[0].factor = NAN, "lookup[0].factor", "nan");
    REFUSED(embedding, lookup[0].ids = NULL, "lookup[0].ids", "NULL");
    REFUSED(embedding, lookup[0].ids = (const void *)misaligned(ids[0]), "lookup[0].ids", "align");
    REFUSED(embedding, ids[1][3] = -7, "lookup[1].ids[3]", "-7");
    REFUSED(embedding, ids[0][0] = 5, "lookup[0].ids[0]", "5");
    REFUSED(embedding, ids[0][2] = INT32_MAX, "lookup[0].ids[2]", "2147483647");
    REFUSED(embedding, (lookup[0].type = HEED_Q8_0, lookup[0].stride = 48), "lookup[0].stride", "48");
    REFUSED(embedding, (lookup[0].type = HEED_Q4_0, r.columns = 30), "columns", "30");
    REFUSED(embedding, lookup[0].type = HEED_Q6_K, "columns", "256");
    REFUSED(embedding, lookup[0].type = (enum heed_type)12, "lookup[0].type", "12");
    REFUSED(embedding, (lookup[0].type = HEED_Q4_0, lookup[0].data = (const char *)memory + 1), "lookup[0].data", "align");
}
END_TEST

START_TEST(test_api_embedding_overlaps) {
    prepare();
    REFUSED(embedding, r.output.data = memory, "output", "lookup[0].data");
    REFUSED(embedding, r.output.data = memory + 215, "output", "lookup[1].data");
    REFUSED(embedding, r.output.data = memory + 302, "output", "lookup[1].scales");
    REFUSED(embedding, lookup[0].ids = (const int32_t *)(const void *)(memory + 527), "output", "lookup[0].ids");
    REFUSED(embedding, r.output.token_stride = 5, "output", "rows overlap");
}
END_TEST

START_TEST(test_api_embedding_accepts) {
    prepare();
    ACCEPTED(embedding, (void)0);
    ACCEPTED(embedding, (r.tables = 0, r.lookup = NULL));
    ACCEPTED(embedding, lookup[0].stride = 0);
    ACCEPTED(embedding, (lookup[1].type = HEED_Q8_0, lookup[1].scales = NULL));
    ACCEPTED(embedding, (r.rows = 0, r.output.data = NULL, lookup[0] = lookup[1] = (struct heed_lookup){0}));
    ACCEPTED(embedding, (r.columns = 0, r.output.data = NULL, lookup[0] = lookup[1] = (struct heed_lookup){0}));
    ACCEPTED(embedding, (r.rows = 1, r.output.token_stride = 0));
    ACCEPTED(embedding, (lookup[0].rows = 1, lookup[0].stride = INT64_MAX, ids[0][1] = ids[0][2] = 0));
}
END_TEST

void add_embedding_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_embedding_refuses);
    tcase_add_test(tests, test_api_embedding_refuses_tables);
    tcase_add_test(tests, test_api_embedding_overlaps);
    tcase_add_test(tests, test_api_embedding_accepts);
}
