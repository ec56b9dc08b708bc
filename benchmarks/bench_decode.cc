/* Few new tokens against many keys: rows, tokens, linear and paged caches, draft trees, windows, sequences of various lengths or
 * packed, keys split over threads, and keys in two calls whose states are merged.
 *
 * Decoding reads every key and value once and does little with them.  So that they come from memory, as they do in a model of many
 * layers, the calls take 256 MiB of layers in turn, and the limit is the read bandwidth of as large a working set. */
#include "attention_work.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace bench {
namespace {

const int64_t head_dim = 128;
const double layers_bytes = 256 << 20;

/* Of the keys and values of one layer that calls read. */
double layer_bytes(const Shape &shape) {
    const int64_t keys = shape.window ? std::min(shape.keys, shape.queries + shape.window - 1) : shape.keys;
    return 8.0 * static_cast<double>(shape.batch * shape.kv_heads * keys * shape.head_dim);
}

Storage storage_of(const Shape &shape, bool few, Storage::Kind kind = Storage::rows, int64_t page_tokens = 64) {
    const int64_t layers = std::max<int64_t>(1, static_cast<int64_t>(layers_bytes / layer_bytes(shape)));
    return {kind, few ? 2 : layers, page_tokens};
}

using Add = void (*)(AttentionWork &work);

Maker maker_of(const Shape &shape, const Storage &storage, Add add = nullptr) {
    return [shape, storage, add] {
        auto work = std::make_unique<AttentionWork>(shape, storage);
        if (add)
            add(*work);
        return work;
    };
}

/* A request on rows, without a price yet. */
Request plain_request(const Shape &shape, bool few, const std::string &option) {
    Request request = request_of("decode", shape, option);
    const Storage storage = storage_of(shape, few);
    request.working_set = static_cast<double>(storage.layers) * layer_bytes(shape);
    request.make = maker_of(shape, storage);
    return request;
}

/* Heads side by side, as projections leave them. */
Request tokens_request(const Shape &shape, bool few) {
    Request request = plain_request(shape, few, "tokens");
    request.make = maker_of(shape, storage_of(shape, few, Storage::tokens));
    return request;
}

/* Against the same keys as rows. */
Request cache_request(const Shape &shape, bool few, Storage::Kind kind, int64_t page_tokens = 64) {
    Request request = plain_request(shape, few, kind == Storage::linear ? "linear" : "pages-of-" + std::to_string(page_tokens));
    request.make_plain = request.make;
    request.make = maker_of(shape, storage_of(shape, few, kind, page_tokens));
    if (kind == Storage::linear && shape.queries == 1)
        request.label = "decode, " + std::to_string(shape.keys) + " keys";
    return request;
}

/* The same layer in every call, as the last level of cache holds it. */
Request one_layer_request(const Shape &shape) {
    Request request = request_of("decode", shape, "linear_one-layer");
    request.label = "decode, " + std::to_string(shape.keys) + " keys, one layer";
    request.make = maker_of(shape, {Storage::linear});
    return request;
}

/* Drafts: token i sees itself, its parent (i - 1) / 2, and so on up to the root.  Against the same tokens all seeing all. */
Request tree_request(const Shape &shape, bool few) {
    Request request = plain_request(shape, few, "tree");
    request.make_plain = request.make;
    request.make = maker_of(shape, storage_of(shape, few), [](AttentionWork &work) {
        const int64_t tokens = work.shape().queries;
        uint64_t *words = reinterpret_cast<uint64_t *>(work.own(2 * tokens).data());
        for (int64_t i = 0; i < tokens; i++)
            words[i] = (i > 0 ? words[(i - 1) / 2] : 0) | uint64_t{1} << i;
        work.request.tree = {words, 0, 1, tokens};
    });
    return request;
}

/* Against as many keys as the window has. */
Request window_request(const Shape &shape, bool few) {
    Shape plain = shape;
    plain.keys = shape.window + shape.queries - 1;
    plain.window = 0;
    Request request = plain_request(shape, few, "");
    request.make_plain = plain_request(plain, few, "").make;
    request.plain_work = useful_flops(plain) / useful_flops(shape);
    return request;
}

/* Sequence b of a paged cache has (b + 1) / batch of its keys in use.  Against as many keys spread evenly. */
Request lengths_request(const Shape &shape, bool few) {
    Shape even = shape;
    even.keys = (shape.keys + shape.keys / shape.batch) / 2;
    Request request = plain_request(shape, few, "lengths");
    request.flops = useful_flops(even);
    request.bytes = touched_bytes(even);
    request.working_set = 0;
    request.make = maker_of(shape, storage_of(shape, few, Storage::paged), [](AttentionWork &work) {
        std::vector<int64_t> lengths;
        for (int64_t b = 1; b <= work.shape().batch; b++)
            lengths.push_back(b * work.shape().keys / work.shape().batch);
        work.request.key_lengths = work.numbers(lengths);
    });
    request.make_plain = maker_of(even, storage_of(even, few, Storage::paged));
    return request;
}

/* One token of each sequence, packed, as schedulers of many requests have them.  Against the same as a batch. */
Request packed_request(const Shape &shape, bool few) {
    Request request = plain_request(shape, few, "packed");
    const Storage storage = storage_of(shape, few, Storage::paged);
    request.make = maker_of(shape, storage, [](AttentionWork &work) {
        struct heed_attention &packed = work.request;
        std::vector<int64_t> starts(static_cast<size_t>(packed.batch) + 1);
        std::iota(starts.begin(), starts.end(), 0);
        packed.query_starts = work.numbers(starts);
        packed.query_tokens = packed.batch;
        packed.query.token_stride = packed.query.batch_stride;
        packed.output.token_stride = packed.output.batch_stride;
    });
    request.make_plain = maker_of(shape, storage);
    return request;
}

class OneThread : public AttentionWork {
  public:
    using AttentionWork::AttentionWork;
    heed_status call(const heed_exec &exec) override {
        heed_exec one = exec;
        one.threads = 1;
        return AttentionWork::call(one);
    }
};

/* Fewer key/value heads than threads could share: the price is the time of all threads over that of one alone. */
Request split_request(const Shape &shape, bool few, int threads) {
    Request request = plain_request(shape, few, "split");
    const Storage storage = storage_of(shape, few);
    if (threads > 1)
        request.make_plain = [shape, storage] { return std::make_unique<OneThread>(shape, storage); };
    request.plain_work = threads;
    return request;
}

/* The keys in two calls, each giving states, and their merge. */
class TwoParts : public AttentionWork {
  public:
    explicit TwoParts(const Shape &shape) : AttentionWork(shape) {
        const int64_t rows = shape.heads * shape.queries;
        int64_t first = 0;
        for (int64_t keys : {shape.keys / 512 * 256, shape.keys - shape.keys / 512 * 256}) {
            const int64_t chunks = (keys + 255) / 256, d = shape.head_dim;
            const heed_output output = {own(rows * chunks * d).data(), 0, shape.queries * chunks * d, chunks * d, HEED_F32};
            const heed_output max = {own(rows * chunks).data(), 0, shape.queries * chunks, chunks, HEED_F32};
            const heed_output sum = {own(rows * chunks).data(), 0, shape.queries * chunks, chunks, HEED_F32};
            calls_.push_back(part_of(first, keys, {output, max, sum}));
            parts_.push_back({chunks, input(output), input(max), input(sum)});
            first += keys;
        }
        merge_.batch = 1, merge_.num_heads = shape.heads;
        merge_.query_tokens = shape.queries, merge_.value_dim = shape.head_dim;
        merge_.parts = static_cast<int64_t>(parts_.size()), merge_.part = parts_.data();
        merge_.output = request.output;
    }
    heed_status call(const heed_exec &exec) override {
        heed_status status = attend(exec);
        return status == HEED_OK ? merge(exec) : status;
    }

