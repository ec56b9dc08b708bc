/* Reads a T5 checkpoint, of version 1.0 or 1.1, which differ in the feed-forward layers and in what logits are made with.  See
 * model.h. */
#include "layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256, PAGE_TOKENS = 16 };

/* Gains of an RMS norm. */
static float *read_norm(const struct model *model, const struct reader *reader, const char *name) {
    return read_floats(reader, name, 0, model->width);
}

static struct heed_weights read_one(const struct reader *reader, const char *name, int64_t outputs, int64_t inputs) {
    return read_weights(reader, &(struct part){name, outputs}, 1, inputs, false);
}

/* The sublayers are numbered: attention, attention to the encoder where there is one, the feed-forward layer. */
static void read_attention(const struct model *model, struct reader *reader, struct layer *layer) {
    const int64_t heads = model->heads * model->head_dim;
    const struct part qkv[] = {{"SelfAttention.q", heads}, {"SelfAttention.k", heads}, {"SelfAttention.v", heads}};
    layer->self_norm = read_norm(model, reader, "layer_norm.weight");
    layer->qkv = read_weights(reader, qkv, 3, model->width, false);
    layer->out = read_one(reader, "SelfAttention.o", model->width, heads);
}

static void read_cross(const struct model *model, const struct reader *reader, struct layer *layer) {
    const int64_t heads = model->heads * model->head_dim;
    const struct part key_value[] = {{"EncDecAttention.k", heads}, {"EncDecAttention.v", heads}};
    layer->cross_norm = read_norm(model, reader, "layer_norm.weight");
    layer->cross_query = read_one(reader, "EncDecAttention.q", heads, model->width);
    layer->cross_key_value = read_weights(reader, key_value, 2, model->width, false);
    layer->cross_out = read_one(reader, "EncDecAttention.o", model->width, heads);
}

static void read_feed_forward(const struct model *model, const struct reader *reader, struct layer *layer) {
    layer->inner_norm = read_norm(model, reader, "layer_norm.weight");
    layer->up = read_one(reader, model->gated ? "DenseReluDense.wi_0" : "DenseReluDense.wi", model->inner, model->width);
    if (model->gated)
        layer->gate = read_one(reader, "DenseReluDense.wi_1", model->inner, model->width);
    layer->down = read_one(reader, "DenseReluDense.wo", model->width, model->inner);
}

/* The sublayers of a block are numbered. */
static void enter(struct reader *reader, char scope[NAME_BYTES], const char *stack, int64_t block, int sublayer) {
    snprintf(scope, NAME_BYTES, "%s.block.%" PRId64 ".layer.%d.", stack, block, sublayer);
    reader->scope = scope;
}

/* The first layer has the relative bias of all. */
static void read_stack(struct model *model, struct reader *reader, const char *name, struct stack *stack) {
    char scope[NAME_BYTES];
    stack->layer = allocate(stack->layers, sizeof *stack->layer);
    for (int64_t i = 0; i < stack->layers; i++) {
        struct layer *layer = &stack->layer[i];
        *layer = (struct layer){.self_norm = NULL};
        int sublayer = 0;
        enter(reader, scope, name, i, sublayer++);
        read_attention(model, reader, layer);
        if (i == 0)
            stack->relative.table =
                read_floats(reader, "SelfAttention.relative_attention_bias.weight", stack->relative.num_buckets, model->heads);
        if (stack == &model->decoder) {
            enter(reader, scope, name, i, sublayer++);
            read_cross(model, reader, layer);
        }
        enter(reader, scope, name, i, sublayer);
        read_feed_forward(model, reader, layer);
        checkpoint_release(&model->checkpoint); /* its weights are packed now */
    }
    snprintf(scope, sizeof scope, "%s.", name);
    reader->scope = scope;
    stack->norm = read_norm(model, reader, "final_layer_norm.weight");
}

/* One table says what goes in and, unless there is another one for that, what comes out. */
static void read_words(struct model *model, struct reader *reader) {
    static const char *const names[] = {"shared", "encoder.embed_tokens", "decoder.embed_tokens"};
    char full[NAME_BYTES];
    size_t which = 0;
    bool found = false;
    for (; !found && which < sizeof names / sizeof *names; which += !found) {
        snprintf(full, sizeof full, "%s.weight", names[which]);
        found = checkpoint_has(&model->checkpoint, full);
    }
    const char *words = names[found ? which : 0];
    reader->scope = "";
    snprintf(full, sizeof full, "%s.weight", words);
    model->words = find_tensor(reader, full, model->vocabulary, model->width);
    const bool head = checkpoint_has(&model->checkpoint, "lm_head.weight");
    model->head = read_one(reader, head ? "lm_head" : words, model->vocabulary, model->width);
    checkpoint_release(&model->checkpoint);
}

