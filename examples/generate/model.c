/* See model.h.  The sequences of a call lie one after another in tensors [tokens, width]: there is no padding anywhere. */
#include "model.h"
#include "../checkpoint/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SCOPE_BYTES = 64 };

struct layer {
    struct heed_weights qkv, projection, gate, up, down; /* packed */
    float *attention_norm, *inner_norm;
    char *pages;
};

struct model {
    struct checkpoint checkpoint;
    struct config config;
    struct heed_exec exec;
    struct tensor words;
    float *last_norm;
    struct heed_weights head;
    struct layer *layer;
    struct heed_rope_tables rope;
    struct heed_kv_cache cache;             /* of a layer, but for its data */
    float *hidden, *normed, *wide, *logits; /* of a call: [tokens, width] twice, [tokens, inner], [rows, vocabulary] */
    int64_t *lengths;                       /* of a call: of its sequences with the new tokens */
};

/* The names of tensors, those of a layer behind its scope and number. */
struct names {
    const char *words, *last_norm, *head, *scope, *attention_norm, *inner_norm;
    const char *query, *key, *value, *projection, *gate, *up, *down;
};
static const struct names safetensors = {.words = "model.embed_tokens",
                                         .last_norm = "model.norm.weight",
                                         .head = "lm_head",
                                         .scope = "model.layers",
                                         .attention_norm = "input_layernorm.weight",
                                         .inner_norm = "post_attention_layernorm.weight",
                                         .query = "self_attn.q_proj",
                                         .key = "self_attn.k_proj",
                                         .value = "self_attn.v_proj",
                                         .projection = "self_attn.o_proj",
                                         .gate = "mlp.gate_proj",
                                         .up = "mlp.up_proj",
                                         .down = "mlp.down_proj"};
static const struct names gguf = {.words = "token_embd",
                                  .last_norm = "output_norm.weight",
                                  .head = "output",
                                  .scope = "blk",
                                  .attention_norm = "attn_norm.weight",
                                  .inner_norm = "ffn_norm.weight",
                                  .query = "attn_q",
                                  .key = "attn_k",
                                  .value = "attn_v",
                                  .projection = "attn_output",
                                  .gate = "ffn_gate",
                                  .up = "ffn_up",
                                  .down = "ffn_down"};

static bool has_bias(const struct reader *reader, const char *name) {
    char full[2 * SCOPE_BYTES];
    snprintf(full, sizeof full, "%s%s.bias", reader->scope, name);
    return checkpoint_has(reader->checkpoint, full);
}

static struct heed_weights read_linear(const struct reader *reader, const char *name, int64_t outputs, int64_t inputs) {
    return read_weights(reader, &(struct part){name, outputs}, 1, inputs, has_bias(reader, name));
}

static void read_layer(struct model *model, struct reader reader, const struct names *names, int64_t index) {
    const struct config *config = &model->config;
    const int64_t width = config->width, inner = config->inner, kv = config->kv_heads * config->head;
    const struct part qkv[] = {{names->query, config->heads * config->head}, {names->key, kv}, {names->value, kv}};
    char scope[SCOPE_BYTES];
    snprintf(scope, sizeof scope, "%s.%" PRId64 ".", names->scope, index);
    reader.scope = scope;
    model->layer[index] = (struct layer){
        .qkv = read_weights(&reader, qkv, 3, width, has_bias(&reader, names->query)),
        .projection = read_linear(&reader, names->projection, width, config->heads * config->head),
        .gate = read_linear(&reader, names->gate, inner, width),
        .up = read_linear(&reader, names->up, inner, width),
        .down = read_linear(&reader, names->down, width, inner),
        .attention_norm = read_floats(&reader, names->attention_norm, 0, width),
        .inner_norm = read_floats(&reader, names->inner_norm, 0, width),
    };
}

