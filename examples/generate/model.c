/* See model.h.  The sequences of a call lie one after another in tensors [tokens, width]: there is no padding anywhere. */
#include "model.h"
#include "mixture.h"

#include <inttypes.h>
#include <stdio.h>

struct layer {
    struct heed_weights qkv, value, projection; /* packed; value: without outputs where qkv has values too */
    struct feed_forward inner;                  /* or, of a model with experts, */
    struct mixture mixture;
    float *attention_norm, *inner_norm;
    float *query_norm, *key_norm; /* of each head; NULL: none */
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
    struct store store;
    struct visits visits;                   /* of models with experts */
    float *hidden, *normed, *wide, *logits; /* of a call: [tokens, width] twice, [tokens, inner], [rows, vocabulary] */
    int64_t *lengths;                       /* of a call: of its sequences with the new tokens */
};

/* What tensors are called in GGUF files. */
static const struct alias gguf_names[] = {{"model.embed_tokens", "token_embd"},
                                          {"model.norm", "output_norm"},
                                          {"lm_head", "output"},
                                          {"input_layernorm", "attn_norm"},
                                          {"self_attn.q_proj", "attn_q"},
                                          {"self_attn.k_proj", "attn_k"},
                                          {"self_attn.v_proj", "attn_v"},
                                          {"self_attn.o_proj", "attn_output"},
                                          {"self_attn.q_norm", "attn_q_norm"},
                                          {"self_attn.k_norm", "attn_k_norm"},
                                          {"mlp.gate_proj", "ffn_gate"},
                                          {"mlp.up_proj", "ffn_up"},
                                          {"mlp.down_proj", "ffn_down"},
                                          {"mlp.gate", "ffn_gate_inp"},
                                          {"experts.gate_proj", "ffn_gate_exps"},
                                          {"experts.up_proj", "ffn_up_exps"},
                                          {"experts.down_proj", "ffn_down_exps"},
                                          {"post_attention_layernorm", "ffn_norm"},
                                          {NULL, NULL}};

/* And Mixtral's in folders: its experts have names of their own. */
static const struct alias mixtral_names[] = {
    {"mlp.gate", "block_sparse_moe.gate"}, {"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}, {NULL, NULL}};

static struct heed_weights read_named(const struct reader *reader, const char *prefix, const char *name, int64_t outputs,
                                      int64_t inputs) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return read_linear(reader, full, outputs, inputs);
}

static struct feed_forward read_inner(const struct config *config, const struct reader *reader, const char *prefix) {
    return (struct feed_forward){.up = read_named(reader, prefix, "gate_proj", config->inner, config->width),
                                 .gate = read_named(reader, prefix, "up_proj", config->inner, config->width),
                                 .down = read_named(reader, prefix, "down_proj", config->width, config->inner),
                                 .activation = HEED_SILU};
}

/* Fewer bits would send tokens elsewhere. */
static struct heed_weights read_router(const struct config *config, struct reader reader) {
    reader.type = HEED_F32;
    return read_linear(&reader, "mlp.gate", config->experts, config->width);
}

/* GGUF files have the experts of a layer in one tensor, folders each in its own.  Leaves the layer's scope. */
static struct mixture read_mixture(const struct config *config, struct reader *reader, int64_t layer) {
    struct mixture mixture = {.router = read_router(config, *reader),
                              .experts = allocate(config->experts, sizeof *mixture.experts)};
    const bool stacked = reader->aliases == gguf_names, mixtral = reader->aliases == mixtral_names;
    reader->stack = stacked ? config->experts : 0;
    for (reader->part = 0; reader->part < config->experts; reader->part++) {
        if (!stacked)
            reader_enter(reader, "model.layers.%" PRId64 ".%s.experts.%" PRId64 ".", layer, mixtral ? "block_sparse_moe" : "mlp",
                         reader->part);
        mixture.experts[reader->part] = read_inner(config, reader, stacked ? "experts." : "");
    }
    reader->stack = 0;
    return mixture;
}

static struct layer read_layer(const struct config *config, struct reader *reader, int64_t index) {
    const int64_t width = config->width, heads = config->heads * config->head;
    const int64_t kv = config->kv_heads * config->head;
    const struct part qkv[] = {{"self_attn.q_proj", heads}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}};
    const bool together = have_one_type(reader, qkv, 3, width); /* values often have more bits than queries and keys */
    struct layer layer = {.qkv = read_parts(reader, qkv, together ? 3 : 2, width),
                          .projection = read_linear(reader, "self_attn.o_proj", width, heads),
                          .attention_norm = read_floats(reader, "input_layernorm", ".weight", 0, width),
                          .inner_norm = read_floats(reader, "post_attention_layernorm", ".weight", 0, width)};
    if (!together)
        layer.value = read_linear(reader, qkv[2].name, kv, width);
    if (config->head_norms) {
        layer.query_norm = read_floats(reader, "self_attn.q_norm", ".weight", 0, config->head);
        layer.key_norm = read_floats(reader, "self_attn.k_norm", ".weight", 0, config->head);
    }
    if (config->experts > 0)
        layer.mixture = read_mixture(config, reader, index);
    else
        layer.inner = read_inner(config, reader, "mlp.");
    return layer;
}

static const struct alias *names_of(const struct checkpoint *checkpoint) {
    if (checkpoint->metadata.json)
        return gguf_names;
    return checkpoint_has(checkpoint, "model.layers.0.block_sparse_moe.gate.weight") ? mixtral_names : NULL;
}