  protected:
    heed_status attend(const heed_exec &exec) {
        heed_status status = HEED_OK;
        for (size_t i = 0; status == HEED_OK && i < calls_.size(); i++)
            status = heed_attention(&calls_[i], &exec);
        return status;
    }
    heed_status merge(const heed_exec &exec) { return heed_merge_states(&merge_, &exec); }

  private:
    static heed_input input(const heed_output &x) { return {x.data, x.batch_stride, x.head_stride, x.token_stride, HEED_F32}; }
    struct heed_attention part_of(int64_t first, int64_t keys, const heed_states &states) const {
        struct heed_attention part = request;
        part.key_position = first, part.key_tokens = keys;
        part.key.data = static_cast<const float *>(part.key.data) + first * part.key.token_stride;
        part.value.data = static_cast<const float *>(part.value.data) + first * part.value.token_stride;
        part.output = {};
        part.states = states;
        return part;
    }
    std::vector<struct heed_attention> calls_;
    std::vector<heed_states_part> parts_;
    heed_merge merge_ = {};
};

/* The merge alone: the states are computed once. */
class MergeWork : public TwoParts {
  public:
    using TwoParts::TwoParts;
    heed_status call(const heed_exec &exec) override {
        heed_status status = std::exchange(attended_, true) ? HEED_OK : attend(exec);
        return status == HEED_OK ? merge(exec) : status;
    }