struct model *model_open(const char *path, const enum heed_type *weights, const struct heed_exec *exec) {
    struct model *model = allocate(1, sizeof *model);
    *model = (struct model){.exec = *exec, .checkpoint = checkpoint_open(path)};
    const struct checkpoint *checkpoint = &model->checkpoint;
    const struct names *names = checkpoint->gguf ? &gguf : &safetensors;
    model->config = config_read(path, checkpoint);
    const struct config *config = &model->config;
    struct reader reader = {.checkpoint = checkpoint, .exec = &model->exec, .scope = "", .stored = !weights};
    reader.type = weights ? *weights : HEED_F32;
    char words[SCOPE_BYTES];
    snprintf(words, sizeof words, "%s.weight", names->words);
    model->words = find_tensor(&reader, words, config->vocabulary, config->width);
    model->last_norm = read_floats(&reader, names->last_norm, 0, config->width);
    model->head = read_linear(&reader, config->tied ? names->words : names->head, config->vocabulary, config->width);
    model->layer = allocate(config->layers, sizeof *model->layer);
    for (int64_t i = 0; i < config->layers; i++) {
        read_layer(model, reader, names, i);
        checkpoint_release(checkpoint); /* its weights are packed now */
    }
    return model;
}

const struct config *model_config(const struct model *model) { return &model->config; }
const struct checkpoint *model_checkpoint(const struct model *model) { return &model->checkpoint; }

static void fill_rope(struct model *model, int64_t positions) {
    const struct config *config = &model->config;
    const int64_t pairs = config->head / 2;
    float *cosines = allocate(positions * pairs, sizeof *cosines), *sines = allocate(positions * pairs, sizeof *sines);
    check(heed_rope_fill(&(struct heed_rope_fill){.pairs = pairs,
                                                  .positions = positions,
                                                  .frequencies = config->frequencies,
                                                  .base = config->base,
                                                  .cos = cosines,
                                                  .sin = sines,
                                                  .table_stride = pairs},
                         &model->exec));
    model->rope = (struct heed_rope_tables){.pairs = pairs,
                                            .cos = cosines,
                                            .sin = sines,
                                            .table_stride = pairs,
                                            .positions = positions,
                                            .interleaved = config->interleaved};
}

void model_make_room(struct model *model, int64_t tokens, int64_t rows, int64_t pages, int64_t pages_per_sequence) {
    const struct config *config = &model->config;
    model->hidden = allocate(tokens * config->width, sizeof *model->hidden);
    model->normed = allocate(tokens * config->width, sizeof *model->normed);
    model->wide = allocate(tokens * config->inner, sizeof *model->wide);
    model->logits = allocate(rows * config->vocabulary, sizeof *model->logits);
    model->lengths = allocate(tokens, sizeof *model->lengths);
    model->cache = (struct heed_kv_cache){.num_pages = pages,
                                          .page_tokens = PAGE_TOKENS,
                                          .num_kv_heads = config->kv_heads,
                                          .head_dim = config->head,
                                          .value_dim = config->head,
                                          .pages_per_sequence = pages_per_sequence,
                                          .table_stride = pages_per_sequence};
    for (int64_t i = 0; i < config->layers; i++)
        model->layer[i].pages = allocate(pages, (size_t)heed_kv_page_bytes(&model->cache));
    fill_rope(model, pages_per_sequence * PAGE_TOKENS);
}

void model_copy_page(struct model *model, int32_t from, int32_t to) {
    const int64_t bytes = heed_kv_page_bytes(&model->cache);
    for (int64_t i = 0; i < model->config.layers; i++)
        memcpy(model->layer[i].pages + to * bytes, model->layer[i].pages + from * bytes, (size_t)bytes);
}

/* normed = norm(hidden) */
static void normalise(const struct model *model, const float *gain, int64_t rows) {
    const int64_t width = model->config.width;
    check(heed_rms_norm(&(struct heed_norm){.rows = rows,
                                            .columns = width,
                                            .epsilon = model->config.epsilon,
                                            .input = {.data = model->hidden, .token_stride = width},
                                            .gain = gain,
                                            .output = {.data = model->normed, .token_stride = width}},
                        &model->exec));
}

