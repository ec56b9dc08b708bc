/* See config.h.  Sizes have limits that keep their products from overflowing. */
#include "config.h"
#include "../checkpoint/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, MOST_VOCABULARY = 1 << 30, NONE = SETTINGS_REQUIRED, FIELD_BYTES = 64 };
static const double two_pi = 6.283185307179586;

/* Where sizes come from: config.json, or, if that is NULL, fields of a GGUF file that begin with the name of the architecture. */
struct source {
    const struct settings *settings;
    const struct checkpoint *checkpoint;
    const char *architecture;
};

static double read_number(const struct source *source, const char *json, const char *gguf, double least, double most,
                          double otherwise) {
    char name[FIELD_BYTES];
    snprintf(name, sizeof name, "%s.%s", source->architecture, gguf);
    return source->settings ? settings_number(source->settings, json, least, most, otherwise)
                            : gguf_number(source->checkpoint, name, least, most, otherwise);
}

static int64_t read_size(const struct source *source, const char *json, const char *gguf, int64_t least, int64_t most,
                         int64_t otherwise) {
    char name[FIELD_BYTES];
    snprintf(name, sizeof name, "%s.%s", source->architecture, gguf);
    return source->settings ? settings_integer(source->settings, json, least, most, otherwise)
                            : gguf_integer(source->checkpoint, name, least, most, otherwise);
}

static void read_sizes(struct config *config, const struct source *source, int64_t tokens) {
    config->vocabulary = read_size(source, "vocab_size", "vocab_size", 1, MOST_VOCABULARY, tokens);
    config->width = read_size(source, "hidden_size", "embedding_length", 1, MOST, NONE);
    config->inner = read_size(source, "intermediate_size", "feed_forward_length", 1, MOST, NONE);
    config->layers = read_size(source, "num_hidden_layers", "block_count", 0, MOST, NONE);
    config->heads = read_size(source, "num_attention_heads", "attention.head_count", 1, MOST, NONE);
    config->kv_heads = read_size(source, "num_key_value_heads", "attention.head_count_kv", 1, MOST, config->heads);
    config->head = read_size(source, "head_dim", "attention.key_length", 2, MOST, config->width / config->heads);
    config->positions = read_size(source, "max_position_embeddings", "context_length", 1, MOST_VOCABULARY, 2048);
    config->epsilon = (float)read_number(source, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 0, 1, 1e-6);
    config->base = read_number(source, "rope_theta", "rope.freq_base", 1, 1e12, 10000);
    const char *path = source->checkpoint->path;
    if (config->heads % config->kv_heads != 0)
        fail("%s: %" PRId64 " key/value heads do not divide %" PRId64 " heads", path, config->kv_heads, config->heads);
    if (config->head < 2 || config->head % 2 != 0)
        fail("%s: heads of width %" PRId64 " have no pairs to turn", path, config->head);
}

static float *base_frequencies(const struct config *config) {
    const int64_t pairs = config->head / 2;
    float *frequencies = allocate(pairs, sizeof *frequencies);
    for (int64_t i = 0; i < pairs; i++)
        frequencies[i] = (float)pow(config->base, -(double)i / (double)pairs);
    return frequencies;
}

/* Llama 3's: long waves become `factor` times as long, short ones stay, and between them it is gradual. */
static void scale_gradually(const struct config *config, const struct settings *rope, double factor) {
    const double low = settings_number(rope, "low_freq_factor", 1e-3, 1e6, NONE);
    const double high = settings_number(rope, "high_freq_factor", 1e-3, 1e6, NONE);
    const double length = settings_number(rope, "original_max_position_embeddings", 1, MOST, NONE);
    if (high <= low)
        fail("%s: high_freq_factor is %g, must be more than low_freq_factor, %g", rope->path, high, low);
    for (int64_t i = 0; i < config->head / 2; i++) {
        const double frequency = config->frequencies[i], waves = length * frequency / two_pi;
        const double share = fmin(fmax((waves - low) / (high - low), 0), 1);
        config->frequencies[i] = (float)((1 - share) * frequency / factor + share * frequency);
    }
}

static void read_rope(struct config *config, const struct settings *settings) {
    struct settings rope = settings_object(settings, "rope_parameters"); /* since transformers 5 */
    config->base = settings_number(&rope, "rope_theta", 1, 1e12, config->base);
    if (!rope.json)
        rope = settings_object(settings, "rope_scaling");
    const char *type = settings_string(&rope, "rope_type", settings_string(&rope, "type", "default"));
    if (strcmp(type, "default") == 0)
        return;
    const double factor = settings_number(&rope, "factor", 1e-3, 1e6, NONE);
    config->frequencies = base_frequencies(config);
    if (strcmp(type, "llama3") == 0)
        scale_gradually(config, &rope, factor);
    else if (strcmp(type, "linear") == 0)
        for (int64_t i = 0; i < config->head / 2; i++)
            config->frequencies[i] /= (float)factor;
    else
        fail("%s: rope_type is %s, must be default, linear or llama3", rope.path, type);
}

static void add_stop(struct config *config, const char *path, const char *field, double token) {
    if (!(token >= 0 && token < (double)config->vocabulary) || token != floor(token))
        fail("%s: %s is %g, must be a token less than %" PRId64, path, field, token, config->vocabulary);
    if (config->stops == MOST_STOPS)
        fail("%s: %s: there are more than %d tokens that end a text", path, field, MOST_STOPS);
    config->stop[config->stops++] = (int32_t)token;
}

