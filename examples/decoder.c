/* A decoder of the Llama family, small and with random weights: an embedding, layers of attention and SwiGLU over weights of q4_0
 * and a cache of bf16, and the next token.  A prompt goes through it at once, what follows token by token; all of it once more, as
 * one prompt, gives logits of the same bits. */
#include <heed.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 512, WIDTH = 256, HEADS = 8, KV_HEADS = 2, DIM = 32, PAIRS = DIM / 2, HIDDEN = 512, LAYERS = 2 };
enum { PROMPT = 20, STEPS = 12, CAPACITY = PROMPT + STEPS, QKV = (HEADS + 2 * KV_HEADS) * DIM };

struct layer {
    struct heed_weights qkv, out, gate, up, down;
    struct heed_kv_cache cache;
};
static struct layer layers[LAYERS];
static struct heed_weights classifier;
static float table[VOCABULARY][WIDTH], gain[WIDTH];
static float cosines[CAPACITY][PAIRS], sines[CAPACITY][PAIRS];

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

static void fill(float *x, int n) {
    for (int i = 0; i < n; i++)
        x[i] = ((float)rand() / (float)RAND_MAX - 0.5f) * 0.2f;
}

/* As blocks of q4_0, which a GGUF file has ready, packed: what was packed is all that is kept. */
static struct heed_weights new_weights(int outputs, int inputs) {
    float *floats = memory((int64_t)outputs * inputs * (int64_t)sizeof *floats);
    void *blocks = memory(heed_type_bytes(HEED_Q4_0, (int64_t)outputs * inputs));
    const struct heed_convert convert = {.rows = outputs,
                                         .columns = inputs,
                                         .input = {.data = floats, .token_stride = inputs},
                                         .output = {.data = blocks, .token_stride = inputs, .type = HEED_Q4_0}};
    struct heed_weights weights = {.outputs = outputs, .inputs = inputs, .data = blocks, .type = HEED_Q4_0, .stride = inputs};
    fill(floats, outputs * inputs);
    must(heed_convert(&convert, NULL));
    void *packed = memory(heed_packed_bytes(&weights));
    must(heed_pack_weights(&weights, packed, NULL));
    weights.packed = packed;
    free(floats);
    free(blocks);
    return weights;
}

static void make_layer(struct layer *layer) {
    layer->qkv = new_weights(QKV, WIDTH);
    layer->out = new_weights(WIDTH, HEADS * DIM);
    layer->gate = new_weights(HIDDEN, WIDTH);
    layer->up = new_weights(HIDDEN, WIDTH);
    layer->down = new_weights(WIDTH, HIDDEN);
    layer->cache = (struct heed_kv_cache){.key_type = HEED_BF16,
                                          .value_type = HEED_BF16,
                                          .num_pages = 1,
                                          .page_tokens = CAPACITY,
                                          .num_kv_heads = KV_HEADS,
                                          .head_dim = DIM,
                                          .value_dim = DIM,
                                          .pages_per_sequence = 1};
    layer->cache.data = memory(heed_kv_page_bytes(&layer->cache));
}

static struct heed_input rows_of(const float *x, int width) { return (struct heed_input){.data = x, .token_stride = width}; }
static struct heed_output rows_to(float *x, int width) { return (struct heed_output){.data = x, .token_stride = width}; }

static void normalize(int tokens, const float *x, float *y) {
    const struct heed_norm norm = {
        .rows = tokens, .columns = WIDTH, .epsilon = 1e-5f, .input = rows_of(x, WIDTH), .gain = gain, .output = rows_to(y, WIDTH)};
    must(heed_rms_norm(&norm, NULL));
}

