/* See model.h.  The sentences of a call lie one after another in tensors [tokens, width]: there is no padding anywhere. */
#include "model.h"
#include "../checkpoint/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCOPE_BYTES = 128 };

struct norm {
    float *gain, *bias;
};

struct layer {
    struct heed_weights qkv, projection, up, down; /* packed */
    struct norm attention_norm, inner_norm;
};

struct model {
    struct checkpoint checkpoint;
    struct heed_exec exec;
    struct model_sizes sizes;
    int64_t heads, inner, layers;
    float epsilon;
    enum heed_activation activation;
    bool first_token; /* a sentence's vector is that of its [CLS], not the mean */
    struct tensor words, places, segments;
    struct norm words_norm;
    struct layer *layer;
    int32_t *place, *segment; /* of a call: [room], the positions of its tokens, and 0 */
    float *hidden, *wide;     /* of a call: [room, width], [room, inner] */
};

static struct norm read_norm(const struct reader *reader, const char *gain, const char *bias, int64_t width) {
    return (struct norm){read_floats(reader, gain, 0, width), read_floats(reader, bias, 0, width)};
}

static void read_layer(struct model *model, struct reader reader, const char *prefix, int64_t index) {
    const int64_t width = model->sizes.width, inner = model->inner;
    const struct part qkv[] = {{"attention.self.query", width}, {"attention.self.key", width}, {"attention.self.value", width}};
    const struct part projection = {"attention.output.dense", width}, up = {"intermediate.dense", inner};
    const struct part down = {"output.dense", width};
    char scope[SCOPE_BYTES];
    snprintf(scope, sizeof scope, "%sencoder.layer.%" PRId64 ".", prefix, index);
    reader.scope = scope;
    model->layer[index] = (struct layer){
        .qkv = read_weights(&reader, qkv, 3, width, true),
        .projection = read_weights(&reader, &projection, 1, width, true),
        .up = read_weights(&reader, &up, 1, width, true),
        .down = read_weights(&reader, &down, 1, inner, true),
        .attention_norm = read_norm(&reader, "attention.output.LayerNorm.weight", "attention.output.LayerNorm.bias", width),
        .inner_norm = read_norm(&reader, "output.LayerNorm.weight", "output.LayerNorm.bias", width),
    };
}

static void read_embeddings(struct model *model, struct reader reader, const char *prefix, int64_t segments) {
    const struct model_sizes *sizes = &model->sizes;
    char scope[SCOPE_BYTES];
    snprintf(scope, sizeof scope, "%sembeddings.", prefix);
    reader.scope = scope;
    model->words = find_tensor(&reader, "word_embeddings.weight", sizes->vocabulary, sizes->width);
    model->places = find_tensor(&reader, "position_embeddings.weight", sizes->positions, sizes->width);
    model->segments = find_tensor(&reader, "token_type_embeddings.weight", segments, sizes->width);
    model->words_norm = read_norm(&reader, "LayerNorm.weight", "LayerNorm.bias", sizes->width);
}

static enum heed_activation read_activation(const struct settings *config) {
    static const struct {
        const char *name;
        enum heed_activation activation;
    } known[] = {{"gelu", HEED_GELU}, {"gelu_new", HEED_GELU_TANH}, {"gelu_pytorch_tanh", HEED_GELU_TANH},
                 {"relu", HEED_RELU}, {"silu", HEED_SILU},          {"swish", HEED_SILU}};
    const char *name = settings_string(config, "hidden_act", "gelu");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].activation;
    fail("%s: hidden_act is %s, must be gelu, gelu_new, gelu_pytorch_tanh, relu, silu or swish", config->path, name);
}

