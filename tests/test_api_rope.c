/* Bad requests of heed_rope and heed_rope_fill. */
#include "api_common.h"

#include <math.h>

static int64_t starts[3], positions[2];

/* B2 H3 T4 D5, two pairs, 6 rows of tables. */
static struct heed_rope legal_rope(void) {
    starts[0] = 0, starts[1] = 1, starts[2] = 4;
    positions[0] = 2, positions[1] = 1;
    return (struct heed_rope){
        .batch = 2,
        .num_heads = 3,
        .tokens = 4,
        .head_dim = 5,
        .positions = positions,
        .tables = {.pairs = 2, .cos = memory + 400, .sin = memory + 420, .table_stride = 2, .positions = 6},
        .input = {.data = memory, .batch_stride = 60, .head_stride = 20, .token_stride = 5},
        .output = {.data = memory + 200, .batch_stride = 60, .head_stride = 20, .token_stride = 5},
    };
}

START_TEST(test_api_rope_refuses) {
    prepare();
    must_refuse(heed_rope(NULL, NULL), HEED_INVALID_ARGUMENT, "rope", "NULL", "NULL");
    must_refuse(heed_rope(&(struct heed_rope){0}, &(struct heed_exec){.isa = "mmx"}), HEED_UNSUPPORTED_ISA, "isa", "mmx", "isa");
    REFUSED(rope, r.batch = -1, "batch", "-1");
    REFUSED(rope, r.num_heads = -2, "num_heads", "-2");
    REFUSED(rope, r.tokens = -3, "tokens", "-3");
    REFUSED(rope, r.head_dim = -4, "head_dim", "-4");
    REFUSED(rope, r.tokens = INT64_MAX / 2, "tokens", "4611686018427387903");
    REFUSED(rope, r.tables.pairs = 3, "tables.pairs", "3");
    REFUSED(rope, r.tables.table_stride = 1, "tables.table_stride", "1");
    REFUSED(rope, r.tables.positions = 5, "tables.positions", "must be at least 6 for sequence 0");
    REFUSED(rope, r.tables.cos = NULL, "tables.cos", "NULL");
    REFUSED(rope, r.tables.sin = misaligned(memory), "tables.sin", "align");
    REFUSED(rope, positions[1] = -1, "positions[1]", "-1");
    REFUSED(rope, positions[1] = INT64_MAX - 2, "positions[1]", "9223372036854775805");
    REFUSED(rope, (r.starts = starts, starts[1] = -1), "starts[1]", "-1");
    REFUSED(rope, (r.starts = starts, starts[2] = 5), "starts[2]", "5");
    REFUSED(rope, r.input.data = NULL, "input", "NULL");
    REFUSED(rope, r.input.type = HEED_I8, "input.type", "3");
    REFUSED(rope, r.input.head_stride = -1, "input.head_stride", "-1");
    REFUSED(rope, r.output.data = NULL, "output", "NULL");
    REFUSED(rope, r.output.type = (enum heed_type)7, "output.type", "7");
    REFUSED(rope, r.output.token_stride = 4, "output.token_stride", "4");
}
END_TEST

/* Which are alike, and not counted through. */
START_TEST(test_api_rope_of_many_sequences) {
    prepare();
    struct heed_rope r = legal_rope();
    r.batch = INT64_C(1) << 40;
    r.positions = NULL;
    r.tables.pairs = 0;
    r.input.batch_stride = 0;
    must_refuse(heed_rope(&r, &(struct heed_exec){.isa = "mmx"}), HEED_UNSUPPORTED_ISA, "isa", "mmx", "isa");
}
END_TEST

START_TEST(test_api_rope_overlaps) {
    prepare();
    REFUSED(rope, r.output.data = memory + 1, "output", "input");
    REFUSED(rope, (r.output.data = memory, r.output.batch_stride = 72, r.output.head_stride = 24, r.output.token_stride = 6),
            "output", "input");
    REFUSED(rope, (r.output.data = memory, r.output.type = HEED_BF16), "output", "input");
    REFUSED(rope, r.output.data = memory + 300, "output", "tables.cos");
    REFUSED(rope, r.output.data = memory + 425, "output", "tables.sin");
    prepare();
    ACCEPTED(rope, (void)0);
    ACCEPTED(rope, r.output.data = memory);
    ACCEPTED(rope, (r.output.data = memory, r.input.type = r.output.type = HEED_F16));
    ACCEPTED(rope, r.input.batch_stride = r.input.head_stride = r.input.token_stride = 0);
    ACCEPTED(rope, (r.starts = starts, r.input.batch_stride = r.output.batch_stride = -7));
    ACCEPTED(rope, (r.tables = (struct heed_rope_tables){.positions = -1}, r.positions = NULL));
    ACCEPTED(rope, (r.tokens = 0, r.input.data = r.output.data = NULL, r.tables.cos = NULL));
    ACCEPTED(rope, (r.num_heads = 0, r.input.data = r.output.data = NULL, r.tables.cos = r.tables.sin = NULL));
}
END_TEST

static struct heed_rope_fill legal_rope_fill(void) {
    return (struct heed_rope_fill){
        .pairs = 3, .positions = 4, .frequencies = memory, .cos = memory + 100, .sin = memory + 200, .table_stride = 4};
}

START_TEST(test_api_rope_fill_refuses) {
    prepare();
    must_refuse(heed_rope_fill(NULL, NULL), HEED_INVALID_ARGUMENT, "fill", "NULL", "NULL");
    REFUSED(rope_fill, r.pairs = -1, "pairs", "-1");
    REFUSED(rope_fill, r.positions = -1, "positions", "-1");
    REFUSED(rope_fill, r.first = -1, "first", "-1");
    REFUSED(rope_fill, r.first = INT64_MAX - 3, "positions", "4");
    REFUSED(rope_fill, r.table_stride = 2, "table_stride", "2");
    REFUSED(rope_fill, r.frequencies = NULL, "base", "0");
    REFUSED(rope_fill, (r.frequencies = NULL, r.base = INFINITY), "base", "inf");
    REFUSED(rope_fill, r.scale = NAN, "scale", "nan");
    REFUSED(rope_fill, r.cos = NULL, "cos", "NULL");
    REFUSED(rope_fill, r.sin = misaligned(memory), "sin", "align");
    REFUSED(rope_fill, r.frequencies = misaligned(memory), "frequencies", "align");
    REFUSED(rope_fill, r.sin = r.cos + 2, "cos", "sin");
    REFUSED(rope_fill, r.sin = memory + 1, "sin", "frequencies");
    REFUSED(rope_fill, r.cos = memory, "cos", "frequencies");
    prepare();
    ACCEPTED(rope_fill, (void)0);
    ACCEPTED(rope_fill, r.base = NAN);
    ACCEPTED(rope_fill, (r.frequencies = NULL, r.base = 10000, r.scale = -2));
    ACCEPTED(rope_fill, (r.positions = 0, r.cos = r.sin = NULL));
    ACCEPTED(rope_fill, (r.pairs = 0, r.cos = r.sin = NULL));
}
END_TEST

void add_rope_refusals(TCase *tests) {
    tcase_add_test(tests, test_api_rope_refuses);
    tcase_add_test(tests, test_api_rope_of_many_sequences);
    tcase_add_test(tests, test_api_rope_overlaps);
    tcase_add_test(tests, test_api_rope_fill_refuses);
}
