/* See model.h.  The sentences of a call lie one after another in tensors [tokens, width]: there is no padding anywhere. */
#include "model.h"
#include "../shared/layers.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct norm {
    float *gain, *bias;
};

struct layer {
    struct heed_weights qkv, projection; /* packed */
    struct feed_forward inner;
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

static struct norm read_norm(const struct reader *reader, const char *name, int64_t width) {
    return (struct norm){read_floats(reader, name, ".weight", 0, width), read_floats(reader, name, ".bias", 0, width)};
}

static struct layer read_layer(const struct model *model, const struct reader *reader) {
    const int64_t width = model->sizes.width, inner = model->inner;
    const struct part qkv[] = {{"attention.self.query", width}, {"attention.self.key", width}, {"attention.self.value", width}};
    return (struct layer){.qkv = read_parts(reader, qkv, 3, width),
                          .projection = read_linear(reader, "attention.output.dense", width, width),
                          .inner = {.up = read_linear(reader, "intermediate.dense", inner, width),
                                    .down = read_linear(reader, "output.dense", width, inner),
                                    .activation = model->activation},
                          .attention_norm = read_norm(reader, "attention.output.LayerNorm", width),
                          .inner_norm = read_norm(reader, "output.LayerNorm", width)};
}

static void read_embeddings(struct model *model, const struct reader *reader, int64_t segments) {
    const struct model_sizes *sizes = &model->sizes;
    model->words = find_table(reader, "word_embeddings", sizes->vocabulary, sizes->width);
    model->places = find_table(reader, "position_embeddings", sizes->positions, sizes->width);
    model->segments = find_table(reader, "token_type_embeddings", segments, sizes->width);
    model->words_norm = read_norm(reader, "LayerNorm", sizes->width);
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
    const char *activation = settings_string(&config, "hidden_act", "gelu");
    if (!activation_named(activation, &model->activation))
        fail("%s: hidden_act is %s, must be one of " ACTIVATIONS, config.path, activation);
    const int64_t segments = settings_integer(&config, "type_vocab_size", 1, most, 2);
    if (model->sizes.width % model->heads != 0)
        fail("%s: num_attention_heads is %" PRId64 ", must divide hidden_size, %" PRId64, config.path, model->heads,
             model->sizes.width);
    return segments;
}

static void read_pooling(struct model *model, const char *folder) {
    static const char *const others[] = {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                                         "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"};
    const struct settings pooling = settings_open(folder, "1_Pooling/config.json");
    model->first_token = settings_flag(&pooling, "pooling_mode_cls_token", false);
    if (pooling.json && model->first_token == settings_flag(&pooling, "pooling_mode_mean_tokens", !model->first_token))
        fail("%s: one of pooling_mode_mean_tokens and pooling_mode_cls_token must be true", pooling.path);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (settings_flag(&pooling, others[i], false))
            fail("%s: %s is true, must be false", pooling.path, others[i]);
}

struct model *model_open(const char *folder, enum heed_type weights, const struct heed_exec *exec) {
    struct model *model = allocate(1, sizeof *model);
    *model = (struct model){.exec = *exec};
    const int64_t segments = read_config(model, folder);
    read_pooling(model, folder);
    model->checkpoint = checkpoint_open(folder);
    const char *prefix = checkpoint_has(&model->checkpoint, "bert.embeddings.word_embeddings.weight") ? "bert." : "";
    struct reader reader = {.checkpoint = &model->checkpoint, .exec = &model->exec, .biased = true, .type = weights};
    reader_enter(&reader, "%sembeddings.", prefix);
    read_embeddings(model, &reader, segments);
    model->layer = allocate(model->layers, sizeof *model->layer);
    for (int64_t i = 0; i < model->layers; i++) {
        reader_enter(&reader, "%sencoder.layer.%" PRId64 ".", prefix, i);
        model->layer[i] = read_layer(model, &reader);
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

/* hidden += attention(hidden), every sentence on itself */
static void attend_self(const struct model *model, const struct layer *layer, const int64_t *starts, int64_t sentences) {
    const int64_t head = model->sizes.width / model->heads;
    const struct heed_attention attention = {.batch = sentences,
                                             .num_heads = model->heads,
                                             .num_kv_heads = model->heads,
                                             .query_tokens = starts[sentences],
                                             .head_dim = head,
                                             .value_dim = head,
                                             .query_starts = starts};
    attend(&model->exec, (struct heed_attention_layer){.attention = attention, .qkv = layer->qkv, .out = layer->projection},
           model->hidden, model->hidden);
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
    check_finite(&model->checkpoint, "vectors", vector, width);
    for (int64_t j = 0; j < width; j++)
        vector[j] = (float)(vector[j] / fmax(sqrt(square), 1e-12));
}

void model_encode(const struct model *model, const int32_t *tokens, const int64_t *starts, int64_t sentences, float *vectors) {
    const int64_t rows = starts[sentences];
    embed(model, tokens, starts, sentences);
    for (int64_t i = 0; i < model->layers; i++) {
        const struct layer *layer = &model->layer[i];
        attend_self(model, layer, starts, sentences);
        normalise(model, &layer->attention_norm, rows);
        feed_forward(&model->exec, rows, &layer->inner, model->hidden, model->wide, model->hidden);
        normalise(model, &layer->inner_norm, rows);
    }
    for (int64_t i = 0; i < sentences; i++)
        pool(model, model->hidden + starts[i] * model->sizes.width, starts[i + 1] - starts[i], vectors + i * model->sizes.width);
}
