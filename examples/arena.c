/* An engine that allocates nothing once it runs: each call is asked beforehand how much memory it needs, and one arena, as large as
 * the most of that, serves them all.  A sequence grows in a cache, token by token, by a plan that was made once, for its most
 * tokens.  The same calls, with memory that heed allocates, have the same bits. */
#include <heed.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 128, HEADS = 8, KV_HEADS = 2, DIM = 16, PAIRS = DIM / 2, QKV = (HEADS + 2 * KV_HEADS) * DIM };
enum { KEYS_AT = HEADS * DIM, VALUES_AT = (HEADS + KV_HEADS) * DIM, CAPACITY = 512, STEPS = 300 };

static float weights_of_qkv[QKV][WIDTH], weights_of_out[WIDTH][HEADS * DIM];
static float cosines[CAPACITY][PAIRS], sines[CAPACITY][PAIRS];
static float x[WIDTH], qkv[QKV], attended[HEADS * DIM];
static int64_t position;     /* of the token that is next, */
static int64_t tokens_there; /* and how many there are with it: both change from step to step, and no plan with them */

static const struct heed_rope_tables tables = {
    .pairs = PAIRS, .cos = cosines[0], .sin = sines[0], .table_stride = PAIRS, .positions = CAPACITY};
static struct heed_kv_cache cache = {
    .num_pages = 1, .page_tokens = CAPACITY, .num_kv_heads = KV_HEADS, .head_dim = DIM, .value_dim = DIM, .pages_per_sequence = 1};
static const struct heed_linear to_qkv = {
    .rows = 1,
    .weights = {.outputs = QKV, .inputs = WIDTH, .data = weights_of_qkv, .stride = WIDTH},
    .input = {.data = x},
    .output = {.data = qkv},
};
static const struct heed_linear to_output = {
    .rows = 1,
    .weights = {.outputs = WIDTH, .inputs = HEADS * DIM, .data = weights_of_out, .stride = HEADS * DIM},
    .input = {.data = attended},
    .residual = {.data = x},
    .output = {.data = x},
};
static const struct heed_rope turn_queries = {
    .batch = 1,
    .num_heads = HEADS,
    .tokens = 1,
    .head_dim = DIM,
    .positions = &position,
    .tables = tables,
    .input = {.data = qkv, .head_stride = DIM, .token_stride = QKV},
    .output = {.data = qkv, .head_stride = DIM, .token_stride = QKV},
};
static const struct heed_kv_append append = {
    .batch = 1,
    .tokens = 1,
    .positions = &position,
    .rope = tables,
    .key = {.data = qkv + KEYS_AT, .head_stride = DIM, .token_stride = QKV},
    .value = {.data = qkv + VALUES_AT, .head_stride = DIM, .token_stride = QKV},
    .cache = &cache,
};
static const struct heed_attention attention = {
    .batch = 1,
    .num_heads = HEADS,
    .num_kv_heads = KV_HEADS,
    .query_tokens = 1,
    .key_tokens = CAPACITY,
    .key_lengths = &tokens_there,
    .head_dim = DIM,
    .value_dim = DIM,
    .query = {.data = qkv, .head_stride = DIM, .token_stride = QKV},
    .output = {.data = attended, .head_stride = DIM, .token_stride = HEADS * DIM},
    .cache = &cache,
};

static void must(enum heed_status status) {
    if (status == HEED_OK)
        return;
    fprintf(stderr, "%s: %s\n", heed_status_string(status), heed_error_message());
    exit(EXIT_FAILURE);
}

static void *memory(int64_t bytes) {
    void *data = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
    must(data ? HEED_OK : HEED_OUT_OF_MEMORY);
    return data;
}

static void fill(float *to, int n) {
    for (int i = 0; i < n; i++)
        to[i] = ((float)rand() / (float)RAND_MAX - 0.5f) * 0.2f;
}

/* x becomes x + attention(x).  exec has memory for each call, or none; plan, if there is one, for the attention. */
static void step(const struct heed_exec *exec, const struct heed_plan *plan) {
    must(heed_linear(&to_qkv, exec));
    must(heed_rope(&turn_queries, exec));
    must(heed_kv_append(&append, exec));
    must(plan ? heed_attention_run(plan, NULL, exec->workspace) : heed_attention(&attention, exec));
    must(heed_linear(&to_output, exec));
}

/* All steps, from one start: what x is at the end. */
static void run(const struct heed_exec *exec, const struct heed_plan *plan, const float start[WIDTH], float end[WIDTH]) {
    memcpy(x, start, sizeof x);
    for (position = 0; position < STEPS; position++) {
        tokens_there = position + 1;
        step(exec, plan);
    }
    memcpy(end, x, sizeof x);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int main(void) {
    const struct heed_rope_fill fill_tables = {
        .pairs = PAIRS, .positions = CAPACITY, .base = 10000, .cos = cosines[0], .sin = sines[0], .table_stride = PAIRS};
    float start[WIDTH], ours[WIDTH], heeds[WIDTH];
    struct heed_exec exec = {0};
    struct heed_plan plan;
    must(heed_rope_fill(&fill_tables, NULL));
    cache.data = memory(heed_kv_page_bytes(&cache));
    fill(weights_of_qkv[0], QKV * WIDTH);
    fill(weights_of_out[0], WIDTH * HEADS * DIM);
    fill(start, WIDTH);

    must(heed_attention_plan(&attention, &exec, &plan));
    exec.workspace_bytes = larger(
        plan.workspace_bytes, larger(heed_linear_workspace_bytes(&to_qkv, &exec), heed_linear_workspace_bytes(&to_output, &exec)));
    exec.workspace = memory(larger(1, exec.workspace_bytes));

    run(&exec, &plan, start, ours); /* from here on nothing is allocated */
    run(NULL, NULL, start, heeds);
    const bool same = memcmp(ours, heeds, sizeof ours) == 0;
    printf("%d tokens, each by 5 calls, in an arena of %lld bytes: %s bits as with memory of heed's own\n", STEPS,
           (long long)exec.workspace_bytes, same ? "the same" : "DIFFERENT");
    free(exec.workspace);
    free(cache.data);
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