/* hidden = hidden + attention(normed), every sequence on itself and what its pages hold of it */
static void attend(const struct model *model, const struct layer *layer, const struct batch *batch) {
    const struct config *config = &model->config;
    struct heed_kv_cache cache = model->cache;
    int64_t longest = 0;
    for (int64_t i = 0; i < batch->sequences; i++) {
        model->lengths[i] = batch->positions[i] + batch->starts[i + 1] - batch->starts[i];
        longest = longest > model->lengths[i] ? longest : model->lengths[i];
    }
    cache.data = layer->pages;
    cache.page_table = batch->page;
    check(heed_attention_layer(&(struct heed_attention_layer){.attention = {.batch = batch->sequences,
                                                                            .num_heads = config->heads,
                                                                            .num_kv_heads = config->kv_heads,
                                                                            .query_tokens = batch->starts[batch->sequences],
                                                                            .key_tokens = longest,
                                                                            .head_dim = config->head,
                                                                            .value_dim = config->head,
                                                                            .query_starts = batch->starts,
                                                                            .key_lengths = model->lengths,
                                                                            .causal = true,
                                                                            .alignment = HEED_ALIGN_OFFSETS,
                                                                            .query_offsets = batch->positions,
                                                                            .cache = &cache},
                                                              .positions = batch->positions,
                                                              .rope = model->rope,
                                                              .qkv = layer->qkv,
                                                              .out = layer->projection,
                                                              .input = {.data = model->normed, .token_stride = config->width},
                                                              .residual = {.data = model->hidden, .token_stride = config->width},
                                                              .output = {.data = model->hidden, .token_stride = config->width}},
                               &model->exec));
}

/* output = activation(input weights^T + bias) * gate + residual; gate and residual may be NULL, and where output is */
static void multiply(const struct model *model, const struct heed_weights *weights, enum heed_activation activation, int64_t rows,
                     const float *input, const float *gate, const float *residual, float *output) {
    check(heed_linear(&(struct heed_linear){.rows = rows,
                                            .weights = *weights,
                                            .activation = activation,
                                            .input = {.data = input, .token_stride = weights->inputs},
                                            .gate = {.data = gate, .token_stride = weights->outputs},
                                            .residual = {.data = residual, .token_stride = weights->outputs},
                                            .output = {.data = output, .token_stride = weights->outputs}},
                      &model->exec));
}

/* output row i = row ids[i] of a table */
static void gather(const struct model *model, const struct tensor *table, const int32_t *ids, int64_t rows, float *output) {
    const struct heed_lookup lookup = lookup_of(table, ids);
    check(heed_embedding(&(struct heed_embedding){.rows = rows,
                                                  .columns = table->columns,
                                                  .tables = 1,
                                                  .lookup = &lookup,
                                                  .output = {.data = output, .token_stride = table->columns}},
                         &model->exec));
}

/* A row that is not finite would make any choice of a token wrong. */
static void check_logits(const struct model *model, int64_t rows) {
    for (int64_t i = 0; i < rows * model->config.vocabulary; i++)
        if (!isfinite(model->logits[i]))
            fail("%s: gives logits that are not finite", model->checkpoint.path);
}

float *model_run(struct model *model, const struct batch *batch) {
    const int64_t tokens = batch->starts[batch->sequences];
    gather(model, &model->words, batch->tokens, tokens, model->hidden);
    for (int64_t i = 0; i < model->config.layers; i++) {
        const struct layer *layer = &model->layer[i];
        normalise(model, layer->attention_norm, tokens);
        attend(model, layer, batch);
        normalise(model, layer->inner_norm, tokens);
        multiply(model, &layer->up, HEED_IDENTITY, tokens, model->normed, NULL, NULL, model->wide);
        multiply(model, &layer->gate, HEED_SILU, tokens, model->normed, model->wide, NULL, model->wide);
        multiply(model, &layer->down, HEED_IDENTITY, tokens, model->wide, NULL, model->hidden, model->hidden);
    }
    normalise(model, model->last_norm, tokens);
    const struct tensor normed = {model->normed, tokens, model->config.width, HEED_F32};
    gather(model, &normed, batch->row, batch->rows, model->hidden);
    multiply(model, &model->head, HEED_IDENTITY, batch->rows, model->hidden, NULL, NULL, model->logits);
    check_logits(model, batch->rows);
    return model->logits;
}
