/* Attention: prefill over sequence lengths and head sizes, full and causal, a ragged grouped-query case, decoding of one token, and
 * the smallest problem, which shows a call's cost. */
#include "bench.h"

#include <algorithm>
#include <cmath>

extern "C" {
#include "reference/reference.h"
}

namespace bench {
namespace {

struct Shape {
    int64_t heads, kv_heads, queries, keys, head_dim;
    bool causal;
};

std::vector<Shape> prefill(std::initializer_list<int64_t> tokens) {
    std::vector<Shape> shapes;
    for (bool causal : {false, true})
        for (int64_t n : tokens) {
            shapes.push_back({12, 12, n, n, 64, causal});
            shapes.push_back({8, 8, n, n, 128, causal});
        }
    return shapes;
}

std::vector<Shape> all_shapes() {
    std::vector<Shape> shapes = prefill({128, 512, 2048, 4096});
    for (int64_t head_dim : {32, 80, 96, 256})
        shapes.push_back({8, 8, 1024, 1024, head_dim, false});
    shapes.push_back({4, 1, 1024, 1024, 64, false});
    shapes.push_back({5, 1, 1000, 1000, 72, false});
    for (int64_t keys : {1024, 4096, 32768})
        shapes.push_back({32, 8, 1, keys, 128, false});
    shapes.push_back({1, 1, 3, 3, 3, false});
    return shapes;
}

std::vector<Shape> scalar_shapes() {
    std::vector<Shape> shapes = prefill({128});
    shapes.push_back({32, 8, 1, 1024, 128, false});
    shapes.push_back({1, 1, 3, 3, 3, false});
    return shapes;
}

std::vector<Shape> brief_shapes() {
    return {{4, 2, 100, 300, 40, false}, {4, 4, 130, 130, 64, true}, {8, 2, 1, 700, 64, false}, {1, 1, 3, 3, 3, false}};
}

/* Keys seen by query i: the last query sees the last key. */
int64_t visible(const Shape &shape, int64_t i) {
    return shape.causal ? std::clamp<int64_t>(i + 1 + shape.keys - shape.queries, 0, shape.keys) : shape.keys;
}

/* Two multiply-adds per visible pair and element of a head. */
double useful_flops(const Shape &shape) {
    int64_t pairs = 0;
    for (int64_t i = 0; i < shape.queries; i++)
        pairs += visible(shape, i);
    return 4.0 * static_cast<double>(shape.heads * shape.head_dim * pairs);
}

const float amplitude = 1.7320508f; /* of queries and keys: variance 1, as after a layer norm; values are below 1 in size */

/* With u = 2^-24 and D = head_dim: a base-2 score is off by at most (D + 6) u * sum |q'||k| <= (D + 6) u * 3 sqrt(D) * 1.45, the 6
 * for the roundings of the scale, of the scaled query and of the distance to the maximum.  That changes each weight and their sum
 * by ln 2 as much.  Beside it stand exp2 (2 u), the sum over a chunk (20 deep), its products with the values (256 deep), and for
 * each chunk merged two factors and two roundings of each sum (10 u). */
Tolerance tolerance(const Shape &shape) {
    double d = static_cast<double>(shape.head_dim), chunks = static_cast<double>(shape.keys / 256 + 1);
    double score = (d + 6) * 3 * std::sqrt(d) * 1.45;
    return {1.01 * (2 * 0.6932 * score + 280 + 10 * chunks) / 16777216.0, 0};
}

class Attention : public Work {
  public:
    explicit Attention(const Shape &shape);
    heed_status call(const heed_exec &exec) override { return heed_attention(&attention_, &exec); }
    std::string check() override;

  private:
    struct heed_attention one_row(int64_t head, int64_t query, float *output) const;

    Shape shape_;
    Buffer query_, key_, value_, output_;
    struct heed_attention attention_;
};

Attention::Attention(const Shape &shape)
    : shape_(shape), query_(shape.heads * shape.queries * shape.head_dim), key_(shape.kv_heads * shape.keys * shape.head_dim),
      value_(shape.kv_heads * shape.keys * shape.head_dim), output_(shape.heads * shape.queries * shape.head_dim), attention_{} {
    query_.fill(amplitude, 1);
    key_.fill(amplitude, 2);
    value_.fill(1, 3);
    const int64_t d = shape.head_dim, q_head = shape.queries * d, kv_head = shape.keys * d;
    attention_.batch = 1;
    attention_.num_heads = shape.heads, attention_.num_kv_heads = shape.kv_heads;
    attention_.query_tokens = shape.queries, attention_.key_tokens = shape.keys;
    attention_.head_dim = attention_.value_dim = d;
    attention_.causal = shape.causal;
    attention_.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    attention_.query = {query_.data(), shape.heads * q_head, q_head, d};
    attention_.key = {key_.data(), shape.kv_heads * kv_head, kv_head, d};
    attention_.value = {value_.data(), shape.kv_heads * kv_head, kv_head, d};
    attention_.output = {output_.data(), shape.heads * q_head, q_head, d};
}

/* What one query computes alone: the keys that it sees are the first ones, and no other row has a part in its result. */
struct heed_attention Attention::one_row(int64_t head, int64_t query, float *output) const {
    int64_t kv_head = head / (shape_.heads / shape_.kv_heads);
    struct heed_attention one = attention_;
    one.num_heads = one.num_kv_heads = one.query_tokens = 1;
    one.key_tokens = visible(shape_, query);
    one.causal = false;
    one.query.data += head * one.query.head_stride + query * one.query.token_stride;
    one.key.data += kv_head * one.key.head_stride;
    one.value.data += kv_head * one.value.head_stride;
    one.output.data = output;
    return one;
}

std::string Attention::check() {
    std::vector<float> scalar(static_cast<size_t>(shape_.head_dim));
    std::vector<double> exact(static_cast<size_t>(shape_.head_dim));
    for (int64_t row : rows_to_check(shape_.heads * shape_.queries, 4 * shape_.keys * shape_.head_dim)) {
        struct heed_attention one = one_row(row / shape_.queries, row % shape_.queries, scalar.data());
        if (heed_attention(&one, &scalar_exec) != HEED_OK)
            return heed_error_message();
        struct ref_attention_result result = {};
        result.output = exact.data();
        if (!ref_attention(&one, &result))
            return "no memory for the exact result";
        std::string wrong = compare_row(row, output_.data() + row * shape_.head_dim, scalar, exact, tolerance(shape_));
        if (!wrong.empty())
            return wrong;
    }
    return "";
}

void add_shape(const Shape &shape, const std::string &isa, int threads) {
    Request request;
    request.group = "attention";
    request.shape = "B1_H" + std::to_string(shape.heads) + "_KV" + std::to_string(shape.kv_heads) + "_Q" +
                    std::to_string(shape.queries) + "_K" + std::to_string(shape.keys) + "_D" + std::to_string(shape.head_dim) +
                    (shape.causal ? "_causal" : "_full");
    request.flops = useful_flops(shape);
    request.bytes = 8.0 * static_cast<double>((shape.heads * shape.queries + shape.kv_heads * shape.keys) * shape.head_dim);
    request.reports_bytes = false;
    request.make = [shape] { return std::make_unique<Attention>(shape); };
    add(request, isa, threads);
}

} // namespace

void add_attention(const Plan &plan) {
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas)
            for (const Shape &shape : plan.brief ? brief_shapes() : is_scalar(isa) ? scalar_shapes() : all_shapes())
                add_shape(shape, isa, threads);
}

} // namespace bench
