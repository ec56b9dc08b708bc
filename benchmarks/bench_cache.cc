/* The calls around attention: heed_kv_append, with and without rotary embedding, and planning once for many small calls. */
#include "attention_work.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace bench {
namespace {

/* --- heed_kv_append: a token of each of many sequences, or a chunk of one ---
 *
 * Every element is read and written once; the limit is the rate of copies of as many bytes. */

enum class Rope { none, half_split, interleaved };
const char *const rope_names[] = {"plain", "rope-half-split", "rope-interleaved"};

struct AppendShape {
    int64_t batch, tokens, kv_heads, head_dim;
};

class AppendWork : public Work {
  public:
    AppendWork(const AppendShape &shape, Rope rope);
    heed_status call(const heed_exec &exec) override { return heed_kv_append(&append_, &exec); }
    std::string check() override;

  private:
    void add_rope(Rope rope);
    std::string check_key(int64_t sequence, int64_t head, int64_t token);
    std::vector<double> turned(int64_t sequence, const float *key, int64_t token) const;
    std::vector<float> stored_key(const float *data, int64_t sequence, int64_t head, int64_t token) const;

    static const int64_t page_tokens = 64, capacity = 4096;
    AppendShape shape_;
    heed_kv_cache cache_ = {};
    struct heed_kv_append append_ = {};
    Buffer key_, value_, cos_, sin_;
    std::unique_ptr<Buffer> data_, scalar_data_;
    std::vector<int64_t> positions_;
};

AppendWork::AppendWork(const AppendShape &shape, Rope rope)
    : shape_(shape), key_(shape.batch * shape.tokens * shape.kv_heads * shape.head_dim),
      value_(shape.batch * shape.tokens * shape.kv_heads * shape.head_dim), cos_(capacity * shape.head_dim / 2),
      sin_(capacity * shape.head_dim / 2) {
    const int64_t d = shape.head_dim, token = shape.kv_heads * d, sequence = shape.tokens * token;
    key_.fill(1, 1);
    value_.fill(1, 2);
    cache_.page_tokens = page_tokens;
    cache_.pages_per_sequence = capacity / page_tokens;
    cache_.num_pages = shape.batch * cache_.pages_per_sequence;
    cache_.num_kv_heads = shape.kv_heads;
    cache_.head_dim = cache_.value_dim = d;
    data_ = std::make_unique<Buffer>(cache_.num_pages * heed_kv_page_bytes(&cache_) / 4);
    cache_.data = data_->data();
    for (int64_t b = 0; b < shape.batch; b++)
        positions_.push_back(b * 97 % (capacity - shape.tokens));
    append_.batch = shape.batch, append_.tokens = shape.tokens;
    append_.positions = positions_.data();
    append_.key = {key_.data(), sequence, d, token, HEED_F32};
    append_.value = {value_.data(), sequence, d, token, HEED_F32};
    append_.cache = &cache_;
    if (rope != Rope::none)
        add_rope(rope);
}

void AppendWork::add_rope(Rope rope) {
    const int64_t pairs = shape_.head_dim / 2;
    for (int64_t position = 0; position < capacity; position++)
        for (int64_t i = 0; i < pairs; i++) {
            double angle = static_cast<double>(position) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs));
            cos_.data()[position * pairs + i] = static_cast<float>(std::cos(angle));
            sin_.data()[position * pairs + i] = static_cast<float>(std::sin(angle));
        }
    append_.rope = {pairs, cos_.data(), sin_.data(), pairs, capacity, rope == Rope::interleaved};
}

/* By the formula of struct heed_kv_cache. */
std::vector<float> AppendWork::stored_key(const float *data, int64_t sequence, int64_t head, int64_t token) const {
    const int64_t d = shape_.head_dim, position = positions_[static_cast<size_t>(sequence)] + token, t = position % page_tokens;
    const int64_t page = sequence * cache_.pages_per_sequence + position / page_tokens;
    const float *start = data + page * heed_kv_page_bytes(&cache_) / 4 + head * page_tokens * 2 * d + t;
    std::vector<float> key;
    for (int64_t i = 0; i < d; i++)
        key.push_back(start[i * page_tokens]);
    return key;
}

std::vector<double> AppendWork::turned(int64_t sequence, const float *key, int64_t token) const {
    const int64_t pairs = append_.rope.pairs, row = (positions_[static_cast<size_t>(sequence)] + token) * pairs;
    std::vector<double> exact(key, key + shape_.head_dim);
    for (int64_t i = 0; i < pairs; i++) {
        const size_t a = static_cast<size_t>(append_.rope.interleaved ? 2 * i : i);
        const size_t b = append_.rope.interleaved ? a + 1 : a + static_cast<size_t>(pairs);
        const double c = static_cast<double>(cos_.data()[row + i]), s = static_cast<double>(sin_.data()[row + i]);
        const double x = exact[a], y = exact[b];
        exact[a] = x * c - y * s;
        exact[b] = y * c + x * s;
    }
    return exact;
}

