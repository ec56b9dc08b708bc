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
    config->base = settings_number(settings, "rope_theta", 1, 1e12, 10000);
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

static struct config read_json(const char *folder) {
    const struct settings settings = settings_open(folder, "config.json"),
                          generation = settings_open(folder, "generation_config.json");
    settings_require(&settings);
    const char *type = settings_string(&settings, "model_type", "missing");
    if (strcmp(type, "llama") != 0 && strcmp(type, "mistral") != 0 && strcmp(type, "qwen2") != 0)
        fail("%s: model_type is %s, must be llama, mistral or qwen2", settings.path, type);
    settings_expect(&settings, "hidden_act", "silu");
    if (settings_flag(&settings, "mlp_bias", false) || settings_flag(&settings, "use_sliding_window", false))
        fail("%s: mlp_bias or use_sliding_window is true, must be false", settings.path);
    if (strcmp(type, "mistral") == 0)
        settings_number(&settings, "sliding_window",
                        (double)settings_integer(&settings, "max_position_embeddings", 1, MOST_VOCABULARY, NONE), 1e18, 1e18);
    struct config config = {.width = settings_integer(&settings, "hidden_size", 1, MOST, NONE)};
    config.vocabulary = settings_integer(&settings, "vocab_size", 1, MOST_VOCABULARY, NONE);
    config.inner = settings_integer(&settings, "intermediate_size", 1, MOST, NONE);
    config.layers = settings_integer(&settings, "num_hidden_layers", 0, MOST, NONE);
    config.heads = settings_integer(&settings, "num_attention_heads", 1, MOST, NONE);
    config.kv_heads = settings_integer(&settings, "num_key_value_heads", 1, MOST, config.heads);
    config.head = settings_integer(&settings, "head_dim", 2, MOST, config.width / config.heads);
    config.positions = settings_integer(&settings, "max_position_embeddings", 1, MOST_VOCABULARY, 2048);
    config.epsilon = (float)settings_number(&settings, "rms_norm_eps", 0, 1, 1e-6);
    config.tied = settings_flag(&settings, "tie_word_embeddings", false);
    read_rope(&config, &settings);
    read_stops(&config, &generation);
    if (config.stops == 0)
        read_stops(&config, &settings);
    return config;
}

/* A field that begins with the name of the architecture. */
static const char *field_of(const char *architecture, const char *field, char *full) {
    snprintf(full, FIELD_BYTES, "%s.%s", architecture, field);
    return full;
}

static void read_gguf_rope(struct config *config, const struct checkpoint *checkpoint, const char *architecture) {
    char name[FIELD_BYTES];
    const struct text type = gguf_text(checkpoint, field_of(architecture, "rope.scaling.type", name), "none");
    const bool linear = type.bytes == 6 && memcmp(type.data, "linear", 6) == 0;
    if (!linear && (type.bytes != 4 || memcmp(type.data, "none", 4) != 0))
        fail("%s: %s is %.*s, must be none or linear", checkpoint->path, name,
             (int)(type.bytes < FIELD_BYTES ? type.bytes : FIELD_BYTES), type.data);
    config->base = gguf_number(checkpoint, field_of(architecture, "rope.freq_base", name), 1, 1e12, 10000);
    if (gguf_integer(checkpoint, field_of(architecture, "rope.dimension_count", name), 2, MOST, config->head) != config->head)
        fail("%s: %s must be the width of a head, %" PRId64, checkpoint->path, name, config->head);
    const double factor =
        linear ? gguf_number(checkpoint, field_of(architecture, "rope.scaling.factor", name), 1e-3, 1e6, NONE) : 1;
    const bool has_factors = checkpoint_has(checkpoint, "rope_freqs.weight"); /* what Llama 3's scaling comes to */
    if (!linear && !has_factors)
        return;
    const struct tensor factors =
        has_factors ? checkpoint_tensor(checkpoint, "rope_freqs.weight", 0, config->head / 2) : (struct tensor){.rows = 0};
    if (has_factors && factors.type != HEED_F32)
        fail("%s: rope_freqs.weight is not of floats", checkpoint->path);
    config->frequencies = base_frequencies(config);
    for (int64_t i = 0; i < config->head / 2; i++)
        config->frequencies[i] /= (float)factor * (has_factors ? ((const float *)factors.data)[i] : 1);
}

static struct config read_gguf(const struct checkpoint *checkpoint) {
    const struct text architecture = gguf_text(checkpoint, "general.architecture", "");
    const bool qwen2 = architecture.bytes == 5 && memcmp(architecture.data, "qwen2", 5) == 0;
    if (!qwen2 && (architecture.bytes != 5 || memcmp(architecture.data, "llama", 5) != 0))
        fail("%s: general.architecture is %.*s, must be llama or qwen2", checkpoint->path,
             (int)(architecture.bytes < FIELD_BYTES ? architecture.bytes : FIELD_BYTES), architecture.data);
    const char *scope = qwen2 ? "qwen2" : "llama";
    char name[FIELD_BYTES];
    struct config config = {.interleaved = !qwen2, .tied = !checkpoint_has(checkpoint, "output.weight")};
    int64_t tokens;
    free(gguf_texts(checkpoint, "tokenizer.ggml.tokens", &tokens));
    config.vocabulary =
        gguf_integer(checkpoint, field_of(scope, "vocab_size", name), 1, MOST_VOCABULARY, tokens > 0 ? tokens : NONE);
    config.width = gguf_integer(checkpoint, field_of(scope, "embedding_length", name), 1, MOST, NONE);
    config.inner = gguf_integer(checkpoint, field_of(scope, "feed_forward_length", name), 1, MOST, NONE);
    config.layers = gguf_integer(checkpoint, field_of(scope, "block_count", name), 0, MOST, NONE);
    config.heads = gguf_integer(checkpoint, field_of(scope, "attention.head_count", name), 1, MOST, NONE);
    config.kv_heads = gguf_integer(checkpoint, field_of(scope, "attention.head_count_kv", name), 1, MOST, config.heads);
    config.head = gguf_integer(checkpoint, field_of(scope, "attention.key_length", name), 2, MOST, config.width / config.heads);
    config.positions = gguf_integer(checkpoint, field_of(scope, "context_length", name), 1, MOST_VOCABULARY, 2048);
    config.epsilon = (float)gguf_number(checkpoint, field_of(scope, "attention.layer_norm_rms_epsilon", name), 0, 1, 1e-5);
    read_gguf_rope(&config, checkpoint, scope);
    static const char *const stops[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    for (int i = 0; i < 2; i++)
        if (gguf_has_field(checkpoint, stops[i]))
            add_stop(&config, checkpoint->path, stops[i], gguf_number(checkpoint, stops[i], 0, MOST_VOCABULARY, NONE));
    return config;
}

struct config config_read(const char *path, const struct checkpoint *checkpoint) {
    const struct config config = checkpoint->gguf ? read_gguf(checkpoint) : read_json(path);
    if (config.heads % config.kv_heads != 0)
        fail("%s: %" PRId64 " key/value heads do not divide %" PRId64 " heads", checkpoint->path, config.kv_heads, config.heads);
    if (config.head < 2 || config.head % 2 != 0)
        fail("%s: heads of width %" PRId64 " have no pairs to turn", checkpoint->path, config.head);
    return config;
}

bool config_stops(const struct config *config, int32_t token) {
    for (int i = 0; i < config->stops; i++)
        if (config->stop[i] == token)
            return true;
    return false;
}
