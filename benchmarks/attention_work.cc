/* See attention_work.h. */
#include "attention_work.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

namespace bench {
namespace {

const float amplitude = 1.7320508f; /* of queries and keys: variance 1, as after a layer norm; values are below 1 in size */

double pairs_of_sequence(const Shape &shape, int64_t queries, int64_t keys) {
    int64_t pairs = 0;
    for (int64_t i = 0; i < queries; i++) {
        int64_t end = shape.causal ? std::clamp<int64_t>(i + 1 + keys - queries, 0, keys) : keys;
        pairs += shape.window ? std::min(end, shape.window) : end;
    }
    return static_cast<double>(pairs);
}

int64_t bytes_of(heed_type type) { return type == HEED_F32 ? 4 : type == HEED_I8 ? 1 : 2; }
const char *name_of(heed_type type) {
    return type == HEED_F32 ? "f32" : type == HEED_BF16 ? "bf16" : type == HEED_F16 ? "f16" : "int8";
}

/* The work's own. */
float *floats_of(const heed_input &view) { return static_cast<float *>(const_cast<void *>(view.data)); }

} // namespace

uint16_t half_of(heed_type type, float x) {
    return type == HEED_BF16 ? ref_round_bf16(static_cast<double>(x)) : ref_round_f16(static_cast<double>(x));
}
float float_of(heed_type type, uint16_t half) {
    return static_cast<float>(type == HEED_BF16 ? ref_widen_bf16(half) : ref_widen_f16(half));
}

std::string name_of(const Shape &shape) {
    const auto number = [](const char *letters, int64_t n) { return letters + std::to_string(n); };
    return number("B", shape.batch) + number("_H", shape.heads) + number("_KV", shape.kv_heads) + number("_Q", shape.queries) +
           number("_K", shape.keys) + number("_D", shape.head_dim) + (shape.causal ? "_causal" : "_full") +
           (shape.window ? number("_window", shape.window) : "") + (shape.lengths.empty() ? "" : "_packed");
}

double visible_pairs(const Shape &shape) {
    if (shape.lengths.empty())
        return static_cast<double>(shape.batch) * pairs_of_sequence(shape, shape.queries, shape.keys);
    double pairs = 0;
    for (int64_t length : shape.lengths)
        pairs += pairs_of_sequence(shape, length, length);
    return pairs;
}

double useful_flops(const Shape &shape) { return 4.0 * static_cast<double>(shape.heads * shape.head_dim) * visible_pairs(shape); }

double touched_bytes(const Shape &shape, heed_type type) {
    int64_t keys = shape.window ? std::min(shape.keys, shape.queries + shape.window - 1) : shape.keys;
    const int64_t sequences = shape.lengths.empty() ? shape.batch : 1, d = shape.head_dim, scale = type == HEED_I8 ? 4 : 0;
    const int64_t queries = shape.heads * shape.queries * d * bytes_of(type == HEED_I8 ? HEED_F32 : type);
    return 2 * static_cast<double>(sequences * (queries + shape.kv_heads * keys * (d * bytes_of(type) + scale)));
}

Request request_of(const std::string &group, const Shape &shape, const std::string &option, heed_type type) {
    Request request;
    request.group = group;
    request.shape = name_of(shape) + (option.empty() ? "" : "_" + option);
    request.dtype = name_of(type);
    request.flops = useful_flops(shape);
    request.bytes = touched_bytes(shape, type);
    return request;
}

AttentionWork::AttentionWork(const Shape &shape, const Storage &storage)
    : request{}, shape_(shape), type_(storage.type == HEED_I8 ? HEED_F32 : storage.type), cache_{}, layers_(storage.layers) {
    const bool packed = !shape.lengths.empty();
    const int64_t d = shape.head_dim;
    request.batch = shape.batch;
    request.num_heads = shape.heads, request.num_kv_heads = shape.kv_heads;
    request.query_tokens = shape.queries, request.key_tokens = shape.keys;
    request.head_dim = request.value_dim = d;
    request.causal = shape.causal;
    request.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    if (shape.window)
        request.window = {true, shape.window - 1, -1};
    query_ = rows(1, shape.batch, shape.heads, shape.queries, amplitude);
    request.query = query_.stored;
    const int64_t head = shape.queries * d, sequence = shape.heads * head, elements = (packed ? 1 : shape.batch) * sequence;
    request.output = {own((elements * bytes_of(type_) + 3) / 4).data(), sequence, head, d, type_};
    if (packed) {
        std::vector<int64_t> starts = {0};
        for (int64_t length : shape.lengths)
            starts.push_back(starts.back() + length);
        request.query_starts = request.key_starts = numbers(starts);
    }
    store(storage);
}

Buffer &AttentionWork::own(int64_t floats) {
    owned_.push_back(std::make_unique<Buffer>(floats));
    return *owned_.back();
}

float *AttentionWork::random(int64_t floats, float size) {
    Buffer &buffer = own(floats);
    buffer.fill(size, owned_.size());
    return buffer.data();
}

int64_t *AttentionWork::numbers(std::vector<int64_t> values) {
    numbers_.push_back(std::move(values));
    return numbers_.back().data();
}

/* All layers hold the same numbers, so that the output is the same whichever was used last; and only numbers that the type has. */
AttentionWork::Rows AttentionWork::rows(int64_t layers, int64_t sequences, int64_t heads, int64_t tokens, float size) {
    const int64_t d = shape_.head_dim, head = tokens * d, sequence = heads * head;
    const int64_t elements = (shape_.lengths.empty() ? sequences : 1) * sequence, bytes = elements * bytes_of(type_);
    float *floats = random(elements, size);
    void *stored = floats;
    if (type_ != HEED_F32 || layers > 1)
        stored = own((layers * bytes + 3) / 4).data();
    if (type_ != HEED_F32)
        for (int64_t i = 0; i < elements; i++)
            floats[i] = float_of(type_, static_cast<uint16_t *>(stored)[i] = half_of(type_, floats[i]));
    else if (layers > 1)
        std::memcpy(stored, floats, static_cast<size_t>(bytes));
    for (int64_t layer = 1; layer < layers; layer++)
        std::memcpy(static_cast<char *>(stored) + layer * bytes, stored, static_cast<size_t>(bytes));
    return {{floats, sequence, head, d, HEED_F32}, {stored, sequence, head, d, type_}};
}

void AttentionWork::store(const Storage &storage) {
    const bool cached = storage.kind != Storage::rows && storage.kind != Storage::tokens;
    const int64_t layers = cached ? 1 : layers_;
    key_ = rows(layers, shape_.batch, shape_.kv_heads, shape_.keys, amplitude);
    value_ = rows(layers, shape_.batch, shape_.kv_heads, shape_.keys, 1);
    for (heed_input *view : {&key_.floats, &key_.stored, &value_.floats, &value_.stored})
        if (storage.kind == Storage::tokens)
            view->head_stride = shape_.head_dim, view->token_stride = shape_.kv_heads * shape_.head_dim;
    request.key = key_.stored;
    request.value = value_.stored;
    if (cached)
        move_to_cache(storage);
}

void AttentionWork::move_to_cache(const Storage &storage) {
    const bool paged = storage.kind == Storage::paged;
    cache_.key_type = cache_.value_type = storage.type;
    cache_.num_kv_heads = shape_.kv_heads;
    cache_.head_dim = cache_.value_dim = shape_.head_dim;
    cache_.page_tokens = paged ? storage.page_tokens : (shape_.keys + 63) / 64 * 64;
    cache_.pages_per_sequence = cache_.table_stride = (shape_.keys + cache_.page_tokens - 1) / cache_.page_tokens;
    cache_.num_pages = shape_.batch * cache_.pages_per_sequence;
    for (int32_t page = 0; paged && page < cache_.num_pages; page++)
        table_.push_back(page);
    std::shuffle(table_.begin(), table_.end(), std::mt19937_64(1));
    cache_.page_table = paged ? table_.data() : nullptr;
    layer_floats_ = cache_.num_pages * heed_kv_page_bytes(&cache_) / 4;
    cache_.data = first_layer_ = own(layers_ * layer_floats_).data();
    struct heed_kv_append append = {};
    append.batch = shape_.batch, append.tokens = shape_.keys;
    append.key = request.key, append.value = request.value;
    append.cache = &cache_;
    if (heed_kv_append(&append, nullptr) != HEED_OK)
        throw std::runtime_error(heed_error_message());
    if (storage.type == HEED_I8)
        read_back();
    for (int64_t layer = 1; layer < layers_; layer++)
        std::copy(first_layer_, first_layer_ + layer_floats_, first_layer_ + layer * layer_floats_);
    request.key = request.value = {};
    request.cache = &cache_;
}

/* What a linear cache of bytes holds becomes what it came from, by the formulas of struct heed_kv_cache. */
void AttentionWork::read_back() {
    const int64_t d = cache_.head_dim, tokens = cache_.page_tokens, value_ld = (d + 15) / 16 * 16;
    const int64_t key_scales = (tokens * d + 63) / 64 * 64, values = key_scales + 4 * tokens,
                  value_scales = values + tokens * value_ld;
    for (int64_t row = 0; row < shape_.batch * cache_.num_kv_heads * shape_.keys; row++) {
        const int64_t t = row % shape_.keys;
        const char *head =
            static_cast<const char *>(cache_.data) + row / shape_.keys * (heed_kv_page_bytes(&cache_) / cache_.num_kv_heads);
        float *key = floats_of(key_.floats) + row * d, *value = floats_of(value_.floats) + row * d, scale[2];
        std::memcpy(&scale[0], head + key_scales + 4 * t, sizeof(float));
        std::memcpy(&scale[1], head + value_scales + 4 * t, sizeof(float));
        for (int64_t i = 0; i < d; i++) {
            key[i] = scale[0] * static_cast<float>(static_cast<signed char>(head[t / 64 * 64 * d + i * 64 + t % 64]));
            value[i] = scale[1] * static_cast<float>(static_cast<signed char>(head[values + t * value_ld + i]));
        }
    }
}

void AttentionWork::next_layer() {
    layer_ = (layer_ + 1) % layers_;
    if (request.cache) {
        cache_.data = first_layer_ + layer_ * layer_floats_;
        return;
    }
    const int64_t bytes = layer_ * (shape_.lengths.empty() ? shape_.batch : 1) * request.key.batch_stride * bytes_of(type_);
    request.key.data = static_cast<const char *>(key_.stored.data) + bytes;
    request.value.data = static_cast<const char *>(value_.stored.data) + bytes;
}

heed_status AttentionWork::call(const heed_exec &exec) {
    if (layers_ > 1)
        next_layer();
    return heed_attention(&request, &exec);
}

} // namespace bench