/* eos_token_id is a number or a list of them; generation_config.json knows better than config.json. */
static void read_stops(struct config *config, const struct settings *settings) {
    static const char field[] = "eos_token_id";
    const json_t *value = json_object_get(settings->json, field);
    if (json_is_array(value))
        for (size_t i = 0; i < json_array_size(value); i++)
            add_stop(config, settings->path, field,
                     json_is_real(json_array_get(value, i)) ? json_real_value(json_array_get(value, i)) : -1);
    else if (value && !json_is_null(value))
        add_stop(config, settings->path, field, json_is_real(value) ? json_real_value(value) : -1);
}

static void read_json(struct config *config, const char *folder, const struct checkpoint *checkpoint) {
    const struct settings settings = settings_open(folder, "config.json"),
                          generation = settings_open(folder, "generation_config.json");
    settings_require(&settings);
    const char *type = settings_string(&settings, "model_type", "missing");
    if (strcmp(type, "llama") != 0 && strcmp(type, "mistral") != 0 && strcmp(type, "qwen2") != 0)
        fail("%s: model_type is %s, must be llama, mistral or qwen2", settings.path, type);
    settings_expect(&settings, "hidden_act", "silu");
    if (settings_flag(&settings, "mlp_bias", false) || settings_flag(&settings, "use_sliding_window", false))
        fail("%s: mlp_bias or use_sliding_window is true, must be false", settings.path);
    read_sizes(config, &(struct source){&settings, checkpoint, type}, NONE);
    if (strcmp(type, "mistral") == 0) /* a window that is never full is none */
        settings_number(&settings, "sliding_window", (double)config->positions, 1e18, 1e18);
    config->tied = settings_flag(&settings, "tie_word_embeddings", false);
    read_rope(config, &settings);
    read_stops(config, &generation);
    if (config->stops == 0)
        read_stops(config, &settings);
}

/* Scaled frequencies are divided by a factor, or by one each: what Llama 3's scaling comes to. */
static void read_gguf_rope(struct config *config, const struct source *source) {
    static const char factors[] = "rope_freqs.weight";
    const struct checkpoint *checkpoint = source->checkpoint;
    const int64_t pairs = config->head / 2;
    char name[FIELD_BYTES];
    snprintf(name, sizeof name, "%s.rope.scaling.type", source->architecture);
    const struct text type = gguf_text(checkpoint, name, "none");
    const bool linear = text_is(type, "linear"), each = checkpoint_has(checkpoint, factors);
    if (!linear && !text_is(type, "none"))
        fail("%s: %s is %.*s, must be none or linear", checkpoint->path, name, text_shown(type), type.data);
    if (read_size(source, "", "rope.dimension_count", 2, MOST, config->head) != config->head)
        fail("%s: %s.rope.dimension_count must be the width of a head, %" PRId64, checkpoint->path, source->architecture,
             config->head);
    const double factor = linear ? read_number(source, "", "rope.scaling.factor", 1e-3, 1e6, NONE) : 1;
    const struct tensor divisors = each ? checkpoint_tensor(checkpoint, factors, 0, pairs) : (struct tensor){.type = HEED_F32};
    if (divisors.type != HEED_F32)
        fail("%s: %s is not of floats", checkpoint->path, factors);
    if (linear || each)
        config->frequencies = base_frequencies(config);
    for (int64_t i = 0; i < pairs && config->frequencies; i++)
        config->frequencies[i] /= (float)factor * (each ? ((const float *)divisors.data)[i] : 1);
}

static void read_gguf(struct config *config, const struct checkpoint *checkpoint) {
    static const char *const stops[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    const struct text architecture = gguf_text(checkpoint, "general.architecture", "missing");
    const bool qwen2 = text_is(architecture, "qwen2");
    if (!qwen2 && !text_is(architecture, "llama"))
        fail("%s: general.architecture is %.*s, must be llama or qwen2", checkpoint->path, text_shown(architecture),
             architecture.data);
    const struct source source = {NULL, checkpoint, qwen2 ? "qwen2" : "llama"};
    int64_t tokens;
    free(gguf_texts(checkpoint, "tokenizer.ggml.tokens", &tokens));
    read_sizes(config, &source, tokens > 0 ? tokens : NONE);
    config->interleaved = !qwen2;
    config->tied = !checkpoint_has(checkpoint, "output.weight");
    read_gguf_rope(config, &source);
    for (int i = 0; i < 2; i++)
        if (gguf_has_field(checkpoint, stops[i]))
            add_stop(config, checkpoint->path, stops[i], gguf_number(checkpoint, stops[i], 0, MOST_VOCABULARY, NONE));
}

struct config config_read(const char *path, const struct checkpoint *checkpoint) {
    struct config config = {.width = 0};
    if (checkpoint->gguf)
        read_gguf(&config, checkpoint);
    else
        read_json(&config, path, checkpoint);
    return config;
}

bool config_stops(const struct config *config, int32_t token) {
    for (int i = 0; i < config->stops; i++)
        if (config->stop[i] == token)
            return true;
    return false;
}
