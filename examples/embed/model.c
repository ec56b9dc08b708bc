/* See model.h.  The sentences of a call lie one after another in tensors [tokens, width]: there is no padding anywhere. */
#include "model.h"
#include "../checkpoint/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256, BLOCK = 32, BLOCK_BYTES = 34 };

struct norm {
    float *gain, *bias;
};

struct layer {
    struct heed_weights qkv, projection, up, down; /* packed */
    struct norm attention_norm, inner_norm;
};

struct model {
    struct checkpoint checkpoint;
    const char *prefix; /* of the names of its tensors */
    enum heed_type type;
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

static void check(enum heed_status status) {
    if (status != HEED_OK)
        fail("%s: %s", heed_status_string(status), heed_error_message());
}

/* The tensor called <prefix><scope><name><kind>. */
static struct tensor find(const struct model *model, const char *scope, const char *name, const char *kind, int64_t rows,
                          int64_t columns) {
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s%s%s", model->prefix, scope, name, kind);
    return checkpoint_tensor(&model->checkpoint, full, rows, columns);
}

static struct heed_lookup lookup_of(const struct tensor *tensor, const int32_t *ids) {
    return (struct heed_lookup){
        .data = tensor->data, .rows = tensor->rows, .stride = tensor->columns, .type = tensor->type, .ids = ids};
}

/* Rows of a tensor of the checkpoint in another type. */
static void convert(const struct model *model, const struct tensor *tensor, enum heed_type type, void *copy) {
    check(
        heed_convert(&(struct heed_convert){.rows = tensor->rows,
                                            .columns = tensor->columns,
                                            .input = {.data = tensor->data, .token_stride = tensor->columns, .type = tensor->type},
                                            .output = {.data = copy, .token_stride = tensor->columns, .type = type}},
                     &model->exec));
}

static float *read_vector(const struct model *model, const char *scope, const char *name, const char *kind) {
    const struct tensor tensor = find(model, scope, name, kind, 0, model->sizes.width);
    float *vector = allocate(tensor.columns, sizeof *vector);
    convert(model, &tensor, HEED_F32, vector);
    return vector;
}

static struct norm read_norm(const struct model *model, const char *scope, const char *name) {
    return (struct norm){read_vector(model, scope, name, ".weight"), read_vector(model, scope, name, ".bias")};
}

/* What weights are stored as.  One scale for a row of 1536 weights, as HEED_I8 has it, makes sentences 7 times as wrong as one for
 * each block of 32; where there are no whole blocks, floats stay. */
static enum heed_type type_of_weights(const struct model *model, int64_t inputs) {
    return model->type == HEED_Q8_0 && inputs % BLOCK != 0 ? HEED_F32 : model->type;
}

static int64_t bytes_of(enum heed_type type, int64_t elements) {
    return type == HEED_Q8_0 ? elements / BLOCK * BLOCK_BYTES : elements * (type == HEED_BF16 ? 2 : 4);
}

/* Linear layers of the checkpoint, one below the other, as one: [parts * outputs, inputs]. */
static struct heed_weights read_linear(const struct model *model, const char *scope, const char *const *names, int parts,
                                       int64_t outputs, int64_t inputs) {
    const enum heed_type type = type_of_weights(model, inputs);
    const int64_t bytes = bytes_of(type, outputs * inputs);
    char *stored = allocate(parts * bytes, 1);
    float *bias = allocate(parts * outputs, sizeof *bias);
    for (int64_t part = 0; part < parts; part++) {
        const struct tensor weight = find(model, scope, names[part], ".weight", outputs, inputs);
        const struct tensor shift = find(model, scope, names[part], ".bias", 0, outputs);
        convert(model, &weight, type, stored + part * bytes);
        convert(model, &shift, HEED_F32, bias + part * outputs);
    }
    struct heed_weights weights = {
        .outputs = parts * outputs, .inputs = inputs, .data = stored, .type = type, .stride = inputs, .bias = bias};
    void *packed = allocate(heed_packed_bytes(&weights), 1);
    check(heed_pack_weights(&weights, packed, &model->exec));
    weights.packed = packed;
    free(stored);
    return weights;
}

static void read_layer(struct model *model, int64_t index) {
    static const char *const qkv[] = {"attention.self.query", "attention.self.key", "attention.self.value"};
    static const char *const projection[] = {"attention.output.dense"}, *const up[] = {"intermediate.dense"};
    static const char *const down[] = {"output.dense"};
    const int64_t width = model->sizes.width;
    char scope[NAME_BYTES / 2];
    snprintf(scope, sizeof scope, "encoder.layer.%" PRId64 ".", index);
    model->layer[index] = (struct layer){
        .qkv = read_linear(model, scope, qkv, 3, width, width),
        .projection = read_linear(model, scope, projection, 1, width, width),
        .up = read_linear(model, scope, up, 1, model->inner, width),
        .down = read_linear(model, scope, down, 1, width, model->inner),
        .attention_norm = read_norm(model, scope, "attention.output.LayerNorm"),
        .inner_norm = read_norm(model, scope, "output.LayerNorm"),
    };
}

static void read_embeddings(struct model *model, int64_t segments) {
    const struct model_sizes *sizes = &model->sizes;
    const char *scope = "embeddings.", *kind = ".weight";
    model->words = find(model, scope, "word_embeddings", kind, sizes->vocabulary, sizes->width);
    model->places = find(model, scope, "position_embeddings", kind, sizes->positions, sizes->width);
    model->segments = find(model, scope, "token_type_embeddings", kind, segments, sizes->width);
    model->words_norm = read_norm(model, scope, "LayerNorm");
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

/* A field that has one value here. */
static void expect(const struct settings *settings, const char *field, const char *value) {
    const char *found = settings_string(settings, field, value);
    if (strcmp(found, value) != 0)
        fail("%s: %s is %s, must be %s", settings->path, field, found, value);
}

/* Returns the number of segments.  Sizes have limits that keep their products from overflowing. */
static int64_t read_config(struct model *model, const char *folder) {
    const int64_t most = 1 << 20, none = SETTINGS_REQUIRED;
    const struct settings config = settings_open(folder, "config.json");
    settings_require(&config);
    expect(&config, "model_type", "bert");
    expect(&config, "position_embedding_type", "absolute");
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
    *model = (struct model){.type = weights, .exec = *exec, .prefix = ""};
    const int64_t segments = read_config(model, folder);
    read_pooling(model, folder);
    model->checkpoint = checkpoint_open(folder);
    if (checkpoint_has(&model->checkpoint, "bert.embeddings.word_embeddings.weight"))
        model->prefix = "bert.";
    read_embeddings(model, segments);
    model->layer = allocate(model->layers, sizeof *model->layer);
    for (int64_t i = 0; i < model->layers; i++) {
        read_layer(model, i);
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
                                              .input = model->hidden,
                                              .input_stride = width,
                                              .gain = norm->gain,
                                              .bias = norm->bias,
                                              .output = model->hidden,
                                              .output_stride = width},
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
