/* See config.h.  Sizes have limits that keep their products from overflowing. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 1 << 20, MOST_VOCABULARY = 1 << 30, MOST_EXPERTS = 1 << 10, NONE = SETTINGS_REQUIRED };
static const double two_pi = 6.283185307179586;

/* Where sizes come from: config.json, or fields of a GGUF file that begin with the name of the architecture. */
struct source {
    const struct settings *settings;
    const char *architecture; /* NULL: this is config.json */
    char name[64];
};

static const char *name_of(struct source *source, const char *json, const char *gguf) {
    if (!source->architecture)
        return json;
    snprintf(source->name, sizeof source->name, "%s.%s", source->architecture, gguf);
    return source->name;
}

static int64_t size_of(struct source *source, const char *json, const char *gguf, int64_t least, int64_t most, int64_t otherwise) {
    return settings_integer(source->settings, name_of(source, json, gguf), least, most, otherwise);
}

static double number_of(struct source *source, const char *json, const char *gguf, double least, double most, double otherwise) {
    return settings_number(source->settings, name_of(source, json, gguf), least, most, otherwise);
}

static void read_sizes(struct config *config, struct source *source, int64_t tokens) {
    config->vocabulary = size_of(source, "vocab_size", "vocab_size", 1, MOST_VOCABULARY, tokens);
    config->width = size_of(source, "hidden_size", "embedding_length", 1, MOST, NONE);
    config->inner = size_of(source, "intermediate_size", "feed_forward_length", 1, MOST, NONE);
    config->layers = size_of(source, "num_hidden_layers", "block_count", 0, MOST, NONE);
    config->heads = size_of(source, "num_attention_heads", "attention.head_count", 1, MOST, NONE);
    config->kv_heads = size_of(source, "num_key_value_heads", "attention.head_count_kv", 1, MOST, config->heads);
    config->head = size_of(source, "head_dim", "attention.key_length", 2, MOST, config->width / config->heads);
    config->positions = size_of(source, "max_position_embeddings", "context_length", 1, MOST_VOCABULARY, 2048);
    config->epsilon = (float)number_of(source, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 0, 1, 1e-6);
    config->base = number_of(source, "rope_theta", "rope.freq_base", 1, 1e12, 10000);
    const char *path = source->settings->path;
    if (config->heads % config->kv_heads != 0)
        fail("%s: %" PRId64 " key/value heads do not divide %" PRId64 " heads", path, config->kv_heads, config->heads);
    if (config->head < 2 || config->head % 2 != 0)
        fail("%s: heads of width %" PRId64 " have no pairs to turn", path, config->head);
}