struct model *model_open(const char *path, const enum heed_type *weights, const struct heed_exec *exec) {
    struct model *model = allocate(1, sizeof *model);
    *model = (struct model){.exec = *exec, .checkpoint = checkpoint_open(path)};
    const struct checkpoint *checkpoint = &model->checkpoint;
    const struct config *config = &model->config;
    model->config = config_read(path, checkpoint);
    struct reader reader = {.checkpoint = checkpoint,
                            .exec = &model->exec,
                            .aliases = names_of(checkpoint),
                            .stored = !weights,
                            .type = weights ? *weights : HEED_F32};
    const char *words = "model.embed_tokens", *head = config->tied ? words : "lm_head";
    model->words = find_table(&reader, words, config->vocabulary, config->width);
    model->last_norm = read_floats(&reader, "model.norm", ".weight", 0, config->width);
    model->head = read_linear(&reader, head, config->vocabulary, config->width);
    model->layer = allocate(config->layers, sizeof *model->layer);
    for (int64_t i = 0; i < config->layers; i++) {
        reader_enter(&reader, checkpoint->metadata.json ? "blk.%" PRId64 "." : "model.layers.%" PRId64 ".", i);
        model->layer[i] = read_layer(config, &reader, i);
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

struct store *model_make_room(struct model *model, const struct room *room) {
    const struct config *config = &model->config;
    model->hidden = allocate(room->tokens * config->width, sizeof *model->hidden);
    model->normed = allocate(room->tokens * config->width, sizeof *model->normed);
    if (config->experts > 0)
        model->visits = visits_begin(config, room->tokens);
    else
        model->wide = allocate(room->tokens * config->inner, sizeof *model->wide);
    model->logits = allocate(room->rows * config->vocabulary, sizeof *model->logits);
    model->lengths = allocate(room->tokens, sizeof *model->lengths);
    model->store = (struct store){.layers = config->layers,
                                  .kv = {.key_type = room->cache,
                                         .value_type = room->cache,
                                         .page_tokens = PAGE_TOKENS,
                                         .num_kv_heads = config->kv_heads,
                                         .head_dim = config->head,
                                         .value_dim = config->head}};
    store_begin(&model->store, room->pages, room->pages_per_sequence);
    fill_rope(model, room->pages_per_sequence * PAGE_TOKENS);
    return &model->store;
}

/* Every sequence attends to itself and what its pages hold of it. */
static struct heed_attention_layer attention_of(const struct model *model, const struct batch *batch) {
    const struct config *config = &model->config;
    int64_t longest = 0;
    for (int64_t i = 0; i < batch->sequences; i++) {
        model->lengths[i] = batch->positions[i] + batch->starts[i + 1] - batch->starts[i];
        longest = longest > model->lengths[i] ? longest : model->lengths[i];
    }
    return (struct heed_attention_layer){.attention = {.compute = batch->compute,
                                                       .batch = batch->sequences,
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
                                                       .query_offsets = batch->positions},
                                         .positions = batch->positions,
                                         .rope = model->rope};
}

/* hidden += the feed-forward layer, or the mixture, of normed */
static void run_inner(struct model *model, const struct layer *layer, enum heed_compute compute, int64_t tokens) {
    struct feed_forward inner = layer->inner;
    struct mixture mixture = layer->mixture;
    inner.compute = mixture.compute = compute;
    if (model->config.experts > 0)
        mix(&model->exec, &model->config, tokens, &mixture, model->normed, &model->visits, model->hidden);
    else
        feed_forward(&model->exec, tokens, &inner, model->normed, model->wide, model->hidden);
}

/* normed = norm(hidden) */
static void normalise(const struct model *model, const float *gain, int64_t rows) {
    rms_norm(&model->exec, rows, model->config.width, model->config.epsilon, gain, model->hidden, model->normed);
}

float *model_run(struct model *model, const struct batch *batch) {
    const int64_t tokens = batch->starts[batch->sequences];
    struct heed_attention_layer attention = attention_of(model, batch);
    look_up(&model->exec, &model->words, batch->tokens, tokens, model->hidden);
    for (int64_t i = 0; i < model->config.layers; i++) {
        const struct layer *layer = &model->layer[i];
        const struct heed_kv_cache cache = store_layer(&model->store, i, batch->page);
        attention.attention.cache = &cache;
        attention.qkv = layer->qkv;
        attention.value = layer->value;
        attention.out = layer->projection;
        attention.head_norm = (struct heed_head_norm){layer->query_norm, layer->key_norm, model->config.epsilon};
        normalise(model, layer->attention_norm, tokens);
        attend(&model->exec, attention, model->normed, model->hidden);
        normalise(model, layer->inner_norm, tokens);
        run_inner(model, layer, batch->compute, tokens);
    }
    normalise(model, model->last_norm, tokens);
    const struct tensor normed = {model->normed, tokens, model->config.width, HEED_F32};
    look_up(&model->exec, &normed, batch->row, batch->rows, model->hidden);
    linear_in(&model->exec, batch->compute == HEED_COMPUTE_I8 ? HEED_COMPUTE_I8 : HEED_COMPUTE_F32, batch->rows, &model->head,
              model->hidden, NULL, model->logits);
    check_finite(&model->checkpoint, "logits", model->logits, batch->rows * model->config.vocabulary);
    return model->logits;
}