/* x += attention(normalized x), over what the cache has and these tokens, which it then has too. */
static void attend(const struct layer *layer, int tokens, int64_t position, float *x) {
    static float y[CAPACITY * WIDTH];
    const struct heed_attention_layer attention = {
        .attention = {.batch = 1,
                      .num_heads = HEADS,
                      .num_kv_heads = KV_HEADS,
                      .query_tokens = tokens,
                      .key_tokens = position + tokens,
                      .head_dim = DIM,
                      .value_dim = DIM,
                      .causal = true,
                      .alignment = HEED_ALIGN_BOTTOM_RIGHT,
                      .cache = &layer->cache},
        .positions = &position,
        .rope = {.pairs = PAIRS, .cos = cosines[0], .sin = sines[0], .table_stride = PAIRS, .positions = CAPACITY},
        .qkv = layer->qkv,
        .out = layer->out,
        .input = rows_of(y, WIDTH),
        .residual = rows_of(x, WIDTH),
        .output = rows_to(x, WIDTH)};
    normalize(tokens, x, y);
    must(heed_attention_layer(&attention, NULL));
}

/* x += down(silu(gate(normalized x)) * up(normalized x)) */
static void feed_forward(const struct layer *layer, int tokens, float *x) {
    static float y[CAPACITY * WIDTH], hidden[CAPACITY * HIDDEN];
    const struct heed_linear up = {
        .rows = tokens, .weights = layer->up, .input = rows_of(y, WIDTH), .output = rows_to(hidden, HIDDEN)};
    const struct heed_linear gate = {.rows = tokens,
                                     .weights = layer->gate,
                                     .activation = HEED_SILU,
                                     .input = rows_of(y, WIDTH),
                                     .gate = rows_of(hidden, HIDDEN),
                                     .output = rows_to(hidden, HIDDEN)};
    const struct heed_linear down = {.rows = tokens,
                                     .weights = layer->down,
                                     .input = rows_of(hidden, HIDDEN),
                                     .residual = rows_of(x, WIDTH),
                                     .output = rows_to(x, WIDTH)};
    normalize(tokens, x, y);
    must(heed_linear(&up, NULL));
    must(heed_linear(&gate, NULL));
    must(heed_linear(&down, NULL));
}

/* Logits of what follows these tokens, the first of which stands at position. */
static void forward(const int32_t *ids, int tokens, int64_t position, float logits[VOCABULARY]) {
    static float x[CAPACITY * WIDTH], last[WIDTH];
    const struct heed_lookup lookup = {.data = table, .rows = VOCABULARY, .stride = WIDTH, .ids = ids};
    const struct heed_embedding embedding = {
        .rows = tokens, .columns = WIDTH, .tables = 1, .lookup = &lookup, .output = rows_to(x, WIDTH)};
    const struct heed_linear classify = {.rows = 1, .weights = classifier, .input = {.data = last}, .output = {.data = logits}};
    must(heed_embedding(&embedding, NULL));
    for (int i = 0; i < LAYERS; i++) {
        attend(&layers[i], tokens, position, x);
        feed_forward(&layers[i], tokens, x);
    }
    normalize(1, x + (tokens - 1) * WIDTH, last);
    must(heed_linear(&classify, NULL));
}

static void make_model(void) {
    const struct heed_rope_fill angles = {
        .pairs = PAIRS, .positions = CAPACITY, .base = 10000, .cos = cosines[0], .sin = sines[0], .table_stride = PAIRS};
    must(heed_rope_fill(&angles, NULL));
    fill(table[0], VOCABULARY * WIDTH);
    for (int i = 0; i < WIDTH; i++)
        gain[i] = 1;
    for (int i = 0; i < LAYERS; i++)
        make_layer(&layers[i]);
    classifier = new_weights(VOCABULARY, WIDTH);
}

static int32_t likeliest(const float logits[VOCABULARY]) {
    int32_t best = 0;
    for (int32_t i = 1; i < VOCABULARY; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

int main(void) {
    int32_t ids[CAPACITY];
    float logits[VOCABULARY], again[VOCABULARY];
    make_model();
    for (int i = 0; i < PROMPT; i++)
        ids[i] = rand() % VOCABULARY;
    forward(ids, PROMPT, 0, logits);
    for (int i = PROMPT; i < CAPACITY; i++) {
        ids[i] = likeliest(logits);
        printf("%d ", (int)ids[i]);
        forward(ids + i, 1, i, logits);
    }
    forward(ids, CAPACITY, 0, again);
    const bool same = memcmp(logits, again, sizeof logits) == 0;
    printf("\nthe same tokens as one prompt: %s bits\n", same ? "the same" : "DIFFERENT");
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
