/* Two conversations over one paged key/value cache: the second is a fork of the first and shares the pages of their common start.
 * Then both go on token by token.  Attention over plain rows, which hold everything twice, has the same bits at every step. */
#include <heed.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KV_HEADS = 2, DIM = 32, PAIRS = DIM / 2 };
enum { PAGE_TOKENS = 16, SEQUENCE_PAGES = 4, CAPACITY = PAGE_TOKENS * SEQUENCE_PAGES, PAGES = 6, PREFIX = 40, STEPS = 20 };

static float cosines[CAPACITY][PAIRS], sines[CAPACITY][PAIRS];
static const struct heed_rope_tables tables = {
    .pairs = PAIRS, .cos = cosines[0], .sin = sines[0], .table_stride = PAIRS, .positions = CAPACITY};
static float key_rows[2][CAPACITY][KV_HEADS][DIM], value_rows[2][CAPACITY][KV_HEADS][DIM]; /* keys are rotated */

/* Three pages for the start of 40 tokens; the fork needs a page for what comes after the shared two. */
static int32_t page_table[2][SEQUENCE_PAGES] = {{4, 1, 5, 0}, {-1, -1, -1, -1}};
static struct heed_kv_cache cache = {
    .num_pages = PAGES, .page_tokens = PAGE_TOKENS, .num_kv_heads = KV_HEADS, .head_dim = DIM, .value_dim = DIM};

static void fill(float *x, int n) {
    for (int i = 0; i < n; i++)
        x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
}

/* Tokens of some sequences, in place, from position on: for queries, and what heed_kv_append does to keys, to the last bit. */
static enum heed_status rotate(float *rows, int batch, int64_t batch_stride, int tokens, int heads, int64_t position) {
    const struct heed_rope rope = {
        .batch = batch,
        .num_heads = heads,
        .tokens = tokens,
        .head_dim = DIM,
        .positions = (int64_t[]){position, position},
        .tables = tables,
        .input = {rows, batch_stride, DIM, heads * DIM, HEED_F32},
        .output = {rows, batch_stride, DIM, heads * DIM, HEED_F32},
    };
    return heed_rope(&rope, NULL);
}

/* `tokens` new tokens for each of `batch` sequences, from position on: to the cache, and to the rows. */
static enum heed_status append(int batch, int tokens, int64_t position) {
    static float key[2][PREFIX][KV_HEADS][DIM], value[2][PREFIX][KV_HEADS][DIM];
    const struct heed_kv_append append = {
        .batch = batch,
        .tokens = tokens,
        .positions = (int64_t[]){position, position},
        .rope = tables,
        .key = {key[0][0][0], PREFIX * KV_HEADS * DIM, DIM, KV_HEADS * DIM, HEED_F32},
        .value = {value[0][0][0], PREFIX * KV_HEADS * DIM, DIM, KV_HEADS * DIM, HEED_F32},
        .cache = &cache,
    };
    fill(key[0][0][0], 2 * PREFIX * KV_HEADS * DIM);
    fill(value[0][0][0], 2 * PREFIX * KV_HEADS * DIM);
    for (int b = 0; b < batch; b++) {
        memcpy(key_rows[b][position], key[b], (size_t)tokens * sizeof *key[b]);
        memcpy(value_rows[b][position], value[b], (size_t)tokens * sizeof *value[b]);
    }
    const enum heed_status status = rotate(key_rows[0][position][0], batch, CAPACITY * KV_HEADS * DIM, tokens, KV_HEADS, position);
    return status ? status : heed_kv_append(&append, NULL);
}

/* Sequence 1 becomes a copy of sequence 0: its full pages are shared, its last one, which both will write to, is not. */
static void fork_sequence(void) {
    const size_t page = (size_t)heed_kv_page_bytes(&cache);
    memcpy(page_table[1], page_table[0], sizeof page_table[0]);
    page_table[1][2] = 2;
    page_table[1][3] = 3;
    memcpy((char *)cache.data + 2 * page, (char *)cache.data + 5 * page, page);
    memcpy(key_rows[1], key_rows[0], sizeof key_rows[0]);
    memcpy(value_rows[1], value_rows[0], sizeof value_rows[0]);
}

/* One query of each sequence, with `tokens` keys each. */
static enum heed_status decode(float query[2][HEADS][DIM], int64_t tokens, const struct heed_kv_cache *from,
                               float output[2][HEADS][DIM]) {
    struct heed_attention attention = {
        .batch = 2, .num_heads = HEADS, .num_kv_heads = KV_HEADS, .query_tokens = 1, .head_dim = DIM, .value_dim = DIM};
    attention.key_tokens = tokens;
    attention.query = (struct heed_input){query[0][0], HEADS * DIM, DIM, DIM, HEED_F32};
    attention.output = (struct heed_output){output[0][0], HEADS * DIM, DIM, DIM, HEED_F32};
    attention.cache = from;
    if (!from) {
        attention.key = (struct heed_input){key_rows[0][0][0], CAPACITY * KV_HEADS * DIM, DIM, KV_HEADS * DIM, HEED_F32};
        attention.value = (struct heed_input){value_rows[0][0][0], CAPACITY * KV_HEADS * DIM, DIM, KV_HEADS * DIM, HEED_F32};
    }
    return heed_attention(&attention, NULL);
}

static enum heed_status step(int64_t position, bool *same) {
    float query[2][HEADS][DIM], paged[2][HEADS][DIM], rows[2][HEADS][DIM];
    fill(query[0][0], 2 * HEADS * DIM);
    enum heed_status status = rotate(query[0][0], 2, HEADS * DIM, 1, HEADS, position);
    status = status ? status : append(2, 1, position);
    status = status ? status : decode(query, position + 1, &cache, paged);
    status = status ? status : decode(query, position + 1, NULL, rows);
    *same &= status || memcmp(paged, rows, sizeof rows) == 0;
    return status;
}

int main(void) {
    bool same = true;
    const struct heed_rope_fill fill_tables = {
        .pairs = PAIRS, .positions = CAPACITY, .base = 10000, .cos = cosines[0], .sin = sines[0], .table_stride = PAIRS};
    enum heed_status status = heed_rope_fill(&fill_tables, NULL);
    cache.pages_per_sequence = cache.table_stride = SEQUENCE_PAGES;
    cache.page_table = page_table[0];
    cache.data = aligned_alloc(64, PAGES * (size_t)heed_kv_page_bytes(&cache));
    if (status == HEED_OK)
        status = cache.data ? append(1, PREFIX, 0) : HEED_OUT_OF_MEMORY;
    if (status == HEED_OK)
        fork_sequence();
    for (int64_t position = PREFIX; status == HEED_OK && position < PREFIX + STEPS; position++)
        status = step(position, &same);
    free(cache.data);
    if (status != HEED_OK)
        return fprintf(stderr, "%s: %s\n", heed_status_string(status), heed_error_message()), EXIT_FAILURE;
    printf("two sequences in %d pages instead of %d, %d steps each: %s bits as over rows\n", PAGES, 2 * SEQUENCE_PAGES, STEPS,
           same ? "the same" : "DIFFERENT");
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