/* An element is the sum of two products, one of which is rounded before: off by 2 u of at most 2, with u = 2^-24. */
std::string AppendWork::check_key(int64_t sequence, int64_t head, int64_t token) {
    const heed_input &key = append_.key;
    const float *source =
        static_cast<const float *>(key.data) + sequence * key.batch_stride + head * key.head_stride + token * key.token_stride;
    const std::vector<float> got = stored_key(data_->data(), sequence, head, token);
    const double rounded = append_.rope.pairs > 0 ? 1.01 * 4 / 16777216.0 : 0;
    return compare_row(sequence * shape_.tokens + token, got.data(), stored_key(scalar_data_->data(), sequence, head, token),
                       turned(sequence, source, token), {rounded, 0});
}

std::string AppendWork::check() {
    const int64_t floats = cache_.num_pages * heed_kv_page_bytes(&cache_) / 4;
    heed_kv_cache scalar_cache = cache_;
    struct heed_kv_append scalar = append_;
    scalar_data_ = std::make_unique<Buffer>(floats);
    scalar_cache.data = scalar_data_->data();
    scalar.cache = &scalar_cache;
    if (heed_kv_append(&scalar, &scalar_exec) != HEED_OK)
        return heed_error_message();
    for (int64_t row : rows_to_check(shape_.batch * shape_.tokens, 4 * shape_.head_dim)) {
        std::string wrong = check_key(row / shape_.tokens, row % shape_.kv_heads, row % shape_.tokens);
        if (!wrong.empty())
            return wrong;
    }
    bool same = std::memcmp(data_->data(), scalar_data_->data(), static_cast<size_t>(floats) * sizeof(float)) == 0;
    scalar_data_.reset();
    return same ? "" : "the scalar kernels leave another cache";
}

Request append_request(const AppendShape &shape, Rope rope) {
    Request request;
    request.group = "append";
    request.shape = "B" + std::to_string(shape.batch) + "_KV" + std::to_string(shape.kv_heads) + "_T" +
                    std::to_string(shape.tokens) + "_D" + std::to_string(shape.head_dim) + "_" + rope_names[static_cast<int>(rope)];
    request.bytes = 16.0 * static_cast<double>(shape.batch * shape.tokens * shape.kv_heads * shape.head_dim);
    request.flops = rope == Rope::none ? 0 : 3.0 / 16 * request.bytes; /* a pair of the keys' elements takes six */
    request.figure = Figure::bytes;
    request.copies = true;
    request.make = [shape, rope] { return std::make_unique<AppendWork>(shape, rope); };
    if (rope != Rope::none)
        request.make_plain = [shape] { return std::make_unique<AppendWork>(shape, Rope::none); };
    return request;
}

/* --- heed_attention_plan and heed_attention_run against heed_attention --- */

class PlannedWork : public AttentionWork {
  public:
    using AttentionWork::AttentionWork;
    heed_status call(const heed_exec &exec) override {
        if (!workspace_) {
            heed_status status = heed_attention_plan(&request, &exec, &plan_);
            if (status != HEED_OK)
                return status;
            workspace_ = own(plan_.workspace_bytes / static_cast<int64_t>(sizeof(float)) + 1).data();
        }
        return heed_attention_run(&plan_, nullptr, workspace_);
    }

  private:
    heed_plan plan_ = {};
    void *workspace_ = nullptr;
};

Request planned_request(const Shape &shape) {
    Request request = request_of("planned", shape);
    request.figure = Figure::time;
    request.make = [shape] { return std::make_unique<PlannedWork>(shape); };
    request.make_plain = [shape] { return std::make_unique<AttentionWork>(shape); };
    return request;
}

std::vector<Request> requests_of(bool few) {
    std::vector<Request> requests;
    const AppendShape appends[] = {{32, 1, 8, 128}, {1, 512, 8, 128}}, few_appends[] = {{3, 1, 2, 64}, {1, 100, 2, 64}};
    for (const AppendShape &shape : few ? few_appends : appends)
        for (Rope rope : {Rope::none, Rope::half_split, Rope::interleaved})
            requests.push_back(append_request(shape, rope));
    for (const Shape &shape : {Shape{1, 1, 1, 3, 3, 3, false}, Shape{1, 1, 1, 1, 64, 64, false}, Shape{1, 8, 2, 1, 64, 64, false}})
        requests.push_back(planned_request(shape));
    return requests;
}

} // namespace

void add_cache(const Plan &plan) {
    add_many(plan, [](bool few, int) { return requests_of(few); });
}

} // namespace bench