/* Returns the number of segments.  Sizes have limits that keep their products from overflowing. */
static int64_t read_config(struct model *model, const char *folder) {
    const int64_t most = 1 << 20, none = SETTINGS_REQUIRED;
    const struct settings config = settings_open(folder, "config.json");
    settings_require(&config);
    settings_expect(&config, "model_type", "bert");
    settings_expect(&config, "position_embedding_type", "absolute");
    model->sizes.width = settings_integer(&config, "hidden_size", 1, most, none);
    model->sizes.vocabulary = settings_integer(&config, "vocab_size", 1, 1 << 30, none);
    model->sizes.positions = settings_integer(&config, "max_position_embeddings", 2, most, none);
    model->heads = settings_integer(&config, "num_attention_heads", 1, most, none);
    model->inner = settings_integer(&config, "intermediate_size", 1, most, none);
    model->layers = settings_integer(&config, "num_hidden_layers", 0, most, none);
    model->epsilon = (float)settings_number(&config, "layer_norm_eps", 0, 1, 1e-12);
    model->activation = read_activation(&config);
    const int64_t segments = settings_integer(&config, "type_vocab_size", 1, most, 2);
    if (model->sizes.width % model->heads != 0)
        fail("%s: num_attention_heads is %" PRId64 ", must divide hidden_size, %" PRId64, config.path, model->heads,
             model->sizes.width);
    json_decref(config.json);
    return segments;
}

static void read_pooling(struct model *model, const char *folder) {
    const struct settings pooling = settings_open(folder, "1_Pooling/config.json");
    model->first_token = settings_flag(&pooling, "pooling_mode_cls_token", false);
    if (pooling.json && model->first_token == settings_flag(&pooling, "pooling_mode_mean_tokens", !model->first_token))
        fail("%s: one of pooling_mode_mean_tokens and pooling_mode_cls_token must be true", pooling.path);
    json_decref(pooling.json);
}

struct model *model_open(const char *folder, enum heed_type weights, const struct heed_exec *exec) {
    struct model *model = allocate(1, sizeof *model);
    *model = (struct model){.exec = *exec};
    const int64_t segments = read_config(model, folder);
    read_pooling(model, folder);
    model->checkpoint = checkpoint_open(folder);
    const char *prefix = checkpoint_has(&model->checkpoint, "bert.embeddings.word_embeddings.weight") ? "bert." : "";
    const struct reader reader = {.checkpoint = &model->checkpoint, .exec = &model->exec, .type = weights};
    read_embeddings(model, reader, prefix, segments);
    model->layer = allocate(model->layers, sizeof *model->layer);
    for (int64_t i = 0; i < model->layers; i++) {
        read_layer(model, reader, prefix, i);
        checkpoint_release(&model->checkpoint); /* its weights are packed now */
    }
    return model;
}

void model_make_room(struct model *model, int64_t tokens) {
    const int64_t width = model->sizes.width;
    model->place = allocate(tokens, sizeof *model->place);
    model->segment = allocate(tokens, sizeof *model->segment);
    memset(model->segment, 0, (size_t)tokens * sizeof *model->segment);
    model->hidden = allocate(tokens * width, sizeof *model->hidden);
    model->wide = allocate(tokens * model->inner, sizeof *model->wide);
}

struct model_sizes model_sizes(const struct model *model) {
    return model->sizes;
}

/* hidden = norm(hidden) */
static void normalise(const struct model *model, const struct norm *norm, int64_t rows) {
    const int64_t width = model->sizes.width;
    check(heed_layer_norm(&(struct heed_norm){.rows = rows,
                                              .columns = width,
                                              .epsilon = model->epsilon,
                                              .input = {.data = model->hidden, .token_stride = width},
                                              .gain = norm->gain,
                                              .bias = norm->bias,
                                              .output = {.data = model->hidden, .token_stride = width}},
                          &model->exec));
}