  private:
    bool attended_ = false;
};

Request parts_request(const Shape &shape) {
    Request request = request_of("decode", shape, "two-parts");
    request.make = [shape] { return std::make_unique<TwoParts>(shape); };
    request.make_plain = [shape] { return std::make_unique<AttentionWork>(shape); };
    return request;
}

Request merge_request(const Shape &shape) {
    Request request = request_of("merge", shape);
    const int64_t chunks = (shape.keys + 255) / 256, rows = shape.heads * shape.queries;
    request.flops = 3.0 * static_cast<double>(rows * chunks * (shape.head_dim + 1));
    request.bytes = 4.0 * static_cast<double>(rows * (chunks * (shape.head_dim + 2) + shape.head_dim));
    request.figure = Figure::bytes;
    request.make = [shape] { return std::make_unique<MergeWork>(shape); };
    return request;
}

std::vector<Request> all_requests(int threads) {
    const bool few = false;
    std::vector<Request> requests;
    std::vector<Shape> shapes = {{1, 8, 2, 512, 4608, head_dim, true}};
    for (int64_t keys : {1024, 4096, 32768})
        for (int64_t queries : {1, 4, 16})
            shapes.push_back({1, 32, 8, queries, keys, head_dim, true});
    for (int64_t width : {64, 80, 256})
        shapes.push_back({1, 32, 8, 1, 4096, width, true});
    for (const Shape &shape : shapes) {
        requests.push_back(plain_request(shape, few, "rows"));
        requests.push_back(tokens_request(shape, few));
        requests.push_back(cache_request(shape, few, Storage::linear));
        requests.push_back(cache_request(shape, few, Storage::paged));
    }
    for (int64_t keys : {1024, 4096})
        requests.push_back(one_layer_request({1, 32, 8, 1, keys, head_dim, true}));
    for (int64_t queries : {1, 512})
        requests.push_back(cache_request({1, 8, 2, queries, 4096 + queries, head_dim, true}, few, Storage::paged, 16));
    for (int64_t queries : {1, 4, 16})
        for (int64_t keys : {4096, 32768})
            requests.push_back(split_request({1, 8, 1, queries, keys, head_dim, true}, few, threads));
    requests.push_back(tree_request({1, 32, 8, 16, 4096, head_dim, false}, few));
    requests.push_back(window_request({1, 32, 8, 1, 8192, head_dim, true, 4096}, few));
    requests.push_back(lengths_request({8, 32, 8, 1, 4096, head_dim, true}, few));
    requests.push_back(packed_request({32, 32, 8, 1, 1024, head_dim, true}, few));
    requests.push_back(parts_request({1, 32, 8, 1, 32768, head_dim, false}));
    for (int64_t queries : {1, 16})
        requests.push_back(merge_request({1, 32, 8, queries, 32768, head_dim, false}));
    return requests;
}

std::vector<Request> few_requests(int threads) {
    const bool few = true;
    std::vector<Request> requests;
    const Shape one = {1, 8, 2, 1, 600, 64, true}, chunk = {1, 8, 2, 70, 600, 64, true};
    requests.push_back(plain_request(one, few, "rows"));
    requests.push_back(tokens_request(one, few));
    requests.push_back(cache_request(one, few, Storage::linear));
    requests.push_back(cache_request(one, few, Storage::paged));
    requests.push_back(one_layer_request(one));
    requests.push_back(cache_request(chunk, few, Storage::paged, 16));
    requests.push_back(split_request({1, 8, 1, 4, 2000, 64, true}, few, threads));
    requests.push_back(tree_request({1, 8, 2, 16, 600, 64, false}, few));
    requests.push_back(window_request({1, 8, 2, 1, 1000, 64, true, 300}, few));
    requests.push_back(lengths_request({4, 8, 2, 1, 400, 64, true}, few));
    requests.push_back(packed_request({32, 8, 2, 1, 300, 64, true}, few));
    requests.push_back(parts_request({1, 8, 2, 3, 1000, 64, false}));
    requests.push_back(merge_request({1, 8, 2, 3, 1000, 64, false}));
    return requests;
}

} // namespace

void add_decode(const Plan &plan) {
    add_many(plan, [](bool few, int threads) { return few ? few_requests(threads) : all_requests(threads); });
}

} // namespace bench
