/* What attention's options cost in prefill: terms of scores, masks, further outputs, windows, grouped heads, packed sequences.  The
 * price of each is its time over that of a plain causal call of the same useful work: pairs of a query and a key that it sees. */
#include "attention_work.h"

#include <algorithm>
#include <cmath>

namespace bench {
namespace {

/* --- Options that a plain call of the same shape is without --- */

struct Option {
    const char *name;
    void (*add)(AttentionWork &work);
    double (*bytes)(const Shape &shape); /* that it has read or written beside; NULL: next to none */
};

/* Elements of a [heads, queries, keys] tensor, and those that a causal query sees. */
int64_t elements(const Shape &shape) { return shape.heads * shape.queries * shape.keys; }
double seen_bytes(const Shape &shape) { return 4 * static_cast<double>(shape.heads) * visible_pairs(shape); }
double tensor_bytes(const Shape &shape) { return 4 * static_cast<double>(elements(shape)); }

void add_softcap(AttentionWork &work) { work.request.softcap = 30; }

void add_bias(AttentionWork &work) {
    const Shape &shape = work.shape();
    work.request.bias = {work.random(elements(shape), 1), 0, shape.queries * shape.keys, shape.keys, 1};
}

void add_bias_row(AttentionWork &work) { work.request.bias = {work.random(work.shape().keys, 1), 0, 0, 0, 1}; }

/* One byte in two hides its key. */
const uint8_t *random_mask(AttentionWork &work, int64_t bytes) {
    const float *numbers = work.random(bytes, 1);
    uint8_t *mask = reinterpret_cast<uint8_t *>(work.own((bytes + 3) / 4).data());
    std::transform(numbers, numbers + bytes, mask, [](float x) { return x > 0; });
    return mask;
}

void add_mask(AttentionWork &work) {
    const Shape &shape = work.shape();
    work.request.mask = {random_mask(work, shape.queries * shape.keys), 0, 0, shape.keys, 1};
}

void add_mask_row(AttentionWork &work) { work.request.mask = {random_mask(work, work.shape().keys), 0, 0, 0, 1}; }

void add_alibi(AttentionWork &work) {
    float *slopes = work.own(work.shape().heads).data();
    for (int64_t head = 0; head < work.shape().heads; head++)
        slopes[head] = std::exp2(-8 * static_cast<float>(head + 1) / static_cast<float>(work.shape().heads));
    work.request.alibi_slopes = slopes;
}

void add_relative(AttentionWork &work) {
    const int64_t buckets = 32, most = 128; /* of T5 */
    work.request.relative = {work.random(buckets * work.shape().heads, 1), 1, work.shape().heads, buckets, most, false};
}

void add_sinks(AttentionWork &work) { work.request.sinks = work.random(work.shape().heads, 1); }

void add_all_terms(AttentionWork &work) {
    for (auto add : {add_softcap, add_bias, add_alibi, add_relative, add_sinks})
        add(work);
}

heed_output output_of(AttentionWork &work, int64_t columns) {
    const Shape &shape = work.shape();
    return {work.own(shape.heads * shape.queries * columns).data(), 0, shape.queries * columns, columns, HEED_F32};
}

void want_weights(AttentionWork &work) { work.request.weights = output_of(work, work.shape().keys); }
void want_lse(AttentionWork &work) { work.request.lse = output_of(work, 1); }
void want_raw_scores(AttentionWork &work) { work.request.scores = output_of(work, work.shape().keys); }

void want_mass(AttentionWork &work) {
    const Shape &shape = work.shape();
    work.request.mass = {work.own(shape.heads * shape.keys).data(), 0, shape.keys, shape.keys, HEED_F32};
}

/* Over the last queries alone, as caches are evicted by. */
void want_mass_of_last(AttentionWork &work) {
    want_mass(work);
    work.request.mass_queries = 32;
}

void want_states(AttentionWork &work) {
    const int64_t chunks = (work.shape().keys + 255) / 256;
    work.request.states = {output_of(work, chunks * work.shape().head_dim), output_of(work, chunks), output_of(work, chunks)};
}

double states_bytes(const Shape &shape) {
    return 4 * static_cast<double>(shape.heads * shape.queries * ((shape.keys + 255) / 256) * (shape.head_dim + 2));
}

const Option options[] = {
    {"softcap", add_softcap, nullptr},
    {"bias", add_bias, seen_bytes},
    {"bias-row", add_bias_row, nullptr},
    {"mask", add_mask, [](const Shape &shape) { return visible_pairs(shape); }},
    {"mask-row", add_mask_row, nullptr},
    {"alibi", add_alibi, nullptr},
    {"relative", add_relative, nullptr},
    {"sinks", add_sinks, nullptr},
    {"all-terms", add_all_terms, seen_bytes},
    {"weights", want_weights, tensor_bytes},
    {"lse", want_lse, nullptr},
    {"raw-scores", want_raw_scores, tensor_bytes},
    {"mass", want_mass, nullptr},
    {"mass-of-last", want_mass_of_last, nullptr},
    {"states", want_states, states_bytes},
};

Request option_request(const Shape &shape, const Option &option) {
    Request request = request_of("options", shape, option.name);
    request.bytes += option.bytes ? option.bytes(shape) : 0;
    request.make = [shape, option] {
        auto work = std::make_unique<AttentionWork>(shape);
        option.add(*work);
        return work;
    };
    request.make_plain = [shape] { return std::make_unique<AttentionWork>(shape); };
    return request;
}

/* --- Options that change the shape: the plain call has another one --- */

Request shape_request(const Shape &shape, const Shape &plain) {
    Request request = request_of("options", shape);
    request.make = [shape] { return std::make_unique<AttentionWork>(shape); };
    request.make_plain = [plain] { return std::make_unique<AttentionWork>(plain); };
    request.plain_work = useful_flops(plain) / useful_flops(shape);
    return request;
}

/* Against a sequence without a window that has about as many pairs. */
Request window_request(const Shape &shape) {
    Shape plain = shape;
    plain.window = 0;
    plain.queries = plain.keys = static_cast<int64_t>(std::sqrt(2 * visible_pairs(shape)));
    return shape_request(shape, plain);
}

/* Against a key/value head for each query head. */
Request grouped_request(const Shape &shape) {
    Shape plain = shape;
    plain.kv_heads = plain.heads;
    return shape_request(shape, plain);
}

/* Against the same sequences padded to the longest: what an engine without packing would compute. */
Request packed_request(Shape shape, const std::vector<int64_t> &lengths) {
    Shape padded = shape;
    padded.batch = shape.batch = static_cast<int64_t>(lengths.size());
    padded.queries = padded.keys = *std::max_element(lengths.begin(), lengths.end());
    shape.lengths = lengths;
    shape.queries = shape.keys = 0;
    for (int64_t length : lengths)
        shape.queries = shape.keys += length;
    Request request = request_of("options", shape);
    request.make = [shape] { return std::make_unique<AttentionWork>(shape); };
    request.make_plain = [padded, lengths] {
        auto work = std::make_unique<AttentionWork>(padded);
        work->request.alignment = HEED_ALIGN_TOP_LEFT;
        work->request.key_lengths = work->numbers(lengths);
        return work;
    };
    return request;
}

std::vector<Request> all_requests() {
    std::vector<Request> requests;
    for (const Option &option : options) {
        requests.push_back(option_request({1, 8, 8, 1024, 1024, 128, true}, option));
        requests.push_back(option_request({1, 12, 12, 1024, 1024, 64, true}, option));
    }
    for (int64_t tokens : {4096, 16384})
        requests.push_back(window_request({1, 8, 8, tokens, tokens, 128, true, 512}));
    for (int64_t kv_heads : {8, 1})
        requests.push_back(grouped_request({1, 32, kv_heads, 1024, 1024, 128, true}));
    requests.push_back(packed_request({1, 8, 8, 0, 0, 128, true}, {37, 1000, 512, 3, 777, 250, 129, 888}));
    return requests;
}

std::vector<Request> few_requests() {
    std::vector<Request> requests;
    for (const Option &option : options)
        requests.push_back(option_request({1, 4, 4, 130, 130, 40, true}, option));
    requests.push_back(window_request({1, 2, 2, 600, 600, 64, true, 70}));
    requests.push_back(grouped_request({1, 4, 1, 100, 100, 64, true}));
    requests.push_back(packed_request({1, 4, 4, 0, 0, 40, true}, {37, 130, 1, 60}));
    return requests;
}

} // namespace

void add_options(const Plan &plan) {
    add_many(plan, [](bool few, int) { return few ? few_requests() : all_requests(); });
}

} // namespace bench