/* hidden = hidden + attention(hidden), every sentence on itself */
static void attend(const struct model *model, const struct layer *layer, const int64_t *starts, int64_t sentences) {
    const int64_t width = model->sizes.width, head = width / model->heads;
    check(heed_attention_layer(&(struct heed_attention_layer){.attention = {.batch = sentences,
                                                                            .num_heads = model->heads,
                                                                            .num_kv_heads = model->heads,
                                                                            .query_tokens = starts[sentences],
                                                                            .head_dim = head,
                                                                            .value_dim = head,
                                                                            .query_starts = starts},
                                                              .qkv = layer->qkv,
                                                              .out = layer->projection,
                                                              .input = {.data = model->hidden, .token_stride = width},
                                                              .residual = {.data = model->hidden, .token_stride = width},
                                                              .output = {.data = model->hidden, .token_stride = width}},
                               &model->exec));
}

/* hidden = hidden + down(activation(up(hidden))) */
static void feed_forward(const struct model *model, const struct layer *layer, int64_t rows) {
    const int64_t width = model->sizes.width;
    check(heed_linear(&(struct heed_linear){.rows = rows,
                                            .weights = layer->up,
                                            .activation = model->activation,
                                            .input = {.data = model->hidden, .token_stride = width},
                                            .output = {.data = model->wide, .token_stride = model->inner}},
                      &model->exec));
    check(heed_linear(&(struct heed_linear){.rows = rows,
                                            .weights = layer->down,
                                            .input = {.data = model->wide, .token_stride = model->inner},
                                            .residual = {.data = model->hidden, .token_stride = width},
                                            .output = {.data = model->hidden, .token_stride = width}},
                      &model->exec));
}

/* The sum of what word, position and the one segment say, normalised. */
static void embed(const struct model *model, const int32_t *tokens, const int64_t *starts, int64_t sentences) {
    const int64_t width = model->sizes.width, rows = starts[sentences];
    for (int64_t i = 0; i < sentences; i++)
        for (int64_t j = starts[i]; j < starts[i + 1]; j++)
            model->place[j] = (int32_t)(j - starts[i]);
    const struct heed_lookup lookup[] = {lookup_of(&model->words, tokens), lookup_of(&model->places, model->place),
                                         lookup_of(&model->segments, model->segment)};
    check(heed_embedding(&(struct heed_embedding){.rows = rows,
                                                  .columns = width,
                                                  .tables = 3,
                                                  .lookup = lookup,
                                                  .output = {.data = model->hidden, .token_stride = width}},
                         &model->exec));
    normalise(model, &model->words_norm, rows);
}

/* The mean over a sentence, or its first token, of length 1. */
static void pool(const struct model *model, const float *hidden, int64_t tokens, float *vector) {
    const int64_t width = model->sizes.width;
    double square = 0;
    memcpy(vector, hidden, (size_t)width * sizeof *vector);
    for (int64_t i = 1; i < tokens && !model->first_token; i++)
        for (int64_t j = 0; j < width; j++)
            vector[j] += hidden[i * width + j];
    for (int64_t j = 0; j < width; j++)
        square += (double)vector[j] * vector[j];
    if (!isfinite(square))
        fail("%s: gives vectors that are not finite", model->checkpoint.path);
    for (int64_t j = 0; j < width; j++)
        vector[j] = (float)(vector[j] / fmax(sqrt(square), 1e-12));
}

void model_encode(const struct model *model, const int32_t *tokens, const int64_t *starts, int64_t sentences, float *vectors) {
    const int64_t rows = starts[sentences];
    embed(model, tokens, starts, sentences);
    for (int64_t i = 0; i < model->layers; i++) {
        const struct layer *layer = &model->layer[i];
        attend(model, layer, starts, sentences);
        normalise(model, &layer->attention_norm, rows);
        feed_forward(model, layer, rows);
        normalise(model, &layer->inner_norm, rows);
    }
    for (int64_t i = 0; i < sentences; i++)
        pool(model, model->hidden + starts[i] * model->sizes.width, starts[i + 1] - starts[i], vectors + i * model->sizes.width);
}