/* Of a mixture `inner` is the width of an expert, which GGUF files of Mixtral call as that of other layers. */
static void read_experts(struct config *config, struct source *source, const char *json_count, const char *json_inner) {
    config->experts = size_of(source, json_count, "expert_count", 1, MOST_EXPERTS, NONE);
    config->chosen = size_of(source, "num_experts_per_tok", "expert_used_count", 1, config->experts, NONE);
    config->inner = size_of(source, json_inner, "expert_feed_forward_length", 1, MOST, config->inner);
    config->shares_sum_to_1 = true;
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

static void add_stop(struct config *config, const struct settings *settings, const char *field, const json_t *value) {
    const double token = json_is_real(value) ? json_real_value(value) : -1;
    if (!(token >= 0 && token < (double)config->vocabulary) || token != floor(token))
        fail("%s: %s is %g, must be a token less than %" PRId64, settings->path, field, token, config->vocabulary);
    if (config->stops == MOST_STOPS)
        fail("%s: %s: there are more than %d tokens that end a text", settings->path, field, MOST_STOPS);
    config->stop[config->stops++] = (int32_t)token;
}

/* The field is a number or a list of them. */
static void read_stops(struct config *config, const struct settings *settings, const char *field) {
    const json_t *value = json_object_get(settings->json, field);
    for (size_t i = 0; i < json_array_size(value); i++)
        add_stop(config, settings, field, json_array_get(value, i));
    if (value && !json_is_null(value) && !json_is_array(value))
        add_stop(config, settings, field, value);
}

static void read_qwen3_experts(struct config *config, struct source *source) {
    const struct settings *settings = source->settings;
    read_experts(config, source, json_object_get(settings->json, "num_experts") ? "num_experts" : "num_local_experts",
                 "moe_intermediate_size");
    config->shares_sum_to_1 = settings_flag(settings, "norm_topk_prob", false);
    if (settings_integer(settings, "decoder_sparse_step", 1, MOST, 1) != 1 ||
        json_array_size(settings_array(settings, "mlp_only_layers")) > 0)
        fail("%s: decoder_sparse_step or mlp_only_layers leave some layers without experts, must not", settings->path);
}

static void read_json(struct config *config, const char *folder) {
    const struct settings settings = settings_open(folder, "config.json"),
                          generation = settings_open(folder, "generation_config.json");
    settings_require(&settings);
    const char *type = settings_string(&settings, "model_type", "missing");
    const bool mixtral = strcmp(type, "mixtral") == 0, qwen3_moe = strcmp(type, "qwen3_moe") == 0;
    config->head_norms = qwen3_moe || strcmp(type, "qwen3") == 0;
    if (!config->head_norms && !mixtral && strcmp(type, "llama") != 0 && strcmp(type, "mistral") != 0 && strcmp(type, "qwen2") != 0)
        fail("%s: model_type is %s, must be llama, mistral, mixtral, qwen2, qwen3 or qwen3_moe", settings.path, type);
    settings_expect(&settings, "hidden_act", "silu");
    if (settings_flag(&settings, "mlp_bias", false) || settings_flag(&settings, "use_sliding_window", false))
        fail("%s: mlp_bias or use_sliding_window is true, must be false", settings.path);
    struct source source = {.settings = &settings};
    read_sizes(config, &source, NONE);
    if (mixtral)
        read_experts(config, &source, "num_local_experts", "intermediate_size");
    if (qwen3_moe)
        read_qwen3_experts(config, &source);
    if (mixtral || strcmp(type, "mistral") == 0) /* a window that is never full is none */
        settings_number(&settings, "sliding_window", (double)config->positions, 1e18, 1e18);
    config->tied = settings_flag(&settings, "tie_word_embeddings", false);
    read_rope(config, &settings);
    read_stops(config, &generation, "eos_token_id"); /* which knows better */
    if (config->stops == 0)
        read_stops(config, &settings, "eos_token_id");
}

/* Scaled frequencies are divided by a factor, or by one each: what Llama 3's scaling comes to. */
static void read_gguf_rope(struct config *config, struct source *source, const struct checkpoint *checkpoint) {
    static const char factors[] = "rope_freqs.weight";
    const char *type = settings_string(source->settings, name_of(source, NULL, "rope.scaling.type"), "none");
    const bool linear = strcmp(type, "linear") == 0, each = checkpoint_has(checkpoint, factors);
    if (!linear && strcmp(type, "none") != 0)
        fail("%s: %s is %s, must be none or linear", checkpoint->path, source->name, type);
    size_of(source, NULL, "rope.dimension_count", config->head, config->head, config->head);
    if (!linear && !each)
        return;
    const double factor = linear ? number_of(source, NULL, "rope.scaling.factor", 1e-3, 1e6, NONE) : 1;
    const struct tensor divisors =
        each ? checkpoint_tensor(checkpoint, factors, 0, config->head / 2) : (struct tensor){.type = HEED_F32};
    if (divisors.type != HEED_F32)
        fail("%s: %s is not of floats", checkpoint->path, factors);
    config->frequencies = base_frequencies(config);
    for (int64_t i = 0; i < config->head / 2; i++)
        config->frequencies[i] /= (float)factor * (each ? ((const float *)divisors.data)[i] : 1);
}

static void read_gguf(struct config *config, const struct checkpoint *checkpoint) {
    const struct settings *metadata = &checkpoint->metadata;
    const char *architecture = settings_string(metadata, "general.architecture", "missing");
    const bool llama = strcmp(architecture, "llama") == 0, qwen3_moe = strcmp(architecture, "qwen3moe") == 0;
    config->head_norms = qwen3_moe || strcmp(architecture, "qwen3") == 0;
    if (!llama && !config->head_norms && strcmp(architecture, "qwen2") != 0)
        fail("%s: general.architecture is %s, must be llama, qwen2, qwen3 or qwen3moe", checkpoint->path, architecture);
    struct source source = {.settings = metadata, .architecture = architecture};
    const int64_t tokens = (int64_t)json_array_size(settings_array(metadata, "tokenizer.ggml.tokens"));
    read_sizes(config, &source, tokens > 0 ? tokens : NONE);
    if (qwen3_moe || (llama && size_of(&source, NULL, "expert_count", 0, MOST_EXPERTS, 0) > 0))
        read_experts(config, &source, NULL, NULL);
    config->interleaved = llama;
    config->tied = !checkpoint_has(checkpoint, "output.weight");
    read_gguf_rope(config, &source, checkpoint);
    read_stops(config, metadata, "tokenizer.ggml.eos_token_id");
    read_stops(config, metadata, "tokenizer.ggml.eot_token_id");
}

struct config config_read(const char *path, const struct checkpoint *checkpoint) {
    struct config config = {.width = 0};
    if (checkpoint->metadata.json)
        read_gguf(&config, checkpoint);
    else
        read_json(&config, path);
    return config;
}

bool config_stops(const struct config *config, int32_t token) {
    for (int i = 0; i < config->stops; i++)
        if (config->stop[i] == token)
            return true;
    return false;
}
