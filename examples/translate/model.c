/* Reads a T5 checkpoint, of version 1.0 or 1.1, which differ in the feed-forward layers and in what logits are made with.  See
 * model.h. */
#include "parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PAGE_TOKENS = 16 };

/* Gains of an RMS norm. */
static float *read_norm(const struct model *model, const struct reader *reader, const char *name) {
    return read_floats(reader, name, ".weight", 0, model->width);
}

/* The sublayers of a block are numbered: attention, attention to the encoder where there is one, the feed-forward layer. */
static struct layer read_block(const struct model *model, struct reader *reader, const char *stack, int64_t block, bool crosses) {
    const int64_t width = model->width, inner = model->inner, heads = model->heads * model->head_dim;
    const struct part qkv[] = {{"SelfAttention.q", heads}, {"SelfAttention.k", heads}, {"SelfAttention.v", heads}};
    const struct part key_value[] = {{"EncDecAttention.k", heads}, {"EncDecAttention.v", heads}};
    struct layer layer = {.inner = {.activation = model->activation}};
    int sublayer = 0;
    reader_enter(reader, "%s.block.%" PRId64 ".layer.%d.", stack, block, sublayer++);
    layer.self_norm = read_norm(model, reader, "layer_norm");
    layer.qkv = read_parts(reader, qkv, 3, width);
    layer.out = read_linear(reader, "SelfAttention.o", width, heads);
    if (crosses) {
        reader_enter(reader, "%s.block.%" PRId64 ".layer.%d.", stack, block, sublayer++);
        layer.cross_norm = read_norm(model, reader, "layer_norm");
        layer.cross_query = read_linear(reader, "EncDecAttention.q", heads, width);
        layer.cross_key_value = read_parts(reader, key_value, 2, width);
        layer.cross_out = read_linear(reader, "EncDecAttention.o", width, heads);
    }
    reader_enter(reader, "%s.block.%" PRId64 ".layer.%d.", stack, block, sublayer);
    layer.inner_norm = read_norm(model, reader, "layer_norm");
    layer.inner.up = read_linear(reader, model->gated ? "DenseReluDense.wi_0" : "DenseReluDense.wi", inner, width);
    if (model->gated)
        layer.inner.gate = read_linear(reader, "DenseReluDense.wi_1", inner, width);
    layer.inner.down = read_linear(reader, "DenseReluDense.wo", width, inner);
    return layer;
}

/* The first block has the relative bias of all. */
static void read_stack(struct model *model, struct reader *reader, const char *name, struct stack *stack) {
    stack->layer = allocate(stack->layers, sizeof *stack->layer);
    for (int64_t i = 0; i < stack->layers; i++) {
        stack->layer[i] = read_block(model, reader, name, i, stack == &model->decoder);
        checkpoint_release(&model->checkpoint); /* its weights are packed now */
    }
    reader_enter(reader, "%s.", name);
    stack->norm = read_norm(model, reader, "final_layer_norm");
    stack->relative.table = read_floats(reader, "block.0.layer.0.SelfAttention.relative_attention_bias", ".weight",
                                        stack->relative.num_buckets, model->heads);
}

/* One table says what goes in and, unless there is another one for that, what comes out. */
static void read_words(struct model *model, struct reader *reader) {
    static const char *const names[] = {"shared", "encoder.embed_tokens", "decoder.embed_tokens"};
    size_t i = sizeof names / sizeof *names - 1;
    reader_enter(reader, "%s", "");
    while (i > 0 && !has_tensor(reader, names[i], ".weight"))
        i--;
    model->words = find_table(reader, names[i], model->vocabulary, model->width);
    const char *head = has_tensor(reader, "lm_head", ".weight") ? "lm_head" : names[i];
    model->head = read_linear(reader, head, model->vocabulary, model->width);
    checkpoint_release(&model->checkpoint);
}

/* "gelu", or "gated-gelu", which means another form of it. */
static void read_activation(struct model *model, const struct settings *config) {
    static const char gated[] = "gated-", field[] = "feed_forward_proj";
    const char *name = settings_string(config, field, "relu");
    model->gated = strncmp(name, gated, sizeof gated - 1) == 0;
    const char *form = strcmp(name, "gated-gelu") == 0 ? "gelu_new" : model->gated ? name + sizeof gated - 1 : name;
    if (!activation_named(form, &model->activation))
        fail("%s: %s is %s, must be, or be after gated-, one of " ACTIVATIONS, config->path, field, name);
}

static struct heed_relative read_relative(const struct model *model, const struct settings *config) {
    const struct heed_relative relative = {.head_stride = 1,
                                           .bucket_stride = model->heads,
                                           .num_buckets = settings_integer(config, "relative_attention_num_buckets", 4, 512, 32),
                                           .max_distance =
                                               settings_integer(config, "relative_attention_max_distance", 2, 65536, 128)};
    if (relative.num_buckets % 2 != 0 || relative.max_distance <= relative.num_buckets / 2)
        fail("%s: relative_attention_num_buckets is %" PRId64
             ", must be even, and less than twice relative_attention_max_distance, %" PRId64,
             config->path, relative.num_buckets, relative.max_distance);
    return relative;
}

/* Sizes have limits that keep their products from overflowing. */
static void read_config(struct model *model, const struct settings *config) {
    const int64_t most = 1 << 20, none = SETTINGS_REQUIRED;
    settings_require(config);
    settings_expect(config, "model_type", "t5");
    model->vocabulary = settings_integer(config, "vocab_size", 1, 1 << 30, none);
    model->width = settings_integer(config, "d_model", 1, most, none);
    model->inner = settings_integer(config, "d_ff", 1, most, none);
    model->heads = settings_integer(config, "num_heads", 1, most, none);
    model->head_dim = settings_integer(config, "d_kv", 1, most, none);
    model->encoder.layers = settings_integer(config, "num_layers", 1, most, none);
    model->decoder.layers = settings_integer(config, "num_decoder_layers", 1, most, model->encoder.layers);
    model->epsilon = (float)settings_number(config, "layer_norm_epsilon", 0, 1, 1e-6);
    model->encoder.relative = model->decoder.relative = read_relative(model, config);
    model->encoder.relative.bidirectional = true;
    read_activation(model, config);
}

struct model *model_open(const char *folder, enum heed_type weights, const struct heed_exec *exec) {
    const struct settings config = settings_open(folder, "config.json");
    struct model *model = allocate(1, sizeof *model);
    *model = (struct model){.exec = *exec};
    read_config(model, &config);
    model->checkpoint = checkpoint_open(folder);
    struct reader reader = {.checkpoint = &model->checkpoint, .exec = exec, .type = weights};
    read_stack(model, &reader, "encoder", &model->encoder);
    read_stack(model, &reader, "decoder", &model->decoder);
    read_words(model, &reader);
    if (settings_flag(&config, "scale_decoder_outputs", settings_flag(&config, "tie_word_embeddings", true)))
        for (int64_t i = 0; i < model->width; i++)
            model->decoder.norm[i] *= 1.0f / sqrtf((float)model->width);
    model->self.layers = model->cross.layers = model->decoder.layers;
    model->self.kv = model->cross.kv = (struct heed_kv_cache){
        .page_tokens = PAGE_TOKENS, .num_kv_heads = model->heads, .head_dim = model->head_dim, .value_dim = model->head_dim};
    model->pool.store[0] = &model->self;
    return model;
}

int64_t model_vocabulary(const struct model *model) { return model->vocabulary; }