static void read_activation(struct model *model, const struct settings *config) {
    static const struct {
        const char *name;
        enum heed_activation activation;
        bool gated;
    } known[] = {{"relu", HEED_RELU, false},      {"gelu", HEED_GELU, false},           {"silu", HEED_SILU, false},
                 {"gated-relu", HEED_RELU, true}, {"gated-gelu", HEED_GELU_TANH, true}, {"gated-silu", HEED_SILU, true}};
    const char *name = settings_string(config, "feed_forward_proj", "relu");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) {
            model->activation = known[i].activation;
            model->gated = known[i].gated;
            return;
        }
    fail("%s: feed_forward_proj is %s, must be relu, gelu or silu, or one of them after gated-", config->path, name);
}

/* Returns whether what the decoder says is divided by sqrt(width).  Sizes have limits that keep their products from overflowing. */
static bool read_config(struct model *model, const char *folder) {
    const int64_t most = 1 << 20, none = SETTINGS_REQUIRED;
    const struct settings config = settings_open(folder, "config.json");
    settings_require(&config);
    const char *type = settings_string(&config, "model_type", "t5");
    if (strcmp(type, "t5") != 0)
        fail("%s: model_type is %s, must be t5", config.path, type);
    model->vocabulary = settings_integer(&config, "vocab_size", 1, 1 << 30, none);
    model->width = settings_integer(&config, "d_model", 1, most, none);
    model->inner = settings_integer(&config, "d_ff", 1, most, none);
    model->heads = settings_integer(&config, "num_heads", 1, most, none);
    model->head_dim = settings_integer(&config, "d_kv", 1, most, none);
    model->encoder.layers = settings_integer(&config, "num_layers", 1, most, none);
    model->decoder.layers = settings_integer(&config, "num_decoder_layers", 1, most, model->encoder.layers);
    model->epsilon = (float)settings_number(&config, "layer_norm_epsilon", 0, 1, 1e-6);
    const struct heed_relative relative = {.head_stride = 1,
                                           .bucket_stride = model->heads,
                                           .num_buckets = settings_integer(&config, "relative_attention_num_buckets", 4, 512, 32),
                                           .max_distance =
                                               settings_integer(&config, "relative_attention_max_distance", 2, 65536, 128)};
    model->encoder.relative = model->decoder.relative = relative;
    model->encoder.relative.bidirectional = true;
    if (relative.num_buckets % 2 != 0 || relative.max_distance <= relative.num_buckets / 2)
        fail("%s: relative_attention_num_buckets is %" PRId64
             ", must be even, and no more than twice relative_attention_max_distance, %" PRId64,
             config.path, relative.num_buckets, relative.max_distance);
    read_activation(model, &config);
    const bool scaled = settings_flag(&config, "scale_decoder_outputs", settings_flag(&config, "tie_word_embeddings", true));
    json_decref(config.json);
    return scaled;
}

struct model *model_open(const char *folder, enum heed_type weights, const struct heed_exec *exec) {
    struct model *model = allocate(1, sizeof *model);
    *model = (struct model){.exec = *exec};
    const bool scaled = read_config(model, folder);
    model->checkpoint = checkpoint_open(folder);
    struct reader reader = {.checkpoint = &model->checkpoint, .exec = exec, .type = weights};
    read_stack(model, &reader, "encoder", &model->encoder);
    read_stack(model, &reader, "decoder", &model->decoder);
    for (int64_t i = 0; scaled && i < model->width; i++)
        model->decoder.norm[i] *= 1.0f / sqrtf((float)model->width);
    read_words(model, &reader);
    model->self.layers = model->cross.layers = model->decoder.layers;
    model->self.kv = model->cross.kv = (struct heed_kv_cache){
        .page_tokens = PAGE_TOKENS, .num_kv_heads = model->heads, .head_dim = model->head_dim, .value_dim = model->head_dim};
    return model;
}

int64_t model_vocabulary(const struct model *model) { return model->vocabulary; }
